//! Real file systems on modelled devices: the model serves the kernel at its own pace.

use std::path::{Path, PathBuf};
use std::process::Command;

use esker_fuse::Setup;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::experiment::LabError;
use crate::peer;
use crate::serving::{Serving, attach};

/// A file system of the kernel. None is made in the background after it was mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext3, by the driver of ext4.
    Ext3,
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystem {
    /// What the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext3 => "ext3",
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// What makes it, before the name of the device.
    fn make(self) -> &'static [&'static str] {
        const EXT: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        match self {
            FileSystem::Ext3 => &["mkfs.ext3", "-q", "-E", EXT],
            FileSystem::Ext4 => &["mkfs.ext4", "-q", "-E", EXT],
            FileSystem::Xfs => &["mkfs.xfs", "-q", "-K"],
            FileSystem::Btrfs => &["mkfs.btrfs", "-q", "-K"],
        }
    }
}

/// Of a file system on a model; all is undone when dropped.
pub struct Mounted {
    at: PathBuf,
    device: PathBuf,
    system: FileSystem,
    _serving: Serving,
}

impl Mounted {
    /// Serves the volume `vol` of a stack text as a block device, makes a file system on it and mounts it in a folder of
    /// `scratch`.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses; all of this takes root.
    pub fn new(name: &str, system: FileSystem, text: &str, scratch: &Path, seed: u64) -> Result<Mounted, LabError> {
        let (files, at) = (scratch.join(format!("{name}-files")), scratch.join(name));
        for dir in [&files, &at] {
            std::fs::create_dir(dir).map_err(|source| LabError::Scratch { dir: dir.clone(), source })?;
        }
        let setup = Setup { mount: files, partitions: false };
        let (serving, device) = attach(text, setup, seed)?;
        let [program, words @ ..] = system.make() else { unreachable!("every file system has a program") };
        let made = Command::new(program).args(words).arg(&device).output();
        let made = made.map_err(|error| peer::fault(program, error.to_string()))?;
        if !made.status.success() {
            return Err(peer::fault(program, String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        let mounted = Mounted { at, device, system, _serving: serving };
        mounted.mount()?;
        Ok(mounted)
    }

    fn mount(&self) -> Result<(), LabError> {
        let mounted = rustix::mount::mount(&self.device, &self.at, self.system.name(), MountFlags::NOATIME, c"");
        mounted.map_err(|error| peer::fault("mount", error.to_string()))
    }

    /// Unmounts and mounts it: everything is on the device, and the kernel has forgotten what its files hold.
    ///
    /// # Errors
    /// What the kernel refuses, such as a file that is still open.
    pub fn forget(&self) -> Result<(), LabError> {
        let unmounted = rustix::mount::unmount(&self.at, UnmountFlags::empty());
        unmounted.map_err(|error| peer::fault("umount", error.to_string()))?;
        self.mount()
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// A run directory on it.
    pub fn run_dir(&self) -> PathBuf {
        self.at.join("run")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What is still in use goes when it is not; the model's server is stopped afterwards.
        let _unmounted = rustix::mount::unmount(&self.at, UnmountFlags::empty())
            .or_else(|_| rustix::mount::unmount(&self.at, UnmountFlags::DETACH));
    }
}
