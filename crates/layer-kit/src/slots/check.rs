//! Whether a map out of use is sound: heads, journal, every cell of both images, keys and masks. It only reads.
//!
//! The kinds that have a map hand [`media_verdict`] on in their manifest, each for its own kind. It needs nine bytes of
//! memory for each slot, and the journal.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use esker_block::{BioError, Fact, Media, MediaVerdict, ReadMedium};
use esker_framing::Superblock as _;
use esker_framing::cell::{CELL, is_sound};

use super::MapError;
use super::entry::SlotMarks;
use super::head::SlotHead;
use super::layout::{HEADS, SlotKind, SlotLayout};
use super::recover::{Recovered, head_of, read_start, recover};

/// Findings that are kept; all are counted.
const FINDINGS_MAX: usize = 100;
/// Bytes that are read at once, at most.
const CHUNK: usize = 1 << 20;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotVerdict {
    /// Whose map it is.
    pub kind: SlotKind,
    /// Where everything lies.
    pub layout: SlotLayout,
    /// Epoch of the head that counts.
    pub epoch: u64,
    /// Whether the layer was stopped.
    pub is_clean: bool,
    /// Records in the journal.
    pub records: u64,
    /// Slots with an entry.
    pub used: u32,
    /// Those among them of which home is older.
    pub dirty: u32,
    /// Those that are there in part.
    pub parts: u32,
    /// Zones whose entries an unclean stop makes doubtful.
    pub touched: u32,
    /// The first findings.
    pub findings: Vec<SlotFinding>,
    /// How many there are.
    pub wrong: u64,
}

/// Something that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotFinding {
    /// The cell at this byte is damaged. The map can be read with the other image, or without this one.
    Cell(u64),
    /// Two slots hold this unit, and neither is on its way.
    Twice(u64, u32, u32),
    /// The mask of this slot has pages that the slot does not have.
    Pages(u32),
}

impl fmt::Display for SlotFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotFinding::Cell(at) => write!(f, "the cell at byte {at} is damaged"),
            SlotFinding::Twice(key, slot, other) => write!(f, "unit {key} lies in slot {slot} and in slot {other}"),
            SlotFinding::Pages(slot) => write!(f, "the mask of slot {slot} has pages behind the end of the slot"),
        }
    }
}

/// Reads bytes of the lower device from this offset on.
pub type ReadBytes<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

/// Checks the map on a device of `size` bytes.
///
/// # Errors
/// Why there is no map to judge; what is wrong with one that can be read is in the [`SlotVerdict`].
pub fn check(size: u64, read: ReadBytes<'_>) -> Result<SlotVerdict, MapError> {
    let read = RefCell::new(read);
    let bytes = async |at: u64, len: u64| {
        let mut out = vec![0; len as usize];
        let result = read.borrow_mut()(at, &mut out);
        result.map(|()| out).map_err(|error| BioError::io(error.to_string()))
    };
    let recovered = now(async { recover(head_of(&read_start(&bytes).await?)?, size, &bytes).await })?;
    let mut verdict = verdict_of(&recovered);
    let epoch = recovered.head.epoch;
    for cell in &recovered.damaged {
        verdict.find(SlotFinding::Cell(recovered.head.layout.cell_at(epoch, *cell)));
    }
    older_image(&recovered, *read.borrow_mut(), &mut verdict).map_err(|error| BioError::io(error.to_string()))?;
    entries(&recovered, &mut verdict);
    Ok(verdict)
}

/// The result of a future that never waits: reading a medium out of use does not.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a checker reads at once"),
    }
}

fn verdict_of(recovered: &Recovered) -> SlotVerdict {
    let SlotHead { kind, layout, epoch, .. } = recovered.head;
    SlotVerdict {
        kind,
        layout,
        epoch,
        is_clean: recovered.is_clean,
        records: recovered.replayed,
        used: recovered.table.used(),
        dirty: 0,
        parts: recovered.table.parts() as u32,
        touched: recovered.touched.count() as u32,
        findings: Vec::new(),
        wrong: 0,
    }
}

impl SlotVerdict {
    fn find(&mut self, finding: SlotFinding) {
        self.wrong += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// The image that does not count: its cells are sound too, unless they are damaged.
fn older_image(recovered: &Recovered, read: ReadBytes<'_>, verdict: &mut SlotVerdict) -> io::Result<()> {
    let SlotHead { set, layout, epoch, .. } = recovered.head;
    let (epoch, cells) = (epoch + 1, layout.cells());
    for first in (0..cells).step_by(CHUNK / CELL) {
        let count = (cells - first).min((CHUNK / CELL) as u32);
        let mut bytes = vec![0; count as usize * CELL];
        read(layout.cell_at(epoch, first), &mut bytes)?;
        for (cell, bytes) in (first..).zip(bytes.chunks_exact(CELL)) {
            let at = layout.cell_at(epoch, cell);
            if !is_sound(set, at, bytes) {
                verdict.find(SlotFinding::Cell(at));
            }
        }
    }
    Ok(())
}

fn entries(recovered: &Recovered, verdict: &mut SlotVerdict) {
    let (table, layout) = (&recovered.table, recovered.head.layout);
    let mut keys: Vec<(u32, u32)> = Vec::new();
    for slot in 0..layout.slots {
        let Some(entry) = table.get(slot) else { continue };
        verdict.dirty += u32::from(entry.marks.has(SlotMarks::DIRTY));
        if !entry.marks.has(SlotMarks::INCOMING) {
            keys.push((entry.key as u32, slot));
        }
        let pages = layout.pages().unwrap_or(0);
        if table.mask(slot).is_some_and(|mask| (pages..super::entry::PART_PAGES_MAX).any(|page| mask.has(page))) {
            verdict.find(SlotFinding::Pages(slot));
        }
    }
    keys.sort_unstable();
    for pair in keys.windows(2) {
        if let [(key, slot), (other, second)] = pair
            && key == other
        {
            verdict.find(SlotFinding::Twice(u64::from(*key), *slot, *second));
        }
    }
}

/// Magic and version of maps.
pub const FORMAT: ([u8; 8], u16) = SlotHead::FORMAT;

/// Whether a device bears the mark of a map of `kind`; a map whose kind cannot be read may be of any.
///
/// # Errors
/// What the device answers.
pub fn is_marked(medium: &dyn ReadMedium, kind: SlotKind) -> io::Result<bool> {
    let mut start = vec![0; HEADS as usize];
    medium.read_at(0, &mut start)?;
    Ok(match head_of(&start) {
        Ok(head) => head.kind == kind,
        Err(MapError::Superblock(error)) => !error.is_unmarked(),
        Err(_) => false,
    })
}

/// What there is to tell of the map on the first medium.
///
/// # Errors
/// As [`check`].
pub fn media_verdict(media: Media<'_>) -> Result<MediaVerdict, Box<dyn Error>> {
    let found = check(media[0].size(), &mut |at, out| media[0].read_at(at, out))?;
    let end = match found.findings.first() {
        Some(first) => format!("{} things WRONG, the first of them: {first}", found.wrong),
        None => "sound".to_string(),
    };
    let state = if found.is_clean { "stopped" } else { "not stopped" };
    let text = format!(
        "map of {}: {} of {} slots of {} bytes used, {} of them dirty; {state}, {} records in the journal; {end}",
        found.kind.named(),
        found.used,
        found.layout.slots,
        found.layout.unit,
        found.dirty,
        found.records,
    );
    let facts = vec![
        ("slots", u64::from(found.layout.slots).into()),
        ("used_slots", u64::from(found.used).into()),
        ("dirty_slots", u64::from(found.dirty).into()),
        ("part_slots", u64::from(found.parts).into()),
        ("touched_zones", u64::from(found.touched).into()),
        ("clean", u64::from(found.is_clean).into()),
        ("records", found.records.into()),
        ("wrong", found.wrong.into()),
        ("findings", Fact::Texts(found.findings.iter().map(ToString::to_string).collect())),
    ];
    Ok(MediaVerdict { is_sound: found.wrong == 0, text, facts })
}
