//! File systems side by side: each lies on a loop device of its own, over an equal file of the scratch folder. The loop
//! devices pass the page cache of the files by.

use std::path::{Path, PathBuf};

use esker_front_fuse::CacheMode;
use esker_lab_kit::serve_process::ServeProcess;
use esker_lab_kit::{Lab, LabError, peer, scratch};
use esker_sys::loop_device::{self, LoopSetup};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use crate::artc::mounted::{FileSystem, count_of};
use crate::mounted::OwnMount;

/// Logical block of the loop devices in bytes.
const LOOP_BLOCK: u32 = 4096;
/// Room for files, where a file system has a fixed number.
const INODES: &str = "65536";

/// A file system, and how programs reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArmKind {
    /// `lfs`, mounted by `esker serve`.
    Lfs,
    /// One of the kernel's.
    Kernel(FileSystem),
    /// ext4 of the kernel, with calls passed through our FUSE server.
    Ext4Fuse,
}

impl ArmKind {
    /// Its name in figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ArmKind::Lfs => "lfs",
            ArmKind::Kernel(system) => system.name(),
            ArmKind::Ext4Fuse => "ext4_fuse",
        }
    }
}

/// A mounted file system. Dropping it takes everything away.
pub(crate) struct Arm<'l, 'a> {
    lab: &'l Lab<'a>,
    pub kind: ArmKind,
    /// Where programs find it.
    at: PathBuf,
    device: PathBuf,
    server: Server,
    folder: TempDir,
}

/// What makes calls reach it.
enum Server {
    /// Nothing beside the kernel.
    None,
    Lfs(ServeProcess),
    PassThrough(OwnMount),
}

fn fault(what: impl ToString) -> LabError {
    peer::fault("a file system beside others", what)
}

impl<'l, 'a> Arm<'l, 'a> {
    /// An empty file system of `bytes`.
    ///
    /// # Errors
    /// What the kernel refuses; this takes root.
    pub(crate) fn new(lab: &'l Lab<'a>, kind: ArmKind, bytes: u64) -> Result<Arm<'l, 'a>, LabError> {
        let folder = lab.folder()?;
        let file = folder.path().join("image");
        scratch::zero_file(&file, bytes)?;
        let at = folder.path().join("mounted");
        std::fs::create_dir(&at).map_err(LabError::scratch(&at))?;
        let setup = LoopSetup { block: LOOP_BLOCK, read_only: false, partitions: false };
        let device = loop_device::configure(&file, setup).map_err(fault)?;
        let mut arm = Arm { lab, kind, at, device, server: Server::None, folder };
        arm.make()?;
        arm.mount()?;
        Ok(arm)
    }

    fn make(&self) -> Result<(), LabError> {
        let device = self.device.display().to_string();
        let system = match self.kind {
            ArmKind::Lfs => {
                let own = std::env::current_exe().map_err(fault)?.display().to_string();
                let on = format!("disk = raw path={device} @");
                return peer::output(&own, &["fs", "mkfs", "lfs", "--live-counters", "--on", &on]).map(drop);
            }
            ArmKind::Kernel(system) => system,
            ArmKind::Ext4Fuse => FileSystem::Ext4,
        };
        let words = [system.make(INODES), vec![&device]].concat();
        peer::output(words[0], &words[1..]).map(drop)
    }

    fn mount(&mut self) -> Result<(), LabError> {
        match self.kind {
            ArmKind::Lfs => {
                let (device, at) = (self.device.display(), self.at.display());
                let disk = format!("[device.disk]\nkind = \"raw\"\npath = '{device}'\n");
                let mount = format!("[[mount]]\nname = \"lfs\"\nfs = \"lfs\"\nat = '{at}'\ndevice = \"disk\"\n");
                let server = ServeProcess::start(self.folder.path(), &format!("{disk}\n{mount}"), &[])?;
                self.server = Server::Lfs(server);
            }
            ArmKind::Kernel(system) => self.mount_device(system)?,
            ArmKind::Ext4Fuse => {
                self.mount_device(FileSystem::Ext4)?;
                let mount = OwnMount::of_directory(self.lab, CacheMode::Through, &self.at)?;
                self.server = Server::PassThrough(mount);
            }
        }
        Ok(())
    }

    fn mount_device(&self, system: FileSystem) -> Result<(), LabError> {
        rustix::mount::mount(&self.device, &self.at, system.name(), MountFlags::NOATIME, c"").map_err(fault)
    }

    fn unmount(&mut self) -> Result<(), LabError> {
        match std::mem::replace(&mut self.server, Server::None) {
            Server::Lfs(mut server) => return server.stop(),
            Server::PassThrough(mount) => drop(mount),
            Server::None => {}
        }
        rustix::mount::unmount(&self.at, UnmountFlags::empty()).map_err(fault)
    }

    /// Mounts it again: neither the kernel nor a server has anything of it in memory.
    ///
    /// # Errors
    /// What the kernel refuses, such as a file that is still open.
    pub(crate) fn forget(&mut self) -> Result<(), LabError> {
        self.unmount()?;
        self.mount()
    }

    /// Where programs find it.
    pub(crate) fn at(&self) -> &Path {
        match &self.server {
            Server::PassThrough(mount) => mount.path(),
            Server::None | Server::Lfs(_) => &self.at,
        }
    }

    /// The process that serves it, if one does.
    pub(crate) fn server(&mut self) -> Option<&mut ServeProcess> {
        match &mut self.server {
            Server::Lfs(server) => Some(server),
            Server::None | Server::PassThrough(_) => None,
        }
    }

    /// Bytes that were written to its device so far.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn written_bytes(&self) -> Result<u64, LabError> {
        count_of(&self.device, 6).map(|sectors| sectors * 512)
    }

    /// Bytes that files can still take.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn free_bytes(&self) -> Result<u64, LabError> {
        rustix::fs::statvfs(self.at()).map(|told| told.f_bavail * told.f_frsize).map_err(fault)
    }
}

impl Drop for Arm<'_, '_> {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            // After an error a file may be open still.
            let _gone = rustix::mount::unmount(&self.at, UnmountFlags::DETACH);
        }
        let _gone = loop_device::clear(&self.device);
    }
}
