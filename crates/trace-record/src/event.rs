//! What both ways of recording see, before it is put together to calls.

use crate::calls::ITEMS_MAX;
use crate::calls::requests::ENTRY_BYTES;

/// Pieces of memory that were read with a call, in the order of its specification.
pub type Items<'a> = [Option<&'a [u8]>; ITEMS_MAX];

/// Something that happened in a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// When, in ns of the monotonic clock.
    pub time: u64,
    /// The thread's number.
    pub thread: u32,
    /// Its process' number.
    pub process: u32,
    /// What.
    pub what: What<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A call began.
    Enter {
        /// Its number.
        number: u32,
        /// Its arguments.
        args: [u64; 6],
        /// What was read.
        items: Items<'a>,
    },
    /// A call ended.
    Exit {
        /// Its number.
        number: u32,
        /// Its result; errors are negative.
        result: i64,
        /// Whether `items` are those of its beginning, which could not be read then.
        late: bool,
        /// What was read.
        items: Items<'a>,
    },
    /// A thread was made.
    Fork {
        /// Its number.
        child: u32,
        /// `CLONE_` flags.
        flags: u64,
    },
    /// A program was executed; the thread has its process' number from now on.
    Exec {
        /// Its number until now.
        old: u32,
        /// Its number from now on.
        new: u32,
    },
    /// The kernel brought pages of a mapped file for the thread, or saw that they are there. One fault may be told more
    /// than once, with one beginning and later and later ends.
    Fault {
        /// When that was done; the event's time is when it was begun.
        done: u64,
        /// What the thread wanted to access.
        address: u64,
        /// The first and the last page of the file that were brought.
        pages: [u64; 2],
        /// Whether the kernel itself wanted it, for a call of the thread.
        in_call: bool,
        /// Whether a page became dirty by it.
        is_write: bool,
    },
    /// The call under way makes or changes a ring, which the kernel knows by this address.
    Ring {
        /// The address.
        ring: u64,
    },
    /// The kernel took a request from a ring: in a call of the thread, or by a thread of its own.
    Request {
        /// By which its end is known.
        request: u64,
        /// The ring.
        ring: u64,
        /// What the kernel takes it for.
        opcode: u8,
        /// The entry of the submission queue.
        entry: &'a [u8; ENTRY_BYTES],
        /// What its two addresses point to, as far as that is read.
        items: [Option<&'a [u8]>; 2],
    },
    /// The kernel took a request that is none: it does nothing.
    RequestRefused,
    /// A request ended. The thread may be any of the machine.
    RequestEnd {
        /// Which.
        request: u64,
        /// Its result; errors are negative.
        result: i32,
    },
    /// The thread ended.
    End,
}
