//! One ring of the kernel, with entries of 64 bytes, or of 128, which commands to files need.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{CompletionQueue, IoUring, Submitter, squeue};

/// What the kernel is asked.
pub(super) enum AnyEntry {
    Narrow(squeue::Entry),
    /// A command to a file.
    Wide(squeue::Entry128),
}

impl AnyEntry {
    pub(super) fn user_data(self, data: u64) -> AnyEntry {
        match self {
            AnyEntry::Narrow(entry) => AnyEntry::Narrow(entry.user_data(data)),
            AnyEntry::Wide(entry) => AnyEntry::Wide(entry.user_data(data)),
        }
    }
}

impl From<squeue::Entry> for AnyEntry {
    fn from(entry: squeue::Entry) -> AnyEntry {
        AnyEntry::Narrow(entry)
    }
}

pub(super) enum AnyRing {
    Narrow(IoUring),
    Wide(IoUring<squeue::Entry128>),
}

impl AnyRing {
    /// With `wide` a ring that takes commands, where the kernel has such rings.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn new(entries: u32, wide: bool) -> io::Result<AnyRing> {
        if wide {
            let mut builder = IoUring::<squeue::Entry128>::builder();
            match builder.setup_coop_taskrun().setup_taskrun_flag().build(entries) {
                Ok(ring) => return Ok(AnyRing::Wide(ring)),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(entries).map(AnyRing::Narrow)
    }

    pub(super) fn takes_commands(&self) -> bool {
        matches!(self, AnyRing::Wide(_))
    }

    pub(super) fn can_wait_with_time_out(&self) -> bool {
        match self {
            AnyRing::Narrow(ring) => ring.params().is_feature_ext_arg(),
            AnyRing::Wide(ring) => ring.params().is_feature_ext_arg(),
        }
    }

    /// Puts an entry into the ring, or answers false if the ring is full.
    ///
    /// # Safety
    /// What the entry points to stays until the kernel has answered.
    pub(super) unsafe fn push(&mut self, entry: &AnyEntry) -> bool {
        // SAFETY: as the caller promises.
        let pushed = unsafe {
            match (self, entry) {
                (AnyRing::Narrow(ring), AnyEntry::Narrow(entry)) => ring.submission().push(entry),
                (AnyRing::Wide(ring), AnyEntry::Narrow(entry)) => ring.submission().push(&entry.clone().into()),
                (AnyRing::Wide(ring), AnyEntry::Wide(entry)) => ring.submission().push(entry),
                (AnyRing::Narrow(_), AnyEntry::Wide(_)) => unreachable!("a narrow ring is given no command"),
            }
        };
        pushed.is_ok()
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn pushed(&mut self) -> usize {
        match self {
            AnyRing::Narrow(ring) => ring.submission().len(),
            AnyRing::Wide(ring) => ring.submission().len(),
        }
    }

    /// Whether a call makes completions of what is finished.
    pub(super) fn has_finished_work(&mut self) -> bool {
        match self {
            AnyRing::Narrow(ring) => ring.submission().taskrun(),
            AnyRing::Wide(ring) => ring.submission().taskrun(),
        }
    }

    pub(super) fn submitter(&self) -> Submitter<'_> {
        match self {
            AnyRing::Narrow(ring) => ring.submitter(),
            AnyRing::Wide(ring) => ring.submitter(),
        }
    }

    pub(super) fn completion(&mut self) -> CompletionQueue<'_> {
        match self {
            AnyRing::Narrow(ring) => ring.completion(),
            AnyRing::Wide(ring) => ring.completion(),
        }
    }
}

impl AsRawFd for AnyRing {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            AnyRing::Narrow(ring) => ring.as_raw_fd(),
            AnyRing::Wide(ring) => ring.as_raw_fd(),
        }
    }
}
