//! Reading, also of what is cut or damaged.

use std::collections::BTreeMap;
use std::io::{self, Read};

use esker_base::Time;

use super::layout::{BLOCK_HEAD, BlockHead, BlockKind, FEATURES, HEADER, MARK, VERSION, is_etrace, is_sealed};
use crate::action::{Action, ProcessId, ThreadId};
use crate::call::Call;
use crate::name::PathBytes;
use crate::trace::{Platform, Process, Thread, Trace};
use crate::warning::WarningKind;
use crate::wire::{Decoder, Field, Malformed};

/// Longest name in bytes: no line of an imported text is longer.
const NAME_MAX: usize = 1 << 20;

/// What a reader is ready to hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Unpacked bytes of all blocks.
    pub unpacked_max: u64,
}

impl Limits {
    /// Enough for a hundred million actions.
    pub const GENEROUS: Limits = Limits { unpacked_max: 4 << 30 };
}

/// A recording that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EtraceError {
    /// It begins with other bytes.
    #[error(
        "is no recording of esker: it begins with other bytes; import traces of other formats with `esker trace import`"
    )]
    Foreign,
    /// Its header is damaged.
    #[error("byte 0: the header is damaged: {what}")]
    Header {
        /// What is wrong.
        what: &'static str,
    },
    /// It was written by a newer Esker.
    #[error(
        "byte 8: version {version}, features {features:#x}: written by a newer esker; this one reads versions 1 to {VERSION}"
    )]
    Newer {
        /// Its version.
        version: u16,
        /// Its features.
        features: u32,
    },
    /// It is larger than allowed.
    #[error("byte {at}: more than {max} bytes unpacked")]
    TooLarge {
        /// Offset of the block that is too much.
        at: u64,
        /// The limit.
        max: u64,
    },
    /// Threads or processes are missing, so the actions belong to no thread.
    #[error(
        "the {what} are incomplete ({found} of {needed}): damage took the others, and their actions belong to no thread; record \
         again"
    )]
    PeopleLost {
        /// `threads` or `processes`.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        needed: usize,
    },
    /// The bytes could not be read.
    #[error("byte {at}: cannot be read: {source}")]
    Unreadable {
        /// Offset.
        at: u64,
        /// Why.
        source: io::Error,
    },
}

/// Reads a recording. What is damaged is left out and counted as [`WarningKind::Damaged`]; a missing end is
/// [`WarningKind::CutTail`], whose text tells how many actions were recovered.
///
/// # Errors
/// It is no recording of a known version, too large, cannot be read, or damage took threads or processes.
pub fn read(input: impl Read, limits: Limits) -> Result<Trace, EtraceError> {
    let mut bytes = Bytes { input, at: 0, ahead: Vec::new() };
    let platform = read_header(&mut bytes)?;
    let mut parts = Parts::new(platform);
    let mut unpacked = 0u64;
    while let Some(head) = next_head(&mut bytes, &mut parts.trace)? {
        let at = bytes.at - BLOCK_HEAD as u64;
        unpacked += u64::from(head.unpacked);
        if unpacked > limits.unpacked_max {
            return Err(EtraceError::TooLarge { at, max: limits.unpacked_max });
        }
        if !parts.take_block(&head, &mut bytes, at)? {
            break;
        }
    }
    parts.finish(bytes.at)
}

fn read_header(bytes: &mut Bytes<impl Read>) -> Result<Platform, EtraceError> {
    let mut header = [0; HEADER];
    let got = bytes.fill(&mut header)?;
    if !is_etrace(&header) {
        return Err(EtraceError::Foreign);
    }
    if got < HEADER || !is_sealed(&header) {
        return Err(EtraceError::Header { what: "it is cut, or its checksum differs" });
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    let features = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    if !(1..=VERSION).contains(&version) || features & !FEATURES != 0 {
        return Err(EtraceError::Newer { version, features });
    }
    Platform::from_code(header[16]).ok_or(EtraceError::Header { what: "no known platform" })
}

/// Bytes with some to look at again: after damage the search for the next block begins behind the mark that failed.
struct Bytes<R> {
    input: R,
    /// Offset of the next byte.
    at: u64,
    /// Bytes to be read first.
    ahead: Vec<u8>,
}

impl<R: Read> Bytes<R> {
    /// Fills as much of `out` as there is.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, EtraceError> {
        let first = self.ahead.len().min(out.len());
        out[..first].copy_from_slice(&self.ahead[..first]);
        self.ahead.drain(..first);
        let mut filled = first;
        while filled < out.len() {
            match self.input.read(&mut out[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(EtraceError::Unreadable { at: self.at, source }),
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }

    /// Puts bytes back.
    fn unread(&mut self, bytes: &[u8]) {
        self.at -= bytes.len() as u64;
        self.ahead.splice(0..0, bytes.iter().copied());
    }
}

/// The next sound head. What is skipped on the way is counted.
fn next_head(bytes: &mut Bytes<impl Read>, trace: &mut Trace) -> Result<Option<BlockHead>, EtraceError> {
    let start = bytes.at;
    let mut skipped = 0u64;
    loop {
        let mut head = [0; BLOCK_HEAD];
        let got = bytes.fill(&mut head)?;
        let sound = if got == BLOCK_HEAD { BlockHead::from_bytes(&head) } else { None };
        if sound.is_some() || got < BLOCK_HEAD {
            let lost = skipped + if sound.is_none() { got as u64 } else { 0 };
            if sound.is_some() && lost > 0 {
                trace.warnings.add(WarningKind::Damaged, start, format!("{lost} bytes without a sound block"));
            }
            return Ok(sound);
        }
        // On to the next place where a mark may begin.
        let next = memchr::memchr(MARK[0], &head[1..]).map_or(BLOCK_HEAD, |next| next + 1);
        bytes.unread(&head[next..]);
        skipped += next as u64;
    }
}

/// A trace that grows.
struct Parts {
    trace: Trace,
    processes: BTreeMap<ProcessId, Process>,
    threads: BTreeMap<ThreadId, Thread>,
    names: BTreeMap<PathBytes, ()>,
    end: Option<u64>,
}

impl Parts {
    fn new(platform: Platform) -> Parts {
        let (processes, threads, names) = Default::default();
        Parts { trace: Trace::new(platform, ""), processes, threads, names, end: None }
    }

    /// Takes a block's items; `false` if the input ends inside it.
    fn take_block(&mut self, head: &BlockHead, bytes: &mut Bytes<impl Read>, at: u64) -> Result<bool, EtraceError> {
        let mut stored = vec![0; head.stored as usize];
        let got = bytes.fill(&mut stored)?;
        if got < stored.len() {
            return Ok(false);
        }
        let taken = unpack(head, &stored).and_then(|payload| self.take_items(head, &payload));
        if let Err(what) = taken {
            let text = format!("a block of {} {} is damaged: {what}", head.items, head.kind.name());
            self.trace.warnings.add(WarningKind::Damaged, at, text);
        }
        Ok(true)
    }

    fn take_items(&mut self, head: &BlockHead, payload: &[u8]) -> Result<(), Malformed> {
        let mut from = Decoder::new(payload, &[]);
        let count = from.unsigned()?;
        let mut names = Vec::new();
        for _ in 0..count.min(payload.len() as u64 + 1) {
            names.push(self.name(from.bytes(NAME_MAX)?));
        }
        let start = from.at();
        let mut from = Decoder::new(&payload[start..], &names);
        let mut last = 0u64;
        for _ in 0..head.items {
            self.take_item(head.kind, &mut from, &mut last)?;
        }
        if from.is_done() { Ok(()) } else { Err(from.malformed("bytes behind the last item")) }
    }

    /// One copy of each name.
    fn name(&mut self, bytes: &[u8]) -> PathBytes {
        if let Some((name, ())) = self.names.get_key_value(bytes) {
            return name.clone();
        }
        let name = PathBytes::from(bytes);
        self.names.insert(name.clone(), ());
        name
    }

    fn take_item(&mut self, kind: BlockKind, from: &mut Decoder<'_>, last: &mut u64) -> Result<(), Malformed> {
        match kind {
            BlockKind::Source => self.trace.source = Field::get(from)?,
            BlockKind::Processes => drop(self.processes.insert(Field::get(from)?, Field::get(from)?)),
            BlockKind::Threads => drop(self.threads.insert(Field::get(from)?, Field::get(from)?)),
            BlockKind::Inherited => self.trace.inherited.push(Field::get(from)?),
            BlockKind::Snapshot => drop(self.trace.snapshot.entries.insert(Field::get(from)?, Field::get(from)?)),
            BlockKind::Actions => {
                let action = action(from, last)?;
                self.trace.actions.push(action);
            }
            BlockKind::Warnings => self.trace.warnings.add_tally(Field::get(from)?, Field::get(from)?),
            BlockKind::End => self.end = Some(from.unsigned()?),
            BlockKind::Scope => {
                let (path, is_root) = (Field::get(from)?, Field::get(from)?);
                let after = self.trace.after.get_or_insert_default();
                if is_root { &mut after.roots } else { &mut after.without }.push(path);
            }
            BlockKind::After => {
                let after = self.trace.after.get_or_insert_default();
                after.tree.entries.insert(Field::get(from)?, Field::get(from)?);
            }
        }
        Ok(())
    }

    /// Checks that all refers to what is there, and sorts.
    fn finish(mut self, at: u64) -> Result<Trace, EtraceError> {
        let actions = self.trace.actions.len() as u64;
        if self.end.is_none() {
            let text = format!("the end is missing: {actions} actions were recovered");
            self.trace.warnings.add(WarningKind::CutTail, at, text);
        } else if let Some(lost) = self.end.and_then(|end| end.checked_sub(actions)).filter(|lost| *lost > 0) {
            self.trace.warnings.add_many(WarningKind::Damaged, lost, at, format!("{lost} actions are missing"));
        }
        // A part of the files would say that others were gone.
        if self.end.is_none() || self.trace.warnings.count(WarningKind::Damaged) > 0 {
            self.trace.after = None;
        }
        self.trace.processes = whole(self.processes, |id| id.0, "processes")?;
        self.trace.threads = whole(self.threads, |id| id.0, "threads")?;
        check_people(&self.trace)?;
        let missing = forget_missing(&mut self.trace);
        if missing > 0 && self.end.is_some() {
            let text = format!("{missing} parents or children are missing");
            self.trace.warnings.add_many(WarningKind::Damaged, missing, at, text);
        }
        self.trace.actions.sort_by_key(|action| action.enter);
        Ok(self.trace)
    }
}

fn unpack(head: &BlockHead, stored: &[u8]) -> Result<Vec<u8>, Malformed> {
    let damaged = |what| Malformed { at: 0, what };
    if crc32fast::hash(stored) != head.sum {
        return Err(damaged("its checksum differs"));
    }
    if !head.packed {
        return Ok(stored.to_vec());
    }
    let payload =
        zstd::bulk::decompress(stored, head.unpacked as usize).map_err(|_| damaged("it cannot be unpacked"))?;
    if payload.len() == head.unpacked as usize { Ok(payload) } else { Err(damaged("it unpacks to another length")) }
}

fn action(from: &mut Decoder<'_>, last: &mut u64) -> Result<Action, Malformed> {
    let thread = Field::get(from)?;
    let enter = last.wrapping_add_signed(from.signed()?);
    *last = enter;
    let leave = enter.checked_add(from.unsigned()?).ok_or(from.malformed("an end beyond 2^64 ns"))?;
    let outcome = Field::get(from)?;
    Ok(Action { thread, enter: Time(enter), leave: Time(leave), call: Field::get(from)?, outcome })
}

/// The values of numbers from 0 on without a gap.
fn whole<K: Ord + Copy, V>(
    map: BTreeMap<K, V>,
    number: impl Fn(K) -> u32,
    what: &'static str,
) -> Result<Vec<V>, EtraceError> {
    let found = map.len();
    let needed = map.last_key_value().map_or(0, |(last, _)| number(*last) as usize + 1);
    if found < needed {
        return Err(EtraceError::PeopleLost { what, found, needed });
    }
    Ok(map.into_values().collect())
}

/// Every thread and process that an action, a thread or a descriptor needs is there.
fn check_people(trace: &Trace) -> Result<(), EtraceError> {
    let enough = |what, found: usize, needed: Option<u32>| match needed.map_or(0, |last| last as usize + 1) {
        needed if needed > found => Err(EtraceError::PeopleLost { what, found, needed }),
        _ => Ok(()),
    };
    enough("threads", trace.threads.len(), trace.actions.iter().map(|action| action.thread.0).max())?;
    let owners = trace.threads.iter().map(|thread| thread.process);
    let owners = owners.chain(trace.inherited.iter().map(|inherited| inherited.process));
    enough("processes", trace.processes.len(), owners.map(|process| process.0).max())
}

/// Parents and children that are missing are unknown: their threads came after what was recovered. Returns how many.
fn forget_missing(trace: &mut Trace) -> u64 {
    let known = trace.threads.len();
    let mut missing = 0;
    let mut forget = |thread: &mut Option<ThreadId>| {
        if thread.is_some_and(|thread| thread.0 as usize >= known) {
            *thread = None;
            missing += 1;
        }
    };
    trace.processes.iter_mut().for_each(|process| forget(&mut process.parent));
    trace.threads.iter_mut().for_each(|thread| forget(&mut thread.parent));
    for action in &mut trace.actions {
        if let Call::Clone { child, .. } = &mut action.call {
            forget(child);
        }
    }
    missing
}
