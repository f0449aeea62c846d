//! Calls that only a Mac has, by what comes nearest here: the same stand-ins as on the kernel.

use esker_base::Errno;
use esker_fs_posix::{Fallocate, OpenFlags as Ours};
use esker_trace_calls::words::{AccessMode, Hint, Obscure};
use esker_trace_calls::{At, Call, Fd, Object, Word};
use esker_vfs::Rename;

use super::data::unsigned;
use super::slots::What;
use super::{Fail, FilesExecutor, Reply, words};
use crate::answer::Skip;
use crate::kernel::{ExchangeBy, Turn};

/// The attribute in which a Mac's Finder keeps what it knows of a file, and its bytes.
const FINDER: (&str, u64) = ("com.apple.FinderInfo", 32);
/// What asks for nothing but a change of the time of change.
const NOW: Option<i64> = Some(i64::MIN);

impl FilesExecutor {
    pub(super) async fn mac(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::GetAttrList { file, len } => self.get_attributes(file, *len).await,
            Call::SetAttrList { file, .. } => self.set_times(file, NOW, NOW).await,
            Call::GetDirEntriesAttr { fd, len } => {
                let entries = self.read_dir(*fd, *len).await?;
                self.small_access(&Object::Fd(*fd)).await?;
                Ok(entries)
            }
            Call::SearchFs { file } | Call::FsControl { file, .. } => self.small_access(file).await,
            Call::GetXattrAt { file, name, len, .. } => self.get_xattr(file, name, *len).await,
            Call::SetXattrAt { file, name, len, flags, .. } => {
                self.set_xattr(file, name, *len, words::xattr(*flags)).await
            }
            Call::CloneFile { from, to } => self.clone_to_path(from, to).await,
            Call::GetFsStat { .. } => Ok(self.files.shared.process.statfs().await.map(|_| 0)?),
            Call::FsGetPath { seen: Some(path) } => {
                self.small_access(&Object::Path { at: At::cwd(path.clone()), follow: false }).await
            }
            Call::FsGetPath { seen: None } => Err(Fail::Skip(Skip::Unseen)),
            Call::Hinted { fd, hint: Hint::ReadAdvise, offset, len } => self.advise(*fd, *offset, *len),
            Call::Hinted { fd, .. } => self.advise(*fd, 0, 0),
            Call::Preallocate { fd, offset, len, .. } => self.preallocate(*fd, *offset, *len).await,
            Call::Undocumented { file, kind: Obscure::AccessExtended } => self.access(file, AccessMode::empty()).await,
            Call::Undocumented { file, .. } => self.small_access(file).await,
            Call::ExchangeData { first, second } => self.exchange(first, second).await,
            _ => unreachable!("calls come to their family"),
        }
    }

    async fn get_attributes(&mut self, file: &Object, len: u64) -> Reply {
        self.small_access(file).await?;
        if len > FINDER.1 {
            match self.get_xattr(file, &Word::from(FINDER.0), FINDER.1).await {
                // Most files have none.
                Ok(_) | Err(Fail::Errno(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::ERANGE)) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(0)
    }

    async fn preallocate(&mut self, fd: Fd, offset: i64, len: i64) -> Reply {
        let (slot, _) = (self.inside(fd)?, (unsigned(offset)?, unsigned(len)?));
        let file = slot.file()?;
        file.process().fallocate(file.fd(), Fallocate::KEEP_SIZE, offset, len).await?;
        Ok(0)
    }

    async fn clone_to_path(&mut self, from: &Object, to: &At) -> Reply {
        let source = match from {
            Object::Fd(fd) => self.inside(*fd)?.file()?.dup()?,
            Object::Path { at, .. } => self.open_data(at).await?,
        };
        let place = self.at(to)?;
        let flags = Ours::WRONLY | Ours::CREAT | Ours::EXCL;
        let What::File(copy) = self.files.open_what(&place.process, place.at, flags, 0o600).await? else {
            return Err(Errno::EEXIST.into());
        };
        match source.process().clone_file(source.fd(), copy.fd()).await {
            Err(Errno::EOPNOTSUPP | Errno::EINVAL) => {
                let whole = self.read_file(&source, Some(0), u64::MAX).await?;
                self.moved = self.write_file(&copy, Some(0), whole).await?;
                Ok(0)
            }
            other => Ok(other.map(|()| 0)?),
        }
    }

    /// Swaps names; the original swapped data and left inode numbers where they were.
    async fn exchange(&mut self, first: &Object, second: &Object) -> Reply {
        let (Object::Path { at: first, .. }, Object::Path { at: second, .. }) = (first, second) else {
            return Err(Fail::Skip(Skip::Unseen));
        };
        let (first, second) = (self.at(first)?, self.at(second)?);
        let process = &first.process;
        if self.files.shared.exchange == ExchangeBy::Rename {
            return Ok(process.rename(first.at, second.at, Rename::Exchange).await.map(|()| 0)?);
        }
        // The first name is never missing; the second one is between the renames.
        let temporary = &b"/.esker-exchange"[..];
        process.link(first.at, temporary, esker_fs_posix::Follow::Nothing).await?;
        if let Err(error) = process.rename(second.at, first.at, Rename::Replace).await {
            process.unlink(temporary).await?;
            return Err(error.into());
        }
        if let Err(error) = process.rename(temporary, second.at, Rename::Replace).await {
            process.rename(first.at, second.at, Rename::Replace).await?;
            process.rename(temporary, first.at, Rename::Replace).await?;
            return Err(error.into());
        }
        // Two names of one file are exchanged by doing nothing, and then the temporary one is still there.
        match process.unlink(temporary).await {
            Ok(()) | Err(Errno::ENOENT) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
