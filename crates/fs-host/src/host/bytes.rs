//! Calls on the bytes of held files.

use esker_fs_posix::Whence;
use esker_fs_posix::script::{Durable, Held, Object, Outcome, Room, bytes_of};
use rustix::fs::{self, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io;

use super::{Answer, Host, Target};

impl Host {
    pub(super) fn read(&self, held: Held, len: u32, at: Option<i64>) -> Answer {
        let (fd, mut out) = (self.fd(held)?, vec![0; len as usize]);
        let read = match at {
            None => io::read(fd, &mut out)?,
            Some(at) => io::pread(fd, &mut out, at as u64)?,
        };
        out.truncate(read);
        Ok(Outcome::Bytes(out))
    }

    pub(super) fn write(&self, held: Held, (seed, len): (u64, u32), at: Option<i64>) -> Answer {
        let (fd, data) = (self.fd(held)?, bytes_of(seed, len));
        let written = match at {
            None => io::write(fd, &data)?,
            Some(at) => io::pwrite(fd, &data, at as u64)?,
        };
        Ok(Outcome::Count(written as u64))
    }

    pub(super) fn seek(&self, held: Held, whence: Whence, by: i64) -> Answer {
        let to = match whence {
            Whence::Set => SeekFrom::Start(by as u64),
            Whence::Current => SeekFrom::Current(by),
            Whence::End => SeekFrom::End(by),
            Whence::Data => SeekFrom::Data(by as u64),
            Whence::Hole => SeekFrom::Hole(by as u64),
        };
        fs::seek(self.fd(held)?, to).map(Outcome::Count)
    }

    pub(super) fn allocate(&self, held: Held, room: Room, (at, len): (i64, i64)) -> io::Result<()> {
        let mode = FallocateFlags::from_bits_retain(room.mode().bits());
        fs::fallocate(self.fd(held)?, mode, at as u64, len as u64)
    }

    /// `truncate` of a path is not to be had without unsafe code: its checks, and a descriptor.
    pub(super) fn truncate(&self, object: &Object, size: i64) -> io::Result<()> {
        let path = match self.target(object)? {
            Target::Fd(fd) => return fs::ftruncate(fd, size as u64),
            Target::Path(_) if size < 0 => return Err(io::Errno::INVAL),
            Target::Path(path) => path,
        };
        match fs::FileType::from_raw_mode(fs::stat(path)?.st_mode) {
            fs::FileType::RegularFile => {}
            fs::FileType::Directory => return Err(io::Errno::ISDIR),
            _ => return Err(io::Errno::INVAL),
        }
        let file = fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?;
        fs::ftruncate(file, size as u64)
    }

    pub(super) fn copy(&self, from: (Held, Option<i64>), to: (Held, Option<i64>), len: u64) -> io::Result<usize> {
        let [mut start, mut goal] = [from.1, to.1].map(|at| at.map(|at| at as u64));
        let (from, to) = (self.fd(from.0)?, self.fd(to.0)?);
        let first = start.map_or_else(|| fs::tell(from), Ok);
        let size = fs::fstat(from)?.st_size as u64;
        let mut copy = |len| fs::copy_file_range(from, start.as_mut(), to, goal.as_mut(), len);
        let mut done = copy(len as usize)?;
        // A copy that shares is cut to whole blocks: as programs do, the rest is asked for again.
        let whole = len.min(size.saturating_sub(first?)) as usize;
        while done > 0 && done < whole {
            match copy(whole - done) {
                Ok(0) | Err(_) => break,
                Ok(more) => done += more,
            }
        }
        Ok(done)
    }

    pub(super) fn sync(&self, what: Durable) -> io::Result<()> {
        match what {
            Durable::Data(held) => fs::fdatasync(self.fd(held)?),
            Durable::File(held) => fs::fsync(self.fd(held)?),
            Durable::All => fs::syncfs(&self.root),
        }
    }
}
