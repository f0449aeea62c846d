//! Files in the memory of processes: what of a file is where, and what a page fault touches.
//!
//! A map is like a descriptor without a number. It has a slot, so that a replay knows what is touched when addresses
//! are reused. It has a resource of its own, so that no access comes before it is made or after it is gone. Accesses
//! through it have no order among each other.

use esker_base::Errno;
use esker_base::Spans;
use esker_trace_calls::action::{ProcessId, ThreadId};
use esker_trace_calls::call::{Call, Fd};
use esker_trace_calls::words::{MapFlags, OpenFlags};

use crate::compiled::SlotEffect;

use super::World;
use super::resource::{Resource, ResourceId, ResourceKind, Role};
use super::world::{Answer, Task};

/// What slots of maps have for a descriptor's number.
const NO_NUMBER: i32 = -1;

/// The memory of a process, as far as files are in it.
#[derive(Debug, Clone)]
pub(super) struct Space {
    pub process: ProcessId,
    pub maps: Spans<Mapped>,
}

/// A map, all of it or what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapped {
    slot: i32,
    resource: ResourceId,
}

impl World {
    /// A map is made of a file that may be read.
    pub(super) fn map(&mut self, thread: ThreadId, fd: Fd, offset: u64, len: u64, flags: MapFlags) -> Answer<i64> {
        if fd.0 < 0 || flags.contains(MapFlags::MAP_ANONYMOUS) {
            return Ok(self.seen.unwrap_or(0));
        }
        let description = self.fd_for_io(thread, fd)?;
        if !description.flags.contains(OpenFlags::READ) {
            return Err(Errno::EACCES);
        }
        self.touch_inode(description.inode, Role::Use);
        if let (false, Some(address)) = (self.dry, self.seen) {
            let space = self.task(thread).space;
            let mapped = self.new_map(space, address as u64);
            self.effects.push(SlotEffect::Made(Fd(mapped.slot)));
            let gone = self.spaces[space].maps.add(address as u64, len, offset, mapped);
            self.lose(space, &gone);
        }
        Ok(self.seen.unwrap_or(0))
    }

    fn new_map(&mut self, space: usize, address: u64) -> Mapped {
        let slot = self.new_slot(self.spaces[space].process, NO_NUMBER);
        let generation = self.slots[slot.0 as usize].generation;
        let resource = Resource { kind: ResourceKind::Map, key: address, generation, previous: None };
        let resource = self.ledger.add(resource);
        self.slot_resources.push(resource);
        self.ledger.touch(resource, Role::Create);
        Mapped { slot: slot.0, resource }
    }

    pub(super) fn unmap(&mut self, thread: ThreadId, address: u64, len: u64) -> Answer<i64> {
        if !self.dry {
            let space = self.task(thread).space;
            let gone = self.spaces[space].maps.remove(address, len);
            self.lose(space, &gone);
        }
        Ok(0)
    }

    /// A part of a map is elsewhere now, or of another length.
    pub(super) fn remap(&mut self, thread: ThreadId, address: u64, len: u64, new_len: u64) -> Answer<i64> {
        let space = self.task(thread).space;
        let found = self.spaces[space].maps.find(address).map(|(mapped, offset)| (*mapped, offset));
        if let (false, Some(to), Some((mapped, offset))) = (self.dry, self.seen, found) {
            let mut gone = self.spaces[space].maps.remove(address, len);
            gone.extend(self.spaces[space].maps.add(to as u64, new_len, offset, mapped));
            self.lose(space, &gone);
        }
        Ok(self.seen.unwrap_or(0))
    }

    /// Parts of these maps are gone; with the last part, so is the map.
    fn lose(&mut self, space: usize, gone: &[Mapped]) {
        for mapped in gone {
            let is_left = self.spaces[space].maps.values().any(|left| left == mapped);
            let closed = SlotEffect::Closed(Fd(mapped.slot));
            if is_left {
                self.ledger.touch(mapped.resource, Role::Use);
            } else if !self.effects.contains(&closed) {
                self.ledger.touch(mapped.resource, Role::Delete);
                self.effects.push(closed);
            }
        }
    }

    /// A page of a map is touched. An access to an unseen map is ignored.
    pub(super) fn fault(&mut self, thread: ThreadId, address: u64) -> Answer<i64> {
        if let Some((mapped, _)) = self.spaces[self.task(thread).space].maps.find(address) {
            self.ledger.touch(mapped.resource, Role::Use);
        }
        Ok(0)
    }

    /// A fault as the touch of a map's slot, if its map is known.
    pub(super) fn touch_of(&self, thread: ThreadId, call: &Call) -> Option<Call> {
        let (address, len, write) = match *call {
            Call::PageFault { address, len } => (address, len, false),
            Call::PageWrite { address, len } => (address, len, true),
            _ => return None,
        };
        let (mapped, offset) = self.spaces[self.task(thread).space].maps.find(address)?;
        Some(Call::MapTouch { fd: Fd(mapped.slot), offset, len, write })
    }

    /// A new process begins with all that its maker has in memory.
    pub(super) fn copy_space(&mut self, space: usize, process: ProcessId) -> usize {
        let maps = self.spaces[space].maps.clone();
        self.spaces.push(Space { process, maps: Spans::default() });
        let copy = self.spaces.len() - 1;
        let mut copies: Vec<(Mapped, Mapped)> = Vec::new();
        for mapped in maps.values() {
            if copies.iter().all(|(known, _)| known != mapped) {
                self.ledger.touch(mapped.resource, Role::Use);
                let address = self.ledger.resources()[mapped.resource as usize].key;
                let new = self.new_map(copy, address);
                self.effects.push(SlotEffect::Copied { from: Fd(mapped.slot), to: Fd(new.slot) });
                copies.push((*mapped, new));
            }
        }
        let copied = |mapped: &Mapped| copies.iter().find(|(known, _)| known == mapped).expect("each was copied").1;
        self.spaces[copy].maps = maps.map(copied);
        copy
    }

    /// A thread has new and empty memory; what it had is gone unless another thread shares it.
    pub(super) fn renew_space(&mut self, thread: ThreadId) {
        let Task { space, process, .. } = *self.task(thread);
        self.spaces.push(Space { process, maps: Spans::default() });
        self.tasks[thread.0 as usize].space = self.spaces.len() - 1;
        self.leave_space(space);
    }

    /// A thread has left a process' memory; without another one in it, all that is there is gone.
    pub(super) fn leave_space(&mut self, space: usize) {
        if !self.tasks.iter().any(|task| task.alive && task.space == space) {
            let gone: Vec<Mapped> = std::mem::take(&mut self.spaces[space].maps).values().copied().collect();
            self.lose(space, &gone);
        }
    }
}
