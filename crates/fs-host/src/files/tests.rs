//! A directory of this machine, changed through the file system and behind it.

#![allow(clippy::disallowed_methods, reason = "tests look at the files below")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use esker_fs_posix::script::at_once;
use esker_rt::real::{Reactor, RealConfig};
use esker_vfs::{FileFlags, FileType, NewKind, Stamp, XattrSet};

use super::*;

/// Open files beyond those that stay open.
const FILES_MANY: usize = 300;

/// A directory that goes with the test, and the file system of a folder in it.
struct Bench {
    reactor: Reactor,
    fs: HostFs,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(None)
    }

    /// With a descriptor for at most so many inodes.
    fn with(kept: Option<usize>) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        let fs = HostFs::open_with(&reactor.rt(), &Pool::default(), &dir.path().join("root"), kept).unwrap();
        Bench { reactor, fs, dir }
    }

    /// A place below the file system.
    fn below(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join("root").join(path)
    }

    fn wait<T: Unpin + 'static>(&self, answer: Answer<T>) -> Result<T, Errno> {
        self.reactor.block_on(async move { answer.await })
    }

    fn make(&self, dir: Ino, name: &str, what: NewKind<'_>) -> Entry {
        let new = New { what, mode: 0o755, ..own() };
        self.wait(self.fs.create(call(), dir, Some(named(name)), new)).unwrap()
    }

    /// Begins a write.
    fn begin(&self, ino: Ino, at: At, bytes: &[u8]) -> Answer<Written> {
        self.fs.write(call(), ino, at, Buf::from_bytes(&Pool::default(), bytes), Write::default())
    }

    fn file(&self, name: &str) -> Ino {
        self.make(self.fs.root(), name, NewKind::File).ino
    }

    fn find(&self, dir: Ino, name: &str) -> Result<Entry, Errno> {
        self.wait(self.fs.lookup(call(), dir, named(name)))
    }

    fn write(&self, ino: Ino, at: At, bytes: &[u8]) -> Result<Written, Errno> {
        self.wait(self.begin(ino, at, bytes))
    }

    fn read(&self, ino: Ino, at: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.wait(self.fs.read(call(), ino, at, len)).map(|buf| buf.to_vec())
    }
}

fn call() -> Call {
    Call::at(Stamp(0))
}

fn named(name: &str) -> Name<'_> {
    Name::new(name.as_bytes()).unwrap()
}

/// An inode of the user that runs the test.
fn own() -> New<'static> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    New { what: NewKind::File, mode: 0o644, uid, gid }
}

#[test]
fn links_are_read_and_not_followed() {
    let bench = Bench::new();
    let root = bench.fs.root();
    symlink("/", bench.below("out")).unwrap();
    symlink("..", bench.below("up")).unwrap();
    for (name, target) in [("out", &b"/"[..]), ("up", b"..")] {
        let link = bench.find(root, name).unwrap();
        assert_eq!(link.attr.kind, FileType::Symlink);
        assert_eq!(&*bench.wait(bench.fs.target(call(), link.ino)).unwrap(), target);
        assert_eq!(bench.find(link.ino, "etc").unwrap_err(), Errno::ENOTDIR);
        assert_eq!(bench.read(link.ino, 0, 1).unwrap_err(), Errno::EINVAL);
        assert_eq!(
            bench.wait(bench.fs.set_attr(call(), link.ino, SetAttr { size: Some(0), ..SetAttr::default() })),
            Err(Errno::EINVAL)
        );
        // Attributes are those of the link.
        let touched = SetAttr { modified: Some(Stamp(5_000_000_007)), ..SetAttr::default() };
        assert_eq!(bench.wait(bench.fs.set_attr(call(), link.ino, touched)).unwrap().modified, Stamp(5_000_000_007));
        let more = bench.wait(bench.fs.link(call(), link.ino, root, named(&format!("{name}-more")))).unwrap();
        assert_eq!((more.ino, more.attr.links), (link.ino, 2));
    }
}

#[test]
fn nothing_is_above_the_root_and_what_left_the_tree_has_no_directory_above() {
    let bench = Bench::new();
    let root = bench.fs.root();
    assert_eq!(bench.wait(bench.fs.parent(call(), root)).unwrap().ino, root);
    let outer = bench.make(root, "a", NewKind::Directory).ino;
    let inner = bench.make(outer, "b", NewKind::Directory).ino;
    bench.fs.forget(outer, 1);
    // The directory above is not pinned, and is found by a walk.
    assert_eq!(bench.wait(bench.fs.parent(call(), inner)).unwrap().ino, outer);
    bench.fs.forget(outer, 1);
    fs::rename(bench.below("a"), bench.dir.path().join("gone")).unwrap();
    assert_eq!(bench.wait(bench.fs.parent(call(), inner)), Err(Errno::ENOENT));
    fs::remove_dir_all(bench.dir.path().join("gone")).unwrap();
    assert_eq!(bench.wait(bench.fs.parent(call(), inner)), Err(Errno::ENOENT));
}

#[test]
fn a_pinned_inode_keeps_its_bytes_without_a_name() {
    let bench = Bench::new();
    let root = bench.fs.root();
    let file = bench.file("f");
    assert_eq!(bench.write(file, At::Offset(3), b"bytes").unwrap(), Written { bytes: 5, end: 8 });
    assert_eq!(bench.write(file, At::End, b"!").unwrap(), Written { bytes: 1, end: 9 });
    bench.find(root, "f").unwrap();
    bench.wait(bench.fs.remove(call(), root, named("f"), Remove::File)).unwrap();
    bench.fs.forget(file, 1);
    assert_eq!(bench.read(file, 0, 100).unwrap(), b"\0\0\0bytes!");
    assert_eq!(bench.wait(bench.fs.link(call(), file, root, named("g"))), Err(Errno::ENOENT));
    bench.fs.forget(file, 1);
    assert_eq!(bench.wait(bench.fs.attr(call(), file)), Err(Errno::ENOENT));
    // What was made without a name gets one.
    let nameless = bench.wait(bench.fs.create(call(), root, None, own())).unwrap();
    bench.write(nameless.ino, At::Offset(0), b"later").unwrap();
    bench.wait(bench.fs.link(call(), nameless.ino, root, named("h"))).unwrap();
    assert_eq!(fs::read(bench.below("h")).unwrap(), b"later");
    bench.fs.forget(nameless.ino, 2);
    assert_eq!(bench.fs.inodes.borrow().counts(), (1, 0));
}

#[test]
#[should_panic(expected = "has 1 pins, and 2 come back")]
fn more_pins_than_there_are_do_not_come_back() {
    let bench = Bench::new();
    bench.fs.forget(bench.file("f"), 2);
}

#[test]
fn a_new_inode_has_the_owner_and_the_mode_of_the_call_or_is_not_there() {
    let bench = Bench::new();
    let root = bench.fs.root();
    let strange = New { uid: 1007, gid: 1008, mode: 0o6711, ..own() };
    for (name, what) in [("f", NewKind::File), ("d", NewKind::Directory), ("l", NewKind::Symlink(b"x"))] {
        let made = bench.wait(bench.fs.create(call(), root, Some(named(name)), New { what, ..strange }));
        if !rustix::process::geteuid().is_root() {
            assert_eq!(made, Err(Errno::EPERM));
            assert!(fs::symlink_metadata(bench.below(name)).is_err(), "{name}");
            continue;
        }
        let below = fs::symlink_metadata(bench.below(name)).unwrap();
        let mode = if name == "l" { 0o777 } else { 0o6711 };
        assert_eq!((below.uid(), below.gid(), below.mode() & 0o7777), (1007, 1008, mode), "{name}");
        let attr = made.unwrap().attr;
        assert_eq!((attr.uid, attr.gid, attr.mode), (1007, 1008, mode as u16), "{name}");
    }
}

#[test]
fn privileges_go_only_when_the_caller_says_so() {
    let bench = Bench::new();
    let file = bench.file("f");
    let set = |set: SetAttr| bench.wait(bench.fs.set_attr(call(), file, set)).unwrap().mode;
    assert_eq!(set(SetAttr { mode: Some(0o6755), ..SetAttr::default() }), 0o6755);
    // The kernel takes them away with the owner, also if it is the same one.
    assert_eq!(set(SetAttr { gid: Some(own().gid), ..SetAttr::default() }), 0o6755);
    assert_eq!(set(SetAttr { gid: Some(own().gid), kill_privileges: true, ..SetAttr::default() }), 0o755);
}

#[test]
fn times_are_set_behind_writes_that_began_before() {
    let mut bench = Bench::new();
    bench.fs.is_memory = false;
    let (file, other) = (bench.file("f"), bench.file("g"));
    let (first, second) = (bench.begin(file, At::End, b"one"), bench.begin(file, At::End, b"two"));
    let touched = SetAttr { modified: Some(Stamp(7_000_000_000)), ..SetAttr::default() };
    let set = bench.fs.set_attr(call(), file, touched);
    assert!(!matches!(set, Step::Now(_)), "a thread may write the bytes later");
    assert!(matches!(bench.fs.set_attr(call(), other, touched), Step::Now(Ok(_))), "of another file");
    for write in [first, second] {
        assert_eq!(bench.wait(write).unwrap().bytes, 3);
    }
    assert_eq!(bench.wait(set).unwrap().modified, Stamp(7_000_000_000));
    assert_eq!(fs::metadata(bench.below("f")).unwrap().mtime(), 7);
    assert!(matches!(bench.fs.set_attr(call(), file, touched), Step::Now(Ok(_))));
}

#[test]
fn entries_come_once_while_others_come_and_go() {
    let bench = Bench::new();
    let root = bench.fs.root();
    for number in 0..FILES_MANY {
        fs::write(bench.below(&format!("kept{number}")), b"").unwrap();
        fs::write(bench.below(&format!("gone{number}")), b"").unwrap();
    }
    let (mut from, mut round, mut seen) = (Cookie::BEGINNING, 0, Vec::new());
    loop {
        let rows = Listing::new(300, 24, 8);
        let rows = if round % 2 == 0 { rows.with_entries() } else { rows };
        let rows = bench.wait(bench.fs.list(call(), root, from, rows)).unwrap();
        if rows.is_empty() {
            break;
        }
        for row in rows.rows() {
            assert_eq!(
                row.ino.0,
                fs::metadata(bench.below(std::str::from_utf8(row.name.bytes()).unwrap())).unwrap().ino()
            );
            seen.push(String::from_utf8(row.name.bytes().to_vec()).unwrap());
            from = row.next;
            row.entry.into_iter().for_each(|entry| bench.fs.forget(entry.ino, 1));
        }
        // Those that were seen go, so that none that follows is missing.
        for name in seen.iter().filter(|name| name.starts_with("gone")) {
            fs::remove_file(bench.below(name)).unwrap_or(());
        }
        fs::write(bench.below(&format!("new{round}")), b"").unwrap();
        round += 1;
    }
    assert!(round > 20);
    let kept: Vec<_> = seen.iter().filter(|name| !name.starts_with("new")).collect();
    assert_eq!((kept.len(), kept.iter().collect::<BTreeSet<_>>().len()), (2 * FILES_MANY, 2 * FILES_MANY));
    assert_eq!(bench.fs.inodes.borrow().counts().0, 1, "all pins are given back");
}

#[test]
fn few_files_stay_open_and_all_are_read() {
    let bench = Bench::new();
    let files: Vec<Ino> = (0..FILES_MANY).map(|number| bench.file(&format!("f{number}"))).collect();
    for (number, file) in files.iter().enumerate() {
        bench.write(*file, At::Offset(0), format!("{number}").as_bytes()).unwrap();
    }
    for (number, file) in files.iter().enumerate().rev() {
        assert_eq!(bench.read(*file, 0, 8).unwrap(), format!("{number}").as_bytes());
    }
    let (pinned, open) = bench.fs.inodes.borrow().counts();
    assert_eq!(pinned, FILES_MANY + 1);
    assert!((200..=256).contains(&open), "{open}");
}

#[test]
fn bytes_that_are_not_at_hand_are_read_too() {
    let bench = Bench::new();
    let file = bench.file("f");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n >> 8) as u8).collect();
    bench.write(file, At::Offset(0), &bytes).unwrap();
    bench.wait(bench.fs.sync(call(), Sync::File(file))).unwrap();
    let below = rustix::fs::open(bench.below("f"), OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    rustix::fs::fadvise(&below, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert!(bench.read(file, 0, 4_000_000).unwrap() == bytes);
    assert_eq!(bench.read(file, 2_999_999, 10).unwrap(), [bytes[2_999_999]]);
    assert_eq!(bench.read(file, 1 << 40, 10).unwrap(), b"");
    let mut now = [0; 5];
    assert_eq!(bench.fs.read_now(call(), file, 4094, &mut now), Some(Ok(5)));
    assert_eq!(now, bytes[4094..4099]);
}

#[test]
fn extended_attributes_pass_and_access_control_lists_do_not() {
    let bench = Bench::new();
    let file = bench.file("f");
    let xattr = |what: Xattr<'_>| bench.wait(bench.fs.xattr(call(), file, what));
    for name in [&b"user.b"[..], b"user.a"] {
        match xattr(Xattr::Set(name, b"value", XattrSet::Create)) {
            Err(Errno::EOPNOTSUPP) => return esker_skip::skip(esker_skip::Ability::Attributes, "no user.* here"),
            set => assert_eq!(set.as_deref(), Ok(&[][..])),
        }
    }
    assert_eq!(xattr(Xattr::List).as_deref(), Ok(&b"user.a\0user.b\0"[..]));
    assert_eq!(xattr(Xattr::Get(b"user.b")).as_deref(), Ok(&b"value"[..]));
    assert_eq!(xattr(Xattr::Get(b"system.posix_acl_access")), Err(Errno::EOPNOTSUPP));
    xattr(Xattr::Remove(b"user.b")).unwrap();
    assert_eq!(xattr(Xattr::Remove(b"user.b")), Err(Errno::ENODATA));
}

#[test]
fn flags_that_cannot_be_read_back_are_refused() {
    let bench = Bench::new();
    let file = bench.file("f");
    let set = |flags| bench.wait(bench.fs.set_attr(call(), file, SetAttr { flags: Some(flags), ..SetAttr::default() }));
    assert_eq!(set(FileFlags::SYNC), Err(Errno::EOPNOTSUPP));
    match set(FileFlags::NODUMP) {
        Err(Errno::EOPNOTSUPP) => {}
        attr => assert_eq!(attr.unwrap().flags, FileFlags::NODUMP),
    }
}

#[test]
fn what_could_not_be_made_durable_is_never_said_to_be() {
    let bench = Bench::new();
    let file = bench.file("f");
    for what in [Sync::Data(file), Sync::File(file), Sync::File(bench.fs.root()), Sync::All] {
        bench.wait(bench.fs.sync(call(), what)).unwrap();
    }
    bench.fs.is_lost.set(true);
    for what in [Sync::Data(file), Sync::File(bench.fs.root()), Sync::All] {
        assert_eq!(bench.wait(bench.fs.sync(call(), what)), Err(Errno::EIO));
    }
    assert_eq!(bench.wait(bench.fs.close()), Err(Errno::EIO));
}

#[test]
fn a_closed_file_system_answers_nothing_more() {
    let bench = Bench::new();
    let file = bench.file("f");
    bench.wait(bench.fs.close()).unwrap();
    assert_eq!(bench.find(bench.fs.root(), "f").unwrap_err(), Errno::EIO);
    assert_eq!(bench.read(file, 0, 1), Err(Errno::EIO));
    assert_eq!(bench.wait(bench.fs.space(call())), Err(Errno::EIO));
    bench.fs.forget(file, 1);
}

#[test]
fn a_directory_in_memory_answers_at_once() {
    let mut bench = Bench::new();
    bench.fs.is_memory = true;
    let file = bench.file("f");
    at_once(bench.begin(file, At::Offset(0), b"bytes").into_future()).unwrap();
    at_once(bench.fs.sync(call(), Sync::All).into_future()).unwrap();
    assert_eq!(at_once(bench.fs.read(call(), file, 1, 9).into_future()).unwrap().to_vec(), b"ytes");
}

/// Descriptors of this process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What all calls find of a file that was made as number `nr` in a directory.
fn look_at(bench: &Bench, dir: Ino, nr: usize) {
    let (name, more) = (format!("f{nr}"), format!("g{nr}"));
    let found = bench.find(dir, &name).unwrap();
    assert_eq!(bench.wait(bench.fs.attr(call(), found.ino)).unwrap().size, 4);
    assert_eq!(bench.read(found.ino, 0, 9).unwrap(), (nr as u32).to_le_bytes());
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(bench.wait(bench.fs.set_attr(call(), found.ino, set)).unwrap().mode, 0o600);
    assert_eq!(bench.wait(bench.fs.link(call(), found.ino, dir, named(&more))).unwrap().attr.links, 2);
    let renamed = bench.fs.rename(call(), (dir, named(&name)), (dir, named(&more)), Rename::Replace);
    bench.wait(renamed).unwrap();
    bench.wait(bench.fs.remove(call(), dir, named(&name), Remove::File)).unwrap();
    bench.fs.forget(found.ino, 2);
}

#[test]
fn more_inodes_than_descriptors_are_pinned_and_keep_their_bytes_without_a_name() {
    const KEPT: usize = 20;
    const FILES: usize = 1_000;
    let bench = Bench::with(Some(KEPT));
    if !bench.fs.inodes.borrow().opens_handles() {
        return esker_skip::skip(esker_skip::Ability::Root, "the kernel opens handles for root alone");
    }
    let before = descriptors();
    let dirs = ["a", "b"].map(|name| bench.make(bench.fs.root(), name, NewKind::Directory).ino);
    let files: Vec<Ino> = (0..FILES)
        .map(|nr| {
            let ino = bench.make(dirs[nr % 2], &format!("f{nr}"), NewKind::File).ino;
            bench.write(ino, At::Offset(0), &(nr as u32).to_le_bytes()).unwrap();
            ino
        })
        .collect();
    assert_eq!(bench.fs.inodes.borrow().counts().0, FILES + 3);
    // Others are those of files that stay open for their bytes, and those of tests beside this one.
    assert!(descriptors() < before + FILES / 2, "{} descriptors", descriptors());
    assert!(bench.fs.inodes.borrow().has_handles());
    (0..FILES).for_each(|nr| look_at(&bench, dirs[nr % 2], nr));
    assert!(descriptors() < before + FILES / 2, "a name that is not the last one goes: {} descriptors", descriptors());
    let deep = bench.make(dirs[1], "deep", NewKind::Directory).ino;
    assert_eq!(bench.wait(bench.fs.parent(call(), deep)).unwrap().ino, dirs[1]);
    // The last name goes, and the pin keeps the inode.
    for (nr, ino) in files.iter().enumerate() {
        let name = format!("g{nr}");
        bench.wait(bench.fs.remove(call(), dirs[nr % 2], named(&name), Remove::File)).unwrap();
        assert_eq!(bench.read(*ino, 0, 9).unwrap(), (nr as u32).to_le_bytes());
        bench.fs.forget(*ino, 1);
    }
    assert_eq!(bench.fs.inodes.borrow().counts().0, 4);
    assert!(descriptors() < before + FILES / 2, "{} descriptors", descriptors());
}
