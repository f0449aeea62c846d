//! Loop devices: block devices of this machine over a file. Blocking calls, for start-up and tools.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zerocopy::{FromZeros, Immutable, IntoBytes};

/// `LOOP_CTL_GET_FREE`, `LOOP_CONFIGURE`, `LOOP_CLR_FD`, `LOOP_SET_CAPACITY` of `linux/loop.h`.
const GET_FREE: libc::Ioctl = 0x4C82;
const CONFIGURE: libc::Ioctl = 0x4C0A;
const CLEAR: libc::Ioctl = 0x4C01;
const SET_CAPACITY: libc::Ioctl = 0x4C07;

/// `LO_FLAGS_READ_ONLY`, `_PARTSCAN` and `_DIRECT_IO`.
const READ_ONLY: u32 = 1;
const PARTITIONS: u32 = 8;
const DIRECT: u32 = 16;

/// Another program may take the free device first; more often than that is no coincidence.
const TRIES: u32 = 64;

/// `struct loop_info64`.
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304);

/// How a loop device is set up. Its I/O bypasses the page cache of the file below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopSetup {
    /// Logical block in bytes.
    pub block: u32,
    /// Refuse writes.
    pub read_only: bool,
    /// Look for partitions.
    pub partitions: bool,
}

/// Sets up a free loop device over `file` and returns its path.
///
/// # Errors
/// The kernel's: `NotFound` without loop devices, `PermissionDenied` without root, `InvalidInput` for a block that it
/// does not take.
pub fn configure(file: &Path, setup: LoopSetup) -> io::Result<PathBuf> {
    let backing = OpenOptions::new().read(true).write(!setup.read_only).open(file)?;
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let mut config = Config::new_zeroed();
    config.fd = backing.as_raw_fd() as u32;
    config.block_size = setup.block;
    config.info.flags =
        DIRECT | if setup.read_only { READ_ONLY } else { 0 } | if setup.partitions { PARTITIONS } else { 0 };
    let name = file.as_os_str().as_encoded_bytes();
    let shown = name.len().min(config.info.file_name.len() - 1);
    config.info.file_name[..shown].copy_from_slice(&name[..shown]);
    let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
    for _ in 0..TRIES {
        let number = ioctl(&control, GET_FREE, std::ptr::null())?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(!setup.read_only).open(&path)?;
        match ioctl(&device, CONFIGURE, std::ptr::from_ref(&config).cast()) {
            Ok(_) => return Ok(path),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Lets a loop device go of its file: at once, or when the last user closes it.
///
/// # Errors
/// The kernel's; `ENXIO` if it has none.
pub fn clear(device: &Path) -> io::Result<()> {
    ioctl(&File::open(device)?, CLEAR, std::ptr::null()).map(drop)
}

/// Gives a loop device the size that its file has now, as far as the kernel knows it.
///
/// # Errors
/// The kernel's; `ENXIO` if it has no file.
pub fn resize(device: &Path) -> io::Result<()> {
    ioctl(&File::open(device)?, SET_CAPACITY, std::ptr::null()).map(drop)
}

/// `argument` points to what `request` takes, or nowhere.
fn ioctl(fd: &impl AsFd, request: libc::Ioctl, argument: *const libc::c_void) -> io::Result<i32> {
    // SAFETY: the four requests above either take no argument or a `Config`, which the kernel only reads and which
    // outlives the call.
    match unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A loop device over a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// The device.
    pub device: PathBuf,
    /// Whether it refuses writes.
    pub read_only: bool,
}

/// The file below the loop device, or the partition of one, that `device` is: none for other devices, and where its
/// name leads to no file or to another one.
///
/// # Errors
/// The kernel's, about `device`.
pub fn file_below(device: &Path) -> io::Result<Option<PathBuf>> {
    let number = std::fs::metadata(device)?.rdev();
    let entry = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number)));
    // A partition's entry lies in that of its device.
    let below = backing_file(&entry).or_else(|| backing_file(entry.canonicalize().ok()?.parent()?));
    Ok(below.filter(|path| path.exists()))
}

/// The loop devices over `file`.
///
/// # Errors
/// The kernel's, about `file`.
pub fn over(file: &Path) -> io::Result<Vec<Over>> {
    let own = std::fs::metadata(file)?;
    let is_own = |path: PathBuf| std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (own.dev(), own.ino()));
    // Without loop devices in the kernel, there are none.
    let all = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let loops = all.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"loop"));
    let own = loops.filter(|entry| backing_file(&entry.path()).is_some_and(is_own));
    let described = own.map(|entry| Over {
        device: Path::new("/dev").join(entry.file_name()),
        read_only: std::fs::read_to_string(entry.path().join("ro")).is_ok_and(|text| text.trim() == "1"),
    });
    Ok(described.collect())
}

/// What the kernel names as the file of the device with this entry.
fn backing_file(entry: &Path) -> Option<PathBuf> {
    let text = std::fs::read(entry.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text))))
}
