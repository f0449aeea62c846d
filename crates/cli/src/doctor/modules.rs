//! Block devices of the kernel and what virtual machines need: loop devices, the client of NBD, vhost.

use esker_front_fuse::busy::parsed;

use super::finding::{Finding, Subject};
use super::machine::{Capability, Machine};

const LOOP: Subject = Subject { check: "loop devices", verbs: &["attach"] };
const NBD: Subject = Subject { check: "NBD module", verbs: &["serve"] };
const VHOST: Subject = Subject { check: "vhost module", verbs: &["serve"] };

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![loop_devices(machine), nbd(machine), vhost(machine)]
}

fn loop_devices(machine: &Machine) -> Finding {
    let lacking = machine.lacks_device(&LOOP, "dev/loop-control", "loop", "run the verb as root");
    lacking.or_else(|| machine.lacks_right(&LOOP, Capability::SysAdmin)).unwrap_or_else(|| free_loops(machine))
}

fn free_loops(machine: &Machine) -> Finding {
    let is_number = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let names = machine.names("dev");
    let all: Vec<&String> = names.iter().filter(|name| name.strip_prefix("loop").is_some_and(is_number)).collect();
    let is_used = |name: &&&String| machine.has(&format!("sys/block/{name}/loop/backing_file"));
    let used = all.iter().filter(is_used).count();
    let count = all.len();
    match (used < count, makes_nodes(machine)) {
        (true, _) => LOOP.ok(format!("{} of {count} are free", count - used)),
        (false, true) => LOOP.ok(format!("none of {count} is free; the kernel makes more")),
        (false, false) => LOOP.missing(
            format!("none of {count} is free, and /dev gets no new ones by itself"),
            format!("mknod -m 660 /dev/loop{count} b 7 {count}, as root"),
        ),
    }
}

/// Whether the kernel makes the files of new devices.
fn makes_nodes(machine: &Machine) -> bool {
    let mounts = parsed(&machine.text("proc/self/mountinfo").unwrap_or_default());
    mounts.iter().rfind(|mount| mount.at.as_os_str() == "/dev").is_some_and(|mount| mount.kind == "devtmpfs")
}

/// Only for kernels as clients: other clients and [`attach`](crate::verbs) do without it.
fn nbd(machine: &Machine) -> Finding {
    match machine.has("dev/nbd0") {
        true => NBD.ok("/dev/nbd0 is there, for nbd-client"),
        false => NBD.note(
            "/dev/nbd0 is not there: nbd-client cannot use exports",
            "modprobe nbd, as root, or use esker attach",
        ),
    }
}

/// The front end for virtual machines lives in the server; guests only run faster with these.
fn vhost(machine: &Machine) -> Finding {
    let absent: Vec<&str> =
        ["/dev/kvm", "/dev/vhost-net"].into_iter().filter(|device| !machine.has(&device[1..])).collect();
    match absent[..] {
        [] => VHOST.ok("/dev/kvm and /dev/vhost-net are there; `--vhost-user` needs neither"),
        ["/dev/vhost-net"] => VHOST.note(
            "/dev/vhost-net is not there: networks of guests are slower; `--vhost-user` does without it",
            "modprobe vhost_net, as root",
        ),
        _ => VHOST.note(
            format!("{} absent: guests are slow; `--vhost-user` works", absent.join(", ")),
            "switch virtualisation on in the firmware or the host, then modprobe kvm_intel or kvm_amd",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    const CONTROL: (&str, &str) = ("dev/loop-control", "");
    const USED: (&str, &str) = ("sys/block/loop0/loop/backing_file", "/a.img");
    const DEVTMPFS: (&str, &str) = ("proc/self/mountinfo", "24 1 0:6 / /dev rw shared:2 - devtmpfs devtmpfs rw\n");
    const TMPFS: (&str, &str) = ("proc/self/mountinfo", "24 1 0:6 / /dev rw shared:2 - tmpfs tmpfs rw\n");

    #[test]
    fn loop_devices_are_counted() {
        let found = |files: &[(&str, &str)]| loop_devices(&Made::of(files));
        let two = [CONTROL, USED, ("dev/loop0", ""), ("dev/loop1", "")];
        assert_eq!(found(&two).found, "1 of 2 are free");
        assert_eq!(found(&[CONTROL, USED, ("dev/loop0", ""), DEVTMPFS]).state, State::Ok);
        let full = found(&[CONTROL, USED, ("dev/loop0", ""), ("dev/loop0p1", ""), TMPFS]);
        assert_eq!(full.state, State::Missing);
        assert!(full.advice.unwrap().starts_with("mknod -m 660 /dev/loop1 b 7 1"));
        assert_eq!(found(&[]).found, "/dev/loop-control is not there");
    }

    #[test]
    fn loop_devices_take_root() {
        assert_eq!(loop_devices(&Made::of(&[CONTROL]).for_user()).state, State::Note);
        let contained = loop_devices(&Made::of(&[CONTROL]).for_contained_root());
        assert!(contained.state == State::Missing && contained.advice.unwrap().contains("--cap-add CAP_SYS_ADMIN"));
    }

    #[test]
    fn modules_that_no_verb_needs_are_notes() {
        let none = Made::of(&[]);
        assert_eq!((nbd(&none).state, vhost(&none).state), (State::Note, State::Note));
        assert!(vhost(&none).found.starts_with("/dev/kvm, /dev/vhost-net absent"));
        let all = Made::of(&[("dev/nbd0", ""), ("dev/kvm", ""), ("dev/vhost-net", "")]);
        assert_eq!((nbd(&all).state, vhost(&all).state), (State::Ok, State::Ok));
        assert_eq!(vhost(&Made::of(&[("dev/kvm", "")])).advice.as_deref(), Some("modprobe vhost_net, as root"));
    }
}
