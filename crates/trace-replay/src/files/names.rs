//! Opening, making, renaming and removing names.

use esker_base::Errno;
use esker_fs_posix::{Follow, OpenFlags as Ours, Process, Where};
use esker_trace_calls::words::{LockKind, OpenFlags};
use esker_trace_calls::{At, Call, PathBytes};
use esker_trace_order::compiled::Notes;
use esker_vfs::{Attr, FileType, LockCall};

use super::slots::{Harmless, OpenFile, OpenSlot, What};
use super::{Files, FilesExecutor, Reply, words};
use crate::answer::Skip;
use crate::kernel::Turn;

const EXCLUSIVE: &str = "O_EXCL was left out where it had succeeded although the name was there";
/// Numbers of the devices that a replay knows: `/dev/null` is one of all others.
const ENDLESS: [(u32, u32); 3] = [(1, 5), (1, 8), (1, 9)];
const FULL: (u32, u32) = (1, 7);

impl FilesExecutor {
    pub(super) async fn names(&mut self, turn: &Turn<'_>) -> Reply {
        match &turn.step.call {
            Call::Open { at, flags, mode, .. } => self.open(turn, at, *flags, *mode).await,
            Call::Mkdir { at, mode } => {
                let place = self.at(at)?;
                done(place.process.mkdir(place.at, *mode).await)
            }
            Call::Mknod { at, kind, mode, device } => {
                let place = self.at(at)?;
                let kind = words::file_type(*kind).ok_or(Errno::EINVAL)?;
                done(place.process.mknod(place.at, kind, *mode, *device).await)
            }
            // The name of a socket: that no socket listens behind it matters to no call on files.
            Call::Bind { at, mode, .. } => {
                let place = self.at(at)?;
                match place.process.mknod(place.at, FileType::Socket, *mode, 0).await {
                    Err(Errno::EEXIST) => Err(Errno::EADDRINUSE.into()),
                    made => done(made),
                }
            }
            Call::Symlink { target, at } => {
                let place = self.at(at)?;
                done(place.process.symlink(target, place.at).await)
            }
            Call::Link { from, to } => {
                let (from, follow) = self.object(from)?;
                let to = self.at(to)?;
                let from_at = match from.at {
                    // A descriptor's file itself, as `AT_EMPTY_PATH` says it.
                    Where::Fd(fd) => Where::Itself(fd),
                    other => other,
                };
                done(to.process.link(from_at, to.at, follow).await)
            }
            Call::Unlink { at } => {
                let place = self.at(at)?;
                done(place.process.unlink(place.at).await)
            }
            Call::Rmdir { at } => {
                let place = self.at(at)?;
                done(place.process.rmdir(place.at).await)
            }
            Call::Rename { from, to, flags } => {
                let (from, to) = (self.at(from)?, self.at(to)?);
                let how = words::rename(*flags).ok_or(Errno::EINVAL)?;
                done(from.process.rename(from.at, to.at, how).await)
            }
            Call::ShmOpen { name, flags, mode } => self.shm_open(turn, name, *flags, *mode).await,
            Call::ShmUnlink { name } => done(self.files.shared.memory.unlink(&shm_path(name)?[..]).await),
            _ => unreachable!("calls come to their family"),
        }
    }

    async fn open(&mut self, turn: &Turn<'_>, at: &At, traced: OpenFlags, mode: u16) -> Reply {
        let mut flags = words::open(traced);
        if turn.step.notes.contains(Notes::EXCLUSIVE_DROPPED) {
            flags.remove(Ours::EXCL);
            self.files.tally.add(EXCLUSIVE);
        }
        if let Some(fd) = at.descriptor() {
            match &self.inside(fd)?.what {
                What::Pipe(end) => {
                    let end = end.reopen(flags.reads(), flags.writes());
                    return Ok(self.keep(turn, OpenSlot::of(What::Pipe(end))));
                }
                What::Device(device) => return Ok(self.keep(turn, OpenSlot::of(What::Device(*device)))),
                What::File(_) | What::Outside => {}
            }
        }
        let place = self.at(at)?;
        if matches!(place.at, Where::Itself(_)) {
            // What is open already is opened once more, whatever the link to it is called.
            flags.remove(Ours::NOFOLLOW | Ours::CREAT | Ours::EXCL);
        }
        let what = self.files.open_what(&place.process, place.at, flags, mode).await?;
        if let What::File(file) = &what {
            self.lock(file, traced).await?;
        }
        Ok(self.keep(turn, OpenSlot::of(what)))
    }

    /// A Mac locks while it opens.
    async fn lock(&self, file: &OpenFile, flags: OpenFlags) -> Result<(), Errno> {
        let kind = match () {
            () if flags.contains(OpenFlags::O_EXLOCK) => LockKind::Exclusive,
            () if flags.contains(OpenFlags::O_SHLOCK) => LockKind::Shared,
            () => return Ok(()),
        };
        match file.process().flock(file.fd(), words::lock(kind), LockCall::Try).await {
            Err(Errno::EAGAIN) => {
                self.files.tally.add(Skip::Contended.text());
                Ok(())
            }
            other => other,
        }
    }

    async fn shm_open(&mut self, turn: &Turn<'_>, name: &PathBytes, traced: OpenFlags, mode: u16) -> Reply {
        let shared = &self.files.shared;
        let flags = words::open(traced) | Ours::NOFOLLOW;
        let fd = shared.memory.open(&shm_path(name)?[..], flags, mode).await?;
        let file = OpenFile::new(&shared.rt, &shared.memory, fd);
        Ok(self.keep(turn, OpenSlot::of(What::File(file))))
    }
}

impl Files {
    /// Opens a file, or what stands in for the device or pipe of that name.
    pub(super) async fn open_what(
        &self,
        process: &Process,
        at: Where<'_>,
        flags: Ours,
        mode: u16,
    ) -> Result<What, Errno> {
        let shared = &self.shared;
        match process.open(at, flags, mode).await {
            Ok(fd) => Ok(What::File(OpenFile::new(&shared.rt, process, fd))),
            // Devices and pipes are names on file systems of ours: what they lead to is the kernel's.
            Err(refused @ (Errno::EACCES | Errno::ENXIO)) => {
                let status = process.stat(at, Follow::Links).await?;
                match status.attr.kind {
                    FileType::CharDevice | FileType::BlockDevice => Ok(What::Device(device(&status.attr))),
                    FileType::Fifo => {
                        let ends = [flags.reads(), flags.writes()];
                        let waits = !flags.contains(Ours::NONBLOCK);
                        let early = self.pipes.early as u64;
                        Ok(What::Pipe(shared.fifos.open(status.ino, ends, waits, early).await?))
                    }
                    FileType::File | FileType::Directory | FileType::Symlink | FileType::Socket => Err(refused),
                }
            }
            Err(errno) => Err(errno),
        }
    }
}

fn device(attr: &Attr) -> Harmless {
    let number = (rustix::fs::major(attr.device), rustix::fs::minor(attr.device));
    match number {
        _ if attr.kind != FileType::CharDevice => Harmless::Null,
        FULL => Harmless::Full,
        number if ENDLESS.contains(&number) => Harmless::Endless,
        _ => Harmless::Null,
    }
}

/// The path of shared memory, whose name is a single component.
fn shm_path(name: &PathBytes) -> Result<Vec<u8>, Errno> {
    let bytes = name.as_bytes();
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    let is_single = !bytes.is_empty() && !bytes.contains(&b'/') && bytes != b"." && bytes != b"..";
    if is_single { Ok([b"/", bytes].concat()) } else { Err(Errno::EINVAL) }
}

fn done(result: Result<(), Errno>) -> Reply {
    Ok(result.map(|()| 0)?)
}
