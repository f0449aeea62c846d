//! Memory: huge pages, userfaultfd, and what the control group permits.

use std::path::Path;

use esker_base::units::size_human;
use esker_hugepage_linux::linux::doctor as hugepages;
use esker_hugepage_linux::linux::groups::Hierarchy;

use super::finding::{Finding, Subject};
use super::machine::Machine;

const HUGE_PAGES: Subject = Subject { check: "huge pages", verbs: &["hugepage run"] };
const USER_FAULTS: Subject = Subject { check: "userfaultfd", verbs: &[] };
const GROUP: Subject = Subject { check: "memory limit", verbs: &["serve", "attach", "try", "trace replay"] };
const SWITCH: &str = "proc/sys/vm/unprivileged_userfaultfd";
const GROUPS: &str = "proc/self/cgroup";
/// Memory that 32 busy connections of a server may take, in bytes.
const GROUP_MIN: u64 = 2 << 30;

pub fn check(machine: &Machine) -> Vec<Finding> {
    vec![huge_pages(machine), user_faults(machine), group(machine)]
}

/// All that `esker hugepage doctor` tells, in one finding.
fn huge_pages(machine: &Machine) -> Finding {
    let all = (machine.probes.huge_pages)();
    let named = |needed: bool| {
        let lacking = all.iter().filter(|one| !one.works && one.needed == needed);
        lacking.map(|one| one.what).collect::<Vec<_>>().join(", ")
    };
    let (needed, useful) = (named(true), named(false));
    match (needed.is_empty(), useful.is_empty()) {
        (true, true) => HUGE_PAGES.ok("all that a manager uses works"),
        (true, false) => HUGE_PAGES
            .note(format!("can be managed; without: {useful}"), "esker hugepage doctor tells what is done instead"),
        (false, _) if !machine.is_root() => {
            HUGE_PAGES.note(format!("takes root; without it: no {needed}"), "run the verb as root")
        }
        (false, _) => HUGE_PAGES.missing(lacking(&all), "esker hugepage doctor tells all reasons"),
    }
}

/// The first reason why nothing can be managed.
fn lacking(all: &[hugepages::Finding]) -> String {
    let first = all.iter().find(|one| one.needed && !one.works);
    first.map_or(String::new(), |one| format!("cannot be managed: {}: {}", one.what, one.says))
}

/// No verb needs it: monitors of guests do, to move their guests.
fn user_faults(machine: &Machine) -> Finding {
    match machine.text(SWITCH).as_deref() {
        Some("1") => USER_FAULTS.ok("for all users; no verb needs it"),
        Some(_) => USER_FAULTS.ok("faults inside the kernel are for root alone; no verb needs it"),
        None if !machine.has("proc/sys/vm") => USER_FAULTS.unread(SWITCH),
        None => USER_FAULTS.note(
            "this kernel has none; no verb needs it, but monitors of guests may",
            "install a kernel with CONFIG_USERFAULTFD to move guests while they run",
        ),
    }
}

fn group(machine: &Machine) -> Finding {
    let Some(groups) = machine.text(GROUPS) else { return GROUP.unread(GROUPS) };
    let Some(hierarchy) = Hierarchy::find_below(&machine.root) else {
        return GROUP.ok("no control group limits memory");
    };
    let Some(own) = hierarchy.of_lines(&groups) else { return GROUP.ok("this process is in no control group") };
    match hierarchy.held(&own).and_then(|held| held.limit) {
        None => GROUP.ok("none, as far as this process sees"),
        Some(limit) if limit < GROUP_MIN => {
            let folder = hierarchy.folder(&own);
            let shown = Path::new("/").join(folder.strip_prefix(&machine.root).unwrap_or(&folder));
            let (limit, may_take) = (size_human(limit), size_human(GROUP_MIN));
            GROUP.note(
                format!("{limit} for {}: a busy server may take {may_take}", shown.display()),
                "raise it: systemctl set-property UNIT MemoryMax=4G, or --memory 4g of the container",
            )
        }
        Some(limit) => GROUP.ok(size_human(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::machine::testing::Made;
    use super::*;

    fn tried(what: &'static str, works: bool, needed: bool) -> hugepages::Finding {
        hugepages::Finding { what, works, needed, says: "why".to_string() }
    }

    fn found(huge_pages: fn() -> Vec<hugepages::Finding>, for_user: bool) -> Finding {
        let made = Made::of(&[]);
        let mut made = if for_user { made.for_user() } else { made };
        made.probes.huge_pages = huge_pages;
        super::huge_pages(&made)
    }

    #[test]
    fn what_the_doctor_of_huge_pages_tells_becomes_one_finding() {
        assert_eq!(found(|| vec![tried("scan", true, true)], false).state, State::Ok);
        let less = found(|| vec![tried("scan", true, true), tried("DAMON", false, false)], false);
        assert_eq!((less.state, less.found.as_str()), (State::Note, "can be managed; without: DAMON"));
        let none = found(|| vec![tried("scan", false, true)], false);
        assert_eq!((none.state, none.found.as_str()), (State::Missing, "cannot be managed: scan: why"));
        assert_eq!(found(|| vec![tried("scan", false, true)], true).state, State::Note);
    }

    #[test]
    fn a_kernel_without_userfaultfd_is_told_so() {
        let found = |files: &[(&str, &str)]| user_faults(&Made::of(files));
        assert!(found(&[("proc/sys/vm/swappiness", "60\n")]).found.starts_with("this kernel has none"));
        assert!(found(&[]).found.starts_with("unknown"));
        assert_eq!(["0\n", "1\n"].map(|value| found(&[(SWITCH, value)]).state), [State::Ok; 2]);
    }

    #[test]
    fn the_least_limit_around_this_process_counts() {
        let limited = |max: &str| {
            let made = Made::of(&[
                ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
                (GROUPS, "0::/box/own\n"),
                ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
                ("sys/fs/cgroup/box/memory.max", max),
                ("sys/fs/cgroup/box/own/memory.max", "max\n"),
                ("sys/fs/cgroup/box/own/memory.stat", "anon_thp 0\n"),
            ]);
            group(&made)
        };
        let small = limited("536870912\n");
        assert_eq!(small.state, State::Note);
        assert!(small.found.starts_with("512.0 MiB for /sys/fs/cgroup/box/own:"), "{small:?}");
        assert_eq!(limited("4294967296\n").found, "4.0 GiB");
        assert_eq!(limited("max\n").state, State::Ok);
        assert_eq!(group(&Made::of(&[(GROUPS, "0::/\n")])).found, "no control group limits memory");
        assert_eq!(group(&Made::of(&[])).state, State::Note);
    }
}
