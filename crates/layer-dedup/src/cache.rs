//! Pages of the tables in memory, a bounded number of them.
//!
//! Invariant: a page that was changed stays until it is written; a page is read from the lower device by one task at a
//! time, so that what is read late never replaces what was changed meanwhile. Nothing is borrowed across a wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use esker_block::flight::WIDTH;
use esker_block::{Bio, BioError, Buf, Class, Tag};
use esker_framing::cell::{CELL, CELLS, PAGE, is_sound, seal};
use esker_layer_kit::Io;
use esker_rt::sync::Notify;

use crate::layout::{Layout, Spot};

/// Requests for tables, journal and superblocks.
pub const METADATA: Tag = Tag::of(Class::Metadata);
/// Pages of one write, at most.
const RUN_MAX: usize = 64;
/// Pages that an operation may hold at once; a smaller cache could not serve one.
pub const PAGES_MIN: usize = 16;

/// The pages.
pub struct Cache {
    layout: Layout,
    set: u128,
    pages_max: usize,
    /// Pages of one write, at most, as requests below allow.
    run_max: usize,
    inner: RefCell<Inner>,
    arrived: Notify,
    /// Pages used since this stamp stay.
    held: Cell<u64>,
    /// Pages read, and those of them of the index.
    reads: Cell<u64>,
    index_reads: Cell<u64>,
    /// Cells of the index that were damaged, and are empty since.
    lost_buckets: Cell<u64>,
}

#[derive(Default)]
struct Inner {
    pages: BTreeMap<u32, Page>,
    /// Unchanged pages by their last use.
    clean: BTreeMap<u64, u32>,
    dirty: BTreeSet<u32>,
    loading: BTreeSet<u32>,
    clock: u64,
}

struct Page {
    bytes: Vec<u8>,
    /// Cells whose checksum is wrong, a bit each.
    damaged: u8,
    /// Cells that were changed, a bit each.
    changed: u8,
    used: u64,
}

/// What it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Pages in memory.
    pub pages: usize,
    /// Those of them that were changed.
    pub dirty: usize,
    /// Pages read from the lower device.
    pub reads: u64,
    /// Those of them of the index.
    pub index_reads: u64,
    /// Damaged buckets of the index.
    pub lost_buckets: u64,
}

impl Cache {
    /// At most `pages_max` pages (and a few that one operation needs at once).
    pub fn new(layout: Layout, set: u128, pages_max: usize, transfer_max: u64) -> Cache {
        Cache {
            layout,
            set,
            pages_max: pages_max.max(PAGES_MIN),
            run_max: (transfer_max as usize / PAGE).clamp(1, RUN_MAX),
            inner: RefCell::default(),
            arrived: Notify::default(),
            held: Cell::new(u64::MAX),
            reads: Cell::default(),
            index_reads: Cell::default(),
            lost_buckets: Cell::default(),
        }
    }

    /// Whether so many pages wait to be written that it is time.
    pub fn is_full_of_changes(&self) -> bool {
        self.inner.borrow().dirty.len() >= self.pages_max / 2
    }

    /// Pages used from now on stay until [`Cache::release`].
    pub fn hold(&self) {
        self.held.set(self.inner.borrow().clock);
    }

    /// Pages may go again.
    pub fn release(&self) {
        self.held.set(u64::MAX);
        self.inner.borrow_mut().trim(self.pages_max, u64::MAX);
    }

    /// Whether a page is there. It counts as a use.
    pub fn has(&self, page: u32) -> bool {
        self.inner.borrow_mut().touch(page)
    }

    /// Makes sure that a page is there when this ends.
    ///
    /// # Errors
    /// What the lower device answers.
    pub async fn load(&self, io: &Io, page: u32) -> Result<(), BioError> {
        loop {
            if self.has(page) {
                return Ok(());
            }
            if self.inner.borrow_mut().loading.insert(page) {
                break;
            }
            self.arrived.wait().await;
        }
        let bio = Bio::read(self.layout.page_at(page), Buf::unique(io.pool(), PAGE)).tagged(METADATA).to(io.lower(0));
        let done = io.submit(bio).await;
        self.inner.borrow_mut().loading.remove(&page);
        self.arrived.notify_all();
        done.result?;
        self.insert(page, done.buf.to_vec());
        Ok(())
    }

    fn insert(&self, page: u32, mut bytes: Vec<u8>) {
        let is_index = self.layout.is_index(page);
        self.reads.set(self.reads.get() + 1);
        self.index_reads.set(self.index_reads.get() + u64::from(is_index));
        let mut damaged = 0u8;
        for (number, cell) in bytes.chunks_exact_mut(CELL).enumerate() {
            if is_sound(self.set, self.cell_at(page, number), cell) {
                continue;
            }
            match is_index {
                true => {
                    cell.fill(0);
                    self.lost_buckets.set(self.lost_buckets.get() + 1);
                }
                false => damaged |= 1 << number,
            }
        }
        let mut inner = self.inner.borrow_mut();
        let used = inner.tick();
        inner.clean.insert(used, page);
        inner.pages.insert(page, Page { bytes, damaged, changed: 0, used });
        inner.trim(self.pages_max, self.held.get());
    }

    fn cell_at(&self, page: u32, cell: usize) -> u64 {
        self.layout.page_at(page) + (cell * CELL) as u64
    }

    /// `N` bytes of a page that is there.
    ///
    /// # Errors
    /// Their cell is damaged.
    pub fn get<const N: usize>(&self, spot: Spot) -> Result<[u8; N], BioError> {
        let inner = self.inner.borrow();
        let page = inner.pages.get(&spot.page).expect("a page is loaded before it is looked at");
        if page.damaged >> spot.cell & 1 != 0 {
            let at = self.cell_at(spot.page, spot.cell);
            return Err(BioError::io(format!("the table at byte {at} of the lower device is damaged")));
        }
        let at = spot.cell * CELL + spot.at;
        Ok(page.bytes[at..at + N].try_into().expect("as many bytes"))
    }

    /// Changes bytes of a page that is there and not damaged in that place.
    pub fn put(&self, spot: Spot, bytes: &[u8]) {
        let mut inner = self.inner.borrow_mut();
        let page = inner.pages.get_mut(&spot.page).expect("a page is loaded before it is changed");
        assert!(page.damaged >> spot.cell & 1 == 0, "a damaged cell is never written over");
        let at = spot.cell * CELL + spot.at;
        page.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        page.changed |= 1 << spot.cell;
        let used = page.used;
        inner.clean.remove(&used);
        inner.dirty.insert(spot.page);
    }

    /// Writes all changed pages, in their order. Nothing may change them meanwhile.
    ///
    /// # Errors
    /// The first that the lower device answers; what was written may be lost until a flush.
    pub async fn write_back(&self, io: &Io) -> Result<(), BioError> {
        let dirty: Vec<u32> = self.inner.borrow().dirty.iter().copied().collect();
        let runs: Vec<&[u32]> = dirty.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(self.run_max)).collect();
        for group in runs.chunks(WIDTH) {
            let bios = group.iter().map(|run| self.write_of(io, run)).collect();
            let returned = io.all(bios, WIDTH).await;
            returned.into_iter().try_for_each(|returned| returned.result.map(drop))?;
            group.iter().for_each(|run| self.written(run));
        }
        Ok(())
    }

    fn write_of(&self, io: &Io, run: &[u32]) -> Bio {
        let mut inner = self.inner.borrow_mut();
        let mut bytes = Vec::with_capacity(run.len() * PAGE);
        for number in run {
            let page = inner.pages.get_mut(number).expect("a changed page stays");
            for cell in (0..CELLS).filter(|cell| page.changed >> cell & 1 != 0) {
                seal(self.set, self.cell_at(*number, cell), &mut page.bytes[cell * CELL..(cell + 1) * CELL]);
            }
            bytes.extend_from_slice(&page.bytes);
        }
        Bio::write(self.layout.page_at(run[0]), Buf::from_bytes(io.pool(), &bytes)).tagged(METADATA).to(io.lower(0))
    }

    fn written(&self, run: &[u32]) {
        let mut inner = self.inner.borrow_mut();
        for number in run {
            let used = inner.tick();
            let page = inner.pages.get_mut(number).expect("a changed page stays");
            page.changed = 0;
            page.used = used;
            inner.dirty.remove(number);
            inner.clean.insert(used, *number);
        }
        inner.trim(self.pages_max, self.held.get());
    }

    /// What it did.
    pub fn counts(&self) -> Counts {
        let inner = self.inner.borrow();
        Counts {
            pages: inner.pages.len(),
            dirty: inner.dirty.len(),
            reads: self.reads.get(),
            index_reads: self.index_reads.get(),
            lost_buckets: self.lost_buckets.get(),
        }
    }
}

impl Inner {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Notes a use; false if the page is not there.
    fn touch(&mut self, number: u32) -> bool {
        let used = self.tick();
        let Some(page) = self.pages.get_mut(&number) else { return false };
        let before = std::mem::replace(&mut page.used, used);
        if self.clean.remove(&before).is_some() {
            self.clean.insert(used, number);
        }
        true
    }

    /// Lets unchanged pages go, those first that were not used for longest, but none used since `held`.
    fn trim(&mut self, pages_max: usize, held: u64) {
        while self.pages.len() > pages_max {
            match self.clean.first_key_value() {
                Some((used, page)) if *used <= held => {
                    let (used, page) = (*used, *page);
                    self.clean.remove(&used);
                    self.pages.remove(&page);
                }
                _ => return,
            }
        }
    }
}
