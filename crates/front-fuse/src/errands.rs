//! Blocking calls that this very process has to answer, each on a thread that holds none of its descriptors.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "device nodes of this machine")]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use esker_base::{ByteRange, Nanos};
use esker_rt::Rt;
use esker_sys::loop_device::{self, LoopSetup};
use esker_sys::{IsolatedCall, run_isolated};
use rustix::fs::{Advice, AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Sets up a loop device over a file and returns its path.
pub(crate) async fn configure(rt: &Rt, file: &Path, setup: LoopSetup) -> Result<String, String> {
    let LoopSetup { block, read_only, partitions } = setup;
    let words = vec![path_word(file), block.to_string(), read_only.to_string(), partitions.to_string()];
    run(rt, configure_apart, words).await
}

/// Lets a loop device go of its file, now or when its last user closes it. One that is not set up is fine.
pub(crate) async fn release(rt: &Rt, device: &Path) -> Result<String, String> {
    run(rt, |words| clear(Path::new(&words[0])).map(|()| String::new()), vec![path_word(device)]).await
}

/// Gives a loop device the size that its file has now.
pub(crate) async fn resize(rt: &Rt, file: &Path, device: &Path) -> Result<String, String> {
    run(rt, |words| told(&words[1], resize_apart(words)), vec![path_word(file), path_word(device)]).await
}

/// Takes the file system away, now or when its last user leaves it.
pub(crate) async fn unmount(rt: &Rt, mount: &Path) -> Result<String, String> {
    run(rt, |words| unmount_now(Path::new(&words[0])).map(|()| String::new()), vec![path_word(mount)]).await
}

/// Writes down what the page cache of a device holds back.
pub(crate) async fn write_back(rt: &Rt, device: &Path) -> Result<String, String> {
    run(rt, |words| told(&words[0], File::open(&words[0]).and_then(|file| file.sync_all())), vec![path_word(device)])
        .await
}

/// Forgets what the page cache of a device holds of these ranges.
pub(crate) async fn forget(rt: &Rt, device: &Path, ranges: &[ByteRange]) -> Result<String, String> {
    let numbers = ranges.iter().flat_map(|range| [range.start().to_string(), range.len().to_string()]);
    let words = std::iter::once(path_word(device)).chain(numbers).collect();
    run(rt, |words| told(&words[0], forget_apart(words)), words).await
}

async fn run(rt: &Rt, errand: IsolatedCall, words: Vec<String>) -> Result<String, String> {
    rt.worker(Nanos::ZERO, move || run_isolated(errand, words)).await
}

/// Attachments have paths of our own making, which are text.
fn path_word(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn told(what: &str, result: io::Result<()>) -> Result<String, String> {
    result.map(|()| String::new()).map_err(|error| format!("{what}: {error}"))
}

fn configure_apart(words: &[String]) -> Result<String, String> {
    let block = words[1].parse().map_err(|_| format!("{:?} is no block", words[1]))?;
    let setup = LoopSetup { block, read_only: words[2] == "true", partitions: words[3] == "true" };
    match loop_device::configure(Path::new(&words[0]), setup) {
        Ok(device) => Ok(path_word(&device)),
        Err(error) => Err(format!("{error}; {}", advice(&error, block))),
    }
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

/// Lets a loop device go. For errands, and for tools that clean up behind a process that died.
pub(crate) fn clear(device: &Path) -> Result<(), String> {
    match loop_device::clear(device) {
        Err(error) if error.raw_os_error() != Some(Errno::NXIO.raw_os_error()) => {
            Err(format!("{} cannot be released: {error}", device.display()))
        }
        _ => Ok(()),
    }
}

/// Unmounts, or takes the mount out of the tree where a program still uses it. No mount is fine.
pub(crate) fn unmount_now(mount: &Path) -> Result<(), String> {
    let result = match rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW) {
        Err(Errno::BUSY) => rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH),
        other => other,
    };
    match result {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(format!("{} cannot be unmounted: {error}", mount.display())),
    }
}

fn resize_apart(words: &[String]) -> io::Result<()> {
    // The kernel keeps the size that it was told, unless it is made to ask again.
    rustix::fs::statx(rustix::fs::CWD, &words[0], AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE)?;
    loop_device::resize(Path::new(&words[1]))
}

fn forget_apart(words: &[String]) -> io::Result<()> {
    let device = OpenOptions::new().read(true).open(&words[0])?;
    for pair in words[1..].chunks_exact(2) {
        let (Ok(start), Ok(len)) = (pair[0].parse(), pair[1].parse::<u64>()) else { continue };
        rustix::fs::fadvise(&device, start, std::num::NonZero::new(len), Advice::DontNeed)?;
    }
    Ok(())
}
