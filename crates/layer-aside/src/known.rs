//! Whether home is the one that was there at the last stop. A stop that is clean leaves checksums of some blocks of it.

use esker_block::BioError;
use esker_layer_kit::Io;
use esker_layer_kit::slots::{MapError, NOTE_BYTES};

use crate::config::AsideConfig;
use crate::{HOME, PAGE};

/// Blocks of home that are looked at, spread over all of it.
const BLOCKS: u64 = 16;
/// What the first byte of a note with checksums says.
const HAS_SUMS: u8 = 1;

/// What a clean stop leaves: checksums of blocks of home. Where payloads are described, there are none.
///
/// # Errors
/// Home's.
pub(crate) async fn note(io: &Io, config: &AsideConfig) -> Result<[u8; NOTE_BYTES], BioError> {
    let mut note = [0; NOTE_BYTES];
    for (number, at) in places(config).enumerate() {
        let buf = io.read(io.lower(HOME), at, PAGE as usize).await?;
        if buf.is_described() {
            return Ok([0; NOTE_BYTES]);
        }
        let sum = crc32fast::hash(&buf.to_vec());
        note[4 + 4 * number..8 + 4 * number].copy_from_slice(&sum.to_le_bytes());
    }
    note[0] = HAS_SUMS;
    Ok(note)
}

/// Whether a block of home differs from what a note says.
///
/// # Errors
/// Home's.
pub(crate) async fn is_changed(io: &Io, config: &AsideConfig, before: &[u8; NOTE_BYTES]) -> Result<bool, BioError> {
    if before[0] != HAS_SUMS {
        return Ok(false);
    }
    Ok(note(io, config).await? != *before)
}

fn places(config: &AsideConfig) -> impl Iterator<Item = u64> {
    let pages = config.size / PAGE;
    (0..BLOCKS).map(move |number| pages * number / BLOCKS * PAGE)
}

/// An error of the map as one of the volume.
pub(crate) fn failed(error: MapError) -> BioError {
    BioError::io(error.to_string())
}
