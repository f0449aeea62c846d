//! Control groups of memory, of either version: how much of what a group holds is in huge pages, beside what it may
//! hold.
//!
//! The counts are the kernel's, of all processes of a group and of the groups in it, whether they are managed or not.

use std::fs;
use std::path::{Path, PathBuf};

use super::knobs::number;

/// Where groups are, and which of the two ways they are told in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    root: PathBuf,
    version: Version,
}

/// Version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy of the controller's own.
    One,
    /// One hierarchy for all controllers.
    Two,
}

/// What a group holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Anonymous memory in huge pages.
    pub huge: u64,
    /// All that is charged to it; nothing where that is not counted, as of the root of version 2.
    pub used: Option<u64>,
    /// What it may hold, by its own limit or by one of the groups around it, whichever is least.
    pub limit: Option<u64>,
}

/// Limits from here on are none: the largest that version 1 tells is a page below 2^63.
const UNLIMITED: u64 = i64::MAX as u64 & !0xffff;

impl Hierarchy {
    /// The one that the controller of memory has on this machine, if any.
    pub fn find() -> Option<Hierarchy> {
        Hierarchy::find_below(Path::new("/"))
    }

    /// The same of a machine whose files lie below `machine`: `/`, or a tree that a test has made.
    pub fn find_below(machine: &Path) -> Option<Hierarchy> {
        let mounts = fs::read_to_string(machine.join("proc/mounts")).unwrap_or_default();
        Hierarchy::of_mounts(&mounts, machine)
    }

    /// The same by the text of `/proc/mounts`. Where both versions are mounted, the controller belongs to one of them.
    fn of_mounts(mounts: &str, machine: &Path) -> Option<Hierarchy> {
        let has_memory = |words: &str, between: char| words.split(between).any(|word| word == "memory");
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[_, root, kind, options, ..] = &words[..] else { return None };
            let root = machine.join(root.trim_start_matches('/'));
            let controllers = || fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            let version = match kind {
                "cgroup" if has_memory(options, ',') => Version::One,
                "cgroup2" if has_memory(controllers().trim(), ' ') => Version::Two,
                _ => return None,
            };
            Some(Hierarchy { root, version })
        })
    }

    /// Which version it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The group that a process is in, as a path from the root.
    pub fn of_process(&self, pid: u32) -> Option<String> {
        self.of_lines(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
    }

    /// The same by the text of `/proc/PID/cgroup`.
    pub fn of_lines(&self, lines: &str) -> Option<String> {
        lines.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match self.version {
                Version::One => controllers.split(',').any(|name| name == "memory"),
                Version::Two => number == "0" && controllers.is_empty(),
            };
            is_it.then(|| path.to_string())
        })
    }

    /// What a group holds; nothing if it is gone, or not below this hierarchy's root, as seen from some containers.
    pub fn held(&self, group: &str) -> Option<Held> {
        let folder = self.folder(group);
        let stat = fs::read_to_string(folder.join("memory.stat")).ok()?;
        let own = |name: &str| read_number(&folder.join(name));
        Some(match self.version {
            Version::One => Held {
                huge: number(&stat, "total_rss_huge").or_else(|| number(&stat, "rss_huge"))?,
                used: own("memory.usage_in_bytes"),
                // Of all groups from this one to the root.
                limit: number(&stat, "hierarchical_memory_limit").filter(|limit| *limit < UNLIMITED),
            },
            Version::Two => Held {
                huge: number(&stat, "anon_thp")?,
                used: own("memory.current"),
                limit: self.limits(&folder).min(),
            },
        })
    }

    /// Where a group is.
    pub fn folder(&self, group: &str) -> PathBuf {
        self.root.join(group.trim_start_matches('/'))
    }

    /// The limits of a group and of those around it. `max` is none.
    fn limits<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = u64> + use<'a> {
        let around = folder.ancestors().take_while(|folder| folder.starts_with(&self.root));
        around.filter_map(|folder| read_number(&folder.join("memory.max")))
    }
}

/// A number that is all of a file.
fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like a hierarchy, and the line by which it is mounted.
    fn mounted(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = folder.path().display();
        let line = match version {
            Version::One => format!("cgroup {root} cgroup rw,nosuid,relatime,memory 0 0"),
            Version::Two => format!("cgroup2 {root} cgroup2 rw,relatime,nsdelegate 0 0"),
        };
        let others =
            "proc /proc proc rw 0 0\ncgroup /x/cpu cgroup rw,cpu,cpuacct 0 0\nnone /x/unified cgroup2 rw 0 0\n";
        let hierarchy = Hierarchy::of_mounts(&format!("{others}{line}\n"), Path::new("/")).expect("it is found");
        assert_eq!(hierarchy, Hierarchy { root: folder.path().to_path_buf(), version });
        (folder, hierarchy)
    }

    #[test]
    fn a_group_of_the_first_version_is_told_with_those_in_it_and_the_least_limit_around_it() {
        let stat =
            "cache 7\nrss 5000\nrss_huge 2097152\nhierarchical_memory_limit 1073741824\ntotal_rss_huge 6291456\n";
        let none = "rss_huge 4194304\nhierarchical_memory_limit 9223372036854771712\n";
        let files = [
            ("box/a/memory.stat", stat),
            ("box/a/memory.usage_in_bytes", "9000000\n"),
            ("box/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("old/memory.stat", none),
            ("old/memory.usage_in_bytes", "4200000\n"),
        ];
        let (_folder, hierarchy) = mounted(Version::One, &files);
        assert_eq!(hierarchy.held("/box/a"), Some(Held { huge: 6 << 20, used: Some(9_000_000), limit: Some(1 << 30) }));
        assert_eq!(hierarchy.held("/old"), Some(Held { huge: 4 << 20, used: Some(4_200_000), limit: None }));
        assert_eq!(hierarchy.held("/gone"), None);
        let lines = "12:pids:/p\n5:cpu,memory:/box/a\n0::/u\n";
        assert_eq!(hierarchy.of_lines(lines).as_deref(), Some("/box/a"));
        assert_eq!(hierarchy.of_lines("5:cpu:/box\n0::/u\n"), None);
    }

    #[test]
    fn a_group_of_the_second_version_is_held_by_the_groups_around_it() {
        let files = [
            ("cgroup.controllers", "cpuset cpu io memory pids\n"),
            ("memory.stat", "anon 1\nanon_thp 8388608\n"),
            ("a.slice/memory.max", "536870912\n"),
            ("a.slice/b.service/memory.max", "max\n"),
            ("a.slice/b.service/memory.current", "300000000\n"),
            ("a.slice/b.service/memory.stat", "anon 250000000\nfile 0\nanon_thp 2097152\nfile_thp 9\n"),
        ];
        let (_folder, hierarchy) = mounted(Version::Two, &files);
        let inner = Held { huge: 2 << 20, used: Some(300_000_000), limit: Some(512 << 20) };
        assert_eq!(hierarchy.held("/a.slice/b.service"), Some(inner));
        assert_eq!(hierarchy.held("/"), Some(Held { huge: 8 << 20, used: None, limit: None }));
        assert_eq!(hierarchy.of_lines("5:memory:/x\n0::/a.slice/b.service\n").as_deref(), Some("/a.slice/b.service"));
    }

    #[test]
    fn where_memory_has_no_controller_there_are_no_groups() {
        let mounts = "cgroup /x cgroup rw,cpuset 0 0\ntmpfs /y tmpfs rw 0 0\nbroken\n";
        assert_eq!(Hierarchy::of_mounts(mounts, Path::new("/")), None);
    }
}
