//! Units of systemd: those of `dist/`, where systemd runs.

use super::finding::{Finding, Subject};
use super::machine::Machine;

const UNITS: Subject = Subject { check: "systemd units", verbs: &["serve", "hugepage run"] };
/// As `dist/install` installs them.
const NAMES: [&str; 2] = ["esker@.service", "esker-hugepage.service"];
/// Where systemd looks.
const FOLDERS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// The user as which the first unit serves.
const USER: &str = "esker:";

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![units(machine)]
}

fn units(machine: &Machine) -> Finding {
    if !machine.has("run/systemd/system") {
        return UNITS.ok("systemd does not run here; servers are started by hand");
    }
    let is_there = |unit: &str| FOLDERS.iter().any(|folder| machine.has(&format!("{folder}/{unit}")));
    let absent: Vec<&str> = NAMES.into_iter().filter(|unit| !is_there(unit)).collect();
    let users = machine.text("etc/passwd").unwrap_or_default();
    match absent[..] {
        [] if users.lines().any(|line| line.starts_with(USER)) => {
            UNITS.ok(format!("{} are installed", NAMES.join(" and ")))
        }
        [] => UNITS.note("are installed, but there is no user esker", "systemd-sysusers, as root"),
        _ => UNITS.note(format!("not installed: {}", absent.join(", ")), "run dist/install of the source tree as root"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn units_are_looked_for_where_systemd_runs() {
        assert_eq!(units(&Made::of(&[])).state, State::Ok);
        let running = ("run/systemd/system/x.service", "");
        let none = units(&Made::of(&[running]));
        assert_eq!(none.found, "not installed: esker@.service, esker-hugepage.service");
        let one = ("usr/lib/systemd/system/esker@.service", "");
        assert_eq!(units(&Made::of(&[running, one])).found, "not installed: esker-hugepage.service");
        let two = ("etc/systemd/system/esker-hugepage.service", "");
        assert!(units(&Made::of(&[running, one, two])).advice.unwrap().starts_with("systemd-sysusers"));
        let user = ("etc/passwd", "root:x:0:0::/:/bin/sh\nesker:x:990:990::/:/usr/sbin/nologin\n");
        assert_eq!(units(&Made::of(&[running, one, two, user])).state, State::Ok);
    }

    #[test]
    fn the_units_are_those_that_are_installed_by_hand() {
        let install = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/install");
        let install = std::fs::read_to_string(install).unwrap();
        assert!(NAMES.iter().all(|unit| install.contains(&format!("/usr/lib/systemd/system/{unit}"))), "{install}");
    }
}
