//! I/O of the program that a replay does not make, because no call of the trace holds it. It is requests of an
//! io_uring, accesses through maps of files, files that another process opened, and what a recording lost. A replay
//! without them tells nothing about the program's time.

use std::collections::{BTreeMap, BTreeSet};

use esker_trace_calls::call::{Call, Fd};
use esker_trace_calls::words::{FileKind, MapFlags};
use serde::{Deserialize, Serialize};

use super::{Losses, Opened, Program, SlotEffect, Step};

/// Maps of more bytes than this may hide reads that take time.
const FEW_PAGES: u64 = 4 * 4096;
/// What is open below it is no file on a medium: devices, and memory that processes share.
const DEVICES: &[u8] = b"/dev/";

/// How much a replay leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// Requests that were submitted to an io_uring.
    pub uring_submissions: u64,
    /// Rings of which the kernel takes requests by itself (`IORING_SETUP_SQPOLL`): no call tells of them.
    pub polled_rings: u64,
    /// Shared writable maps of files whose writes no action tells.
    pub mapped_writes: u64,
    /// Maps of files larger than a few pages whose reads were not recorded: the trace has no page faults.
    pub mapped_reads: u64,
    /// Descriptors that came through sockets: what they are open on is in no trace. 0 in reports of earlier versions.
    #[serde(default)]
    pub passed_descriptors: u64,
    /// Events that the recorder lost.
    #[serde(default)]
    pub lost_events: u64,
    /// Parts of the recording that are damaged or missing.
    #[serde(default)]
    pub damaged_parts: u64,
}

impl LeftOut {
    /// What a replay of `program` leaves out.
    pub fn of(program: &Program) -> LeftOut {
        let mut gathering = Gathering::new(program.opened());
        program.steps().iter().for_each(|step| gathering.see(step));
        let Losses { events, records, ends } = program.about().lost;
        LeftOut { lost_events: events, damaged_parts: records.saturating_add(ends), ..gathering.done() }
    }

    /// Why the time of a replay says nothing of the program; `None` if nothing speaks against it.
    pub fn why_no_time(&self) -> Option<String> {
        let some = |count: u64, told: fn(u64, &str, &str) -> String| {
            let (ending, verb) = if count == 1 { ("", "was") } else { ("s", "were") };
            (count > 0).then(|| told(count, ending, verb))
        };
        let reasons = [
            some(self.uring_submissions, |n, s, were| format!("{n} io_uring submission{s} {were} not played")),
            some(self.polled_rings, |n, s, _| {
                format!("requests of {n} io_uring{s} that the kernel polls (IORING_SETUP_SQPOLL) were not seen")
            }),
            some(self.mapped_writes, |n, s, _| format!("writes through {n} shared map{s} of files were not played")),
            some(self.passed_descriptors, |n, s, _| {
                format!("calls on {n} descriptor{s} that came through sockets were not played")
            }),
            some(self.lost_events, |n, s, were| format!("{n} event{s} {were} lost by the recorder")),
            some(self.damaged_parts, |n, s, were| format!("{n} part{s} of the recording {were} damaged or missing")),
        ];
        let told: Vec<String> = reasons.into_iter().flatten().collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// What may make the time of a replay too short without taking its meaning; `None` if there is nothing.
    pub fn warning(&self) -> Option<String> {
        let (maps, ending) = (self.mapped_reads, if self.mapped_reads == 1 { "" } else { "s" });
        (maps > 0).then(|| format!("reads through {maps} map{ending} of files were not recorded and not played"))
    }
}

/// A map of a file, as long as a trace is read.
struct Map {
    is_written: bool,
    len: u64,
    is_touched: bool,
}

/// Reads actions in their order.
struct Gathering {
    found: LeftOut,
    /// Slots of what lies on no medium: rings, memory, devices.
    elsewhere: BTreeSet<i32>,
    /// Rings that the kernel polls.
    polled: BTreeSet<i32>,
    /// By slot; negative numbers are of those without.
    maps: BTreeMap<i32, Map>,
    sees_faults: bool,
    sees_writes: bool,
}

impl Gathering {
    /// Before the first action, when `opened` is open.
    fn new(opened: &[Opened]) -> Gathering {
        let on_medium = |one: &&Opened| {
            let is_device = one.path.as_ref().is_some_and(|path| path.starts_with(DEVICES));
            matches!(one.kind, FileKind::Regular | FileKind::BlockDevice) && !is_device
        };
        let elsewhere = opened.iter().filter(|one| !on_medium(one)).map(|one| one.slot.0).collect();
        let (polled, maps) = Default::default();
        Gathering { found: LeftOut::default(), elsewhere, polled, maps, sees_faults: false, sees_writes: false }
    }

    /// The next action.
    fn see(&mut self, step: &Step) {
        match &step.call {
            Call::UringEnter { ring, submit, .. } => self.submitted(*ring, *submit, step),
            Call::MakeFd { .. } | Call::ShmOpen { .. } => {
                let is_polled = step.call.is_polled_ring();
                for slot in made(step) {
                    self.elsewhere.insert(slot.0);
                    if is_polled {
                        self.polled.insert(slot.0);
                    }
                }
                self.found.polled_rings += u64::from(is_polled && step.outcome.value().is_some());
            }
            Call::Open { at, .. } if at.descriptor().is_some() => {
                made(step).for_each(|slot| self.copied(at.dir, slot));
            }
            Call::Open { at, .. } if at.path.starts_with(DEVICES) => {
                self.elsewhere.extend(made(step).map(|slot| slot.0));
            }
            Call::Dup { fd, .. } | Call::DupTo { fd, .. } => made(step).for_each(|slot| self.copied(*fd, slot)),
            Call::Map { fd, len, flags, .. } => self.mapped(*fd, *len, *flags, step),
            Call::ReceiveFds { seen_fds, .. } if step.outcome.value().is_some() => {
                self.found.passed_descriptors += seen_fds.len() as u64;
            }
            Call::PageFault { .. } => self.sees_faults = true,
            Call::PageWrite { .. } => (self.sees_faults, self.sees_writes) = (true, true),
            Call::MapTouch { fd, write, .. } => {
                self.sees_faults = true;
                self.sees_writes |= write;
                if let Some(map) = self.maps.get_mut(&fd.0) {
                    map.is_touched = true;
                }
            }
            _ => {}
        }
        for effect in &step.slots {
            if let SlotEffect::Copied { from, to } = effect {
                self.copied(*from, *to);
            }
        }
    }

    fn copied(&mut self, from: Fd, to: Fd) {
        for set in [&mut self.elsewhere, &mut self.polled] {
            if set.contains(&from.0) {
                set.insert(to.0);
            }
        }
    }

    /// What the kernel took is what it returned; of these, a recording counts here only what no action shows. Of a ring
    /// that the kernel polls itself that is only a wake-up call.
    fn submitted(&mut self, ring: Fd, wanted: u32, step: &Step) {
        if !self.polled.contains(&ring.0) && wanted > 0 {
            self.found.uring_submissions +=
                step.outcome.value().map_or(0, |taken| (taken.max(0) as u64).min(wanted.into()));
        }
    }

    fn mapped(&mut self, fd: Fd, len: u64, flags: MapFlags, step: &Step) {
        let is_file = fd.0 >= 0 && !flags.contains(MapFlags::MAP_ANONYMOUS) && !self.elsewhere.contains(&fd.0);
        if is_file && step.outcome.value().is_some() {
            let is_written = flags.contains(MapFlags::MAP_SHARED | MapFlags::PROT_WRITE);
            // A map that the model does not believe in has no slot: nothing else has its number, below those of all
            // slots.
            let slot = made(step).next().map_or(-1 - self.maps.len() as i32, |slot| slot.0);
            self.maps.insert(slot, Map { is_written, len, is_touched: false });
        }
    }

    /// After the last one.
    fn done(self) -> LeftOut {
        let count = |is: &dyn Fn(&Map) -> bool| self.maps.values().filter(|map| is(map)).count() as u64;
        let is_unseen = |map: &Map| !map.is_written && !map.is_touched && map.len > FEW_PAGES;
        LeftOut {
            mapped_writes: if self.sees_writes { 0 } else { count(&|map| map.is_written) },
            mapped_reads: if self.sees_faults { 0 } else { count(&is_unseen) },
            ..self.found
        }
    }
}

/// Slots that a step made.
fn made(step: &Step) -> impl Iterator<Item = Fd> {
    step.slots.iter().filter_map(|effect| match effect {
        SlotEffect::Made(slot) => Some(*slot),
        SlotEffect::Copied { .. } | SlotEffect::Closed(_) => None,
    })
}

#[cfg(test)]
mod tests;
