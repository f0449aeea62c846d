//! Calls on pipes, sockets, sets of descriptors, and queues of asynchronous requests.

use super::args::{Args, after, field, int_of, words_of};
use super::files::make_fd;
use super::{Bad, Known, call};
use crate::call::{AsyncOp, AsyncQueue, At, Call, Fd};
use crate::import::lex::{Arg, number};
use crate::name::{PathBytes, Word};
use crate::words::{AsyncKind, FdSource, OpenFlags, SocketOp};

pub(super) const CALLS: &[Known] = &[
    call("pipe", pipe),
    call("pipe2", pipe),
    call("socketpair", |a| {
        let (first, second) = pair(a, 3);
        Ok(Call::SocketPair { seen_first: first, seen_second: second, cloexec: a.has(1, "SOCK_CLOEXEC") })
    }),
    call("socket", |a| Ok(make_fd(FdSource::Socket, a.has(1, "SOCK_CLOEXEC")))),
    call("accept", accept),
    call("accept4", accept),
    call("eventfd", |_| Ok(make_fd(FdSource::Event, false))),
    call("eventfd2", |a| Ok(make_fd(FdSource::Event, a.has(1, "EFD_CLOEXEC")))),
    call("epoll_create", |_| Ok(make_fd(FdSource::Poll, false))),
    call("epoll_create1", |a| Ok(make_fd(FdSource::Poll, a.has(0, "EPOLL_CLOEXEC")))),
    call("timerfd_create", |a| Ok(make_fd(FdSource::Timer, a.has(1, "TFD_CLOEXEC")))),
    call("signalfd", signalfd),
    call("signalfd4", signalfd),
    call("inotify_init", |_| Ok(make_fd(FdSource::Notify, false))),
    call("inotify_init1", |a| Ok(make_fd(FdSource::Notify, a.has(0, "IN_CLOEXEC")))),
    call("memfd_create", memfd),
    call("pidfd_open", |_| Ok(make_fd(FdSource::Other, true))),
    call("userfaultfd", |a| Ok(make_fd(FdSource::Other, a.has(0, "O_CLOEXEC")))),
    call("io_uring_setup", |a| {
        let flags = a.get(1).and_then(|params| field(params, "flags")).map(words_of).unwrap_or_default();
        Ok(Call::ring(flags.contains(&"IORING_SETUP_SQPOLL")))
    }),
    call("io_uring_enter", |a| Ok(Call::UringEnter { ring: a.fd(0)?, submit: a.u32(1)?, wait: a.u32(2)? })),
    call("io_uring_register", |a| {
        let operation = a.int(1).unwrap_or(0) as u32;
        Ok(Call::UringRegister { ring: a.fd(0)?, operation })
    }),
    call("connect", |a| socket(a, SocketOp::Connect, None)),
    call("bind", bind),
    call("listen", |a| socket(a, SocketOp::Listen, None)),
    call("shutdown", |a| socket(a, SocketOp::Shutdown, None)),
    call("sendto", |a| socket(a, SocketOp::Send, Some(2))),
    call("sendmsg", |a| socket(a, SocketOp::Send, None)),
    call("sendmmsg", |a| socket(a, SocketOp::Send, None)),
    call("recvfrom", |a| socket(a, SocketOp::Receive, Some(2))),
    call("recvmsg", recvmsg),
    call("recvmmsg", |a| socket(a, SocketOp::Receive, None)),
    call("setsockopt", |a| socket(a, SocketOp::Option, None)),
    call("getsockopt", |a| socket(a, SocketOp::Option, None)),
    call("getsockname", |a| socket(a, SocketOp::Option, None)),
    call("getpeername", |a| socket(a, SocketOp::Option, None)),
    call("poll", poll),
    call("ppoll", poll),
    call("select", select),
    call("_newselect", select),
    call("pselect6", select),
    call("epoll_ctl", |a| {
        let op = a.words(1).first().copied().unwrap_or("").to_string();
        Ok(Call::EpollControl { set: a.fd(0)?, op: Word::from(&op), fd: a.fd(2)? })
    }),
    call("epoll_wait", |a| Ok(Call::EpollWait { set: a.fd(0)?, timeout_ms: a.i64(3)? })),
    call("epoll_pwait", |a| Ok(Call::EpollWait { set: a.fd(0)?, timeout_ms: a.i64(3)? })),
    call("epoll_pwait2", |a| Ok(Call::EpollWait { set: a.fd(0)?, timeout_ms: timespec_ms(a, 3) })),
    call("io_setup", |a| {
        let queue = a.raw.args.get(1).map(after).and_then(first_int).unwrap_or(0) as u64;
        Ok(Call::AsyncSetup { depth: a.u32(0)?, seen_queue: AsyncQueue::Kernel(queue) })
    }),
    call("io_destroy", |a| Ok(Call::AsyncDestroy { queue: AsyncQueue::Kernel(a.u64(0)?) })),
    call("io_submit", io_submit),
    call("io_getevents", io_getevents),
    call("io_pgetevents", io_getevents),
    call("io_cancel", |a| {
        let key = a.get(1).and_then(int_of).map(|key| key as u64);
        Ok(Call::AsyncCancel { queue: AsyncQueue::Kernel(a.u64(0)?), fd: Fd(-1), key })
    }),
    call("aio_read", |a| Ok(posix_submit(vec![posix_op(a, AsyncKind::Read)?]))),
    call("aio_write", |a| Ok(posix_submit(vec![posix_op(a, AsyncKind::Write)?]))),
    call("aio_fsync", |a| {
        let kind = if a.has(0, "O_DSYNC") { AsyncKind::DataSync } else { AsyncKind::Sync };
        let op = AsyncOp { key: a.u64(1)?, kind, fd: a.fd(2)?, offset: 0, len: 0 };
        Ok(posix_submit(vec![op]))
    }),
    call("aio_error", |a| Ok(Call::AsyncError { key: a.u64(0)? })),
    call("aio_return", |a| Ok(Call::AsyncReturn { key: a.u64(0)? })),
    call("aio_suspend", |a| {
        let keys = a.list(0)?.iter().filter_map(int_of).map(|key| key as u64).collect();
        Ok(Call::AsyncSuspend { keys })
    }),
    call("aio_cancel", |a| {
        let key = a.int(1).ok().map(|key| key as u64).filter(|key| *key != 0);
        Ok(Call::AsyncCancel { queue: AsyncQueue::Posix, fd: a.fd(0)?, key })
    }),
    call("lio_listio", lio_listio),
];

/// Two descriptors that a call told in a list, or -1 where it failed.
fn pair(a: &mut Args<'_>, place: usize) -> (Fd, Fd) {
    let told = match a.raw.args.get(place).map(after) {
        Some(Arg::List(told)) => told.as_slice(),
        _ => &[],
    };
    let fd = |which: usize| Fd(told.get(which).and_then(int_of).unwrap_or(-1) as i32);
    (fd(0), fd(1))
}

fn pipe(a: &mut Args<'_>) -> Result<Call, Bad> {
    let (seen_read, seen_write) = pair(a, 0);
    Ok(Call::Pipe { seen_read, seen_write, flags: a.some_flags::<OpenFlags>(1) })
}

fn accept(a: &mut Args<'_>) -> Result<Call, Bad> {
    let cloexec = a.has(3, "SOCK_CLOEXEC");
    Ok(Call::MakeFd { source: FdSource::Accept, from: a.fd(0)?, name: Word::default(), cloexec })
}

/// A signal descriptor; one that is only changed is no new one.
fn signalfd(a: &mut Args<'_>) -> Result<Call, Bad> {
    let fd = a.fd(0)?;
    let cloexec = a.has(3, "SFD_CLOEXEC");
    Ok(if fd.0 < 0 { make_fd(FdSource::Signal, cloexec) } else { Call::Other { name: Word::from("signalfd4") } })
}

fn memfd(a: &mut Args<'_>) -> Result<Call, Bad> {
    let name = match a.get(0) {
        Some(Arg::Text { bytes, .. }) => Word::from(bytes.as_slice()),
        _ => Word::default(),
    };
    let cloexec = a.has(1, "MFD_CLOEXEC");
    Ok(Call::MakeFd { source: FdSource::Memory, from: Fd(-1), name, cloexec })
}

fn socket(a: &mut Args<'_>, op: SocketOp, len: Option<usize>) -> Result<Call, Bad> {
    let len = len.map_or(Ok(u64::try_from(a.result()).unwrap_or(0)), |place| a.u64(place))?;
    Ok(Call::Socket { fd: a.fd(0)?, op, len })
}

/// `bind(3, {sa_family=AF_UNIX, sun_path="d/s"}, 110)` gives a name; an abstract one is in no file system
/// (`sun_path=@"s"`).
fn bind(a: &mut Args<'_>) -> Result<Call, Bad> {
    let path = a.get(1).and_then(|address| field(address, "sun_path"));
    match path {
        Some(Arg::Text { bytes, cut: false }) if !bytes.is_empty() => {
            let at = At::cwd(PathBytes::from(&bytes[..]));
            Ok(Call::Bind { fd: a.fd(0)?, at, mode: 0o777 })
        }
        _ => socket(a, SocketOp::Bind, None),
    }
}

/// A message, with the descriptors that came with it:
/// `{…, msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=[5, 6]}], …}`.
fn recvmsg(a: &mut Args<'_>) -> Result<Call, Bad> {
    let controls = match a.get(1).and_then(|message| field(message, "msg_control")) {
        Some(Arg::List(controls)) => controls.as_slice(),
        _ => &[],
    };
    let rights = controls
        .iter()
        .filter(|control| field(control, "cmsg_type").map(words_of).is_some_and(|words| words.contains(&"SCM_RIGHTS")));
    let lists = rights.filter_map(|control| match field(control, "cmsg_data") {
        Some(Arg::List(fds)) => Some(fds),
        _ => None,
    });
    let seen_fds: Vec<Fd> = lists.flatten().filter_map(int_of).map(|fd| Fd(fd as i32)).collect();
    if seen_fds.is_empty() || !a.succeeded() {
        return socket(a, SocketOp::Receive, None);
    }
    Ok(Call::ReceiveFds { fd: a.fd(0)?, len: u64::try_from(a.result()).unwrap_or(0), seen_fds })
}

/// `[{fd=3, events=POLLIN}, …], 1, -1` or with a time as structure.
fn poll(a: &mut Args<'_>) -> Result<Call, Bad> {
    let fds = a.list(0).unwrap_or_default().iter().filter_map(|entry| field(entry, "fd").and_then(int_of));
    let fds = fds.map(|fd| Fd(fd as i32)).collect();
    let timeout_ms = if matches!(a.get(2), Some(Arg::Int { .. })) { a.i64(2)? } else { timespec_ms(a, 2) };
    Ok(Call::Poll { fds, timeout_ms })
}

/// Sets of descriptors: `[3 5]`.
fn select(a: &mut Args<'_>) -> Result<Call, Bad> {
    let mut fds = Vec::new();
    for place in 1..=3 {
        for entry in a.list(place).unwrap_or_default() {
            match entry {
                Arg::Words { text, .. } => fds.extend(text.split_whitespace().filter_map(number)),
                other => fds.extend(int_of(other)),
            }
        }
    }
    let mut fds: Vec<Fd> = fds.into_iter().map(|fd| Fd(fd as i32)).collect();
    fds.sort_unstable();
    fds.dedup();
    Ok(Call::Poll { fds, timeout_ms: timespec_ms(a, 4) })
}

/// `{tv_sec=1, tv_nsec=500}` in ms; -1 for `NULL`.
fn timespec_ms(a: &Args<'_>, place: usize) -> i64 {
    let Some(time @ Arg::Fields(_)) = a.get(place) else { return -1 };
    let part = |name| field(time, name).and_then(int_of).map(|n| n as i64);
    let nanos = part("tv_nsec").or_else(|| part("tv_usec").map(|micros| micros.saturating_mul(1000)));
    part("tv_sec").unwrap_or(0).saturating_mul(1000).saturating_add(nanos.unwrap_or(0) / 1_000_000)
}

fn first_int(arg: &Arg) -> Option<i128> {
    match arg {
        Arg::List(values) => values.first().and_then(int_of),
        other => int_of(other),
    }
}

/// `0x7f…, 1, [{aio_data=0, aio_key=…, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_nbytes=4096, aio_offset=0}]`.
/// strace does not show the addresses of control blocks, which name them in answers: `aio_data` or the place stands for
/// them.
fn io_submit(a: &mut Args<'_>) -> Result<Call, Bad> {
    let queue = AsyncQueue::Kernel(a.u64(0)?);
    let blocks = a.list(2)?;
    let ops = blocks.iter().enumerate().filter_map(|(place, block)| kernel_op(block, place)).collect();
    Ok(Call::AsyncSubmit { queue, ops, wait: false })
}

fn kernel_op(block: &Arg, place: usize) -> Option<AsyncOp> {
    let number = |name| field(block, name).and_then(int_of);
    let kind = match field(block, "aio_lio_opcode").map(words_of)?.first().copied()? {
        "IOCB_CMD_PREAD" | "IOCB_CMD_PREADV" => AsyncKind::Read,
        "IOCB_CMD_PWRITE" | "IOCB_CMD_PWRITEV" => AsyncKind::Write,
        "IOCB_CMD_FSYNC" => AsyncKind::Sync,
        "IOCB_CMD_FDSYNC" => AsyncKind::DataSync,
        "IOCB_CMD_POLL" => AsyncKind::Poll,
        _ => AsyncKind::Other,
    };
    Some(AsyncOp {
        key: number("aio_data").map_or(place as u64, |data| data as u64),
        kind,
        fd: Fd(number("aio_fildes")? as i32),
        offset: number("aio_offset").unwrap_or(0) as u64,
        len: number("aio_nbytes").unwrap_or(0) as u64,
    })
}

/// `0x7f…, 1, 10, [{data=0, obj=0x55…, res=4096, res2=0}], NULL`
fn io_getevents(a: &mut Args<'_>) -> Result<Call, Bad> {
    let events = a.list(3).unwrap_or_default();
    let keys = events.iter().filter_map(|event| field(event, "data").and_then(int_of)).map(|key| key as u64);
    let queue = AsyncQueue::Kernel(a.u64(0)?);
    Ok(Call::AsyncReap { queue, min: a.u32(1)?, max: a.u32(2)?, seen_keys: keys.collect() })
}

fn posix_submit(ops: Vec<AsyncOp>) -> Call {
    Call::AsyncSubmit { queue: AsyncQueue::Posix, ops, wait: false }
}

/// `block, fd, offset, bytes`: how tracers of libraries write a control block's fields behind its address.
fn posix_op(a: &mut Args<'_>, kind: AsyncKind) -> Result<AsyncOp, Bad> {
    Ok(AsyncOp { key: a.u64(0)?, kind, fd: a.fd(1)?, offset: a.u64(2)?, len: a.u64(3)? })
}

/// `LIO_WAIT, [{block, fd, offset, bytes, LIO_READ}, …]`
fn lio_listio(a: &mut Args<'_>) -> Result<Call, Bad> {
    let ops = a.list(1)?.iter().filter_map(listed_op).collect();
    Ok(Call::AsyncSubmit { queue: AsyncQueue::Posix, ops, wait: a.has(0, "LIO_WAIT") })
}

fn listed_op(block: &Arg) -> Option<AsyncOp> {
    let Arg::Fields(values) = block else { return None };
    let number = |place: usize| values.get(place).and_then(int_of);
    let kind = match words_of(values.get(4)?).first().copied()? {
        "LIO_READ" => AsyncKind::Read,
        "LIO_WRITE" => AsyncKind::Write,
        _ => AsyncKind::Other,
    };
    let (offset, len) = (number(2)? as u64, number(3)? as u64);
    Some(AsyncOp { key: number(0)? as u64, kind, fd: Fd(number(1)? as i32), offset, len })
}
