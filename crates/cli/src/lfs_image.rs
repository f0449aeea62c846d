//! What the verbs of `esker fs` do with `lfs`, the first kind of file system that lies on a device.

use std::rc::Rc;

use esker_block::Device;
use esker_fs_lfs::check::{Found, check};
use esker_fs_lfs::dump::{Show, dump};
use esker_fs_lfs::{Lfs, LfsError, LfsReader, MkfsConfig, Volume, mkfs};
use esker_rt::Rt;
use esker_vfs::{FileSystem, Stamp};
use serde_json::json;

use crate::failure::Failure;
use crate::opened_stack::with_stack;
use crate::stack_text::StackText;
use crate::terminal::Terminal;

/// The name of the kind.
pub const KIND: &str = "lfs";

#[derive(Debug, thiserror::Error)]
enum LfsImageError {
    #[error("{0} lies on a device: name its stack with --on")]
    NoStack(&'static str),
    #[error("{0}: has {1} exports; a file system lies on one")]
    Exports(String, usize),
    #[error("{0}: {1}")]
    Image(String, LfsError),
    #[error("{0}: holds data; mkfs destroys it with --force")]
    HoldsData(String),
    #[error("{0}: {1}")]
    Refused(String, esker_base::Errno),
    #[error("{0}: not everything is sound")]
    Unsound(String),
}

/// What an empty file system is made with.
#[derive(clap::Args)]
pub struct MkfsOptions {
    /// Label, at most 79 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Size of a block: 1, 2 or 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = esker_base::units::parse_size)]
    block: u64,
    /// Size of a segment [default: 8MiB, less on a small device]
    #[arg(long, value_name = "SIZE", value_parser = esker_base::units::parse_size)]
    segment: Option<u64>,
    /// Segments that are kept back, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    reserve: u32,
    /// Keeps room for counters of live blocks in the usage of each segment
    #[arg(long)]
    live_counters: bool,
    /// Destroys what the device holds
    #[arg(long)]
    force: bool,
}

/// A stack whose one export holds the file system.
pub struct LfsImage {
    text: StackText,
}

/// Bytes at either end of a device that tell whether it holds data.
const LOOKED_AT: u64 = 64 << 10;

impl LfsImage {
    /// On the stack that an argument names.
    ///
    /// # Errors
    /// There is none.
    pub fn on(stack: Option<&str>) -> Result<LfsImage, Failure> {
        let stack = stack.ok_or(LfsImageError::NoStack(KIND))?;
        Ok(LfsImage { text: StackText::of(stack.to_string()) })
    }

    /// Opens the stack in this process and does something with its export.
    fn with<T: 'static>(
        &self,
        terminal: &mut Terminal,
        work: impl AsyncFnOnce(Rt, Rc<dyn Device>) -> Result<T, LfsError> + 'static,
    ) -> Result<T, Failure> {
        let (spec, _) = self.text.load(terminal)?;
        let [export] = spec.exports.as_slice() else {
            return Err(LfsImageError::Exports(self.text.name().to_string(), spec.exports.len()).into());
        };
        let name = export.name.clone();
        let done = with_stack(&spec, async move |stack| {
            let device = stack.export(&name).expect("the stack has the exports of its text");
            work(stack.rt().clone(), Rc::new(device)).await
        })?;
        done.map_err(|error| LfsImageError::Image(self.text.name().to_string(), error).into())
    }

    /// Makes an empty file system.
    ///
    /// # Errors
    /// The device holds data; what cannot be made.
    pub fn make(&self, options: MkfsOptions, terminal: &mut Terminal) -> Result<(), Failure> {
        let made = self.with(terminal, async move |rt, device| {
            if !options.force && holds_data(&rt, device.clone()).await? {
                return Ok(None);
            }
            let config = MkfsConfig {
                // A size that does not fit is refused as one that is not known.
                block_bytes: u32::try_from(options.block).unwrap_or(u32::MAX),
                segment_bytes: options.segment,
                label: options.label,
                reserved_percent: options.reserve,
                live_counters: options.live_counters,
                owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
                ..MkfsConfig::usual(Stamp(rt.wall()))
            };
            mkfs(&rt, device, &config).await.map(Some)
        })?;
        match made {
            None => Err(LfsImageError::HoldsData(self.text.name().to_string()).into()),
            Some(made) => terminal.say(&format!(
                "made {} segments of {} blocks, uuid {:032x}",
                made.segments,
                made.segment_blocks,
                u128::from_be_bytes(made.uuid)
            )),
        }
    }

    /// Tells what is wrong.
    ///
    /// # Errors
    /// Something is.
    pub fn check(&self, as_json: bool, terminal: &mut Terminal) -> Result<(), Failure> {
        let found = self.with(terminal, async |rt, device| check(&rt, device).await)?;
        if as_json {
            terminal.say(&findings_json(&found).to_string())?;
        } else {
            for finding in &found.findings {
                terminal.say(&finding.to_string())?;
            }
            if found.more > 0 {
                terminal.say(&format!("{} more findings", found.more))?;
            }
            terminal.say(&counted(&found))?;
        }
        match found.is_clean() {
            true => Ok(()),
            false => Err(LfsImageError::Unsound(self.text.name().to_string()).into()),
        }
    }

    /// Shows structures.
    ///
    /// # Errors
    /// One is wrong.
    pub fn dump(&self, show: Show, terminal: &mut Terminal) -> Result<(), Failure> {
        let text = self.with(terminal, async move |rt, device| dump(&Volume::open(&rt, device).await?, show).await)?;
        terminal.say(text.trim_end_matches('\n'))
    }

    /// Opens the file system for changes and has it do what words ask for.
    ///
    /// # Errors
    /// It cannot be opened, or refuses.
    pub fn ask(&self, words: Vec<String>, terminal: &mut Terminal) -> Result<String, Failure> {
        let asked = self.with(terminal, async move |rt, device| {
            let fs = Lfs::open(&rt, device, Stamp(rt.wall())).await?;
            let answer = fs.ask(&words).await;
            Ok(fs.close().await.and(answer))
        })?;
        asked.map_err(|errno| LfsImageError::Refused(self.text.name().to_string(), errno).into())
    }

    /// What the file system of a checkpoint is and can, and its room.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn about(
        &self,
        checkpoint: Option<u64>,
        terminal: &mut Terminal,
    ) -> Result<(esker_vfs::About, esker_vfs::Space), Failure> {
        self.with(terminal, async move |rt, device| {
            let reader = LfsReader::open(&rt, device, checkpoint).await?;
            Ok((FileSystem::about(&reader).clone(), reader.room()))
        })
    }
}

/// Whether anything but zeroes lies at either end of a device.
async fn holds_data(rt: &Rt, device: Rc<dyn Device>) -> Result<bool, LfsError> {
    let medium = esker_fs_lfs::medium::ImageDevice::new(rt, device);
    for at in [0, medium.size().saturating_sub(LOOKED_AT)] {
        if medium.read(at, LOOKED_AT as usize).await?.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn counted(found: &Found) -> String {
    let counted = &found.counted;
    format!(
        "{}: {} checkpoints, {} of them snapshots; {} segments with {} logs; {} blocks and {} inodes in the latest; {} \
         counters of live blocks are off, by {} of {} blocks",
        if found.is_clean() { "clean" } else { "damaged" },
        counted.checkpoints,
        counted.snapshots,
        counted.segments_dirty,
        counted.logs,
        counted.blocks,
        counted.inodes,
        counted.counters_off,
        counted.miscounted_blocks,
        counted.counted_blocks
    )
}

fn findings_json(found: &Found) -> serde_json::Value {
    let findings: Vec<_> = found
        .findings
        .iter()
        .map(|finding| {
            let gravity = format!("{:?}", finding.gravity).to_lowercase();
            json!({ "gravity": gravity, "at": finding.at, "why": finding.why, "advice": finding.advice })
        })
        .collect();
    let counted = &found.counted;
    json!({
        "clean": found.is_clean(),
        "findings": findings,
        "more": found.more,
        "checkpoints": counted.checkpoints,
        "snapshots": counted.snapshots,
        "segments_dirty": counted.segments_dirty,
        "logs": counted.logs,
        "counters_off": counted.counters_off,
        "miscounted_blocks": counted.miscounted_blocks,
        "counted_blocks": counted.counted_blocks,
        "blocks": counted.blocks,
        "inodes": counted.inodes,
    })
}
