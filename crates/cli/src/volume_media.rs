//! A medium of a volume that no stack uses: its checker speaks to devices, and gets one that can only be read.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use esker_block::{Bio, BioError, Device, Done, Limits, Op, Step};
use esker_layer_kit::Io;
use esker_layer_logvol::check::{CheckError, Verdict, check};
use esker_layer_logvol::format::{SLOT, Slot, slots_of};
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};

/// The smallest block that a volume may have: any of them can be read then.
const BLOCK: u32 = 512;

/// A file that is only read.
struct Reading {
    file: File,
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
        Step::Now(match self.file.read_exact_at(&mut bytes, bio.offset()) {
            Ok(()) => {
                bio.buf.fill(0, &bytes);
                bio.ok()
            }
            Err(error) => bio.fail(BioError::io(error.to_string())),
        })
    }
}

/// Bytes of a file or device.
fn size_of(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Whether one of the four slots of a superblock is there, damaged or not.
///
/// # Errors
/// The file cannot be read.
pub fn is_volume(file: &File) -> io::Result<bool> {
    let size = size_of(file)?;
    let mut bytes = vec![0; SLOT];
    for at in (0..2).flat_map(|generation| slots_of(generation, size.max(4 * SLOT as u64))) {
        let is_there = file.read_exact_at(&mut bytes, at).is_ok();
        if is_there && !Slot::decode(&bytes).is_err_and(|error| error.is_unmarked()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Does all that recovery does, without a write.
///
/// # Errors
/// What is wrong.
pub fn check_volume(file: &File) -> Result<Verdict, CheckError> {
    let unreadable = |error: io::Error| CheckError::Broken(BioError::io(error.to_string()).into());
    let (file, size) = (file.try_clone().map_err(unreadable)?, size_of(file).map_err(unreadable)?);
    let limits = Limits::plain(size / u64::from(BLOCK) * u64::from(BLOCK), BLOCK);
    let sim = Sim::new(SimConfig::seeded(1));
    let io = Io::over(&sim.rt(), &Pool::default(), vec![Rc::new(Reading { file, limits: limits.clone() })]);
    let rt = sim.rt();
    sim.block_on(async move { check(&rt, io.pool(), io.below(), &limits).await })
}
