//! The medium of a map of slots. Nothing on it makes reader or checker fall, and a map that the checker calls sound can
//! be used. Each input is tried as it is, and once more with right checksums, so that what lies behind them is reached.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::Limits;
use esker_block::store::SparseStore;
use esker_dev::Media;
use esker_framing::cell::{CELL, seal};
use esker_framing::superblock::reseal;
use esker_framing::{Newest, Record, SLOT, newest, slots};
use esker_layer_kit::slots::check::{self, SlotVerdict};
use esker_layer_kit::slots::head::SlotHead;
use esker_layer_kit::slots::{CommitRule, Doubt, Found, NOTE_BYTES, Suspects};
use esker_layer_kit::{Io, LowerSet, Mask, SlotEntry, SlotKind, SlotMap, SlotMarks, SlotShape};

use crate::world;

/// Bytes of the medium; what an input lacks is zero.
const SIZE: u64 = 64 << 10;
/// Where the heads end and the journal begins.
const HEADS: usize = 2 * SLOT;

fn shape() -> SlotShape {
    SlotShape {
        kind: SlotKind::Cache,
        unit: 8192,
        keys: 100,
        slots: None,
        journal: 4096,
        zones: 3,
        doubt: Doubt::Zones,
        suspects: Suspects::Dirty,
        commit: CommitRule::Group,
    }
}

fn media_of(bytes: &[u8]) -> Rc<Media> {
    let mut store = SparseStore::default();
    store.write(0, &bytes[..bytes.len().min(SIZE as usize)]);
    Media::of(SIZE, store)
}

fn bytes_of(media: &Media) -> Vec<u8> {
    media.bytes(ByteRange::new(0, SIZE).expect("a small range"))
}

/// A map in use.
struct Used {
    map: SlotMap,
    io: Io,
}

impl Used {
    fn entries(&self) -> Vec<Option<(SlotEntry, Option<Mask>)>> {
        (0..self.map.slots()).map(|slot| Some((self.map.get(slot)?, self.map.mask(slot)))).collect()
    }

    async fn commit(&self) -> bool {
        self.map.commit(&self.io).await.is_ok()
    }

    /// Changes what is there, and adds to it.
    async fn change(&self) -> bool {
        for key in 0..12 {
            let Some(slot) = self.map.free(1).pop() else { break };
            self.map.set(&[(slot, Some(SlotEntry::of(key).with(SlotMarks::DIRTY)))], LowerSet::one(0));
            if !self.commit().await {
                return false;
            }
        }
        for slot in (0..self.map.slots()).step_by(2) {
            if self.map.get(slot).is_some() && self.map.parts_left() > 0 {
                self.map.masked(slot, &Mask::first(u64::from(slot) % 3), LowerSet::NONE);
            }
        }
        self.map.touch(&self.io, &[0]).await.is_ok()
    }
}

/// Runs `body` on the map of a medium, if it can be opened.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    media: &Rc<Media>,
    body: impl FnOnce(Used, Found) -> F + 'static,
) -> Option<T> {
    let (sim, io, limits): (_, _, Limits) = world::over(media);
    sim.block_on(async move {
        let (map, found) = SlotMap::open(&io, 0, &shape(), &limits).await.ok()?;
        Some(body(Used { map, io }, found).await)
    })
}

fn checked(media: &Media) -> Option<SlotVerdict> {
    let bytes = bytes_of(media);
    let mut read = |at: u64, out: &mut [u8]| {
        let end = at.checked_add(out.len() as u64).filter(|end| *end <= SIZE);
        let end = end.ok_or_else(|| std::io::Error::other("beyond the end"))?;
        out.copy_from_slice(&bytes[at as usize..end as usize]);
        Ok(())
    };
    check::check(SIZE, &mut read).ok()
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let map = |stops: bool| {
        let media = Media::new(SIZE);
        on(&media, async move |used, _| {
            used.map.begin(&used.io, &[3; NOTE_BYTES]).await.expect("memory takes it");
            assert!(used.change().await, "memory takes it");
            if stops {
                used.map.settle(&used.io, &[4; NOTE_BYTES]).await.expect("memory takes it");
            }
        });
        let bytes = bytes_of(&media);
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..used].to_vec()
    };
    vec![map(true), map(false)]
}

/// Puts right checksums on whatever is not zero.
fn resealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = bytes_of(&media_of(input));
    bytes[..HEADS].chunks_exact_mut(SLOT).filter(|slot| slot.iter().any(|byte| *byte != 0)).for_each(reseal);
    let head = newest(&[slots(&bytes[..HEADS])]).and_then(Newest::<SlotHead>::writable);
    let Ok(SlotHead { set, layout, .. }) = head else { return bytes };
    let tables = (HEADS as u64 + 2 * layout.journal).min(SIZE) as usize;
    let data = layout.data().min(SIZE) as usize;
    for (number, cell) in bytes[..data].chunks_exact_mut(CELL).enumerate() {
        let at = number * CELL;
        if at < HEADS || cell.iter().all(|byte| *byte == 0) {
            continue;
        }
        if at >= tables {
            seal(set, at as u64, cell);
            continue;
        }
        let used = Record::needs(cell).min(CELL);
        cell[..4].fill(0);
        let sum = crc32fast::hash(&cell[..used]).to_le_bytes();
        cell[..4].copy_from_slice(&sum);
    }
    bytes
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let as_it_is = try_medium(input)?;
    Ok(try_medium(&resealed(input))? || as_it_is)
}

/// Uses a medium: whether it was sound.
fn try_medium(bytes: &[u8]) -> Result<bool, String> {
    let media = media_of(bytes);
    let is_blank = bytes.iter().take(HEADS).all(|byte| *byte == 0);
    let is_sound = !is_blank && checked(&media).is_some_and(|verdict| verdict.wrong == 0);
    let used = on(&media, async |used, _| {
        let is_begun = used.map.begin(&used.io, &[5; NOTE_BYTES]).await.is_ok();
        let is_changed = is_begun && used.change().await;
        let is_stopped = is_changed && used.map.settle(&used.io, &[6; NOTE_BYTES]).await.is_ok();
        (is_stopped, used.entries())
    });
    let Some((is_stopped, entries)) = used else {
        // Another geometry than this target asks for is refused, however sound.
        return Ok(false);
    };
    if !is_sound {
        return Ok(false);
    }
    if !is_stopped {
        return Err("a sound map cannot be used".to_string());
    }
    let again = on(&media, async |used, found| (used.entries(), matches!(found, Found::Clean { .. })));
    if again != Some((entries, true)) {
        return Err("what was stopped is not what is found again".to_string());
    }
    match checked(&media) {
        Some(verdict) if verdict.is_clean => Ok(true),
        verdict => Err(format!("a sound map is not sound after use: {verdict:?}")),
    }
}
