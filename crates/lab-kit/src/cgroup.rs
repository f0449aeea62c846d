//! Control groups of memory, of either version: around this process, whose memory and page cache are bounded, or around
//! a program, whose memory is counted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::experiment::LabError;
use crate::peer;

/// What membership of a group is written to.
const MEMBERS: &str = "cgroup.procs";

/// Where groups are, and how a version calls things.
struct Hierarchy {
    root: &'static Path,
    /// The file of the bound.
    limit: &'static str,
    /// What begins the line of `/proc/PID/cgroup` that names a process' group.
    line: &'static str,
    /// The count of anonymous memory in `memory.stat`.
    anonymous: &'static str,
}

/// A group, until dropped; it should be empty by then.
pub struct Group {
    folder: PathBuf,
    hierarchy: Hierarchy,
}

impl Group {
    /// A group with a process in it. What that held before counts for the group that it was in.
    ///
    /// # Errors
    /// The kernel has no such groups, or this takes root.
    pub fn around(pid: u32) -> Result<Group, LabError> {
        Group::make(pid).map_err(|error| peer::fault("a control group of memory", error))
    }

    fn make(pid: u32) -> io::Result<Group> {
        let hierarchy = hierarchy()?;
        let folder = hierarchy.root.join(format!("esker-lab-{pid}"));
        fs::create_dir(&folder)?;
        let group = Group { folder, hierarchy };
        fs::write(group.folder.join(MEMBERS), pid.to_string())?;
        Ok(group)
    }

    /// Bytes of anonymous memory that are charged to it, also those that were freed and that a huge page still holds.
    pub fn charged(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let count = |line: &str| line.strip_prefix(self.hierarchy.anonymous)?.parse().ok();
        text.lines().find_map(count).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is left of a killed process may take a moment to leave it; an empty group costs nothing.
        let _removed = fs::remove_dir(&self.folder);
    }
}

/// This process in a group of its own that is bounded, until dropped.
pub struct Limited {
    group: Group,
    before: PathBuf,
}

impl Limited {
    /// From now on this process has at most `bytes` of memory and page cache more.
    ///
    /// # Errors
    /// As of [`Group::around`].
    pub fn to(bytes: u64) -> Result<Limited, LabError> {
        let fault = |error| peer::fault("a control group of memory", error);
        let before = own_folder().map_err(fault)?;
        let group = Group::around(process::id())?;
        let limited = Limited { group, before };
        let limit = limited.group.folder.join(limited.group.hierarchy.limit);
        fs::write(limit, bytes.to_string()).map_err(fault)?;
        Ok(limited)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.before.join(MEMBERS), process::id().to_string()) {
            eprintln!("{}: this process stays in it: {error}", self.group.folder.display());
        }
    }
}

/// The group in which this process is.
fn own_folder() -> io::Result<PathBuf> {
    let hierarchy = hierarchy()?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let line = own.lines().find_map(|line| line.split_once(hierarchy.line));
    let (_, path) = line.ok_or_else(|| io::Error::other("this process is in no group"))?;
    Ok(hierarchy.root.join(path.trim_start_matches('/')))
}

/// The second version of groups, or the first.
fn hierarchy() -> io::Result<Hierarchy> {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "memory") {
        fs::write(root.join("cgroup.subtree_control"), "+memory")?;
        return Ok(Hierarchy { root, limit: "memory.max", line: "0::", anonymous: "anon " });
    }
    let root = Path::new("/sys/fs/cgroup/memory");
    match root.join(MEMBERS).exists() {
        true => Ok(Hierarchy { root, limit: "memory.limit_in_bytes", line: ":memory:", anonymous: "rss " }),
        false => Err(io::Error::other("the controller of memory is not mounted")),
    }
}
