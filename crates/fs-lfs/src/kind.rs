//! [`Lfs`] and [`LfsReader`] as one kind of file systems.

use std::rc::Rc;

use esker_base::{Errno, Nanos};
use esker_block::Step;
use esker_rt::{Level, Rt};
use esker_vfs::{FileSystem, FsKindError, FsMade, FsOpened, Opening};

use crate::cleaner::{CleanerConfig, LfsCleaner};
use crate::error::LfsError;
use crate::mkfs::MkfsConfig;
use crate::read::LfsReader;
use crate::write::counting::SnapshotCounting;
use crate::write::{Lfs, LfsConfig};

/// Words of `-o`.
pub const OPTIONS: &[&str] =
    &["checkpoint", "cleaner", "protection", "moved", "age_sort", "snapshots", "tracking", "dat_times"];

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

/// Opens the file system for changes, and begins its cleaner; with the option `checkpoint` that of a checkpoint, which
/// takes none.
///
/// # Errors
/// No device, a value that its option does not take, and an image that cannot be read.
pub fn open(opening: &Opening<'_>) -> FsOpened {
    let Some(device) = opening.device.clone() else { return Step::Now(Err(FsKindError::NoDevice("lfs"))) };
    let checkpoint = match opening.value("checkpoint").map(|text| (text, text.parse())) {
        None => None,
        Some((_, Ok(number))) => Some(number),
        Some((text, Err(_))) => {
            return Step::Now(Err(wrong("checkpoint", text, "a number")));
        }
    };
    let void = OPTIONS.iter().find(|word| **word != "checkpoint" && opening.value(word).is_some());
    if let (Some(_), Some(word)) = (checkpoint, void) {
        let why = "which shows an old state and takes no changes";
        return Step::Now(Err(FsKindError::Beside { word, beside: "checkpoint", why }));
    }
    let (config, cleaner) = match (writer_config(opening), cleaner(opening)) {
        (Ok(config), Ok(cleaner)) => (config, cleaner),
        (Err(error), _) | (_, Err(error)) => return Step::Now(Err(error)),
    };
    let (rt, now) = (opening.rt.clone(), opening.now);
    Step::later(async move {
        let opened: Result<Rc<dyn FileSystem>, LfsError> = match checkpoint {
            Some(_) => LfsReader::open(&rt, device, checkpoint).await.map(|fs| Rc::new(fs) as _),
            None => Lfs::open_with(&rt, device, now, config).await.map(|fs| {
                if let Some(by) = cleaner {
                    begin_cleaner(&rt, &fs, by);
                }
                Rc::new(fs) as _
            }),
        };
        opened.map_err(|error| FsKindError::Unusable(error.to_string()))
    })
}

fn wrong(word: &str, value: &str, wanted: &str) -> FsKindError {
    let [word, value, wanted] = [word, value, wanted].map(str::to_string);
    FsKindError::Value { word, value, wanted }
}

/// The value of an option that is one of some words.
fn one_of<T: Copy>(opening: &Opening<'_>, word: &str, words: &[(&str, T)], usual: T) -> Result<T, FsKindError> {
    let Some(value) = opening.value(word) else { return Ok(usual) };
    let found = words.iter().find(|(known, _)| *known == value).map(|(_, meaning)| *meaning);
    let wanted = || words.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(" or ");
    found.ok_or_else(|| wrong(word, value, &wanted()))
}

/// How the file system writes.
fn writer_config(opening: &Opening<'_>) -> Result<LfsConfig, FsKindError> {
    let usual = LfsConfig::usual();
    let switch = [("on", true), ("off", false)];
    Ok(LfsConfig {
        moved_apart: one_of(opening, "moved", &[("apart", true), ("together", false)], usual.moved_apart)?,
        age_sort: one_of(opening, "age_sort", &switch, usual.age_sort)?,
        snapshots: one_of(opening, "snapshots", &SnapshotCounting::ALL, usual.snapshots)?,
        is_tracking: one_of(opening, "tracking", &switch, usual.is_tracking)?,
        tells_dat_times: one_of(opening, "dat_times", &switch, usual.tells_dat_times)?,
        protection_seconds: protection(opening)?.0.div_ceil(Nanos::secs(1).0),
    })
}

/// How long a checkpoint stays.
fn protection(opening: &Opening<'_>) -> Result<Nanos, FsKindError> {
    let Some(value) = opening.value("protection") else { return Ok(Nanos::ZERO) };
    let read = CleanerConfig::parse(&format!("protection_period {value}"));
    read.map(|config| config.protection_period).map_err(|_| wrong("protection", value, "seconds"))
}

/// What the cleaner of this process works by; `None` if there is none. In virtual time it takes an option: a cleaner
/// that looks at the clock again and again would hide that a replay stands still.
fn cleaner(opening: &Opening<'_>) -> Result<Option<CleanerConfig>, FsKindError> {
    let named = esker_cleaning::policy::NAMED.iter().map(|(name, _)| (*name, Some(*name)));
    let words: Vec<(&str, Option<&str>)> = std::iter::once(("off", None)).chain(named).collect();
    let mut config = CleanerConfig::usual();
    let usual = if opening.rt.is_sim() { None } else { Some("adaptive") };
    let Some(policy) = one_of(opening, "cleaner", &words, usual)? else { return Ok(None) };
    config.policy = policy.to_string();
    config.protection_period = protection(opening)?;
    Ok(Some(config))
}

/// Has a cleaner work in this process until the file system is closed.
fn begin_cleaner(rt: &Rt, fs: &Lfs, config: CleanerConfig) {
    let cleaner = LfsCleaner::new(rt, Rc::new(fs.control()), config);
    let own = rt.clone();
    rt.spawn_detached("lfs cleaner", async move {
        match cleaner.run().await {
            Ok(()) => {}
            Err(Errno::EBUSY) => own.log(Level::Info, format_args!("lfs: another cleaner works; this one ends")),
            Err(errno) => own.log(Level::Error, format_args!("lfs: the cleaner ends: {errno}")),
        }
    });
}
