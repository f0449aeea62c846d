//! Rings of the kernel for requests.

use std::io;

use super::finding::{Finding, Subject};
use super::machine::Machine;

const RING: Subject = Subject { check: "io_uring", verbs: &["serve", "attach", "mount", "calibrate"] };
const SWITCH: &str = "proc/sys/kernel/io_uring_disabled";

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![judged(machine.text(SWITCH).as_deref(), (machine.probes.ring)())]
}

/// By the text of the switch, which kernels before 6.6 do not have, and what came of a trial.
fn judged(switch: Option<&str>, tried: io::Result<bool>) -> Finding {
    let setting = switch.map_or(String::new(), |switch| format!(" (kernel.io_uring_disabled = {switch})"));
    match tried {
        Ok(true) => RING.ok(format!("a ring can be made, also for commands to files{setting}; `--io auto` uses it")),
        Ok(false) => RING.ok(format!("a ring can be made{setting}; `--io auto` uses it")),
        Err(error) => {
            let advice = match switch {
                Some("1") => "sysctl kernel.io_uring_disabled=0, or add the user to the group kernel.io_uring_group",
                Some("2") => "sysctl kernel.io_uring_disabled=0",
                _ => "permit io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile",
            };
            RING.note(format!("no ring: {error}{setting}; `--io auto` makes blocking calls on threads"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn a_refused_ring_is_told_with_what_refuses_it() {
        let refused = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let advice = |switch| judged(switch, refused()).advice.unwrap();
        assert_eq!(advice(Some("2")), "sysctl kernel.io_uring_disabled=0");
        assert!(advice(Some("1")).contains("io_uring_group"));
        assert!(advice(Some("0")).contains("seccomp") && advice(None).contains("seccomp"));
        let found = judged(Some("2"), refused());
        assert_eq!(found.state, State::Note);
        assert!(found.found.contains("io_uring_disabled = 2") && found.found.contains("threads"), "{found:?}");
    }

    #[test]
    fn a_ring_says_whether_it_takes_commands() {
        let mut made = Made::of(&[(SWITCH, "0\n")]);
        assert!(check(&made)[0].found.contains("commands to files (kernel.io_uring_disabled = 0)"));
        made.probes.ring = || Ok(false);
        let found = check(&made).remove(0);
        assert!(found.state == State::Ok && !found.found.contains("commands"), "{found:?}");
    }
}
