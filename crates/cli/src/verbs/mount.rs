//! `esker mount`: a file system of ours, mounted on a directory.

mod behind;
mod options;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use esker_front_fuse::{Alive, CacheMode, MountOptions, MountSetup, Mounted, Transport, mount_at};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::{Either, race};
use esker_rt::{Level, Rt};
use esker_vfs::FileSystem;

use crate::failure::Failure;
use crate::fs_kinds::{self, Opening};
use crate::log::Logging;
use crate::notify;
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::serve::KEPT_BYTES_MAX;

/// The record.
pub const VERB: Verb = Verb::of::<MountArgs>(About {
    words: &["mount"],
    summary: "Mount a file system of Esker on a directory",
    details: "Opens a file system, mounts it, prints one line, and serves it until it is unmounted (`esker umount`, \
              umount(8), fusermount3) or a signal (SIGINT, SIGTERM) unmounts it. Then everything is flushed. What is in \
              use at a signal is out of the tree at once, and served until its last user leaves it; a second signal ends \
              the process. The superuser mounts by itself, other users through fusermount3 of the package fuse3. If the \
              process was killed, calls on the mount fail at once, and `esker umount` takes it away.\n\n\
              Kinds: ram (files in the memory of the process, gone when it ends; -o size=BYTES, uid=N, gid=N, \
              mode=OCTAL).\n\n\
              Options of every mount: ro, rw, exec, noexec, suid, nosuid, dev, nodev, allow_other, noallow_other, \
              source=NAME. As the superuser the default is nosuid,nodev,allow_other; otherwise nosuid,nodev.",
    examples: &[
        Example { line: "esker mount ram /mnt", does: "mounts a file system in memory" },
        Example { line: "esker mount ram dir -o size=2GiB,noexec --background", does: "does so and returns" },
        Example { line: "esker mount ram /mnt --cache writeback", does: "lets the kernel hold writes back" },
        Example { line: "esker mount ram /mnt --transport uring", does: "takes requests by io_uring" },
    ],
});

#[derive(clap::Args)]
struct MountArgs {
    /// Kind of file system
    #[arg(value_name = "KIND")]
    kind: String,
    /// Directory to mount it on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Stack below it, for kinds that lie on a device
    #[arg(long, value_name = "STACK")]
    on: Option<String>,
    /// What the kernel keeps of files: `writeback` orders nothing but what is synchronised, `none` keeps no pages
    #[arg(long, value_enum, default_value = "through")]
    cache: Cache,
    /// How requests come from the kernel: `uring` takes Linux 6.14 and a switch of the kernel, which `esker mount` names
    #[arg(long, value_enum, default_value = "auto")]
    transport: Way,
    /// Options, with commas between them (may be repeated)
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Return when it is mounted; log lines are lost then, unless --log-file names a file
    #[arg(long)]
    background: bool,
    /// Be the process behind --background
    #[arg(long, hide = true)]
    behind: bool,
    #[command(flatten)]
    logging: Logging,
}

/// Cache modes by name.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Cache {
    /// Each write reaches the file system before it returns
    Through,
    /// The kernel holds writes back
    Writeback,
    /// The kernel keeps nothing of files
    None,
}

impl Cache {
    fn mode(self) -> CacheMode {
        match self {
            Cache::Through => CacheMode::Through,
            Cache::Writeback => CacheMode::WriteBack,
            Cache::None => CacheMode::None,
        }
    }
}

/// Transports by name.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// The one that was measured to be better
    Auto,
    /// Calls on /dev/fuse
    Device,
    /// Memory that the kernel shares, by io_uring
    Uring,
}

impl Way {
    fn transport(self) -> Transport {
        match self {
            Way::Auto => Transport::Auto,
            Way::Device => Transport::Device,
            Way::Uring => Transport::Uring,
        }
    }
}

/// Why a directory cannot be mounted on.
#[derive(Debug, thiserror::Error)]
enum MountPointError {
    #[error("{path}: {source}")]
    Unusable { path: String, source: std::io::Error },
    #[error("{0}: is no directory; a file system is mounted on an existing directory")]
    NoDirectory(String),
    #[error("{0}: the process that served what is mounted there has ended; `esker umount {0}` takes it away")]
    Dead(String),
    #[error("{path}: {name} ({kind}) is mounted there already; unmount it, or name another directory")]
    Taken { path: String, name: String, kind: String },
    #[error("the file system cannot be closed: {0}")]
    NotFlushed(esker_base::Errno),
}

impl Run for MountArgs {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let kind = fs_kinds::find(&self.kind)?;
        match (kind.needs_device, &self.on) {
            (false, Some(_)) => {
                let summary = kind.summary;
                let text = format!("{} lies on no device ({summary}): leave --on away", kind.name);
                return Err(Failure::Usage(text));
            }
            (true, None) => return Err(Failure::Usage(format!("{} lies on a device: add --on STACK", kind.name))),
            _ => {}
        }
        let at = mount_point(&self.dir)?;
        if self.background && !self.behind {
            return behind::start(terminal);
        }
        let (options, rest) = options::read(kind.name, &self.options)?;
        self.serve(kind, at, options, &rest, terminal)
    }
}

impl MountArgs {
    fn serve(
        &self,
        kind: &fs_kinds::FsKind,
        at: PathBuf,
        options: MountOptions,
        rest: &[(String, String)],
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        if self.behind {
            esker_front_fuse::harden::leave_session()?;
        }
        let signals = Signals::catch()?;
        let transport = self.transport.transport();
        let reactor = Reactor::new(RealConfig { commands: transport == Transport::Uring, ..RealConfig::seeded(1) })?;
        let rt = reactor.rt();
        self.logging.start(&rt)?;
        let pool = Pool::new(KEPT_BYTES_MAX);
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let fs = kind.open(&Opening { rt: &rt, pool: &pool, options: rest, owner })?;
        let setup = MountSetup { at: at.clone(), cache: self.cache.mode(), transport, options, issuer: 0 };
        let stop = notify::stopping(signals.first(&rt)?);
        let mounted = reactor.block_on({
            let (rt, pool, fs) = (rt.clone(), pool.clone(), fs.clone());
            async move { Mounted::start(&rt, &pool, fs, &setup) }
        })?;
        // Until everything is flushed, `esker umount` waits for the end of this.
        let _alive = say_alive(&rt, &at);
        terminal.say(&format!("{} is mounted at {}", kind.name, at.display()))?;
        terminal.finish()?;
        notify::ready(&rt, None);
        reactor.block_on(until_gone(rt.clone(), mounted, fs, stop))?;
        rt.log_event(Level::Info, "stopped", &[], format_args!("unmounted: everything is flushed"));
        Ok(())
    }
}

fn say_alive(rt: &Rt, at: &Path) -> Option<Alive> {
    let said = mount_at(at).map(|mount| Alive::say(&mount));
    if let Some(Err(error)) = &said {
        rt.log(Level::Warn, format_args!("`esker umount` cannot wait for this process: {error}"));
    }
    said?.ok()
}

/// Serves until the mount is gone, and closes the file system.
async fn until_gone(
    rt: Rt,
    mounted: Rc<Mounted>,
    fs: Rc<dyn FileSystem>,
    stop: impl Future<Output = ()>,
) -> Result<(), MountPointError> {
    let ended = mounted.ended();
    if let Either::Left(()) = race(stop, ended).await {
        mounted.stop().await;
    }
    for (name, count) in mounted.requests() {
        rt.log(Level::Debug, format_args!("{count} requests {name}"));
    }
    rt.log(Level::Debug, format_args!("{} requests came by io_uring", mounted.requests_by_ring()));
    fs.close().await.map_err(MountPointError::NotFlushed)
}

/// The absolute path of a directory that can be mounted on.
fn mount_point(dir: &Path) -> Result<PathBuf, MountPointError> {
    let path = dir.display().to_string();
    let unusable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotConnected => MountPointError::Dead(path.clone()),
        _ => MountPointError::Unusable { path: path.clone(), source },
    };
    let at = std::fs::canonicalize(dir).map_err(unusable)?;
    if !std::fs::metadata(&at).map_err(unusable)?.is_dir() {
        return Err(MountPointError::NoDirectory(path));
    }
    match mount_at(&at) {
        Some(mount) => Err(MountPointError::Taken { path, name: mount.source, kind: mount.kind }),
        None => Ok(at),
    }
}
