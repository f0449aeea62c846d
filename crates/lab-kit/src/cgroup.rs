//! Control groups of memory, of either version: around this process, whose memory and page cache are bounded, or
//! around a program, whose memory is counted.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process;

use esker_hugepage_linux::linux::groups::{Hierarchy, Version};
use esker_hugepage_linux::linux::knobs::number;

use crate::experiment::LabError;
use crate::peer;

/// What membership of a group is written to.
const MEMBERS: &str = "cgroup.procs";

/// A group, until dropped; it should be empty by then.
pub struct Group {
    folder: PathBuf,
    version: Version,
}

impl Group {
    /// A group with a process in it. What that held before counts for the group that it was in.
    ///
    /// # Errors
    /// The kernel has no such groups, or this takes root.
    pub fn around(pid: u32) -> Result<Group, LabError> {
        let hierarchy = hierarchy()?;
        let folder = hierarchy.folder(&format!("esker-lab-{pid}"));
        fs::create_dir(&folder).map_err(failed)?;
        let group = Group { folder, version: hierarchy.version() };
        fs::write(group.folder.join(MEMBERS), pid.to_string()).map_err(failed)?;
        Ok(group)
    }

    /// Bytes of anonymous memory that are charged to it, also those that were freed and that a huge page still holds.
    pub fn charged(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        number(&text, if self.version == Version::One { "rss" } else { "anon" }).unwrap_or(0)
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
        let hierarchy = hierarchy()?;
        let own = hierarchy.of_process(process::id());
        let before = hierarchy.folder(&own.ok_or_else(|| peer::fault(PROGRAM, "this process is in no group"))?);
        let limited = Limited { group: Group::around(process::id())?, before };
        let limit = if hierarchy.version() == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(limited.group.folder.join(limit), bytes.to_string()).map_err(failed)?;
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

const PROGRAM: &str = "a control group of memory";

fn failed(error: io::Error) -> LabError {
    peer::fault(PROGRAM, error)
}

/// That of this machine; groups of the second version get the controller of memory.
fn hierarchy() -> Result<Hierarchy, LabError> {
    let hierarchy = Hierarchy::find().ok_or_else(|| peer::fault(PROGRAM, "the controller of memory is not mounted"))?;
    if hierarchy.version() == Version::Two {
        fs::write(hierarchy.folder("").join("cgroup.subtree_control"), "+memory").map_err(failed)?;
    }
    Ok(hierarchy)
}
