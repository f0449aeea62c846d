//! What files and block devices have in common: requests through the reactor, and the latch.
//!
//! A failed write or flush leaves open what the medium holds: the kernel may have dropped dirty pages, so that a second
//! flush succeeds without the data. Hence the device latches: later changes and flushes answer
//! [`BioError::Latched`] with the first failure; reads go on.
//!
//! A write that finds no space is an answer and latches nothing: the kernel has taken none of the bytes that it
//! refused, and what it took before stays under the write that failed. A flush that finds no space latches, because it
//! lost bytes that were answered.

mod transfer;

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use esker_base::ByteRange;
use esker_block::step::Entries;
use esker_block::{
    Bio, BioError, Device, Done, Extent, ExtentState, Latch, Limits, Make, Op, OpKind, Origin, Reply, Stat, StatInfo,
    Step, Support, Trouble,
};
use esker_rt::mem::Pool;
use esker_rt::real::{FallocateMode, File};
use esker_rt::{Level, Rt};

use crate::found;
use transfer::{Direction, Flight};

/// Of files and block devices.
pub(crate) const STATS: &[StatInfo] =
    &[StatInfo::LATCHED, StatInfo::of("no_space", "Writes and zeroes that found no space or no quota.")];

/// Extents in one answer; the caller asks on.
const EXTENTS_MAX: usize = 1024;

/// How an open file becomes a device.
pub(crate) struct Opened {
    pub name: String,
    pub file: File,
    /// The file below a loop device: open as long as the device, because its locks are.
    #[expect(dead_code, reason = "it is held, not used")]
    pub beneath: Option<File>,
    pub limits: Limits,
    pub depth: u32,
    /// Whether holes can be asked for; a block device is all data.
    pub holes: bool,
    /// Whether one call of the kernel writes and makes durable. That of a file does not tell which of both failed.
    pub forces: bool,
    /// Whether its size may be set.
    pub resizable: bool,
    /// Whether its space stays reserved: nothing is unmapped.
    pub allocated: bool,
}

/// A file or block device.
pub(crate) struct Disk {
    pub(crate) shared: Rc<Shared>,
    origin: Came,
}

/// Where the medium of a disk comes from.
pub(crate) struct Came {
    pub path: PathBuf,
    /// Whether it was made a moment ago, and whether the text asks for that whatever lies beside it.
    pub made: bool,
    pub always: bool,
}

impl Came {
    /// The medium that the argument `path` names was there.
    pub(crate) fn found(make: &Make<'_>) -> Came {
        Came { path: PathBuf::from(make.args.text("path")), made: false, always: false }
    }
}

impl Origin for Came {
    fn is_made(&self) -> bool {
        self.made && !self.always
    }

    fn holds_data(&self) -> bool {
        !self.made && !found::is_blank(&self.path).unwrap_or(false)
    }
}

pub(crate) struct Shared {
    rt: Rt,
    pool: Pool,
    opened: Opened,
    /// Bytes now.
    size: Cell<u64>,
    latch: Latch,
    /// Changes that found no space.
    no_space: Cell<u64>,
    /// Whether the last change found none.
    is_full: Cell<bool>,
    /// Reads and writes in flight.
    flights: Entries<Flight>,
    /// For what goes on after a short transfer.
    me: Weak<Shared>,
}

/// Limits of a file or block device. A read-only one supports no change.
pub(crate) fn limits(size: u64, block: u32, read_only: bool) -> Limits {
    let plain = Limits::plain(size, block);
    let limits = Limits { volatile_cache: true, discard: plain.preferred, ..plain };
    let changes = [OpKind::Write, OpKind::Zero, OpKind::Discard].into_iter().filter(|_| read_only);
    changes.fold(limits, |limits, kind| limits.with(kind, Support::No))
}

impl Disk {
    pub(crate) fn new(rt: &Rt, pool: &Pool, opened: Opened, origin: Came) -> Disk {
        let (size, latch) = (Cell::new(opened.limits.size), Latch::new(&opened.name));
        let shared = Rc::new_cyclic(|me| Shared {
            rt: rt.clone(),
            pool: pool.clone(),
            opened,
            size,
            latch,
            no_space: Cell::new(0),
            is_full: Cell::new(false),
            flights: Entries::default(),
            me: me.clone(),
        });
        Disk { shared, origin }
    }
}

impl Device for Disk {
    fn limits(&self) -> &Limits {
        &self.shared.opened.limits
    }

    fn size(&self) -> u64 {
        self.shared.size.get()
    }

    fn can_resize(&self) -> bool {
        self.shared.opened.resizable
    }

    fn resize(&self, bytes: u64) -> Step<Result<(), BioError>> {
        let shared = self.shared.clone();
        Step::later(async move { shared.resize(bytes).await })
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let changes = bio.changes_data() || bio.op == Op::Flush;
        if let Some(error) = changes.then(|| self.shared.refusal(&bio)).flatten() {
            return Step::Now(bio.fail(error));
        }
        let shared = self.shared.clone();
        match bio.op {
            Op::Read => shared.start(Direction::Read, bio),
            Op::Write if bio.flags.fua && self.shared.opened.forces => shared.start(Direction::ForcedWrite, bio),
            Op::Write if bio.flags.fua => Step::later(async move { shared.write_forced(bio).await }),
            Op::Write => shared.start(Direction::Write, bio),
            Op::Extents => Step::Now(shared.extents(bio)),
            Op::Ranges(_) => Step::Now(bio.fail(BioError::Unsupported(OpKind::Clone))),
            Op::Flush | Op::Zero | Op::Discard => Step::later(async move {
                let result = shared.without_payload(&bio).await;
                let answer = shared.judge(result, bio.op == Op::Zero);
                Done { result: answer, buf: bio.buf }
            }),
        }
    }

    fn depth(&self) -> u32 {
        self.shared.opened.depth
    }

    fn stats(&self) -> Vec<Stat> {
        vec![
            Stat { name: "latched", value: f64::from(u8::from(self.shared.latch.is_set())) },
            Stat { name: "no_space", value: self.shared.no_space.get() as f64 },
        ]
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(&self.origin)
    }

    fn trouble(&self) -> Option<Trouble> {
        self.shared.latch.trouble()
    }
}

/// An operation of the kernel that failed.
struct Failure {
    what: String,
    error: io::Error,
    /// Whether a flush failed, with which bytes may be lost that were answered.
    is_flush: bool,
}

impl Failure {
    fn at(verb: &str, range: ByteRange, error: io::Error) -> Failure {
        Failure { what: format!("{verb} of {} bytes at {}", range.len(), range.start()), error, is_flush: false }
    }

    fn is_no_space(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

impl Shared {
    /// Why the device takes no change now.
    fn refusal(&self, bio: &Bio) -> Option<BioError> {
        let read_only = || self.opened.limits.support(OpKind::Write) == Support::No && bio.changes_data();
        let refusal = self.latch.check().err();
        refusal.or_else(|| read_only().then(|| BioError::ReadOnly(self.opened.name.as_str().into())))
    }

    fn describe(&self, failure: &Failure) -> BioError {
        let (name, Failure { what, error, .. }) = (&self.opened.name, failure);
        match failure.is_no_space() {
            true => BioError::NoSpace(format!("the file system of {name} ({what}: {error})").into()),
            false => BioError::io(format!("{name}: {what}: {error}")),
        }
    }

    /// The answer to a change or flush; `needs_space` tells whether success shows that there is space.
    fn judge(&self, result: Result<(), Failure>, needs_space: bool) -> Result<Reply, BioError> {
        match result {
            Ok(()) => {
                if needs_space && self.is_full.replace(false) {
                    let name = &self.opened.name;
                    self.rt.log_event(Level::Info, "space", &[], format_args!("{name}: a write found space again"));
                }
                Ok(Reply::Empty)
            }
            Err(failure) if failure.is_no_space() && !failure.is_flush => Err(self.count_no_space(&failure)),
            Err(failure) => Err(self.latch(failure)),
        }
    }

    fn count_no_space(&self, failure: &Failure) -> BioError {
        self.no_space.set(self.no_space.get() + 1);
        let error = self.describe(failure);
        if !self.is_full.replace(true) {
            let advice = "Writes that need space fail until there is some; nothing else changes.";
            self.rt.log_event(Level::Warn, "no_space", &[], format_args!("{error}. {advice}"));
        }
        error
    }

    /// The answer to a failed change, after which there are no more.
    fn latch(&self, failure: Failure) -> BioError {
        let cause = format_args!("a {} failed: {}", failure.what, failure.error);
        self.latch.set(&self.rt, cause, "Reads go on. Repair the medium, then restart.");
        self.describe(&failure)
    }

    /// A write that is synced before it is answered.
    async fn write_forced(&self, bio: Bio) -> Done {
        let Bio { buf, range, .. } = bio;
        let (buf, result) = self.transfer(Direction::Write, range, buf.into_parts(), 0).await;
        let result = match result {
            Ok(()) => self.sync().await,
            Err(e) => Err(Failure::at("write", range, e)),
        };
        Done { result: self.judge(result, true), buf }
    }

    async fn without_payload(&self, bio: &Bio) -> Result<(), Failure> {
        match bio.op {
            Op::Zero => self.zero(bio.range, bio.flags.no_unmap).await?,
            Op::Discard => return self.discard(bio.range).await,
            Op::Read | Op::Write | Op::Flush | Op::Ranges(_) | Op::Extents => return self.sync().await,
        }
        if bio.flags.fua { self.sync().await } else { Ok(()) }
    }

    /// Sets the size, which blocks as long as the file system needs to free what is cut off, and makes it last.
    async fn resize(&self, bytes: u64) -> Result<(), BioError> {
        let name = &self.opened.name;
        if !self.opened.resizable {
            return Err(BioError::invalid(format!("{name} keeps the size that the stack text gives it")));
        }
        self.latch.check()?;
        let failure =
            |error| Failure { what: format!("a change of its size to {bytes} bytes"), error, is_flush: false };
        self.opened.file.set_size(bytes).map_err(|error| self.describe(&failure(error)))?;
        self.size.set(bytes);
        self.sync().await.map_err(|e| self.latch(e))
    }

    async fn sync(&self) -> Result<(), Failure> {
        let outcome = self.opened.file.sync().await.and_then(|o| o.result);
        outcome.map(drop).map_err(|error| Failure { what: "flush".into(), error, is_flush: true })
    }

    async fn discard(&self, range: ByteRange) -> Result<(), Failure> {
        if self.opened.allocated {
            return Ok(());
        }
        match self.fallocate(FallocateMode::PunchHole, range).await {
            // A hint: what cannot be discarded stays.
            Err(e) if is_unsupported(&e) => Ok(()),
            other => other.map_err(|e| Failure::at("discard", range, e)),
        }
    }

    async fn zero(&self, range: ByteRange, no_unmap: bool) -> Result<(), Failure> {
        let mode = if no_unmap || self.opened.allocated { FallocateMode::ZeroRange } else { FallocateMode::PunchHole };
        let result = match self.fallocate(mode, range).await {
            Err(e) if is_unsupported(&e) => self.write_zeroes(range).await,
            other => other,
        };
        result.map_err(|e| Failure::at("zero", range, e))
    }

    async fn fallocate(&self, mode: FallocateMode, range: ByteRange) -> io::Result<()> {
        self.opened.file.fallocate(mode, range.start(), range.len()).await?.result.map(drop)
    }

    fn extents(&self, bio: Bio) -> Done {
        let result = match self.opened.holes {
            true => self.look_for_holes(bio.range),
            false => Ok(vec![Extent { len: bio.len(), state: ExtentState::Data }]),
        };
        let result = result.map_err(|e| self.describe(&Failure::at("extent query", bio.range, e)));
        Done { result: result.map(|extents| Reply::Extents(extents.into())), buf: bio.buf }
    }

    /// Data is rounded out to whole blocks.
    fn look_for_holes(&self, range: ByteRange) -> io::Result<Vec<Extent>> {
        let block = u64::from(self.opened.limits.block);
        let mut out: Vec<Extent> = Vec::new();
        let mut at = range.start();
        while at < range.end() && out.len() < EXTENTS_MAX {
            let (start, end) = match self.opened.file.data_after(at) {
                Ok(Some((start, end))) => (start - start % block, end.next_multiple_of(block)),
                Ok(None) => (range.end(), range.end()),
                // A file system that keeps no account of holes.
                Err(e) if is_unsupported(&e) => (at, range.end()),
                Err(e) => return Err(e),
            };
            let (start, end) = (start.clamp(at, range.end()), end.min(range.end()));
            push(&mut out, start - at, ExtentState::Hole);
            push(&mut out, end.saturating_sub(start), ExtentState::Data);
            at = end.max(start);
        }
        Ok(out)
    }
}

fn push(extents: &mut Vec<Extent>, len: u64, state: ExtentState) {
    match extents.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.state == state => last.len += len,
        _ => extents.push(Extent { len, state }),
    }
}

/// Whether the kernel says that the file system or device cannot do this at all.
fn is_unsupported(error: &io::Error) -> bool {
    // EINVAL is what SEEK_DATA answers where it is not known.
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}
