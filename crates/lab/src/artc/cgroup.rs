//! A control group that bounds the memory of this process, the page cache that it fills included.

use std::io;
use std::path::{Path, PathBuf};

use crate::experiment::LabError;
use crate::peer;

/// What membership of a group is written to.
const MEMBERS: &str = "cgroup.procs";

/// This process in a group of its own, until dropped. What it held before counts for the group that it was in.
pub struct Limited {
    group: PathBuf,
    before: PathBuf,
}

/// Where groups that bound memory are, the file of the bound, and what begins the line that names our group.
struct Hierarchy {
    root: &'static Path,
    limit: &'static str,
    line: &'static str,
}

impl Limited {
    /// From now on this process has at most `bytes` of memory and page cache more.
    ///
    /// # Errors
    /// The kernel has no such groups, or this takes root.
    pub fn to(bytes: u64) -> Result<Limited, LabError> {
        Limited::enter(bytes).map_err(|error| peer::fault("a control group of memory", error))
    }

    fn enter(bytes: u64) -> io::Result<Limited> {
        let hierarchy = hierarchy()?;
        let own = std::fs::read_to_string("/proc/self/cgroup")?;
        let line = own.lines().find_map(|line| line.split_once(hierarchy.line));
        let (_, path) = line.ok_or_else(|| io::Error::other("this process is in no group"))?;
        let before = hierarchy.root.join(path.trim_start_matches('/'));
        let group = hierarchy.root.join(format!("esker-lab-{}", std::process::id()));
        std::fs::create_dir(&group)?;
        let limited = Limited { group, before };
        std::fs::write(limited.group.join(hierarchy.limit), bytes.to_string())?;
        std::fs::write(limited.group.join(MEMBERS), std::process::id().to_string())?;
        Ok(limited)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let left = std::fs::write(self.before.join(MEMBERS), std::process::id().to_string());
        if let Err(error) = left.and_then(|()| std::fs::remove_dir(&self.group)) {
            eprintln!("{}: stays: {error}", self.group.display());
        }
    }
}

/// The second version of groups, or the first.
fn hierarchy() -> io::Result<Hierarchy> {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "memory") {
        std::fs::write(root.join("cgroup.subtree_control"), "+memory")?;
        return Ok(Hierarchy { root, limit: "memory.max", line: "0::" });
    }
    let root = Path::new("/sys/fs/cgroup/memory");
    match root.join(MEMBERS).exists() {
        true => Ok(Hierarchy { root, limit: "memory.limit_in_bytes", line: ":memory:" }),
        false => Err(io::Error::other("the controller of memory is not mounted")),
    }
}
