//! Real control groups of memory, and what the kernel tells of free memory.

use std::path::PathBuf;

use super::heat::Managed;
use super::*;
use crate::linux::groups::{Held, Hierarchy, Version};
use esker_hugepage::contiguity::{HUGE_ORDER, parse_buddyinfo};

/// A group with a process in it, until dropped.
struct Group {
    hierarchy: Hierarchy,
    path: String,
    pid: u32,
}

impl Group {
    /// None where it cannot be, which is recorded as a skip.
    fn around(puppet: &Puppet) -> Option<Group> {
        let Some(hierarchy) = Hierarchy::find() else {
            skip(Ability::Groups, "there are no control groups of memory");
            return None;
        };
        let pid = puppet.pid().0;
        let group = Group { hierarchy, path: format!("/esker-test-{pid}"), pid };
        let made = std::fs::create_dir(group.folder()).and_then(|()| group.write("cgroup.procs", &pid.to_string()));
        made.inspect_err(|error| skip(Ability::Groups, format_args!("{}: {error}", group.path))).ok()?;
        Some(group)
    }

    fn folder(&self) -> PathBuf {
        self.hierarchy.folder(&self.path)
    }

    fn write(&self, file: &str, value: &str) -> std::io::Result<()> {
        std::fs::write(self.folder().join(file), value)
    }

    fn held(&self) -> Held {
        self.hierarchy.held(&self.path).unwrap()
    }

    fn used(&self) -> u64 {
        self.held().used.unwrap()
    }

    /// Nothing: none.
    fn limit(&self, bytes: Option<u64>) {
        let (file, none) = match self.hierarchy.version() {
            Version::One => ("memory.limit_in_bytes", "-1"),
            Version::Two => ("memory.max", "max"),
        };
        self.write(file, &bytes.map_or(none.to_string(), |bytes| bytes.to_string())).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What has ended is in no group.
        drop(std::fs::write(self.hierarchy.folder("/").join("cgroup.procs"), self.pid.to_string()));
        drop(std::fs::remove_dir(self.folder()));
    }
}

#[test]
fn a_promotion_that_a_full_group_refuses_is_counted_as_that_and_its_process_passed_over() {
    let Some(mut puppet) = Puppet::start(8) else { return };
    let Some(group) = Group::around(&puppet) else { return };
    puppet.send("write 0 4096");
    let (mut tracked, region) = (puppet.track(), puppet.region(0));
    // Room for less than the huge page that a promotion takes before it gives back base pages.
    group.limit(Some(group.used() + REGION_BYTES / 2));
    assert_eq!(tracked.promote(region).result, Err(ChangeError::Limit));
    let policy = Policy { quantum_sleep: Nanos::secs(3_600), ..Policy::ingens() };
    let Some(mut managed) = Managed::meeting(&[puppet.pid()], Nanos::secs(60), policy) else { return };
    let refused = |manager: &Manager| manager.counts().refused.get(&ChangeError::Limit).copied().unwrap_or(0);
    managed.run(Nanos::secs(20), |manager| refused(manager) > 0);
    let record = &managed.manager.records()[&puppet.pid()];
    assert!(refused(&managed.manager) > 0 && record.excluded_until.is_some() && record.huge.is_empty());
    drop(managed);
    group.limit(None);
    assert_eq!(tracked.promote(region).result, Ok(()));
    assert_eq!(puppet.send("check 0 4096"), 0);
}

#[test]
fn what_is_freed_inside_huge_pages_leaves_the_process_and_stays_charged_until_they_are_split() {
    const REGIONS: u64 = 16;
    let Some(mut puppet) = Puppet::start(REGIONS) else { return };
    let Some(group) = Group::around(&puppet) else { return };
    let Some(flags) = flags() else {
        return skip(Ability::PageFlags, "/proc/kpageflags cannot be read");
    };
    puppet.send(&format!("write 0 {}", REGIONS * 512));
    let mut tracked = puppet.track();
    assert!((0..REGIONS).all(|at| tracked.promote(puppet.region(at)).result.is_ok()));
    let half = REGIONS * REGION_BYTES / 2;
    // The kernel counts what is charged in parts of some hundred KiB for each CPU.
    let is_half = |bytes: u64| bytes.abs_diff(half) < half / 4;
    let (resident, used) = (tracked.resident(), group.used());
    for at in 0..REGIONS {
        puppet.send(&format!("free {} {}", at * 512 + 256, at * 512 + 512));
    }
    let hidden = group.used();
    assert!(is_half(resident - tracked.resident()), "{resident} and then {} are resident", tracked.resident());
    assert!(used.saturating_sub(hidden) < half / 4, "{used} and then {hidden} are charged");
    assert!((0..REGIONS).all(|at| tracked.demote(puppet.region(at), Some(&flags)).result.is_ok()));
    let left = group.used();
    assert!(is_half(hidden.saturating_sub(left)), "{hidden} and then {left} are charged");
    assert_eq!(puppet.send("check 0 256"), 0);
}

/// The kernel's index of unusable free memory for huge pages, by zone; read in a view of files of its own, where its
/// debugging files can be had. Nothing where they cannot.
fn unusable_index() -> Option<Vec<(String, f64)>> {
    const READ: &str = "mount -t debugfs none /sys/kernel/debug && cat /sys/kernel/debug/extfrag/unusable_index";
    let mut command = std::process::Command::new("unshare");
    let told = command.args(["--mount", "sh", "-c", READ]).output().ok().filter(|told| told.status.success())?;
    let zone = |line: &str| {
        let (node, rest) = line.strip_prefix("Node ")?.split_once(", zone")?;
        let mut words = rest.split_whitespace();
        let name = format!("{}/{}", node.trim(), words.next()?);
        Some((name, words.nth(HUGE_ORDER)?.parse().ok()?))
    };
    Some(String::from_utf8_lossy(&told.stdout).lines().filter_map(zone).collect())
}

#[test]
fn the_index_of_each_zone_is_that_of_this_kernel() {
    let read = || parse_buddyinfo(&std::fs::read_to_string("/proc/buddyinfo").unwrap());
    // Memory is taken and given back all the time: what is the same before and after was so in between.
    for _ in 0..200 {
        let before = read();
        let Some(told) = unusable_index() else {
            return skip(Ability::FragmentationIndex, "this kernel does not tell its index");
        };
        if read() != before || told.is_empty() {
            continue;
        }
        for (name, index) in &told {
            let (_, blocks) = before.iter().find(|(zone, _)| zone == name).unwrap();
            assert!((blocks.fragmentation(0) - index).abs() <= 0.001, "{name}: {blocks:?} and {index}");
        }
        return;
    }
    skip(Ability::FragmentationIndex, "memory was never the same twice");
}
