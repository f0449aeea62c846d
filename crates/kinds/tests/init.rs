//! Media of stacks on new, used and foreign files are made, kept or refused.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests look at the files of stacks")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use esker_block::{Bio, Buf, Device};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{InitError, Making, Spec, Stack, Wanted};

const FILES: &str = "d0 = file path=DIR/a.img size=64MiB; d1 = file path=DIR/b.img size=64MiB; ";
const VMS: &str = "m = mirror on d0,d1; c = crypt key=env:K on m; t = stats on c; \
                   vm = thin segment=1MiB ports=\"web=16MiB,db=1GiB\" on t; export web = vm.web";

fn in_world<T: 'static>(body: impl AsyncFnOnce(Rt) -> T + 'static) -> T {
    let reactor = Reactor::new(RealConfig::seeded(4)).unwrap();
    let rt = reactor.rt();
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
    reactor.block_on(async move { body(rt).await })
}

fn parsed(dir: &Path, text: &str) -> Spec {
    let text = text.replace("DIR", &dir.display().to_string());
    Spec::parse("test", &text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// What was done with each medium; `holds` are devices and what they hold.
fn init(
    dir: &Path,
    text: &str,
    holds: &[(&str, &str)],
    forced: &[&str],
    rehearse: bool,
) -> Result<Vec<(String, Making)>, InitError> {
    let spec = parsed(dir, text).of_media(esker_kinds::ALL, None);
    let holds: BTreeMap<String, String> = holds.iter().map(|(d, what)| (d.to_string(), what.to_string())).collect();
    let wanted = Wanted { holds, forced: forced.iter().map(ToString::to_string).collect(), rehearse };
    let kinds = if rehearse { &esker_kinds::REHEARSED } else { esker_kinds::ALL };
    let media = in_world(async move |rt| Stack::init(&rt, &Pool::default(), kinds, &spec, &wanted).await)?;
    Ok(media.into_iter().map(|medium| (medium.name, medium.done)).collect())
}

/// Rehearses, and then does it; both tell the same.
fn init_twice(dir: &Path, text: &str, holds: &[(&str, &str)], forced: &[&str]) -> Vec<(String, Making)> {
    let rehearsed = init(dir, text, holds, forced, true).unwrap();
    let made = init(dir, text, holds, forced, false).unwrap();
    assert_eq!(rehearsed, made);
    made
}

/// Opens the stack as a server does and gives it to `body`.
fn served<T: 'static>(dir: &Path, text: &str, body: impl AsyncFnOnce(Rc<Stack>) -> T + 'static) -> T {
    let spec = parsed(dir, text);
    in_world(async move |rt| {
        let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &spec).unwrap();
        stack.opened().await;
        let unusable: Vec<_> = stack.stats().into_iter().filter_map(|part| part.unusable).collect();
        assert!(unusable.is_empty(), "{unusable:?}");
        let result = body(stack.clone()).await;
        stack.close().await;
        result
    })
}

async fn write(stack: Rc<Stack>, export: &str, value: u8) {
    let bio = Bio::write(8192, Buf::from_bytes(&Pool::default(), &[value; 4096])).fua();
    stack.export(export).unwrap().submit(bio).await.result.unwrap();
}

async fn read(stack: Rc<Stack>, export: &str) -> u8 {
    let done = stack.export(export).unwrap().submit(Bio::read(8192, Buf::unique(&Pool::default(), 4096))).await;
    done.result.unwrap();
    done.buf.to_vec()[0]
}

fn done(of: &[(&str, Making)]) -> Vec<(String, Making)> {
    of.iter().map(|(name, making)| (name.to_string(), making.clone())).collect()
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn mirror_crypt_and_volumes_are_made_on_new_files_and_kept_the_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{FILES}{VMS}");
    init(dir.path(), &text, &[], &[], true).unwrap();
    assert_eq!(files(dir.path()), Vec::<String>::new(), "a rehearsal creates nothing");
    let made = done(&[("m", Making::Made), ("vm", Making::Made)]);
    assert_eq!(init_twice(dir.path(), &text, &[], &[]), made);
    served(dir.path(), &text, async |stack| write(stack, "web", 7).await);
    let own = [("d0", "a member"), ("d1", "a member")];
    assert_eq!(init_twice(dir.path(), &text, &own, &[]), done(&[("m", Making::Kept), ("vm", Making::Kept)]));
    assert_eq!(served(dir.path(), &text, async |stack| read(stack, "web").await), 7);
}

#[test]
fn what_was_served_blank_behind_crypt_is_told_from_data_by_what_lies_below_crypt() {
    let dir = tempfile::tempdir().unwrap();
    let below = format!("{FILES}m = mirror initial=assume-clean on d0,d1; c = crypt key=env:K on m; export c = c");
    served(dir.path(), &below, async |_| ());
    let own = [("d0", "a member"), ("d1", "a member")];
    let text = format!("{FILES}{VMS}");
    assert_eq!(init_twice(dir.path(), &text, &own, &[]), done(&[("m", Making::Kept), ("vm", Making::Made)]));
    served(dir.path(), &text, async |stack| write(stack, "web", 1).await);
}

#[test]
fn data_behind_crypt_is_refused_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    let data = "d = file path=DIR/d.img size=64MiB; m = mirror on d; c = crypt key=env:K on m; export c = c";
    served(dir.path(), data, async |stack| {
        let bio = Bio::write(0, Buf::from_bytes(&Pool::default(), &[9; 4096])).fua();
        stack.export("c").unwrap().submit(bio).await.result.unwrap();
    });
    let text = format!("{}; v = logvol segment=1MiB on c", data.replace("; export c = c", ""));
    let before = fs::read(dir.path().join("d.img")).unwrap();
    let error = init(dir.path(), &text, &[("d", "a member")], &[], true).unwrap_err().to_string();
    assert!(
        error.contains("device \"v\": what is below it is neither blank nor") && error.contains("--force"),
        "{error}"
    );
    assert!(fs::read(dir.path().join("d.img")).unwrap() == before, "a rehearsal writes nothing");
    let lost = Making::Anew(vec!["what \"c\" holds".to_string()]);
    assert_eq!(init_twice(dir.path(), &text, &[("d", "a member")], &["v"]), done(&[("m", Making::Kept), ("v", lost)]));
}

#[test]
fn a_foreign_content_is_named_wherever_it_lies_on_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{FILES}m = mirror on d0,d1");
    fs::write(dir.path().join("a.img"), vec![0; 64 << 20]).unwrap();
    let error = init(dir.path(), &text, &[("d0", "a.img holds a Btrfs file system")], &[], true).unwrap_err();
    let expected = "test:1: device \"m\": a.img holds a Btrfs file system; to destroy that, say --force";
    assert_eq!(error.to_string(), expected);
    assert_eq!(files(dir.path()), ["a.img"]);
}

#[test]
fn every_kind_with_a_medium_can_be_made_behind_crypt() {
    for layer in ["mirror on c", "logvol segment=1MiB on c", "dedup on c", "shepherd on c", "offload on h,c"] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "d = file path=DIR/d.img size=64MiB; h = file path=DIR/h.img size=32MiB; c = crypt key=env:K on d; v = {layer}; \
             export v = v"
        );
        assert_eq!(init_twice(dir.path(), &text, &[], &[]), done(&[("v", Making::Made)]), "{layer}");
        served(dir.path(), &text, async |stack| write(stack, "v", 3).await);
        assert_eq!(init_twice(dir.path(), &text, &[("d", "noise")], &[]), done(&[("v", Making::Kept)]), "{layer}");
        assert_eq!(served(dir.path(), &text, async |stack| read(stack, "v").await), 3, "{layer}");
        let forced = init_twice(dir.path(), &text, &[("d", "noise")], &["v"]);
        assert_eq!(forced, done(&[("v", Making::Anew(vec!["noise".to_string()]))]), "{layer}");
        served(dir.path(), &text, async |stack| write(stack, "v", 4).await);
    }
}

#[test]
fn a_new_log_keeps_what_lies_at_home() {
    let dir = tempfile::tempdir().unwrap();
    let home = "h = file path=DIR/h.img size=64MiB; ";
    let plain = format!("{home}vm = thin segment=1MiB ports=\"web=16MiB\" on h; export web = vm.web");
    served(dir.path(), &plain, async |stack| write(stack, "web", 5).await);
    let text = format!(
        "{home}l = file path=DIR/l.img size=16MiB; o = offload on h,l; \
         vm = thin segment=1MiB ports=\"web=16MiB\" on o; export web = vm.web"
    );
    let made = init_twice(dir.path(), &text, &[("h", "a volume of esker")], &[]);
    assert_eq!(made, done(&[("o", Making::Made), ("vm", Making::Kept)]));
    assert_eq!(served(dir.path(), &text, async |stack| read(stack, "web").await), 5);
}

#[test]
fn a_device_that_takes_no_writes_is_refused_before_anything_is_created() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.img"), vec![0; 64 << 20]).unwrap();
    let text = "d0 = file path=DIR/a.img read_only=true; d1 = file path=DIR/b.img size=64MiB; m = mirror on d0,d1";
    let error = init(dir.path(), text, &[], &[], true).unwrap_err().to_string();
    assert!(error.contains("\"d0\" takes no writes"), "{error}");
    assert_eq!(files(dir.path()), ["a.img"]);
}
