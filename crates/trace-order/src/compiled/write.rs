//! A program as bytes.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use esker_trace_calls::trace::Platform;
use esker_trace_calls::wire::{Encoder, Field, NameTable, put_varint};
use esker_trace_calls::{FinalTree, Snapshot};

use crate::rules::Instant;

use super::layout::{ACTION, BEGINS, LOOKS_SHIFT, MAGIC, PREFIX, ROW, Section, VERSION, WAITS};
use super::{About, Opened, Player, Program, Slot};

impl Program {
    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let mut names = NameTable::new();
        for name in &self.names {
            names.number(name);
        }
        let mut coded = |write: &mut dyn FnMut(&mut Encoder<'_>)| {
            let mut bytes = Vec::new();
            write(&mut Encoder::new(&mut bytes, &mut names));
            bytes
        };
        let about = coded(&mut |to| put_about(&self.about, to));
        let players = coded(&mut |to| put_all(&self.players, put_player, to));
        let snapshot = coded(&mut |to| put_snapshot(&self.snapshot, to));
        let slots = coded(&mut |to| put_all(&self.slots, put_slot, to));
        let opened = coded(&mut |to| put_all(&self.opened, put_opened, to));
        let mut ends = Vec::with_capacity(self.len());
        let steps = coded(&mut |to| {
            for step in &self.steps {
                step.put(to);
                ends.push(u32::try_from(to.at()).expect("calls of less than 4 GiB"));
            }
        });
        let after = coded(&mut |to| self.after.iter().for_each(|after| put_after(after, to)));
        let (actions, touches) = self.actions_and_touches(&ends);
        let resources = self.resources();
        let bodies: [(Section, &[u8]); 11] = [
            (Section::Names, &encode_names(&names)),
            (Section::About, &about),
            (Section::Players, &players),
            (Section::Snapshot, &snapshot),
            (Section::Slots, &slots),
            (Section::Opened, &opened),
            (Section::Resources, &resources),
            (Section::Actions, &actions),
            (Section::Steps, &steps),
            (Section::Touches, &touches),
            (Section::After, &after),
        ];
        assemble(&bodies)
    }

    fn actions_and_touches(&self, ends: &[u32]) -> (Vec<u8>, Vec<u8>) {
        let mut rows = Vec::with_capacity(self.len() * ACTION);
        let mut touches = Vec::new();
        for ((id, instant), end) in (0u32..).zip(self.outline.instants()).zip(ends) {
            touches.extend_from_slice(self.outline.touch_bytes(id));
            rows.extend_from_slice(&instant.enter.to_le_bytes());
            rows.extend_from_slice(&instant.leave.to_le_bytes());
            rows.extend_from_slice(&instant.thread.to_le_bytes());
            rows.extend_from_slice(&end.to_le_bytes());
            let touch_end = u32::try_from(touches.len()).expect("an outline holds its touches by 32 bits");
            rows.extend_from_slice(&touch_end.to_le_bytes());
            rows.extend_from_slice(&flags(instant).to_le_bytes());
        }
        (rows, touches)
    }

    fn resources(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.outline.resources().len() as u64);
        for resource in self.outline.resources() {
            out.push(resource.kind.code());
            put_varint(&mut out, resource.key);
            put_varint(&mut out, u64::from(resource.generation));
            put_varint(&mut out, resource.previous.map_or(0, |previous| u64::from(previous) + 1));
        }
        out
    }
}

fn flags(instant: &Instant) -> u32 {
    let of = |is_so, flag| if is_so { flag } else { 0 };
    of(instant.waits, WAITS) | u32::from(instant.looks.bits()) << LOOKS_SHIFT | of(instant.begins, BEGINS)
}

/// Header, table and sections, one behind the other.
fn assemble(bodies: &[(Section, &[u8])]) -> Vec<u8> {
    let head = PREFIX + bodies.len() * ROW + size_of::<u32>();
    let mut out = Vec::with_capacity(head + bodies.iter().map(|(_, body)| body.len()).sum::<usize>());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&0u16.to_le_bytes());
    out.extend_from_slice(&u32::try_from(bodies.len()).expect("a section a row of a table").to_le_bytes());
    let mut offset = head as u64;
    for (section, body) in bodies {
        out.extend_from_slice(&(*section as u32).to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&(body.len() as u64).to_le_bytes());
        offset += body.len() as u64;
    }
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    bodies.iter().for_each(|(_, body)| out.extend_from_slice(body));
    out
}

fn encode_names(names: &NameTable) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, names.names().len() as u64);
    for name in names.names() {
        put_varint(&mut out, name.len() as u64);
        out.extend_from_slice(name);
    }
    out
}

fn put_all<T>(all: &[T], put: fn(&T, &mut Encoder<'_>), to: &mut Encoder<'_>) {
    to.unsigned(all.len() as u64);
    all.iter().for_each(|one| put(one, to));
}

fn put_about(about: &About, to: &mut Encoder<'_>) {
    to.byte(match about.platform {
        Platform::Linux => 1,
        Platform::Mac => 2,
    });
    about.source.put(to);
    to.unsigned(about.elapsed_ns);
    to.unsigned(about.repairs.tallies.len() as u64);
    for (kind, tally) in &about.repairs.tallies {
        to.byte(*kind as u8);
        to.unsigned(tally.count);
        to.unsigned(tally.places.len() as u64);
        for (action, what) in &tally.places {
            action.put(to);
            esker_trace_calls::name::Word::from(what.as_str()).put(to);
        }
    }
    // A whole recording says nothing here.
    if !about.lost.is_nothing() {
        [about.lost.events, about.lost.records, about.lost.ends].into_iter().for_each(|count| to.unsigned(count));
    }
}

fn put_snapshot(snapshot: &Snapshot, to: &mut Encoder<'_>) {
    to.unsigned(snapshot.entries.len() as u64);
    for (path, entry) in &snapshot.entries {
        path.put(to);
        entry.put(to);
    }
}

fn put_after(after: &FinalTree, to: &mut Encoder<'_>) {
    put_all(&after.roots, Field::put, to);
    put_all(&after.without, Field::put, to);
    put_snapshot(&after.tree, to);
}

fn put_player(player: &Player, to: &mut Encoder<'_>) {
    player.tid.put(to);
    player.process.0.put(to);
    player.pid.put(to);
    player.name.put(to);
    player.parent.put(to);
}

fn put_slot(slot: &Slot, to: &mut Encoder<'_>) {
    slot.number.put(to);
    slot.generation.put(to);
    slot.process.0.put(to);
}

fn put_opened(opened: &Opened, to: &mut Encoder<'_>) {
    opened.slot.put(to);
    opened.kind.put(to);
    opened.path.put(to);
    opened.flags.put(to);
    opened.offset.put(to);
    opened.group.put(to);
    opened.inferred.put(to);
}
