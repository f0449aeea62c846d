//! Files as they were after the traced program had ended, below the trees that were taken before it began.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use esker_trace_calls::words::FileKind;
use esker_trace_calls::{FinalTree, PathBytes};
use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};

use super::{FileStat, Snapshot, look, look_in};

/// What lies at and below `roots` now; they are absolute and lead through no link. Files that this process itself has
/// open, such as the recording, are left out.
pub fn final_tree(roots: &[PathBuf]) -> FinalTree {
    let mut walk = Walk { found: FinalTree::default(), names: Snapshot::new(i64::MAX), own: own_files() };
    let mut roots: Vec<&PathBuf> = roots.iter().collect();
    roots.sort();
    for root in roots {
        let path = root.as_os_str().as_bytes();
        if !walk.found.covers(path) {
            walk.found.roots.push(PathBytes::from(path));
            walk.root(root);
        }
    }
    walk.found
}

struct Walk {
    found: FinalTree,
    /// Numbers the groups of names.
    names: Snapshot,
    /// Device and inode of files that are not the program's.
    own: BTreeSet<(u64, u64)>,
}

impl Walk {
    fn root(&mut self, root: &Path) {
        let path = root.as_os_str().as_bytes();
        let seen = look(root);
        let device = seen.as_ref().map_or(0, FileStat::device);
        let target = || fs::read_link(root).unwrap_or_default().into_os_string();
        if self.take(path, seen, device, target) {
            let opened = rustix::fs::open(root, DIRECTORY, Mode::empty());
            self.below(path, opened.map_err(io::Error::from), device);
        }
    }

    /// Takes what lies in an open directory, which is closed before its parent goes on.
    fn below(&mut self, path: &[u8], dir: io::Result<OwnedFd>, device: u64) {
        let listed = dir.and_then(|dir| Ok((names_in(&dir)?, dir)));
        let Ok((names, dir)) = listed else { return self.leave_out(path) };
        for name in names {
            let path = [path.strip_suffix(b"/").unwrap_or(path), b"/", name.as_bytes()].concat();
            let target = || readlinkat(&dir, &name, Vec::new()).map_or(OsString::new(), os_string);
            if self.take(&path, look_in(dir.as_fd(), &name), device, target) {
                let opened = openat(&dir, &name, DIRECTORY, Mode::empty());
                self.below(&path, opened.map_err(io::Error::from), device);
            }
        }
    }

    /// Takes one file; whether it is a directory to be entered.
    fn take(
        &mut self,
        path: &[u8],
        seen: io::Result<FileStat>,
        device: u64,
        target: impl FnOnce() -> OsString,
    ) -> bool {
        let seen = match seen {
            Ok(seen) => seen,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
            Err(_) => {
                self.leave_out(path);
                return false;
            }
        };
        let kind = seen.kind();
        let is_mount = kind == FileKind::Directory && seen.device() != device;
        if is_mount || self.own.contains(&(seen.device(), seen.0.stx_ino)) {
            self.leave_out(path);
            return false;
        }
        let target = if kind == FileKind::Symlink { PathBuf::from(target()) } else { PathBuf::new() };
        let entry = self.names.plain_entry(&seen, Some(&target));
        self.found.tree.entries.insert(PathBytes::from(path), entry);
        kind == FileKind::Directory
    }

    fn leave_out(&mut self, path: &[u8]) {
        self.found.without.push(PathBytes::from(path));
    }
}

/// How a directory is opened to be listed.
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn os_string(target: CString) -> OsString {
    OsString::from_vec(target.into_bytes())
}

/// All names in an open directory.
pub(super) fn names_in(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Regular files that this process has open.
fn own_files() -> BTreeSet<(u64, u64)> {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let files = open.filter_map(|entry| fs::metadata(entry.path()).ok()).filter(fs::Metadata::is_file);
    files.map(|file| (file.dev(), file.ino())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "looks at real files")]

    use std::os::unix::fs::{PermissionsExt, symlink};

    use esker_trace_calls::{Entry, EntryKind};

    use super::*;

    fn at(tree: &FinalTree, root: &Path, name: &str) -> Option<Entry> {
        let path = root.join(name);
        tree.tree.entries.get(path.as_os_str().as_bytes()).cloned()
    }

    #[test]
    fn types_sizes_permissions_and_names_are_taken_but_not_what_this_process_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        fs::create_dir(root.join("d")).expect("made");
        fs::write(root.join("d/f"), "12345").expect("written");
        fs::set_permissions(root.join("d/f"), fs::Permissions::from_mode(0o640)).expect("set");
        fs::hard_link(root.join("d/f"), root.join("g")).expect("linked");
        symlink("d/f", root.join("l")).expect("linked");
        let own = fs::File::create(root.join("own")).expect("made");
        let tree = final_tree(&[root.join("d"), root.clone(), root.join("gone")]);
        assert_eq!(tree.roots, [PathBytes::from(root.as_os_str().as_bytes())], "those below others are not named");
        let [one, other] = ["d/f", "g"].map(|name| at(&tree, &root, name).expect("taken"));
        assert_eq!((one.kind.clone(), one.mode), (EntryKind::File { size: 5 }, 0o640));
        assert!(one.group > 0 && one == other);
        let target = PathBytes::from("d/f");
        assert_eq!(at(&tree, &root, "l").map(|entry| entry.kind), Some(EntryKind::Symlink { target }));
        assert_eq!(at(&tree, &root, "d").map(|entry| entry.kind), Some(EntryKind::Directory));
        assert_eq!((at(&tree, &root, "own"), tree.without.len()), (None, 1));
        drop(own);
        assert!(at(&final_tree(std::slice::from_ref(&root)), &root, "own").is_some());
        let gone = final_tree(&[root.join("gone")]);
        assert!(gone.tree.entries.is_empty() && gone.covers(root.join("gone/x").as_os_str().as_bytes()));
    }

    #[test]
    fn directories_beyond_the_longest_path_are_entered() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = "n".repeat(200);
        let mut dir = rustix::fs::open(folder.path(), DIRECTORY, Mode::empty()).expect("opened");
        for _ in 0..30 {
            rustix::fs::mkdirat(&dir, &*name, Mode::RWXU).expect("made");
            dir = openat(&dir, &*name, DIRECTORY, Mode::empty()).expect("opened");
        }
        let tree = final_tree(&[folder.path().canonicalize().expect("a path")]);
        assert_eq!((tree.tree.entries.len(), tree.without.len()), (31, 0));
    }
}
