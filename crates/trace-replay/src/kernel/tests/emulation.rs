//! The 19 kinds of emulation: 11 of metadata, three hints, three undocumented calls, `fsync`, and the exchange.

use super::*;

const MAC: KernelOptions = KernelOptions { platform: Platform::Mac, ..OPTIONS };

/// Whether the directory of tests keeps attributes.
fn has_attributes(scene: &Scene) -> bool {
    let probe = rustix::fs::setxattr(scene.path("f"), "user.probe", b"1", rustix::fs::XattrFlags::empty());
    if let Err(e) = probe {
        esker_skip::skip(esker_skip::Ability::Attributes, format_args!("the file system has none: {e}"));
    }
    probe.is_ok()
}

#[test]
fn m01_getattrlist_looks_and_asks_the_finder() {
    let scene = scene(MAC);
    let ask = |path, len| scene.call(Call::GetAttrList { file: at(path), len });
    assert_eq!((ask("/f", 16), ask("/f", 1000), ask("/none", 16)), (Ok(0), Ok(0), Err(Traced::ENOENT)));
}

#[test]
fn m02_setattrlist_changes_times() {
    let scene = scene(MAC);
    let old = Call::SetTimes { file: at("/f"), accessed: Some(0), modified: Some(1_000_000_000) };
    scene.call(old).unwrap();
    assert_eq!(scene.call(Call::SetAttrList { file: at("/f"), len: 32 }), Ok(0));
    assert!(fs::metadata(scene.path("f")).unwrap().mtime() > 1);
    assert_eq!(scene.call(Call::SetAttrList { file: at("/none"), len: 32 }), Err(Traced::ENOENT));
}

#[test]
fn m03_getdirentriesattr_lists() {
    let scene = scene(MAC);
    scene.open("/", OpenFlags::READ, 0).unwrap();
    let list = || scene.call(Call::GetDirEntriesAttr { fd: Fd(0), len: 32768 });
    assert_eq!((list(), list()), (Ok(5), Ok(0)));
}

#[test]
fn m04_searchfs_is_a_small_access() {
    let scene = scene(MAC);
    let answer = scene.call_as(Call::SearchFs { file: at("/") }, Outcome::Done(0), Vec::new());
    assert_eq!((answer.result, answer.seen, answer.skipped), (Ok(0), None, None));
}

#[test]
fn m05_fsctl_is_a_small_access() {
    let scene = scene(MAC);
    let control = |path| scene.call(Call::FsControl { file: at(path), request: Word::from("HFS_BULKACCESS") });
    assert_eq!((control("/f"), control("/none")), (Ok(0), Err(Traced::ENOENT)));
}

#[test]
fn m06_to_m09_attributes_go_to_the_name_space_of_users() {
    let scene = scene(MAC);
    if !has_attributes(&scene) {
        return;
    }
    let name = Word::from("com.apple.quarantine");
    let set =
        Call::SetXattrAt { file: at("/f"), name: name.clone(), len: 24, position: 512, flags: XattrFlags::empty() };
    assert_eq!(scene.call(set), Ok(0));
    assert_eq!(rustix::fs::getxattr(scene.path("f"), "user.com.apple.quarantine", &mut [0u8; 64][..]), Ok(24));
    let get = Call::GetXattrAt { file: at("/f"), name: name.clone(), len: 100, position: 512 };
    assert_eq!(scene.call(get), Ok(24));
    let listed = scene.call(Call::ListXattr { file: at("/f"), len: 1000 }).unwrap();
    assert!(listed as usize >= "user.com.apple.quarantine".len());
    assert_eq!(scene.call(Call::RemoveXattr { file: at("/f"), name: name.clone() }), Ok(0));
    assert_eq!(scene.call(Call::GetXattr { file: at("/f"), name, len: 100 }), Err(Traced::ENODATA));
}

#[test]
fn m10_clonefile_makes_a_file_with_the_same_bytes() {
    let scene = scene(MAC);
    let clone = || scene.call(Call::CloneFile { from: at("/l"), to: At::cwd("/clone") });
    assert_eq!(clone(), Ok(0));
    assert_eq!(read_all(&scene.path("clone")), read_all(&scene.path("f")));
    assert_eq!(clone(), Err(Traced::EEXIST));
}

#[test]
fn m11_getfsstat_and_fsgetpath_look_at_the_tree() {
    let scene = scene(MAC);
    assert_eq!(scene.call(Call::GetFsStat { len: 2000 }), Ok(0));
    let path = |path: &str| scene.call(Call::FsGetPath { seen: Some(PathBytes::from(path)) });
    assert_eq!((path("/f"), path("/none")), (Ok(0), Err(Traced::ENOENT)));
}

fn hint(scene: &Scene, hint: Hint, offset: i64, len: i64) -> Result<i64, Traced> {
    scene.call(Call::Hinted { fd: Fd(0), hint, offset, len })
}

#[test]
fn h1_hints_to_prefetch_are_given() {
    let scene = scene(MAC);
    scene.open("/f", OpenFlags::READ, 0).unwrap();
    assert_eq!(hint(&scene, Hint::ReadAdvise, 0, 8192), Ok(0));
    assert_eq!(hint(&scene, Hint::ReadAdvise, -1, 8192), Err(Traced::EINVAL));
}

#[test]
fn h2_hints_about_caching_are_given() {
    let scene = scene(MAC);
    scene.open("/f", OpenFlags::READ, 0).unwrap();
    for (kind, value) in [(Hint::NoCache, 1), (Hint::NoCache, 0), (Hint::ReadAhead, 0), (Hint::ReadAhead, 1)] {
        assert_eq!(hint(&scene, kind, 0, value), Ok(0));
    }
}

#[test]
fn h3_preallocation_keeps_the_size() {
    let scene = scene(MAC);
    scene.open("/f", RW, 0).unwrap();
    let call = Call::Preallocate { fd: Fd(0), flags: FallocFlags::F_ALLOCATEALL, offset: 0, len: 1 << 20 };
    assert_eq!(scene.call(call), Ok(0));
    let stat = fs::metadata(scene.path("f")).unwrap();
    assert_eq!(stat.len(), 10_000);
    assert!(stat.blocks() * 512 >= 1 << 20);
}

fn undocumented(scene: &Scene, kind: Obscure, path: &str) -> Result<i64, Traced> {
    scene.call(Call::Undocumented { file: at(path), kind })
}

#[test]
fn u1_to_u3_undocumented_calls_are_small_accesses() {
    let scene = scene(MAC);
    for kind in [Obscure::StatExtended, Obscure::AccessExtended, Obscure::ChmodExtended] {
        assert_eq!(undocumented(&scene, kind, "/f"), Ok(0), "{kind:?}");
        assert_eq!(undocumented(&scene, kind, "/none"), Err(Traced::ENOENT), "{kind:?}");
    }
}

#[test]
fn s1_each_kind_of_sync_is_made_as_it_is_meant() {
    for fsync in [FsyncMeans::Durable, FsyncMeans::Device] {
        let scene = scene(KernelOptions { fsync, ..MAC });
        scene.open("/f", RW, 0).unwrap();
        let pipe = Call::Pipe { seen_read: Fd(1), seen_write: Fd(2), flags: OpenFlags::empty() };
        scene.call_as(pipe, Outcome::Done(0), vec![SlotEffect::Made(Fd(1)), SlotEffect::Made(Fd(2))]);
        let sync = |fd, kind| scene.call(Call::Sync { fd: Fd(fd), kind });
        for kind in [SyncKind::Full, SyncKind::Data, SyncKind::Device, SyncKind::Barrier, SyncKind::FileSystem] {
            assert_eq!(sync(0, kind), Ok(0), "{kind:?} {fsync:?}");
        }
        // Neither call knows pipes, but each says so in its own way: which was made can be told.
        let expected = if fsync == FsyncMeans::Durable { Traced::EINVAL } else { Traced::ESPIPE };
        assert_eq!(sync(1, SyncKind::Full), Err(expected));
        assert_eq!(sync(1, SyncKind::Device), Err(Traced::EINVAL), "this one always reaches the medium");
    }
}

#[test]
fn x1_exchanges_swap_contents_and_leave_no_name() {
    for exchange in [ExchangeBy::Link, ExchangeBy::Rename] {
        let scene = scene(KernelOptions { exchange, ..MAC });
        fs::write(scene.path("d/other"), "other").unwrap();
        let before = read_all(&scene.path("f"));
        let swap = |first, second| scene.call(Call::ExchangeData { first: at(first), second: at(second) });
        assert_eq!(swap("/f", "/d/other"), Ok(0), "{exchange:?}");
        assert_eq!(read_all(&scene.path("f")), b"other");
        assert_eq!(read_all(&scene.path("d/other")), before);
        assert_eq!(swap("/f", "/none"), Err(Traced::ENOENT));
        assert_eq!(read_all(&scene.path("f")), b"other", "a failure changes nothing");
        fs::hard_link(scene.path("f"), scene.path("same")).unwrap();
        assert_eq!(swap("/f", "/same"), Ok(0));
        let names = |dir: &str| fs::read_dir(scene.path(dir)).unwrap().count();
        assert_eq!((names(""), names("d")), (4, 1), "{exchange:?}");
    }
}
