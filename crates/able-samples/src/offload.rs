//! IO (off-loading): all requests of a disk go to a backup that holds what the disk holds, so that the disk can rest.
//! When it no longer does, what was written meanwhile goes home, and each block is served from where it is.
//!
//! Which blocks are newer on the backup is kept behind the volume on the backup, and is durable when a flush or a
//! forced write is answered.

pub mod able;
pub mod vanilla;

use esker_base::ByteRange;
use esker_block::{Kind, KindError, Limits, Make, OpKind, Param, ParamType, Role, Support};

/// Bytes for which one bit says where they are.
const UNIT: u64 = 4096;
/// Bytes behind the volume on the backup.
const AREA: u64 = 256 << 10;
/// Lower devices.
const DISK: usize = 0;
const BACKUP: usize = 1;

const PARAMS: &[Param] = &[Param::with_default("rests", ParamType::Flag, "true", "Whether the disk rests.")];

/// What both manifests have in common.
const fn manifest(kind: Kind) -> Kind {
    Kind {
        lowers: esker_block::Arity::AtLeast(2),
        passes: crate::PASSES,
        role: Role::Modifier,
        transparent: false,
        ..kind
    }
}

/// The limits of the volume: the disk's size, as far as the backup has room for it and for the bits.
fn limits(make: &Make<'_>) -> Result<Limits, KindError> {
    let [disk, backup] = make.lowers else {
        return Err(KindError::Unfit(format!("{}: off-loading needs a disk and a backup", make.name)));
    };
    let both = disk.strictest(backup);
    let size = disk.size.min(backup.size.saturating_sub(AREA)) / UNIT * UNIT;
    if size == 0 || size / UNIT > 8 * (AREA / 8) || u64::from(both.block) > UNIT {
        let what =
            format!("the backup needs {AREA} bytes beside the volume, of at most 1 GiB in blocks of at most {UNIT}");
        return Err(KindError::Unfit(format!("{}: {what}", make.name)));
    }
    Ok(Limits { size, ranges_max: 0, ..both }.with(OpKind::Discard, Support::No))
}

/// The units that a range touches.
fn units(range: ByteRange) -> std::ops::Range<u64> {
    range.start() / UNIT..range.end().div_ceil(UNIT)
}
