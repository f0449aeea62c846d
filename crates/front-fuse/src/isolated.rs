//! Blocking calls that this very process has to answer, each on a thread that holds none of its descriptors.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "device nodes of this machine")]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use esker_base::{ByteRange, Nanos};
use esker_rt::Rt;
use esker_sys::loop_device::{self, LoopSetup};
use esker_sys::{IsolatedCall, error_number, run_isolated};
use rustix::fs::{Advice, AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::mounting::{self, MountError};

/// Why a device or mount could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum IsolatedCallError {
    /// No loop device could be set up.
    #[error("{source}; {}", advice(source, *block))]
    Configure {
        /// Bytes of its logical block.
        block: u32,
        /// The kernel's words.
        source: io::Error,
    },
    /// A loop device keeps its file.
    #[error("{} cannot be released: {source}", device.display())]
    Release {
        /// The device.
        device: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// A file system stays.
    #[error("{} cannot be unmounted: {source}", mount.display())]
    Unmount {
        /// Where it is mounted.
        mount: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// A device, or its page cache, stays as it is.
    #[error("{}: {source}", device.display())]
    Device {
        /// The device.
        device: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
}

/// Sets up a loop device over a file and returns its path.
pub(crate) async fn configure(rt: &Rt, file: &Path, setup: LoopSetup) -> Result<PathBuf, IsolatedCallError> {
    let LoopSetup { block, read_only, partitions } = setup;
    let words = vec![path_word(file), block.to_string(), read_only.to_string(), partitions.to_string()];
    let device = run(rt, configure_now, words).await;
    device.map(PathBuf::from).map_err(|source| IsolatedCallError::Configure { block, source })
}

/// Lets a loop device go of its file, now or when its last user closes it. One that is not set up is fine.
pub(crate) async fn release(rt: &Rt, device: &Path) -> Result<(), IsolatedCallError> {
    let call: IsolatedCall = |words| told(loop_device::clear(Path::new(&words[0])));
    cleared(device, run(rt, call, vec![path_word(device)]).await.map(drop))
}

/// Gives a loop device the size that its file has now.
pub(crate) async fn resize(rt: &Rt, file: &Path, device: &Path) -> Result<(), IsolatedCallError> {
    let words = vec![path_word(file), path_word(device)];
    of_device(device, run(rt, |words| told(resize_now(words)), words).await)
}

/// Takes the file system away, now or when its last user leaves it.
pub(crate) async fn unmount(rt: &Rt, mount: &Path) -> Result<(), IsolatedCallError> {
    let call: IsolatedCall = |words| told(detach(Path::new(&words[0])));
    unmounted(mount, run(rt, call, vec![path_word(mount)]).await.map(drop))
}

/// The same for a mount of any user, by its own rights.
pub(crate) async fn leave(rt: &Rt, mount: &Path) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        let left = unmount(rt, mount).await;
        return left.map_err(|error| MountError::Kernel(io::Error::other(error)));
    }
    let mount = mount.to_path_buf();
    rt.worker(Nanos::ZERO, move || {
        // What is in use goes when its last user leaves it.
        mounting::unmount_by_helper(&mount, false).or_else(|_| mounting::unmount_by_helper(&mount, true))
    })
    .await
}

/// Writes down what the page cache of a device holds back.
pub(crate) async fn write_back(rt: &Rt, device: &Path) -> Result<(), IsolatedCallError> {
    let call: IsolatedCall = |words| told(File::open(&words[0]).and_then(|file| file.sync_all()));
    of_device(device, run(rt, call, vec![path_word(device)]).await)
}

/// Forgets what the page cache of a device holds of these ranges.
pub(crate) async fn forget(rt: &Rt, device: &Path, ranges: &[ByteRange]) -> Result<(), IsolatedCallError> {
    let numbers = ranges.iter().flat_map(|range| [range.start().to_string(), range.len().to_string()]);
    let words = std::iter::once(path_word(device)).chain(numbers).collect();
    of_device(device, run(rt, |words| told(forget_now(words)), words).await)
}

async fn run(rt: &Rt, call: IsolatedCall, words: Vec<String>) -> io::Result<String> {
    rt.worker(Nanos::ZERO, move || run_isolated(call, words)).await
}

/// Attachments have paths of our own making, which are text.
fn path_word(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A result that may leave an isolated call.
fn told(result: io::Result<()>) -> Result<String, i32> {
    result.map(|()| String::new()).map_err(|error| error_number(&error))
}

fn of_device(device: &Path, result: io::Result<String>) -> Result<(), IsolatedCallError> {
    result.map(drop).map_err(|source| IsolatedCallError::Device { device: device.to_path_buf(), source })
}

fn configure_now(words: &[String]) -> Result<String, i32> {
    let block = words[1].parse().expect("a number that was just written");
    let setup = LoopSetup { block, read_only: words[2] == "true", partitions: words[3] == "true" };
    let device = loop_device::configure(Path::new(&words[0]), setup);
    device.map(|device| path_word(&device)).map_err(|error| error_number(&error))
}

fn advice(error: &io::Error, block: u32) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            "this machine has no loop devices or no node for the next one: load the module `loop`, or let the container \
             see /dev/loop-control and /dev/loop*"
                .to_string()
        }
        Some(Errno::PERM | Errno::ACCESS) => "it takes root with CAP_SYS_ADMIN".to_string(),
        Some(Errno::INVAL) => {
            format!("this kernel takes no logical block of {block} bytes; put an `align` layer on top of the export")
        }
        _ => "the kernel's log (dmesg) may say more".to_string(),
    }
}

/// Lets a loop device go, for tools that clean up behind a process that died.
pub(crate) fn clear(device: &Path) -> Result<(), IsolatedCallError> {
    cleared(device, loop_device::clear(device))
}

fn cleared(device: &Path, result: io::Result<()>) -> Result<(), IsolatedCallError> {
    match result {
        Err(source) if source.raw_os_error() != Some(Errno::NXIO.raw_os_error()) => {
            Err(IsolatedCallError::Release { device: device.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

/// Unmounts, or takes the mount out of the tree where a program still uses it. No mount is fine.
pub(crate) fn unmount_now(mount: &Path) -> Result<(), IsolatedCallError> {
    unmounted(mount, detach(mount))
}

fn unmounted(mount: &Path, result: io::Result<()>) -> Result<(), IsolatedCallError> {
    result.map_err(|source| IsolatedCallError::Unmount { mount: mount.to_path_buf(), source })
}

fn detach(mount: &Path) -> io::Result<()> {
    let result = match rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW) {
        Err(Errno::BUSY) => rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH),
        other => other,
    };
    match result {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn resize_now(words: &[String]) -> io::Result<()> {
    // The kernel keeps the size that it was told, unless it is made to ask again.
    rustix::fs::statx(rustix::fs::CWD, &words[0], AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE)?;
    loop_device::resize(Path::new(&words[1]))
}

fn forget_now(words: &[String]) -> io::Result<()> {
    let device = OpenOptions::new().read(true).open(&words[0])?;
    for pair in words[1..].chunks_exact(2) {
        let (Ok(start), Ok(len)) = (pair[0].parse(), pair[1].parse::<u64>()) else { continue };
        rustix::fs::fadvise(&device, start, std::num::NonZero::new(len), Advice::DontNeed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_failed_why_and_what_helps() {
        let kernel = |errno: Errno| io::Error::from(errno);
        let (device, mount) = (PathBuf::from("/dev/loop7"), PathBuf::from("/run/m"));
        let told = [
            IsolatedCallError::Configure { block: 8192, source: kernel(Errno::INVAL) },
            IsolatedCallError::Release { device: device.clone(), source: kernel(Errno::BUSY) },
            IsolatedCallError::Unmount { mount, source: kernel(Errno::PERM) },
            IsolatedCallError::Device { device, source: kernel(Errno::IO) },
        ];
        let expected = [
            "Invalid argument (os error 22); this kernel takes no logical block of 8192 bytes; put an `align` layer on \
             top of the export",
            "/dev/loop7 cannot be released: Device or resource busy (os error 16)",
            "/run/m cannot be unmounted: Operation not permitted (os error 1)",
            "/dev/loop7: Input/output error (os error 5)",
        ];
        assert_eq!(told.map(|error| error.to_string()), expected);
    }

    #[test]
    fn a_device_that_is_not_set_up_and_a_mount_that_is_gone_are_fine() {
        assert!(cleared(Path::new("/dev/loop7"), Err(Errno::NXIO.into())).is_ok());
        assert!(unmount_now(Path::new("/no/such/mount")).is_ok());
    }
}
