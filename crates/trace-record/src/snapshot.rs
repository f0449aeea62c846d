//! Files as they were before the traced program changed them.
//!
//! Trees that are named are walked before the program runs. Of others, each path is looked at when a call first uses
//! it. Under ptrace that is before the call. A program in the kernel reports the call a moment later: then a file that
//! is younger than the recording was made by it, and was not there before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use esker_trace_calls::words::FileKind;
use esker_trace_calls::{Entry, EntryKind, PathBytes, Word, Xattr};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom, Statx, StatxFlags, statx};
use rustix::io::Errno;

use crate::calls::kind_of_mode;

/// Symbolic links that are followed in one path, as in the kernel.
const LINKS_MAX: u32 = 40;
/// What the kernel makes up for each process.
const MADE_UP: [&str; 2] = ["/proc", "/sys"];
/// Names of directories that are read outside of walked trees, at most.
const LISTED_MAX: usize = 1 << 18;
/// Bytes of a block as `stat` counts them.
const BLOCK: u64 = 512;
/// Bytes without blocks from which a file is asked for its holes.
const HOLES_FROM: u64 = 64 << 10;
/// Holes that are looked for in one file.
const HOLES_MAX: u32 = 1 << 16;

/// What was looked at, and when recording began.
#[derive(Debug)]
pub struct Snapshot {
    /// ns since 1970.
    started: i64,
    /// Paths as calls name them, all of whose components were looked at.
    known: BTreeSet<Vec<u8>>,
    /// What was looked at, as the tree that it is; the root first.
    nodes: Vec<Node>,
    groups: BTreeMap<(u64, u64), u64>,
    /// Names in directories that were read, by the paths of these, until recording ends.
    listed: BTreeMap<PathBuf, Vec<OsString>>,
    /// How many names these are.
    listed_names: usize,
    /// Entries that could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Files that the program had changed when they were looked at: their size may be a later one.
    pub changed: u64,
}

/// A path without symbolic links before its last component.
#[derive(Debug, Default)]
struct Node {
    /// Where it leads, if it is a link.
    target: Option<PathBuf>,
    /// Numbers of nodes.
    children: BTreeMap<OsString, usize>,
    /// Whether its children are all that there was before the program: it was walked, or it was absent.
    is_whole: bool,
}

const ROOT: usize = 0;

impl Snapshot {
    /// Nothing yet; files that are younger than `started` (ns since 1970) are not taken.
    pub fn new(started: i64) -> Snapshot {
        Snapshot {
            started,
            known: BTreeSet::new(),
            nodes: vec![Node::default()],
            groups: BTreeMap::new(),
            listed: BTreeMap::new(),
            listed_names: 0,
            unreadable: Vec::new(),
            changed: 0,
        }
    }

    /// Takes a whole tree, and the directories above it. Stays on its file system.
    ///
    /// # Errors
    /// If `root` is not there; what is below and cannot be read is only noted.
    pub fn walk(&mut self, root: &Path, give: &mut impl FnMut(&PathBytes, &Entry)) -> io::Result<()> {
        let root = fs::canonicalize(root)?;
        let (_, node) = self.follow(&root, give);
        let device = look(&root)?.device();
        self.walk_below(&root, &root, node, device, give);
        Ok(())
    }

    /// Takes what lies in a directory, which `reach` leads to: its own path may be longer than the kernel takes.
    fn walk_below(
        &mut self,
        path: &Path,
        reach: &Path,
        node: usize,
        device: u64,
        give: &mut impl FnMut(&PathBytes, &Entry),
    ) {
        let opened = rustix::fs::open(reach, DIRECTORY, Mode::empty()).map_err(io::Error::from);
        let listed = opened.and_then(|dir| Ok((names_in(&dir)?, dir)));
        let (names, dir) = match listed {
            Ok(listed) => listed,
            Err(error) => return self.unreadable.push((path.to_path_buf(), error)),
        };
        let reach = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        for name in names {
            let name = OsStr::from_bytes(name.as_bytes());
            let (path, reach) = (path.join(name), reach.join(name));
            let below = self.take(node, &path, &reach, give);
            let is_folder = |look: &FileStat| look.kind() == FileKind::Directory && look.device() == device;
            if look(&reach).is_ok_and(|look| is_folder(&look)) {
                self.walk_below(&path, &reach, below, device, give);
            }
        }
        self.nodes[node].is_whole = true;
    }

    /// Takes all that lies on an absolute path, as far as it is there and was not looked at.
    pub fn touch(&mut self, path: &[u8], give: &mut impl FnMut(&PathBytes, &Entry)) {
        if self.known.contains(path) {
            return;
        }
        self.known.insert(path.to_vec());
        self.follow(Path::new(OsStr::from_bytes(path)), give);
    }

    /// Notes what is in a directory that the program reads: a replay finds as many names. What is in trees that were
    /// walked is known.
    pub fn list(&mut self, path: &[u8]) {
        let path = Path::new(OsStr::from_bytes(path));
        let is_made_up = MADE_UP.iter().any(|folder| path.starts_with(folder));
        if is_made_up || self.listed.contains_key(path) || self.listed_names >= LISTED_MAX || self.is_whole(path) {
            return;
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names: Vec<OsString> = entries.take(LISTED_MAX).map(|entry| entry.file_name()).collect();
        self.listed_names += names.len();
        self.listed.insert(path.to_path_buf(), names);
    }

    fn is_whole(&self, path: &Path) -> bool {
        let mut names = components(path).into_iter().rev();
        let node = names.try_fold(ROOT, |node, name| self.nodes[node].children.get(&name).copied());
        node.is_some_and(|node| self.nodes[node].is_whole)
    }

    /// Takes those of the listed names that no call named. Files have no data: nothing but their names was asked for.
    pub fn take_listed(&mut self, give: &mut impl FnMut(&PathBytes, &Entry)) {
        let mut without_data = |path: &PathBytes, entry: &Entry| match entry.kind {
            EntryKind::File { .. } => {
                give(path, &Entry { kind: EntryKind::File { size: 0 }, holes: 0, group: 0, ..entry.clone() });
            }
            _ => give(path, entry),
        };
        for (folder, names) in std::mem::take(&mut self.listed) {
            let (folder, node) = self.follow(&folder, &mut without_data);
            for name in names {
                let path = folder.join(name);
                self.take(node, &path, &path, &mut without_data);
            }
        }
    }

    /// The path without dots and links to which an absolute one leads, on which all is taken.
    pub fn resolve(&mut self, path: &[u8], give: &mut impl FnMut(&PathBytes, &Entry)) -> Vec<u8> {
        self.follow(Path::new(OsStr::from_bytes(path)), give).0.into_os_string().into_vec()
    }

    /// Takes all that lies on an absolute path; where it leads, and the node there.
    fn follow(&mut self, path: &Path, give: &mut impl FnMut(&PathBytes, &Entry)) -> (PathBuf, usize) {
        let (mut at, mut node, mut above, mut links) = (PathBuf::from("/"), ROOT, Vec::new(), 0);
        let mut rest = components(path);
        while let Some(component) = rest.pop() {
            if component == ".." {
                at.pop();
                node = above.pop().unwrap_or(ROOT);
                continue;
            }
            at.push(component);
            let below = self.take(node, &at, &at, give);
            let Some(target) = &self.nodes[below].target else {
                above.push(node);
                node = below;
                continue;
            };
            links += 1;
            if links > LINKS_MAX {
                break;
            }
            at.pop();
            if target.is_absolute() {
                (at, node) = (PathBuf::from("/"), ROOT);
                above.clear();
            }
            rest.extend(components(target));
        }
        (at, node)
    }

    /// Takes one path below a node, to which `reach` leads too; its own node. What is in a directory of which all is
    /// known came later: by its birth alone, a file that was moved there would count as one from before.
    fn take(&mut self, above: usize, path: &Path, reach: &Path, give: &mut impl FnMut(&PathBytes, &Entry)) -> usize {
        let name = path.file_name().expect("a path that ends with a name");
        if let Some(node) = self.nodes[above].children.get(name) {
            return *node;
        }
        let is_new = self.nodes[above].is_whole;
        let seen = look(reach);
        let is_link = seen.as_ref().is_ok_and(|look| look.kind() == FileKind::Symlink);
        let target = if is_link { fs::read_link(reach).ok() } else { None };
        match seen {
            _ if is_new => {}
            Ok(look) if look.born().is_some_and(|born| born >= self.started) => {}
            Ok(look) => {
                if look.kind() == FileKind::Regular && look.modified() >= self.started {
                    self.changed += 1;
                }
                let entry = self.entry(reach, &look, target.as_deref());
                give(&PathBytes::from(path.as_os_str().as_bytes()), &entry);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory => {}
            Err(error) => self.unreadable.push((path.to_path_buf(), error)),
        }
        let node = self.nodes.len();
        self.nodes[above].children.insert(name.to_os_string(), node);
        self.nodes.push(Node { target, children: BTreeMap::new(), is_whole: is_new });
        node
    }

    fn entry(&mut self, path: &Path, look: &FileStat, target: Option<&Path>) -> Entry {
        let holes = look.may_have_holes().then(|| holes(path, look.0.stx_size)).flatten().unwrap_or(0);
        Entry { modified: look.modified(), xattrs: xattrs(path), holes, ..self.plain_entry(look, target) }
    }

    /// Type, permissions and names of a file.
    fn plain_entry(&mut self, look: &FileStat, target: Option<&Path>) -> Entry {
        let kind = match look.kind() {
            FileKind::Directory => EntryKind::Directory,
            FileKind::Symlink => {
                EntryKind::Symlink { target: PathBytes::from(target.unwrap_or(Path::new("")).as_os_str().as_bytes()) }
            }
            FileKind::Fifo => EntryKind::Fifo,
            FileKind::Socket => EntryKind::Socket,
            FileKind::CharDevice => look.special(false),
            FileKind::BlockDevice => look.special(true),
            FileKind::Regular | FileKind::Other => EntryKind::File { size: look.0.stx_size },
        };
        let next = self.groups.len() as u64 + 1;
        let group = match kind {
            EntryKind::Directory => 0,
            _ if look.0.stx_nlink < 2 => 0,
            _ => *self.groups.entry((look.device(), look.0.stx_ino)).or_insert(next),
        };
        Entry { mode: look.0.stx_mode & 0o7777, group, ..Entry::plain(kind) }
    }
}

/// The last component first; `.` left out.
fn components(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    let mut all: Vec<_> = path.components().filter_map(name).collect();
    all.reverse();
    all
}

/// What the kernel tells of a file.
struct FileStat(Statx);

fn look(path: &Path) -> io::Result<FileStat> {
    look_in(CWD, path)
}

fn look_in<P: rustix::path::Arg>(dir: impl AsFd, path: P) -> io::Result<FileStat> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Ok(FileStat(statx(dir, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, mask)?))
}

impl FileStat {
    fn kind(&self) -> FileKind {
        kind_of_mode(u32::from(self.0.stx_mode))
    }

    fn device(&self) -> u64 {
        rustix::fs::makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    fn special(&self, block: bool) -> EntryKind {
        EntryKind::Device { block, major: self.0.stx_rdev_major, minor: self.0.stx_rdev_minor }
    }

    /// Whether a file has so few blocks that it is worth a look.
    fn may_have_holes(&self) -> bool {
        let blocks = self.0.stx_blocks.saturating_mul(BLOCK);
        self.kind() == FileKind::Regular && self.0.stx_size.saturating_sub(blocks) >= HOLES_FROM
    }

    fn modified(&self) -> i64 {
        nanos(self.0.stx_mtime.tv_sec, self.0.stx_mtime.tv_nsec)
    }

    /// When it was made, on file systems that keep that.
    fn born(&self) -> Option<i64> {
        let known = self.0.stx_mask & StatxFlags::BTIME.bits() != 0;
        known.then(|| nanos(self.0.stx_btime.tv_sec, self.0.stx_btime.tv_nsec))
    }
}

/// Bytes of a file that are holes, if it can be opened. A file that its file system compresses has none.
fn holes(path: &Path, size: u64) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let (mut at, mut holes) = (0, 0u64);
    for _ in 0..HOLES_MAX {
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(at)).ok()?.min(size);
        let data = match rustix::fs::seek(&file, SeekFrom::Data(hole)) {
            Ok(data) => data.min(size),
            Err(Errno::NXIO) => size,
            Err(_) => return None,
        };
        holes += data - hole;
        at = data;
        if at >= size {
            break;
        }
    }
    Some(holes)
}

fn nanos(seconds: i64, nanos: u32) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos))
}

/// Names and lengths of extended attributes; none where they cannot be read.
fn xattrs(path: &Path) -> Vec<Xattr> {
    // Most files have none, which is asked for without room for them.
    let none: &mut [u8] = &mut [];
    let mut room = vec![0u8; rustix::fs::llistxattr(path, none).unwrap_or(0)];
    if room.is_empty() {
        return Vec::new();
    }
    let Ok(len) = rustix::fs::llistxattr(path, &mut room[..]) else { return Vec::new() };
    let names = room[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found: Vec<Xattr> = names
        .map(|name| {
            let none: &mut [u8] = &mut [];
            let len = rustix::fs::lgetxattr(path, name, none).unwrap_or(0);
            Xattr { name: Word::from(name), len: len as u32 }
        })
        .collect();
    found.sort();
    found
}

mod after;
#[cfg(test)]
mod tests;

pub use after::final_tree;
use after::{DIRECTORY, names_in};
