//! `esker attach`: exports as block devices of this machine.

use std::fs::File;
use std::path::{Path, PathBuf};

use esker_front_fuse::registry::{Claim, Entry, Record, RecordedDisk};
use esker_front_fuse::{Registry, Setup, harden};
use esker_rt::mem::Pool;
use esker_rt::sync::race;
use esker_rt::{Level, Rt};
use esker_serve::{AttachFront, Served};
use esker_stack::Spec;
use serde_json::json;

use crate::behind::{self, Background};
use crate::failure::Failure;
use crate::notify;
use crate::progress::Pace;
use crate::signals::Signals;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::serve::{Asked, KEPT_BYTES_MAX, tell_given_up, usable};
use crate::world::World;

/// The record.
pub const VERB: Verb = Verb::of::<Attach>(About {
    words: &["attach"],
    summary: "Make exports of a stack block devices of this machine",
    details: "Opens the devices, gives each export a block device /dev/loopN, prints one line for each, and serves \
              them until a signal (SIGINT, SIGTERM) or `esker detach`. Then it waits for programs that have mounted \
              the devices, releases the devices, and flushes everything. A second signal ends it at once. Needs root. \
              The control socket takes the same verbs as that of `esker serve`. If the process was killed, requests to \
              its devices fail; `esker attach --list` shows that, and `esker detach` or the next attach of the same \
              name cleans up. With --background, log lines go to NAME.log in the directory of attachments.",
    examples: &[
        Example { line: "esker attach stack.toml", does: "attaches all exports of the file" },
        Example { line: "esker attach stack.toml --export vol --background", does: "attaches one and returns" },
        Example { line: "esker attach --list", does: "shows what is attached on this machine" },
    ],
});

#[derive(clap::Args)]
struct Attach {
    #[command(flatten)]
    stack: Option<StackText>,
    /// Show what is attached on this machine, alive or dead
    #[arg(long, conflicts_with_all = ["source", "exports", "background", "partitions"])]
    list: bool,
    /// Attach this export (may be repeated) [default: all]
    #[arg(long = "export", value_name = "NAME")]
    exports: Vec<String>,
    /// Name of the attachment [default: the name of its first export]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    background: Background,
    /// Let the kernel look for partitions on the devices
    #[arg(long)]
    partitions: bool,
    #[command(flatten)]
    run_dir: RunDir,
    #[command(flatten)]
    world: World,
    /// The lines as JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Where attachments are noted down.
#[derive(clap::Args)]
pub struct RunDir {
    /// Directory in which attachments are noted down and mounted
    #[arg(long, value_name = "DIR", default_value = "/run/esker")]
    run_dir: PathBuf,
}

impl RunDir {
    /// The registry there.
    pub fn registry(&self) -> Registry {
        Registry::new(std::path::absolute(&self.run_dir).unwrap_or_else(|_| self.run_dir.clone()))
    }
}

/// The log of an attachment in the background cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
struct LogError {
    path: String,
    source: std::io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the stack has no export, so there is nothing to attach; add [[export]] to its text, or @ at the end of its line"
)]
struct NothingToAttach;

impl Run for Attach {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.list {
            return list(&self.run_dir.registry(), self.json, terminal);
        }
        let Some(stack) = &self.stack else { return Err(Failure::Usage("name a stack, or --list".to_string())) };
        if self.background.is_asked() {
            behind::check_source(stack.source())?;
        }
        let (mut spec, _) = stack.load(terminal)?;
        for mount in spec.mounts.drain(..) {
            let (at, name) = (&mount.at, &mount.name);
            terminal.complain(&format!("warning: {at}: \"{name}\" is not mounted: only `esker serve` mounts"));
        }
        let exports = self.wanted(&spec)?;
        let name = self.name.clone().unwrap_or_else(|| exports[0].clone());
        self.background.check(terminal)?;
        match self.background.is_asked() {
            true => self.go_behind(&name, terminal),
            false => self.serve(stack.name(), &spec, &exports, &name, terminal),
        }
    }
}

impl Attach {
    fn wanted(&self, spec: &Spec) -> Result<Vec<String>, NothingToAttach> {
        let all = || spec.exports.iter().map(|export| export.name.clone()).collect();
        let wanted: Vec<String> = if self.exports.is_empty() { all() } else { self.exports.clone() };
        if wanted.is_empty() { Err(NothingToAttach) } else { Ok(wanted) }
    }

    fn serve(
        &self,
        stack: &str,
        spec: &Spec,
        exports: &[String],
        name: &str,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let signals = Signals::catch()?;
        let reactor = self.world.start()?;
        let rt = reactor.rt();
        let claim = self.run_dir.registry().claim(name)?;
        tell_cleaned(&rt, &claim);
        let pool = Pool::new(KEPT_BYTES_MAX);
        let asked: Asked = Box::pin(notify::stopping(signals.first(&rt)?));
        let served = Served::over(&rt, &pool, esker_kinds::ALL, spec, &self.world.config(claim.control(), &reactor))?;
        let Some((served, asked)) = reactor.block_on(usable(served, false, asked, rt.clone()))? else {
            tell_given_up(&rt);
            return Ok(());
        };
        for missing in harden::harden(&pool) {
            rt.log(Level::Warn, format_args!("{missing}"));
        }
        let setup = Setup { mount: claim.mount(), partitions: self.partitions };
        let names = exports.to_vec();
        let (served, front) = reactor.block_on(async move {
            let front = AttachFront::open(&served, &names, &setup).await;
            (served, front)
        });
        let front = front?;
        served.add(front.clone());
        let disks: Vec<RecordedDisk> = front.disks().into_iter().map(RecordedDisk::from).collect();
        let _pid_file = self.background.write_pid_file()?;
        announce(&disks, &claim.control(), self.json, terminal)?;
        claim.record(&Record { pid: std::process::id(), stack: stack.to_string(), control: claim.control(), disks })?;
        self.background.serves(true, terminal)?;
        notify::ready(&rt, None);
        reactor.block_on(async move {
            let ended = async move { front.ended().await };
            let stop = async move {
                race(asked, ended).await;
            };
            served.run(stop).await
        })?;
        rt.log_event(Level::Info, "stopped", &[], format_args!("stopped: everything is flushed"));
        Ok(())
    }

    /// Starts the same command as a process of its own, whose log lines go to NAME.log in the directory of attachments.
    fn go_behind(&self, name: &str, terminal: &mut Terminal) -> Result<(), Failure> {
        let path = self.run_dir.registry().log(name)?;
        let log = File::options().create(true).read(true).write(true).truncate(true).open(&path);
        let log = log.map_err(|source| LogError { path: path.display().to_string(), source })?;
        self.background.start(Some(log), terminal)
    }
}

fn tell_cleaned(rt: &Rt, claim: &Claim) {
    let Some(Entry { name, devices, .. }) = &claim.cleaned else { return };
    let devices: Vec<_> = devices.iter().map(|device| device.display().to_string()).collect();
    let what = if devices.is_empty() { "no device".to_string() } else { devices.join(", ") };
    rt.log(Level::Warn, format_args!("cleaned up what a dead process had left as \"{name}\": {what}"));
}

/// One line for each device and one for the control socket.
fn announce(disks: &[RecordedDisk], control: &Path, as_json: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    for RecordedDisk { export, device, size, read_only } in disks {
        let only = if *read_only { ", read-only" } else { "" };
        terminal.say(&match as_json {
            true => json!({ "export": export, "device": device, "size": size, "read_only": read_only }).to_string(),
            false => format!("export {export}: {size} bytes{only} at {}", device.display()),
        })?;
    }
    terminal.say(&match as_json {
        true => json!({ "control": control }).to_string(),
        false => format!("control socket: {}", control.display()),
    })?;
    terminal.finish()
}

fn list(registry: &Registry, as_json: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    let entries = registry.list()?;
    if as_json {
        let rows = entries.iter().map(|entry| json!({ "attachment": entry, "users": entry.users() }));
        return terminal.say(&json!(rows.collect::<Vec<_>>()).to_string());
    }
    entries.iter().flat_map(describe).try_for_each(|line| terminal.say(&line))
}

/// An attachment for people: a line for itself, one for each device, one for each user.
fn describe(entry: &Entry) -> Vec<String> {
    let Entry { name, alive, record, devices, .. } = entry;
    let mut lines = vec![match (alive, record) {
        (true, Some(record)) => {
            format!("{name}: process {}, {}, control socket {}", record.pid, record.stack, record.control.display())
        }
        (true, None) => format!("{name}: starting or stopping"),
        (false, _) => format!("{name}: DEAD, its requests fail; `esker detach {name}` cleans up"),
    }];
    let disks = record.iter().flat_map(|record| &record.disks);
    lines.extend(devices.iter().map(|device| match disks.clone().find(|disk| disk.device == *device) {
        Some(RecordedDisk { export, size, read_only, .. }) => {
            let only = if *read_only { ", read-only" } else { "" };
            format!("  {}: export {export}, {size} bytes{only}", device.display())
        }
        None => format!("  {}", device.display()),
    }));
    lines.extend(entry.users().iter().map(|user| format!("  {user}")));
    lines
}
