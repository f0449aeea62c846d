//! What the rules need to know of a trace: thread, time and touches of each action.

use bitflags::bitflags;
use esker_trace_calls::wire::put_varint;

use crate::model::resource::{Resource, Role, Touch};

bitflags! {
    /// Of which resources that it uses an action changes nothing that others could notice.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Looks: u8 {
        /// Files.
        const FILES = 1 << 0;
        /// Descriptors: neither offset nor flags.
        const DESCRIPTORS = 1 << 1;
    }
}

/// What the rules need to know of an action, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Its thread.
    pub thread: u32,
    /// Whether it may wait for calls of other threads.
    pub waits: bool,
    /// What it only looks at.
    pub looks: Looks,
    /// Whether it makes or wakes a thread, which does not wait for its return.
    pub begins: bool,
    /// When it was entered, in ns.
    pub enter: u64,
    /// When it returned, in ns.
    pub leave: u64,
}

impl Instant {
    /// Whether it returned before `other` was entered.
    pub fn is_before(&self, other: &Instant) -> bool {
        self.leave <= other.enter
    }
}

/// Threads, instants, resources and touches of a trace, in an order that all edges follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    instants: Vec<Instant>,
    /// Number of each action within its thread.
    locals: Vec<u32>,
    /// Actions of each thread.
    lens: Vec<u32>,
    resources: Vec<Resource>,
    /// Touches as varints of resource and role; what an action touches ends at its number in `ends`.
    touches: Vec<u8>,
    ends: Vec<u32>,
}

/// A touch that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTouch;

impl Outline {
    /// No actions yet, by this many threads, on these resources.
    pub fn new(threads: usize, resources: Vec<Resource>) -> Outline {
        Outline { lens: vec![0; threads], resources, ..Outline::default() }
    }

    /// Adds the next action. Returns its number.
    ///
    /// # Panics
    /// If there is no such thread, or with 2^32 actions.
    pub fn push(&mut self, instant: Instant, touches: &[Touch]) -> u32 {
        for touch in touches {
            put_varint(&mut self.touches, u64::from(touch.resource) << 2 | touch.role as u64);
        }
        self.seal(instant)
    }

    /// Adds the next action with its touches as [`Outline::touch_bytes`] gives them.
    ///
    /// # Errors
    /// They name what is not there.
    ///
    /// # Panics
    /// As [`Outline::push`].
    pub fn push_bytes(&mut self, instant: Instant, touches: &[u8]) -> Result<u32, BadTouch> {
        let resources = self.resources.len() as u64;
        let mut rest = touches;
        while !rest.is_empty() {
            let word = take_varint(&mut rest).ok_or(BadTouch)?;
            if word >> 2 >= resources {
                return Err(BadTouch);
            }
        }
        self.touches.extend_from_slice(touches);
        Ok(self.seal(instant))
    }

    fn seal(&mut self, instant: Instant) -> u32 {
        let id = u32::try_from(self.instants.len()).expect("fewer actions than 2^32");
        let len = &mut self.lens[instant.thread as usize];
        self.locals.push(*len);
        *len += 1;
        self.instants.push(instant);
        self.ends.push(u32::try_from(self.touches.len()).expect("touches of less than 4 GiB"));
        id
    }

    /// Number of actions.
    pub fn len(&self) -> usize {
        self.instants.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.instants.is_empty()
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.lens.len()
    }

    /// Actions of a thread.
    pub fn thread_len(&self, thread: u32) -> u32 {
        self.lens[thread as usize]
    }

    /// Every action's thread and times.
    pub fn instants(&self) -> &[Instant] {
        &self.instants
    }

    /// Number of an action within its thread.
    pub fn local(&self, action: u32) -> u32 {
        self.locals[action as usize]
    }

    /// Every resource.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// What an action touches, as bytes.
    pub fn touch_bytes(&self, action: u32) -> &[u8] {
        let start = action.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.touches[start as usize..self.ends[action as usize] as usize]
    }

    /// What an action touches, into `to`, which is emptied first.
    pub fn touches(&self, action: u32, to: &mut Vec<Touch>) {
        to.clear();
        let mut rest = self.touch_bytes(action);
        while let Some(word) = take_varint(&mut rest) {
            let role = Role::from_code((word & 3) as u8).expect("two bits are a role");
            to.push(Touch { resource: (word >> 2) as u32, role });
        }
    }
}

/// The varint at the front of bytes; `None` if they end in it.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}
