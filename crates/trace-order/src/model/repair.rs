//! What a trace claims against the model: a success that cannot be is made possible, by the smallest event that was not
//! recorded.

use esker_base::Errno;
use esker_trace_calls::action::ThreadId;
use esker_trace_calls::call::{Call, Fd, Object};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::snapshot::{Entry, EntryKind};
use esker_trace_calls::wire::Field;
use esker_trace_calls::words::{FileKind, OpenFlags};

use crate::compiled::{Notes, Opened, RepairKind};

use super::compile::Compiler;
use super::open::SHARED_MEMORY;
use super::tree::{Inode, InodeId, NodeId, ROOT};
use super::world::{Description, inode_of};

/// What a repair did, for the count.
pub(super) type Mended = Option<(RepairKind, String)>;

/// Devices that every system has, and their numbers.
const DEVICES: &[(&[u8], u32, u32)] = &[
    (b"/dev/null", 1, 3),
    (b"/dev/zero", 1, 5),
    (b"/dev/full", 1, 7),
    (b"/dev/random", 1, 8),
    (b"/dev/urandom", 1, 9),
    (b"/dev/tty", 5, 0),
    (b"/dev/console", 5, 1),
    (b"/dev/ptmx", 5, 2),
];

impl Compiler {
    /// Makes it less impossible that `call` succeeds, which the model refuses with `errno`. `None` if nothing helps.
    pub(super) fn mend(&mut self, thread: ThreadId, call: &mut Call, errno: Errno, notes: &mut Notes) -> Mended {
        let mended = match errno {
            Errno::ENOENT => self.mend_absence(call),
            Errno::EEXIST => match call {
                Call::Open { flags, .. } | Call::ShmOpen { flags, .. } if flags.contains(OpenFlags::O_EXCL) => {
                    flags.remove(OpenFlags::O_EXCL);
                    *notes |= Notes::EXCLUSIVE_DROPPED;
                    Some((RepairKind::ExclusiveDropped, told(call)))
                }
                _ => self.mend_presence(),
            },
            Errno::EADDRINUSE => self.mend_presence(),
            Errno::ENOTEMPTY => self.empty_directory(),
            Errno::ENOTDIR => self.retype(thread, call, FileKind::Directory),
            Errno::EISDIR | Errno::ESPIPE | Errno::ENXIO => self.retype(thread, call, FileKind::Regular),
            Errno::ELOOP => self.retype(thread, call, wanted(call).0),
            Errno::EINVAL if matches!(call, Call::ReadLink { .. }) => self.retype(thread, call, FileKind::Symlink),
            Errno::EINVAL if matches!(call, Call::Truncate { .. } | Call::Allocate { .. }) => {
                self.widen(thread, call).or_else(|| self.retype(thread, call, FileKind::Regular))
            }
            Errno::EBADF => self.infer_descriptors(thread, call).or_else(|| self.widen(thread, call)),
            Errno::EACCES => self.widen(thread, call),
            _ => None,
        };
        notes.set(Notes::REPAIRED, mended.is_some() || notes.contains(Notes::REPAIRED));
        mended
    }

    /// A file is put where a look-up found nothing.
    fn mend_absence(&mut self, call: &Call) -> Mended {
        let (node, end) = self.world.looked?;
        if self.world.tree.node(node).inode.is_some() {
            return None;
        }
        let path = self.world.tree.path(node);
        let (kind, target) = if end { wanted(call) } else { (FileKind::Directory, PathBytes::default()) };
        let parent = self.world.tree.node(node).parent;
        let fresh = self.world.tree.node(parent).created;
        let implied = !self.world.tree.node(node).known && !fresh;
        let entry = entry_kind(&path, kind, target);
        let id = self.world.tree.add(inode_of(&entry));
        self.world.tree.node_mut(node).resource = None;
        self.world.tree.attach(node, id);
        let what = format!("{path}");
        if !implied {
            return Some((RepairKind::EntryAppeared, what));
        }
        self.imply(id, path, entry);
        Some((RepairKind::EntryImplied, what))
    }

    /// The tree before the first action has one more entry.
    pub(super) fn imply(&mut self, id: InodeId, path: PathBytes, kind: EntryKind) {
        self.world.tree.inode_mut(id).implied = Some(self.implied.len() as u32);
        self.implied.push(path.clone());
        self.list(path, kind);
    }

    /// The snapshot says what is at `path`. Shared memory is in no tree.
    fn list(&mut self, path: PathBytes, kind: EntryKind) {
        if !path.starts_with(SHARED_MEMORY) {
            self.snapshot.entries.insert(path, Entry::plain(kind));
        }
    }

    /// What is in the way of a new name is gone.
    fn mend_presence(&mut self) -> Mended {
        let (node, _) = self.world.looked?;
        self.world.tree.node(node).inode?;
        self.forget(node);
        Some((RepairKind::EntryVanished, self.world.tree.path(node).to_string()))
    }

    /// What is in a directory that was removed is gone.
    fn empty_directory(&mut self) -> Mended {
        let (node, _) = self.world.looked?;
        let children: Vec<NodeId> = self.world.tree.node(node).children.values().copied().collect();
        let present: Vec<NodeId> =
            children.into_iter().filter(|child| self.world.tree.node(*child).inode.is_some()).collect();
        let first = present.first().map(|child| self.world.tree.path(*child).to_string())?;
        present.into_iter().for_each(|child| self.forget(child));
        Some((RepairKind::EntryVanished, first))
    }

    /// A name leads to nothing, without anybody having removed it.
    fn forget(&mut self, node: NodeId) {
        let children: Vec<NodeId> = self.world.tree.node(node).children.values().copied().collect();
        for child in
            children.into_iter().filter(|child| self.world.tree.node(*child).inode.is_some()).collect::<Vec<_>>()
        {
            self.forget(child);
        }
        self.world.tree.detach(node);
        let node = self.world.tree.node_mut(node);
        (node.resource, node.created) = (None, false);
    }

    /// What is in the way has another type.
    fn retype(&mut self, thread: ThreadId, call: &Call, kind: FileKind) -> Mended {
        let by_name = self.world.looked.and_then(|(node, _)| self.world.tree.node(node).inode);
        let by_fd = call.fds_used().first().and_then(|fd| self.described(thread, *fd)).map(|known| known.inode);
        let id = by_name.or(by_fd).filter(|id| self.world.tree.inode(*id).kind != kind)?;
        let inode = self.world.tree.inode(id);
        // A directory has one name.
        if kind == FileKind::Directory && inode.links != 1 {
            return None;
        }
        let empty = !inode.is_directory() || self.world.tree.node(self.world.tree.inode(id).node).present == 0;
        if !empty {
            return None;
        }
        let target = wanted(call).1;
        let inode = self.world.tree.inode_mut(id);
        (inode.kind, inode.target, inode.resource) = (kind, target.clone(), None);
        if kind == FileKind::Directory {
            inode.size = 0;
            let above = self.world.tree.node(self.world.tree.inode(id).node).parent;
            let holder = self.world.tree.node(above).inode.unwrap_or(ROOT);
            self.world.tree.inode_mut(id).parent = holder;
        }
        let (path, implied) = (self.world.tree.path(self.world.tree.inode(id).node), self.world.tree.inode(id).implied);
        let Some(at) = implied else { return Some((RepairKind::TypeChanged, path.to_string())) };
        let path = self.implied[at as usize].clone();
        let entry = entry_kind(&path, kind, target);
        self.list(path.clone(), entry);
        Some((RepairKind::EntryImplied, path.to_string()))
    }

    fn described(&self, thread: ThreadId, fd: Fd) -> Option<Description> {
        self.world.peek(thread, fd.0).map(|descriptor| self.world.descriptions[descriptor.description])
    }

    /// Descriptors that nothing opened were open before the trace.
    fn infer_descriptors(&mut self, thread: ThreadId, call: &Call) -> Mended {
        let unknown = call.fds_used().into_iter().find(|fd| self.world.peek(thread, fd.0).is_none())?;
        let kind = match call {
            Call::ReadDir { .. } => FileKind::Directory,
            Call::Socket { .. } => FileKind::Socket,
            _ => FileKind::Other,
        };
        let table = self.world.task(thread).table;
        let inode = self.world.tree.add(Inode::new(kind));
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        self.world.descriptions.push(Description { inode, flags, offset: 0, users: 0 });
        self.world.count_open(inode, flags);
        let description = self.world.descriptions.len() - 1;
        let slot = self.world.install(table, unknown.0, description, false);
        self.opened.push(Opened { slot, kind, path: None, flags, offset: 0, group: 0, inferred: true });
        Some((RepairKind::DescriptorInferred, format!("descriptor {}", unknown.0)))
    }

    /// A descriptor allows more than its opening told: it was opened anew unseen.
    fn widen(&mut self, thread: ThreadId, call: &Call) -> Mended {
        let mut widened = None;
        for fd in call.fds_used() {
            let Some(descriptor) = self.world.peek(thread, fd.0) else { continue };
            let flags = &mut self.world.descriptions[descriptor.description].flags;
            let all = (*flags | OpenFlags::READ | OpenFlags::WRITE) - OpenFlags::O_PATH;
            if *flags != all {
                *flags = all;
                widened = Some((RepairKind::DescriptorReplaced, format!("descriptor {}", fd.0)));
            }
        }
        widened
    }
}

/// Type, and target of a link, of the file that a call needs at the end of its path.
fn wanted(call: &Call) -> (FileKind, PathBytes) {
    let none = PathBytes::default();
    match call {
        Call::Stat { seen: Some(status), .. } => (status.kind, none),
        Call::ReadLink { seen_target, .. } => (FileKind::Symlink, seen_target.clone().unwrap_or(none)),
        Call::Open { flags, .. } if flags.contains(OpenFlags::O_DIRECTORY) => (FileKind::Directory, none),
        Call::Open { at, .. } if at.path.last() == Some(&b'/') => (FileKind::Directory, none),
        Call::Chdir { .. } | Call::Rmdir { .. } | Call::Chroot { .. } => (FileKind::Directory, none),
        Call::Stat { file: Object::Path { at, .. }, .. } if at.path.last() == Some(&b'/') => {
            (FileKind::Directory, none)
        }
        _ => (FileKind::Regular, none),
    }
}

/// An entry of that type; devices by their names.
pub(super) fn entry_kind(path: &[u8], kind: FileKind, target: PathBytes) -> EntryKind {
    let device = DEVICES.iter().find(|(name, _, _)| *name == path);
    match (kind, device) {
        (FileKind::Regular | FileKind::CharDevice, Some((_, major, minor))) => {
            EntryKind::Device { block: false, major: *major, minor: *minor }
        }
        (FileKind::Directory, _) => EntryKind::Directory,
        (FileKind::Symlink, _) => EntryKind::Symlink { target },
        (FileKind::Fifo, _) => EntryKind::Fifo,
        (FileKind::Socket, _) => EntryKind::Socket,
        (FileKind::CharDevice, _) => EntryKind::Device { block: false, major: 1, minor: 3 },
        (FileKind::BlockDevice, _) => EntryKind::Device { block: true, major: 7, minor: 0 },
        (FileKind::Regular | FileKind::Other, _) => EntryKind::File { size: 0 },
    }
}

/// A call as text.
pub(super) fn told(call: &Call) -> String {
    let mut text = String::new();
    call.render(&mut text);
    text
}
