//! Opening: the map as it was left, or a new one on a blank lower device.

use std::cell::Cell;

use esker_base::{Bits, Progress};
use esker_block::{Bio, BioError, Buf, Class, Latch, Limits, OpKind, Support, Tag};
use esker_framing::{SuperblockError, cell, seal};

use super::commit::{flush, write_head};
use super::entry::{SlotEntry, SlotMarks};
use super::free::FreeSlots;
use super::head::SlotHead;
use super::image::Table;
use super::journal::{Record, SECTOR, Waiting};
use super::layout::{Doubt, SlotLayout, SlotShape, Suspects, check_lower};
use super::recover::{Recovered, head_of, read_start, recover};
use super::zones::Zones;
use super::{Found, Log, LowerSet, MapError, NOTE_BYTES, Session, SlotMap};
use crate::commit::GroupCommit;
use crate::io::Io;
use crate::turn::Turn;

/// What requests of a map are marked with.
pub(super) const METADATA: Tag = Tag::of(Class::Metadata);
/// The part of opening that reads the map.
const PART: &str = "map of slots";
/// The part that makes one.
const EMPTY: &str = "empty map of slots";
/// Bytes of one request at most.
const CHUNK: u64 = 1 << 20;

impl SlotMap {
    /// Finds the map on lower device `lower`, whose limits are `limits`, or makes one if it is blank. It must be begun
    /// ([`SlotMap::begin`]) before the first change.
    ///
    /// # Errors
    /// [`MapError`].
    pub async fn open(io: &Io, lower: usize, shape: &SlotShape, limits: &Limits) -> Result<(SlotMap, Found), MapError> {
        check_lower(limits)?;
        let chunk = CHUNK.min(u64::from(limits.transfer_max)) / cell::PAGE as u64 * cell::PAGE as u64;
        let read = async |at, len| read(io, lower, at, len, chunk).await;
        let head = match head_of(&read_start(&read).await?) {
            Err(MapError::Superblock(SuperblockError::Blank)) => format(io, lower, shape, limits, chunk).await?,
            head => head?,
        };
        head.layout.check_asked(head.kind, shape)?;
        // Two halves of the journal and two images are read.
        let (done, all) = (Cell::new(0), 2 * (head.layout.journal + head.layout.image_len()));
        let counted = async |at, len| {
            done.set(done.get() + len);
            io.rt().progress(Progress::bytes(PART, done.get().min(all - 1), all));
            read(at, len).await
        };
        let mut recovered = recover(head, limits.size, &counted).await?;
        io.rt().progress(Progress::bytes(PART, all, all));
        let unit = u64::from(limits.block).max(SECTOR as u64) / SECTOR as u64;
        if recovered.is_begun && !(recovered.next - recovered.first).is_multiple_of(unit) {
            return Err(MapError::Blocks(unit * SECTOR as u64));
        }
        let found = judge(&mut recovered, shape);
        Ok((SlotMap::of(recovered, io, lower, shape, unit, chunk), found))
    }

    fn of(recovered: Recovered, io: &Io, lower: usize, shape: &SlotShape, unit: u64, chunk: u64) -> SlotMap {
        let Recovered { head, table, touched, is_clean, first, next, is_begun, remains, damaged, .. } = recovered;
        let (half, before, first) = match is_begun {
            true => (head.epoch + 1, head.first, first),
            false => (head.epoch, head.before, head.first),
        };
        let waiting = Waiting::default();
        let (taken, goal, after) = (0, 0, LowerSet::NONE);
        let log = Log { epoch: head.epoch, half, before, first, next, durable: next, waiting, taken, goal, after };
        let doubts_all = shape.doubt == Doubt::All || head.doubt == Doubt::All && !is_clean;
        let session =
            Session { note: head.note, is_begun: false, is_clean: head.is_clean, doubts_all, remains, damaged };
        SlotMap {
            rt: io.rt().clone(),
            lower,
            set: head.set,
            layout: head.layout,
            kind: head.kind,
            doubt: shape.doubt,
            commit: shape.commit,
            unit,
            chunk: chunk as usize,
            table: table.into(),
            free: FreeSlots::default().into(),
            zones: Zones::new(touched).into(),
            log: log.into(),
            session: session.into(),
            commits: GroupCommit::default(),
            checkpoints: Turn::default(),
            latch: Latch::new("the map of slots"),
            counts: Default::default(),
        }
    }
}

/// What was found. After an unclean stop the doubtful entries are changed.
fn judge(recovered: &mut Recovered, shape: &SlotShape) -> Found {
    let head = &recovered.head;
    let note = head.note;
    if head.epoch == 1 {
        return Found::Fresh;
    }
    if recovered.is_clean {
        return Found::Clean { note };
    }
    let all = head.doubt == Doubt::All || shape.doubt == Doubt::All;
    let suspects = doubt(&mut recovered.table, &recovered.touched, all, shape.suspects);
    Found::Unclean { note, suspects, replayed: recovered.replayed }
}

/// Makes the clean entries of touched zones dirty, or drops them: how many there were.
fn doubt(table: &mut Table, touched: &Bits, all: bool, suspects: Suspects) -> u64 {
    let layout = *table.layout();
    let mut changed = 0;
    for slot in 0..layout.slots {
        let is_doubtful = all || touched.has(layout.zone_of(slot) as usize);
        let Some(entry) = table.get(slot).filter(|entry| is_doubtful && !entry.marks.has(SlotMarks::DIRTY)) else {
            continue;
        };
        let entry: Option<SlotEntry> = match suspects {
            Suspects::Dirty => Some(entry.with(SlotMarks::DIRTY)),
            Suspects::Drop => None,
        };
        table.apply(&Record::Set { slot, entry });
        changed += 1;
    }
    changed
}

async fn read(io: &Io, lower: usize, at: u64, len: u64, chunk: u64) -> Result<Vec<u8>, BioError> {
    let mut bytes = Vec::with_capacity(len as usize);
    for from in (0..len).step_by(chunk as usize) {
        let buf = Buf::unique(io.pool(), chunk.min(len - from) as usize);
        let done = io.submit(Bio::read(at + from, buf).tagged(METADATA).to(io.lower(lower))).await;
        done.result?;
        bytes.extend(done.buf.to_vec());
    }
    Ok(bytes)
}

/// Makes a map on a blank lower device: empty images first, then the head, without which there is none.
async fn format(io: &Io, lower: usize, shape: &SlotShape, limits: &Limits, chunk: u64) -> Result<SlotHead, MapError> {
    let layout = SlotLayout::plan(shape, limits)?;
    let zeroes = limits.support(OpKind::Zero) != Support::No;
    let (from, end) = (layout.image_at(0), layout.image_at(1) + layout.image_len());
    zero(io, lower, from..end, if zeroes { end - from } else { chunk }, zeroes).await?;
    flush(io, lower).await?;
    let head = SlotHead {
        set: io.rt().unique(),
        epoch: 1,
        kind: shape.kind,
        layout,
        is_clean: true,
        doubt: shape.doubt,
        before: 0,
        first: 0,
        next: 0,
        note: [0; NOTE_BYTES],
        touched: Bits::new(layout.zones as usize),
    };
    write_head(io, lower, &seal(&head), head.epoch).await?;
    Ok(head)
}

/// Zeroes bytes, by requests of `most` bytes.
pub(super) async fn zero(
    io: &Io,
    lower: usize,
    bytes: std::ops::Range<u64>,
    most: u64,
    natively: bool,
) -> Result<(), BioError> {
    let all = bytes.end - bytes.start;
    for at in bytes.clone().step_by(most as usize) {
        let len = most.min(bytes.end - at);
        io.rt().progress(Progress::bytes(EMPTY, at - bytes.start, all));
        let bio = match natively {
            true => Bio::zero(at, len),
            false => Bio::write(at, Buf::zeroed(io.pool(), len as usize)),
        };
        io.submit(bio.tagged(METADATA).to(io.lower(lower))).await.result?;
    }
    io.rt().progress(Progress::bytes(EMPTY, all, all));
    Ok(())
}
