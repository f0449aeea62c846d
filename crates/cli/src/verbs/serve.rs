//! `esker serve`: serves a stack over NBD until it is told to stop.

use std::path::PathBuf;
use std::pin::Pin;

use esker_rt::mem::Pool;
use esker_rt::net::Address;
use esker_rt::sync::{Either, race};
use esker_rt::{Level, Rt};
use esker_serve::{Config, Served, VhostDoor, VhostFront};
use esker_stack::text::address;
use esker_stack::{MountSpec, Spec};
use serde_json::json;

use crate::behind::{self, Background};
use crate::failure::Failure;
use crate::fs_kinds;
use crate::handing::{self, Place};
use crate::inherited::{Doors, Passed};
use crate::listeners::Listeners;
use crate::notify;
use crate::pid_file::PidFile;
use crate::progress::{Pace, Watcher};
use crate::signals::Signals;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::world::World;

/// The record.
pub const VERB: Verb = Verb::of::<Serve>(About {
    words: &["serve"],
    summary: "Serve a stack over NBD",
    details: "Opens the devices, listens at the address of each export, prints one line for each, and serves until a \
              signal (SIGINT, SIGTERM) or `esker stop`. Then requests under way are answered and everything is flushed. \
              A second signal ends it at once. The server also holds the mounts of the text (`[[mount]]`). A stop first takes \
              them out of the tree, and serves what is in use until its last user leaves. If an export or a mount cannot be \
              used, because a layer cannot use its medium, nothing is served: exit status 1, or 3 if the medium is damaged, with the reason. Models of \
              devices are paced in real time and labelled in log and status. The control socket takes the verbs status, stop and stack insert, remove, \
              reorder and dump. Sockets that a service manager passes (LISTEN_FDS) are used in place of new ones: by \
              their names, which are those of exports, `control` or `metrics`, else by their addresses. With \
              --take-over a new version of the program takes the place of a server of the same text: NBD clients \
              notice a pause. If it cannot serve, the old one goes on.",
    examples: &[
        Example { line: "esker serve stack.toml", does: "serves what the file says" },
        Example { line: "esker serve 'vol = memory size=64MiB @ nbd=unix:vol.sock'", does: "serves a disk in memory" },
        Example {
            line: "esker serve stack.toml --take-over",
            does: "goes on in the place of the server that has this stack",
        },
        Example { line: "esker serve stack.toml --io threads --control run/esker.ctl", does: "without io_uring" },
        Example {
            line: "esker serve stack.toml --background --pid-file esker.pid --log-file esker.log",
            does: "returns when clients may connect",
        },
    ],
});

#[derive(clap::Args)]
struct Serve {
    #[command(flatten)]
    stack: StackText,
    /// Control socket [default: esker.ctl beside the stack's file, else in the current directory]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    #[command(flatten)]
    world: World,
    #[command(flatten)]
    listeners: Listeners,
    /// Take the place of the server at the control socket: its stack, sockets and NBD connections
    #[arg(long, conflicts_with_all = ["vhost_user", "degraded_start"])]
    take_over: bool,
    /// Serve also if an export or mount cannot be used: refuse its clients, do without the mount
    #[arg(long)]
    degraded_start: bool,
    #[command(flatten)]
    background: Background,
    /// The lines about exports and mounts as JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Bytes of buffers that are kept for reuse.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

impl Run for Serve {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let passed = Passed::take()?;
        // The server that is replaced lives, and may have the same PID file.
        if !self.take_over {
            self.background.check(terminal)?;
        }
        if self.background.is_asked() {
            return self.go_behind(&passed, terminal);
        }
        let (mut spec, _) = self.stack.load(terminal)?;
        // Whatever keeps a file of these from being read, a signal ends it.
        let tls = self.listeners.tls()?;
        let signals = Signals::catch()?;
        let reactor = self.world.start()?;
        let rt = reactor.rt();
        let mut config = Config {
            tls,
            access: self.listeners.access(),
            nbd: self.listeners.nbd(),
            control_mode: self.listeners.control_mode(),
            file_systems: fs_kinds::file_systems(),
            ..self.world.config(self.control(), &reactor)
        };
        let mut doors = Doors { spec: &mut spec, control: &mut config.control, metrics: &mut config.metrics };
        config.inherited = passed.give(&rt, &mut doors)?;
        let pool = Pool::new(KEPT_BYTES_MAX);
        let asked: Asked = Box::pin(notify::stopping(signals.first(&rt)?));
        let place = Place { rt: rt.clone(), pool, config };
        let started = match self.take_over {
            true => handing::take_over(&reactor, &place, &spec, asked)?,
            false => {
                let served = self.start(&place, &spec)?;
                reactor.block_on(usable(served, self.degraded_start, asked, rt.clone()))?
            }
        };
        let Some((served, asked)) = started else {
            tell_given_up(&rt);
            return Ok(());
        };
        let degraded = degraded(&served);
        let pid_file = match self.tell_ready(&served, terminal) {
            Ok(pid_file) => pid_file,
            // The stack has no other server any more, whether the lines are read or not.
            Err(_) if self.take_over => {
                rt.log(Level::Warn, format_args!("the lines about exports cannot be printed"));
                None
            }
            Err(failure) => {
                reactor.block_on(served.abandon());
                return Err(failure);
            }
        };
        notify::ready(&rt, degraded.as_deref());
        let successor = reactor.block_on(handing::run(place, served, asked))?;
        if let (Some(pid_file), Some(_)) = (pid_file, successor) {
            pid_file.leave();
        }
        Ok(())
    }
}

impl Serve {
    /// Starts the server as a process of its own.
    fn go_behind(&self, passed: &Passed, terminal: &mut Terminal) -> Result<(), Failure> {
        if !passed.is_empty() {
            let text = "a service manager that passes sockets watches this process\ntip: leave --background out";
            return Err(Failure::Usage(text.to_string()));
        }
        behind::check_source(self.stack.source())?;
        self.background.start(None, terminal)
    }

    /// Says that clients may connect: on standard output, and in the PID file, which goes with what is returned.
    fn tell_ready(&self, served: &Served, terminal: &mut Terminal) -> Result<Option<PidFile>, Failure> {
        let pid_file = self.background.write_pid_file()?;
        announce(served, self.listeners.vhost(), self.json, terminal)?;
        self.background.serves(false, terminal)?;
        Ok(pid_file)
    }

    /// Opens every listener. Without NBD there must be another one.
    fn start(&self, place: &Place, spec: &Spec) -> Result<Served, Failure> {
        let Place { rt, pool, config } = place;
        let (doors, access) = (self.listeners.vhost(), config.access);
        let without_nbd = spec.exports.iter().all(|export| export.nbd.is_none()) && !doors.is_empty();
        let served = match without_nbd {
            true => Served::over(rt, pool, esker_kinds::ALL, spec, config)?,
            false => Served::start(rt, pool, esker_kinds::ALL, spec, config.clone())?,
        };
        for door in doors {
            served.add(VhostFront::open(&served, door, access)?);
        }
        Ok(served)
    }

    fn control(&self) -> PathBuf {
        let beside = || self.stack.file().and_then(|file| file.parent()).map_or_else(PathBuf::new, PathBuf::from);
        self.control.clone().unwrap_or_else(|| beside().join("esker.ctl"))
    }
}

/// The signal that asks to stop.
pub type Asked = Pin<Box<dyn Future<Output = ()>>>;

/// Waits until the layers are open, and mounts what the text says. Shows what is recovered. If an export or mount
/// cannot be used then, the start is undone, unless that is allowed. It is undone too if the stop is asked for before:
/// none then.
///
/// # Errors
/// What cannot be used.
pub async fn usable(
    served: Served,
    degraded_start: bool,
    mut asked: Asked,
    rt: Rt,
) -> Result<Option<(Served, Asked)>, Failure> {
    let watcher = Watcher::standard();
    rt.set_watch(Some(watcher.watch()));
    if let Either::Right(()) = race(served.opened(), &mut asked).await {
        served.give_up().await;
        return Ok(None);
    }
    served.mount().await;
    rt.set_watch(None);
    watcher.end();
    match degraded(&served).filter(|_| !degraded_start) {
        None => Ok(Some((served, asked))),
        Some(why) => {
            let is_damage = served.unusable().iter().any(|outlet| outlet.unusable.is_damage);
            served.abandon().await;
            let text = format!(
                "{why} Nothing is served, and what the start made is removed. Repair it, or serve the rest with \
                 --degraded-start."
            );
            Err(if is_damage { Failure::Damaged(text) } else { Failure::Error(text.into()) })
        }
    }
}

/// The last line of a start that a signal ended.
pub fn tell_given_up(rt: &Rt) {
    let text = format_args!("stopped: layers were still being opened, so that nothing was served");
    rt.log_event(Level::Info, "stopped", &[], text);
}

/// Which exports and mounts cannot be used, and why; none if all can.
pub fn degraded(served: &Served) -> Option<String> {
    let texts: Vec<String> = served.unusable().iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// One line for each export and mount, and one for the control socket; clients may connect once they are there.
fn announce(served: &Served, disks: &[VhostDoor], as_json: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    let control = match served.control() {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(host) => host.clone(),
    };
    for ready in served.ready() {
        let uri = ready.uri.to_string();
        let only = if ready.read_only { ", read-only" } else { "" };
        terminal.say(&match as_json {
            true => json!({ "export": ready.export, "uri": uri, "size": ready.size, "read_only": ready.read_only })
                .to_string(),
            false => format!("export {}: {} bytes{only} at {uri}", ready.export, ready.size),
        })?;
    }
    for MountSpec { name, fs, dir, .. } in served.mounted() {
        terminal.say(&match as_json {
            true => json!({ "mount": name, "fs": fs, "at": dir }).to_string(),
            false => format!("mount {name}: {fs} at {dir}"),
        })?;
    }
    for VhostDoor { export, socket } in disks {
        terminal.say(&match as_json {
            true => json!({ "export": export, "vhost_user": socket }).to_string(),
            false => format!("export {export}: vhost-user-blk at {}", socket.display()),
        })?;
    }
    if let Some(metrics) = served.metrics() {
        let at = address::text(metrics);
        terminal.say(&match as_json {
            true => json!({ "metrics": at }).to_string(),
            false => format!("metrics: {at}"),
        })?;
    }
    terminal.say(&match as_json {
        true => json!({ "control": control }).to_string(),
        false => format!("control socket: {control}"),
    })?;
    terminal.finish()
}
