//! File systems in user space: the device, the helper of users, and requests by io_uring.

use esker_front_fuse::{TransportError, can_ring};

use super::finding::{Finding, Subject};
use super::machine::Machine;

const FUSE: Subject = Subject { check: "FUSE", verbs: &["mount", "attach", "serve"] };
const HELPER: Subject = Subject { check: "fusermount3", verbs: &["mount", "umount"] };
const RING: Subject = Subject { check: "FUSE over io_uring", verbs: &["mount"] };
const DEVICE: &str = "dev/fuse";
const SWITCH: &str = "sys/module/fuse/parameters/enable_uring";

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![device(machine), helper(machine), ring(machine)]
}

fn device(machine: &Machine) -> Finding {
    let works = || match machine.has("sys/module/fuse") {
        true => FUSE.ok("/dev/fuse may be used"),
        false => FUSE.ok("/dev/fuse may be used; the first mount loads the module"),
    };
    machine.lacks_device(&FUSE, DEVICE, "fuse", "chmod 666 /dev/fuse, as root").unwrap_or_else(works)
}

/// The superuser mounts without help.
fn helper(machine: &Machine) -> Finding {
    const INSTALL: &str = "apt-get install fuse3";
    match (machine.has_program("fusermount3"), machine.is_root()) {
        (true, _) => HELPER.ok("is installed: users may mount"),
        (false, true) => HELPER.note("is not installed: only root mounts", INSTALL),
        (false, false) => HELPER.missing("is not installed: this user cannot mount", INSTALL),
    }
}

fn ring(machine: &Machine) -> Finding {
    if !machine.has("sys/module/fuse") {
        return RING.note("unknown until the module fuse is loaded", "modprobe fuse");
    }
    let takes_commands = (machine.probes.ring)().unwrap_or(false);
    match can_ring(machine.text(SWITCH).as_deref(), takes_commands) {
        Ok(()) => RING.ok("`--transport uring` works"),
        Err(TransportError::Missing) => RING.note(
            "this kernel has none; mounts read /dev/fuse",
            "install Linux 6.14 or newer with CONFIG_FUSE_IO_URING for `--transport uring`",
        ),
        Err(TransportError::Off) => {
            RING.note("is switched off; mounts read /dev/fuse", format!("echo 1 > /{SWITCH}, as root"))
        }
        Err(TransportError::NoRing) => RING.note(
            "this process gets no ring for commands to files; mounts read /dev/fuse",
            "sysctl kernel.io_uring_disabled=0, on Linux 6.14 or newer",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    fn states(made: &Made) -> Vec<State> {
        check(made).iter().map(|found| found.state).collect()
    }

    #[test]
    fn a_machine_without_fuse_is_told_so() {
        assert_eq!(states(&Made::of(&[])), [State::Missing, State::Note, State::Note]);
        assert_eq!(states(&Made::of(&[]).for_user()), [State::Missing, State::Missing, State::Note]);
        assert_eq!(device(&Made::of(&[])).found, "/dev/fuse is not there");
    }

    #[test]
    fn the_switch_of_requests_by_io_uring_is_read() {
        let found = |text| ring(&Made::of(&[(DEVICE, ""), (SWITCH, text)]));
        assert_eq!(found("Y\n").state, State::Ok);
        assert_eq!(found("N\n").advice.unwrap(), "echo 1 > /sys/module/fuse/parameters/enable_uring, as root");
        let mut made = Made::of(&[("sys/module/fuse/version", "")]);
        assert!(ring(&made).advice.unwrap().contains("Linux 6.14"));
        made.put(SWITCH, "Y\n");
        made.probes.ring = || Err(std::io::ErrorKind::PermissionDenied.into());
        assert!(ring(&made).found.contains("no ring for commands"));
    }
}
