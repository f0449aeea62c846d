//! Writing, as a recording goes on.

use std::io::{self, Write};

use super::layout::{BlockHead, BlockKind, header};
use crate::action::{Action, ProcessId, ThreadId};
use crate::final_tree::FinalTree;
use crate::name::{PathBytes, Word};
use crate::snapshot::Entry;
use crate::trace::{Inherited, Platform, Process, Thread, Trace};
use crate::warning::Warnings;
use crate::wire::{Encoder, Field, NameTable, put_varint};

/// Bytes of items after which a block is written.
const BLOCK_BYTES: usize = 256 << 10;
/// zstd's level: a recorder shares the machine with what it records.
const LEVEL: i32 = 1;

/// A block that grows.
struct Open {
    kind: BlockKind,
    items: u32,
    bytes: Vec<u8>,
    names: NameTable,
    /// The last action's beginning.
    last: u64,
}

impl Open {
    fn new(kind: BlockKind) -> Open {
        Open { kind, items: 0, bytes: Vec::new(), names: NameTable::new(), last: 0 }
    }

    fn add(&mut self, put: impl FnOnce(&mut Encoder<'_>)) {
        put(&mut Encoder::new(&mut self.bytes, &mut self.names));
        self.items += 1;
    }

    /// Whether it is time to write it.
    fn is_full(&self) -> bool {
        self.bytes.len() + self.names.bytes() >= BLOCK_BYTES
    }
}

/// Writes a recording item by item, in any order. Items refer to threads and processes by number; these may come later.
/// What is not flushed is lost if the writer is stopped. Dropping it leaves a recording without an end, which readers
/// report.
pub struct Writer<W: Write> {
    out: W,
    people: [Open; 2],
    others: [Open; 3],
    actions: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(mut out: W, platform: Platform, source: &Word) -> io::Result<Writer<W>> {
        out.write_all(&header(platform.code()))?;
        let mut first = Open::new(BlockKind::Source);
        first.add(|to| source.put(to));
        let mut writer = Writer {
            out,
            people: [BlockKind::Processes, BlockKind::Threads].map(Open::new),
            others: [BlockKind::Inherited, BlockKind::Snapshot, BlockKind::Actions].map(Open::new),
            actions: 0,
        };
        write_block(&mut writer.out, &mut first)?;
        Ok(writer)
    }

    /// A process.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.people[0].add(|to| (id.put(to), process.put(to)).1);
        self.write_full()
    }

    /// A thread.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn thread(&mut self, id: ThreadId, thread: &Thread) -> io::Result<()> {
        self.people[1].add(|to| (id.put(to), thread.put(to)).1);
        self.write_full()
    }

    /// A descriptor that was open before.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn inherited(&mut self, inherited: &Inherited) -> io::Result<()> {
        self.others[0].add(|to| inherited.put(to));
        self.write_full()
    }

    /// A file that was there before.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn entry(&mut self, path: &PathBytes, entry: &Entry) -> io::Result<()> {
        self.others[1].add(|to| (path.put(to), entry.put(to)).1);
        self.write_full()
    }

    /// The files after the trace.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn after(&mut self, after: &FinalTree) -> io::Result<()> {
        let mut scope = Open::new(BlockKind::Scope);
        let roots = after.roots.iter().map(|path| (path, true));
        for (path, is_root) in roots.chain(after.without.iter().map(|path| (path, false))) {
            scope.add(|to| (path.put(to), is_root.put(to)).1);
            self.write_one_full(&mut scope)?;
        }
        write_block(&mut self.out, &mut scope)?;
        let mut entries = Open::new(BlockKind::After);
        for (path, entry) in &after.tree.entries {
            entries.add(|to| (path.put(to), entry.put(to)).1);
            self.write_one_full(&mut entries)?;
        }
        write_block(&mut self.out, &mut entries)
    }

    fn write_one_full(&mut self, open: &mut Open) -> io::Result<()> {
        if open.is_full() { write_block(&mut self.out, open) } else { Ok(()) }
    }

    /// An action. They need not come in the order of their beginnings: readers sort them.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn action(&mut self, action: &Action) -> io::Result<()> {
        let open = &mut self.others[2];
        let last = open.last;
        open.last = action.enter.0;
        open.add(|to| {
            action.thread.put(to);
            to.signed(action.enter.0.wrapping_sub(last) as i64);
            to.unsigned(action.leave.0.saturating_sub(action.enter.0));
            action.outcome.put(to);
            action.call.put(to);
        });
        self.actions += 1;
        self.write_full()
    }

    /// Warnings; they add up.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn warnings(&mut self, warnings: &Warnings) -> io::Result<()> {
        let mut open = Open::new(BlockKind::Warnings);
        for (kind, tally) in warnings.tallies() {
            open.add(|to| (kind.put(to), tally.put(to)).1);
        }
        write_block(&mut self.out, &mut open)
    }

    /// Writes what is held back, so that it outlives the writer.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        for open in self.people.iter_mut().chain(&mut self.others) {
            write_block(&mut self.out, open)?;
        }
        self.out.flush()
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        let mut end = Open::new(BlockKind::End);
        let actions = self.actions;
        end.add(|to| to.unsigned(actions));
        write_block(&mut self.out, &mut end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Bytes and items that were given and not yet written are bounded by this. Threads and processes come first.
    fn write_full(&mut self) -> io::Result<()> {
        if !self.people.iter().chain(&self.others).any(Open::is_full) {
            return Ok(());
        }
        for open in &mut self.people {
            write_block(&mut self.out, open)?;
        }
        for open in self.others.iter_mut().filter(|open| open.is_full()) {
            write_block(&mut self.out, open)?;
        }
        Ok(())
    }
}

/// Writes a block, unless it is empty, and empties it.
fn write_block(out: &mut impl Write, open: &mut Open) -> io::Result<()> {
    if open.items == 0 {
        return Ok(());
    }
    let mut payload = Vec::with_capacity(open.bytes.len() + open.names.bytes() + 8);
    put_varint(&mut payload, open.names.names().len() as u64);
    for name in open.names.names() {
        put_varint(&mut payload, name.len() as u64);
        payload.extend_from_slice(name);
    }
    payload.extend_from_slice(&open.bytes);
    let packed = zstd::bulk::compress(&payload, LEVEL)?;
    let is_smaller = packed.len() < payload.len();
    let stored = if is_smaller { &packed } else { &payload };
    let small = |bytes: usize| u32::try_from(bytes).expect("a block is small");
    let head = BlockHead {
        kind: open.kind,
        packed: is_smaller,
        items: open.items,
        stored: small(stored.len()),
        unpacked: small(payload.len()),
        sum: crc32fast::hash(stored),
    };
    out.write_all(&head.to_bytes())?;
    out.write_all(stored)?;
    *open = Open::new(open.kind);
    Ok(())
}

/// Writes a whole trace.
///
/// # Errors
/// `out` cannot be written.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<W> {
    let mut writer = Writer::new(out, trace.platform, &trace.source)?;
    for (number, process) in (0..).zip(&trace.processes) {
        writer.process(ProcessId(number), process)?;
    }
    for (number, thread) in (0..).zip(&trace.threads) {
        writer.thread(ThreadId(number), thread)?;
    }
    trace.inherited.iter().try_for_each(|inherited| writer.inherited(inherited))?;
    trace.snapshot.entries.iter().try_for_each(|(path, entry)| writer.entry(path, entry))?;
    trace.actions.iter().try_for_each(|action| writer.action(action))?;
    trace.after.iter().try_for_each(|after| writer.after(after))?;
    writer.warnings(&trace.warnings)?;
    writer.finish()
}
