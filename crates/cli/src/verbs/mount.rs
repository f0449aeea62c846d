//! `esker mount`: a file system of ours, mounted on a directory.

use std::path::PathBuf;

use esker_base::Nanos;
use esker_front_fuse::{MountOptions, Transport, mount_point};
use esker_rt::Level;
use esker_rt::mem::Pool;
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};
use esker_serve::{MountOrder, MountedFsError, SingleMount, SingleMountError};
use esker_stack::{KernelCache, Spec, Unusable};

use crate::behind::{self, Background};
use crate::failure::Failure;
use crate::fs_kinds;
use crate::log::Logging;
use crate::notify;
use crate::progress::Pace;
use crate::signals::Signals;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::serve::KEPT_BYTES_MAX;
use crate::world::io_of;

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
              mode=OCTAL), host (a directory of this machine, which calls are passed through to; -o dir=PATH). On a \
              stack: lfs (an image of NILFS2). Its option checkpoint=N shows an older state, read-only, and \
              stands alone. Cleaning follows cleaner=POLICY or off, and protection=SECONDS. Blocks move as moved=apart or \
              together and age_sort=on or off say. Counters of live blocks follow tracking=on or off, \
              snapshots=background, all, dead, starvation or stock, and dat_times=on or off.\n\n\
              Options of every mount: ro, rw, exec, noexec, suid, nosuid, dev, nodev, allow_other, noallow_other, \
              source=NAME. As the superuser the default is nosuid,nodev,allow_other; otherwise nosuid,nodev.",
    examples: &[
        Example { line: "esker mount ram /mnt", does: "mounts a file system in memory" },
        Example { line: "esker mount ram dir -o size=2GiB,noexec --background", does: "does so and returns" },
        Example { line: "esker mount ram /mnt --cache writeback", does: "lets the kernel hold writes back" },
        Example { line: "esker mount host /mnt -o dir=/srv/data", does: "passes calls through to a directory" },
        Example {
            line: "esker mount lfs /mnt --on 'disk = file path=lfs.img @' --control lfs.ctl",
            does: "takes orders, such as `esker lfs clean --mount lfs --control lfs.ctl`, and answers `esker top`",
        },
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
    /// Stack with one export below it, for kinds that lie on a device
    #[arg(long, value_name = "STACK")]
    on: Option<String>,
    /// What the kernel keeps of files: `writeback` orders nothing but what is synchronised, `none` keeps no pages
    #[arg(long, value_enum, default_value = "through")]
    cache: Cache,
    /// How requests come from the kernel: `uring` takes Linux 6.14 and a switch of the kernel, which `esker mount`
    /// names
    #[arg(long, value_enum, default_value = "auto")]
    transport: Way,
    /// Options, with commas between them (may be repeated)
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Take orders of `esker lfs` at this socket, for mount KIND, and answer `esker top` and `esker status`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    #[command(flatten)]
    background: Background,
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
    fn mode(self) -> KernelCache {
        match self {
            Cache::Through => KernelCache::Through,
            Cache::Writeback => KernelCache::WriteBack,
            Cache::None => KernelCache::None,
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

/// How long the last flush of a stack below may take, as `esker serve` has it.
const FLUSH_PATIENCE: Nanos = Nanos::secs(60);

impl Run for MountArgs {
    const PACE: Option<Pace> = Some(Pace::Serves);

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
        self.background.check(terminal)?;
        if self.background.is_asked() {
            behind::check_source(self.on.as_deref().unwrap_or_default())?;
            return self.background.start(None, terminal);
        }
        let words = MountOptions::read(kind.name, &self.options);
        let (options, rest) = words.map_err(|error| Failure::Usage(error.to_string()))?;
        let on = self.on.clone().map(|source| StackText::of(source).load(terminal)).transpose()?;
        let (cache, transport, memory) = (self.cache.mode(), self.transport.transport(), fs_kinds::half_of_memory());
        let order = MountOrder { kind, at, cache, transport, options, rest, memory, issuer: 0 };
        self.serve(order, on.map(|(spec, _)| spec), terminal)
    }
}

impl MountArgs {
    fn serve(&self, order: MountOrder, on: Option<Spec>, terminal: &mut Terminal) -> Result<(), Failure> {
        let signals = Signals::catch()?;
        let commands = order.transport == Transport::Uring;
        let reactor = Reactor::new(RealConfig { commands, ..RealConfig::seeded(1) })?;
        let rt = reactor.rt();
        self.logging.start(&rt)?;
        rt.set_secrets(crate::secrets::source());
        rt.set_watch(Some(terminal.watcher().watch()));
        let stop = notify::stopping(signals.first(&rt)?);
        let line = format!("{} is mounted at {}", order.kind.name, order.at.display());
        let mounted =
            reactor.block_on({
                let rt = rt.clone();
                async move {
                    SingleMount::start(&rt, &Pool::new(KEPT_BYTES_MAX), esker_kinds::ALL, on.as_ref(), &order).await
                }
            });
        rt.set_watch(None);
        terminal.watcher().end();
        let mounted = mounted.map_err(refused)?;
        let control = self
            .control
            .clone()
            .map_or(Ok(()), |path| mounted.take_commands(&rt, &Address::Unix(path), io_of(&reactor)));
        let told = control.map_err(refused).and_then(|()| {
            let pid_file = self.background.write_pid_file()?;
            terminal.say(&line)?;
            terminal.finish()?;
            self.background.serves(false, terminal)?;
            Ok(pid_file)
        });
        let _pid_file = match told {
            Ok(pid_file) => pid_file,
            Err(failure) => {
                // A mount whose caller has not heard of it is taken away again.
                reactor.block_on(mounted.run(std::future::ready(()), FLUSH_PATIENCE))?;
                return Err(failure);
            }
        };
        notify::ready(&rt, None);
        reactor.block_on(mounted.run(stop, FLUSH_PATIENCE))?;
        rt.log_event(Level::Info, "stopped", &[], format_args!("unmounted: everything is flushed"));
        Ok(())
    }
}

/// What the arguments say wrongly is a usage error.
fn refused(error: SingleMountError) -> Failure {
    match error {
        SingleMountError::FileSystem(MountedFsError::Kind(error)) => fs_kinds::refused(error),
        SingleMountError::FileSystem(MountedFsError::Options(error)) => Failure::Usage(error.to_string()),
        SingleMountError::FileSystem(MountedFsError::Below(Unusable { why, is_damage: true })) => Failure::Damaged(why),
        other => other.into(),
    }
}
