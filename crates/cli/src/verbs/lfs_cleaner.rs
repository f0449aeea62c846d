//! `esker lfs cleaner`: the cleaner of a mounted file system, in a process of its own.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use esker_base::Errno;
use esker_block::Step;
use esker_fs_lfs::control::wire::{RemoteControl, WORD};
use esker_fs_lfs::{CleanerConfig, LfsCleaner, LfsControl};
use esker_rt::Level;
use esker_rt::mem::Slice;
use esker_rt::net::Stream;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::{Either, race};
use esker_serve::Command;
use esker_vfs::Answer;

use crate::control::Control;
use crate::failure::Failure;
use crate::log::Logging;
use crate::progress::Pace;
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<CleanerArgs>(About {
    words: &["lfs", "cleaner"],
    summary: "Keep segments of a mounted lfs clean, as a process of its own",
    details: "Begins when clean segments fall below the lower threshold of the configuration, and ends above the upper \
              one. It knows the file system by calls over the control socket alone: if it dies, nothing is half done. One \
              cleaner works at a time, so mount with -o cleaner=off first. SIGHUP reads the configuration anew; a file \
              with an error is refused with its line, and the old configuration stays. SIGINT and SIGTERM end it. Each \
              step is a line of the log.",
    examples: &[
        Example { line: "esker lfs cleaner home --config cleaner.conf", does: "cleans mount home of the server" },
        Example {
            line: "esker lfs cleaner home --config cleaner.conf --once",
            does: "cleans up to the upper threshold if it is due, and ends",
        },
    ],
});

#[derive(clap::Args)]
struct CleanerArgs {
    /// Name of a mount of a server, or the kind of a mount by `esker mount`
    #[arg(value_name = "NAME")]
    mount: String,
    /// Configuration: lines of a key and a value, as in nilfs_cleanerd.conf
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// End when segments enough are clean
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    control: Control,
    #[command(flatten)]
    logging: Logging,
}

#[derive(Debug, thiserror::Error)]
enum CleanerError {
    #[error("{0}: {1}")]
    Config(String, String),
    #[error(
        "{0}: another cleaner works, or worked less than a minute ago; mount with -o cleaner=off, or wait for its end"
    )]
    Busy(String),
    #[error("{0}: the cleaner ends: {1}")]
    Ended(String, String),
}

impl Run for CleanerArgs {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        let config = read(&self.config)?;
        let (signals, hangups) = (Signals::catch()?, Signals::hangups()?);
        let reactor = Reactor::new(RealConfig::seeded(1))?;
        let rt = reactor.rt();
        self.logging.start(&rt)?;
        let (control, mount) = (Rc::new(self.control), self.mount.clone());
        let number = order(&control, &mount, Vec::new())?;
        let lost: Rc<RefCell<Option<String>>> = Rc::default();
        let ask = {
            let (control, mount, lost) = (control.clone(), mount.clone(), lost.clone());
            move |call: String| -> Answer<String> {
                // A call that waits here holds up nothing but the cleaner itself.
                Step::Now(order(&control, &mount, vec![number.clone(), call]).map_err(|failure| {
                    *lost.borrow_mut() = Some(failure.text());
                    Errno::EIO
                }))
            }
        };
        let remote: Rc<dyn LfsControl> = Rc::new(RemoteControl::new(ask));
        let cleaner = Rc::new(LfsCleaner::new(&rt, remote.clone(), config));
        let stop = signals.first(&rt)?;
        let hangups = hangups.stream(&rt)?;
        rt.spawn_detached("configuration", reload(hangups, cleaner.clone(), self.config.clone()));
        let once = self.once;
        let ended = reactor.block_on(async move {
            let work = async { if once { cleaner.run_once().await } else { cleaner.run().await } };
            let ended = match race(work, stop).await {
                Either::Left(ended) => ended,
                Either::Right(()) => Ok(()),
            };
            // A server that is gone has no claim.
            let _given = remote.release().await;
            ended
        });
        match (ended, lost.take()) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(why)) => Err(CleanerError::Ended(mount, why).into()),
            (Err(Errno::EBUSY), None) => Err(CleanerError::Busy(mount).into()),
            (Err(errno), None) => Err(CleanerError::Ended(mount, errno.to_string()).into()),
        }
    }
}

/// Has the file system of a mount answer a call.
fn order(control: &Control, mount: &str, words: Vec<String>) -> Result<String, Failure> {
    let words = std::iter::once(WORD.to_string()).chain(words).collect();
    let answer = control.ask(&Command::Order { device: mount.to_string(), words })?;
    Ok(answer.as_str().map_or_else(|| answer.to_string(), str::to_string))
}

fn read(path: &std::path::Path) -> Result<CleanerConfig, CleanerError> {
    let wrong = |why: String| CleanerError::Config(path.display().to_string(), why);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    CleanerConfig::parse(&text).map_err(|error| wrong(error.to_string()))
}

/// Reads the configuration anew at each SIGHUP.
async fn reload(hangups: Stream, cleaner: Rc<LfsCleaner>, path: PathBuf) {
    let rt = cleaner.rt().clone();
    while let (_, Ok(1..)) = hangups.read(vec![Slice::heap(vec![0; 16])]).await {
        match read(&path) {
            Ok(config) => {
                cleaner.configure(config);
                let text = format_args!("{}: read anew", path.display());
                rt.log_event(Level::Info, "configured", &[], text);
            }
            Err(error) => {
                let text = format_args!("{error}; the configuration before stays");
                rt.log_event(Level::Error, "not_configured", &[], text);
            }
        }
    }
}
