//! Requests of the kernel to a file system, from the first one until the mount is gone.
//!
//! An answer that is there at once is written where its request was read. Only what waits becomes a task.
//!
//! Node numbers are inode numbers; 1 stands for the root. The session counts the pins that it gives out to the kernel.
//! So a kernel cannot give back more than it has, and no pin outlives the mount.

mod attributes;
mod bytes;
mod directory;
mod extras;
mod greeting;
mod names;
mod notices;
mod numbers;
mod pins;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use esker_base::Errno;
use esker_block::{Step, Tag};
use esker_rt::mem::{Parts, Pool, Slice};
use esker_rt::sync::Notify;
use esker_rt::{Level, Rt};
use esker_vfs::{Answer, Call, FileSystem, Hint, Ino, Stamp};

use crate::proto::abi::{OpenOut, opcode};
use crate::proto::{Op, Request, reply};
use crate::wire::ring::RingShape;
use crate::wire::{Channel, Message, Reader};

pub(crate) use greeting::PAGE;
use notices::Noticer;
use numbers::Numbers;
use pins::Pins;

/// What the kernel keeps of files, and how it opens them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CacheMode {
    /// Pages are kept, and each write reaches the file system before it returns. Opening and closing ask nothing.
    Through,
    /// Writes stay in pages until they are synchronised, the file is closed, or memory is short.
    WriteBack,
    /// Reads and writes reach the file system; only maps have pages.
    None,
    /// Files are block devices: as `None`, but writes overlap and nothing is mapped.
    Devices,
}

/// How a file system is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServeConfig {
    pub cache: CacheMode,
    /// Most bytes of one read or write, whole pages.
    pub transfer_max: u32,
    /// [`Tag::issuer`] of its requests.
    pub issuer: u32,
    /// The ring, if requests come by one.
    pub ring: Option<RingShape>,
}

/// Numbers of operations that are counted one by one.
const COUNTED: usize = 64;

/// One file system, served from its mount to its end.
pub(crate) struct Session {
    rt: Rt,
    pool: Pool,
    channel: Channel,
    fs: Rc<dyn FileSystem>,
    config: ServeConfig,
    numbers: Numbers,
    pins: Pins,
    /// Files that are open, as far as the kernel tells.
    pub opens: Cell<u64>,
    /// Whenever a file is opened or closed.
    pub opened: Notify,
    requests: RefCell<[u64; COUNTED]>,
    /// Requests that came by the ring.
    pub by_ring: Cell<u64>,
    /// Requests that wait and entries of the ring, and whenever there is none.
    waiting: Cell<u64>,
    idle: Notify,
    /// Requests that wait and can be given up: what hears that their caller was interrupted.
    callers: RefCell<BTreeMap<u64, Rc<Notify>>>,
    /// Interrupted requests that are still to come.
    early: RefCell<VecDeque<u64>>,
    /// Whether a message that is no request was told already.
    told: Cell<bool>,
}

/// A request that wants an answer.
struct Asked {
    unique: u64,
    opcode: u32,
    step: Answer<Parts>,
}

/// An answer of the file system as bytes for the kernel, now or later. None: no answer is wanted.
type Sent = Option<Answer<Parts>>;

impl Session {
    pub(crate) fn new(rt: &Rt, pool: &Pool, channel: Channel, fs: Rc<dyn FileSystem>, config: ServeConfig) -> Session {
        Session {
            rt: rt.clone(),
            pool: pool.clone(),
            channel,
            numbers: Numbers::new(fs.root()),
            fs,
            config,
            pins: Pins::default(),
            opens: Cell::new(0),
            opened: Notify::default(),
            requests: RefCell::new([0; COUNTED]),
            by_ring: Cell::new(0),
            waiting: Cell::new(0),
            idle: Notify::default(),
            callers: RefCell::default(),
            early: RefCell::default(),
            told: Cell::new(false),
        }
    }

    /// Answers until the file system is unmounted or the kernel ends it.
    pub(crate) async fn serve(self: Rc<Self>) {
        if self.config.cache != CacheMode::Devices {
            self.fs.on_change(Noticer::hearer(&self.channel, self.numbers));
        }
        let mut reader = Reader::new(self.channel.clone(), &self.pool, self.config.transfer_max as usize);
        let mut message = Message::default();
        loop {
            match reader.next(&mut message).await {
                Ok(true) => self.take(&mut message),
                Ok(false) => break,
                Err(error) => {
                    self.rt.log(Level::Error, format_args!("fuse: the kernel cannot be heard any more: {error}"));
                    break;
                }
            }
        }
        // What was begun goes on, and may give inodes out.
        if self.config.cache != CacheMode::Devices {
            self.idle.wait_until(|| self.waiting.get() == 0).await;
        }
        for (ino, pins) in self.pins.take_all() {
            self.fs.forget(ino, pins);
        }
    }

    /// Requests so far, each operation by its number.
    pub(crate) fn requests(&self) -> BTreeMap<u32, u64> {
        let counts = self.requests.borrow();
        (0..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
    }

    /// Answers a message of the device.
    fn take(self: &Rc<Self>, message: &mut Message) {
        match self.ask(message) {
            None => {}
            Some(Asked { unique, step: Step::Now(answer), .. }) => self.channel.answer_now(finish(unique, answer)),
            Some(asked) => {
                let (channel, answer) = (self.channel.clone(), self.settle(asked));
                self.rt.spawn_detached("fuse-request", async move { channel.answer(answer.await).await });
            }
        }
    }

    /// Asks the file system what a message asks. None: no answer is wanted.
    fn ask(self: &Rc<Self>, message: &mut Message) -> Option<Asked> {
        let payload = std::mem::take(&mut message.payload);
        let request = match Request::parse(&message.bytes, message.total) {
            Ok(request) => request,
            Err(why) => {
                if !self.told.replace(true) {
                    self.rt.log(Level::Error, format_args!("fuse: the kernel sent what is no request: {why}"));
                }
                // Refused by its number, so that its caller does not wait for ever.
                let unique = Request::unique_of(&message.bytes)?;
                return Some(Asked { unique, opcode: 0, step: Step::Now(Err(Errno::EIO)) });
            }
        };
        if let Some(count) = self.requests.borrow_mut().get_mut(request.opcode as usize) {
            *count += 1;
        }
        let step = self.perform(&request, payload)?;
        Some(Asked { unique: request.unique, opcode: request.opcode, step })
    }

    /// What comes with a call.
    fn call(&self, request: &Request<'_>) -> Call {
        let (issuer, stream) = (self.config.issuer, self.numbers.ino(request.node).0 as u32);
        let tag = Tag { issuer, stream, pid: request.pid, ..Tag::default() };
        Call { now: Stamp(self.rt.wall()), tag, hint: Hint::default() }
    }

    fn ino(&self, request: &Request<'_>) -> Ino {
        self.numbers.ino(request.node)
    }

    fn perform(self: &Rc<Self>, request: &Request<'_>, payload: Parts) -> Sent {
        match request.op {
            Op::Forget(pins) => {
                self.forget(request.node, pins);
                return None;
            }
            Op::BatchForget(forgets) => {
                forgets.for_each(|(node, pins)| self.forget(node, pins));
                return None;
            }
            Op::Interrupt(unique) => {
                self.interrupt(unique);
                return None;
            }
            Op::Init { major, minor, flags, readahead } => {
                return Some(Step::Now(self.greet(request.unique, (major, minor), flags, readahead)));
            }
            _ => {}
        }
        // Number 0 names no inode.
        if self.ino(request).0 == 0 {
            return Some(Step::Now(match request.op {
                Op::Destroy => Ok(done(request.unique)),
                _ => Err(Errno::EINVAL),
            }));
        }
        Some(match request.op {
            Op::Write { offset, how, flags, .. } => self.write(request, offset, how, flags, payload),
            Op::Read { offset, size } => self.read(request, offset, size),
            Op::Lookup(name) => self.lookup(request, name),
            Op::GetAttr => self.attr(request),
            Op::Statx(_) => self.statx(request),
            Op::SetAttr(set) => self.set_attr(request, &set),
            Op::ReadDir { from, size, plus } => self.list(request, from, size, plus),
            Op::ReadLink => self.target(request),
            Op::Open(flags) => self.open(request, flags),
            Op::OpenDir => self.open_directory(request),
            Op::Release => {
                self.closed();
                Step::Now(Ok(done(request.unique)))
            }
            Op::ReleaseDir | Op::Destroy => Step::Now(Ok(done(request.unique))),
            Op::StatFs => self.space(request),
            Op::Sync(_) | Op::SyncDir | Op::SyncFs => self.sync(request),
            Op::Allocate { offset, len, mode } => self.allocate(request, offset, len, mode),
            Op::Seek { offset, whence } => self.seek(request, offset, whence),
            Op::Copy { from, node, to, len, wide } => self.copy(request, from, (node, to), len, wide),
            Op::GetXattr(..) | Op::ListXattr(_) | Op::SetXattr { .. } | Op::RemoveXattr(_) => self.xattr(request),
            Op::Ioctl(arguments, bytes) => self.ioctl(request, &arguments, bytes),
            _ => self.change_names(request),
        })
    }

    fn forget(&self, node: u64, pins: u64) {
        let ino = self.numbers.ino(node);
        let had = self.pins.take(ino, pins);
        if had > 0 {
            self.fs.forget(ino, had);
        }
    }

    fn opened(&self) {
        self.opens.set(self.opens.get() + 1);
        self.opened.notify_all();
    }

    fn closed(&self) {
        self.opens.set(self.opens.get().saturating_sub(1));
        self.opened.notify_all();
    }

    /// What a file is opened with. None: the kernel need not ask, and never does again.
    fn open_out(&self) -> Option<OpenOut> {
        greeting::open_flags(self.config.cache).map(|open_flags| OpenOut { open_flags, ..OpenOut::zero() })
    }
}

fn finish(unique: u64, answer: Result<Parts, Errno>) -> Parts {
    answer.unwrap_or_else(|errno| Slice::heap(reply::failed(unique, errno)).into())
}

fn done(unique: u64) -> Parts {
    Slice::heap(reply::done(unique)).into()
}

/// Whether an interrupted caller need not wait: the operation changes nothing and pins nothing.
fn can_be_given_up(number: u32) -> bool {
    matches!(
        number,
        opcode::READ
            | opcode::READDIR
            | opcode::GETATTR
            | opcode::STATX
            | opcode::STATFS
            | opcode::READLINK
            | opcode::GETXATTR
            | opcode::LISTXATTR
            | opcode::LSEEK
            | opcode::FSYNC
            | opcode::FSYNCDIR
    )
}
