//! Requests as a kernel lays them out, and as it never does.

use zerocopy::{Immutable, IntoBytes};

use super::*;
use crate::proto::abi::*;

fn message(number: u32, body: &(impl IntoBytes + Immutable + ?Sized), rest: &[u8]) -> Vec<u8> {
    let len = size_of::<InHeader>() + body.as_bytes().len() + rest.len();
    let head = InHeader { len: len as u32, opcode: number, unique: 7, node: 2, pid: 9, ..InHeader::zero() };
    [head.as_bytes(), body.as_bytes(), rest].concat()
}

fn op(bytes: &[u8]) -> Op<'_> {
    Request::parse(bytes, bytes.len()).unwrap().op
}

#[test]
fn a_write_is_read_from_its_head_alone() {
    let body = WriteIn { offset: 4096, size: 512, write_flags: 4, flags: 2, ..WriteIn::zero() };
    let bytes = message(opcode::WRITE, &body, &[0xaa; 512]);
    let request = Request::parse(&bytes[..WRITE_HEAD], bytes.len()).unwrap();
    assert_eq!((request.unique, request.node, request.pid, request.opcode), (7, 2, 9, opcode::WRITE));
    assert_eq!(request.op, Op::Write { offset: 4096, size: 512, how: 4, flags: 2 });
    let lie = message(opcode::WRITE, &body, &[0xaa; 511]);
    assert_eq!(Request::parse(&lie, lie.len()), Err(Malformed::Short(591)));
    assert_eq!(Request::parse(&bytes, bytes.len() - 1), Err(Malformed::Length { said: 592, got: 591 }));
}

#[test]
fn names_and_values_lie_behind_their_structures() {
    let made = |name| Made { name, mode: 0o640 };
    let mknod = message(opcode::MKNOD, &MknodIn { mode: 0o640, rdev: 5, ..MknodIn::zero() }, b"a\0");
    assert_eq!(op(&mknod), Op::Mknod(made(b"a"), 5));
    let create = message(opcode::CREATE, &CreateIn { mode: 0o640, flags: 2, ..CreateIn::zero() }, b"b\0");
    assert_eq!(op(&create), Op::Create(made(b"b"), 2));
    assert_eq!(op(&message(opcode::SYMLINK, b"n\0to/this\0", b"")), Op::Symlink { name: b"n", target: b"to/this" });
    let rename = Renamed { from: b"x", to_dir: 3, to: b"y", flags: 2 };
    let body = Rename2In { new_dir: 3, flags: 2, padding: 0 };
    assert_eq!(op(&message(opcode::RENAME2, &body, b"x\0y\0")), Op::Rename(rename));
    let old = message(opcode::RENAME, &RenameIn { new_dir: 3 }, b"x\0y\0");
    assert_eq!(op(&old), Op::Rename(Renamed { flags: 0, ..rename }));
    let set = message(opcode::SETXATTR, &SetXattrIn { size: 3, flags: 1 }, b"user.a\0\0\x01\x02");
    assert_eq!(op(&set), Op::SetXattr { name: b"user.a", value: b"\0\x01\x02", flags: 1 });
    let get = message(opcode::GETXATTR, &GetXattrIn { size: 9, padding: 0 }, b"user.a\0");
    assert_eq!(op(&get), Op::GetXattr(b"user.a", 9));
    let ioctl = IoctlIn { command: 8, in_size: 2, ..IoctlIn::zero() };
    assert_eq!(op(&message(opcode::IOCTL, &ioctl, b"\x01\x02")), Op::Ioctl(ioctl, &[1, 2]));
}

#[test]
fn numbers_reach_their_operations() {
    let copy = CopyIn { offset_in: 1, node_out: 2, offset_out: 3, length: 4, ..CopyIn::zero() };
    let copied = |wide| Op::Copy { from: 1, node: 2, to: 3, len: 4, wide };
    assert_eq!(op(&message(opcode::COPY_FILE_RANGE, &copy, b"")), copied(false));
    assert_eq!(op(&message(opcode::COPY_FILE_RANGE_64, &copy, b"")), copied(true));
    let punch = FallocateIn { offset: 8, length: 16, mode: 3, ..FallocateIn::zero() };
    assert_eq!(op(&message(opcode::FALLOCATE, &punch, b"")), Op::Allocate { offset: 8, len: 16, mode: 3 });
    let sync = FsyncIn { fsync_flags: 1, ..FsyncIn::zero() };
    assert_eq!(op(&message(opcode::FSYNC, &sync, b"")), Op::Sync(true));
    let list = ReadIn { offset: 5, size: 4096, ..ReadIn::zero() };
    for (number, plus) in [(opcode::READDIR, false), (opcode::READDIRPLUS, true)] {
        assert_eq!(op(&message(number, &list, b"")), Op::ReadDir { from: 5, size: 4096, plus });
    }
    assert_eq!(op(&message(99, b"", b"")), Op::Other);
}

#[test]
fn abilities_above_the_32nd_are_read_where_the_kernel_says_that_they_are_there() {
    let hello = |flags: u64| InitIn { major: 7, minor: 45, max_readahead: 1, flags: flags as u32 };
    let ask = |flags: u64, rest: &[u8]| match op(&message(opcode::INIT, &hello(flags), rest)) {
        Op::Init { flags, .. } => flags,
        other => panic!("{other:?}"),
    };
    let both = init::INIT_EXT | init::ASYNC_READ;
    assert_eq!(ask(both, &[0x10, 0, 0, 0, 9]), both | init::DIRECT_IO_ALLOW_MMAP);
    assert_eq!(ask(init::ASYNC_READ, b""), init::ASYNC_READ);
    let short = message(opcode::INIT, &hello(both), b"");
    assert_eq!(Request::parse(&short, short.len()), Err(Malformed::Short(0)));
}

#[test]
fn a_batch_of_forgets_is_as_long_as_it_says() {
    let ones = [ForgetOne { node: 5, nlookup: 1 }, ForgetOne { node: 6, nlookup: 2 }];
    let batch = |count| message(opcode::BATCH_FORGET, &BatchForgetIn { count, dummy: 0 }, ones.as_bytes());
    let two = batch(2);
    let Op::BatchForget(forgets) = op(&two) else { panic!("another operation") };
    assert_eq!(forgets.collect::<Vec<_>>(), [(5, 1), (6, 2)]);
    for count in [3, u32::MAX] {
        let lie = batch(count);
        assert!(matches!(Request::parse(&lie, lie.len()), Err(Malformed::Short(_))), "{count}");
    }
}

proptest::proptest! {
    #[test]
    fn no_message_makes_the_parser_fall(number in 0u32..60, body: Vec<u8>, cut in 0usize..40) {
        let mut bytes = message(number, body.as_slice(), b"");
        let parsed = Request::parse(&bytes, bytes.len());
        assert!(parsed.is_err() || parsed.unwrap().unique == 7);
        assert_eq!(Request::unique_of(&bytes), Some(7));
        bytes.truncate(cut);
        assert!(Request::parse(&bytes, bytes.len()).is_err());
    }
}
