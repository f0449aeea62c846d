//! Scripts on the kernel: a second player beside the processes of ours.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use esker_base::Errno;
use esker_fs_posix::script::{
    Durable, Facts, HELD, Held, Object, Outcome, Player, Room, ScriptOp, Word, XattrOp, bytes_of,
};
use esker_fs_posix::{Access, Follow, OpenFlags, SetTime, Whence};
use esker_vfs::{FileType, Rename, Stamp, XattrSet};
use rustix::fs::{self, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, Timespec, XattrFlags};
use rustix::io;
use rustix::thread;

/// Bytes of the buffer for entries, so few that a listing takes several calls.
const ENTRIES_ROOM: usize = 512;
/// Most bytes of an extended attribute, and of a list of their names.
const XATTR_ROOM: usize = 1 << 16;

/// Plays scripts in this process, of which rights, umask and working directory change with them.
#[derive(Debug)]
pub struct Host {
    root: OwnedFd,
    held: [Option<OwnedFd>; HELD],
}

type Answer = Result<Outcome, rustix::io::Errno>;

impl Player for Host {
    async fn call(&mut self, op: &ScriptOp) -> Outcome {
        self.act(op).unwrap_or_else(|error| Outcome::Failed(Errno(error.raw_os_error() as u16)))
    }
}

fn done(result: io::Result<()>) -> Answer {
    result.map(|()| Outcome::Done)
}

/// A call on a path or on a held file.
enum Target<'a> {
    Path(&'a [u8]),
    Fd(BorrowedFd<'a>),
}

impl Host {
    /// A player whose calls on everything are about the file system of a directory. Its paths begin where this process
    /// is: only a process whose root is that directory may play absolute ones.
    ///
    /// # Panics
    /// If the directory does not open.
    pub fn at(directory: &std::path::Path) -> Host {
        let root = fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("the directory opens");
        Host { root, held: [const { None }; HELD] }
    }

    fn fd(&self, held: Held) -> io::Result<BorrowedFd<'_>> {
        self.held[usize::from(held.0)].as_ref().map(AsFd::as_fd).ok_or(io::Errno::BADF)
    }

    fn target<'a>(&'a self, object: &'a Object) -> io::Result<Target<'a>> {
        match object {
            Object::Path(path) => Ok(Target::Path(&path.0)),
            Object::Held(held) => self.fd(*held).map(Target::Fd),
        }
    }

    fn act(&mut self, op: &ScriptOp) -> Answer {
        match op {
            ScriptOp::Open(held, path, flags, mode) => {
                self.held[usize::from(held.0)] = Some(open(path, *flags, *mode)?);
                Ok(Outcome::Done)
            }
            ScriptOp::Dup(from, to) => {
                self.held[usize::from(to.0)] = Some(io::dup(self.fd(*from)?)?);
                Ok(Outcome::Done)
            }
            ScriptOp::Close(held) => {
                self.held[usize::from(held.0)].take().map(|_| Outcome::Done).ok_or(io::Errno::BADF)
            }
            ScriptOp::Become(user) => done(become_user(*user)),
            ScriptOp::Umask(mask) => {
                let old = rustix::process::umask(Mode::from_raw_mode(u32::from(*mask)));
                Ok(Outcome::Count(u64::from(old.as_raw_mode())))
            }
            _ => self.bytes(op).or_else(|| self.names(op)).unwrap_or_else(|| self.attributes(op)),
        }
    }

    fn bytes(&self, op: &ScriptOp) -> Option<Answer> {
        Some(match op {
            ScriptOp::Read(held, len, at) => self.fd(*held).and_then(|fd| {
                let mut out = vec![0; *len as usize];
                let read = match at {
                    None => io::read(fd, &mut out)?,
                    Some(at) => io::pread(fd, &mut out, *at as u64)?,
                };
                out.truncate(read);
                Ok(Outcome::Bytes(out))
            }),
            ScriptOp::Write(held, len, seed, at) => self.fd(*held).and_then(|fd| {
                let data = bytes_of(*seed, *len);
                let written = match at {
                    None => io::write(fd, &data)?,
                    Some(at) => io::pwrite(fd, &data, *at as u64)?,
                };
                Ok(Outcome::Count(written as u64))
            }),
            ScriptOp::Seek(held, whence, by) => {
                let to = match whence {
                    Whence::Set => SeekFrom::Start(*by as u64),
                    Whence::Current => SeekFrom::Current(*by),
                    Whence::End => SeekFrom::End(*by),
                    Whence::Data => SeekFrom::Data(*by as u64),
                    Whence::Hole => SeekFrom::Hole(*by as u64),
                };
                self.fd(*held).and_then(|fd| fs::seek(fd, to)).map(Outcome::Count)
            }
            ScriptOp::Truncate(object, size) => done(self.truncate(object, *size)),
            ScriptOp::Allocate(held, room, at, len) => {
                done(self.fd(*held).and_then(|fd| fs::fallocate(fd, mode_of(*room), *at as u64, *len as u64)))
            }
            ScriptOp::Copy(from, to, len) => self.copy(*from, *to, *len).map(|copied| Outcome::Count(copied as u64)),
            ScriptOp::Clone(from, to) => {
                done(self.fd(*to).and_then(|to| self.fd(*from).and_then(|from| fs::ioctl_ficlone(to, from))))
            }
            ScriptOp::Sync(Durable::Data(held)) => done(self.fd(*held).and_then(fs::fdatasync)),
            ScriptOp::Sync(Durable::File(held)) => done(self.fd(*held).and_then(fs::fsync)),
            ScriptOp::Sync(Durable::All) => done(fs::syncfs(&self.root)),
            _ => return None,
        })
    }

    /// `truncate` of a path is not to be had without unsafe code: its checks, and a descriptor.
    fn truncate(&self, object: &Object, size: i64) -> io::Result<()> {
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

    fn copy(&self, from: (Held, Option<i64>), to: (Held, Option<i64>), len: u64) -> io::Result<usize> {
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

    fn names(&self, op: &ScriptOp) -> Option<Answer> {
        Some(match op {
            ScriptOp::Mkdir(path, mode) => done(fs::mkdir(&path.0[..], mode_bits(*mode))),
            ScriptOp::Mknod(path, kind, mode, device) => {
                done(fs::mknodat(CWD, &path.0[..], kind_of(*kind), mode_bits(*mode), *device))
            }
            ScriptOp::Link(old, new, follow) => done(self.target(old).and_then(|old| {
                let flags = if *follow == Follow::Links { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
                match old {
                    Target::Path(old) => fs::linkat(CWD, old, CWD, &new.0[..], flags),
                    Target::Fd(fd) => fs::linkat(fd, "", CWD, &new.0[..], flags | AtFlags::EMPTY_PATH),
                }
            })),
            ScriptOp::Symlink(target, path) => done(fs::symlink(&target.0[..], &path.0[..])),
            ScriptOp::Readlink(path) => {
                fs::readlink(&path.0[..], Vec::new()).map(|target| Outcome::Path(target.into_bytes()))
            }
            ScriptOp::Unlink(path) => done(fs::unlink(&path.0[..])),
            ScriptOp::Rmdir(path) => done(fs::rmdir(&path.0[..])),
            ScriptOp::Rename(from, to, how) => {
                let flags = match how {
                    Rename::Replace => RenameFlags::empty(),
                    Rename::NoReplace => RenameFlags::NOREPLACE,
                    Rename::Exchange => RenameFlags::EXCHANGE,
                };
                done(fs::renameat_with(CWD, &from.0[..], CWD, &to.0[..], flags))
            }
            ScriptOp::List(Object::Held(held)) => self.fd(*held).and_then(list),
            ScriptOp::List(Object::Path(path)) => {
                let flags = OFlags::DIRECTORY | OFlags::NONBLOCK;
                fs::open(&path.0[..], flags, Mode::empty()).and_then(|fd| list(fd.as_fd()))
            }
            ScriptOp::Chdir(object) => done(self.target(object).and_then(|to| match to {
                Target::Path(path) => rustix::process::chdir(path),
                Target::Fd(fd) => rustix::process::fchdir(fd),
            })),
            _ => return None,
        })
    }

    fn attributes(&self, op: &ScriptOp) -> Answer {
        match op {
            ScriptOp::Stat(object, follow) => {
                let stat = match self.target(object)? {
                    Target::Path(path) => fs::statat(CWD, path, at_flags(*follow))?,
                    Target::Fd(fd) => fs::fstat(fd)?,
                };
                Ok(Outcome::Facts(facts(&stat)))
            }
            ScriptOp::Access(path, wanted) => {
                let bits = [
                    (Access::READ, fs::Access::READ_OK),
                    (Access::WRITE, fs::Access::WRITE_OK),
                    (Access::EXECUTE, fs::Access::EXEC_OK),
                ];
                let asked = bits.into_iter().filter(|(bit, _)| wanted.contains(*bit)).map(|(_, word)| word);
                done(fs::accessat(CWD, &path.0[..], asked.collect(), AtFlags::EACCESS))
            }
            ScriptOp::Chmod(object, mode) => done(match self.target(object)? {
                Target::Path(path) => fs::chmodat(CWD, path, mode_bits(*mode), AtFlags::empty()),
                Target::Fd(fd) => fs::fchmod(fd, mode_bits(*mode)),
            }),
            ScriptOp::Chown(object, uid, gid, follow) => {
                let (uid, gid) = (uid.map(fs::Uid::from_raw), gid.map(fs::Gid::from_raw));
                done(match self.target(object)? {
                    Target::Path(path) => fs::chownat(CWD, path, uid, gid, at_flags(*follow)),
                    Target::Fd(fd) => fs::fchown(fd, uid, gid),
                })
            }
            ScriptOp::Times(object, accessed, modified, follow) => {
                let times = fs::Timestamps { last_access: timespec(*accessed), last_modification: timespec(*modified) };
                done(match self.target(object)? {
                    Target::Path(path) => fs::utimensat(CWD, path, &times, at_flags(*follow)),
                    Target::Fd(fd) => fs::futimens(fd, &times),
                })
            }
            ScriptOp::Xattr(object, op, follow) => xattr(&self.target(object)?, op, *follow),
            other => unreachable!("{other} is made elsewhere"),
        }
    }
}

/// Opens a file. Pipes belong to the kernel: ours are names alone.
fn open(path: &Word, flags: OpenFlags, mode: u16) -> io::Result<OwnedFd> {
    let table = [
        (OpenFlags::TMPFILE, OFlags::TMPFILE),
        (OpenFlags::SYNC, OFlags::SYNC),
        (OpenFlags::RDWR, OFlags::RDWR),
        (OpenFlags::WRONLY, OFlags::WRONLY),
        (OpenFlags::CREAT, OFlags::CREATE),
        (OpenFlags::EXCL, OFlags::EXCL),
        (OpenFlags::TRUNC, OFlags::TRUNC),
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::DSYNC, OFlags::DSYNC),
        (OpenFlags::DIRECT, OFlags::DIRECT),
        (OpenFlags::DIRECTORY, OFlags::DIRECTORY),
        (OpenFlags::NOFOLLOW, OFlags::NOFOLLOW),
        (OpenFlags::NOATIME, OFlags::NOATIME),
        (OpenFlags::PATH, OFlags::PATH),
    ];
    let known = table.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, known)| known);
    let all = known.fold(OFlags::NONBLOCK | OFlags::CLOEXEC, |all, known| all | known);
    let fd = fs::open(&path.0[..], all, mode_bits(mode))?;
    let kind = fs::FileType::from_raw_mode(fs::fstat(&fd)?.st_mode);
    if kind == fs::FileType::Fifo && !flags.contains(OpenFlags::PATH) { Err(io::Errno::NXIO) } else { Ok(fd) }
}

/// Takes the rights of a user in this thread. The real and the saved user stay, so that there is a way back.
fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (fs::Uid::from_raw(user), fs::Gid::from_raw(user));
    thread::set_thread_res_uid(None, fs::Uid::ROOT, None)?;
    thread::set_thread_groups(&[])?;
    thread::set_thread_res_gid(None, gid, None)?;
    thread::set_thread_res_uid(None, uid, None)
}

fn list(fd: BorrowedFd<'_>) -> Answer {
    fs::seek(fd, SeekFrom::Start(0))?;
    let mut room = [MaybeUninit::uninit(); ENTRIES_ROOM];
    let (mut dir, mut all) = (fs::RawDir::new(fd, &mut room), Vec::new());
    while let Some(entry) = dir.next() {
        let entry = entry?;
        all.push((entry.file_name().to_bytes().to_vec(), our_kind(entry.file_type())));
    }
    Ok(Outcome::Entries(all))
}

fn xattr(target: &Target<'_>, op: &XattrOp, follow: Follow) -> Answer {
    let mut room = vec![0; XATTR_ROOM];
    let links = follow == Follow::Links;
    match op {
        XattrOp::Get(name) => {
            let name = &name.0[..];
            let len = match target {
                Target::Path(path) if links => fs::getxattr(*path, name, &mut room)?,
                Target::Path(path) => fs::lgetxattr(*path, name, &mut room)?,
                Target::Fd(fd) => fs::fgetxattr(fd, name, &mut room)?,
            };
            Ok(Outcome::Bytes(room[..len].to_vec()))
        }
        XattrOp::List => {
            let len = match target {
                Target::Path(path) if links => fs::listxattr(*path, &mut room)?,
                Target::Path(path) => fs::llistxattr(*path, &mut room)?,
                Target::Fd(fd) => fs::flistxattr(fd, &mut room)?,
            };
            Ok(Outcome::Names(room[..len].to_vec()))
        }
        XattrOp::Set(name, len, seed, how) => {
            let (name, value) = (&name.0[..], bytes_of(*seed, *len));
            let flags = match how {
                XattrSet::Any => XattrFlags::empty(),
                XattrSet::Create => XattrFlags::CREATE,
                XattrSet::Replace => XattrFlags::REPLACE,
            };
            done(match target {
                Target::Path(path) if links => fs::setxattr(*path, name, &value, flags),
                Target::Path(path) => fs::lsetxattr(*path, name, &value, flags),
                Target::Fd(fd) => fs::fsetxattr(fd, name, &value, flags),
            })
        }
        XattrOp::Remove(name) => done(match target {
            Target::Path(path) if links => fs::removexattr(*path, &name.0[..]),
            Target::Path(path) => fs::lremovexattr(*path, &name.0[..]),
            Target::Fd(fd) => fs::fremovexattr(fd, &name.0[..]),
        }),
    }
}

fn facts(stat: &fs::Stat) -> Facts {
    let stamp = |seconds: i64, nanos| Stamp(seconds * 1_000_000_000 + nanos as i64);
    Facts {
        kind: our_kind(fs::FileType::from_raw_mode(stat.st_mode)),
        mode: (stat.st_mode & 0o7777) as u16,
        links: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: stat.st_rdev,
        size: stat.st_size as u64,
        accessed: stamp(stat.st_atime, stat.st_atime_nsec),
        modified: stamp(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn timespec(time: SetTime) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        SetTime::Keep => (0, fs::UTIME_OMIT),
        SetTime::Now => (0, fs::UTIME_NOW),
        SetTime::To(stamp) => (stamp.0.div_euclid(1_000_000_000), stamp.0.rem_euclid(1_000_000_000)),
    };
    Timespec { tv_sec, tv_nsec }
}

fn at_flags(follow: Follow) -> AtFlags {
    if follow == Follow::Links { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

fn mode_bits(mode: u16) -> Mode {
    Mode::from_raw_mode(u32::from(mode))
}

fn mode_of(room: Room) -> FallocateFlags {
    FallocateFlags::from_bits_retain(room.mode().bits())
}

const KINDS: [(FileType, fs::FileType); 7] = [
    (FileType::File, fs::FileType::RegularFile),
    (FileType::Directory, fs::FileType::Directory),
    (FileType::Symlink, fs::FileType::Symlink),
    (FileType::CharDevice, fs::FileType::CharacterDevice),
    (FileType::BlockDevice, fs::FileType::BlockDevice),
    (FileType::Fifo, fs::FileType::Fifo),
    (FileType::Socket, fs::FileType::Socket),
];

fn kind_of(kind: FileType) -> fs::FileType {
    KINDS.iter().find(|(ours, _)| *ours == kind).expect("a list of all kinds").1
}

fn our_kind(kind: fs::FileType) -> FileType {
    KINDS.iter().find(|(_, theirs)| *theirs == kind).expect("a file system tells the kinds of its entries").0
}
