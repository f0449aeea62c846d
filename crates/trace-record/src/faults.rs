//! Page faults of a thread, until it is known when they were and whether in a call.

use esker_base::Time;

/// A fault on a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// When the page was wanted.
    pub enter: Time,
    /// When it was there.
    pub leave: Time,
    /// What was to be accessed.
    pub address: u64,
    /// Whether by the kernel, for a call.
    pub in_call: bool,
    /// Whether a page became dirty by it.
    pub is_write: bool,
}

/// Those of a thread that were not told yet: the last one, of which more may come, and all of a call, which come before
/// it.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Takes what was seen; gives what can be told, if anything can.
    pub(crate) fn take(&mut self, fault: Fault) -> Option<Fault> {
        if let Some(last) = self.0.last_mut()
            && (last.enter, last.address) == (fault.enter, fault.address)
        {
            last.leave = last.leave.max(fault.leave);
            last.is_write |= fault.is_write;
            return None;
        }
        let whole = self.0.pop_if(|last| !last.in_call);
        self.0.push(fault);
        whole
    }

    /// All that is left, given when the call began that the thread is in or has just made. A fault in it took a part of
    /// the call's time, so it is told as one that took none, right before.
    pub(crate) fn take_all(&mut self, call: Option<Time>) -> Vec<Fault> {
        let mut all = std::mem::take(&mut self.0);
        for fault in &mut all {
            if let Some(call) = call.filter(|call| fault.in_call && fault.enter >= *call) {
                (fault.enter, fault.leave) = (call, call);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(enter: u64, leave: u64, address: u64, in_call: bool) -> Fault {
        Fault { enter: Time(enter), leave: Time(leave), address, in_call, is_write: false }
    }

    #[test]
    fn a_fault_ends_when_it_was_told_for_the_last_time() {
        let mut faults = Faults::default();
        assert_eq!(faults.take(fault(5, 5, 0x1000, false)), None);
        assert_eq!(faults.take(fault(5, 90, 0x1000, false)), None);
        assert_eq!(faults.take(fault(95, 95, 0x1000, false)), Some(fault(5, 90, 0x1000, false)));
        assert_eq!(faults.take_all(Some(Time(99))), [fault(95, 95, 0x1000, false)]);
        assert_eq!(faults.take_all(None), []);
    }

    #[test]
    fn faults_in_a_call_come_right_before_it() {
        let mut faults = Faults::default();
        faults.take(fault(5, 6, 0x1000, false));
        assert_eq!(faults.take(fault(12, 15, 0x8000, true)), Some(fault(5, 6, 0x1000, false)));
        assert_eq!(faults.take(fault(16, 19, 0x9000, true)), None);
        assert_eq!(faults.take_all(Some(Time(10))), [fault(10, 10, 0x8000, true), fault(10, 10, 0x9000, true)]);
    }
}
