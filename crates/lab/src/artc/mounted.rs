//! Real file systems on modelled devices: the model serves the kernel at its own pace.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use esker_base::units::MIB;
use esker_front_fuse::Setup;
use esker_rt::mem::Pool;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use esker_lab_kit::{
    LabError, peer,
    serving::{Serving, attach},
};

/// A disk of five times the usual speed, so that runs are short, and yet the disk, not this machine's CPUs, decides how
/// long they are. Its buffers are smaller than the profile's by as much as the files of experiments are smaller than
/// those of real programs: otherwise the disk would hold all of them.
pub const DISK: &str = "disk-model content=memory size=1GiB rpm=36000 seek_single=100us seek_average=1500us \
                        seek_full=3200us buffer=1MiB segments=8 read_ahead=128KiB";
/// Flash whose reads take long for the same reason.
pub const FLASH: &str = "ssd-model profile=ssd-sata-2021 content=memory size=1GiB read=800us";

/// Reads that leave nothing in the buffers of two disks of what was there before, and their length.
const ELSEWHERE: u64 = 24;
const BLOCK: u64 = 4096;

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
        // Fewer inodes than usual, which the kernel does not initialise later in the background, are soon written.
        match self {
            FileSystem::Ext3 => &["mkfs.ext3", "-q", "-F", "-N", "8192", "-E", EXT],
            FileSystem::Ext4 => &["mkfs.ext4", "-q", "-F", "-N", "8192", "-E", EXT],
            FileSystem::Xfs => &["mkfs.xfs", "-q", "-K", "-f"],
            FileSystem::Btrfs => &["mkfs.btrfs", "-q", "-K", "-f"],
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
    /// Serves the volume `vol` of a stack text as a block device, makes a file system on it and mounts it in a folder
    /// of `scratch`.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses; all of this takes root.
    pub fn new(name: &str, system: FileSystem, text: &str, scratch: &Path, seed: u64) -> Result<Mounted, LabError> {
        let (files, at) = (scratch.join(format!("{name}-files")), scratch.join(name));
        for dir in [&files, &at] {
            std::fs::create_dir(dir).map_err(LabError::scratch(&dir))?;
        }
        let setup = Setup { mount: files, partitions: false };
        let (serving, device) = attach(text, setup, seed)?;
        let mounted = Mounted { at, device, system, _serving: serving };
        mounted.make()?;
        mounted.mount()?;
        Ok(mounted)
    }

    fn make(&self) -> Result<(), LabError> {
        let [program, words @ ..] = self.system.make() else { unreachable!("every file system has a program") };
        let made = Command::new(program).args(words).arg(&self.device).output();
        let made = made.map_err(|error| peer::fault(program, error))?;
        match made.status.success() {
            true => Ok(()),
            false => Err(peer::fault(program, String::from_utf8_lossy(&made.stderr))),
        }
    }

    fn mount(&self) -> Result<(), LabError> {
        let mounted = rustix::mount::mount(&self.device, &self.at, self.system.name(), MountFlags::NOATIME, c"");
        mounted.map_err(|error| peer::fault("mount", error.to_string()))
    }

    fn unmount(&self) -> Result<(), LabError> {
        let unmounted = rustix::mount::unmount(&self.at, UnmountFlags::empty());
        unmounted.map_err(|error| peer::fault("umount", error))
    }

    /// Makes the file system anew. Of two programs that begin so, both find their files where it puts the first ones.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses.
    pub fn renew(&self) -> Result<(), LabError> {
        self.unmount()?;
        self.make()?;
        self.mount()
    }

    /// Unmounts and mounts it: everything is on the device, and neither the kernel nor the device's own buffers hold
    /// what files hold.
    ///
    /// # Errors
    /// What the kernel refuses, such as a file that is still open.
    pub fn forget(&self) -> Result<(), LabError> {
        self.unmount()?;
        self.read_elsewhere().map_err(|error| peer::fault("the device", error))?;
        self.mount()
    }

    /// Reads blocks all over the device, past the kernel's cache, for which its buffers give up what they hold.
    fn read_elsewhere(&self) -> io::Result<()> {
        let device = rustix::fs::open(&self.device, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
        let mut block = Pool::default().slab(BLOCK as usize);
        let bytes = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?;
        let step = (bytes / ELSEWHERE).next_multiple_of(MIB).max(MIB);
        for at in (0..bytes).step_by(step as usize) {
            rustix::io::pread(&device, &mut block[..BLOCK as usize], at)?;
        }
        Ok(())
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The block device it lies on.
    pub fn device(&self) -> &Path {
        &self.device
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
