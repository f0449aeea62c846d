//! Traces that want out: what an attacker would have a replay do, in an order that chance decides. They need not be
//! traces that a kernel could have made.

use esker_base::{Stream, Time};

use crate::action::{Action, Outcome, ProcessId, ThreadId};
use crate::call::{At, Call, Fd, Object};
use crate::name::{PathBytes, Word};
use crate::snapshot::{Entry, EntryKind, Xattr};
use crate::trace::{Platform, Process, Thread, Trace};
use crate::words::{FileKind, OpenFlags, RenameFlags, ResolveFlags, XattrFlags};

/// Calls of one trace.
const CALLS: u64 = 60;
/// The first descriptor that is opened.
const FIRST_FD: i64 = 3;
/// Permission bits that grant, and some that do not.
const MODES: [u16; 6] = [0o6777, 0o4755, 0o2777, 0o7777, 0o644, 0o1777];
/// Attributes that the kernel reads a meaning into, and two that mean nothing.
const ATTRIBUTES: [&str; 6] =
    ["security.capability", "trusted.overlay.opaque", "system.posix_acl_access", "security.evm", "user.plain", "bare"];
/// Another user.
const NOBODY: u32 = 65_534;

/// A trace of one program that does its worst to `outside`, a directory outside of its tree, by its absolute path. The
/// seed decides all choices.
pub fn hostile(seed: u64, outside: &str) -> Trace {
    let mut plan =
        HostileTrace { random: Stream::named(seed, "hostile"), outside, next_fd: FIRST_FD, now: 0, trace: program() };
    plan.snapshot();
    for _ in 0..CALLS {
        plan.call();
    }
    plan.trace
}

fn program() -> Trace {
    let mut trace = Trace::new(Platform::Linux, "hostile");
    trace.processes.push(Process { pid: 100, parent: None, cwd: PathBytes::from("/"), umask: 0 });
    trace.threads.push(Thread { tid: 100, process: ProcessId(0), parent: None, name: Word::from("") });
    trace
}

struct HostileTrace<'a> {
    random: Stream,
    outside: &'a str,
    next_fd: i64,
    now: u64,
    trace: Trace,
}

impl HostileTrace<'_> {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.random.below(list.len() as u64) as usize]
    }

    fn mode(&mut self) -> u16 {
        self.pick(&MODES)
    }

    /// A path that may lead out, or to where links are planted.
    fn path(&mut self) -> String {
        let out = self.outside.trim_start_matches('/').to_string();
        match self.random.below(12) {
            0 => "/x".to_string(),
            1 => "/d".to_string(),
            2 => "/d/y".to_string(),
            3 => "/l".to_string(),
            4 => "/l/z".to_string(),
            5 => format!("/../../../../../../../../{out}/kept"),
            6 => format!("/{out}/kept"),
            7 => format!("/proc/self/root/{out}/planted"),
            8 => "/d/l/planted".to_string(),
            9 => "/d/../../outside/planted".to_string(),
            10 => "/".to_string(),
            _ => "/d/".to_string(),
        }
    }

    fn target(&mut self) -> String {
        let outside = self.outside;
        match self.random.below(5) {
            0 => outside.to_string(),
            1 => format!("{outside}/kept"),
            2 => format!("../../../../../../../..{outside}"),
            3 => "/proc/self/root".to_string(),
            _ => "/d".to_string(),
        }
    }

    fn at(&mut self) -> At {
        At::cwd(self.path().as_str())
    }

    fn file(&mut self) -> Object {
        match self.random.below(4) {
            0 if self.next_fd > FIRST_FD => Object::Fd(self.fd()),
            other => Object::Path { at: self.at(), follow: other == 1 },
        }
    }

    fn fd(&mut self) -> Fd {
        let opened = (self.next_fd - FIRST_FD).max(1) as u64;
        Fd((FIRST_FD + self.random.below(opened) as i64) as i32)
    }

    fn snapshot(&mut self) {
        let kinds = [
            ("/d", EntryKind::Directory),
            ("/x", EntryKind::File { size: 100 }),
            ("/l", EntryKind::Symlink { target: PathBytes::from(self.target().as_str()) }),
            ("/d/l", EntryKind::Symlink { target: PathBytes::from(self.target().as_str()) }),
            ("/fifo", EntryKind::Fifo),
            ("/disk", EntryKind::Device { block: true, major: 254, minor: 0 }),
        ];
        for (path, kind) in kinds {
            if self.random.below(4) == 0 {
                continue;
            }
            let name = self.pick(&ATTRIBUTES);
            let xattrs = vec![Xattr { name: Word::from(name), len: 20 }];
            let entry = Entry { mode: self.mode(), xattrs, ..Entry::plain(kind) };
            self.trace.snapshot.entries.insert(PathBytes::from(path), entry);
        }
    }

    fn call(&mut self) {
        let (call, outcome) = match self.random.below(5) {
            0 | 1 => self.make(),
            2 => (self.name(), 0),
            _ => (self.grant(), 0),
        };
        let (enter, leave) = (Time(self.now), Time(self.now + 1000));
        self.now += 2000;
        self.trace.actions.push(Action { thread: ThreadId(0), enter, leave, call, outcome: Outcome::Done(outcome) });
    }

    /// Calls that make something; with what they return.
    fn make(&mut self) -> (Call, i64) {
        let opened = OpenFlags::READ | OpenFlags::WRITE;
        let (at, mode) = (self.at(), self.mode());
        let call = match self.random.below(6) {
            0 | 1 => Call::Open { at, flags: opened | OpenFlags::O_CREAT, mode, resolve: ResolveFlags::empty() },
            2 => Call::Open { at, flags: opened | OpenFlags::O_TMPFILE, mode, resolve: ResolveFlags::empty() },
            3 => {
                let name = PathBytes::from(self.pick(&["/x", "/../x", "/..", "/a/b"]));
                Call::ShmOpen { name, flags: opened | OpenFlags::O_CREAT, mode }
            }
            4 => return (Call::Mkdir { at, mode }, 0),
            _ => {
                let kinds = [FileKind::Regular, FileKind::Fifo, FileKind::Socket, FileKind::BlockDevice];
                return (Call::Mknod { at, kind: self.pick(&kinds), mode, device: 0xfe00 }, 0);
            }
        };
        self.next_fd += 1;
        (call, self.next_fd - 1)
    }

    /// Calls that move names.
    fn name(&mut self) -> Call {
        match self.random.below(7) {
            0 | 1 => Call::Symlink { target: PathBytes::from(self.target().as_str()), at: self.at() },
            2 => Call::Link { from: self.file(), to: self.at() },
            3 => Call::Rename { from: self.at(), to: self.at(), flags: RenameFlags::empty() },
            4 => Call::Unlink { at: self.at() },
            5 => Call::Rmdir { at: self.at() },
            _ => Call::CloneFile { from: self.file(), to: self.at() },
        }
    }

    /// Calls that grant rights, or change what is there.
    fn grant(&mut self) -> Call {
        match self.random.below(6) {
            0 | 1 => Call::Chmod { file: self.file(), mode: self.mode() },
            2 => {
                let name = Word::from(self.pick(&ATTRIBUTES));
                Call::SetXattr { file: self.file(), name, len: 20, flags: XattrFlags::empty() }
            }
            3 => Call::Chown { file: self.file(), uid: self.pick(&[0, NOBODY]), gid: self.pick(&[0, NOBODY]) },
            4 => Call::Truncate { file: self.file(), len: 4096 },
            _ => Call::Write { fd: self.fd(), len: 100, parts: 1 },
        }
    }
}
