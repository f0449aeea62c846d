//! Random calls on few names, so that they meet.

use esker_base::Stream;
use esker_trace_calls::call::{At, Call, Fd, Object};
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::words::{
    AccessMode, FallocFlags, FileKind, OpenFlags, ReadWriteFlags, RenameFlags, ResolveFlags, Whence,
};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Descriptors kept open at most.
const OPEN_MAX: usize = 40;

/// Makes calls.
pub struct Generator {
    stream: Stream,
}

impl Generator {
    pub fn new(stream: Stream) -> Generator {
        Generator { stream }
    }

    /// The next call. `fds` are open, and `known` tells what on.
    pub fn call(&mut self, fds: Vec<Fd>, known: impl Fn(Fd) -> Option<(FileKind, OpenFlags)>) -> Call {
        if fds.len() >= OPEN_MAX {
            return Call::Close { fd: self.one_of(&fds) };
        }
        if !fds.is_empty() && self.stream.chance(0.3) {
            let fd = self.one_of(&fds);
            return self.descriptor_call(fd, &fds, known(fd));
        }
        let dirs: Vec<Fd> =
            fds.into_iter().filter(|fd| known(*fd).is_some_and(|(kind, _)| kind == FileKind::Directory)).collect();
        self.name_call(&dirs)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.stream.below(all.len() as u64) as usize]
    }

    fn name_call(&mut self, dirs: &[Fd]) -> Call {
        let at = self.at(dirs);
        let follow = self.stream.chance(0.5);
        match self.stream.below(100) {
            0..14 => Call::Mkdir { at, mode: 0o755 },
            14..20 => self.mknod(at),
            20..30 => Call::Symlink { target: self.path(), at },
            30..37 => Call::Link { from: Object::Path { at, follow }, to: self.at(dirs) },
            37..43 => Call::Unlink { at },
            43..47 => Call::Rmdir { at },
            47..62 => Call::Rename { from: at, to: self.at(dirs), flags: self.rename_flags() },
            62..82 => Call::Open { at, flags: self.open_flags(), mode: 0o644, resolve: ResolveFlags::empty() },
            82..90 => Call::Stat { file: Object::Path { at, follow }, seen: None },
            90..93 => Call::Access { file: Object::Path { at, follow: true }, mode: AccessMode::empty() },
            93..97 => Call::ReadLink { at, len: 4096, seen_target: None },
            _ => Call::Chdir { file: Object::Path { at: At { dir: Fd::CWD, ..at }, follow: true } },
        }
    }

    fn mknod(&mut self, at: At) -> Call {
        let kind = self.one_of(&[FileKind::Regular, FileKind::Regular, FileKind::Fifo, FileKind::Socket]);
        Call::Mknod { at, kind, mode: 0o644, device: 0 }
    }

    fn descriptor_call(&mut self, fd: Fd, fds: &[Fd], known: Option<(FileKind, OpenFlags)>) -> Call {
        let kind = known.map(|(kind, _)| kind);
        match self.stream.below(100) {
            0..22 => Call::Close { fd },
            22..30 => Call::Dup { fd, min: self.one_of(&[0, 0, 10]), cloexec: true },
            30..36 => Call::DupTo { fd, to: self.one_of(fds), cloexec: false, strict: false },
            36..46 => Call::Stat { file: Object::Fd(fd), seen: None },
            46..52 => Call::Chdir { file: Object::Fd(fd) },
            // What reading and writing other things answers depends on more than files.
            _ if !matches!(kind, Some(FileKind::Regular | FileKind::Directory)) => Call::Close { fd },
            _ => self.data_call(fd, kind == Some(FileKind::Regular)),
        }
    }

    fn data_call(&mut self, fd: Fd, regular: bool) -> Call {
        let (len, offset) = (self.stream.below(8192), self.stream.below(32 << 10) as i64);
        let (parts, flags) = (0, ReadWriteFlags::empty());
        match self.stream.below(7) {
            0 => Call::Read { fd, len, parts },
            1 => Call::Write { fd, len, parts },
            2 => Call::Pread { fd, offset, len, parts, flags },
            3 => Call::Pwrite { fd, offset, len, parts, flags },
            4 if regular => {
                let whence = self.one_of(&[Whence::Set, Whence::Current, Whence::End]);
                let back = if whence == Whence::Set { 0 } else { 8192 };
                Call::Seek { fd, offset: offset - back, whence }
            }
            5 => Call::Truncate { file: Object::Fd(fd), len: offset },
            _ => {
                let keep = self.stream.chance(0.5);
                let flags = if keep { FallocFlags::FALLOC_FL_KEEP_SIZE } else { FallocFlags::empty() };
                Call::Allocate { fd, flags, offset, len: len as i64 }
            }
        }
    }

    fn rename_flags(&mut self) -> RenameFlags {
        match self.stream.below(10) {
            0 => RenameFlags::RENAME_NOREPLACE,
            1..4 => RenameFlags::RENAME_EXCHANGE,
            _ => RenameFlags::empty(),
        }
    }

    fn open_flags(&mut self) -> OpenFlags {
        let access = [OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ | OpenFlags::WRITE];
        let mut flags = self.one_of(&access) | OpenFlags::O_NONBLOCK | OpenFlags::O_CLOEXEC;
        let some = [
            (OpenFlags::O_CREAT, 0.4),
            (OpenFlags::O_EXCL, 0.15),
            (OpenFlags::O_TRUNC, 0.15),
            (OpenFlags::O_DIRECTORY, 0.15),
            (OpenFlags::O_NOFOLLOW, 0.15),
            (OpenFlags::O_APPEND, 0.1),
        ];
        for (flag, often) in some {
            flags.set(flag, self.stream.chance(often));
        }
        if self.stream.chance(0.05) {
            // The kernel sees no access in these.
            flags = (flags - access[2]) | OpenFlags::O_PATH;
        }
        flags
    }

    /// A path: mostly short, some with dots, slashes, absolute, or too long.
    fn path(&mut self) -> PathBytes {
        let mut path = Vec::new();
        if self.stream.chance(0.2) {
            path.push(b'/');
        }
        let depth = 1 + self.stream.below(4).min(self.stream.below(4));
        for level in 0..depth {
            if level > 0 {
                path.extend_from_slice(if self.stream.chance(0.03) { b"//" } else { b"/" });
            }
            match self.stream.below(100) {
                0..4 => path.extend_from_slice(b".."),
                4..7 => path.extend_from_slice(b"."),
                7 => path.extend(std::iter::repeat_n(b'n', self.one_of(&[255, 256]))),
                _ => path.extend_from_slice(self.one_of(&NAMES).as_bytes()),
            }
        }
        if self.stream.chance(0.07) {
            path.push(b'/');
        }
        match self.stream.below(2000) {
            0 => PathBytes::from(Vec::new()),
            1 => PathBytes::from(b"./".repeat(2048)),
            _ => PathBytes::from(path),
        }
    }

    fn at(&mut self, dirs: &[Fd]) -> At {
        let dir = if !dirs.is_empty() && self.stream.chance(0.3) { self.one_of(dirs) } else { Fd::CWD };
        At { dir, path: self.path() }
    }
}
