//! What a [`Whole`](super::Whole) can do wrong: the mutants that the harness must find.

use esker_block::Step;
use esker_vfs::{
    Answer, At, Call, Cookie, Copying, FileSystem, Ino, Listing, Name, NameBuf, New, NewKind, Ram, Remove, Sync, Write,
};

use super::{Inner, Whole, now, own_call};

/// A mistake of a file system, as real ones have been made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Flaw {
    /// The superblock may reach the medium before the image that it names.
    NoFlushBeforeHead,
    /// The superblock is written first, and durable first.
    HeadBeforeBody,
    /// An opening does not make durable what a killed process left in the device's cache.
    NoFlushWhenOpened,
    /// A sync of one file answers without doing anything.
    SyncDoesNothing,
    /// A rename is two changes, and an image may come between them.
    TornRename,
    /// The older of two slots counts.
    OldSlot,
    /// The sum of an image is not compared.
    SumUnchecked,
    /// A sync leaves out the write before it.
    LostWrite,
    /// A file that was open when it lost its name is found after a restart.
    OrphanReappears,
    /// A file that is cut and grows again shows its former bytes.
    StaleHole,
    /// A cut of a file is not counted as a change that a sync makes durable.
    TruncateNotDurable,
    /// A cookie is the number of an entry in the order of names.
    UnstableCookie,
    /// An image that was not written is taken for written.
    ErrorSwallowed,
    /// An inode stays when its last name goes.
    SpaceLeaks,
}

impl Flaw {
    /// All mistakes.
    pub const ALL: [Flaw; 14] = [
        Flaw::NoFlushBeforeHead,
        Flaw::HeadBeforeBody,
        Flaw::NoFlushWhenOpened,
        Flaw::SyncDoesNothing,
        Flaw::TornRename,
        Flaw::OldSlot,
        Flaw::SumUnchecked,
        Flaw::LostWrite,
        Flaw::OrphanReappears,
        Flaw::StaleHole,
        Flaw::TruncateNotDurable,
        Flaw::UnstableCookie,
        Flaw::ErrorSwallowed,
        Flaw::SpaceLeaks,
    ];
}

/// The mistakes that are made in the tree. Each hook does nothing without its flaw.
impl Whole {
    /// The tree that an image is made of.
    pub(super) fn imaged(&self) -> Ram {
        let Inner { ram, memory, .. } = &*self.0;
        let memory = memory.borrow();
        if let Some(before) = &memory.before_write {
            return before.clone();
        }
        let tree = ram.fork();
        if memory.orphans.is_empty() {
            return tree;
        }
        for ino in &memory.orphans {
            let (call, text) = (own_call(), format!("lost {}", ino.0));
            let Ok(attr) = now(tree.attr(call, *ino)) else { continue };
            let new = New { what: NewKind::File, mode: attr.mode, uid: attr.uid, gid: attr.gid };
            let name = Name::new(text.as_bytes()).expect("a short text");
            if let Ok(found) = now(tree.create(call, tree.root(), Some(name), new)) {
                // Without room the bytes stay lost, which is as wrong.
                let _copied = now(tree.copy(call, (*ino, 0), (found.ino, 0), attr.size, Copying::Any));
            }
        }
        tree
    }

    /// Before a change that is a write, or is none.
    pub(super) fn note_write(&self, is_write: bool) {
        if self.has(Flaw::LostWrite) {
            self.0.memory.borrow_mut().before_write = is_write.then(|| self.0.ram.fork());
        }
    }

    /// Before a file loses a name.
    pub(super) fn note_removal(&self, call: Call, dir: Ino, name: Name<'_>) -> Option<Ino> {
        if !self.has(Flaw::OrphanReappears) && !self.has(Flaw::SpaceLeaks) {
            return None;
        }
        let entry = now(self.0.ram.lookup(call, dir, name)).ok()?;
        if self.has(Flaw::OrphanReappears) {
            self.0.ram.forget(entry.ino, 1);
        }
        Some(entry.ino)
    }

    /// Behind it.
    pub(super) fn note_removed(&self, call: Call, ino: Option<Ino>) {
        let Some(ino) = ino.filter(|_| self.has(Flaw::OrphanReappears)) else { return };
        if now(self.0.ram.attr(call, ino)).is_ok_and(|attr| attr.links == 0) {
            self.0.memory.borrow_mut().orphans.push(ino);
        }
    }

    /// Before a file gets another size.
    pub(super) fn note_size(&self, call: Call, ino: Ino, size: u64) {
        let Ok(attr) = now(self.0.ram.attr(call, ino)) else { return };
        if !self.has(Flaw::StaleHole) || size >= attr.size {
            return;
        }
        let tail = now(self.0.ram.read(call, ino, size, (attr.size - size).min(1 << 20) as usize));
        if let Ok(tail) = tail {
            self.0.memory.borrow_mut().tails.insert(ino, (size, tail.to_vec()));
        }
    }

    /// Behind it.
    pub(super) fn show_tail(&self, call: Call, ino: Ino, size: u64) {
        let Some((start, mut tail)) = self.0.memory.borrow().tails.get(&ino).cloned() else { return };
        tail.truncate(size.saturating_sub(start) as usize);
        if !tail.is_empty() {
            let how = Write::default();
            let _shown = self.0.ram.write_now(call, ino, At::Offset(start), &tail, how);
        }
    }

    /// Writes an image in which a rename is half done.
    pub(super) async fn write_half(&self, call: Call, from: &(Ino, NameBuf), to: &(Ino, NameBuf)) {
        let tree = self.0.ram.fork();
        let (from, to) = ((from.0, from.1.name()), (to.0, to.1.name()));
        let is_half = match now(tree.remove(call, to.0, to.1, Remove::File)) {
            Ok(()) => true,
            Err(_) => match now(tree.lookup(call, from.0, from.1)) {
                Ok(entry) => now(tree.link(call, entry.ino, to.0, to.1)).is_ok(),
                Err(_) => false,
            },
        };
        if is_half {
            drop(self.write_or_latch(&tree.to_image()).await);
        }
    }

    /// Whether a sync does nothing.
    pub(super) fn skips(&self, what: Sync) -> bool {
        self.has(Flaw::SyncDoesNothing) && what != Sync::All
    }

    /// The entries behind a number in the order of names.
    pub(super) fn list_by_name(&self, call: Call, dir: Ino, from: Cookie, mut into: Listing) -> Answer<Listing> {
        let mut all = Listing::new(1 << 20, 32, 8);
        all = match now(self.0.ram.list(call, dir, Cookie::BEGINNING, all)) {
            Ok(all) => all,
            Err(error) => return Step::Now(Err(error)),
        };
        let mut rows: Vec<_> = all.rows().collect();
        rows.sort_by_key(|row| row.name);
        let first = from.0.saturating_sub(Cookie::RESERVED.0) as usize;
        for (number, mut row) in rows.into_iter().enumerate().skip(first) {
            if !into.fits(row.name) {
                break;
            }
            row.next = Cookie(number as u64 + 1 + Cookie::RESERVED.0);
            row.entry = if into.wants_entries() { now(self.0.ram.lookup(call, dir, row.name)).ok() } else { None };
            into.push(row);
        }
        Step::Now(Ok(into))
    }
}
