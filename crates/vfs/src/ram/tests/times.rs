//! Which call sets which times.

use super::*;
use crate::attr::FileFlags;
use crate::change::{AllocateKind, XattrSet};

/// Which times of an inode a call sets.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Set {
    accessed: bool,
    modified: bool,
    changed: bool,
    is_newer: bool,
}

const NONE: Set = Set { accessed: false, modified: false, changed: false, is_newer: false };
const CHANGED: Set = Set { changed: true, ..NONE };
const MODIFIED: Set = Set { modified: true, changed: true, is_newer: true, ..NONE };
const ACCESSED: Set = Set { accessed: true, ..NONE };

fn sets(desk: &mut Desk, inodes: &[Ino], call: impl FnOnce(&mut Desk)) -> Vec<Set> {
    let before: Vec<Attr> = inodes.iter().map(|ino| desk.attr(*ino)).collect();
    call(desk);
    let time = desk.time();
    let set = |(ino, before): (&Ino, Attr)| {
        let after = desk.attr(*ino);
        for (stamp, former) in [(after.accessed, before.accessed), (after.modified, before.modified)] {
            assert!(stamp == former || stamp == time, "a time is kept or that of the call");
        }
        Set {
            accessed: after.accessed != before.accessed,
            modified: after.modified != before.modified,
            changed: after.changed != before.changed,
            is_newer: after.version != before.version,
        }
    };
    inodes.iter().zip(before).map(set).collect()
}

#[test]
fn changes_of_names_set_times_of_directories_and_inodes() {
    let mut desk = Desk::large();
    let (a, d, e) = (desk.make("a", FILE), desk.make("d", DIR), desk.make("e", DIR));
    let b = desk.make("b", FILE);
    let all = [ROOT, d, e, a, b];
    let mut check = |expected: [Set; 5], call: &dyn Fn(&mut Desk)| assert_eq!(sets(&mut desk, &all, call), expected);
    check([MODIFIED, NONE, NONE, NONE, NONE], &|desk| assert!(desk.create(ROOT, "x", FILE).is_ok()));
    check([NONE, MODIFIED, NONE, CHANGED, NONE], &|desk| desk.link(a, d, "a").unwrap());
    check([MODIFIED, NONE, NONE, CHANGED, NONE], &|desk| desk.remove(ROOT, "a", Remove::File).unwrap());
    check([NONE, MODIFIED, MODIFIED, CHANGED, NONE], &|desk| desk.rename((d, "a"), (e, "a"), Rename::Replace).unwrap());
    check([MODIFIED, NONE, MODIFIED, CHANGED, CHANGED], &|desk| {
        desk.rename((e, "a"), (ROOT, "b"), Rename::Exchange).unwrap();
    });
    check([MODIFIED, NONE, MODIFIED, CHANGED, CHANGED], &|desk| {
        desk.rename((ROOT, "b"), (e, "a"), Rename::Replace).unwrap();
    });
    check([MODIFIED, CHANGED, NONE, NONE, NONE], &|desk| desk.remove(ROOT, "d", Remove::Directory).unwrap());
    check([NONE; 5], &|desk| assert!(desk.find(ROOT, "e").is_ok()));
}

#[test]
fn changes_of_bytes_and_attributes_set_times() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    let mut check = |expected: Set, call: &dyn Fn(&mut Desk)| assert_eq!(sets(&mut desk, &[ino], call), [expected]);
    check(MODIFIED, &|desk| desk.put(ino, 0, b"abc"));
    check(NONE, &|desk| desk.put(ino, 9, b""));
    check(MODIFIED, &|desk| assert!(desk.cut(ino, 3).is_ok()));
    check(CHANGED, &|desk| desk.alter(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() }));
    check(CHANGED, &|desk| desk.alter(ino, SetAttr { uid: Some(3), ..SetAttr::default() }));
    check(NONE, &|desk| desk.alter(ino, SetAttr::default()));
    let value = Xattr::Set(b"user.a", b"1", XattrSet::Any);
    check(CHANGED, &|desk| drop(desk.change(|ram, call| ram.xattr(call, ino, value)).unwrap()));
    let how = Allocate { kind: AllocateKind::Reserve, keep_size: true };
    let range = ByteRange::new(0, 9).unwrap();
    check(MODIFIED, &|desk| desk.change(|ram, call| ram.allocate(call, ino, range, how)).unwrap());
}

#[test]
fn reads_set_the_time_of_access_once_behind_each_change() {
    let mut desk = Desk::large();
    let (a, d) = (desk.make("a", FILE), desk.make("d", DIR));
    let link = desk.make("s", NewKind::Symlink(b"a"));
    let read = |desk: &mut Desk| drop(desk.read(a, 0, 9));
    assert_eq!(sets(&mut desk, &[a], read), [ACCESSED]);
    assert_eq!(sets(&mut desk, &[a], read), [NONE], "relatime");
    desk.write(a, 0, b"abc").unwrap();
    assert_eq!(sets(&mut desk, &[a], read), [ACCESSED]);
    assert_eq!(sets(&mut desk, &[d], |desk| drop(desk.names(d))), [ACCESSED]);
    let target = |desk: &mut Desk| drop(desk.change(|ram, call| ram.target(call, link)).unwrap());
    assert_eq!(sets(&mut desk, &[link], target), [ACCESSED]);
    desk.now += 24 * 3_600_000_000_000;
    assert_eq!(sets(&mut desk, &[a], read), [ACCESSED], "a day later");
    desk.set(a, SetAttr { flags: Some(FileFlags::NOATIME), ..SetAttr::default() }).unwrap();
    assert_eq!(sets(&mut desk, &[a], read), [NONE]);
}

#[test]
fn times_are_set_by_callers_too() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    let (accessed, modified) = (Some(Stamp(-5)), Some(Stamp(i64::MAX)));
    let attr = desk.set(ino, SetAttr { accessed, modified, size: Some(9), ..SetAttr::default() }).unwrap();
    assert_eq!((attr.accessed, attr.modified, attr.changed), (Stamp(-5), Stamp(i64::MAX), desk.time()));
    assert_eq!(attr.size, 9);
}

#[test]
fn flags_that_are_not_stored_are_refused() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    let set = SetAttr { flags: Some(FileFlags(0x4)), size: Some(9), ..SetAttr::default() };
    assert_eq!(desk.set(ino, set), Err(Errno::EOPNOTSUPP));
    assert_eq!(desk.attr(ino).size, 0);
}
