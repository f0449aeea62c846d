use esker_trace_calls::words::*;
use esker_trace_calls::{AsyncOp, AsyncQueue};

use super::*;

/// A call by its name; pieces of memory in the order of its specification.
fn decoded(name: &str, args: [u64; 6], entry: &[Option<&[u8]>], exit: Option<&[u8]>, result: i64) -> Decoded {
    let spec = all().find(|spec| spec.name() == name).expect("it is recorded");
    let mut items = [None; ITEMS_MAX];
    items[..entry.len()].copy_from_slice(entry);
    Raw { spec, args, entry: items, exit: [exit, None, None], result: Some(result) }.decode()
}

const CWD: u64 = libc::AT_FDCWD as u64;

#[test]
fn every_call_has_one_row() {
    let mut numbers: Vec<u32> = all().map(|spec| spec.number).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "two rows have one number");
    assert!(count >= 80, "{count} calls");
    assert!(all().all(|spec| spec.entry.len() <= ITEMS_MAX));
}

#[test]
fn an_open_says_where_and_how() {
    let flags = (libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC) as u64;
    let call = decoded("openat", [7, 4096, flags, 0o100_644, 0, 0], &[Some(b"a/b\0")], None, 3);
    let at = At { dir: Fd(7), path: PathBytes::from("a/b") };
    let flags = OpenFlags::WRITE | OpenFlags::O_CREAT | OpenFlags::O_APPEND | OpenFlags::O_CLOEXEC;
    assert_eq!(call, Ok(Call::Open { at, flags, mode: 0o644, resolve: ResolveFlags::empty() }));
    let read = decoded("open", [4096, 0, 0o777, 0, 0, 0], &[Some(b"x\0")], None, 3);
    let (at, flags) = (At::cwd("x"), OpenFlags::READ);
    assert_eq!(read, Ok(Call::Open { at, flags, mode: 0, resolve: ResolveFlags::empty() }), "no mode without O_CREAT");
}

#[test]
fn openat2_reads_its_structure() {
    let mut how = Vec::new();
    for word in [libc::O_RDWR as u64, 0, libc::RESOLVE_BENEATH] {
        how.extend(word.to_le_bytes());
    }
    let call = decoded("openat2", [CWD, 4096, 4096, 24, 0, 0], &[Some(b"x\0"), Some(&how)], None, 3);
    let (flags, resolve) = (OpenFlags::READ | OpenFlags::WRITE, ResolveFlags::RESOLVE_BENEATH);
    assert_eq!(call, Ok(Call::Open { at: At::cwd("x"), flags, mode: 0, resolve }));
}

#[test]
fn a_path_that_was_not_read_is_told() {
    assert_eq!(decoded("unlink", [4096, 0, 0, 0, 0, 0], &[None], None, 0), Err(WarningKind::CutPath));
    assert_eq!(decoded("unlink", [0; 6], &[None], None, -14), Err(WarningKind::BadArguments));
    let long = vec![b'a'; TEXT_MAX as usize];
    assert_eq!(decoded("unlink", [4096, 0, 0, 0, 0, 0], &[Some(&long)], None, 0), Err(WarningKind::CutPath));
}

#[test]
fn an_empty_path_is_the_descriptor_if_it_may_be() {
    let flags = libc::AT_EMPTY_PATH as u64;
    let stat = |flags| decoded("newfstatat", [5, 4096, 4096, flags, 0, 0], &[Some(b"\0")], None, 0);
    assert_eq!(stat(flags), Ok(Call::Stat { file: Object::Fd(Fd(5)), seen: None }));
    let at = At { dir: Fd(5), path: PathBytes::default() };
    assert_eq!(stat(0), Ok(Call::Stat { file: Object::Path { at, follow: true }, seen: None }));
}

#[test]
fn links_are_followed_as_the_call_says() {
    let followed = |name: &str, args| match decoded(name, args, &[Some(b"l\0")], None, 0) {
        Ok(Call::Stat { file: Object::Path { follow, .. }, .. }) => follow,
        other => panic!("{other:?}"),
    };
    assert!(followed("stat", [4096, 0, 0, 0, 0, 0]));
    assert!(!followed("lstat", [4096, 0, 0, 0, 0, 0]));
    assert!(!followed("newfstatat", [CWD, 4096, 0, libc::AT_SYMLINK_NOFOLLOW as u64, 0, 0]));
}

#[test]
fn what_stat_gives_is_read_from_its_structure() {
    let mut bytes = vec![0; usize::from(STAT_BYTES)];
    bytes[0..8].copy_from_slice(&9u64.to_le_bytes());
    bytes[8..16].copy_from_slice(&11u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&2u64.to_le_bytes());
    bytes[24..28].copy_from_slice(&(libc::S_IFREG | 0o640).to_le_bytes());
    bytes[48..56].copy_from_slice(&1234u64.to_le_bytes());
    let Ok(Call::Stat { seen: Some(seen), .. }) = decoded("fstat", [3, 4096, 0, 0, 0, 0], &[], Some(&bytes), 0) else {
        panic!("a status")
    };
    let expected = Status { kind: FileKind::Regular, mode: 0o640, size: 1234, links: 2, device: 9, inode: 11 };
    assert_eq!(*seen, expected);
    let failed = decoded("fstat", [3, 4096, 0, 0, 0, 0], &[], Some(&bytes), -9);
    assert_eq!(failed, Ok(Call::Stat { file: Object::Fd(Fd(3)), seen: None }), "nothing is seen of a failure");
}

#[test]
fn buffers_add_up() {
    let mut vector = Vec::new();
    for len in [10u64, 20] {
        vector.extend(4096u64.to_le_bytes());
        vector.extend(len.to_le_bytes());
    }
    let call = decoded("preadv2", [3, 4096, 2, 100, 0, libc::RWF_NOWAIT as u64], &[Some(&vector)], None, 15);
    let flags = ReadWriteFlags::RWF_NOWAIT;
    assert_eq!(call, Ok(Call::Pread { fd: Fd(3), offset: 100, len: 30, parts: 2, flags }));
    assert_eq!(
        decoded("readv", [3, 4096, 2, 0, 0, 0], &[None], None, 15),
        Ok(Call::Read { fd: Fd(3), len: 15, parts: 2 })
    );
}

#[test]
fn times_are_nanoseconds_now_or_left_alone() {
    let mut pair = Vec::new();
    for word in [5i64, 7, 0, libc::UTIME_OMIT] {
        pair.extend(word.to_le_bytes());
    }
    let call = decoded("utimensat", [4, 0, 4096, 0, 0, 0], &[None, Some(&pair)], None, 0);
    let file = Object::Fd(Fd(4));
    assert_eq!(call, Ok(Call::SetTimes { file: file.clone(), accessed: Some(5_000_000_007), modified: None }));
    let now = Some(i64::MIN);
    let call = decoded("utimensat", [4, 0, 0, 0, 0, 0], &[None, None], None, 0);
    assert_eq!(call, Ok(Call::SetTimes { file, accessed: now, modified: now }));
}

#[test]
fn fcntl_is_many_calls() {
    let fcntl = |command: i32, arg: u64, bytes| decoded("fcntl", [3, command as u64, arg, 0, 0, 0], &[bytes], None, 0);
    assert_eq!(fcntl(libc::F_DUPFD_CLOEXEC, 10, None), Ok(Call::Dup { fd: Fd(3), min: 10, cloexec: true }));
    let mut lock = vec![0; 24];
    lock[0] = libc::F_WRLCK as u8;
    lock[8] = 40;
    lock[16] = 2;
    let (cmd, kind, whence) = (RecordLock::SetWait, LockKind::Exclusive, Whence::Set);
    let expected = Call::RangeLock { fd: Fd(3), cmd, kind, whence, start: 40, len: 2 };
    assert_eq!(fcntl(libc::F_SETLKW, 4096, Some(&lock)), Ok(expected));
    assert_eq!(fcntl(libc::F_SETLKW, 4096, None), Err(WarningKind::BadArguments));
}

#[test]
fn requests_are_read_from_their_blocks() {
    let mut block = 0xabc0u64.to_le_bytes().to_vec();
    let mut iocb = [0u8; BLOCK_BYTES as usize];
    iocb[16] = 1;
    iocb[20] = 6;
    iocb[32..40].copy_from_slice(&4096u64.to_le_bytes());
    iocb[40..48].copy_from_slice(&8192u64.to_le_bytes());
    block.extend(iocb);
    let call = decoded("io_submit", [77, 1, 4096, 0, 0, 0], &[Some(&block)], None, 1);
    let ops = vec![AsyncOp { key: 0xabc0, kind: AsyncKind::Write, fd: Fd(6), offset: 8192, len: 4096 }];
    assert_eq!(call, Ok(Call::AsyncSubmit { queue: AsyncQueue::Kernel(77), ops, wait: false }));
    let fewer = decoded("io_submit", [77, 2, 4096, 0, 0, 0], &[Some(&block)], None, 1);
    assert_eq!(fewer, Err(WarningKind::BadArguments), "not all were read");
}

#[test]
fn no_bytes_make_a_call_panic() {
    let words: [[u64; 6]; 3] = [[0; 6], [u64::MAX; 6], [4096, 1 << 40, 3, u64::MAX, 7, 65536]];
    let pieces: [&[u8]; 4] = [b"", b"\0", &[0xff; 3], &[0xff; 300]];
    for spec in all() {
        for args in words {
            for piece in pieces {
                for result in [None, Some(-2), Some(0), Some(i64::MAX)] {
                    let items = [Some(piece); ITEMS_MAX];
                    let raw = Raw { spec, args, entry: items, exit: items, result };
                    if let Ok(call) = raw.decode() {
                        assert!(!call.name().is_empty());
                    }
                }
            }
        }
    }
}

#[test]
fn a_bound_socket_has_a_name_if_its_address_is_a_path() {
    let address = |family: i32, path: &[u8]| [&(family as u16).to_le_bytes()[..], path].concat();
    let bound = |address: &[u8]| decoded("bind", [3, 4096, address.len() as u64, 0, 0, 0], &[Some(address)], None, 0);
    let named = |path: &str| Ok(Call::Bind { fd: Fd(3), at: At::cwd(path), mode: 0o777 });
    assert_eq!(bound(&address(libc::AF_UNIX, b"d/s\0\0\0")), named("d/s"));
    assert_eq!(bound(&address(libc::AF_UNIX, b"d/s")), named("d/s"), "the zero may be absent");
    let nameless = Ok(Call::Socket { fd: Fd(3), op: SocketOp::Bind, len: 0 });
    for other in [address(libc::AF_UNIX, b"\0abstract"), address(libc::AF_UNIX, b""), address(libc::AF_INET, b"abcd")] {
        assert_eq!(bound(&other), nameless, "{other:?}");
    }
    assert_eq!(decoded("bind", [3, 4096, 9, 0, 0, 0], &[None], None, -14), nameless);
}
