//! [`Lfs`] and [`LfsReader`] as one kind of file systems.

use std::rc::Rc;

use esker_block::Step;
use esker_vfs::{FileSystem, FsKindError, FsMade, FsOpened, Opening};

use crate::error::LfsError;
use crate::mkfs::MkfsConfig;
use crate::read::LfsReader;
use crate::write::Lfs;
use crate::write::counting::{LfsConfig, SnapshotCounting};

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

/// Opens the file system for changes; with the option `checkpoint` that of a checkpoint, which takes none. `snapshots`,
/// `tracking` and `dat_times` say how counters of live blocks are kept.
///
/// # Errors
/// No device, a value that is none of the option, and an image that cannot be read.
pub fn open(opening: &Opening<'_>) -> FsOpened {
    let Some(device) = opening.device.clone() else { return Step::Now(Err(FsKindError::NoDevice("lfs"))) };
    let config = match config(opening) {
        Ok(config) => config,
        Err(error) => return Step::Now(Err(error)),
    };
    let checkpoint = match opening.value("checkpoint").map(|text| (text, text.parse())) {
        None => None,
        Some((_, Ok(number))) => Some(number),
        Some((text, Err(_))) => {
            return Step::Now(Err(wrong("checkpoint", text, "a number")));
        }
    };
    let (rt, now) = (opening.rt.clone(), opening.now);
    Step::later(async move {
        let opened: Result<Rc<dyn FileSystem>, LfsError> = match checkpoint {
            Some(_) => LfsReader::open(&rt, device, checkpoint).await.map(|fs| Rc::new(fs) as _),
            None => Lfs::open_with(&rt, device, now, config).await.map(|fs| Rc::new(fs) as _),
        };
        opened.map_err(|error| FsKindError::Unusable(error.to_string()))
    })
}

/// How counters of live blocks are kept.
fn config(opening: &Opening<'_>) -> Result<LfsConfig, FsKindError> {
    let mut config = LfsConfig::usual();
    if let Some(name) = opening.value("snapshots") {
        let names: Vec<&str> = SnapshotCounting::ALL.iter().map(|(name, _)| *name).collect();
        let rule = SnapshotCounting::named(name);
        config.snapshots = rule.ok_or_else(|| wrong("snapshots", name, &names.join(", ")))?;
    }
    let is_on = |word: &str| match opening.value(word) {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(other) => Err(wrong(word, other, "on or off")),
    };
    config.is_tracking = is_on("tracking")?.unwrap_or(config.is_tracking);
    config.tells_dat_times = is_on("dat_times")?.unwrap_or(config.tells_dat_times);
    Ok(config)
}

fn wrong(word: &str, value: &str, wanted: &str) -> FsKindError {
    let [word, value, wanted] = [word, value, wanted].map(str::to_string);
    FsKindError::Value { word, value, wanted }
}
