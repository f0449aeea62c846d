//! What changes volumes: each order becomes one range vector that holds its change of the catalogue, too.

use std::collections::BTreeSet;
use std::ops::Range;

use esker_block::{Below, Bio, RangeOp};

use super::catalogue::{CATALOGUE, Entry, STAGING, is_sound_name};
use super::edit::Edit;
use super::order::Copied;
use super::{ManageError, Manager, Remap, bytes_of, delete};

/// Whether a volume may become smaller than what its port offers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The stack keeps requests off the part that goes.
    Allowed,
    Refused,
}

/// What an order says of a volume that it makes.
#[derive(Default)]
pub(super) struct Made {
    pub(super) blocks: u64,
    pub(super) parent: u64,
    pub(super) read_only: bool,
    pub(super) content: u128,
    pub(super) received: Option<u64>,
}

impl<V: Remap> Manager<V> {
    /// Carries out range operations and changes of the catalogue, all of them or none, durable on return.
    pub(super) async fn commit(
        &self,
        below: &Below,
        mut ranges: Vec<RangeOp>,
        edit: Edit<'_>,
    ) -> Result<(), ManageError> {
        let block = self.block();
        if ranges.is_empty() && edit.len() == 0 {
            return Ok(());
        }
        if ranges.len() + edit.len() > self.ranges_max {
            return Err(ManageError::Long(ranges.len() + edit.len(), self.ranges_max));
        }
        let changes = edit.changes();
        for (at, (place, entry)) in (0..).zip(&changes) {
            match entry {
                Some(entry) => {
                    let staged = STAGING + at;
                    let bytes = entry.encode(block as usize, self.volume.identity(), *place);
                    self.write(below, staged, &bytes, false).await?;
                    let src = bytes_of(staged..staged + 1, block);
                    ranges.push(RangeOp::Move { src, dst: (CATALOGUE + place) * block });
                }
                None => ranges.push(delete(CATALOGUE + place..CATALOGUE + place + 1, block)),
            }
        }
        self.vector(below, ranges).await?;
        edit.keep();
        changes.iter().filter_map(|(_, entry)| entry.as_ref()).for_each(|entry| self.fit_port(entry));
        Ok(())
    }

    /// Remaps ranges: together and durably. Writes that were answered before, or are on their way, come before it in
    /// the log.
    pub(super) async fn vector(&self, below: &Below, ranges: Vec<RangeOp>) -> Result<(), ManageError> {
        self.submit(below, Bio::ranges(ranges)).await
    }

    pub(super) async fn create(&self, below: &Below, name: &str, bytes: u64) -> Result<(), ManageError> {
        let blocks = self.blocks_of(bytes)?;
        let mut edit = Edit::of(&self.catalogue);
        self.add(&mut edit, name, Made { blocks, ..Made::default() })?;
        self.commit(below, Vec::new(), edit).await
    }

    /// Clones volumes, all at one moment.
    pub(super) async fn copy(&self, below: &Below, pairs: &[Copied], read_only: bool) -> Result<(), ManageError> {
        let sources = pairs.iter().map(|pair| Ok(self.whole(&pair.of)?.1)).collect::<Result<Vec<_>, ManageError>>()?;
        let (mut ranges, mut edit) = (Vec::new(), Edit::of(&self.catalogue));
        // In virtual time two draws of one instant are equal, and records have numbers.
        let drawn = self.volume.rt().unique() ^ u128::from(self.volume.next_number());
        for (number, (source, Copied { name, .. })) in (0..).zip(sources.iter().zip(pairs)) {
            let content = if read_only { drawn.wrapping_add(number) } else { 0 };
            let made = Made { blocks: source.blocks, parent: source.id, read_only, content, received: None };
            let start = self.add(&mut edit, name, made)?;
            ranges.push(RangeOp::Clone { src: bytes_of(source.range(), self.block()), dst: start * self.block() });
        }
        self.commit(below, ranges, edit).await
    }

    /// Gives a volume the size and content of another one.
    pub(super) async fn rollback(&self, below: &Below, name: &str, to: &str, force: bool) -> Result<(), ManageError> {
        let ((place, entry), (_, source)) = (self.changeable(name)?, self.whole(to)?);
        if name == to {
            return Err(ManageError::Same(name.to_string()));
        }
        match self.offered(name) {
            Some(_) if !force => {
                let advice = "stop what uses it, and say `force`";
                return Err(ManageError::Served(name.to_string(), advice));
            }
            Some(bytes) => self.demand_size(name, source.blocks, bytes)?,
            None => {}
        }
        if source.blocks > entry.capacity {
            let advice = format!("make a clone of \"{to}\" instead");
            return Err(ManageError::Narrow(name.to_string(), entry.capacity * self.block(), advice));
        }
        self.demand_free(name, entry.blocks, source.blocks)?;
        self.note_change(below, name, 0..entry.blocks.max(source.blocks));
        let block = self.block();
        let mut ranges = vec![RangeOp::Clone { src: bytes_of(source.range(), block), dst: entry.start * block }];
        if source.blocks < entry.blocks {
            ranges.push(delete(entry.start + source.blocks..entry.start + entry.blocks, block));
        }
        let mut edit = Edit::of(&self.catalogue);
        if source.blocks != entry.blocks {
            edit.put(place, Entry { blocks: source.blocks, ..entry })?;
        }
        self.commit(below, ranges, edit).await
    }

    pub(super) async fn delete(&self, below: &Below, names: &[String]) -> Result<(), ManageError> {
        let (mut ranges, mut edit) = (Vec::new(), Edit::of(&self.catalogue));
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                return Err(ManageError::Same(name.clone()));
            }
            let (place, entry) = self.entry(name)?;
            self.demand_unserved(name)?;
            if entry.held {
                return Err(ManageError::Held(name.clone()));
            }
            ranges.push(delete(entry.range(), self.block()));
            edit.take(place);
        }
        self.commit(below, ranges, edit).await
    }

    /// Changes a size. A volume that outgrows its room moves, which no client may watch.
    pub(super) async fn resize(&self, below: &Below, name: &str, bytes: u64, cut: Cut) -> Result<(), ManageError> {
        let blocks = self.blocks_of(bytes)?;
        let (place, entry) = self.changeable(name)?;
        self.demand_free(name, entry.blocks, blocks)?;
        let mut ranges = Vec::new();
        let mut next = Entry { blocks, ..entry.clone() };
        if blocks < entry.blocks {
            if let (Some(offered), Cut::Refused) = (self.offered(name), cut) {
                self.demand_size(name, blocks, offered)?;
            }
            ranges.push(delete(entry.start + blocks..entry.start + entry.blocks, self.block()));
        } else if blocks > entry.capacity {
            if self.window_is_open(name) {
                let advice = "take its port out of the stack text and resize it then, or make a clone of it";
                return Err(ManageError::Placed(name.to_string(), entry.capacity * self.block(), advice));
            }
            (next.start, next.capacity) = self.room(blocks)?;
            let src = bytes_of(entry.range(), self.block());
            ranges.push(RangeOp::Move { src, dst: next.start * self.block() });
        }
        let mut edit = Edit::of(&self.catalogue);
        edit.put(place, next)?;
        self.note_change(below, name, blocks.min(entry.blocks)..blocks.max(entry.blocks));
        self.commit(below, ranges, edit).await
    }

    /// Keeps snapshots from being deleted, or lets them be deleted again.
    pub(super) async fn hold(&self, below: &Below, names: &[String], held: bool) -> Result<(), ManageError> {
        let mut edit = Edit::of(&self.catalogue);
        for name in names {
            match self.entry(name)? {
                (_, entry) if !entry.read_only => return Err(ManageError::Changes(name.clone())),
                (_, entry) if entry.held == held => {}
                (place, entry) => edit.put(place, Entry { held, ..entry })?,
            }
        }
        self.commit(below, Vec::new(), edit).await
    }

    pub(super) async fn rename(&self, below: &Below, name: &str, to: &str) -> Result<(), ManageError> {
        let (place, entry) = self.whole(name)?;
        self.demand_unserved(name)?;
        self.demand_new(to)?;
        let mut edit = Edit::of(&self.catalogue);
        edit.put(place, Entry { name: to.to_string(), ..entry })?;
        self.commit(below, Vec::new(), edit).await
    }

    /// Adds an entry to those that an order makes: the first block of its volume.
    pub(super) fn add(&self, edit: &mut Edit<'_>, name: &str, made: Made) -> Result<u64, ManageError> {
        self.demand_new(name)?;
        let Made { blocks, parent, read_only, content, received } = made;
        let (start, capacity) = self.room(blocks)?;
        let place =
            self.catalogue.borrow().free_place().ok_or(ManageError::Full(blocks.saturating_mul(self.block())))?;
        // Each order adds more records to the log than it makes volumes, so numbers never come twice.
        let id = self.volume.next_number() + edit.len() as u64;
        let entry = Entry::volume(name, id, start, (blocks, capacity));
        edit.put(place, Entry { parent, read_only, content, received, ..entry })?;
        Ok(start)
    }

    fn room(&self, blocks: u64) -> Result<(u64, u64), ManageError> {
        let room = self.catalogue.borrow().room(blocks, self.volume.block());
        room.ok_or(ManageError::Full(blocks.saturating_mul(self.block())))
    }

    /// The place in the catalogue and the entry of that name.
    ///
    /// # Errors
    /// [`ManageError::Unknown`].
    pub fn entry(&self, name: &str) -> Result<(u64, Entry), ManageError> {
        let catalogue = self.catalogue.borrow();
        let found = catalogue.get(name).map(|(place, entry)| (place, entry.clone()));
        found.ok_or_else(|| ManageError::Unknown(name.to_string()))
    }

    /// The same, unless it is still being received.
    pub(super) fn whole(&self, name: &str) -> Result<(u64, Entry), ManageError> {
        match self.entry(name)? {
            (_, entry) if entry.received.is_some() => Err(ManageError::Partial(name.to_string())),
            found => Ok(found),
        }
    }

    pub(super) fn changeable(&self, name: &str) -> Result<(u64, Entry), ManageError> {
        match self.whole(name)? {
            (_, entry) if entry.read_only => Err(ManageError::ReadOnly(name.to_string())),
            found => Ok(found),
        }
    }

    pub(super) fn blocks_of(&self, bytes: u64) -> Result<u64, ManageError> {
        match bytes > 0 && bytes.is_multiple_of(self.block()) {
            true => Ok(bytes / self.block()),
            false => Err(ManageError::Size(bytes, self.volume.block())),
        }
    }

    pub(super) fn demand_new(&self, name: &str) -> Result<(), ManageError> {
        match self.catalogue.borrow().get(name) {
            Some(_) => Err(ManageError::Exists(name.to_string())),
            None if is_sound_name(name) => Ok(()),
            None => Err(ManageError::Name(name.to_string())),
        }
    }

    /// Bytes that the port of a volume offers, if it has one.
    pub(super) fn offered(&self, name: &str) -> Option<u64> {
        self.port(name).map(|port| port.bytes.get())
    }

    /// Whether requests are led to the volume already: not while the layer opens.
    fn window_is_open(&self, name: &str) -> bool {
        self.port(name).is_some_and(|port| port.window.borrow().is_ok())
    }

    /// Clients of a port are about to find other bytes in these blocks of its volume.
    pub(super) fn note_change(&self, below: &Below, name: &str, blocks: Range<u64>) {
        let Some(port) = self.port_places.get(name).filter(|_| self.window_is_open(name)) else { return };
        below.note_change(*port as u16, bytes_of(blocks, self.block()));
    }

    /// A size may change unless a layer was built for it. While this layer opens, those above are still to be.
    pub(super) fn demand_free(&self, name: &str, before: u64, after: u64) -> Result<(), ManageError> {
        let port = self.port(name).filter(|_| before != after && self.window_is_open(name));
        match port.and_then(|port| port.kept.borrow().clone()) {
            Some(by) => Err(ManageError::Kept(name.to_string(), by)),
            None => Ok(()),
        }
    }

    fn demand_unserved(&self, name: &str) -> Result<(), ManageError> {
        match self.offered(name) {
            Some(_) => Err(ManageError::Served(name.to_string(), "take its port out of the stack text first")),
            None => Ok(()),
        }
    }

    pub(super) fn demand_size(&self, name: &str, blocks: u64, offered: u64) -> Result<(), ManageError> {
        match blocks * self.block() < offered {
            true => Err(ManageError::Ported(name.to_string(), offered, blocks * self.block())),
            false => Ok(()),
        }
    }
}
