//! [`Lfs`] and [`LfsReader`] as one kind of file systems.

use std::rc::Rc;

use esker_block::Step;
use esker_vfs::{FileSystem, FsKindError, FsMade, FsOpened, Opening};

use crate::error::LfsError;
use crate::mkfs::MkfsConfig;
use crate::read::LfsReader;
use crate::write::Lfs;

/// Makes an empty file system with counters of live blocks.
///
/// # Errors
/// No device, and one that is too small.
pub fn make(opening: &Opening<'_>) -> FsMade {
    let Some(device) = opening.device.clone() else { return Step::Now(Err(FsKindError::NoDevice("lfs"))) };
    let (rt, config) = (opening.rt.clone(), MkfsConfig { live_counters: true, ..MkfsConfig::usual(opening.now) });
    Step::later(async move {
        let made = crate::mkfs(&rt, device, &config).await;
        made.map(drop).map_err(|error| FsKindError::Unusable(error.to_string()))
    })
}

/// Opens the file system for changes; with the option `checkpoint` that of a checkpoint, which takes none.
///
/// # Errors
/// No device, a value that is no number, and an image that cannot be read.
pub fn open(opening: &Opening<'_>) -> FsOpened {
    let Some(device) = opening.device.clone() else { return Step::Now(Err(FsKindError::NoDevice("lfs"))) };
    let checkpoint = match opening.value("checkpoint").map(|text| (text, text.parse())) {
        None => None,
        Some((_, Ok(number))) => Some(number),
        Some((text, Err(_))) => {
            let (word, value, wanted) = ("checkpoint".to_string(), text.to_string(), "a number".to_string());
            return Step::Now(Err(FsKindError::Value { word, value, wanted }));
        }
    };
    let (rt, now) = (opening.rt.clone(), opening.now);
    Step::later(async move {
        let opened: Result<Rc<dyn FileSystem>, LfsError> = match checkpoint {
            Some(_) => LfsReader::open(&rt, device, checkpoint).await.map(|fs| Rc::new(fs) as _),
            None => Lfs::open(&rt, device, now).await.map(|fs| Rc::new(fs) as _),
        };
        opened.map_err(|error| FsKindError::Unusable(error.to_string()))
    })
}
