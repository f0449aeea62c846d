//! Mounts: by the kernel's call for the superuser, and through `fusermount3` for others.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "ordinary users mount through a program that has the right to"
)]

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};

use crate::transport::TransportError;

/// The program that mounts for ordinary users.
const HELPER: &str = "fusermount3";
/// The environment variable that names its socket.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";
/// How the kernel names the type of our mounts.
pub(crate) const SUBTYPE: &str = "esker";

/// How a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// What `mount` and `df` show as its source.
    pub source: String,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whether programs in it may run.
    pub exec: bool,
    /// Whether programs in it get the rights of their owner.
    pub suid: bool,
    /// Whether device nodes in it lead to devices.
    pub dev: bool,
    /// Whether other users may enter it.
    pub allow_other: bool,
    /// Whether the kernel checks permissions by modes and owners.
    pub check_permissions: bool,
}

/// Why a file system cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No FUSE here.
    #[error("/dev/fuse cannot be opened: {0}; load the module `fuse`, or let the container see the device")]
    NoFuse(io::Error),
    /// The kernel refuses.
    #[error("{}: cannot be mounted: {source}{}", at.display(), advice(source))]
    Refused {
        /// The directory.
        at: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// It stays mounted.
    #[error("{}: cannot be unmounted: {source}", at.display())]
    Stays {
        /// The directory.
        at: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// No helper.
    #[error("{HELPER}: {0}; an ordinary user mounts through it: install the package fuse3, or mount as the superuser")]
    NoHelper(io::Error),
    /// The helper refuses.
    #[error("{}: {HELPER} said: {words}{}", at.display(), advice_for_users(words))]
    Helper {
        /// The directory.
        at: PathBuf,
        /// What it said.
        words: String,
    },
    /// No io_uring, which was asked for.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// In virtual time there is no kernel.
    #[error(transparent)]
    Kernel(#[from] io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PERM | Errno::ACCESS) => "; it takes root with CAP_SYS_ADMIN",
        _ => "",
    }
}

fn advice_for_users(words: &str) -> &'static str {
    match words {
        words if words.contains("/dev/fuse") => "; users need read and write access to /dev/fuse (mode 666)",
        words if words.contains("user_allow_other") => "; or leave -o allow_other away",
        _ => "",
    }
}

/// A program's words on one line.
fn words(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    let own_name = format!("{HELPER}: ");
    let lines = told.lines().map(|line| line.trim().trim_start_matches(&own_name)).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// Mounts an empty file system, of which the descriptor answers all requests. `read_max`: most bytes of a read.
///
/// # Errors
/// [`MountError`].
pub(crate) fn mount(at: &Path, read_max: u32, options: &MountOptions) -> Result<OwnedFd, MountError> {
    if rustix::process::geteuid().is_root() {
        mount_now(at, read_max, options)
    } else {
        mount_by_helper(at, read_max, options)
    }
}

/// User and group of this process, for file systems that belong to it.
pub fn owner() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Options that the kernel's FUSE takes.
fn fuse_options(read_max: u32, options: &MountOptions) -> String {
    let mut text = format!("max_read={read_max}");
    if options.check_permissions {
        text += ",default_permissions";
    }
    if options.allow_other {
        text += ",allow_other";
    }
    text
}

/// The same by this process itself, whatever its user.
///
/// # Errors
/// [`MountError`].
pub(crate) fn mount_now(at: &Path, read_max: u32, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|e| MountError::NoFuse(e.into()))?;
    let rest = fuse_options(read_max, options);
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,{rest}", fd.as_raw_fd());
    let data = CString::new(data).expect("numbers and words hold no zero byte");
    let mut flags = MountFlags::NOATIME;
    let refused = [
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
        (!options.exec, MountFlags::NOEXEC),
        (options.read_only, MountFlags::RDONLY),
    ];
    refused.into_iter().filter(|(set, _)| *set).for_each(|(_, flag)| flags |= flag);
    let kind = format!("fuse.{SUBTYPE}");
    match rustix::mount::mount(&*options.source, at, &*kind, flags, data.as_c_str()) {
        Ok(()) => Ok(fd),
        Err(Errno::NODEV) => Err(MountError::NoFuse(Errno::NODEV.into())),
        Err(error) => Err(MountError::Refused { at: at.to_path_buf(), source: error.into() }),
    }
}

fn mount_by_helper(at: &Path, read_max: u32, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.map_err(|error| MountError::Kernel(error.into()))?;
    let words_of =
        [("ro", options.read_only), ("noexec", !options.exec), ("nosuid", !options.suid), ("nodev", !options.dev)];
    let mut text = fuse_options(read_max, options);
    text += &format!(",noatime,subtype={SUBTYPE},fsname={}", escaped(&options.source));
    words_of.into_iter().filter(|(_, set)| *set).for_each(|(word, _)| text += &format!(",{word}"));
    let mut helper = Command::new(HELPER);
    // Its standard input is the socket: a descriptor that it inherits in any case.
    helper.arg("-o").arg(text).arg("--").arg(at).env(HELPER_SOCKET, "0").stdin(Stdio::from(theirs));
    let output = helper.stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(MountError::NoHelper)?;
    // The command holds the other end, which must be closed before a read, or a helper that sent nothing is waited for.
    drop(helper);
    let refused = || MountError::Helper { at: at.to_path_buf(), words: words(&output) };
    if !output.status.success() {
        return Err(refused());
    }
    let fd = received(&ours)?.ok_or_else(refused)?;
    rustix::io::ioctl_fionbio(&fd, true).map_err(|error| MountError::Kernel(error.into()))?;
    Ok(fd)
}

/// Commas and backslashes end an option of the helper, unless a backslash is in front of them.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// The descriptor that a message carries.
fn received(from: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut carried = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut carried, RecvFlags::CMSG_CLOEXEC)?;
    let fds = carried.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.flatten().next())
}

/// Unmounts by the rights of this process's user. With `lazily` also what is in use, which is gone when its last user
/// leaves.
///
/// # Errors
/// [`MountError`]: what is in use stays as it is.
pub fn unmount(at: &Path, lazily: bool) -> Result<(), MountError> {
    if !rustix::process::geteuid().is_root() {
        return unmount_by_helper(at, lazily);
    }
    let flags = if lazily { UnmountFlags::NOFOLLOW | UnmountFlags::DETACH } else { UnmountFlags::NOFOLLOW };
    let refused = |error: Errno| MountError::Stays { at: at.to_path_buf(), source: error.into() };
    rustix::mount::unmount(at, flags).map_err(refused)
}

/// Unmounts as an ordinary user. With `lazily` also what is in use, which is gone when its last user leaves.
///
/// # Errors
/// The helper's words.
pub(crate) fn unmount_by_helper(at: &Path, lazily: bool) -> Result<(), MountError> {
    let mut helper = Command::new(HELPER);
    helper.arg("-u").args(lazily.then_some("-z")).arg("--").arg(at).stdin(Stdio::null());
    let output = helper.stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(MountError::NoHelper)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(MountError::Helper { at: at.to_path_buf(), words: words(&output) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_does_not_end_its_option() {
        assert_eq!(escaped("a,b\\c"), "a\\,b\\\\c");
    }

    #[test]
    fn errors_say_what_helps() {
        let at = PathBuf::from("/mnt/x");
        let refused = MountError::Refused { at: at.clone(), source: Errno::PERM.into() };
        let expected =
            "/mnt/x: cannot be mounted: Operation not permitted (os error 1); it takes root with CAP_SYS_ADMIN";
        assert_eq!(refused.to_string(), expected);
        let helper = MountError::Helper { at, words: "no".into() };
        assert_eq!(helper.to_string(), "/mnt/x: fusermount3 said: no");
        let helper = MountError::Helper { at: "/x".into(), words: "failed to open /dev/fuse: no".into() };
        assert!(helper.to_string().ends_with("/dev/fuse (mode 666)"));
    }
}
