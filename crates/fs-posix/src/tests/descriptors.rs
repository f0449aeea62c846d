//! Numbers, descriptions and locks.

use esker_vfs::{LockCall, LockKind};

use super::*;
use crate::{Follow, LockOwner, LockRequest, Spot, Whence, Where};

const WHOLE: LockRequest = LockRequest {
    call: LockCall::Try,
    kind: LockKind::Exclusive,
    owner: LockOwner::Process,
    whence: Whence::Set,
    start: 0,
    len: 0,
};

fn read(process: &Process, fd: Fd, len: usize) -> Result<Vec<u8>, Errno> {
    let mut out = vec![0; len];
    let read = at_once(process.read(fd, &mut out))?;
    out.truncate(read);
    Ok(out)
}

#[test]
fn the_lowest_free_number_is_given() {
    let process = process();
    let all = ["a", "b", "c"].map(|path| made(&process, path));
    assert_eq!(all, [Fd(0), Fd(1), Fd(2)]);
    at_once(process.close(Fd(1))).unwrap();
    assert_eq!(made(&process, "d"), Fd(1));
    assert_eq!(process.dup(Fd(0), Fd(5), false), Ok(Fd(5)));
    assert_eq!(process.dup(Fd(0), Fd(8), false), Err(Errno::EINVAL), "above the limit");
    let rest = [3, 4, 6, 7].map(|_| process.dup(Fd(0), Fd(0), true).unwrap());
    assert_eq!(rest, [Fd(3), Fd(4), Fd(6), Fd(7)]);
    assert_eq!(open(&process, "none", OpenFlags::RDONLY), Err(Errno::EMFILE), "before the path is looked at");
    assert_eq!(at_once(process.dup2(Fd(0), Fd(8))), Err(Errno::EBADF));
    at_once(process.exec()).unwrap();
    assert_eq!(process.closes_on_exec(Fd(3)), Err(Errno::EBADF), "exec closed it");
    assert_eq!(process.closes_on_exec(Fd(5)), Ok(false));
}

#[test]
fn duplicates_and_children_share_an_offset_and_another_open_does_not() {
    let process = process();
    let fd = made(&process, "a");
    at_once(process.write(fd, b"0123456789")).unwrap();
    at_once(process.seek(fd, 0, Whence::Set)).unwrap();
    let (dup, other) = (process.dup(fd, Fd(0), false).unwrap(), open(&process, "a", OpenFlags::RDONLY).unwrap());
    let child = process.fork();
    assert_eq!(read(&process, fd, 2).unwrap(), b"01");
    assert_eq!(read(&process, dup, 2).unwrap(), b"23");
    assert_eq!(read(&child, fd, 2).unwrap(), b"45");
    assert_eq!(read(&process, other, 2).unwrap(), b"01");
    at_once(process.set_status_flags(dup, OpenFlags::APPEND)).unwrap();
    assert!(child.status_flags(fd).unwrap().contains(OpenFlags::APPEND | OpenFlags::RDWR));
    at_once(child.write(fd, b"x")).unwrap();
    assert_eq!(at_once(process.seek(fd, 0, Whence::Current)), Ok(11), "an append moves the offset to the end");
}

#[test]
fn the_fast_ways_do_what_the_long_ones_do() {
    let process = process();
    let fd = made(&process, "a");
    assert_eq!(process.write_now(fd, b"abc"), Some(Ok(3)));
    at_once(process.seek(fd, 1, Whence::Set)).unwrap();
    let mut out = [0; 8];
    assert_eq!(process.read_now(fd, &mut out), Some(Ok(2)));
    assert_eq!(&out[..2], b"bc");
    assert_eq!(process.read_now(fd, &mut out), Some(Ok(0)));
    assert_eq!(process.read_now(Fd(7), &mut out), Some(Err(Errno::EBADF)));
    let fd = open(&process, "a", OpenFlags::RDONLY).unwrap();
    assert_eq!(process.write_now(fd, b"x"), Some(Err(Errno::EBADF)));
}

#[test]
fn a_call_that_does_not_get_the_turn_leaves_it_to_the_call_that_has_it() {
    let process = process();
    let file = process.file(made(&process, "a")).unwrap();
    let turn = at_once(file.turn());
    assert!(file.turn_now().is_none());
    assert!(file.turn_now().is_none(), "the refused call gave nothing back");
    drop(turn);
    assert!(file.turn_now().is_some());
}

#[test]
fn a_file_without_a_name_can_get_one_unless_it_was_opened_exclusively() {
    let process = process();
    let flags = OpenFlags::RDWR | OpenFlags::TMPFILE;
    let fd = open(&process, ".", flags).unwrap();
    at_once(process.write(fd, b"abc")).unwrap();
    at_once(process.link(Where::Itself(fd), "named", Follow::Nothing)).unwrap();
    let named = open(&process, "named", OpenFlags::RDONLY).unwrap();
    assert_eq!(read(&process, named, 9).unwrap(), b"abc");
    let never = open(&process, ".", flags | OpenFlags::EXCL).unwrap();
    assert_eq!(at_once(process.link(Where::Itself(never), "b", Follow::Nothing)), Err(Errno::ENOENT));
    assert_eq!(open(&process, ".", OpenFlags::TMPFILE), Err(Errno::EINVAL), "it would never be written");
}

#[test]
fn an_unlinked_file_keeps_its_bytes_until_its_last_descriptor_closes() {
    let ram = ram();
    let process = world(ram.clone()).process(Cred::root());
    let before = at_once(process.statfs()).unwrap().1;
    let fd = made(&process, "a");
    at_once(process.write(fd, &[1; 8192])).unwrap();
    at_once(process.unlink("a")).unwrap();
    let dup = process.dup(fd, Fd(0), false).unwrap();
    at_once(process.close(fd)).unwrap();
    assert_eq!(at_once(process.stat(dup, Follow::Links)).unwrap().attr.links, 0);
    assert_ne!(at_once(process.statfs()).unwrap().1, before);
    at_once(process.exit()).unwrap();
    assert_eq!(at_once(process.statfs()).unwrap().1, before, "all room is back");
}

#[test]
fn locks_of_a_process_end_with_any_descriptor_of_the_file() {
    let (world, file) = (world(ram()), "a");
    let (one, other) = (world.process(Cred::root()), world.process(Cred::root()));
    let (fd, theirs) = (made(&one, file), made(&other, file));
    let second = open(&one, file, OpenFlags::RDONLY).unwrap();
    let tries = |process: &Process, fd, request| at_once(process.lock(fd, request)).map(|_| ());
    assert_eq!(tries(&one, second, WHOLE), Err(Errno::EBADF), "it is not opened for writing");
    assert_eq!(tries(&one, fd, WHOLE), Ok(()));
    assert_eq!(tries(&other, theirs, WHOLE), Err(Errno::EAGAIN));
    let asked = LockRequest { call: LockCall::Test, ..WHOLE };
    assert_eq!(at_once(other.lock(theirs, asked)).unwrap().map(|lock| lock.pid), Some(one.pid()));
    at_once(one.close(second)).unwrap();
    assert_eq!(tries(&other, theirs, WHOLE), Ok(()));
    drop(other);
    assert_eq!(tries(&one, fd, WHOLE), Ok(()), "a process that goes away leaves no locks");
}

#[test]
fn locks_of_a_description_end_with_its_last_descriptor() {
    let (world, file) = (world(ram()), "a");
    let (one, other) = (world.process(Cred::root()), world.process(Cred::root()));
    let (fd, theirs) = (made(&one, file), made(&other, file));
    let request = LockRequest { owner: LockOwner::Description, start: 10, len: -5, ..WHOLE };
    at_once(one.lock(fd, request)).unwrap();
    let child = one.fork();
    at_once(one.close(fd)).unwrap();
    let tries = |start, len| at_once(other.lock(theirs, LockRequest { start, len, ..WHOLE })).map(|_| ());
    assert_eq!((tries(0, 5), tries(10, 0), tries(9, 1)), (Ok(()), Ok(()), Err(Errno::EAGAIN)));
    at_once(child.exit()).unwrap();
    assert_eq!(tries(0, 0), Ok(()));
    assert_eq!(tries(-1, 5), Err(Errno::EINVAL));
    at_once(other.flock(theirs, LockKind::Exclusive, LockCall::Try)).unwrap();
    let again = made(&other, file);
    assert_eq!(at_once(other.flock(again, LockKind::Shared, LockCall::Try)), Err(Errno::EAGAIN));
    at_once(other.close(theirs)).unwrap();
    assert_eq!(at_once(other.flock(again, LockKind::Shared, LockCall::Try)), Ok(()));
}

#[test]
fn copies_move_the_offsets_they_are_not_given() {
    let process = process();
    let (from, to) = (made(&process, "a"), made(&process, "b"));
    at_once(process.write(from, b"0123456789")).unwrap();
    let spot = |fd, at| Spot { fd, at };
    assert_eq!(at_once(process.copy_file_range(spot(from, Some(2)), spot(to, None), 3)), Ok(3));
    assert_eq!(at_once(process.copy_file_range(spot(from, Some(8)), spot(to, None), 30)), Ok(2));
    at_once(process.seek(to, 0, Whence::Set)).unwrap();
    assert_eq!(read(&process, to, 99).unwrap(), b"23489");
    let append = open(&process, "b", OpenFlags::WRONLY | OpenFlags::APPEND).unwrap();
    assert_eq!(at_once(process.copy_file_range(spot(from, Some(0)), spot(append, None), 1)), Err(Errno::EBADF));
}
