//! One action of a compiled trace.

use bitflags::bitflags;
use esker_trace_calls::action::Outcome;
use esker_trace_calls::call::{Call, Fd};
use esker_trace_calls::wire::{Decoder, Encoder, Field, Malformed};
use serde::Serialize;

bitflags! {
    /// What the compiler noticed or changed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Notes: u32 {
        /// `O_EXCL` was dropped: it succeeded, though the name was there.
        const EXCLUSIVE_DROPPED = 1 << 0;
        /// It failed, though nothing in the files speaks against its success.
        const FAILURE_UNEXPLAINED = 1 << 1;
        /// It succeeded, though no repair of the files explains that.
        const SUCCESS_UNEXPLAINED = 1 << 2;
        /// An unrecorded event must have come before it.
        const REPAIRED = 1 << 3;
        /// It took effect after an overlapping call that was entered later.
        const DEFERRED = 1 << 4;
        /// It may wait for calls of other threads.
        const WAITS = 1 << 5;
        /// What it does to files or descriptors is not modelled.
        const UNMODELLED = 1 << 6;
        /// The kernel made up what it told, so its result is not compared.
        const MADE_UP = 1 << 7;
    }
}

/// What an action does to slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotEffect {
    /// The descriptor that it made, in the order in which the call tells them, lives in this slot.
    Made(Fd),
    /// A new process has a copy of a descriptor.
    Copied {
        /// Of this slot.
        from: Fd,
        /// In this slot.
        to: Fd,
    },
    /// The descriptor is gone: closed, replaced, or ended with its process.
    Closed(Fd),
}

/// One action: a call whose descriptors are slots, what came of it, and what it does to slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The call.
    pub call: Call,
    /// What came of it in the trace. A result that is a descriptor's number is still the traced one.
    pub outcome: Outcome,
    /// What the compiler noticed.
    pub notes: Notes,
    /// What it does to slots.
    pub slots: Vec<SlotEffect>,
}

impl Step {
    /// Bytes of its largest buffer.
    pub fn transfer(&self) -> u64 {
        match &self.call {
            Call::Read { len, .. }
            | Call::Write { len, .. }
            | Call::Pread { len, .. }
            | Call::Pwrite { len, .. }
            | Call::ReadLink { len, .. }
            | Call::GetXattr { len, .. }
            | Call::SetXattr { len, .. }
            | Call::ListXattr { len, .. }
            | Call::ReadDir { len, .. }
            | Call::Socket { len, .. }
            | Call::ReceiveFds { len, .. }
            | Call::GetAttrList { len, .. }
            | Call::SetAttrList { len, .. }
            | Call::GetDirEntriesAttr { len, .. }
            | Call::GetFsStat { len, .. }
            | Call::GetXattrAt { len, .. }
            | Call::SetXattrAt { len, .. } => *len,
            Call::AsyncSubmit { ops, .. } => ops.iter().map(|op| op.len).max().unwrap_or(0),
            _ => 0,
        }
    }
}

impl Field for SlotEffect {
    fn put(&self, to: &mut Encoder<'_>) {
        match self {
            SlotEffect::Made(fd) => {
                to.byte(0);
                fd.put(to);
            }
            SlotEffect::Copied { from, to: copy } => {
                to.byte(1);
                from.put(to);
                copy.put(to);
            }
            SlotEffect::Closed(fd) => {
                to.byte(2);
                fd.put(to);
            }
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<SlotEffect, Malformed> {
        match from.byte()? {
            0 => Ok(SlotEffect::Made(Fd::get(from)?)),
            1 => Ok(SlotEffect::Copied { from: Fd::get(from)?, to: Fd::get(from)? }),
            2 => Ok(SlotEffect::Closed(Fd::get(from)?)),
            _ => Err(from.malformed("no effect on slots")),
        }
    }

    fn render(&self, to: &mut String) {
        match self {
            SlotEffect::Made(fd) => to.push_str(&format!("+{}", fd.0)),
            SlotEffect::Copied { from, to: copy } => to.push_str(&format!("{}->{}", from.0, copy.0)),
            SlotEffect::Closed(fd) => to.push_str(&format!("-{}", fd.0)),
        }
    }
}

impl Field for Step {
    fn put(&self, to: &mut Encoder<'_>) {
        match self.outcome {
            Outcome::Done(value) => {
                to.byte(0);
                to.signed(value);
            }
            Outcome::Failed(errno) => {
                to.byte(1);
                errno.put(to);
            }
            Outcome::Unknown => to.byte(2),
        }
        to.unsigned(u64::from(self.notes.bits()));
        self.slots.put(to);
        self.call.put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<Step, Malformed> {
        let outcome = match from.byte()? {
            0 => Outcome::Done(from.signed()?),
            1 => Outcome::Failed(Field::get(from)?),
            2 => Outcome::Unknown,
            _ => return Err(from.malformed("no outcome")),
        };
        let notes = Notes::from_bits(u32::get(from)?).ok_or(from.malformed("an unknown note"))?;
        let slots = Field::get(from)?;
        Ok(Step { call: Call::get(from)?, outcome, notes, slots })
    }

    fn render(&self, to: &mut String) {
        self.call.render(to);
        to.push_str(&match self.outcome {
            Outcome::Done(value) => format!(" = {value}"),
            Outcome::Failed(errno) => format!(" = {errno}"),
            Outcome::Unknown => " = ?".to_string(),
        });
        for slot in &self.slots {
            to.push(' ');
            slot.render(to);
        }
    }
}
