//! Whether a volume that no stack uses is whole: everything that recovery reads, without a write.

use std::io;
use std::rc::Rc;

use esker_block::{
    Below, Bio, BioError, Buf, Device, Done, Fact, Limits, Media, MediaCheck, MediaVerdict, Op, ReadMedium, Step,
};
use esker_framing::Superblock as _;
use esker_layer_kit::Io;
use esker_layer_thin::catalogue::{CATALOGUE, Catalogue, is_head};
use esker_layer_thin::{ManageError, catalogue_in};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};

use crate::format::{SLOT, SLOTS, Slot, slots_of};
use crate::recover::{RecoverError, Recovered, Recovery};
use crate::segments::State;
use crate::store::{METADATA, Store, Stores};

/// How `logvol` checks its medium, with the names of `thin` in it.
pub const MEDIA: MediaCheck = MediaCheck {
    holds: "volume",
    media: "log-structured volumes",
    formats: &[Slot::FORMAT],
    is_set: false,
    is_marked,
    check: check_media,
};

/// The smallest block that a volume may have: any of them can be read then.
const BLOCK: u32 = 512;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The volume's number.
    pub volume: u128,
    /// Generation of the newest checkpoint.
    pub generation: u64,
    /// Extents of the map.
    pub mappings: u64,
    /// Logical blocks that are mapped.
    pub blocks: u64,
    /// Records that recovery would replay.
    pub replayed: u64,
    /// Batches whose data never arrived, and which no one was promised.
    pub dropped: u64,
    /// Segments that are free, in the log, and of the map.
    pub segments: [u64; 3],
    /// Named volumes, if it is one that holds them.
    pub volumes: Option<usize>,
}

/// Why there is nothing to tell.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum CheckError {
    /// Only zeroes where the superblock would be.
    #[error("it is blank: there is no volume yet")]
    Blank,
    /// What is wrong.
    #[error(transparent)]
    Broken(#[from] RecoverError),
    /// What is wrong with the names of volumes in it.
    #[error(transparent)]
    Catalogue(#[from] ManageError),
}

/// Reads the volume on lower device 0 of `below`, whose limits are `lower`.
///
/// # Errors
/// [`CheckError`]: the first thing that is wrong.
pub async fn check(rt: &Rt, pool: &Pool, below: &Below, lower: &Limits) -> Result<Verdict, CheckError> {
    let stores = |geometry| Stores::on_device(geometry, false);
    let (medium, transfer_max) = (lower.size, u64::from(lower.transfer_max));
    let recovery = Recovery { rt, pool, below, stores: &stores, medium, block: lower.block, transfer_max };
    let slot = recovery.newest().await?.ok_or(CheckError::Blank)?;
    let found = recovery.run(slot).await?;
    let free = found.segments.free();
    let of_map = found.segments.count(State::Map);
    let catalogue = catalogue_of(pool, &found, &found.stores.through(below.clone())).await?;
    Ok(Verdict {
        volumes: catalogue.map(|catalogue| catalogue.len()),
        volume: found.slot.volume,
        generation: found.slot.generation,
        mappings: found.map.mappings(),
        blocks: found.map.blocks(),
        replayed: found.replayed.iter().map(|logged| logged.batch.records.len() as u64).sum(),
        dropped: found.dropped,
        segments: [free, found.slot.geometry.segments - free - of_map, of_map],
    })
}

/// The catalogue of named volumes, if there is one.
async fn catalogue_of(pool: &Pool, found: &Recovered, store: &Store) -> Result<Option<Catalogue>, ManageError> {
    let g = found.slot.geometry;
    let read = async |block: u64| {
        let place = found.map.next(block).expect("only what is mapped is read");
        let pba = place.pba + (block - place.lba);
        let done = store.read(g.segment_of(pba), pba % g.segment, Buf::unique(pool, g.block as usize), METADATA).await;
        done.result.map(|_| done.buf.to_vec())
    };
    let first_mapped = |blocks| found.map.pieces(blocks).next().map(|piece| piece.range());
    match first_mapped(CATALOGUE..CATALOGUE + 1).is_some() && is_head(&read(CATALOGUE).await?) {
        true => catalogue_in(first_mapped, found.slot.volume, read).await,
        false => Ok(None),
    }
}

/// A medium as a device: recovery speaks to devices.
struct Reading {
    medium: Rc<dyn ReadMedium>,
    limits: Limits,
}

impl Device for Reading {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, mut bio: Bio) -> Step<Done> {
        if bio.op != Op::Read {
            return Step::Now(bio.fail(BioError::ReadOnly("a medium that is checked".into())));
        }
        let mut bytes = vec![0; bio.len() as usize];
        Step::Now(match self.medium.read_at(bio.offset(), &mut bytes) {
            Ok(()) => {
                bio.buf.fill(0, &bytes);
                bio.ok()
            }
            Err(error) => bio.fail(BioError::io(error.to_string())),
        })
    }
}

/// One of the four slots is there, damaged or not.
fn is_marked(medium: &dyn ReadMedium) -> io::Result<bool> {
    let mut bytes = vec![0; SLOT];
    let size = medium.size().max(4 * SLOT as u64);
    let mut is_there =
        |at| medium.read_at(at, &mut bytes).is_ok() && !Slot::decode(&bytes).is_err_and(|error| error.is_unmarked());
    Ok((0..SLOTS).flat_map(|generation| slots_of(generation, size)).any(&mut is_there))
}

fn check_media(media: Media<'_>) -> Result<MediaVerdict, Box<dyn std::error::Error>> {
    let limits = Limits::plain(media[0].size() / u64::from(BLOCK) * u64::from(BLOCK), BLOCK);
    let sim = Sim::new(SimConfig::seeded(1));
    let device = Reading { medium: media[0].clone(), limits: limits.clone() };
    let (rt, io) = (sim.rt(), Io::over(&sim.rt(), &Pool::default(), vec![Rc::new(device)]));
    let found = sim.block_on(async move { check(&rt, io.pool(), io.below(), &limits).await });
    let found = found.map_err(|e| e.to_string())?;
    let [free, log, map] = found.segments;
    let names = found.volumes.map_or(String::new(), |volumes| format!("{volumes} named volumes, "));
    let text = format!(
        "log-structured volume, checkpoint {}: {names}{} blocks in {} extents, {} records to replay, {} batches that never \
         arrived; {free} segments free, {log} of the log, {map} of the map; sound",
        found.generation, found.blocks, found.mappings, found.replayed, found.dropped,
    );
    let facts = vec![
        ("generation", found.generation.into()),
        ("named_volumes", Fact::Count(found.volumes.map(|volumes| volumes as u64))),
        ("mapped_blocks", found.blocks.into()),
        ("extents", found.mappings.into()),
        ("records", found.replayed.into()),
        ("dropped_batches", found.dropped.into()),
        ("segments_free", free.into()),
        ("segments_of_log", log.into()),
        ("segments_of_map", map.into()),
    ];
    Ok(MediaVerdict { is_sound: true, text, facts })
}
