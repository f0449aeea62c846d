//! Playing scripts on a process, and looking at the whole tree afterwards.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use esker_base::{Errno, Stream};
use esker_vfs::{Cred, FileType};

use super::{Durable, Facts, HELD, Held, Object, Outcome, Room, ScriptOp, Word, XattrOp};
use crate::bytes::{Spot, Whence};
use crate::file::Fd;
use crate::flags::{Fallocate, OpenFlags};
use crate::paths::{Follow, Where};
use crate::process::Process;

/// Bytes of a buffer for entries, so few that a listing takes several calls.
const ENTRIES_ROOM: usize = 512;

/// Makes the calls of scripts.
#[expect(async_fn_in_trait, reason = "players live on one reactor")]
pub trait Player {
    /// Makes a call.
    async fn call(&mut self, op: &ScriptOp) -> Outcome;
}

/// The answer of what does not wait: calls on a file system in memory, or on the kernel.
///
/// # Panics
/// If it waits.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a call waits that was expected not to"),
    }
}

/// Plays a script. Answers a line for each call.
pub async fn play(script: &[ScriptOp], player: &mut impl Player) -> Vec<String> {
    let mut lines = Vec::with_capacity(script.len());
    for op in script {
        lines.push(player.call(op).await.to_string());
    }
    lines
}

/// Everything below the root directory, as the superuser sees it: each name with attributes, extended attributes, and
/// bytes, entries or target. Leaves the player as the superuser in the root directory, and its last place empty.
pub async fn audit(player: &mut impl Player) -> Vec<String> {
    let last = Held(HELD as u8 - 1);
    let (mut lines, mut left) = (Vec::new(), vec![b"/".to_vec()]);
    player.call(&ScriptOp::Become(0)).await;
    player.call(&ScriptOp::Chdir(Object::Path("/".into()))).await;
    while let Some(path) = left.pop() {
        let word = Word(path.clone());
        let object = Object::Path(word.clone());
        let facts = player.call(&ScriptOp::Stat(object.clone(), Follow::Nothing)).await;
        let xattrs = player.call(&ScriptOp::Xattr(object.clone(), XattrOp::List, Follow::Nothing)).await;
        let (content, size) = match &facts {
            Outcome::Facts(Facts { kind: FileType::Directory, .. }) => (Some(ScriptOp::List(object)), 0),
            Outcome::Facts(Facts { kind: FileType::Symlink, .. }) => (Some(ScriptOp::Readlink(word)), 0),
            Outcome::Facts(Facts { kind: FileType::File, size, .. }) => {
                player.call(&ScriptOp::Open(last, word, OpenFlags::RDONLY, 0)).await;
                // One byte more than there are: a read of no bytes is no access.
                (Some(ScriptOp::Read(last, u32::try_from(size + 1).unwrap_or(u32::MAX), None)), *size)
            }
            _ => (None, 0),
        };
        let content = match content {
            Some(op) => player.call(&op).await,
            None => Outcome::Done,
        };
        if let Outcome::Entries(entries) = &content {
            let names = entries.iter().map(|(name, _)| name).filter(|name| !matches!(&name[..], b"." | b".."));
            let mut below: Vec<_> =
                names.map(|name| [path.strip_suffix(b"/").unwrap_or(&path), name].join(&b'/')).collect();
            below.sort_unstable_by(|one, other| other.cmp(one));
            left.extend(below);
        }
        lines.push(format!("{}: {facts}; {xattrs}; {content}; {size}", Word(path)));
    }
    player.call(&ScriptOp::Close(last)).await;
    lines
}

/// A process that plays scripts.
pub struct Actor {
    process: Process,
    held: [Option<Fd>; HELD],
}

impl Actor {
    /// An actor that holds nothing. The process must be the superuser's.
    pub fn new(process: Process) -> Actor {
        Actor { process, held: [None; HELD] }
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn fd(&self, held: Held) -> Result<Fd, Errno> {
        self.held[usize::from(held.0)].ok_or(Errno::EBADF)
    }

    fn spot(&self, (held, at): (Held, Option<i64>)) -> Result<Spot, Errno> {
        Ok(Spot { fd: self.fd(held)?, at })
    }

    fn at<'a>(&self, object: &'a Object) -> Result<Where<'a>, Errno> {
        match object {
            Object::Path(path) => Ok(Where::Path(&path.0)),
            Object::Held(held) => self.fd(*held).map(Where::Fd),
        }
    }

    /// Holds a file. What was held there is closed, and no error of that hides the new one.
    async fn hold(&mut self, held: Held, fd: Fd) -> Outcome {
        let old = self.held[usize::from(held.0)].replace(fd);
        if let Some(old) = old {
            self.process.close(old).await.unwrap_or(());
        }
        Outcome::Done
    }
}

impl Player for Actor {
    async fn call(&mut self, op: &ScriptOp) -> Outcome {
        self.act(op).await.into()
    }
}

/// A success without a value.
fn done(result: Result<(), Errno>) -> Result<Outcome, Errno> {
    result.map(|()| Outcome::Done)
}

fn count(result: Result<u64, Errno>) -> Result<Outcome, Errno> {
    result.map(Outcome::Count)
}

/// So many bytes of the stream of a seed.
pub fn bytes_of(seed: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Stream::seeded(seed).fill(&mut bytes);
    bytes
}

impl Actor {
    async fn act(&mut self, op: &ScriptOp) -> Result<Outcome, Errno> {
        match op {
            ScriptOp::Open(..) | ScriptOp::Close(_) | ScriptOp::Dup(..) => self.hold_or_close(op).await,
            ScriptOp::Read(..)
            | ScriptOp::Write(..)
            | ScriptOp::Seek(..)
            | ScriptOp::Truncate(..)
            | ScriptOp::Allocate(..)
            | ScriptOp::Copy(..)
            | ScriptOp::Clone(..)
            | ScriptOp::Sync(_) => self.change_bytes(op).await,
            ScriptOp::Mkdir(..)
            | ScriptOp::Mknod(..)
            | ScriptOp::Link(..)
            | ScriptOp::Symlink(..)
            | ScriptOp::Readlink(_)
            | ScriptOp::Unlink(_)
            | ScriptOp::Rmdir(_)
            | ScriptOp::Rename(..)
            | ScriptOp::List(_)
            | ScriptOp::Chdir(_) => self.change_names(op).await,
            ScriptOp::Stat(..)
            | ScriptOp::Access(..)
            | ScriptOp::Chmod(..)
            | ScriptOp::Chown(..)
            | ScriptOp::Times(..)
            | ScriptOp::Xattr(..)
            | ScriptOp::Umask(_)
            | ScriptOp::Become(_) => self.change_attributes(op).await,
        }
    }

    async fn hold_or_close(&mut self, op: &ScriptOp) -> Result<Outcome, Errno> {
        match op {
            ScriptOp::Open(held, path, flags, mode) => {
                let fd = self.process.open(&path.0[..], *flags, *mode).await?;
                Ok(self.hold(*held, fd).await)
            }
            ScriptOp::Dup(from, to) => {
                let fd = self.process.dup(self.fd(*from)?, Fd(0), false)?;
                Ok(self.hold(*to, fd).await)
            }
            ScriptOp::Close(held) => {
                let fd = self.held[usize::from(held.0)].take().ok_or(Errno::EBADF)?;
                done(self.process.close(fd).await)
            }
            other => unreachable!("{other} neither opens nor closes"),
        }
    }

    async fn change_bytes(&self, op: &ScriptOp) -> Result<Outcome, Errno> {
        let process = &self.process;
        match op {
            ScriptOp::Read(held, len, at) => {
                let (fd, mut out) = (self.fd(*held)?, vec![0; *len as usize]);
                let read = match at {
                    None => process.read(fd, &mut out).await?,
                    Some(at) => process.pread(fd, &mut out, *at).await?,
                };
                out.truncate(read);
                Ok(Outcome::Bytes(out))
            }
            ScriptOp::Write(held, len, seed, at) => {
                let (fd, data) = (self.fd(*held)?, bytes_of(*seed, *len));
                let written = match at {
                    None => process.write(fd, &data).await?,
                    Some(at) => process.pwrite(fd, &data, *at).await?,
                };
                Ok(Outcome::Count(written as u64))
            }
            ScriptOp::Seek(held, whence, by) => count(process.seek(self.fd(*held)?, *by, *whence).await),
            ScriptOp::Truncate(object, size) => done(process.truncate(self.at(object)?, *size).await),
            ScriptOp::Allocate(held, room, at, len) => {
                done(process.fallocate(self.fd(*held)?, room.mode(), *at, *len).await)
            }
            ScriptOp::Copy(from, to, len) => {
                count(process.copy_file_range(self.spot(*from)?, self.spot(*to)?, *len).await)
            }
            ScriptOp::Clone(from, to) => done(process.clone_file(self.fd(*from)?, self.fd(*to)?).await),
            ScriptOp::Sync(Durable::Data(held)) => done(process.fdatasync(self.fd(*held)?).await),
            ScriptOp::Sync(Durable::File(held)) => done(process.fsync(self.fd(*held)?).await),
            ScriptOp::Sync(Durable::All) => done(process.sync().await),
            other => unreachable!("{other} is not about bytes"),
        }
    }

    async fn change_names(&self, op: &ScriptOp) -> Result<Outcome, Errno> {
        let process = &self.process;
        match op {
            ScriptOp::Mkdir(path, mode) => done(process.mkdir(&path.0[..], *mode).await),
            ScriptOp::Mknod(path, kind, mode, device) => done(process.mknod(&path.0[..], *kind, *mode, *device).await),
            ScriptOp::Link(old, new, follow) => {
                // The descriptor's file itself, as AT_EMPTY_PATH says it.
                let old = self.at(old)?.of_places();
                done(process.link(old, &new.0[..], *follow).await)
            }
            ScriptOp::Symlink(target, path) => done(process.symlink(&target.0, &path.0[..]).await),
            ScriptOp::Readlink(path) => {
                process.readlink(&path.0[..]).await.map(|target| Outcome::Path(target.into_vec()))
            }
            ScriptOp::Unlink(path) => done(process.unlink(&path.0[..]).await),
            ScriptOp::Rmdir(path) => done(process.rmdir(&path.0[..]).await),
            ScriptOp::Rename(from, to, how) => done(process.rename(&from.0[..], &to.0[..], *how).await),
            ScriptOp::List(Object::Held(held)) => self.list(self.fd(*held)?).await,
            ScriptOp::List(Object::Path(path)) => {
                let flags = OpenFlags::DIRECTORY | OpenFlags::NONBLOCK;
                let fd = process.open(&path.0[..], flags, 0).await?;
                let outcome = self.list(fd).await;
                process.close(fd).await?;
                outcome
            }
            ScriptOp::Chdir(object) => done(process.chdir(self.at(object)?).await),
            other => unreachable!("{other} is not about names"),
        }
    }

    async fn list(&self, fd: Fd) -> Result<Outcome, Errno> {
        self.process.seek(fd, 0, Whence::Set).await?;
        let mut all = Vec::new();
        loop {
            let entries = self.process.list(fd, ENTRIES_ROOM).await?;
            if entries.is_empty() {
                return Ok(Outcome::Entries(all));
            }
            all.extend(entries.into_iter().map(|entry| (entry.name.into_vec(), entry.kind)));
        }
    }

    async fn change_attributes(&self, op: &ScriptOp) -> Result<Outcome, Errno> {
        let process = &self.process;
        match op {
            ScriptOp::Stat(object, follow) => {
                let attr = process.stat(self.at(object)?, *follow).await?.attr;
                Ok(Outcome::Facts(Facts {
                    kind: attr.kind,
                    mode: attr.mode,
                    links: attr.links,
                    uid: attr.uid,
                    gid: attr.gid,
                    device: attr.device,
                    size: attr.size,
                    accessed: attr.accessed,
                    modified: attr.modified,
                }))
            }
            ScriptOp::Access(path, wanted) => done(process.access(&path.0[..], *wanted, Follow::Links).await),
            ScriptOp::Chmod(object, mode) => done(process.chmod(self.at(object)?, *mode, Follow::Links).await),
            ScriptOp::Chown(object, uid, gid, follow) => {
                done(process.chown(self.at(object)?, *uid, *gid, *follow).await)
            }
            ScriptOp::Times(object, accessed, modified, follow) => {
                done(process.set_times(self.at(object)?, *accessed, *modified, *follow).await)
            }
            ScriptOp::Xattr(object, op, follow) => self.xattr(self.at(object)?, op, *follow).await,
            ScriptOp::Umask(mask) => Ok(Outcome::Count(u64::from(process.umask(*mask)))),
            ScriptOp::Become(user) => {
                let cred = if *user == 0 { Cred::root() } else { Cred::user(*user, *user, Vec::new()) };
                process.set_cred(cred);
                Ok(Outcome::Done)
            }
            other => unreachable!("{other} is not about attributes"),
        }
    }

    async fn xattr(&self, at: Where<'_>, op: &XattrOp, follow: Follow) -> Result<Outcome, Errno> {
        let process = &self.process;
        match op {
            XattrOp::Get(name) => {
                process.xattr(at, &name.0, follow).await.map(|value| Outcome::Bytes(value.into_vec()))
            }
            XattrOp::List => process.xattrs(at, follow).await.map(Outcome::Names),
            XattrOp::Set(name, len, seed, how) => {
                done(process.set_xattr(at, &name.0, &bytes_of(*seed, *len), *how, follow).await)
            }
            XattrOp::Remove(name) => done(process.remove_xattr(at, &name.0, follow).await),
        }
    }
}

impl Room {
    /// The mode of `fallocate(2)`.
    pub fn mode(self) -> Fallocate {
        match self {
            Room::Reserve => Fallocate::empty(),
            Room::ReserveKeep => Fallocate::KEEP_SIZE,
            Room::Punch => Fallocate::PUNCH_HOLE | Fallocate::KEEP_SIZE,
            Room::Zero => Fallocate::ZERO_RANGE,
            Room::ZeroKeep => Fallocate::ZERO_RANGE | Fallocate::KEEP_SIZE,
        }
    }
}
