//! The simulator of hot and cold files (Rosenblum and Ousterhout 1992, section 3.5) on a real file system. Many files
//! of 4 KiB fill a file system up to a share. Then they are overwritten by a pattern until there is no room. A full
//! file system is the end that was asked for. One that overwrites in place, or cleans meanwhile, is never full. So a
//! fill ends at the latest when it has overwritten as many bytes as the file system has: a log is full by then.

use esker_base::{Errno, Stream};
use serde::Serialize;

use crate::target::{ReplayTarget, Room};

/// Bytes of a file.
const FILE_BYTES: usize = 4096;
/// Files in a directory.
const FILES_PER_DIR: u64 = 1000;
/// Of so many files one is hot.
const HOT_OF: u64 = 10;
/// Share of the writes that go to hot files.
const HOT_WRITES: f64 = 0.9;
/// Files between two looks, of the caller and at the room that is left.
pub const FILES_PER_ROOM: u64 = 16;
/// The directory of all files.
const TOP: &str = "hotcold";

/// Which file is overwritten next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessPattern {
    /// Every file is equally likely.
    Uniform,
    /// Nine of ten writes go to a tenth of the files.
    HotCold,
}

/// The simulator, between two fills.
#[derive(Debug)]
pub struct HotCold {
    pattern: AccessPattern,
    /// Used share of the file system up to which files are made, in percent.
    utilisation: u64,
    /// Writes between two syncs.
    sync_every: u64,
    draws: Stream,
    bytes: Stream,
    files: u64,
}

/// What a fill did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct FillReport {
    /// Files that were made.
    pub made: u64,
    /// Files that were overwritten.
    pub overwritten: u64,
    /// Of these, hot ones.
    pub hot: u64,
    /// Whether the file system is full; otherwise the bound of writes was reached, or the caller ended the fill.
    pub is_full: bool,
    /// Files that are made in all, as far as the room tells now.
    #[serde(skip)]
    pub to_make: u64,
    /// Files that are overwritten at most.
    #[serde(skip)]
    pub to_overwrite: u64,
}

impl HotCold {
    /// A simulator without files.
    pub fn new(pattern: AccessPattern, utilisation: u64, sync_every: u64, seed: u64) -> HotCold {
        HotCold {
            pattern,
            utilisation,
            sync_every,
            draws: Stream::named(seed, "hotcold files"),
            bytes: Stream::named(seed, "hotcold bytes"),
            files: 0,
        }
    }

    /// Files that there are.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Makes the files if there are none. Then overwrites them until there is no room, or `writes_max` are overwritten:
    /// as many as the file system has room for, if `None`. `look` sees the counts now and then; the fill ends when it
    /// answers false.
    ///
    /// # Errors
    /// What the target says, but for `ENOSPC`.
    pub async fn fill(
        &mut self,
        target: &mut impl ReplayTarget,
        writes_max: Option<u64>,
        look: &mut dyn FnMut(&FillReport) -> bool,
    ) -> Result<FillReport, Errno> {
        let mut report = FillReport::default();
        let filled = self.fill_counted(target, writes_max, look, &mut report).await;
        report.is_full = filled == Err(Errno::ENOSPC);
        match filled {
            Ok(()) | Err(Errno::ENOSPC) => Ok(report),
            Err(error) => Err(error),
        }
    }

    async fn fill_counted(
        &mut self,
        target: &mut impl ReplayTarget,
        writes_max: Option<u64>,
        look: &mut dyn FnMut(&FillReport) -> bool,
        report: &mut FillReport,
    ) -> Result<(), Errno> {
        if self.files == 0 {
            self.make_files(target, look, report).await?;
        }
        let writes_max = match writes_max {
            Some(most) => most,
            None => files_max(target.room().await?),
        };
        report.to_overwrite = writes_max;
        while self.files > 0 && report.overwritten < writes_max {
            let (file, is_hot) = self.draw();
            self.write(target, file).await?;
            report.overwritten += 1;
            report.hot += u64::from(is_hot);
            let count = report.overwritten;
            if self.sync_every > 0 && count.is_multiple_of(self.sync_every) {
                target.sync().await?;
            }
            if count.is_multiple_of(FILES_PER_ROOM) && !look(report) {
                return Ok(());
            }
        }
        target.sync().await
    }

    async fn make_files(
        &mut self,
        target: &mut impl ReplayTarget,
        look: &mut dyn FnMut(&FillReport) -> bool,
        report: &mut FillReport,
    ) -> Result<(), Errno> {
        make_dir(target, TOP.as_bytes()).await?;
        // Files of a run before are taken over: where they fill the share already, none would be left to overwrite.
        while target.look(path_of(self.files).as_bytes()).await.is_ok() {
            self.files += 1;
        }
        let mut is_first = true;
        loop {
            if is_first || self.files.is_multiple_of(FILES_PER_ROOM) {
                is_first = false;
                let room = target.room().await?;
                let used = room.bytes.saturating_sub(room.bytes_free);
                // 128 bits: a file system of 2^60 bytes times a percentage.
                let is_enough = u128::from(used) * 100 >= u128::from(room.bytes) * u128::from(self.utilisation);
                let lacking = u128::from(room.bytes) * u128::from(self.utilisation) / 100;
                let lacking = u64::try_from(lacking).unwrap_or(u64::MAX).saturating_sub(used);
                report.to_make = report.made + lacking / FILE_BYTES as u64;
                // A file system may leave blocks without a place out of its count.
                if is_enough || self.files >= files_max(room) || !look(report) {
                    return target.sync().await;
                }
            }
            if self.files.is_multiple_of(FILES_PER_DIR) {
                make_dir(target, dir_of(self.files).as_bytes()).await?;
            }
            let file = self.files;
            self.write(target, file).await?;
            self.files += 1;
            report.made += 1;
            if self.sync_every > 0 && self.files.is_multiple_of(self.sync_every) {
                target.sync().await?;
            }
        }
    }

    async fn write(&mut self, target: &mut impl ReplayTarget, file: u64) -> Result<(), Errno> {
        let mut bytes = [0; FILE_BYTES];
        self.bytes.fill(&mut bytes);
        target.write(path_of(file).as_bytes(), 0, &bytes).await
    }

    /// The next file, and whether it is a hot one. Hot files lie between the cold ones, as they came into being.
    pub fn draw(&mut self) -> (u64, bool) {
        let hot_files = self.files.div_ceil(HOT_OF);
        let cold_files = self.files - hot_files;
        match self.pattern {
            AccessPattern::Uniform => {
                let file = self.draws.below(self.files);
                (file, file.is_multiple_of(HOT_OF))
            }
            AccessPattern::HotCold if cold_files == 0 || self.draws.chance(HOT_WRITES) => {
                (self.draws.below(hot_files) * HOT_OF, true)
            }
            AccessPattern::HotCold => {
                let cold = self.draws.below(cold_files);
                (cold / (HOT_OF - 1) * HOT_OF + 1 + cold % (HOT_OF - 1), false)
            }
        }
    }
}

/// Files that a file system has room for, if they take it all.
fn files_max(room: Room) -> u64 {
    room.bytes / FILE_BYTES as u64
}

fn dir_of(file: u64) -> String {
    format!("{TOP}/{:05}", file / FILES_PER_DIR)
}

fn path_of(file: u64) -> String {
    format!("{}/{file:08}", dir_of(file))
}

/// Makes a directory that may be there from a run before.
async fn make_dir(target: &mut impl ReplayTarget, path: &[u8]) -> Result<(), Errno> {
    match target.make_dir(path).await {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}
