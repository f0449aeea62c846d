//! What a map holds, found from the bytes of its lower device. The newest sound head counts, then its image, its half
//! of the journal, and the next half if it was begun.
//!
//! Where a cell of that image is damaged, the image of the epoch before serves, with the halves of both epochs. They
//! are whole until the next half is begun, and the numbers of their sectors say whether they are.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::ops::Range;

use esker_base::Bits;
use esker_block::BioError;
use esker_framing::cell::CELL;
use esker_framing::{Newest, SuperblockError, newest, slots};

use super::MapError;
use super::head::SlotHead;
use super::image::Table;
use super::journal::{Half, Record, Replayed};
use super::layout::HEADS;
use crate::media;

/// Bytes that are read at once, at most.
const CHUNK: u64 = 1 << 20;

/// A map as it was left.
pub(super) struct Recovered {
    pub(super) head: SlotHead,
    pub(super) table: Table,
    /// Zones that are touched.
    pub(super) touched: Bits,
    /// Whether nothing was changed since the layer stopped.
    pub(super) is_clean: bool,
    /// Records that were replayed.
    pub(super) replayed: u64,
    /// Number of the first sector of the half behind that of the head.
    pub(super) first: u64,
    /// Number of the next sector.
    pub(super) next: u64,
    /// Whether the half behind that of the head was begun.
    pub(super) is_begun: bool,
    /// Bytes of what a torn commit left in that half behind its end.
    pub(super) remains: Option<Range<u64>>,
    /// Damaged cells of the image of the head.
    pub(super) damaged: Vec<u32>,
}

/// The head that counts, of the first bytes of a lower device.
///
/// # Errors
/// Why there is none.
pub(super) fn head_of(start: &[u8]) -> Result<SlotHead, MapError> {
    match (newest(&[slots(start)]).and_then(Newest::<SlotHead>::writable), media::name_of(start)) {
        (Err(SuperblockError::Foreign(_)), Some(name)) => Err(MapError::Medium(name)),
        (found, _) => Ok(found?),
    }
}

/// Finds the map of `head`, whose device has `size` bytes.
///
/// # Errors
/// What is damaged and where, and what `read` answers.
pub(super) async fn recover(
    head: SlotHead,
    size: u64,
    read: &impl AsyncFn(u64, u64) -> Result<Vec<u8>, BioError>,
) -> Result<Recovered, MapError> {
    let layout = head.layout;
    // A number beyond the device reserves no memory.
    if layout.end() > size {
        return Err(MapError::Shrunk { is: size, needed: layout.end() });
    }
    let halves = [
        read_all(layout.half_at(0), layout.journal, read).await?,
        read_all(layout.half_at(1), layout.journal, read).await?,
    ];
    let log = Log { head: &head, halves: &halves };
    let (now, began) = log.now()?;
    let later = log.half(head.epoch + 1).replay(now.next, now.next, None)?;
    let is_begun = later.next > now.next;
    let (mut table, damaged) = read_image(&head, head.epoch, read).await?;
    let mut before = Replayed::default();
    if let Some(cell) = damaged.first() {
        let lost = MapError::Damaged { what: "cell", at: layout.cell_at(head.epoch, *cell) };
        before = log.before(began).map_err(|_| lost.clone())?;
        let (older, missing) = read_image(&head, head.epoch.wrapping_sub(1), read).await?;
        if !missing.is_empty() {
            return Err(lost);
        }
        table = older;
    }
    let mut touched = head.touched.clone();
    before.records.iter().for_each(|record| table.apply(record));
    for record in now.records.iter().chain(&later.records) {
        table.apply(record);
        touch(&mut touched, record);
    }
    let is_clean = head.is_clean && !is_begun && now.next == head.next;
    compare(&mut table, &head, head.epoch + 1, read).await?;
    if !damaged.is_empty() {
        // The table does not come from this image, so the journal does not say what it lacks.
        compare(&mut table, &head, head.epoch, read).await?;
    }
    Ok(Recovered {
        remains: log.half(head.epoch + 1).remains(now.next, later.next),
        replayed: (before.records.len() + now.records.len() + later.records.len()) as u64,
        first: now.next,
        next: later.next,
        table,
        touched,
        is_clean,
        is_begun,
        damaged,
        head,
    })
}

/// Notes which cells of the image of `epoch` are not what the table holds: older, lost or damaged.
async fn compare(
    table: &mut Table,
    head: &SlotHead,
    epoch: u64,
    read: &impl AsyncFn(u64, u64) -> Result<Vec<u8>, BioError>,
) -> Result<(), MapError> {
    let layout = head.layout;
    let mut cells = 0..layout.cells();
    for from in (0..layout.image_len()).step_by(small(CHUNK)) {
        let bytes = read(layout.image_at(epoch) + from, CHUNK.min(layout.image_len() - from)).await?;
        for (bytes, cell) in bytes.chunks_exact(CELL).zip(&mut cells) {
            // A cell that was never written is as good as an empty one.
            let is_unused = table.is_unused(cell) && bytes.iter().all(|byte| *byte == 0);
            if !is_unused && table.sealed(head.set, epoch, cell, None) != bytes {
                table.change_cell(epoch, cell);
            }
        }
    }
    Ok(())
}

fn touch(touched: &mut Bits, record: &Record) {
    match record {
        Record::Touch { zone } => touched.set(*zone as usize),
        Record::Quiet { zone } => touched.clear(*zone as usize),
        Record::Set { .. } | Record::Mask { .. } => {}
    }
}

struct Log<'a> {
    head: &'a SlotHead,
    halves: &'a [Vec<u8>; 2],
}

impl Log<'_> {
    fn half(&self, epoch: u64) -> Half<'_> {
        let SlotHead { set, layout, .. } = self.head;
        Half { set: *set, layout, epoch, bytes: &self.halves[usize::from(epoch % 2 == 1)] }
    }

    /// The records of the head's own half, and where the next half says that it ended.
    fn now(&self) -> Result<(Replayed, Option<u64>), MapError> {
        let SlotHead { epoch, first, next, .. } = *self.head;
        let began = self.half(epoch + 1).began();
        let now = self.half(epoch).replay(first, next.max(began.unwrap_or(0)), began)?;
        Ok((now, began))
    }

    /// The records of the half before, if it is whole.
    fn before(&self, began: Option<u64>) -> Result<Replayed, MapError> {
        let SlotHead { epoch, before, first, .. } = *self.head;
        let half = self.half(epoch.wrapping_sub(1));
        if began.is_some() || epoch < 2 {
            return Err(MapError::Stale { at: self.head.layout.half_at(epoch + 1) });
        }
        half.replay(before, first, Some(first))
    }
}

/// The entries of the image of `epoch`, and its damaged cells.
async fn read_image(
    head: &SlotHead,
    epoch: u64,
    read: &impl AsyncFn(u64, u64) -> Result<Vec<u8>, BioError>,
) -> Result<(Table, Vec<u32>), MapError> {
    let layout = head.layout;
    let (mut table, mut damaged) = (Table::new(layout), Vec::new());
    let mut cells = 0..layout.cells();
    for from in (0..layout.image_len()).step_by(small(CHUNK)) {
        let bytes = read(layout.image_at(epoch) + from, CHUNK.min(layout.image_len() - from)).await?;
        for (bytes, cell) in bytes.chunks_exact(CELL).zip(&mut cells) {
            if !table.load_cell(head.set, epoch, cell, bytes) {
                damaged.push(cell);
            }
        }
    }
    Ok((table, damaged))
}

async fn read_all(
    at: u64,
    len: u64,
    read: &impl AsyncFn(u64, u64) -> Result<Vec<u8>, BioError>,
) -> Result<Vec<u8>, MapError> {
    let mut bytes = Vec::with_capacity(small(len));
    for from in (0..len).step_by(small(CHUNK)) {
        bytes.extend(read(at + from, CHUNK.min(len - from)).await?);
    }
    Ok(bytes)
}

fn small(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a half of the journal fits in memory")
}

/// The two slots of heads.
pub(super) async fn read_start(
    read: &impl AsyncFn(u64, u64) -> Result<Vec<u8>, BioError>,
) -> Result<Vec<u8>, MapError> {
    read_all(0, HEADS, read).await
}
