//! Calls that make and end processes, map memory, or go through queues of requests.

use esker_trace_calls::words::*;
use esker_trace_calls::{AsyncOp, AsyncQueue, Call, Outcome, Word};

use super::*;

/// Bytes of an answer to one.
const IO_EVENT: u16 = 32;

/// The library has no name for it.
const IO_PGETEVENTS: i64 = 333;

/// The bits of a futex call's second argument that say what is asked, without flags.
pub(crate) const FUTEX_OPERATION: i32 = 0x7f;

/// See [`super::all`].
pub(super) const CALLS: &[Spec] = &[
    row!(SYS_clone, [], |c| cloned(c.arg(0))),
    row!(SYS_clone3, [bytes(0, 8)], |c| {
        let flags = c.bytes(0).and_then(|bytes| u64_at(bytes, 0)).ok_or(WarningKind::BadArguments)?;
        cloned(flags)
    }),
    row!(SYS_fork, [], |_| cloned(0)),
    row!(SYS_vfork, [], |_| cloned((libc::CLONE_VM | libc::CLONE_VFORK) as u64)),
    row!(SYS_execve, [text(0)], |c| Ok(Call::Exec { file: c.object(0, true)? })),
    row!(SYS_execveat, [text(1)], |c| {
        Ok(Call::Exec { file: c.object_at(0, 1, c.arg(4), c.arg(4) & SYMLINK_NOFOLLOW == 0)? })
    }),
    row!(SYS_exit, [], |c| Ok(Call::Exit { status: c.int(0), group: false })),
    row!(SYS_exit_group, [], |c| Ok(Call::Exit { status: c.int(0), group: true })),
    row!(SYS_unshare, [], |c| Ok(Call::Unshare { flags: bits::clone_flags(c.arg(0)) })),
    row!(SYS_wait4, [], |c| Ok(Call::Wait { pid: c.int(0) })),
    row!(SYS_waitid, [], |c| Ok(Call::Wait { pid: c.int(1) })),
    row!(SYS_futex, [], futex),
    row!(SYS_restart_syscall, [], |c| Ok(Call::Other { name: Word::from(c.spec.name()) })),
    row!(SYS_umask, [], |c| Ok(Call::Umask { mask: c.mode(0) })),
    Spec { unless_negative: Some(4), ..row!(SYS_mmap, [], map) },
    row!(SYS_munmap, [], |c| Ok(Call::Unmap { address: c.arg(0), len: c.arg(1) })),
    row!(SYS_mremap, [], |c| Ok(Call::Remap { address: c.arg(0), len: c.arg(1), new_len: c.arg(2) })),
    row!(SYS_msync, [], |c| {
        Ok(Call::MapSync { address: c.arg(0), len: c.arg(1), flags: bits::map_sync_flags(c.arg(2)) })
    }),
    row!(SYS_madvise, [], |c| {
        Ok(Call::MapAdvise { address: c.arg(0), len: c.arg(1), advice: map_advice(c.int(2)) })
    }),
    row!(SYS_io_setup, [], [bytes(1, 8)], |c| {
        let queue = c.seen(1).and_then(|bytes| u64_at(bytes, 0)).unwrap_or(0);
        Ok(Call::AsyncSetup { depth: c.arg(0) as u32, seen_queue: AsyncQueue::Kernel(queue) })
    }),
    row!(SYS_io_destroy, [], |c| Ok(Call::AsyncDestroy { queue: AsyncQueue::Kernel(c.arg(0)) })),
    row!(SYS_io_submit, [pointers(2, 1)], submit),
    row!(SYS_io_getevents, [], [returned(3, IO_EVENT)], reap),
    call(IO_PGETEVENTS, "SYS_io_pgetevents", &[], &[returned(3, IO_EVENT)], reap),
    row!(SYS_io_cancel, [bytes(1, BLOCK_BYTES)], |c| {
        let fd = c.bytes(1).and_then(|block| u32_at(block, 20)).map_or(Fd(-1), |fd| Fd(fd as i32));
        Ok(Call::AsyncCancel { queue: AsyncQueue::Kernel(c.arg(0)), fd, key: Some(c.arg(1)) })
    }),
    row!(SYS_io_uring_enter, [], |c| {
        Ok(Call::UringEnter { ring: c.fd(0), submit: c.arg(1) as u32, wait: c.arg(2) as u32 })
    }),
    row!(SYS_io_uring_register, [array(2, 4, 3)], |c| Ok(Call::UringRegister {
        ring: c.fd(0),
        operation: c.arg(1) as u32
    })),
];

/// The child is known to the code that follows the processes.
fn cloned(flags: u64) -> Decoded {
    Ok(Call::Clone { flags: bits::clone_flags(flags), child: None })
}

/// Operations other than waits and wakes of the plain kinds are not told: see [`wakes`].
fn futex(c: &Raw<'_>) -> Decoded {
    let (address, shared) = (c.arg(0), c.int(1) & libc::FUTEX_PRIVATE_FLAG == 0);
    Ok(match c.int(1) & FUTEX_OPERATION {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Call::FutexWait { address, shared, value: c.arg(2) as u32 },
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Call::FutexWake { address, shared },
        _ => Call::Other { name: Word::from(c.spec.name()) },
    })
}

/// Whether a call at a futex is worth telling: it was woken, or it woke others. All others take their time as
/// computation does.
pub(crate) fn wakes(call: &Call, outcome: Outcome) -> bool {
    match call {
        Call::FutexWait { .. } => outcome == Outcome::Done(0),
        Call::FutexWake { .. } => outcome.value().is_some_and(|woken| woken > 0),
        _ => false,
    }
}

fn map(c: &Raw<'_>) -> Decoded {
    let flags = bits::map_flags(c.arg(2), c.arg(3));
    Ok(Call::Map { fd: c.fd(4), address: c.arg(0), len: c.arg(1), offset: c.arg(5), flags })
}

fn map_advice(number: i32) -> MapAdvice {
    match number {
        libc::MADV_NORMAL => MapAdvice::Normal,
        libc::MADV_RANDOM => MapAdvice::Random,
        libc::MADV_SEQUENTIAL => MapAdvice::Sequential,
        libc::MADV_WILLNEED => MapAdvice::WillNeed,
        libc::MADV_DONTNEED => MapAdvice::DontNeed,
        _ => MapAdvice::Other,
    }
}

fn submit(c: &Raw<'_>) -> Decoded {
    let blocks = c.bytes(2).ok_or(WarningKind::BadArguments)?;
    let wanted = usize::try_from(c.arg(1) as i64).unwrap_or(0);
    let ops: Vec<AsyncOp> = blocks.chunks_exact(8 + usize::from(BLOCK_BYTES)).filter_map(request).collect();
    if ops.len() < wanted {
        return Err(WarningKind::BadArguments);
    }
    Ok(Call::AsyncSubmit { queue: AsyncQueue::Kernel(c.arg(0)), ops, wait: false })
}

/// `struct iocb`: data, key and flags, operation, priority, descriptor, buffer, bytes, offset.
fn request(bytes: &[u8]) -> Option<AsyncOp> {
    let block = &bytes[8..];
    let (kind, unit) = match u16_at(block, 16)? {
        0 => (AsyncKind::Read, 1),
        1 => (AsyncKind::Write, 1),
        2 => (AsyncKind::Sync, 1),
        3 => (AsyncKind::DataSync, 1),
        5 => (AsyncKind::Poll, 1),
        7 => (AsyncKind::Read, 0),
        8 => (AsyncKind::Write, 0),
        _ => (AsyncKind::Other, 1),
    };
    // Of an array of buffers the block tells how many there are, not how long they are.
    let len = u64_at(block, 32)? * unit;
    Some(AsyncOp { key: u64_at(bytes, 0)?, kind, fd: Fd(u32_at(block, 20)? as i32), offset: u64_at(block, 40)?, len })
}

fn reap(c: &Raw<'_>) -> Decoded {
    let answers = c.seen(3).unwrap_or_default();
    let seen_keys = answers.chunks_exact(usize::from(IO_EVENT)).filter_map(|answer| u64_at(answer, 8)).collect();
    Ok(Call::AsyncReap { queue: AsyncQueue::Kernel(c.arg(0)), min: c.arg(1) as u32, max: c.arg(2) as u32, seen_keys })
}
