//! How requests come from the kernel, chosen for each mount.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what this machine's kernel tells in its files"
)]

use std::fs;

use esker_rt::real::Kernel;

use crate::wire::ring::RingShape;

/// The kernel's switch, which new mounts look at.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// CPUs that this machine can have.
const CPUS: &str = "/sys/devices/system/cpu/possible";

/// How requests come from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// What is better on the measured machine: the device.
    #[default]
    Auto,
    /// Read from `/dev/fuse` and written to it.
    Device,
    /// In memory that the kernel shares, by io_uring.
    Uring,
}

/// Why requests cannot come by io_uring.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TransportError {
    /// No such kernel.
    #[error(
        "this kernel has no FUSE over io_uring: it takes Linux 6.14 or newer with CONFIG_FUSE_IO_URING; use the \
         transport `device`"
    )]
    Missing,
    /// Off, which is the default of all kernels.
    #[error(
        "FUSE over io_uring is switched off: as root, `echo 1 > {SWITCH}` switches it on for new mounts; or use the \
         transport `device`"
    )]
    Off,
    /// No ring.
    #[error(
        "this process has no io_uring that takes commands: allow it (sysctl kernel.io_uring_disabled=0, or the \
         container's seccomp profile), or use the transport `device`"
    )]
    NoRing,
}

impl Transport {
    /// The ring of a mount whose requests have at most `transfer_max` bytes, if it has one.
    ///
    /// # Errors
    /// [`TransportError`] where io_uring is asked for and cannot be had.
    pub(crate) fn ring(self, kernel: &Kernel, transfer_max: u32) -> Result<Option<RingShape>, TransportError> {
        if self != Transport::Uring {
            return Ok(None);
        }
        // A module that is not loaded yet is loaded by this.
        drop(fs::File::open("/dev/fuse"));
        can_ring(fs::read_to_string(SWITCH).ok().as_deref(), kernel.takes_commands())?;
        let cpus = fs::read_to_string(CPUS).map_or(1, |text| count(&text));
        Ok(Some(RingShape::of(cpus, transfer_max)))
    }
}

/// Whether requests can come by io_uring. `switch` is the text of the kernel's switch, where it has one.
/// `takes_commands`: whether this process gets rings for commands to files.
///
/// # Errors
/// [`TransportError`] says what is lacking.
pub fn can_ring(switch: Option<&str>, takes_commands: bool) -> Result<(), TransportError> {
    match switch.map(str::trim) {
        None => Err(TransportError::Missing),
        Some("N" | "0") => Err(TransportError::Off),
        Some(_) if !takes_commands => Err(TransportError::NoRing),
        Some(_) => Ok(()),
    }
}

/// Numbers in a list of numbers and ranges.
fn count(list: &str) -> u16 {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<u16>().ok()?.checked_sub(first.parse().ok()?)?.saturating_add(1))
    });
    ranges.fold(0, u16::saturating_add).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_helps() {
        assert_eq!(can_ring(Some("Y\n"), true), Ok(()));
        let told = |switch, takes| can_ring(switch, takes).unwrap_err().to_string();
        assert!(told(None, true).contains("Linux 6.14"));
        assert!(told(Some("N\n"), true).contains("echo 1 > /sys/module/fuse/parameters/enable_uring"));
        assert!(told(Some("Y\n"), false).contains("kernel.io_uring_disabled=0"));
    }

    #[test]
    fn cpus_are_counted_in_lists_of_ranges() {
        let lists = ["0-1\n", "0", "0-3,8-11", "", "x", "0-65535", "9-3"];
        assert_eq!(lists.map(count), [2, 1, 8, 1, 1, u16::MAX, 1]);
    }
}
