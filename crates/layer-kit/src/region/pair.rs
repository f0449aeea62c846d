//! One region on its medium: two images, written in turn, so that the last commit is there until the next one is.
//!
//! Lock order: `turn` is waited for first; `state` is never borrowed across a wait.

use std::cell::{Ref, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{BioError, Buf};
use esker_framing::{Newest, SuperblockError, newest, seal, slot, unseal};

use super::header::{HEADER_SLOT, Header};
use super::{Region, RegionError, RegionFuture};
use crate::io::Io;
use crate::turn::Turn;

/// Bytes of one write of an image, at most.
const WRITE_MAX: usize = 1 << 20;

/// Where and how a region is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Number of the lower device.
    pub lower: usize,
    /// First byte there.
    pub start: u64,
    /// Bytes of the region.
    pub size: u64,
    pub unit: u32,
    pub grain: u32,
    /// Largest write of the lower device.
    pub transfer_max: u32,
    /// Its number in the area; 0 for the directory.
    pub region: u64,
}

impl Layout {
    fn grains(&self) -> usize {
        self.size.div_ceil(u64::from(self.grain)) as usize
    }

    fn image_len(&self) -> u64 {
        self.grains() as u64 * u64::from(self.grain)
    }

    fn header_at(&self, side: usize) -> u64 {
        self.start + side as u64 * HEADER_SLOT
    }

    fn image_at(&self, side: usize) -> u64 {
        self.start + 2 * HEADER_SLOT + side as u64 * self.image_len()
    }

    /// Bytes of the medium that it takes, if that fits in 64 bits.
    pub(super) fn footprint(&self) -> Option<u64> {
        let image = self.size.checked_next_multiple_of(u64::from(self.grain))?;
        image.checked_mul(2)?.checked_add(2 * HEADER_SLOT)
    }
}

struct State {
    /// All grains, the last one filled up with zeroes.
    memory: Vec<u8>,
    /// Number of the last commit; 0 before the first. Each goes to the side that is its slot.
    generation: u64,
    /// Checksums of each side's grains.
    sums: [Vec<u32>; 2],
    /// Grains in which a side differs from memory, or may.
    stale: [BTreeSet<usize>; 2],
    /// Counts changes of memory, and up to which of them the last commit goes.
    changes: u64,
    committed: u64,
    latched: Option<String>,
}

/// A region with two images.
pub(super) struct Pair {
    name: String,
    layout: Layout,
    state: RefCell<State>,
    /// One commit at a time.
    turn: Turn,
}

/// What a commit writes: pieces of an image with their offsets in it, then the header.
struct Change {
    side: usize,
    pieces: Vec<(u64, Buf)>,
    header: Vec<u8>,
    changes: u64,
}

impl Pair {
    /// A region of zeroes that nothing of is on the medium yet.
    pub(super) fn fresh(name: &str, layout: Layout) -> Pair {
        let grains = layout.grains();
        let all: BTreeSet<usize> = (0..grains).collect();
        let state = State {
            memory: vec![0; layout.image_len() as usize],
            generation: 0,
            sums: [vec![0; grains], vec![0; grains]],
            stale: [all.clone(), all],
            changes: 1,
            committed: 0,
            latched: None,
        };
        Pair { name: name.to_string(), layout, state: RefCell::new(state), turn: Turn::default() }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Says that nothing was ever committed here, whatever the medium holds.
    pub(super) async fn clear(io: &Io, lower: usize, start: u64) -> Result<(), BioError> {
        let zeroes = Buf::zeroed(io.pool(), 2 * HEADER_SLOT as usize);
        io.write(io.lower(lower), start, zeroes, false).await?;
        io.flush(io.lower(lower)).await
    }

    /// The last commit of the region that `layout` says, or none if there was none. `layout`'s unit and grain are those
    /// with which it would be made now; what it was made with counts.
    pub(super) async fn load(io: &Io, name: &str, mut layout: Layout) -> Result<Option<Pair>, RegionError> {
        let slots = [read_slot(io, &layout, 0).await?, read_slot(io, &layout, 1).await?];
        let header = match newest(&[[&slots[0], &slots[1]]]).and_then(Newest::<Header>::writable) {
            Ok(header) => header,
            Err(SuperblockError::Blank) => return Ok(None),
            Err(error) => return Err(refusal(name, &layout, &slots, error)),
        };
        let newest = slot(header.generation);
        if (header.region, header.size) != (layout.region, layout.size) {
            let what = format!("its header is of region {} with {} bytes", header.region, header.size);
            return Err(corrupt(name, layout.header_at(newest), &what));
        }
        if header.unit > layout.unit {
            let what = format!("it was made for atomic writes of {} bytes, and here are {}", header.unit, layout.unit);
            return Err(RegionError::Foreign { at: layout.start, what });
        }
        (layout.unit, layout.grain) = (header.unit, header.grain);
        let memory = read_image(io, name, &layout, newest, &header).await?;
        let pair = Pair::fresh(name, layout);
        let mut state = pair.state.borrow_mut();
        state.memory = memory;
        (state.generation, state.committed) = (header.generation, state.changes);
        state.sums[newest] = header.sums;
        state.stale[newest].clear();
        drop(state);
        Ok(Some(pair))
    }

    /// What the memory holds.
    pub(super) fn bytes(&self) -> Ref<'_, [u8]> {
        Ref::map(self.state.borrow(), |state| &state.memory[..self.layout.size as usize])
    }

    fn check_span(&self, at: u64, len: usize) -> usize {
        let end = at.checked_add(len as u64);
        let fits = end.is_some_and(|end| end <= self.layout.size);
        assert!(fits, "bytes {at} + {len} of region {} with {} bytes", self.name, self.layout.size);
        at as usize
    }

    /// Copies what differs, so that the memory may change while it is written.
    fn change(&self, io: &Io) -> Change {
        let mut state = self.state.borrow_mut();
        let State { memory, generation, sums, stale, changes, .. } = &mut *state;
        let (side, grain) = (slot(*generation + 1), self.layout.grain as usize);
        let stale = std::mem::take(&mut stale[side]);
        for at in &stale {
            sums[side][*at] = crc32fast::hash(&memory[at * grain..(at + 1) * grain]);
        }
        let header = Header {
            unit: self.layout.unit,
            region: self.layout.region,
            generation: *generation + 1,
            size: self.layout.size,
            grain: self.layout.grain,
            sums: sums[side].clone(),
        };
        let most = WRITE_MAX.min(self.layout.transfer_max as usize).max(grain.min(self.layout.transfer_max as usize));
        let mut pieces = Vec::new();
        for run in runs(&stale, grain) {
            for at in run.clone().step_by(most) {
                let end = run.end.min(at + most);
                pieces.push((at as u64, Buf::from_bytes(io.pool(), &memory[at..end])));
            }
        }
        Change { side, pieces, header: seal(&header), changes: *changes }
    }

    async fn store(&self, io: &Io, change: &mut Change) -> Result<(), BioError> {
        let volume = io.lower(self.layout.lower);
        let image = self.layout.image_at(change.side);
        for (at, buf) in std::mem::take(&mut change.pieces) {
            io.write(volume, image + at, buf, false).await?;
        }
        // The header may not be there before what it vouches for.
        io.flush(volume).await?;
        let header = Buf::from_bytes(io.pool(), &change.header);
        io.write(volume, self.layout.header_at(change.side), header, true).await
    }

    async fn commit_now(&self, io: &Io) -> Result<(), RegionError> {
        let wanted = self.state.borrow().changes;
        self.turn.alone(self.commit_in_turn(io, wanted)).await
    }

    async fn commit_in_turn(&self, io: &Io, wanted: u64) -> Result<(), RegionError> {
        if let Some(cause) = &self.state.borrow().latched {
            return Err(RegionError::Latched { name: self.name.clone(), cause: cause.clone() });
        }
        if self.state.borrow().committed >= wanted {
            return Ok(());
        }
        let mut change = self.change(io);
        let stored = self.store(io, &mut change).await;
        let mut state = self.state.borrow_mut();
        match stored {
            Ok(()) => {
                state.generation += 1;
                state.committed = change.changes;
                Ok(())
            }
            Err(error) => {
                state.latched = Some(error.to_string());
                Err(error.into())
            }
        }
    }
}

impl Region for Pair {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.layout.size
    }

    fn read(&self, at: u64, out: &mut [u8]) {
        let at = self.check_span(at, out.len());
        out.copy_from_slice(&self.state.borrow().memory[at..at + out.len()]);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let at = self.check_span(at, bytes.len());
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state.borrow_mut();
        state.memory[at..at + bytes.len()].copy_from_slice(bytes);
        let grain = self.layout.grain as usize;
        for touched in at / grain..=(at + bytes.len() - 1) / grain {
            state.stale.iter_mut().for_each(|stale| {
                stale.insert(touched);
            });
        }
        state.changes += 1;
    }

    fn commit(self: Rc<Self>, io: &Io) -> RegionFuture<()> {
        let io = io.clone();
        Box::pin(async move { self.commit_now(&io).await })
    }
}

/// Neighbouring grains as runs of bytes.
fn runs(grains: &BTreeSet<usize>, grain: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for at in grains.iter().map(|at| at * grain) {
        match runs.last_mut() {
            Some(last) if last.end == at => last.end += grain,
            _ => runs.push(at..at + grain),
        }
    }
    runs
}

fn corrupt(name: &str, at: u64, what: &str) -> RegionError {
    RegionError::Corrupt { name: name.to_string(), at, what: what.to_string() }
}

async fn read_slot(io: &Io, layout: &Layout, side: usize) -> Result<Vec<u8>, BioError> {
    Ok(io.read(io.lower(layout.lower), layout.header_at(side), HEADER_SLOT as usize).await?.to_vec())
}

/// Why no header counts, with the place of the first one that is not sound.
fn refusal(name: &str, layout: &Layout, slots: &[Vec<u8>; 2], error: SuperblockError) -> RegionError {
    let is_unsound = |slot: &Vec<u8>| unseal::<Header>(slot).is_err_and(|error| error != SuperblockError::Blank);
    let at = layout.header_at(slots.iter().position(is_unsound).unwrap_or(0));
    match (error, layout.region) {
        (SuperblockError::Foreign(_), 0) => RegionError::Foreign { at, what: "no header begins there".to_string() },
        _ => RegionError::Header { name: name.to_string(), at, error },
    }
}

async fn read_image(
    io: &Io,
    name: &str,
    layout: &Layout,
    side: usize,
    header: &Header,
) -> Result<Vec<u8>, RegionError> {
    let (begin, len) = (layout.image_at(side), layout.image_len());
    let mut memory = vec![0; len as usize];
    let most = WRITE_MAX.min(layout.transfer_max as usize);
    for at in (0..memory.len()).step_by(most) {
        let end = memory.len().min(at + most);
        let piece = io.read(io.lower(layout.lower), begin + at as u64, end - at).await?;
        piece.copy_to(&mut memory[at..end]);
    }
    let grain = layout.grain as usize;
    let damaged = memory.chunks(grain).zip(&header.sums).position(|(bytes, sum)| crc32fast::hash(bytes) != *sum);
    match damaged {
        Some(at) => Err(corrupt(name, begin + (at * grain) as u64, "a grain has a wrong checksum")),
        None => Ok(memory),
    }
}

/// The bytes of the medium that a region at `start` takes.
pub(super) fn place(layout: &Layout) -> Option<ByteRange> {
    ByteRange::new(layout.start, layout.footprint()?)
}
