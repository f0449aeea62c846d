//! Names, one behaviour each.

use super::*;

/// A directory "d" with a file "f" and an empty directory "e"; the root has a file "a" and this directory.
fn tree() -> (Desk, Ino) {
    let mut desk = Desk::large();
    let dir = desk.make("d", DIR);
    desk.make("a", FILE);
    desk.create(dir, "f", FILE).unwrap();
    desk.create(dir, "e", DIR).unwrap();
    (desk, dir)
}

#[test]
fn names_are_made_found_and_removed() {
    let (mut desk, dir) = tree();
    let file = desk.find(dir, "f").unwrap();
    assert_eq!(desk.create(dir, "f", FILE), Err(Errno::EEXIST));
    assert_eq!(desk.create(file, "x", FILE), Err(Errno::ENOTDIR));
    assert_eq!(desk.find(file, "x"), Err(Errno::ENOTDIR));
    assert_eq!(desk.find(dir, "x"), Err(Errno::ENOENT));
    assert_eq!(desk.remove(dir, "x", Remove::File), Err(Errno::ENOENT));
    assert_eq!(desk.remove(dir, "e", Remove::File), Err(Errno::EISDIR));
    assert_eq!(desk.remove(dir, "f", Remove::Directory), Err(Errno::ENOTDIR));
    assert_eq!(desk.remove(ROOT, "d", Remove::Directory), Err(Errno::ENOTEMPTY));
    desk.remove(dir, "e", Remove::Directory).unwrap();
    desk.remove(dir, "f", Remove::File).unwrap();
    desk.remove(ROOT, "d", Remove::Directory).unwrap();
    assert_eq!(desk.names(ROOT), ["a"]);
}

#[test]
fn a_removed_directory_that_is_pinned_takes_no_names() {
    let mut desk = Desk::large();
    let (dir, file) = (desk.make("d", DIR), desk.make("a", FILE));
    desk.remove(ROOT, "d", Remove::Directory).unwrap();
    assert_eq!(desk.attr(dir).links, 0);
    assert_eq!(desk.create(dir, "x", FILE), Err(Errno::ENOENT));
    assert_eq!(desk.link(file, dir, "x"), Err(Errno::ENOENT));
    assert_eq!(desk.rename((ROOT, "a"), (dir, "x"), Rename::Replace), Err(Errno::ENOENT));
    assert_eq!(desk.change(|ram, call| ram.parent(call, dir)), Err(Errno::ENOENT));
    assert_eq!(
        desk.change(|ram, call| ram.list(call, dir, Cookie::BEGINNING, Listing::new(9, 1, 1))),
        Err(Errno::ENOENT)
    );
    assert_eq!(desk.find(dir, "x"), Err(Errno::ENOENT));
}

#[test]
fn a_pinned_file_keeps_its_bytes_without_a_name_and_then_gives_its_room_back() {
    let mut desk = Desk::large();
    let before = desk.space();
    let ino = desk.make("a", FILE);
    desk.write(ino, 0, b"kept").unwrap();
    desk.remove(ROOT, "a", Remove::File).unwrap();
    assert_eq!((desk.read(ino, 0, 9), desk.attr(ino).links), (b"kept".to_vec(), 0));
    assert_eq!(desk.link(ino, ROOT, "b"), Err(Errno::ENOENT), "what was removed comes not back");
    desk.ram.forget(ino, 1);
    assert_eq!(desk.space(), before);
    assert_eq!(desk.change(|ram, call| ram.attr(call, ino)), Err(Errno::ENOENT));
}

#[test]
fn numbers_that_are_not_pinned_are_not_known() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    let again = desk.change(|ram, call| ram.pin(call, ino)).unwrap();
    assert_eq!(again.ino, ino);
    desk.ram.forget(ino, 2);
    assert_eq!(desk.change(|ram, call| ram.attr(call, ino)), Err(Errno::ENOENT));
    assert_eq!(desk.change(|ram, call| ram.pin(call, ino)), Err(Errno::ENOENT));
    assert_eq!(desk.find(ROOT, "a"), Ok(ino));
}

#[test]
#[should_panic(expected = "no more pins are given back than were given out")]
fn pins_are_counted() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    desk.ram.forget(ino, 2);
}

#[test]
fn a_file_without_a_name_gets_one_once() {
    let mut desk = Desk::large();
    let before = desk.space();
    let new = New { what: FILE, mode: 0o600, uid: 0, gid: 0 };
    let ino = desk.change(|ram, call| ram.create(call, ROOT, None, new)).unwrap().ino;
    assert_eq!((desk.attr(ino).links, desk.names(ROOT).len()), (0, 0));
    desk.link(ino, ROOT, "a").unwrap();
    desk.remove(ROOT, "a", Remove::File).unwrap();
    assert_eq!(desk.link(ino, ROOT, "a"), Err(Errno::ENOENT));
    desk.ram.forget(ino, 1);
    assert_eq!(desk.space(), before);
    let new = New { what: DIR, ..new };
    assert_eq!(desk.change(|ram, call| ram.create(call, ROOT, None, new)), Err(Errno::EINVAL));
}

#[test]
fn links_are_counted_and_limited() {
    let mut desk = Desk::new(RamConfig { inodes: 100, ..RamConfig::tiny() });
    let (ino, dir) = (desk.make("a", FILE), desk.make("d", DIR));
    for text in ["b", "c", "e", "f", "g"] {
        desk.link(ino, ROOT, text).unwrap();
    }
    assert_eq!(desk.link(ino, ROOT, "h"), Err(Errno::EMLINK));
    assert_eq!(desk.link(ino, ROOT, "b"), Err(Errno::EEXIST), "comes first");
    assert_eq!(desk.link(dir, ROOT, "h"), Err(Errno::EPERM));
    for text in ["1", "2", "3", "4", "5", "6"] {
        desk.create(dir, text, DIR).unwrap();
    }
    assert_eq!(desk.create(dir, "7", DIR), Err(Errno::EMLINK));
    let other = desk.make("o", DIR);
    assert_eq!(desk.rename((ROOT, "o"), (dir, "7"), Rename::Replace), Err(Errno::EMLINK));
    assert_eq!(desk.rename((ROOT, "o"), (dir, "1"), Rename::Replace), Ok(()), "one comes, one goes");
    desk.create(dir, "x", FILE).unwrap();
    desk.make("y", DIR);
    assert_eq!(desk.rename((ROOT, "y"), (dir, "x"), Rename::Exchange), Err(Errno::EMLINK));
    assert_eq!(desk.rename((dir, "x"), (ROOT, "y"), Rename::Exchange), Err(Errno::EMLINK));
    assert_eq!((desk.attr(dir).links, desk.attr(other).links), (8, 2));
}

#[test]
fn renames_have_the_errors_of_linux() {
    let (mut desk, dir) = tree();
    let (e, r) = (desk.find(dir, "e").unwrap(), Rename::Replace);
    let cases = [
        ((ROOT, "x"), (ROOT, "y"), r, Errno::ENOENT),
        ((ROOT, "a"), (ROOT, "x"), Rename::Exchange, Errno::ENOENT),
        ((ROOT, "a"), (dir, "f"), Rename::NoReplace, Errno::EEXIST),
        ((ROOT, "a"), (ROOT, "a"), Rename::NoReplace, Errno::EEXIST),
        ((ROOT, "d"), (dir, "x"), r, Errno::EINVAL),
        ((ROOT, "d"), (e, "x"), r, Errno::EINVAL),
        ((ROOT, "d"), (dir, "e"), Rename::Exchange, Errno::EINVAL),
        ((dir, "e"), (ROOT, "d"), r, Errno::ENOTEMPTY),
        ((dir, "e"), (ROOT, "d"), Rename::Exchange, Errno::EINVAL),
        ((ROOT, "d"), (ROOT, "a"), r, Errno::ENOTDIR),
        ((ROOT, "a"), (dir, "e"), r, Errno::EISDIR),
        ((ROOT, "a"), (ROOT, "d"), r, Errno::EISDIR),
    ];
    desk.change(|ram, call| ram.pin(call, e)).unwrap();
    for (from, to, how, expected) in cases {
        assert_eq!(desk.rename(from, to, how), Err(expected), "{from:?} {to:?} {how:?}");
    }
    let full = desk.make("g", DIR);
    desk.create(full, "x", FILE).unwrap();
    assert_eq!(desk.rename((ROOT, "d"), (ROOT, "g"), r), Err(Errno::ENOTEMPTY));
}

#[test]
fn a_moved_directory_knows_where_it_is() {
    let (mut desk, dir) = tree();
    let e = desk.find(dir, "e").unwrap();
    desk.change(|ram, call| ram.pin(call, e)).unwrap();
    desk.rename((dir, "e"), (ROOT, "e"), Rename::NoReplace).unwrap();
    let parent = |desk: &mut Desk, ino| desk.change(|ram, call| ram.parent(call, ino)).unwrap().ino;
    assert_eq!(parent(&mut desk, e), ROOT);
    assert_eq!((desk.attr(ROOT).links, desk.attr(dir).links), (4, 2));
    desk.rename((ROOT, "e"), (dir, "f"), Rename::Exchange).unwrap();
    assert_eq!(parent(&mut desk, e), dir);
    assert_eq!((desk.attr(ROOT).links, desk.attr(dir).links), (3, 3));
    assert_eq!((desk.find(ROOT, "e").map(|ino| ino == e), desk.find(dir, "f")), (Ok(false), Ok(e)));
    assert_eq!(parent(&mut desk, ROOT), ROOT);
}

#[test]
fn a_rename_replaces_files_and_empty_directories() {
    let (mut desk, dir) = tree();
    let before = desk.space();
    desk.rename((ROOT, "a"), (dir, "f"), Rename::Replace).unwrap();
    let replacing = desk.find(dir, "f").unwrap();
    desk.link(replacing, ROOT, "a").unwrap();
    desk.rename((ROOT, "a"), (dir, "f"), Rename::Replace).unwrap();
    assert_eq!(desk.names(ROOT), ["d", "a"], "two names of one inode stay");
    assert_eq!(desk.space().inodes_free, before.inodes_free, "the replaced one is pinned");
    desk.make("g", DIR);
    desk.rename((ROOT, "g"), (dir, "e"), Rename::Replace).unwrap();
    assert_eq!((desk.attr(ROOT).links, desk.attr(dir).links), (3, 3));
}

#[test]
fn targets_of_symbolic_links_have_limits() {
    let mut desk = Desk::large();
    let (file, link) = (desk.make("f", FILE), desk.make("s", NewKind::Symlink(b"../to")));
    let target = |desk: &mut Desk, ino| desk.change(|ram, call| ram.target(call, ino));
    assert_eq!(target(&mut desk, link).unwrap()[..], *b"../to");
    assert_eq!((desk.attr(link).size, desk.attr(link).mode), (5, 0o777));
    assert_eq!(target(&mut desk, file), Err(Errno::EINVAL));
    assert_eq!(desk.create(ROOT, "t", NewKind::Symlink(b"")), Err(Errno::ENOENT));
    assert_eq!(desk.create(ROOT, "t", NewKind::Symlink(&[b'a'; 4096])), Err(Errno::ENAMETOOLONG));
    let long = desk.make("t", NewKind::Symlink(&[b'a'; 4095]));
    assert_eq!((desk.attr(link).allocated, desk.attr(long).allocated), (0, 4096));
}

#[test]
fn nodes_keep_the_numbers_of_devices() {
    let mut desk = Desk::large();
    let block = desk.make("b", NewKind::Node(FileType::BlockDevice, 0x801));
    let pipe = desk.make("p", NewKind::Node(FileType::Fifo, 0x801));
    assert_eq!((desk.attr(block).device, desk.attr(pipe).device), (0x801, 0));
    assert_eq!(desk.create(ROOT, "x", NewKind::Node(FileType::Directory, 0)), Err(Errno::EINVAL));
}

#[test]
fn a_listing_with_inodes_pins_each_row() {
    let (mut desk, dir) = tree();
    let into = Listing::new(4096, 100, 8).with_entries();
    let listing = desk.change(|ram, call| ram.list(call, dir, Cookie::BEGINNING, into)).unwrap();
    let inodes: Vec<Ino> = listing.rows().map(|row| row.entry.unwrap().ino).collect();
    assert!(inodes.iter().all(|ino| desk.ram.state.borrow().pins().any(|(other, pins)| other == *ino && pins == 2)));
    inodes.into_iter().for_each(|ino| desk.ram.forget(ino, 1));
}
