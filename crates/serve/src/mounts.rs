//! Mounts of a served stack's text: what is wrong with them, their start, and their end.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use esker_block::Device;
use esker_front_fuse::{MountOptions, Transport, mount_point};
use esker_rt::Level;
use esker_rt::sync::join_all;
use esker_stack::{Location, MountSpec, Spec, Unusable};
use esker_vfs::{FsKind, FsKindError};

use crate::mounted_fs::{MountOrder, MountedFs, MountedFsError};
use crate::server::Shared;
use crate::stop::StopError;

/// What mounts of a text are opened with.
#[derive(Debug, Clone, Copy)]
pub struct FileSystems {
    /// The kinds that may be named.
    pub kinds: &'static [FsKind],
    /// Bytes of a file system in memory, unless an option says.
    pub memory: u64,
}

impl FileSystems {
    /// None: a text with mounts is not served.
    pub const NONE: FileSystems = FileSystems { kinds: &[], memory: 0 };
}

/// A mount that names a kind, a device or options that do not go together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{at}: mount \"{mount}\": {what}")]
pub struct UnsoundMount {
    /// Where it stands.
    pub at: Location,
    /// Its name.
    pub mount: String,
    /// What is wrong, and what to do.
    pub what: String,
}

/// All unsound mounts of a text, one a line.
#[derive(Debug, Clone, PartialEq)]
pub struct UnsoundMounts(pub Vec<UnsoundMount>);

impl fmt::Display for UnsoundMounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for UnsoundMounts {}

/// Checks what is known of the mounts of a text before anything is opened: kinds, devices and options.
///
/// # Errors
/// All that is wrong.
pub fn check(spec: &Spec, kinds: &'static [FsKind]) -> Result<(), UnsoundMounts> {
    let unsound = spec.mounts.iter().filter_map(|mount| {
        let what = told(&read(mount, kinds).err()?);
        Some(UnsoundMount { at: mount.at.clone(), mount: mount.name.clone(), what })
    });
    let unsound: Vec<UnsoundMount> = unsound.collect();
    if unsound.is_empty() { Ok(()) } else { Err(UnsoundMounts(unsound)) }
}

/// Options of a mount, and those of its kind, each with its value.
type ReadOptions = (MountOptions, Vec<(String, String)>);

/// The kind and the options of a mount.
fn read(mount: &MountSpec, kinds: &'static [FsKind]) -> Result<(&'static FsKind, ReadOptions), MountedFsError> {
    let kind = FsKind::find(kinds, &mount.fs)?;
    let (options, rest) = MountOptions::read(kind.name, &mount.options)?;
    kind.check(&rest, mount.device.is_some())?;
    Ok((kind, (options, rest)))
}

/// An error in the words of a text.
fn told(error: &MountedFsError) -> String {
    match error {
        MountedFsError::Kind(FsKindError::NoDevice(_)) => format!("{error}; add its device"),
        MountedFsError::Kind(FsKindError::NeedsNoDevice { .. }) => format!("{error}; leave its device out"),
        MountedFsError::Kind(_)
        | MountedFsError::Options(_)
        | MountedFsError::Place(_)
        | MountedFsError::Mount(_)
        | MountedFsError::Nested { .. }
        | MountedFsError::Below(_) => error.to_string(),
    }
}

fn unusable(error: &MountedFsError) -> Unusable {
    let is_damage = matches!(error, MountedFsError::Below(below) if below.is_damage);
    Unusable { why: told(error), is_damage }
}

/// One mount of a served stack's text.
pub(crate) struct HeldMount {
    /// What the text says, with the absolute path of its directory if it is mounted.
    pub spec: MountSpec,
    /// The file system, or why it is not mounted.
    pub fs: Result<Rc<MountedFs>, Unusable>,
}

impl HeldMount {
    /// Why it cannot be used.
    pub(crate) fn unusable(&self) -> Option<Unusable> {
        match &self.fs {
            Err(unusable) => Some(Unusable { why: whole(&unusable.why), ..*unusable }),
            Ok(fs) => match fs.closed() {
                Some(Err(errno)) => Some(Unusable::undamaged(format!("Its file system could not be closed: {errno}."))),
                Some(Ok(())) | None => None,
            },
        }
    }
}

/// A text as a whole sentence.
fn whole(text: &str) -> String {
    if text.ends_with('.') { text.to_string() } else { format!("{text}.") }
}

/// Opens and mounts all, in the order of the text. What cannot be mounted is kept with the reason.
pub(crate) async fn start(shared: &Rc<Shared>) {
    let spec = shared.stack.spec();
    // All directories are looked at before the first is mounted: the way to one may not lead through a file system that
    // this thread has to answer for.
    let places = places(&spec.mounts);
    for (number, (mount, place)) in spec.mounts.iter().zip(places).enumerate() {
        let (dir, fs) = match place {
            Ok(at) => (at.display().to_string(), open(shared, mount, at, number).await),
            Err(error) => (mount.dir.clone(), Err(error)),
        };
        let fs = fs.map_err(|error| unusable(&error)).inspect_err(|why| {
            let fields: [(&str, &dyn fmt::Display); 2] = [("mount", &mount.name), ("error", why)];
            let text = format_args!("{}: mount \"{}\": {why}", mount.at, mount.name);
            shared.rt.log_event(Level::Error, "mount_failed", &fields, text);
        });
        if let Ok(fs) = &fs {
            let (own, name, fs) = (shared.clone(), mount.name.clone(), fs.clone());
            shared.rt.spawn_detached("mount", async move { tell_end(&own, &name, &fs).await });
        }
        let spec = MountSpec { dir, ..mount.clone() };
        shared.mounts.borrow_mut().push(Rc::new(HeldMount { spec, fs }));
    }
}

/// The directory of each mount. Those of two mounts do not lie in each other.
fn places<'m>(mounts: &'m [MountSpec]) -> Vec<Result<PathBuf, MountedFsError>> {
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    let place = |mount: &'m MountSpec| {
        let at = mount_point(Path::new(&mount.dir))?;
        let other = taken.iter().find(|(_, other)| at.starts_with(other) || other.starts_with(&at));
        if let Some((other, _)) = other {
            return Err(MountedFsError::Nested { at, other: (*other).to_string() });
        }
        taken.push((&mount.name, at.clone()));
        Ok(at)
    };
    mounts.iter().map(place).collect()
}

async fn open(shared: &Shared, mount: &MountSpec, at: PathBuf, number: usize) -> Result<Rc<MountedFs>, MountedFsError> {
    let FileSystems { kinds, memory } = shared.file_systems;
    let (kind, (options, rest)) = read(mount, kinds)?;
    let stack = &shared.stack;
    if let Some(unusable) = stack.unusable(&mount.name) {
        return Err(MountedFsError::Below(unusable));
    }
    let device = stack.mount_device(&mount.name).map(|device| {
        // Clients of a read-only export of the same bytes learn what the file system changes.
        device.track_changes();
        Rc::new(device) as Rc<dyn Device>
    });
    let (cache, transport) = (mount.cache, Transport::Auto);
    let order = MountOrder { kind, at, cache, transport, options, rest, memory, issuer: number as u32 };
    MountedFs::start(&shared.rt, stack.pool(), &order, device).await
}

/// Waits for the end of a mount, and says so: it may end alone.
async fn tell_end(shared: &Shared, name: &str, fs: &MountedFs) {
    let (level, text) = match fs.ended().await {
        Ok(()) => (Level::Info, format!("mount \"{name}\": unmounted, and everything of it is flushed")),
        Err(errno) => (Level::Error, format!("mount \"{name}\": unmounted, but its file system failed: {errno}")),
    };
    shared.rt.log_event(level, "unmounted", &[("mount", &name)], format_args!("{text}"));
}

/// Unmounts all: what is in use is out of the tree at once, and served until its last user leaves. Then the file
/// systems are closed.
///
/// # Errors
/// The first that could not be closed; all are tried.
pub(crate) async fn stop(shared: &Shared) -> Result<(), StopError> {
    let stopped = join_all(shared.mounts().into_iter().map(|mount| async move {
        match &mount.fs {
            Ok(fs) => fs.stop().await.map_err(|errno| StopError::Mount { name: mount.spec.name.clone(), errno }),
            Err(_) => Ok(()),
        }
    }));
    stopped.await.into_iter().collect()
}

/// Makes durable what reached the file systems. What cannot be is told by the flush of the stack, or by the end.
pub(crate) async fn sync(shared: &Shared) {
    for mount in shared.mounts() {
        if let Ok(fs) = &mount.fs
            && let Err(errno) = fs.sync().await
        {
            let text = format_args!("mount \"{}\": its file system could not be synced: {errno}", mount.spec.name);
            shared.rt.log_event(Level::Error, "sync_failed", &[("mount", &mount.spec.name)], text);
        }
    }
}
