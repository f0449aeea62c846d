//! A medium that was lost is not made anew, and a start that fails leaves nothing behind.

#![allow(clippy::disallowed_methods, reason = "tests make media and look at them")]

use std::path::Path;

use esker_block::{Bio, Buf, Device};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Spec, Stack};

/// Builds and opens the stack, writes to `top`, and closes it; the error of the start, if it fails.
fn serve(dir: &Path, text: &str) -> Result<(), String> {
    let text = text.replace("DIR", &dir.display().to_string());
    let spec = Spec::parse("test", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &spec).map_err(|e| e.to_string())?;
        stack.opened().await;
        let bio = Bio::write(0, Buf::from_bytes(&Pool::default(), &[7; 4096])).fua();
        stack.device("top").unwrap().submit(bio).await.result.map_err(|e| e.to_string())?;
        stack.close().await;
        Ok(())
    })
}

const TWO: &str =
    "a = file path=DIR/a.img size=4MiB direct=false; b = file path=DIR/b.img size=4MiB direct=false MORE; top = ";

fn two(layer: &str, more: &str) -> String {
    TWO.replace("MORE", more) + layer
}

/// Makes a stack, loses `b.img`, and starts `again`: its error, and whether the file is there then.
fn after_a_loss(layer: &str, again: &str) -> (Result<(), String>, bool) {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(serve(dir.path(), &two(layer, "")), Ok(()), "{layer}");
    let b = dir.path().join("b.img");
    std::fs::remove_file(&b).unwrap();
    (serve(dir.path(), again), b.exists())
}

#[test]
fn a_lost_medium_is_not_made_anew_beside_one_that_holds_data() {
    for layer in ["mirror on a, b", "offload on a, b", "concat on a, b", "stripe on a, b"] {
        let (outcome, is_there) = after_a_loss(layer, &two(layer, ""));
        let error = outcome.unwrap_err();
        assert!(
            error.contains("device \"b\"") && error.contains("\"a\", which is below the same layer, holds data"),
            "{error}"
        );
        assert!(!is_there, "{layer}: the file was made anew");
    }
    let layer = "concat on a, b";
    assert_eq!(after_a_loss(layer, &two(layer, "create=always")), (Ok(()), true), "it was asked for");
    let (outcome, is_there) = after_a_loss(layer, &two(layer, "create=never"));
    assert!(outcome.unwrap_err().contains("create = \"never\" creates nothing") && !is_there);
}

#[test]
fn new_media_are_made_beside_blank_ones_and_beside_those_of_other_stacks() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.img"), vec![0; 4 << 20]).unwrap();
    assert_eq!(serve(dir.path(), &two("mirror on a, b", "")), Ok(()));
    let other = "a = file path=DIR/a.img size=4MiB direct=false; old = pass on a; \
                 c = file path=DIR/c.img size=4MiB direct=false; top = pass on c";
    assert_eq!(serve(dir.path(), other), Ok(()));
}

#[test]
fn a_start_that_fails_removes_what_it_made_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.img"), vec![0; 4 << 20]).unwrap();
    let error = serve(dir.path(), &two("stripe chunk=1000 on a, b", "")).unwrap_err();
    assert!(error.contains("chunk"), "{error}");
    let there = ["a.img", "b.img"].map(|name| dir.path().join(name).exists());
    assert_eq!(there, [true, false]);
}
