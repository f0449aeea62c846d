//! A real file system on a modelled device: the model serves the kernel at its own pace.

use std::path::{Path, PathBuf};
use std::process::Command;

use esker_fuse::Setup;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::experiment::LabError;
use crate::peer;
use crate::serving::{Serving, attach};

/// Of an ext4 on a model; all is undone when dropped.
pub struct Mounted {
    at: PathBuf,
    _serving: Serving,
}

impl Mounted {
    /// Serves the volume `vol` of a stack text as a block device, makes an ext4 on it and mounts it in a folder of `scratch`.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses; all of this takes root.
    pub fn new(name: &str, text: &str, scratch: &Path, seed: u64) -> Result<Mounted, LabError> {
        let (files, at) = (scratch.join(format!("{name}-files")), scratch.join(name));
        for dir in [&files, &at] {
            std::fs::create_dir(dir).map_err(|source| LabError::Scratch { dir: dir.clone(), source })?;
        }
        let setup = Setup { mount: files, partitions: false };
        let (serving, device) = attach(text, setup, seed)?;
        let made = Command::new("mkfs.ext4").args(["-q", "-E", "nodiscard"]).arg(&device).output();
        let made = made.map_err(|error| peer::fault("mkfs.ext4", error.to_string()))?;
        if !made.status.success() {
            return Err(peer::fault("mkfs.ext4", String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        let mounted = rustix::mount::mount(&device, &at, "ext4", MountFlags::NOATIME, c"");
        mounted.map_err(|error| peer::fault("mount", error.to_string()))?;
        Ok(Mounted { at, _serving: serving })
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
