//! Real file systems on modelled devices: the model serves the kernel at its own pace.

use std::io;
use std::path::{Path, PathBuf};

use esker_base::units::MIB;
use esker_front_fuse::Setup;
use esker_rt::mem::Pool;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use esker_lab_kit::serving::{Serving, attach};
use esker_lab_kit::{Lab, LabError, peer};

/// A disk of the catalogue. Its buffer is smaller than the files of experiments.
const DISK: &str = "disk-model profile=hdd-15k-2008 content=memory size=1GiB";
/// A disk of five times the usual speed, so that runs are short, and yet the disk, not this machine's CPUs, decides
/// how long they are. Its buffers are smaller than the profile's by as much as the files of experiments are smaller
/// than those of real programs: otherwise the disk would hold all of them.
const FAST_DISK: &str = "disk-model content=memory size=1GiB rpm=36000 seek_single=100us seek_average=1500us \
                        seek_full=3200us buffer=1MiB segments=8 read_ahead=128KiB";
/// Flash of the catalogue.
const FLASH: &str = "ssd-model profile=ssd-sata-2021 content=memory size=1GiB";
/// The same flash, but its reads take so long that the device, not this machine's CPUs, decides how long runs are.
const SLOW_FLASH: &str = "ssd-model profile=ssd-sata-2021 content=memory size=1GiB read=800us";

/// What a file system lies on, where nothing more is said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelDevice {
    /// One disk of the catalogue.
    Disk,
    /// Two disks of the catalogue, striped.
    Striped,
    /// Flash of the catalogue.
    Flash,
    /// One disk that is faster than any.
    FastDisk,
    /// Two of these, striped.
    FastStriped,
    /// Flash that is slower than any.
    SlowFlash,
}

impl ModelDevice {
    /// As a stack text with the volume `vol`.
    pub(crate) fn text(self) -> String {
        let striped = |disk| format!("a = {disk}; b = {disk}; vol = stripe chunk=512KiB on a, b");
        match self {
            ModelDevice::Disk => format!("vol = {DISK}"),
            ModelDevice::Striped => striped(DISK),
            ModelDevice::Flash => format!("vol = {FLASH}"),
            ModelDevice::FastDisk => format!("vol = {FAST_DISK}"),
            ModelDevice::FastStriped => striped(FAST_DISK),
            ModelDevice::SlowFlash => format!("vol = {SLOW_FLASH}"),
        }
    }
}

/// Room for files, where nothing more is said.
const INODES: u32 = 8192;
/// Reads that leave nothing in the buffers of two disks, or of one with 64 segments, of what was there before.
const ELSEWHERE: u64 = 72;
/// How long each is.
const BLOCK: u64 = 4096;
/// Bytes of a chunk of striped disks. Reads that are an odd number of chunks apart come to both disks.
const CHUNK: u64 = MIB / 2;

/// A file system of the kernel. None is made in the background after it was mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
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
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext3 => "ext3",
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// What makes it, before the name of the device; `inodes` is their number where a file system has a fixed one.
    pub(crate) fn make(self, inodes: &str) -> Vec<&str> {
        const EXT: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        // Fewer inodes than usual, which the kernel does not initialise later in the background, are soon written.
        match self {
            FileSystem::Ext3 => vec!["mkfs.ext3", "-q", "-F", "-N", inodes, "-E", EXT],
            FileSystem::Ext4 => vec!["mkfs.ext4", "-q", "-F", "-N", inodes, "-E", EXT],
            FileSystem::Xfs => vec!["mkfs.xfs", "-q", "-K", "-f"],
            FileSystem::Btrfs => vec!["mkfs.btrfs", "-q", "-K", "-f"],
        }
    }
}

/// Of a file system on a model; all is undone when dropped.
pub(crate) struct Mounted {
    at: PathBuf,
    device: PathBuf,
    system: FileSystem,
    inodes: u32,
    _serving: Serving,
    _folder: TempDir,
}

impl Mounted {
    /// Serves the volume `vol` of a stack text as a block device, makes a file system on it and mounts it in a
    /// scratch folder.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses; all of this takes root.
    pub(crate) fn new(lab: &Lab<'_>, system: FileSystem, text: &str) -> Result<Mounted, LabError> {
        Mounted::with_inodes(lab, system, text, INODES)
    }

    /// The same with room for so many files, where a file system has a fixed number.
    ///
    /// # Errors
    /// As [`Mounted::new`].
    pub(crate) fn with_inodes(lab: &Lab<'_>, system: FileSystem, text: &str, inodes: u32) -> Result<Mounted, LabError> {
        let folder = lab.folder()?;
        let [files, at] = ["files", "mounted"].map(|name| folder.path().join(name));
        for dir in [&files, &at] {
            std::fs::create_dir(dir).map_err(LabError::scratch(&dir))?;
        }
        let (serving, device) = attach(text, Setup { mount: files, partitions: false }, lab.seed)?;
        let mounted = Mounted { at, device, system, inodes, _serving: serving, _folder: folder };
        mounted.make()?;
        mounted.mount()?;
        Ok(mounted)
    }

    fn make(&self) -> Result<(), LabError> {
        let (inodes, device) = (self.inodes.to_string(), self.device.display().to_string());
        let words = [self.system.make(&inodes), vec![&device]].concat();
        peer::output(words[0], &words[1..]).map(drop)
    }

    fn mount(&self) -> Result<(), LabError> {
        let mounted = rustix::mount::mount(&self.device, &self.at, self.system.name(), MountFlags::NOATIME, c"");
        mounted.map_err(|error| peer::fault("mount", error.to_string()))
    }

    fn unmount(&self) -> Result<(), LabError> {
        let unmounted = rustix::mount::unmount(&self.at, UnmountFlags::empty());
        unmounted.map_err(|error| peer::fault("umount", error))
    }

    /// ext4 on a model.
    ///
    /// # Errors
    /// As [`Mounted::new`].
    pub(crate) fn ext4(lab: &Lab<'_>, device: ModelDevice) -> Result<Mounted, LabError> {
        Mounted::new(lab, FileSystem::Ext4, &device.text())
    }

    /// Makes the file system anew. Of two programs that begin so, both find their files where it puts the first ones.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses.
    pub(crate) fn renew(&self) -> Result<(), LabError> {
        self.unmount()?;
        self.make()?;
        self.mount()
    }

    /// Unmounts and mounts it: everything is on the device, and neither the kernel nor the device's own buffers hold
    /// what files hold.
    ///
    /// # Errors
    /// What the kernel refuses, such as a file that is still open.
    pub(crate) fn forget(&self) -> Result<(), LabError> {
        self.unmount()?;
        self.read_elsewhere().map_err(|error| peer::fault("the device", error))?;
        self.mount()
    }

    /// Reads blocks all over the device, past the kernel's cache, for which its buffers give up what they hold.
    fn read_elsewhere(&self) -> io::Result<()> {
        let device = rustix::fs::open(&self.device, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
        let mut block = Pool::default().slab(BLOCK as usize);
        let bytes = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?;
        let step = (bytes / ELSEWHERE).next_multiple_of(2 * CHUNK) + CHUNK;
        for at in (0..bytes).step_by(step as usize) {
            rustix::io::pread(&device, &mut block[..BLOCK as usize], at)?;
        }
        Ok(())
    }

    /// How many reads came to the device so far.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn reads(&self) -> Result<u64, LabError> {
        count_of(&self.device, 0)
    }

    /// Where it is mounted.
    pub(crate) fn at(&self) -> &Path {
        &self.at
    }

    /// The block device it lies on.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    /// A run directory on it.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.at.join("run")
    }
}

/// A count of the kernel's of a block device: 0 are reads, 6 sectors written.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn count_of(device: &Path, number: usize) -> Result<u64, LabError> {
    let path = Path::new("/sys/class/block").join(device.file_name().unwrap_or_default()).join("stat");
    let counts = std::fs::read_to_string(&path).map_err(LabError::scratch(&path))?;
    let count = counts.split_whitespace().nth(number).and_then(|count| count.parse().ok());
    count.ok_or_else(|| peer::fault("the device", format!("its counts are {counts:?}")))
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What is still in use goes when it is not; the model's server is stopped afterwards.
        let _unmounted = rustix::mount::unmount(&self.at, UnmountFlags::empty())
            .or_else(|_| rustix::mount::unmount(&self.at, UnmountFlags::DETACH));
    }
}
