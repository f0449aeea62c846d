//! Where room ends.

use std::collections::BTreeMap;

use super::*;
use crate::change::{AllocateKind, XattrSet};

fn with_pages(pages: u64) -> Desk {
    Desk::new(RamConfig { bytes: pages * 4096, inodes: 100, ..RamConfig::tiny() })
}

#[test]
fn a_write_is_short_where_room_ends() {
    let mut desk = with_pages(3);
    let ino = desk.make("a", FILE);
    assert_eq!(desk.write(ino, 100, &[1; 9000]), Ok(Written { bytes: 8092, end: 8192 }));
    assert_eq!(desk.write(ino, 8192, b"x"), Err(Errno::ENOSPC));
    assert_eq!(
        desk.write(ino, 8000, &[2; 9000]),
        Ok(Written { bytes: 192, end: 8192 }),
        "what is there is overwritten"
    );
    assert_eq!((desk.attr(ino).size, desk.space().bytes_free), (8192, 0), "the root takes a page");
    let other = desk.create(ROOT, "b", FILE).unwrap().ino;
    assert_eq!(desk.change(|ram, call| ram.copy(call, (ino, 0), (other, 0), 9, Copying::Any)), Err(Errno::ENOSPC));
}

#[test]
fn a_copy_is_short_where_room_ends_and_a_shared_one_is_whole() {
    let mut desk = with_pages(5);
    let (a, b) = (desk.make("a", FILE), desk.make("b", FILE));
    desk.write(a, 0, &[1; 3 * 4096]).unwrap();
    let copy = |desk: &mut Desk, how| desk.change(|ram, call| ram.copy(call, (a, 0), (b, 0), 9 * 4096, how));
    assert_eq!(copy(&mut desk, Copying::Share), Err(Errno::ENOSPC));
    assert_eq!(copy(&mut desk, Copying::Any), Ok(4096));
    assert_eq!((desk.attr(b).size, desk.space().bytes_free), (4096, 0));
}

#[test]
fn inodes_are_limited() {
    let mut desk = Desk::new(RamConfig { inodes: 3, ..RamConfig::tiny() });
    let a = desk.make("a", FILE);
    desk.make("b", DIR);
    assert_eq!(desk.space().inodes_free, 0);
    assert_eq!(desk.create(ROOT, "c", FILE), Err(Errno::ENOSPC));
    desk.link(a, ROOT, "c").unwrap();
    desk.ram.forget(a, 1);
    for text in ["a", "c"] {
        desk.remove(ROOT, text, Remove::File).unwrap();
    }
    assert_eq!(desk.space().inodes_free, 1);
}

/// Calls of all kinds that take room, each with its result.
fn script(desk: &mut Desk) -> Vec<(&'static str, Result<(), Errno>)> {
    let mut results = Vec::new();
    let long = "n".repeat(255);
    let mut note = |what, result: Result<(), Errno>| {
        let errno = result.err();
        results.push((what, result));
        errno
    };
    note("mkdir", desk.create(ROOT, "d", DIR).map(drop));
    let dir = desk.find(ROOT, "d").unwrap_or(ROOT);
    for i in 0..20 {
        note("create", desk.create(dir, &format!("{i}{}", &long[2..]), FILE).map(drop));
    }
    note("symlink", desk.create(ROOT, "s", NewKind::Symlink(&[b'a'; 100])).map(drop));
    let Ok(entry) = desk.create(ROOT, "a", FILE) else { return results };
    let ino = entry.ino;
    note("write", desk.write(ino, 0, &[7; 5000]).map(drop));
    for i in 0..16 {
        note("link", desk.link(ino, dir, &format!("l{i}{}", &long[3..])));
        note("remove", desk.remove(dir, &format!("l{i}{}", &long[3..]), Remove::File));
        note("grow", desk.rename((ROOT, "a"), (ROOT, &long[i..]), Rename::Replace));
        note("shrink", desk.rename((ROOT, &long[i..]), (ROOT, "a"), Rename::Replace));
        note("move", desk.rename((ROOT, "a"), (dir, &long[i..]), Rename::Replace));
        note("move back", desk.rename((dir, &long[i..]), (ROOT, "a"), Rename::Replace));
        note("create more", desk.create(dir, &format!("m{i}{}", &long[3..]), FILE).map(drop));
        note("create more", desk.create(ROOT, &format!("m{i}{}", &long[3..]), FILE).map(drop));
    }
    let value = Xattr::Set(b"user.a", &[1; 5000], XattrSet::Any);
    note("xattr", desk.change(|ram, call| ram.xattr(call, ino, value)).map(drop));
    for (what, kind) in [("reserve", AllocateKind::Reserve), ("zero", AllocateKind::Zero)] {
        let range = ByteRange::new(6000, 20_000).unwrap();
        note(what, desk.change(|ram, call| ram.allocate(call, ino, range, Allocate { kind, keep_size: true })));
    }
    note("share", desk.change(|ram, call| ram.copy(call, (ino, 0), (ino, 40 << 10), 4096, Copying::Share)).map(drop));
    note("copy", desk.change(|ram, call| ram.copy(call, (ino, 0), (ino, 80 << 10), 99, Copying::Any)).map(drop));
    results
}

#[test]
fn room_may_end_at_each_call_and_none_that_fails_changes_anything() {
    let mut refused: BTreeMap<&str, u32> = BTreeMap::new();
    for pages in 0..40 {
        let mut desk = with_pages(pages);
        for (what, result) in script(&mut desk) {
            match result {
                Err(Errno::ENOSPC) => *refused.entry(what).or_default() += 1,
                Err(errno) => assert_eq!(errno, Errno::ENOENT, "{what} with {pages} pages: its name was refused"),
                Ok(()) => assert!(pages > 0),
            }
        }
    }
    let kinds = [
        "copy",
        "create",
        "create more",
        "grow",
        "link",
        "mkdir",
        "move",
        "reserve",
        "share",
        "symlink",
        "write",
        "xattr",
        "zero",
    ];
    let missing: Vec<_> = kinds.into_iter().filter(|what| !refused.contains_key(what)).collect();
    assert!(missing.is_empty(), "{missing:?} were never refused");
    assert!(!["remove", "shrink"].iter().any(|what| refused.contains_key(what)), "{refused:?}");
    assert!(script(&mut with_pages(80)).iter().all(|(_, result)| result.is_ok()));
}

#[test]
fn filling_and_deleting_a_thousand_times_gives_all_room_back() {
    let mut desk = Desk::new(RamConfig::tiny());
    let before = desk.space();
    for round in 0..1000u64 {
        let dir = desk.make("d", DIR);
        let mut names = Vec::new();
        for i in 0.. {
            let text = format!("{i}");
            let Ok(entry) = desk.create(dir, &text, FILE) else { break };
            let written = desk.write(entry.ino, round % 5 * 4096, &vec![1; (round as usize * 37 + i) % 9000 + 1]);
            desk.ram.forget(entry.ino, 1);
            names.push(text);
            if written.is_err() {
                break;
            }
        }
        assert!(!names.is_empty());
        for text in names {
            desk.remove(dir, &text, Remove::File).unwrap();
        }
        desk.ram.forget(dir, 1);
        desk.remove(ROOT, "d", Remove::Directory).unwrap();
        assert_eq!(desk.space(), before, "round {round}");
    }
}
