//! Metadata of files and directories.

use esker_base::Errno;
use esker_fs_posix::{Follow, OpenFlags};
use esker_trace_calls::words::{AccessMode, FileKind};
use esker_trace_calls::{At, Call, Fd, Object, Word};
use esker_vfs::XattrSet;

use super::slots::{OpenFile, What};
use super::{Fail, FilesExecutor, Reply, words};
use crate::answer::Skip;
use crate::kernel::Turn;
use crate::xattrs;

/// An owner that stays as it is.
const UNCHANGED: u32 = u32::MAX;
/// Room for entries of a directory in one call, at least and at most.
const ENTRIES: std::ops::RangeInclusive<u64> = 512..=512 << 10;
/// Bits of a watch (`IN_ONLYDIR`, `IN_DONT_FOLLOW`).
const ONLY_DIRECTORIES: u32 = 0x0100_0000;
const NO_FOLLOW: u32 = 0x0200_0000;
/// The access list that goes with the permission bits, and the bytes of one that says no more than they.
const ACCESS_LIST: (&[u8], u64) = (b"system.posix_acl_access", 28);
const BY_CHMOD: &str = "permissions that were set as an access list were set by chmod: the file system has no lists";

impl FilesExecutor {
    pub(super) async fn meta(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            // A handle is made from what `stat` sees.
            Call::Stat { file, .. } | Call::NameToHandle { file } => self.stat(file).await,
            Call::Access { file, mode } => self.access(file, *mode).await,
            Call::ReadLink { at, len, .. } => {
                let place = self.at(at)?;
                let target = place.process.readlink(place.at).await?;
                Ok((*len).min(target.len() as u64) as i64)
            }
            Call::Chmod { file, mode } => self.chmod(file, *mode).await,
            Call::Chown { file, uid, gid } => {
                let (place, follow) = self.object(file)?;
                let [uid, gid] = [uid, gid].map(|id| Some(*id).filter(|id| *id != UNCHANGED));
                Ok(place.process.chown(place.at, uid, gid, follow).await.map(|()| 0)?)
            }
            Call::SetTimes { file, accessed, modified } => self.set_times(file, *accessed, *modified).await,
            Call::GetXattr { .. } | Call::SetXattr { .. } | Call::ListXattr { .. } | Call::RemoveXattr { .. } => {
                self.attributes(turn).await
            }
            Call::StatFs { file } => {
                let (place, follow) = self.object(file)?;
                place.process.stat(place.at, follow).await?;
                Ok(place.process.statfs().await.map(|_| 0)?)
            }
            Call::Watch { at, mask, .. } => self.watch(at, *mask).await,
            Call::ReadDir { fd, len } => self.read_dir(*fd, *len).await,
            // Numbers of watches are not those of the trace.
            _ => Err(Fail::Skip(Skip::Outside)),
        }
    }

    pub(super) async fn stat(&mut self, file: &Object) -> Reply {
        let descriptor = match file {
            Object::Fd(fd) => Some(*fd),
            Object::Path { at, .. } => at.descriptor(),
        };
        if let Some(fd) = descriptor {
            match self.inside(fd)?.what {
                What::Pipe(_) => self.seen = Some((FileKind::Fifo, 0)),
                What::Device(_) => self.seen = Some((FileKind::CharDevice, 0)),
                What::File(_) | What::Outside => {}
            }
            if self.seen.is_some() {
                return Ok(0);
            }
        }
        let (place, follow) = self.object(file)?;
        let attr = place.process.stat(place.at, follow).await?.attr;
        self.seen = Some((words::kind(attr.kind), attr.size));
        Ok(0)
    }

    /// What is watched is looked up; that is all that reaches a file system.
    async fn watch(&self, at: &At, mask: u32) -> Reply {
        let place = self.at(at)?;
        let follow = if mask & NO_FOLLOW != 0 { Follow::Nothing } else { Follow::Links };
        let kind = place.process.stat(place.at, follow).await?.attr.kind;
        let is_directory = words::kind(kind) == FileKind::Directory;
        if mask & ONLY_DIRECTORIES != 0 && !is_directory { Err(Errno::ENOTDIR.into()) } else { Ok(0) }
    }

    pub(super) async fn access(&mut self, file: &Object, mode: AccessMode) -> Reply {
        let (place, follow) = self.object(file)?;
        Ok(place.process.access(place.at, words::access(mode), follow).await.map(|()| 0)?)
    }

    async fn chmod(&mut self, file: &Object, mode: u16) -> Reply {
        let (place, follow) = self.object(file)?;
        Ok(place.process.chmod(place.at, mode, follow).await.map(|()| 0)?)
    }

    pub(super) async fn set_times(&mut self, file: &Object, accessed: Option<i64>, modified: Option<i64>) -> Reply {
        let (place, follow) = self.object(file)?;
        let (accessed, modified) = (words::time(accessed), words::time(modified));
        Ok(place.process.set_times(place.at, accessed, modified, follow).await.map(|()| 0)?)
    }

    /// One call for entries: what they are differs between file systems, so only their end is compared.
    pub(super) async fn read_dir(&mut self, fd: Fd, len: u64) -> Reply {
        let slot = self.inside(fd)?;
        let What::File(file) = &slot.what else { return Err(Errno::ENOTDIR.into()) };
        let room = len.clamp(*ENTRIES.start(), *ENTRIES.end()) as usize;
        let entries = file.process().list(file.fd(), room).await?;
        self.moved = entries.iter().map(|entry| entry.name.len() as u64 + 20).sum();
        Ok(entries.len() as i64)
    }

    /// Reads the metadata of a file of which only a name is left: what the trace knows of nothing else.
    pub(super) async fn small_access(&mut self, file: &Object) -> Reply {
        self.stat(file).await?;
        // Only calls of the `stat` family tell what they saw.
        self.seen = None;
        Ok(0)
    }
}

/// Extended attributes.
impl FilesExecutor {
    async fn attributes(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::GetXattr { file, name, len } => {
                if name.as_bytes() == ACCESS_LIST.0 {
                    let (place, follow) = self.object(file)?;
                    let mode = place.process.stat(place.at, follow).await?.attr.mode;
                    self.lists_asked.insert(turn.process, mode);
                }
                self.get_xattr(file, name, *len).await
            }
            Call::SetXattr { file, name, len, flags } => {
                if (name.as_bytes(), *len) == ACCESS_LIST {
                    return self.set_list(turn, file).await;
                }
                self.set_xattr(file, name, *len, words::xattr(*flags)).await
            }
            Call::ListXattr { file, len } => {
                let (place, follow) = self.object(file)?;
                let names = place.process.xattrs(place.at, follow).await?;
                fits(names.len(), *len)
            }
            Call::RemoveXattr { file, name } => {
                let (place, follow) = self.object(file)?;
                let name = xattrs::name(self.files.platform, name.as_bytes());
                Ok(place.process.remove_xattr(place.at, &name, follow).await.map(|()| 0)?)
            }
            _ => unreachable!("calls come to their kind"),
        }
    }

    pub(super) async fn get_xattr(&mut self, file: &Object, name: &Word, len: u64) -> Reply {
        let (place, follow) = self.object(file)?;
        let name = xattrs::name(self.files.platform, name.as_bytes());
        let value = place.process.xattr(place.at, &name, follow).await?;
        fits(value.len(), len)
    }

    pub(super) async fn set_xattr(&mut self, file: &Object, name: &Word, len: u64, how: XattrSet) -> Reply {
        let name = xattrs::name(self.files.platform, name.as_bytes());
        let value = self.buffers.bytes_to_write(len).to_vec();
        let (place, follow) = self.object(file)?;
        Ok(place.process.set_xattr(place.at, &name, &value, how, follow).await.map(|()| 0)?)
    }

    /// A list without named users and groups says no more than the permission bits: setting it is `chmod`. Programs set
    /// it to the permissions of the file whose list they asked for before.
    async fn set_list(&mut self, turn: &Turn<'_>, file: &Object) -> Reply {
        let (place, follow) = self.object(file)?;
        let own = place.process.stat(place.at, follow).await?.attr.mode;
        let asked = self.lists_asked.get(&turn.process).copied().unwrap_or(own);
        self.files.tally.add(BY_CHMOD);
        self.chmod(file, (own & !0o777) | (asked & 0o777)).await
    }
}

/// The size of an answer, for which there is room for `len` bytes; none asks for the size.
fn fits(bytes: usize, len: u64) -> Reply {
    if len > 0 && bytes as u64 > len { Err(Errno::ERANGE.into()) } else { Ok(bytes as i64) }
}

/// Calls about processes. Their effects on descriptors are known without them.
impl FilesExecutor {
    pub(super) async fn processes(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            // Paths of the trace do not depend on working directories any more; what is left is the look-up.
            Call::Chdir { file } => {
                self.stat(file).await?;
                let is_directory = self.seen.take().is_some_and(|(kind, _)| kind == FileKind::Directory);
                if is_directory { Ok(0) } else { Err(Errno::ENOTDIR.into()) }
            }
            Call::Exec { file } => self.exec(file).await,
            _ => Err(Fail::Skip(Skip::NotFiles)),
        }
    }

    /// Reads what the kernel reads first. What the program maps and reads later is in the trace.
    async fn exec(&mut self, file: &Object) -> Reply {
        /// Bytes of a program by which the kernel knows its format.
        const HEAD: u64 = 256;
        match file {
            Object::Fd(fd) => {
                let slot = self.inside(*fd)?;
                self.read_file(slot.file()?, Some(0), HEAD).await?;
            }
            Object::Path { at, .. } => {
                let program = self.open_data(at).await?;
                self.read_file(&program, Some(0), HEAD).await?;
            }
        }
        Ok(0)
    }

    /// Opens a path for reading, for the time of a call.
    pub(super) async fn open_data(&self, at: &At) -> Result<OpenFile, Fail> {
        let place = self.at(at)?;
        let flags = OpenFlags::RDONLY;
        match self.files.open_what(&place.process, place.at, flags, 0).await? {
            What::File(file) => Ok(file),
            What::Pipe(_) | What::Device(_) | What::Outside => Err(Errno::EACCES.into()),
        }
    }
}
