//! Simple RAID-1: writes go to both disks and are tried again if they fail, reads to the disk whose head is nearest. No
//! reconstruction: a disk that fails for good is left alone.
//!
//! A write is answered when both disks have answered; one good copy is success. With both failed, the error is the
//! answer.

pub mod able;
pub mod vanilla;

use esker_block::{KindError, Limits, Make, OpKind, Support};

/// How often a failed write is tried again.
const TRIES: u32 = 3;

/// The limits of a volume on both lower devices.
fn limits(make: &Make<'_>) -> Result<Limits, KindError> {
    let [one, two] = make.lowers else {
        return Err(KindError::Unfit(format!("{}: a simple RAID-1 has two disks", make.name)));
    };
    let both = one.strictest(two);
    // Disks that took a hint differently would differ.
    Ok(Limits { size: one.size.min(two.size), ranges_max: 0, ..both }.with(OpKind::Discard, Support::No))
}
