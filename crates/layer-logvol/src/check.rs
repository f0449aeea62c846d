//! Whether a volume that nobody uses is whole: everything that recovery reads, without a write.

use esker_block::{Below, Buf, Limits};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::recover::{RecoverError, Recovered, Recovery};
use crate::segments::State;
use crate::store::{DeviceStore, METADATA, SegmentStore};
use esker_layer_thin::catalogue::{CATALOGUE, Catalogue, is_head};
use esker_layer_thin::{ManageError, catalogue_in};

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

/// Reads the volume on lower end 0 of `below`, whose limits are `lower`.
///
/// # Errors
/// [`CheckError`]: the first thing that is wrong.
pub async fn check(rt: &Rt, pool: &Pool, below: &Below, lower: &Limits) -> Result<Verdict, CheckError> {
    let store = |geometry| DeviceStore::new(below.clone(), geometry, false);
    let (medium, transfer_max) = (lower.size, u64::from(lower.transfer_max));
    let recovery = Recovery { rt, pool, store: &store, medium, block: lower.block, transfer_max };
    let slot = recovery.newest(below).await?.ok_or(CheckError::Blank)?;
    let found = recovery.run(slot).await?;
    let free = found.segments.free();
    let of_map = found.segments.count(State::Map);
    let catalogue = catalogue_of(pool, &found, &store(found.slot.geometry)).await?;
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
async fn catalogue_of(pool: &Pool, found: &Recovered, store: &DeviceStore) -> Result<Option<Catalogue>, ManageError> {
    let g = found.slot.geometry;
    let read = async |block: u64| {
        let place = found.map.next(block).expect("only what is mapped is read");
        let pba = place.pba + (block - place.lba);
        let done = store.read(pba / g.segment, pba % g.segment, Buf::unique(pool, g.block as usize), METADATA).await;
        done.result.map(|_| done.buf.to_vec())
    };
    let mapped = |blocks| found.map.pieces(blocks).map(|piece| piece.range()).collect::<Vec<_>>();
    match !mapped(CATALOGUE..CATALOGUE + 1).is_empty() && is_head(&read(CATALOGUE).await?) {
        true => catalogue_in(&mapped, found.slot.volume, read).await,
        false => Ok(None),
    }
}
