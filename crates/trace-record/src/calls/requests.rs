//! Requests of an io_uring: which call each stands for.
//!
//! Numbers and layouts are those of `io_uring.h` of Linux. A request has the arguments of its call in an entry of 64
//! bytes, in places that differ by opcode. Here it becomes a [`Raw`] call, which is decoded as one that was made.

use esker_trace_calls::{Call, Fd, WarningKind};

use super::{ITEMS_MAX, Raw, Spec, bits};

/// Bytes of an entry of the submission queue.
pub(crate) const ENTRY_BYTES: usize = 64;

// Places in it.
const FLAGS: usize = 1;
const FD: usize = 4;
pub(crate) const SECOND_ADDRESS: i16 = 8;
pub(crate) const ADDRESS: i16 = 16;
pub(crate) const LEN: i16 = 24;
const OPTIONS: usize = 28;
const FIXED_SLOT: usize = 44;

/// `IOSQE_FIXED_FILE`: the descriptor is a slot of the ring's table.
const FIXED_FILE: u8 = 1;
/// `IOSQE_IO_DRAIN`: begins when all before it have ended.
const DRAIN: u8 = 2;
/// `IOSQE_IO_LINK` and `IOSQE_IO_HARDLINK`: the next request begins when this one has ended.
const LINKS: u8 = 4 | 8;
/// `IOSQE_CQE_SKIP_SUCCESS`: the program is not told of its end.
const SILENT: u8 = 1 << 6;
/// `IORING_FSYNC_DATASYNC`.
const FSYNC_DATA: u32 = 1;
/// `SPLICE_F_FD_IN_FIXED`.
const FROM_FIXED: u32 = 1 << 31;

/// Opcodes, without `IORING_OP_`.
#[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the kernel's own names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    NOP = 0,
    READV = 1,
    WRITEV = 2,
    FSYNC = 3,
    READ_FIXED = 4,
    WRITE_FIXED = 5,
    POLL_ADD = 6,
    POLL_REMOVE = 7,
    SYNC_FILE_RANGE = 8,
    SENDMSG = 9,
    RECVMSG = 10,
    TIMEOUT = 11,
    TIMEOUT_REMOVE = 12,
    ACCEPT = 13,
    ASYNC_CANCEL = 14,
    LINK_TIMEOUT = 15,
    CONNECT = 16,
    FALLOCATE = 17,
    OPENAT = 18,
    CLOSE = 19,
    FILES_UPDATE = 20,
    STATX = 21,
    READ = 22,
    WRITE = 23,
    FADVISE = 24,
    MADVISE = 25,
    SEND = 26,
    RECV = 27,
    OPENAT2 = 28,
    EPOLL_CTL = 29,
    SPLICE = 30,
    PROVIDE_BUFFERS = 31,
    REMOVE_BUFFERS = 32,
    TEE = 33,
    SHUTDOWN = 34,
    RENAMEAT = 35,
    UNLINKAT = 36,
    MKDIRAT = 37,
    SYMLINKAT = 38,
    LINKAT = 39,
    MSG_RING = 40,
    SOCKET = 45,
    SEND_ZC = 47,
    SENDMSG_ZC = 48,
    WAITID = 50,
    FUTEX_WAIT = 51,
    FUTEX_WAKE = 52,
    FUTEX_WAITV = 53,
    FIXED_FD_INSTALL = 54,
    FTRUNCATE = 55,
    BIND = 56,
    LISTEN = 57,
    EPOLL_WAIT = 59,
}

/// `IORING_OP_TIMEOUT`.
pub(crate) const TIMEOUT: u8 = Op::TIMEOUT as u8;

/// What a request means for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A call.
    Call,
    /// A call whose descriptor goes into, or is, a slot of the ring's table.
    Slot(u32),
    /// Slots of the ring's table change, from this one on.
    Table(u32),
    /// A slot of the ring's table gets a descriptor, too.
    Installed,
    /// Nothing of files, but it may take time for which the program waits.
    Wait,
    /// Nothing of files.
    Nothing,
    /// What no trace holds.
    Unheld,
}

use Op::*;

const fn among(ops: &[Op]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < ops.len() {
        bits |= 1 << ops[at] as u64;
        at += 1;
    }
    bits
}

/// Opcodes with a text at the address.
pub(crate) const TEXTS: u64 = among(&[OPENAT, OPENAT2, STATX, RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT]);
/// With one at the second address.
pub(crate) const SECOND_TEXTS: u64 = among(&[RENAMEAT, SYMLINKAT, LINKAT]);
/// With an array of buffers at the address.
pub(crate) const VECTORS: u64 = among(&[READV, WRITEV]);
/// With an array of descriptors at the address.
pub(crate) const DESCRIPTORS: u64 = among(&[FILES_UPDATE]);
/// With a `struct open_how` at the second address, and its bytes.
pub(crate) const WAYS: u64 = among(&[OPENAT2]);
pub(crate) const WAY_BYTES: i32 = 24;

/// Those that do nothing with files.
const WITHOUT_FILES: u64 = among(&[
    NOP,
    POLL_REMOVE,
    TIMEOUT_REMOVE,
    ASYNC_CANCEL,
    LINK_TIMEOUT,
    MADVISE,
    PROVIDE_BUFFERS,
    REMOVE_BUFFERS,
    MSG_RING,
    FUTEX_WAKE,
]);
/// Those that wait for time or for what others do.
const WAITS: u64 = among(&[POLL_ADD, Op::TIMEOUT, WAITID, FUTEX_WAIT, FUTEX_WAITV, EPOLL_WAIT]);

/// An entry of the submission queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a>(pub &'a [u8; ENTRY_BYTES]);

impl Entry<'_> {
    fn word(self, at: usize) -> u32 {
        super::u32_at(self.0, at).expect("it lies in the entry")
    }

    fn long(self, at: i16) -> u64 {
        super::u64_at(self.0, at as usize).expect("it lies in the entry")
    }

    pub(crate) fn opcode(self) -> u8 {
        self.0[0]
    }

    pub(crate) fn fd(self) -> u32 {
        self.word(FD)
    }

    /// Whether that is a slot of the ring's table.
    pub(crate) fn is_fixed(self) -> bool {
        self.0[FLAGS] & FIXED_FILE != 0 || self.opcode() == FIXED_FD_INSTALL as u8
    }

    /// Whether all requests before it end first.
    pub(crate) fn is_drain(self) -> bool {
        self.0[FLAGS] & DRAIN != 0
    }

    /// Whether the next request begins at its end.
    pub(crate) fn is_linked(self) -> bool {
        self.0[FLAGS] & LINKS != 0
    }

    /// Whether its end is told only if it fails.
    pub(crate) fn is_silent(self) -> bool {
        self.0[FLAGS] & SILENT != 0
    }

    /// The slot from which bytes come, if they come from one.
    pub(crate) fn source_slot(self) -> Option<u32> {
        let is_copy = [SPLICE as u8, TEE as u8].contains(&self.opcode());
        (is_copy && self.word(OPTIONS) & FROM_FIXED != 0).then(|| self.word(FIXED_SLOT))
    }

    pub(crate) fn meaning(self) -> Meaning {
        let is_among = |ops: u64| self.opcode() < 64 && ops >> self.opcode() & 1 != 0;
        let slot = self.word(FIXED_SLOT);
        match self.opcode() {
            op if op == FILES_UPDATE as u8 => Meaning::Table(self.long(SECOND_ADDRESS) as u32),
            op if op == FIXED_FD_INSTALL as u8 => Meaning::Installed,
            _ if is_among(WITHOUT_FILES) => Meaning::Nothing,
            _ if is_among(WAITS) => Meaning::Wait,
            _ if is_among(among(&[OPENAT, OPENAT2, CLOSE, ACCEPT, SOCKET])) && slot != 0 => Meaning::Slot(slot - 1),
            _ if self.call().is_some() => Meaning::Call,
            _ => Meaning::Unheld,
        }
    }

    /// The number of its call, and the arguments.
    fn call(self) -> Option<(i64, [u64; 6])> {
        let (fd, second, address) = (u64::from(self.fd()), self.long(SECOND_ADDRESS), self.long(ADDRESS));
        let (len, options) = (u64::from(self.word(LEN as usize)), u64::from(self.word(OPTIONS)));
        let here = second == u64::MAX;
        let is = |op: Op| self.opcode() == op as u8;
        Some(match self.opcode() {
            _ if is(READ) || is(READ_FIXED) => {
                (if here { libc::SYS_read } else { libc::SYS_pread64 }, [fd, address, len, second, 0, 0])
            }
            _ if is(WRITE) || is(WRITE_FIXED) => {
                (if here { libc::SYS_write } else { libc::SYS_pwrite64 }, [fd, address, len, second, 0, 0])
            }
            _ if is(READV) => (libc::SYS_preadv2, [fd, address, len, second, 0, options]),
            _ if is(WRITEV) => (libc::SYS_pwritev2, [fd, address, len, second, 0, options]),
            _ if is(FSYNC) => {
                let is_data = options as u32 & FSYNC_DATA != 0;
                (if is_data { libc::SYS_fdatasync } else { libc::SYS_fsync }, [fd, 0, 0, 0, 0, 0])
            }
            _ if is(SYNC_FILE_RANGE) => (libc::SYS_sync_file_range, [fd, second, len, options, 0, 0]),
            _ if is(FALLOCATE) => (libc::SYS_fallocate, [fd, len, second, address, 0, 0]),
            _ if is(FTRUNCATE) => (libc::SYS_ftruncate, [fd, second, 0, 0, 0, 0]),
            _ if is(FADVISE) => {
                (libc::SYS_fadvise64, [fd, second, if len == 0 { address } else { len }, options, 0, 0])
            }
            _ if is(OPENAT) => (libc::SYS_openat, [fd, address, options, len, 0, 0]),
            _ if is(OPENAT2) => (libc::SYS_openat2, [fd, address, second, len, 0, 0]),
            _ if is(CLOSE) => (libc::SYS_close, [fd, 0, 0, 0, 0, 0]),
            _ if is(STATX) => (libc::SYS_statx, [fd, address, options, len, 0, 0]),
            _ if is(RENAMEAT) => (libc::SYS_renameat2, [fd, address, len, second, options, 0]),
            _ if is(UNLINKAT) => (libc::SYS_unlinkat, [fd, address, options, 0, 0, 0]),
            _ if is(MKDIRAT) => (libc::SYS_mkdirat, [fd, address, len, 0, 0, 0]),
            _ if is(SYMLINKAT) => (libc::SYS_symlinkat, [address, fd, second, 0, 0, 0]),
            _ if is(LINKAT) => (libc::SYS_linkat, [fd, address, len, second, options, 0]),
            _ if is(SPLICE) => {
                let from = u64::from(self.word(FIXED_SLOT));
                (libc::SYS_splice, [from, pointer(address), fd, pointer(second), len, options])
            }
            _ if is(TEE) => (libc::SYS_tee, [u64::from(self.word(FIXED_SLOT)), fd, len, options, 0, 0]),
            _ if is(EPOLL_CTL) => (libc::SYS_epoll_ctl, [fd, len, second, address, 0, 0]),
            _ => return self.socket_call(),
        })
    }

    fn socket_call(self) -> Option<(i64, [u64; 6])> {
        let (fd, len) = (u64::from(self.fd()), u64::from(self.word(LEN as usize)));
        let is = |ops: &[Op]| ops.iter().any(|op| self.opcode() == *op as u8);
        Some(match self.opcode() {
            _ if is(&[SEND, SEND_ZC]) => (libc::SYS_sendto, [fd, 0, len, 0, 0, 0]),
            _ if is(&[RECV]) => (libc::SYS_recvfrom, [fd, 0, len, 0, 0, 0]),
            _ if is(&[SENDMSG, SENDMSG_ZC]) => (libc::SYS_sendmsg, [fd, 0, 0, 0, 0, 0]),
            _ if is(&[RECVMSG]) => (libc::SYS_recvmsg, [fd, 0, 0, 0, 0, 0]),
            _ if is(&[ACCEPT]) => (libc::SYS_accept4, [fd, 0, 0, u64::from(self.word(OPTIONS)), 0, 0]),
            _ if is(&[SOCKET]) => (libc::SYS_socket, [fd, self.long(SECOND_ADDRESS), 0, 0, 0, 0]),
            _ if is(&[CONNECT]) => (libc::SYS_connect, [fd, 0, 0, 0, 0, 0]),
            _ if is(&[SHUTDOWN]) => (libc::SYS_shutdown, [fd, len, 0, 0, 0, 0]),
            _ if is(&[BIND]) => (libc::SYS_bind, [fd, 0, 0, 0, 0, 0]),
            _ if is(&[LISTEN]) => (libc::SYS_listen, [fd, len, 0, 0, 0, 0]),
            _ => return None,
        })
    }

    /// The call that it stands for, with `fd` and `from` in place of slots; `items` are what its addresses point to.
    /// `specs` are all calls by number.
    pub(crate) fn decode(
        self,
        specs: &[Option<&'static Spec>],
        (fd, from): (Fd, Option<Fd>),
        items: [Option<&[u8]>; 2],
        result: Option<i64>,
    ) -> Result<Call, WarningKind> {
        let (number, mut args) = self.call().ok_or(WarningKind::UnknownCall)?;
        let spec = specs.get(number as usize).copied().flatten().ok_or(WarningKind::UnknownCall)?;
        let offsets = [ADDRESS, SECOND_ADDRESS].map(|at| self.long(at).to_le_bytes());
        let mut entry = [None; ITEMS_MAX];
        match number {
            libc::SYS_splice => entry = [Some(&offsets[0][..]), Some(&offsets[1][..]), None],
            _ => entry[..2].copy_from_slice(&items),
        }
        // The target of a symbolic link comes before the directory of the link.
        args[if number == libc::SYS_symlinkat { 1 } else { 0 }] = fd.0 as u32 as u64;
        if let libc::SYS_splice | libc::SYS_tee = number {
            let to = if number == libc::SYS_splice { 2 } else { 1 };
            args[to] = fd.0 as u32 as u64;
            args[0] = from.map_or(u64::from(self.word(FIXED_SLOT)), |from| from.0 as u32 as u64);
        }
        let mut call = Raw { spec, args, entry, exit: [None; ITEMS_MAX], result }.decode()?;
        if let Call::Pread { flags, .. } | Call::Pwrite { flags, .. } = &mut call {
            *flags = bits::read_write_flags(u64::from(self.word(OPTIONS)));
        }
        Ok(call)
    }
}

/// An offset that is -1 stands for none.
fn pointer(offset: u64) -> u64 {
    if offset == u64::MAX { 0 } else { 1 << 20 }
}

/// The name of an opcode, for messages.
pub(crate) fn name(opcode: u8) -> String {
    const NAMES: [(u8, &str); 9] = [
        (41, "FSETXATTR"),
        (42, "SETXATTR"),
        (43, "FGETXATTR"),
        (44, "GETXATTR"),
        (46, "URING_CMD"),
        (49, "READ_MULTISHOT"),
        (60, "READV_FIXED"),
        (61, "WRITEV_FIXED"),
        (62, "PIPE"),
    ];
    let known = NAMES.iter().find(|(number, _)| *number == opcode);
    known.map_or_else(|| format!("opcode {opcode}"), |(_, name)| format!("IORING_OP_{name}"))
}
