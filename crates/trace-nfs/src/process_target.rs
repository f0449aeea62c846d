//! A process of ours as the target: a replay on any file system that [`esker_vfs`] has a trait for.

use esker_base::{Errno, Nanos};
use esker_fs_posix::{Follow, OpenFlags, Process, SetTime};
use esker_vfs::{Rename, Stamp};

use crate::target::{ReplayTarget, Room};

/// Permissions of new directories and files, before the umask.
const DIR_MODE: u16 = 0o777;
const FILE_MODE: u16 = 0o666;

/// Calls of a process, from its working directory on. `Wait` waits in the world of the file system.
pub struct ProcessTarget<Wait> {
    process: Process,
    wait: Wait,
}

impl<Wait: FnMut(Nanos) -> Waiting, Waiting: Future<Output = ()>> ProcessTarget<Wait> {
    /// A target of a process, which waits by `wait`.
    pub fn new(process: Process, wait: Wait) -> ProcessTarget<Wait> {
        ProcessTarget { process, wait }
    }

    async fn with_file(&mut self, path: &[u8], truncate: bool, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::NOFOLLOW;
        let flags = if truncate { flags | OpenFlags::TRUNC } else { flags };
        let fd = self.process.open(path, flags, FILE_MODE).await?;
        let mut done = 0;
        let written = loop {
            if done == data.len() {
                break Ok(());
            }
            let at = i64::try_from(offset + done as u64).map_err(|_| Errno::EFBIG)?;
            match self.process.pwrite(fd, &data[done..], at).await {
                Ok(0) => break Err(Errno::EIO),
                Ok(count) => done += count,
                Err(error) => break Err(error),
            }
        };
        let closed = self.process.close(fd).await;
        written.and(closed)
    }
}

impl<Wait: FnMut(Nanos) -> Waiting, Waiting: Future<Output = ()>> ReplayTarget for ProcessTarget<Wait> {
    async fn make_dir(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.process.mkdir(path, DIR_MODE).await
    }

    async fn create(&mut self, path: &[u8], truncate: bool) -> Result<(), Errno> {
        self.with_file(path, truncate, 0, &[]).await
    }

    async fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.with_file(path, false, offset, data).await
    }

    async fn remove(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.process.unlink(path).await
    }

    async fn remove_dir(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.process.rmdir(path).await
    }

    async fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        self.process.rename(from, to, Rename::Replace).await
    }

    async fn link(&mut self, old: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.process.link(old, new, Follow::Nothing).await
    }

    async fn symlink(&mut self, text: &[u8], path: &[u8]) -> Result<(), Errno> {
        self.process.symlink(text, path).await
    }

    async fn look(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.process.stat(path, Follow::Nothing).await.map(drop)
    }

    async fn set_mode(&mut self, path: &[u8], mode: u16) -> Result<(), Errno> {
        self.process.chmod(path, mode, Follow::Nothing).await
    }

    async fn set_times(&mut self, path: &[u8], access: Option<Nanos>, change: Option<Nanos>) -> Result<(), Errno> {
        let time = |time: Option<Nanos>| {
            time.map_or(SetTime::Keep, |time| SetTime::To(Stamp(i64::try_from(time.0).unwrap_or(i64::MAX))))
        };
        self.process.set_times(path, time(access), time(change), Follow::Nothing).await
    }

    async fn sync(&mut self) -> Result<(), Errno> {
        self.process.sync().await
    }

    async fn room(&mut self) -> Result<Room, Errno> {
        let (_, space) = self.process.statfs().await?;
        Ok(Room { bytes: space.bytes, bytes_free: space.bytes_free })
    }

    async fn wait(&mut self, span: Nanos) {
        (self.wait)(span).await;
    }
}
