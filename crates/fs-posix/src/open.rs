//! `open` and its flags. The order of errors is that of `path_openat` in Linux 6.18.

use std::borrow::Cow;

use esker_base::Errno;
use esker_vfs::attr::mode;
use esker_vfs::walk::LINKS_MAX;
use esker_vfs::{Attr, FileFlags, FileType, NewKind};

use crate::file::{Fd, File};
use crate::flags::{Access, OpenFlags};
use crate::paths::{Follow, LastName, Node, Reached, Where};
use crate::process::Process;

/// What an open found or made.
struct Opened {
    node: Node,
    attr: Attr,
    made: bool,
}

impl Opened {
    fn found(reached: Reached) -> Opened {
        Opened { node: reached.node, attr: reached.attr, made: false }
    }
}

impl Process {
    /// Opens a file, and makes it if `flags` say so, with `mode` less the umask.
    ///
    /// Pipes and sockets are names only (`ENXIO`), and devices are refused as on a mount with `nodev` (`EACCES`): what
    /// they lead to is the kernel's.
    ///
    /// # Errors
    /// Those of a walk; `EMFILE`, `EINVAL` for flags that contradict, `EEXIST`, `EISDIR`, `ENOTDIR`, `ELOOP` for a
    /// symbolic link that is not followed, `EACCES`, `EPERM`, `ENOSPC`, `EMLINK`.
    pub async fn open(&self, at: impl Into<Where<'_>>, flags: OpenFlags, mode: u16) -> Result<Fd, Errno> {
        let flags = checked(flags)?;
        self.0.table.borrow().free(Fd(0))?;
        let opened = self.find(at.into(), flags, mode).await?;
        if !flags.contains(OpenFlags::PATH) {
            self.admit(&opened, flags).await?;
        } else if flags.contains(OpenFlags::DIRECTORY) && opened.attr.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let file = File::open(&self.0.world, self.cred(), opened.node, opened.attr.kind, flags);
        self.0.table.borrow_mut().add(Fd(0), file, flags.contains(OpenFlags::CLOEXEC))
    }

    async fn find(&self, at: Where<'_>, flags: OpenFlags, mode: u16) -> Result<Opened, Errno> {
        let follow = if flags.contains(OpenFlags::NOFOLLOW) { Follow::Nothing } else { Follow::Links };
        if flags.contains(OpenFlags::TMPFILE) {
            return self.unnamed(at, follow, mode).await;
        }
        if flags.contains(OpenFlags::CREAT) {
            return self.find_or_make(at, flags, mode).await;
        }
        self.reach(at, follow).await.map(Opened::found)
    }

    async fn unnamed(&self, at: Where<'_>, follow: Follow, mode: u16) -> Result<Opened, Errno> {
        let dir = self.reach(at, follow).await?;
        if dir.attr.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        self.may(&dir.attr, Access::WRITE | Access::EXECUTE)?;
        let made = self.make(&dir.node, &dir.attr, None, NewKind::File, mode).await?;
        Ok(Opened { node: made.node, attr: made.attr, made: true })
    }

    /// Follows symbolic links itself, because the file is made where the last one leads.
    async fn find_or_make(&self, at: Where<'_>, flags: OpenFlags, mode: u16) -> Result<Opened, Errno> {
        let mut start = self.start(at)?;
        let mut path = Cow::Borrowed(at.path());
        for _ in 0..=LINKS_MAX {
            let named = self.parent_from(&start, &path).await?;
            if !matches!(named.last, LastName::Name(_)) {
                let reached = self.reach_from(&start, &path, Follow::Links).await?;
                return existing(reached, flags);
            }
            if named.slash {
                return Err(Errno::EISDIR);
            }
            let name = named.name(Errno::EISDIR)?;
            let Some(found) = self.child(&named.dir, name).await? else {
                self.may(&named.attr, Access::WRITE | Access::EXECUTE)?;
                let made = self.make(&named.dir, &named.attr, Some(name), NewKind::File, mode).await?;
                return Ok(Opened { node: made.node, attr: made.attr, made: true });
            };
            let followed = !flags.intersects(OpenFlags::NOFOLLOW | OpenFlags::EXCL);
            if found.attr.kind != FileType::Symlink || !followed {
                let is_planted = self.is_planted(&named.attr, &found.attr);
                let opened = existing(found, flags)?;
                return if is_planted { Err(Errno::EACCES) } else { Ok(opened) };
            }
            let target = self.0.world.0.files.target(self.call(), found.node.ino()).await?;
            start = if target.starts_with(b"/") { Node::Shared(self.root()) } else { named.dir };
            path = Cow::Owned(target.into_vec());
        }
        Err(Errno::ELOOP)
    }

    /// Whether another user may have laid this here for callers that mean to make a file: `may_create_in_sticky` of
    /// Linux, without `protected_regular` and `protected_fifos`. The superuser is no exception.
    fn is_planted(&self, dir: &Attr, found: &Attr) -> bool {
        const SHARED: u16 = mode::STICKY | 0o002;
        let is_strange = found.uid != dir.uid && found.uid != self.0.cred.borrow().uid;
        let is_usual = matches!(found.kind, FileType::File | FileType::Fifo);
        dir.mode & SHARED == SHARED && is_strange && !is_usual
    }

    /// Checks what an open of this inode takes, and cuts it.
    async fn admit(&self, opened: &Opened, flags: OpenFlags) -> Result<(), Errno> {
        let attr = &opened.attr;
        if opened.made {
            return Ok(());
        }
        let is_directory = attr.kind == FileType::Directory;
        if flags.contains(OpenFlags::DIRECTORY) && !is_directory {
            return Err(Errno::ENOTDIR);
        }
        let writes = flags.intersects(OpenFlags::ACCESS | OpenFlags::TRUNC);
        match attr.kind {
            FileType::Symlink => return Err(Errno::ELOOP),
            FileType::Directory if writes => return Err(Errno::EISDIR),
            FileType::CharDevice | FileType::BlockDevice => return Err(Errno::EACCES),
            FileType::File | FileType::Directory | FileType::Fifo | FileType::Socket => {}
        }
        self.may(attr, wanted(attr.kind, flags))?;
        if attr.flags.has(FileFlags::APPEND) && writes && !appends(flags) {
            return Err(Errno::EPERM);
        }
        self.may_leave_access_time(attr, flags)?;
        if matches!(attr.kind, FileType::Fifo | FileType::Socket) {
            return Err(Errno::ENXIO);
        }
        if flags.contains(OpenFlags::TRUNC) && attr.kind == FileType::File {
            let set = self.cut(attr, 0);
            self.0.world.0.files.set_attr(self.call(), opened.node.ino(), set).await?;
        }
        Ok(())
    }

    /// # Errors
    /// `EPERM` for `NOATIME` of what the caller does not own.
    fn may_leave_access_time(&self, attr: &Attr, flags: OpenFlags) -> Result<(), Errno> {
        if flags.contains(OpenFlags::NOATIME) && !self.owns(attr) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Whether status flags may be set on an open file, as `F_SETFL` does.
    ///
    /// # Errors
    /// `EPERM` for `NOATIME` of what the caller does not own, and if `APPEND` of a file that is only appended to
    /// changes.
    pub(crate) fn may_set_status(&self, attr: &Attr, old: OpenFlags, new: OpenFlags) -> Result<(), Errno> {
        let changed = old ^ new;
        if changed.contains(OpenFlags::APPEND) && attr.flags.has(FileFlags::APPEND) {
            return Err(Errno::EPERM);
        }
        self.may_leave_access_time(attr, new & changed)
    }
}

/// What an existing inode answers to an open that would make it.
fn existing(reached: Reached, flags: OpenFlags) -> Result<Opened, Errno> {
    if flags.contains(OpenFlags::EXCL) {
        return Err(Errno::EEXIST);
    }
    if reached.attr.kind == FileType::Directory { Err(Errno::EISDIR) } else { Ok(Opened::found(reached)) }
}

/// The flags that count.
///
/// # Errors
/// `EINVAL` for those that contradict.
fn checked(flags: OpenFlags) -> Result<OpenFlags, Errno> {
    if flags.contains(OpenFlags::PATH) {
        return Ok(flags & OpenFlags::WITH_PATH);
    }
    let unnamed = flags.contains(OpenFlags::TMPFILE);
    if unnamed && (flags.contains(OpenFlags::CREAT) || !flags.writes()) {
        return Err(Errno::EINVAL);
    }
    if flags.contains(OpenFlags::CREAT | OpenFlags::DIRECTORY)
        || flags.bits() & UNNAMED_ALONE == UNNAMED_ALONE && !unnamed
    {
        return Err(Errno::EINVAL);
    }
    Ok(flags)
}

/// The bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const UNNAMED_ALONE: u32 = OpenFlags::TMPFILE.bits() & !OpenFlags::DIRECTORY.bits();

/// The permissions that an open takes. Only files are cut.
fn wanted(kind: FileType, flags: OpenFlags) -> Access {
    let mut wanted = Access::empty();
    let access = flags & OpenFlags::ACCESS;
    wanted.set(Access::READ, access != OpenFlags::WRONLY);
    let cut = flags.contains(OpenFlags::TRUNC) && kind != FileType::Directory;
    wanted.set(Access::WRITE, !access.is_empty() || cut);
    wanted
}

fn appends(flags: OpenFlags) -> bool {
    flags.contains(OpenFlags::APPEND) && !flags.contains(OpenFlags::TRUNC)
}
