//! Exports as devices, from the mount to its end.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::Device;
use esker_rt::mem::Pool;
use esker_rt::sync::{Either, race};
use esker_rt::{Level, Rt};
use esker_sys::loop_device::LoopSetup;

use crate::exports::Exports;
use crate::isolated::{self, IsolatedCallError};
use crate::mounted::{Serving, transfer_limit};
use crate::mounting::{self, MountError, MountOptions};
use crate::serve::{CacheMode, ServeConfig};
use crate::volume::Volume;

/// After this time the log names what is waited for.
const PATIENCE: Nanos = Nanos::secs(2);

/// One export: the name of its file, and the device behind it.
pub struct Export {
    /// Its name.
    pub name: String,
    /// The device, mostly an export of a stack.
    pub device: Rc<dyn Device>,
}

/// Where and how exports are attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// An empty directory, on which the file system with the files is mounted.
    pub mount: PathBuf,
    /// Whether the kernel looks for partitions.
    pub partitions: bool,
}

/// An export that is a device now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its name.
    pub export: String,
    /// The device.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Logical block in bytes.
    pub block: u32,
    /// Whether changes are refused.
    pub read_only: bool,
}

/// Why exports cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No FUSE here.
    #[error("/dev/fuse cannot be opened: {0}; load the module `fuse`, or let the container see the device")]
    NoFuse(io::Error),
    /// Not permitted.
    #[error("{mount:?} cannot be mounted: {source}; attaching takes root with CAP_SYS_ADMIN")]
    Mount {
        /// The directory.
        mount: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// In virtual time there is no kernel.
    #[error(transparent)]
    Kernel(#[from] io::Error),
    /// A name that no file can have.
    #[error("export {0:?} cannot be a file's name: it must have 1 to 255 bytes, no / in it, and not be . or ..")]
    Name(String),
    /// A device that takes less than the kernel sends.
    #[error(
        "export \"{export}\" takes at most {max} bytes at a time, and a block device must take 4096; put a `split` \
         layer on top of it"
    )]
    Transfer {
        /// The export.
        export: String,
        /// Its limit.
        max: u32,
    },
    /// No loop device.
    #[error("export \"{export}\" has no loop device: {why}")]
    Loop {
        /// The export.
        export: String,
        /// What stands in the way.
        why: IsolatedCallError,
    },
}

/// Exports that are devices of this machine until [`Attached::stop`].
pub struct Attached {
    rt: Rt,
    mount: PathBuf,
    exports: Rc<Exports>,
    serving: Rc<Serving>,
    disks: RefCell<Vec<Disk>>,
}

impl Attached {
    /// Mounts the file system and sets up a loop device over each file. Requests are answered from then on.
    ///
    /// # Errors
    /// [`AttachError`]; what was done until then is undone.
    pub async fn start(rt: &Rt, pool: &Pool, exports: Vec<Export>, setup: &Setup) -> Result<Rc<Attached>, AttachError> {
        exports.iter().try_for_each(check)?;
        let volume = |export: Export| Rc::new(Volume::new(rt, pool, &export.name, export.device));
        let volumes: Vec<_> = exports.into_iter().map(volume).collect();
        let least = volumes.iter().map(|volume| volume.transfer_max()).min();
        let transfer_max = transfer_limit(least);
        let fd = mounting::mount_now(&setup.mount, transfer_max, &options())?;
        let exports = Rc::new(Exports::new(rt, volumes));
        let config = ServeConfig { cache: CacheMode::Devices, transfer_max, issuer: 0, ring: None };
        let attached = Rc::new(Attached {
            rt: rt.clone(),
            mount: setup.mount.clone(),
            serving: Serving::start(rt, pool, fd, exports.clone(), config)?,
            exports,
            disks: RefCell::default(),
        });
        match attached.set_up_devices(setup).await {
            Ok(()) => Ok(attached),
            Err(error) => {
                attached.stop().await;
                Err(error)
            }
        }
    }

    async fn set_up_devices(&self, setup: &Setup) -> Result<(), AttachError> {
        for volume in self.exports.volumes() {
            let (block, read_only) = (volume.block(), volume.is_read_only());
            let how = LoopSetup { block, read_only, partitions: setup.partitions };
            let path = isolated::configure(&self.rt, &self.mount.join(&volume.name), how).await;
            let path = path.map_err(|why| AttachError::Loop { export: volume.name.clone(), why })?;
            *volume.path.borrow_mut() = Some(path.clone());
            let disk = Disk { export: volume.name.clone(), path, size: volume.size(), block, read_only };
            self.disks.borrow_mut().push(disk);
        }
        Ok(())
    }

    /// The devices, in the order of the exports.
    pub fn disks(&self) -> Vec<Disk> {
        self.disks.borrow().clone()
    }

    /// How many of the files are open, each mostly by its loop device.
    pub fn opens(&self) -> u64 {
        self.serving.session.opens.get()
    }

    /// Waits until the file system is gone, whatever removed it.
    pub async fn ended(&self) {
        self.serving.ended().await;
    }

    /// Writes down what the page cache of an export's device holds back, before its ranges change on another way.
    pub async fn write_back(&self, export: &str) {
        if let Some(device) = self.device(export) {
            self.note(isolated::write_back(&self.rt, &device).await);
        }
    }

    /// Forgets what the page cache of an export's device holds of `ranges`, after they changed on another way.
    pub async fn forget(&self, export: &str, ranges: &[ByteRange]) {
        if let Some(device) = self.device(export) {
            self.note(isolated::forget(&self.rt, &device, ranges).await);
        }
    }

    /// Gives the device of an export the size that the export has now.
    pub async fn resized(&self, export: &str) {
        let volume = self.exports.volumes().iter().find(|volume| volume.name == export);
        let (Some(device), Some(volume)) = (self.device(export), volume) else { return };
        let size = volume.size();
        let done = isolated::resize(&self.rt, &self.mount.join(export), &device).await;
        if done.is_ok() {
            self.disks.borrow_mut().iter_mut().filter(|disk| disk.export == export).for_each(|disk| disk.size = size);
        }
        self.note(done);
    }

    fn device(&self, export: &str) -> Option<PathBuf> {
        self.disks.borrow().iter().find(|disk| disk.export == export).map(|disk| disk.path.clone())
    }

    /// Releases the devices and unmounts the file system. A device that is in use is released by its last user, which
    /// is waited for: requests are answered until then.
    pub async fn stop(&self) {
        let devices: Vec<PathBuf> = self.disks.borrow().iter().map(|disk| disk.path.clone()).collect();
        for device in &devices {
            self.note(isolated::release(&self.rt, device).await);
        }
        let closed = self.serving.session.opened.wait_until(|| self.opens() == 0);
        self.wait_for(closed, "until no program uses the devices: unmount what is mounted from them").await;
        self.note(isolated::unmount(&self.rt, &self.mount).await);
        self.wait_for(self.ended(), "until no program uses the files of the exports").await;
    }

    /// Waits; says so after a while. The end of the file system ends every wait.
    async fn wait_for(&self, what: impl Future<Output = ()>, why: &str) {
        let mut what = std::pin::pin!(race(what, self.ended()));
        if let Either::Right(()) = race(what.as_mut(), self.rt.sleep(PATIENCE)).await {
            self.rt.log(Level::Warn, format_args!("waiting {why}; a second signal ends this process at once"));
            what.await;
        }
    }

    fn note(&self, result: Result<(), IsolatedCallError>) {
        if let Err(error) = result {
            self.rt.log(Level::Error, format_args!("attach: {error}"));
        }
    }
}

fn check(export: &Export) -> Result<(), AttachError> {
    let (name, max) = (&export.name, export.device.limits().transfer_max);
    if name.is_empty() || name.len() > 255 || name.contains(['/', '\0']) || name == "." || name == ".." {
        return Err(AttachError::Name(name.clone()));
    }
    if max < 4096 {
        return Err(AttachError::Transfer { export: name.clone(), max });
    }
    Ok(())
}

/// Only this process's own loop devices use the files.
fn options() -> MountOptions {
    MountOptions {
        source: mounting::SUBTYPE.to_string(),
        read_only: false,
        exec: false,
        suid: false,
        dev: false,
        allow_other: false,
        check_permissions: false,
    }
}

impl From<MountError> for AttachError {
    fn from(error: MountError) -> AttachError {
        match error {
            MountError::NoFuse(source) => AttachError::NoFuse(source),
            MountError::Refused { at, source } => AttachError::Mount { mount: at, source },
            other => AttachError::Kernel(io::Error::other(other)),
        }
    }
}
