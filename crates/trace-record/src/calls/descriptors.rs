//! Calls that make, double, close or wait for descriptors.

use esker_trace_calls::words::*;
use esker_trace_calls::{Call, Word};

use super::*;

/// Bytes of a set of descriptors of `select`.
const FD_SET: u16 = 128;
/// Bytes of `struct timespec` and of `struct timeval`.
const SPAN: u16 = 16;

/// Where the flags are in `struct io_uring_params`.
const RING_FLAGS: u16 = 8;
/// `IORING_SETUP_SQPOLL`: the kernel takes requests by itself.
const RING_SQPOLL: u32 = 2;

/// See [`super::all`].
pub(super) const CALLS: &[Spec] = &[
    row!(SYS_close, [], |c| Ok(Call::Close { fd: c.fd(0) })),
    row!(SYS_close_range, [], |c| {
        let flags = bits::close_range_flags(c.arg(2));
        Ok(Call::CloseRange { first: c.arg(0) as u32, last: c.arg(1) as u32, flags })
    }),
    row!(SYS_dup, [], |c| Ok(Call::Dup { fd: c.fd(0), min: 0, cloexec: false })),
    row!(SYS_dup2, [], |c| Ok(Call::DupTo { fd: c.fd(0), to: c.fd(1), cloexec: false, strict: false })),
    row!(SYS_dup3, [], |c| { Ok(Call::DupTo { fd: c.fd(0), to: c.fd(1), cloexec: cloexec(c, 2), strict: true }) }),
    row!(SYS_fcntl, [bytes(2, 24)], fcntl),
    row!(SYS_pipe, [], [bytes(0, 8)], |c| pipe(c, OpenFlags::empty())),
    row!(SYS_pipe2, [], [bytes(0, 8)], |c| {
        // The access mode is no flag of a pipe.
        pipe(c, bits::open_flags(c.arg(1)) - OpenFlags::READ - OpenFlags::WRITE)
    }),
    row!(SYS_socketpair, [], [bytes(3, 8)], |c| {
        let (seen_first, seen_second) = pair(c, 3);
        Ok(Call::SocketPair { seen_first, seen_second, cloexec: c.int(1) & libc::SOCK_CLOEXEC != 0 })
    }),
    row!(SYS_socket, [], |c| made(FdSource::Socket, c.int(1) & libc::SOCK_CLOEXEC != 0)),
    row!(SYS_accept, [], |c| accepted(c, false)),
    row!(SYS_accept4, [], |c| accepted(c, c.int(3) & libc::SOCK_CLOEXEC != 0)),
    row!(SYS_eventfd, [], |_| made(FdSource::Event, false)),
    row!(SYS_eventfd2, [], |c| made(FdSource::Event, cloexec(c, 1))),
    row!(SYS_epoll_create, [], |_| made(FdSource::Poll, false)),
    row!(SYS_epoll_create1, [], |c| made(FdSource::Poll, cloexec(c, 0))),
    row!(SYS_timerfd_create, [], |c| made(FdSource::Timer, cloexec(c, 1))),
    row!(SYS_signalfd, [], |_| made(FdSource::Signal, false)),
    row!(SYS_signalfd4, [], |c| made(FdSource::Signal, cloexec(c, 3))),
    row!(SYS_inotify_init, [], |_| made(FdSource::Notify, false)),
    row!(SYS_inotify_init1, [], |c| made(FdSource::Notify, cloexec(c, 0))),
    row!(SYS_fanotify_init, [], |c| made(FdSource::Notify, c.arg(0) & 1 != 0)),
    row!(SYS_memfd_create, [text(0)], |c| {
        let cloexec = c.arg(1) & u64::from(libc::MFD_CLOEXEC) != 0;
        Ok(Call::MakeFd { source: FdSource::Memory, from: Fd(-1), name: Word::from(c.text(0)?), cloexec })
    }),
    row!(SYS_pidfd_open, [], |_| other("pidfd_open", Fd(-1), true)),
    row!(SYS_userfaultfd, [], |c| other("userfaultfd", Fd(-1), cloexec(c, 0))),
    row!(SYS_perf_event_open, [], |c| other("perf_event_open", Fd(-1), c.arg(4) & 8 != 0)),
    row!(SYS_open_by_handle_at, [], |c| other("open_by_handle_at", c.fd(0), cloexec(c, 2))),
    row!(SYS_io_uring_setup, [bytes(1, RING_FLAGS + 4)], |c| {
        let flags = c.bytes(1).and_then(|bytes| u32_at(bytes, usize::from(RING_FLAGS))).unwrap_or(0);
        Ok(Call::ring(flags & RING_SQPOLL != 0))
    }),
    row!(SYS_inotify_rm_watch, [], |c| Ok(Call::Unwatch { queue: c.fd(0), watch: c.int(1) })),
    row!(SYS_connect, [], |c| socket(c, SocketOp::Connect, 0)),
    row!(SYS_bind, [array(1, 1, 2)], bind),
    row!(SYS_listen, [], |c| socket(c, SocketOp::Listen, 0)),
    row!(SYS_shutdown, [], |c| socket(c, SocketOp::Shutdown, 0)),
    row!(SYS_sendto, [], |c| socket(c, SocketOp::Send, c.arg(2))),
    row!(SYS_sendmsg, [], |c| socket(c, SocketOp::Send, moved(c))),
    row!(SYS_sendmmsg, [], |c| socket(c, SocketOp::Send, moved(c))),
    row!(SYS_recvfrom, [], |c| socket(c, SocketOp::Receive, c.arg(2))),
    row!(SYS_recvmsg, [], |c| socket(c, SocketOp::Receive, moved(c))),
    row!(SYS_recvmmsg, [], |c| socket(c, SocketOp::Receive, moved(c))),
    row!(SYS_setsockopt, [], |c| socket(c, SocketOp::Option, 0)),
    row!(SYS_getsockopt, [], |c| socket(c, SocketOp::Option, 0)),
    row!(SYS_getsockname, [], |c| socket(c, SocketOp::Option, 0)),
    row!(SYS_getpeername, [], |c| socket(c, SocketOp::Option, 0)),
    row!(SYS_poll, [array(0, 8, 1)], |c| Ok(Call::Poll { fds: polled(c), timeout_ms: i64::from(c.int(2)) })),
    row!(SYS_ppoll, [array(0, 8, 1), bytes(2, SPAN)], |c| Ok(Call::Poll {
        fds: polled(c),
        timeout_ms: span(c, 2, 1_000_000)
    })),
    row!(SYS_select, [bytes(1, FD_SET), bytes(2, FD_SET), bytes(4, SPAN)], |c| {
        Ok(Call::Poll { fds: selected(c), timeout_ms: span(c, 4, 1_000) })
    }),
    row!(SYS_pselect6, [bytes(1, FD_SET), bytes(2, FD_SET), bytes(4, SPAN)], |c| {
        Ok(Call::Poll { fds: selected(c), timeout_ms: span(c, 4, 1_000_000) })
    }),
    row!(SYS_epoll_ctl, [], |c| {
        let op = match c.int(1) {
            libc::EPOLL_CTL_ADD => "EPOLL_CTL_ADD",
            libc::EPOLL_CTL_DEL => "EPOLL_CTL_DEL",
            libc::EPOLL_CTL_MOD => "EPOLL_CTL_MOD",
            _ => return Err(WarningKind::BadArguments),
        };
        Ok(Call::EpollControl { set: c.fd(0), fd: c.fd(2), op: Word::from(op) })
    }),
    row!(SYS_epoll_wait, [], |c| Ok(Call::EpollWait { set: c.fd(0), timeout_ms: i64::from(c.int(3)) })),
    row!(SYS_epoll_pwait, [], |c| Ok(Call::EpollWait { set: c.fd(0), timeout_ms: i64::from(c.int(3)) })),
    row!(SYS_epoll_pwait2, [bytes(3, SPAN)], |c| {
        Ok(Call::EpollWait { set: c.fd(0), timeout_ms: span(c, 3, 1_000_000) })
    }),
];

/// `O_CLOEXEC`, under whatever name a call has it.
fn cloexec(c: &Raw<'_>, arg: usize) -> bool {
    c.int(arg) & libc::O_CLOEXEC != 0
}

fn made(source: FdSource, cloexec: bool) -> Decoded {
    Ok(Call::MakeFd { source, from: Fd(-1), name: Word::default(), cloexec })
}

fn accepted(c: &Raw<'_>, cloexec: bool) -> Decoded {
    Ok(Call::MakeFd { source: FdSource::Accept, from: c.fd(0), name: Word::default(), cloexec })
}

fn other(name: &str, from: Fd, cloexec: bool) -> Decoded {
    Ok(Call::MakeFd { source: FdSource::Other, from, name: Word::from(name), cloexec })
}

fn socket(c: &Raw<'_>, op: SocketOp, len: u64) -> Decoded {
    Ok(Call::Socket { fd: c.fd(0), op, len })
}

/// Permissions of a socket's name, of which the mask takes some away.
const SOCKET_MODE: u16 = 0o777;

/// A Unix socket gets a name in the file system; others, and those with an abstract name, do not.
fn bind(c: &Raw<'_>) -> Decoded {
    let address = c.bytes(1).unwrap_or_default();
    let is_unix = u16_at(address, 0) == Some(libc::AF_UNIX as u16);
    let path = address.get(2..).filter(|_| is_unix).and_then(|path| path.split(|byte| *byte == 0).next());
    match path {
        Some(path) if !path.is_empty() => {
            Ok(Call::Bind { fd: c.fd(0), at: At::cwd(PathBytes::from(path)), mode: SOCKET_MODE })
        }
        _ => socket(c, SocketOp::Bind, 0),
    }
}

/// Bytes that the call says it moved.
fn moved(c: &Raw<'_>) -> u64 {
    c.result.unwrap_or(0).max(0) as u64
}

/// Two descriptors in memory; -1 if the call failed.
fn pair(c: &Raw<'_>, out: usize) -> (Fd, Fd) {
    let bytes = c.seen(out).unwrap_or_default();
    let fd = |at| Fd(u32_at(bytes, at).map_or(-1, |number| number as i32));
    (fd(0), fd(4))
}

fn pipe(c: &Raw<'_>, flags: OpenFlags) -> Decoded {
    let (seen_read, seen_write) = pair(c, 0);
    Ok(Call::Pipe { seen_read, seen_write, flags })
}

fn polled(c: &Raw<'_>) -> Vec<Fd> {
    let bytes = c.bytes(0).unwrap_or_default();
    bytes.chunks_exact(8).filter_map(|entry| u32_at(entry, 0)).map(|fd| Fd(fd as i32)).collect()
}

fn selected(c: &Raw<'_>) -> Vec<Fd> {
    let sets = [c.bytes(1), c.bytes(2)];
    let is_set =
        |fd: usize| sets.iter().flatten().any(|set| set.get(fd / 8).is_some_and(|byte| byte >> (fd % 8) & 1 != 0));
    (0..c.int(0).clamp(0, 1024)).filter(|fd| is_set(*fd as usize)).map(Fd).collect()
}

/// A span in memory in milliseconds, its second word in as many parts of one; without one, forever.
fn span(c: &Raw<'_>, arg: usize, parts: i64) -> i64 {
    let bytes = c.bytes(arg).unwrap_or_default();
    match (i64_at(bytes, 0), i64_at(bytes, 8)) {
        (Some(seconds), Some(rest)) => seconds.saturating_mul(1000).saturating_add(rest / parts),
        _ => -1,
    }
}

fn fcntl(c: &Raw<'_>) -> Decoded {
    let (fd, number) = (c.fd(0), c.int(2));
    let lock = match c.int(1) {
        libc::F_DUPFD => return Ok(Call::Dup { fd, min: number, cloexec: false }),
        libc::F_DUPFD_CLOEXEC => return Ok(Call::Dup { fd, min: number, cloexec: true }),
        libc::F_SETFL => return Ok(Call::SetFlags { fd, flags: bits::open_flags(c.arg(2)) }),
        libc::F_GETLK => RecordLock::Get,
        libc::F_SETLK => RecordLock::Set,
        libc::F_SETLKW => RecordLock::SetWait,
        libc::F_OFD_GETLK => RecordLock::OfdGet,
        libc::F_OFD_SETLK => RecordLock::OfdSet,
        libc::F_OFD_SETLKW => RecordLock::OfdSetWait,
        // What only asks takes no argument: what stands in its place is left over.
        command if ASKING.contains(&command) => return Ok(Call::Fcntl { fd, cmd: property(command), arg: 0 }),
        command => return Ok(Call::Fcntl { fd, cmd: property(command), arg: i64::from(number) }),
    };
    let bytes = c.bytes(2).ok_or(WarningKind::BadArguments)?;
    range_lock(fd, lock, bytes).ok_or(WarningKind::BadArguments)
}

/// `struct flock`: type, whence, start, length.
fn range_lock(fd: Fd, cmd: RecordLock, bytes: &[u8]) -> Option<Call> {
    let kind = match i32::from(u16_at(bytes, 0)?) {
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return None,
    };
    let whence = super::data::whence(i32::from(u16_at(bytes, 2)?))?;
    Some(Call::RangeLock { fd, cmd, kind, whence, start: i64_at(bytes, 8)?, len: i64_at(bytes, 16)? })
}

/// Commands that only ask.
const ASKING: [i32; 6] =
    [libc::F_GETFD, libc::F_GETFL, libc::F_GETPIPE_SZ, libc::F_GETLEASE, libc::F_GET_SEALS, libc::F_GETOWN];

fn property(command: i32) -> FcntlCmd {
    match command {
        libc::F_GETFD => FcntlCmd::GetFd,
        libc::F_SETFD => FcntlCmd::SetFd,
        libc::F_GETFL => FcntlCmd::GetFl,
        libc::F_GETPIPE_SZ => FcntlCmd::GetPipeSize,
        libc::F_SETPIPE_SZ => FcntlCmd::SetPipeSize,
        libc::F_SETLEASE => FcntlCmd::SetLease,
        libc::F_GETLEASE => FcntlCmd::GetLease,
        libc::F_ADD_SEALS => FcntlCmd::AddSeals,
        libc::F_GET_SEALS => FcntlCmd::GetSeals,
        libc::F_SETOWN => FcntlCmd::SetOwn,
        libc::F_GETOWN => FcntlCmd::GetOwn,
        _ => FcntlCmd::Other,
    }
}
