//! `Whole`: a file system that writes its whole tree as one image, at each sync and after so many changes.
//!
//! It is small, real and slow: what the harness is tried on before it judges others. Its mutants ([`Flaw`])
//! are what the harness must find. All state lives in a [`Ram`]. The medium, with integers in little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 8191 | two slots of a superblock (`framing`): bytes of one area, and of the sealed image |
//! | from 8192 on | two areas: the image of generation g is a sealed page at the beginning of area g % 2 |
//!
//! Invariant: an image is durable before a superblock names it, and a superblock is durable before the next image is
//! begun. So the newest sound superblock names a whole image at any instant. An opening begins with a flush, because
//! the process before it may have been killed between a write and its flush.

mod flaw;
mod format;
mod system;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Errno;
use esker_block::{BioError, Buf, Class, Device, Latch, Step, Tag};
use esker_framing::{PAGE_HEADER, SuperblockError};
use esker_layer_kit::{GroupCommit, Io};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_vfs::{About, Answer, Call, FileSystem, Hint, Ino, Promise, Ram, RamConfig, Stamp};

pub use flaw::Flaw;
pub use format::Head;
use format::{AREAS, SECTOR};

const ADVICE: &str = "Check the device, and open it again.";

/// How a [`Whole`] behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WholeConfig {
    /// It writes an image after so many changes that no sync asked for.
    pub changes_max: u64,
    /// What it does wrong, in tests of the harness.
    pub flaw: Option<Flaw>,
}

/// Why a device does not open as a [`Whole`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WholeError {
    /// Its blocks are larger than the units in which an image is written.
    #[error(
        "the device has blocks of {0} bytes; take one with blocks of {SECTOR} bytes at most, as `emulate` makes them"
    )]
    Block(u32),
    /// It has no room for a tree.
    #[error("a device of {0} bytes is too small for a tree; take one of {min} bytes at least", min = Whole::SIZE_MIN)]
    Small(u64),
    /// Its superblocks.
    #[error("the device {0}")]
    Superblock(#[from] SuperblockError),
    /// It was made on a device of another size.
    #[error(
        "the superblock speaks of areas of {0} bytes, which this device does not have; take the device that it was made on"
    )]
    Area(u64),
    /// The image is not the one that the superblock names.
    #[error("the image of generation {0} is damaged: {1}")]
    Image(u64, String),
    /// A request.
    #[error("the device fails: {0}")]
    Device(#[from] BioError),
}

/// The file system. A value is a handle.
#[derive(Clone)]
pub struct Whole(Rc<Inner>);

struct Inner {
    about: About,
    ram: Ram,
    io: Io,
    latch: Latch,
    commit: GroupCommit,
    config: WholeConfig,
    id: u128,
    area: u64,
    /// Bytes of the largest request.
    step: usize,
    generation: Cell<u64>,
    memory: RefCell<Memory>,
}

/// What only flawed ones remember.
#[derive(Default)]
struct Memory {
    /// The state before the last change, if that was a write.
    before_write: Option<Ram>,
    /// Inodes that were pinned when they lost their last name.
    orphans: Vec<Ino>,
    /// What lay behind the end of files before they were cut.
    tails: BTreeMap<Ino, (u64, Vec<u8>)>,
}

impl Whole {
    /// Bytes of the smallest device.
    pub const SIZE_MIN: u64 = 64 << 10;

    /// The limits of the tree on a device of so many bytes.
    pub fn limits(size: u64) -> RamConfig {
        let area = area_of(size);
        // Four inodes for each page, and what an image has of both at most.
        let of_page = RamConfig { inodes: 4, ..RamConfig::sized(4096) }.image_bytes_max();
        let pages = area.saturating_sub(SECTOR + PAGE_HEADER as u64) / of_page;
        RamConfig { inodes: 4 * pages, size_max: 1 << 40, ..RamConfig::sized(pages * 4096) }
    }

    /// Makes an empty one on a device.
    ///
    /// # Errors
    /// [`WholeError`].
    pub async fn make(rt: &Rt, device: Rc<dyn Device>) -> Result<(), WholeError> {
        let config = WholeConfig { changes_max: u64::MAX, flaw: None };
        let size = size_of(&*device)?;
        let id = rt.unique();
        let whole = Whole::of(rt, device, config, Ram::new(Whole::limits(size), Pool::default()), id, 0);
        // What a former tree left in the other slot must not count.
        let blank = Buf::zeroed(whole.0.io.pool(), AREAS as usize);
        whole.0.io.write(whole.0.io.lower(0), 0, blank, false).await?;
        whole.0.io.flush(whole.0.io.lower(0)).await?;
        Ok(whole.write_image(&whole.0.ram.to_image()).await?)
    }

    /// Opens the newest image of a device.
    ///
    /// # Errors
    /// [`WholeError`].
    pub async fn open(rt: &Rt, device: Rc<dyn Device>, config: WholeConfig) -> Result<Whole, WholeError> {
        let size = size_of(&*device)?;
        let io = Io::over(rt, &Pool::default(), vec![device.clone()]);
        if config.flaw != Some(Flaw::NoFlushWhenOpened) {
            io.flush(io.lower(0)).await?;
        }
        let start = io.read(io.lower(0), 0, AREAS as usize).await?.to_vec();
        let head = Head::counting(&start, config.flaw)?;
        if head.area != area_of(size) || !(PAGE_HEADER as u64..=head.area).contains(&head.length) {
            return Err(WholeError::Area(head.area));
        }
        let sealed = io.read(io.lower(0), head.place(), head.length as usize).await?.to_vec();
        let payload = head.payload(&sealed, config.flaw)?;
        let ram = Ram::from_image(Whole::limits(size), Pool::default(), payload)
            .map_err(|error| WholeError::Image(head.header.generation, error.to_string()))?;
        Ok(Whole::of(rt, device, config, ram, head.header.id, head.header.generation))
    }

    fn of(rt: &Rt, device: Rc<dyn Device>, config: WholeConfig, ram: Ram, id: u128, generation: u64) -> Whole {
        let about = About { kind: "whole", id, promise: Promise::Prefix, ..ram.about().clone() };
        let (area, step) = (area_of(device.size()), device.limits().transfer_max as usize);
        Whole(Rc::new(Inner {
            about,
            ram,
            io: Io::over(rt, &Pool::default(), vec![device]),
            latch: Latch::new("whole"),
            commit: GroupCommit::new(0),
            config,
            id,
            area,
            step,
            generation: Cell::new(generation),
            memory: RefCell::default(),
        }))
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.0.config.flaw == Some(flaw)
    }

    /// Makes all changes so far durable.
    async fn settle(&self) -> Result<(), Errno> {
        let Inner { commit, latch, .. } = &*self.0;
        let settled = commit.reach(commit.asked(), latch, async || self.write_changes().await).await;
        settled.map_err(|_| Errno::EIO)
    }

    /// Writes the state as it is. Answers the number of its last change.
    async fn write_changes(&self) -> Result<u64, BioError> {
        let (asked, image) = (self.0.commit.asked(), self.imaged().to_image());
        self.write_or_latch(&image).await.map(|()| asked)
    }

    async fn write_or_latch(&self, image: &[u8]) -> Result<(), BioError> {
        match self.write_image(image).await {
            Err(_) if self.has(Flaw::ErrorSwallowed) => Ok(()),
            Err(error) => {
                let Inner { latch, io, .. } = &*self.0;
                latch.set_after(io.rt(), "an image was not written", &error, ADVICE);
                Err(error)
            }
            written => written,
        }
    }

    /// Writes an image, and then the superblock that names it.
    async fn write_image(&self, image: &[u8]) -> Result<(), BioError> {
        let Inner { id, area, generation, .. } = &*self.0;
        let generation_next = generation.get() + 1;
        let length = (PAGE_HEADER as u64 + image.len() as u64).next_multiple_of(SECTOR);
        assert!(length <= *area, "an image of {length} bytes in an area of {area}: limits are those of the area");
        let head = Head::new(*id, generation_next, *area, length);
        if self.has(Flaw::HeadBeforeBody) {
            self.write_head(&head).await?;
            self.write_body(&head, image).await?;
        } else {
            self.write_body(&head, image).await?;
            self.write_head(&head).await?;
        }
        generation.set(generation_next);
        Ok(())
    }

    async fn write_body(&self, head: &Head, image: &[u8]) -> Result<(), BioError> {
        let (io, step) = (&self.0.io, self.0.step);
        let mut sealed = vec![0; head.length as usize];
        head.page(image).seal(&mut sealed);
        for (number, part) in sealed.chunks(step).enumerate() {
            let at = head.place() + (number * step) as u64;
            io.write(io.lower(0), at, Buf::from_bytes(io.pool(), part), false).await?;
        }
        if self.has(Flaw::NoFlushBeforeHead) { Ok(()) } else { io.flush(io.lower(0)).await }
    }

    async fn write_head(&self, head: &Head) -> Result<(), BioError> {
        let io = &self.0.io;
        let (at, bytes) = head.slot_bytes();
        io.write(io.lower(0), at, Buf::from_bytes(io.pool(), &bytes), false).await?;
        io.flush(io.lower(0)).await
    }

    /// Makes a change of the tree. Errors of the tree change nothing.
    fn change<T: Unpin + 'static>(&self, change: impl FnOnce(&Ram) -> Answer<T>) -> Answer<T> {
        if self.0.latch.is_set() {
            return Step::Now(Err(Errno::EROFS));
        }
        let answer = now(change(&self.0.ram));
        if answer.is_err() {
            return Step::Now(answer);
        }
        self.0.commit.ask();
        let commit = &self.0.commit;
        if commit.asked() - commit.durable() < self.0.config.changes_max {
            return Step::Now(answer);
        }
        let whole = self.clone();
        Step::later(async move {
            // The change is done. Whether it became durable is told to all that follow.
            let _told_by_the_latch = whole.settle().await;
            answer
        })
    }
}

/// The size of a device that has room for a tree.
fn size_of(device: &dyn Device) -> Result<u64, WholeError> {
    let (size, block) = (device.size(), device.limits().block);
    match () {
        () if u64::from(block) > SECTOR => Err(WholeError::Block(block)),
        () if size < Whole::SIZE_MIN => Err(WholeError::Small(size)),
        () => Ok(size),
    }
}

/// Bytes of an area of a device.
fn area_of(size: u64) -> u64 {
    size.saturating_sub(AREAS) / 2 / SECTOR * SECTOR
}

/// The answer of the tree, which never waits.
fn now<T>(step: Step<T>) -> T {
    match step {
        Step::Now(value) => value,
        Step::After(..) | Step::Ticket(_) | Step::Later(_) => unreachable!("a tree in memory answers at once"),
    }
}

/// A call that no caller made.
fn own_call() -> Call {
    Call { now: Stamp(0), tag: Tag::of(Class::Background), hint: Hint::default() }
}
