//! Programs of other packages that the guides name.

use super::finding::{Finding, Subject};
use super::machine::Machine;

const PROGRAMS: Subject =
    Subject { check: "foreign programs", verbs: &["serve", "attach", "try", "trace replay", "lab run"] };

/// Program, and the Debian package that has it.
const NAMED: [(&str, &str); 13] = [
    ("blktrace", "blktrace"),
    ("fio", "fio"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("nbd-client", "nbd-client"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("qemu-img", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("rsvg-convert", "librsvg2-bin"),
    ("strace", "strace"),
];

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![programs(machine)]
}

fn programs(machine: &Machine) -> Finding {
    let absent: Vec<(&str, &str)> = NAMED.into_iter().filter(|(program, _)| !machine.has_program(program)).collect();
    let programs: Vec<&str> = absent.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    match programs.is_empty() {
        true => PROGRAMS.ok(format!("all {} that the guides name are installed", NAMED.len())),
        false => PROGRAMS.note(
            format!("examples of the guides need {}", programs.join(", ")),
            format!("apt-get install {}, as root", packages.join(" ")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn absent_programs_are_told_with_each_package_once() {
        let made = Made::of(&[]);
        let none = programs(&made);
        assert_eq!(none.state, State::Note);
        assert_eq!(none.advice.unwrap().matches("libnbd-bin").count(), 1);
        for (program, _) in NAMED {
            let file = format!("bin/{program}");
            made.put(&file, "");
            fs::set_permissions(made.path(&file), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(programs(&made).state, State::Ok);
        fs::remove_file(made.path("bin/fio")).unwrap();
        assert_eq!(programs(&made).advice.as_deref(), Some("apt-get install fio, as root"));
    }

    #[test]
    fn the_guides_name_each_program() {
        let guides = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");
        let pages = fs::read_dir(guides).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let text = pages.collect::<String>();
        let unnamed: Vec<&str> = NAMED.iter().map(|(name, _)| *name).filter(|name| !text.contains(name)).collect();
        assert_eq!(unnamed, [""; 0]);
    }
}
