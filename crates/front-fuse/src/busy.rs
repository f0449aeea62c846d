//! What this machine's kernel tells about mounts: where they are, and what keeps them busy.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what this machine's kernel tells in its files"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mounting::SUBTYPE;

/// One mount of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The directory.
    pub at: PathBuf,
    /// Type, as `mount` shows it.
    pub kind: String,
    /// Source, as `mount` shows it.
    pub source: String,
    /// Number of its device, as `major:minor`.
    pub device: String,
    /// The user that mounted it, for mounts of FUSE.
    pub user: Option<u32>,
}

impl Mount {
    /// Whether a process of ours serves it.
    pub fn is_ours(&self) -> bool {
        self.kind.strip_prefix("fuse.") == Some(SUBTYPE)
    }

    /// Whether it holds the files of an attachment.
    pub fn is_attachment(&self) -> bool {
        self.is_ours() && self.source == SUBTYPE
    }
}

/// What is mounted on a directory: of several mounts the last, which hides the others.
pub fn mount_at(at: &Path) -> Option<Mount> {
    parsed(&mountinfo()).into_iter().rfind(|mount| mount.at == at)
}

fn mountinfo() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// The mounts in the text of a `mountinfo`, in its order.
pub fn parsed(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parsed_line).collect()
}

fn parsed_line(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(2);
    let (device, at) = (head.next()?, head.nth(1)?);
    let mut tail = tail.split(' ');
    let (kind, source, options) = (tail.next()?, tail.next()?, tail.next()?);
    let user = options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    Some(Mount {
        at: unescaped(at).into(),
        kind: kind.to_string(),
        source: unescaped(source),
        device: device.to_string(),
        user,
    })
}

/// The kernel writes spaces and the like as three octal digits.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                out += &part[3..];
            }
            None => {
                out.push('\\');
                out += part;
            }
        }
    }
    out
}

/// What keeps a mounted tree busy, in words: processes that this process may look at, and mounts inside. A file system
/// that does not answer is not asked.
pub fn users_of_tree(at: &Path) -> Vec<String> {
    let inside = |path: &Path| path.starts_with(at);
    let mut users: Vec<String> = processes().iter().flat_map(|pid| users_of_process(pid, &inside)).collect();
    let mounts = parsed(&mountinfo());
    let within = mounts.iter().filter(|mount| mount.at != at && inside(&mount.at));
    users.extend(within.map(|mount| format!("{} is mounted at {}", mount.source, mount.at.display())));
    users
}

fn processes() -> Vec<String> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().map(|pid| pid.to_string()).collect()
}

/// The uses that one process makes of a tree, at most one of each sort.
fn users_of_process(pid: &str, inside: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let dir = Path::new("/proc").join(pid);
    let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
    let name = format!("process {pid} ({})", name.trim_end());
    let leads = |link: &str| fs::read_link(dir.join(link)).ok().filter(|target| inside(target));
    let mut users = Vec::new();
    for (link, what) in [("cwd", "works in"), ("root", "has as its root"), ("exe", "runs")] {
        users.extend(leads(link).map(|target| format!("{name} {what} {}", target.display())));
    }
    let open = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
    let open: BTreeSet<PathBuf> =
        open.filter_map(|fd| fs::read_link(fd.path()).ok()).filter(|target| inside(target)).collect();
    users.extend(open.first().map(|file| format!("{name} has {} open", file.display())));
    if users.is_empty() {
        let maps = fs::read_to_string(dir.join("maps")).unwrap_or_default();
        let mapped =
            maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| PathBuf::from(format!("/{path}")));
        users
            .extend(mapped.into_iter().find(|path| inside(path)).map(|file| format!("{name} maps {}", file.display())));
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "36 25 7:1 / /mnt/a\\040b rw,relatime shared:1 - ext4 /dev/loop1 rw\n\
                        40 25 0:57 / /mnt/r rw,nosuid - fuse.esker ram rw,user_id=1000,group_id=1000\n\
                        41 40 0:58 / /mnt/r/in rw - tmpfs none rw\n";

    #[test]
    fn a_mount_tells_its_place_type_and_user() {
        let mounts = parsed(TEXT);
        let [ext4, ram, _] = &mounts[..] else { panic!("three mounts") };
        assert_eq!((ext4.at.as_path(), ext4.user, ext4.is_ours()), (Path::new("/mnt/a b"), None, false));
        let told = (ram.source.as_str(), ram.device.as_str(), ram.user, ram.is_ours());
        assert_eq!(told, ("ram", "0:57", Some(1000), true));
    }

    #[test]
    fn a_process_with_a_file_or_a_working_directory_keeps_a_tree_busy() {
        let dir = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(dir.path()).unwrap();
        assert!(users_of_tree(&at).is_empty());
        let file = fs::File::create(at.join("f")).unwrap();
        let users = users_of_tree(&at);
        let expected = format!("has {} open", at.join("f").display());
        assert!(users.len() == 1 && users[0].ends_with(&expected), "{users:?}");
        drop(file);
    }
}
