//! Calls that make, move and remove names. The order of errors is that of `fs/namei.c` in Linux 6.18.

use std::rc::Rc;

use esker_base::Errno;
use esker_vfs::walk::PATH_BYTES_MAX;
use esker_vfs::{Cookie, FileType, Ino, Listing, NewKind, Remove, Rename};

use crate::file::{Fd, File};
use crate::flags::Access;
use crate::paths::{Follow, LastName, Named, Node, Reached, Where, is_fixed};
use crate::process::Process;

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Number of its inode.
    pub ino: Ino,
    /// Position behind it: what `lseek` takes to go on there.
    pub next: u64,
    /// Kind of its inode.
    pub kind: FileType,
    /// Its name; "." and ".." too.
    pub name: Box<[u8]>,
}

/// Bytes that an entry takes beside its name in a buffer of `getdents64`, and what they are rounded up to.
const ENTRY_BYTES: usize = 20;
const ENTRY_ALIGN: usize = 8;

/// Making names.
impl Process {
    /// `mkdir`.
    ///
    /// # Errors
    /// Those of a walk; `EEXIST`, `EACCES`, `EMLINK`, `ENOSPC`; `ENOENT` in a directory that was removed.
    pub async fn mkdir(&self, at: impl Into<Where<'_>>, mode: u16) -> Result<(), Errno> {
        let named = self.vacant(at.into(), true).await?;
        // Only permissions and the sticky bit: set-ID bits come from the directory above.
        self.make_in(&named, NewKind::Directory, mode & 0o1777).await
    }

    /// `mknod`: a file, a pipe, a socket's name or a device.
    ///
    /// # Errors
    /// As [`Process::mkdir`]; `EPERM` for a directory, and for a device if the caller is not privileged; `EINVAL` for a
    /// symbolic link.
    pub async fn mknod(&self, at: impl Into<Where<'_>>, kind: FileType, mode: u16, device: u64) -> Result<(), Errno> {
        let what = match kind {
            FileType::Directory => return Err(Errno::EPERM),
            FileType::Symlink => return Err(Errno::EINVAL),
            FileType::File => NewKind::File,
            FileType::Fifo | FileType::Socket => NewKind::Node(kind, 0),
            FileType::CharDevice | FileType::BlockDevice => NewKind::Node(kind, device),
        };
        let named = self.vacant(at.into(), false).await?;
        // The kernel lets everybody make the device 0:0, with which overlays mark what was removed.
        let is_device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
        let is_mark = kind == FileType::CharDevice && device == 0;
        if is_device && !is_mark && !self.cred().privileged {
            self.may(&named.attr, Access::WRITE | Access::EXECUTE)?;
            return Err(Errno::EPERM);
        }
        self.make_in(&named, what, mode).await
    }

    /// `symlink`.
    ///
    /// # Errors
    /// As [`Process::mkdir`]; `ENOENT` for an empty target, `ENAMETOOLONG` for one that no path may be as long as.
    pub async fn symlink(&self, target: &[u8], at: impl Into<Where<'_>>) -> Result<(), Errno> {
        match target.len() {
            0 => return Err(Errno::ENOENT),
            len if len > PATH_BYTES_MAX => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let named = self.vacant(at.into(), false).await?;
        self.make_in(&named, NewKind::Symlink(target), 0o777).await
    }

    /// `link`. [`Follow::Links`] is `AT_SYMLINK_FOLLOW`, [`Where::Itself`] as the old place `AT_EMPTY_PATH`.
    ///
    /// # Errors
    /// As [`Process::mkdir`]. `EPERM` for a directory, for what may not be changed, and for another's file
    /// ([`Settings::hard_links_protected`](crate::Settings::hard_links_protected)). `ENOENT` for a descriptor that was
    /// opened with other rights, and for what has no name any more. A file of `O_TMPFILE` without `O_EXCL` gets one.
    pub async fn link(
        &self,
        old: impl Into<Where<'_>>,
        new: impl Into<Where<'_>>,
        follow: Follow,
    ) -> Result<(), Errno> {
        let old = self.reach(old.into(), follow).await?;
        if let Node::Open(file) = &old.node
            && !Rc::ptr_eq(&file.opener, &self.cred())
            && !self.cred().privileged
        {
            return Err(Errno::ENOENT);
        }
        let named = self.vacant(new.into(), false).await?;
        let name = named.name(Errno::EEXIST)?;
        self.may_link(&old.attr)?;
        self.may(&named.attr, Access::WRITE | Access::EXECUTE)?;
        if is_fixed(&old.attr) || old.attr.kind == FileType::Directory {
            return Err(Errno::EPERM);
        }
        if !old.node.is_linkable() {
            return Err(Errno::ENOENT);
        }
        let files = &self.0.world.0.files;
        if !files.about().can.hard_links {
            return Err(Errno::EPERM);
        }
        let entry = files.link(self.call(), old.node.ino(), named.dir.ino(), name).await?;
        drop(self.0.world.pinned(entry.ino));
        Ok(())
    }

    /// A name that is to be made, in the directory that will hold it.
    async fn vacant<'a>(&self, at: Where<'a>, directory: bool) -> Result<Named<'a>, Errno> {
        let named = self.parent(at).await?;
        let name = named.name(Errno::EEXIST)?;
        if self.child(&named.dir, name).await?.is_some() {
            return Err(Errno::EEXIST);
        }
        // Only a directory may be asked for with a slash behind it.
        if named.slash && !directory { Err(Errno::ENOENT) } else { Ok(named) }
    }

    async fn make_in(&self, named: &Named<'_>, what: NewKind<'_>, mode: u16) -> Result<(), Errno> {
        let name = named.name(Errno::EEXIST)?;
        self.may(&named.attr, Access::WRITE | Access::EXECUTE)?;
        self.make(&named.dir, &named.attr, Some(name), what, mode).await.map(drop)
    }
}

/// Removing and moving names.
impl Process {
    /// `unlink`.
    ///
    /// # Errors
    /// Those of a walk; `ENOENT`, `EISDIR`, `EACCES`; `EPERM` for what may not be changed, and in a sticky directory.
    pub async fn unlink(&self, at: impl Into<Where<'_>>) -> Result<(), Errno> {
        let named = self.parent(at.into()).await?;
        let name = named.name(Errno::EISDIR)?;
        let victim = self.child(&named.dir, name).await?.ok_or(Errno::ENOENT)?;
        let is_directory = victim.attr.kind == FileType::Directory;
        if named.slash {
            return Err(if is_directory { Errno::EISDIR } else { Errno::ENOTDIR });
        }
        self.may_remove(&named.attr, &victim.attr)?;
        if is_directory {
            return Err(Errno::EISDIR);
        }
        self.0.world.0.files.remove(self.call(), named.dir.ino(), name, Remove::File).await
    }

    /// `rmdir`.
    ///
    /// # Errors
    /// As [`Process::unlink`]; `ENOTDIR`, `ENOTEMPTY`; `EINVAL` for ".", `EBUSY` for the root.
    pub async fn rmdir(&self, at: impl Into<Where<'_>>) -> Result<(), Errno> {
        let named = self.parent(at.into()).await?;
        let name = named.name(match named.last {
            LastName::Dot => Errno::EINVAL,
            LastName::DotDot => Errno::ENOTEMPTY,
            LastName::Root | LastName::Name(_) => Errno::EBUSY,
        })?;
        let victim = self.child(&named.dir, name).await?.ok_or(Errno::ENOENT)?;
        self.may_remove(&named.attr, &victim.attr)?;
        if victim.attr.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        self.0.world.0.files.remove(self.call(), named.dir.ino(), name, Remove::Directory).await
    }

    /// `rename`, and `renameat2` with its flags as `how`.
    ///
    /// # Errors
    /// As [`Process::unlink`] for the old name, and for what has the new one; `EEXIST`, `ENOTDIR`, `EISDIR`,
    /// `ENOTEMPTY`; `EINVAL` if a directory would move into itself or an exchange is not there; `EBUSY` for ".",
    /// "..", and the root; `EMLINK`, `ENOSPC`.
    pub async fn rename(&self, from: impl Into<Where<'_>>, to: impl Into<Where<'_>>, how: Rename) -> Result<(), Errno> {
        let from = self.parent(from.into()).await?;
        let to = self.parent(to.into()).await?;
        let occupied = if how == Rename::NoReplace { Errno::EEXIST } else { Errno::EBUSY };
        for (named, error) in [(&from, Errno::EBUSY), (&to, occupied)] {
            if !matches!(named.last, LastName::Name(_)) {
                return Err(error);
            }
        }
        let old = from.name(Errno::EBUSY)?;
        let source = self.child(&from.dir, old).await?.ok_or(Errno::ENOENT)?;
        let new = to.name(Errno::EBUSY)?;
        let target = self.child(&to.dir, new).await?;
        match (how, &target) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (Rename::Exchange, None) => return Err(Errno::ENOENT),
            (Rename::Replace | Rename::NoReplace | Rename::Exchange, _) => {}
        }
        slashes_fit(&from, &to, &source, target.as_ref(), how)?;
        self.is_no_circle(&from, &to, &source, target.as_ref(), how).await?;
        if target.as_ref().is_some_and(|target| target.node.ino() == source.node.ino()) {
            return Ok(());
        }
        self.may_rename(&from, &to, &source, target.as_ref(), how)?;
        let (from, to) = ((from.dir.ino(), old), (to.dir.ino(), new));
        self.0.world.0.files.rename(self.call(), from, to, how).await
    }

    fn may_rename(
        &self,
        from: &Named<'_>,
        to: &Named<'_>,
        source: &Reached,
        target: Option<&Reached>,
        how: Rename,
    ) -> Result<(), Errno> {
        let is_directory = |reached: &Reached| reached.attr.kind == FileType::Directory;
        self.may_remove(&from.attr, &source.attr)?;
        match target {
            None => self.may(&to.attr, Access::WRITE | Access::EXECUTE)?,
            Some(target) => self.may_remove(&to.attr, &target.attr)?,
        }
        match target {
            Some(target) if how != Rename::Exchange => match (is_directory(source), is_directory(target)) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (true, true) | (false, false) => {}
            },
            Some(_) | None => {}
        }
        // The entry ".." of what moves to another directory changes.
        if from.dir.ino() != to.dir.ino() {
            let exchanged = target.filter(|_| how == Rename::Exchange);
            for moved in [Some(source), exchanged].into_iter().flatten().filter(|moved| is_directory(moved)) {
                self.may(&moved.attr, Access::WRITE)?;
            }
        }
        if how == Rename::Exchange && !self.0.world.0.files.about().can.exchange {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// # Errors
    /// `EINVAL` if a directory would move below itself, `ENOTEMPTY` if it would replace one above itself.
    async fn is_no_circle(
        &self,
        from: &Named<'_>,
        to: &Named<'_>,
        source: &Reached,
        target: Option<&Reached>,
        how: Rename,
    ) -> Result<(), Errno> {
        if from.dir.ino() == to.dir.ino() {
            return Ok(());
        }
        if source.attr.kind == FileType::Directory && self.is_above(source.node.ino(), &to.dir).await? {
            return Err(Errno::EINVAL);
        }
        let replaced = target.filter(|target| target.attr.kind == FileType::Directory);
        match replaced {
            Some(target) if self.is_above(target.node.ino(), &from.dir).await? => {
                Err(if how == Rename::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether `above` is `dir`, or a directory above it.
    async fn is_above(&self, above: Ino, dir: &Node) -> Result<bool, Errno> {
        let files = &self.0.world.0.files;
        let (mut at, mut held) = (dir.ino(), None);
        while at != above {
            let entry = match files.parent(self.call(), at).await {
                // A removed directory is below none.
                Err(Errno::ENOENT) => return Ok(false),
                other => other?,
            };
            let next = self.0.world.pinned(entry.ino);
            if next.ino() == at {
                return Ok(false);
            }
            at = next.ino();
            held = Some(next);
        }
        drop(held);
        Ok(true)
    }
}

/// Reading names.
impl Process {
    /// `readlink`: the target of a symbolic link.
    ///
    /// # Errors
    /// Those of a walk; `EINVAL` for another kind.
    pub async fn readlink(&self, at: impl Into<Where<'_>>) -> Result<Box<[u8]>, Errno> {
        let reached = self.reach(at.into(), Follow::Nothing).await?;
        if reached.attr.kind != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        self.0.world.0.files.target(self.call(), reached.node.ino()).await
    }

    /// `getdents64`: the next entries of a directory, as many as fit into a buffer of `room` bytes; none at the end.
    /// The offset of the descriptor is the position.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`; `ENOENT` for a directory that was removed; `EINVAL` if not one entry fits.
    pub async fn list(&self, fd: Fd, room: usize) -> Result<Vec<DirEntry>, Errno> {
        let file = self.file(fd)?;
        if file.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let _turn = file.turn().await;
        let files = &self.0.world.0.files;
        let (mut entries, mut left) = (Vec::new(), room);
        let mut at = file.offset.get();
        // A removed directory has no parent, and its listing fails as a whole.
        let above = files.parent(self.call(), file.ino()).await?;
        let above = self.0.world.pinned(above.ino);
        for (name, ino) in [(&b"."[..], file.ino()), (b"..", above.ino())].into_iter().skip(at.min(2) as usize) {
            let cost = (ENTRY_BYTES + name.len()).next_multiple_of(ENTRY_ALIGN);
            let Some(rest) = left.checked_sub(cost) else { break };
            (left, at) = (rest, at + 1);
            entries.push(DirEntry { ino, next: at, kind: FileType::Directory, name: name.into() });
        }
        if at >= Cookie::RESERVED.0 {
            let from = if at == Cookie::RESERVED.0 { Cookie::BEGINNING } else { Cookie(at) };
            let listing = Listing::new(left, ENTRY_BYTES, ENTRY_ALIGN);
            let listing = files.list(self.call(), file.ino(), from, listing).await?;
            entries.extend(listing.rows().map(|row| DirEntry {
                ino: row.ino,
                next: row.next.0,
                kind: row.kind,
                name: row.name.bytes().into(),
            }));
        }
        match entries.last() {
            Some(last) => file.offset.set(last.next),
            None if room < ENTRY_BYTES + 256 && self.has_more(&file, at).await? => return Err(Errno::EINVAL),
            None => {}
        }
        Ok(entries)
    }

    /// Whether an entry follows that did not fit.
    async fn has_more(&self, file: &File, at: u64) -> Result<bool, Errno> {
        if at < Cookie::RESERVED.0 {
            return Ok(true);
        }
        let from = if at == Cookie::RESERVED.0 { Cookie::BEGINNING } else { Cookie(at) };
        let one = Listing::new(ENTRY_BYTES + 256, ENTRY_BYTES, ENTRY_ALIGN);
        self.0.world.0.files.list(self.call(), file.ino(), from, one).await.map(|rows| !rows.is_empty())
    }
}

/// # Errors
/// `ENOTDIR` if a name has a slash behind it and is not, or will not be, that of a directory.
fn slashes_fit(
    from: &Named<'_>,
    to: &Named<'_>,
    source: &Reached,
    target: Option<&Reached>,
    how: Rename,
) -> Result<(), Errno> {
    let is_file = |reached: &Reached| reached.attr.kind != FileType::Directory;
    let other = if how == Rename::Exchange { target.unwrap_or(source) } else { source };
    if is_file(source) && from.slash || is_file(other) && to.slash { Err(Errno::ENOTDIR) } else { Ok(()) }
}
