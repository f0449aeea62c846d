//! What a call leads to that no action shows.

use esker_base::Time;
use esker_trace_calls::words::MapFlags;
use esker_trace_calls::{Call, Fd, Outcome, WarningKind};

use super::{Assembler, Sink};

impl Assembler {
    /// `pid` made the call.
    pub(super) fn warn_of_unseen(&self, pid: u32, call: &Call, outcome: Outcome, at: Time, sink: &mut impl Sink) {
        match call {
            Call::Map { flags, fd, .. } => self.warn_of_map(pid, *fd, *flags, at, sink),
            Call::UringEnter { submit, ring, .. } if *submit > 0 => {
                sink.warning(WarningKind::UringUnseen, u64::from(*submit), at, format!("ring {}", ring.0));
            }
            _ if call.is_polled_ring() && outcome.value().is_some() => {
                let text = "the kernel takes requests by itself (IORING_SETUP_SQPOLL): no call shows them";
                sink.warning(WarningKind::UringPolled, 1, at, text.to_string());
            }
            _ => {}
        }
    }

    fn warn_of_map(&self, pid: u32, fd: Fd, flags: MapFlags, at: Time, sink: &mut impl Sink) {
        let is_written = flags.contains(MapFlags::MAP_SHARED | MapFlags::PROT_WRITE);
        // What is mapped else is a ring, or memory that processes share: no file.
        let is_file = || self.processes.get(&pid).is_some_and(|owner| owner.places.is_file(fd));
        let kind = match is_written {
            true => (!self.sees_writes && is_file()).then_some(WarningKind::MappedWrites),
            false => (!self.sees_faults).then_some(WarningKind::MappedReads),
        };
        if let Some(kind) = kind {
            sink.warning(kind, 1, at, format!("descriptor {}", fd.0));
        }
    }
}
