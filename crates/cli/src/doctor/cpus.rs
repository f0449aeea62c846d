//! CPUs and their frequency.

use std::collections::BTreeSet;

use super::finding::{Finding, Subject};
use super::machine::Machine;

const CPUS: Subject = Subject { check: "CPUs", verbs: &["serve", "calibrate", "lab run"] };
const FREQUENCY: Subject = Subject { check: "CPU frequency", verbs: &["calibrate", "lab run"] };
const FOLDER: &str = "sys/devices/system/cpu";
const STAT: &str = "proc/stat";
/// The governor with a constant frequency.
const CONSTANT: &str = "performance";

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![cpus(machine), frequency(machine)]
}

/// CPUs that run, and those of them that this process may use.
fn cpus(machine: &Machine) -> Finding {
    let stat = machine.text(STAT).unwrap_or_default();
    let is_one =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let all = stat.lines().filter(is_one).count();
    if all == 0 {
        return CPUS.unread(STAT);
    }
    let permitted = machine.status("Cpus_allowed:").map_or(all, |mask| bits(&mask).min(all));
    match permitted {
        0 | 1 => CPUS.note(
            format!("{permitted} of {all} for this process: a server and its clients share it"),
            "give the machine or container a second CPU (--cpuset-cpus 0-1)",
        ),
        _ if permitted == all => CPUS.ok(format!("{all}")),
        _ => CPUS.ok(format!("{permitted} of {all} for this process")),
    }
}

/// Bits that are set in a mask of hexadecimal digits and commas.
fn bits(mask: &str) -> usize {
    mask.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit.count_ones() as usize).sum()
}

fn frequency(machine: &Machine) -> Finding {
    let governor = |name: &String| machine.text(&format!("{FOLDER}/{name}/cpufreq/scaling_governor"));
    let governors: BTreeSet<String> = machine.names(FOLDER).iter().filter_map(governor).collect();
    let shown = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match governors.iter().all(|governor| governor == CONSTANT) {
        true if governors.is_empty() => FREQUENCY.ok("is not governed by this kernel"),
        true => FREQUENCY.ok(format!("governor {shown}")),
        false => FREQUENCY.note(
            format!("governor {shown}: measured times depend on the load before"),
            "cpupower frequency-set -g performance, as root, while you measure",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    #[test]
    fn cpus_of_the_machine_and_of_this_process_are_counted() {
        let two = (STAT, "cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\nctxt 5\n");
        assert_eq!(cpus(&Made::of(&[two])).found, "2");
        let pinned = ("proc/self/status", "Cpus_allowed:\t00000000,00000002\n");
        let found = cpus(&Made::of(&[two, pinned]));
        assert!(found.state == State::Note && found.found.starts_with("1 of 2"), "{found:?}");
        assert_eq!(cpus(&Made::of(&[])).state, State::Note);
        assert_eq!([bits("ff,f"), bits(""), bits("zz")], [12, 0, 0]);
    }

    #[test]
    fn a_governor_that_changes_the_frequency_is_a_note() {
        let governed = |one: &str, other: &str| {
            let file = |cpu| format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_governor");
            frequency(&Made::of(&[(&file(0), one), (&file(1), other)]))
        };
        assert_eq!(governed("performance\n", "performance\n").state, State::Ok);
        let found = governed("performance\n", "powersave\n");
        assert!(found.state == State::Note && found.found.contains("performance, powersave"), "{found:?}");
        assert_eq!(frequency(&Made::of(&[])).state, State::Ok);
    }
}
