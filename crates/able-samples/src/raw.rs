//! RAW: reads each write back and compares (read after write).
//!
//! Other changes of the same bytes wait until a write is compared, or what came from them would look like corruption.

pub mod able;
pub mod vanilla;

use esker_block::{Bio, BioError, Buf};

/// The answer to a write that read back as `back`.
fn compare(bio: &Bio, back: &Buf) -> Result<(), BioError> {
    match back.same_bytes(&bio.buf) {
        true => Ok(()),
        false => Err(BioError::Corrupt(bio.offset())),
    }
}
