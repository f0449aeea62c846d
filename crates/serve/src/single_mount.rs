//! One mount in a process of its own, over nothing or over the one export of a stack: `esker mount`.

use std::future::Future;
use std::rc::Rc;

use esker_base::{Errno, Nanos, Time};
use esker_block::{Created, Device, Kind};
use esker_front_fuse::Alive;
use esker_front_nbd::listen::{ListenError, listen_as};
use esker_rt::mem::Pool;
use esker_rt::net::{Address, Stream};
use esker_rt::sync::{Either, race};
use esker_rt::{Level, Rt};
use esker_stack::{BuildError, KernelCache, Measure, Spec, Stack};

use serde_json::Value;

use crate::command::Command;
use crate::config::CONTROL_MODE;
use crate::console::{self, Performer};
use crate::dispatch::hello;
use crate::mounted_fs::{MountOrder, MountedFs, MountedFsError};
use crate::refusal::Refusal;
use crate::server::only_mode;
use crate::status::{Load, MountStatus, Status};
use crate::stop::StopError;

/// How long requests in flight may hold up the beginning of measurements.
const MEASURE_PATIENCE: Nanos = Nanos::secs(10);

/// Why a process of its own does not mount.
#[derive(Debug, thiserror::Error)]
pub enum SingleMountError {
    /// The stack cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The stack has not one export.
    #[error("the stack has {0} exports; a file system lies on one, so name a stack with one export")]
    Exports(usize),
    /// The stack has mounts of its own.
    #[error("the stack has mounts of its own; `esker serve` mounts them")]
    Mounts,
    /// The control socket.
    #[error("control socket: {0}; --control PATH names another one")]
    Control(ListenError),
    /// The file system.
    #[error(transparent)]
    FileSystem(#[from] MountedFsError),
}

/// A mount and what is below it.
pub struct SingleMount {
    mount: Rc<Mount>,
    /// `esker umount` waits until all is flushed, and not only the file system closed.
    _alive: Option<Alive>,
}

/// What a mount consists of.
struct Mount {
    fs: Rc<MountedFs>,
    name: String,
    /// The stack and its export.
    stack: Option<(Rc<Stack>, String)>,
    at: String,
    cache: KernelCache,
}

impl SingleMount {
    /// Builds the stack if there is one, opens the file system on its one export, and mounts it. Requests are answered
    /// from then on, as far as the world turns. `layers` are the kinds of devices and layers.
    ///
    /// # Errors
    /// [`SingleMountError`]; what was opened is closed then, and what was created is removed.
    pub async fn start(
        rt: &Rt,
        pool: &Pool,
        layers: &'static [&'static Kind],
        on: Option<&Spec>,
        order: &MountOrder,
    ) -> Result<SingleMount, SingleMountError> {
        let created = Created::default();
        let stack = match on {
            Some(spec) if !spec.mounts.is_empty() => return Err(SingleMountError::Mounts),
            Some(spec) if spec.exports.len() != 1 => return Err(SingleMountError::Exports(spec.exports.len())),
            Some(spec) => Some((Stack::build_served(rt, pool, layers, spec, &created)?, spec.exports[0].name.clone())),
            None => None,
        };
        let fs = match &stack {
            Some((stack, export)) => over(rt, pool, stack, export, order).await,
            None => MountedFs::start(rt, pool, order, None).await,
        };
        match fs {
            Ok(fs) => {
                created.keep();
                let (name, at) = (order.kind.name.to_string(), order.at.display().to_string());
                let alive = fs.take_alive();
                Ok(SingleMount { mount: Rc::new(Mount { fs, name, stack, at, cache: order.cache }), _alive: alive })
            }
            Err(error) => {
                if let Some((stack, _)) = stack {
                    stack.close().await;
                }
                Err(error.into())
            }
        }
    }

    /// Takes commands at an address, for its owner alone, until the mount is gone: `hello`, `status`, and orders to the
    /// file system under the name of its kind. `io` says how the kernel is reached.
    ///
    /// # Errors
    /// [`SingleMountError::Control`].
    pub fn take_commands(&self, rt: &Rt, at: &Address, io: &str) -> Result<(), SingleMountError> {
        let listener = Rc::new(listen_as(rt, at, only_mode(CONTROL_MODE)).map_err(SingleMountError::Control)?);
        let console =
            Rc::new(MountConsole { mount: self.mount.clone(), rt: rt.clone(), since: rt.now(), io: io.to_string() });
        rt.spawn_detached("control-accept", console::serve(rt.clone(), console, listener));
        if let Some((stack, _)) = self.mount.stack.clone() {
            // The program that asks for the status wants to see the devices at work.
            let own = rt.clone();
            rt.spawn_detached("meters", async move {
                if let Err(error) = stack.measure(Measure::Devices, MEASURE_PATIENCE).await {
                    own.log(Level::Warn, format_args!("devices are not measured: {error}"));
                }
            });
        }
        Ok(())
    }

    /// Serves until the mount is gone, or until `stop` is ready and the last user has left. Then the file system is
    /// closed, and the stack is flushed within `patience` and closed.
    ///
    /// # Errors
    /// [`StopError`] for what could not be closed or flushed.
    pub async fn run(self, stop: impl Future<Output = ()>, patience: Nanos) -> Result<(), StopError> {
        let Mount { fs, name, stack, .. } = &*self.mount;
        let closed = match race(stop, fs.ended()).await {
            Either::Left(()) => fs.stop().await,
            Either::Right(closed) => closed,
        };
        let closed = closed.map_err(|errno: Errno| StopError::Mount { name: name.clone(), errno });
        let shut = match stack {
            Some((stack, _)) => stack.shut(patience).await.map_err(StopError::from),
            None => Ok(()),
        };
        closed.and(shut)
    }
}

/// The control socket of one mount.
struct MountConsole {
    mount: Rc<Mount>,
    rt: Rt,
    since: Time,
    io: String,
}

impl MountConsole {
    fn status(&self) -> Status {
        let Mount { fs, name, stack, at, cache } = &*self.mount;
        let below = stack.as_ref().map(|(stack, export)| (stack, export.as_str()));
        let device = below.and_then(|(stack, export)| {
            let spec = stack.spec();
            spec.exports.iter().find(|known| known.name == export).map(|known| known.device.clone())
        });
        let mount = MountStatus {
            at: at.clone(),
            device,
            cache: cache.word().to_string(),
            load: below.and_then(|(stack, export)| Some(Load::of(&stack.export(export)?.reading()?))),
            ..MountStatus::of(name, name, Some(fs))
        };
        Status::of_mount(mount, below.map(|(stack, _)| &**stack), self.rt.now().since(self.since), &self.io)
    }
}

impl Performer for MountConsole {
    async fn perform(&self, line: &[u8]) -> Result<Value, Refusal> {
        match Command::parse(line)? {
            Command::Hello {} => Ok(hello(None)),
            Command::Order { device, words } if device == self.mount.name => {
                let refused = |errno: Errno| Refusal::new("refused", &errno.to_string()).at(&device);
                self.mount.fs.ask(&words).await.map(Value::String).map_err(refused)
            }
            Command::Order { device, .. } => {
                Err(Refusal::new("unknown_name", &format!("the mount is named \"{}\"", self.mount.name)).at(&device))
            }
            Command::Status {} => Ok(serde_json::to_value(self.status()).expect("a status is texts and numbers")),
            Command::Dump {}
            | Command::Insert { .. }
            | Command::Remove { .. }
            | Command::Replace { .. }
            | Command::Attach { .. }
            | Command::Detach { .. }
            | Command::Reorder { .. }
            | Command::Remap { .. }
            | Command::Resize { .. }
            | Command::Sync { .. }
            | Command::Freeze { .. }
            | Command::Thaw { .. }
            | Command::Meters { .. }
            | Command::HandOver { .. }
            | Command::Stop { .. } => {
                let what = "one mount tells its status and takes orders; `esker serve` takes the other commands";
                Err(Refusal::new("unsupported", what))
            }
        }
    }

    fn see_off(&self, _: &Stream) {}

    async fn stopping(&self) {
        // What closing it gave is told by the end of the mount.
        let _told = self.mount.fs.ended().await;
    }
}

/// Mounts a file system on an export.
async fn over(
    rt: &Rt,
    pool: &Pool,
    stack: &Rc<Stack>,
    export: &str,
    order: &MountOrder,
) -> Result<Rc<MountedFs>, MountedFsError> {
    stack.opened().await;
    if let Some(unusable) = stack.unusable(export) {
        return Err(MountedFsError::Below(unusable));
    }
    let device = stack.export(export).expect("a stack has the exports of its text");
    MountedFs::start(rt, pool, order, Some(Rc::new(device) as Rc<dyn Device>)).await
}
