//! What programs that copy files do: access lists, clones, renames to another file system.

use super::*;

fn list(file: &Object, len: u64) -> Call {
    let name = Word::from("system.posix_acl_access");
    Call::SetXattr { file: file.clone(), name, len, flags: XattrFlags::empty() }
}

fn mode(scene: &Scene, name: &str) -> u32 {
    fs::metadata(scene.path(name)).unwrap().mode() & 0o7777
}

fn chmod(scene: &Scene, path: &str, mode: u16) {
    assert_eq!(scene.call(Call::Chmod { file: at(path), mode }), Ok(0));
}

#[test]
fn a_short_access_list_is_the_mode_of_the_file_that_was_asked() {
    let scene = scene(OPTIONS);
    fs::write(scene.path("g"), b"").unwrap();
    chmod(&scene, "/f", 0o644);
    chmod(&scene, "/g", 0o1600);
    // Without a question, the file keeps its own.
    assert_eq!(scene.call(list(&at("/g"), 28)), Ok(0));
    assert_eq!(mode(&scene, "g"), 0o1600);
    let name = Word::from("system.posix_acl_access");
    let ask = Call::GetXattr { file: at("/f"), name, len: 132 };
    let asked = scene.one_hand(&[ask, list(&at("/g"), 28)]);
    assert_eq!(asked[1], Ok(0));
    assert_eq!(mode(&scene, "g"), 0o1644);
}

#[test]
fn a_longer_access_list_is_for_traces_that_are_trusted() {
    let foreign = scene(OPTIONS);
    let set = foreign.call_as(list(&at("/f"), 44), Outcome::Done(0), Vec::new());
    assert_eq!(set.skipped, Some(Skip::Privileged));
    let own = scene(KernelOptions { keep_modes: true, ..OPTIONS });
    match own.call(list(&at("/f"), 44)) {
        Err(Traced::EOPNOTSUPP) => esker_skip::skip(esker_skip::Ability::Attributes, format_args!("no access lists")),
        set => {
            assert_eq!(set, Ok(0));
            let path = own.path("f");
            assert_eq!(rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0u8; 99][..]), Ok(44));
        }
    }
}

#[test]
fn what_failed_by_the_file_systems_of_the_source_is_not_made() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    scene.open("/g", RW | OpenFlags::O_CREAT, 1).unwrap();
    let skipped = |call, errno| {
        let answer = scene.call_as(call, Outcome::Failed(errno), Vec::new());
        assert_eq!(answer.result, Err(errno));
        answer.skipped
    };
    let clone = Call::CloneRange { from: Fd(0), to: Fd(1), from_offset: 0, to_offset: 0, len: 0 };
    let range = Call::CopyRange { from: Fd(0), from_offset: None, to: Fd(1), to_offset: None, len: 10 };
    let rename = Call::Rename { from: At::cwd("/f"), to: At::cwd("/h"), flags: RenameFlags::empty() };
    let flags = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
    let map = Call::Map { fd: Fd(0), address: 0, len: 4096, offset: 0, flags };
    let link = Call::Link { from: at("/f"), to: At::cwd("/h") };
    for (call, errno) in [
        (clone.clone(), Traced::EOPNOTSUPP),
        (clone.clone(), Traced::EXDEV),
        (range, Traced::EXDEV),
        (rename.clone(), Traced::EXDEV),
        (link, Traced::EXDEV),
        (map, Traced::EOPNOTSUPP),
    ] {
        assert_eq!(skipped(call.clone(), errno), Some(Skip::OtherSystems), "{call:?}");
    }
    assert!(scene.path("f").exists() && !scene.path("h").exists());
    assert_eq!(fs::metadata(scene.path("g")).unwrap().len(), 0);
    // Other failures are repeated.
    let again = scene.call_as(rename, Outcome::Failed(Traced::ENOENT), Vec::new());
    assert_eq!((again.result, again.skipped), (Ok(0), None));
}

#[test]
fn a_range_is_copied_as_far_as_the_source_copied_it() {
    let scene = scene(OPTIONS);
    fs::write(scene.path("f"), b"0123456789").unwrap();
    scene.open("/f", RW, 0).unwrap();
    scene.open("/g", RW | OpenFlags::O_CREAT, 1).unwrap();
    let range = Call::CopyRange { from: Fd(0), from_offset: None, to: Fd(1), to_offset: Some(3), len: 10 };
    // The source stopped after four bytes, and began the next copy there.
    assert_eq!(scene.call_as(range.clone(), Outcome::Done(4), Vec::new()).result, Ok(4));
    assert_eq!(scene.call_as(range, Outcome::Done(6), Vec::new()).result, Ok(6));
    assert_eq!(fs::read(scene.path("g")).unwrap(), b"\0\0\x00456789");
}

#[test]
fn a_clone_is_a_copy_where_the_file_system_shares_nothing() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    scene.open("/g", RW | OpenFlags::O_CREAT, 1).unwrap();
    let clone = |len, to_offset| {
        let call = Call::CloneRange { from: Fd(0), to: Fd(1), from_offset: 0, to_offset, len };
        scene.call(call)
    };
    assert_eq!(clone(0, 0), Ok(0));
    assert_eq!(read_all(&scene.path("g")), read_all(&scene.path("f")));
    assert_eq!(clone(4096, 8192), Ok(0));
    assert_eq!(fs::metadata(scene.path("g")).unwrap().len(), 8192 + 4096);
}
