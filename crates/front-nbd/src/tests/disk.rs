//! A disk in memory that takes time, counts what it does and fails where it is told to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{Bio, BioError, Device, Done, Extent, ExtentState, Limits, Op, Reply, Step};
use esker_rt::Rt;

/// Counters and settings, shared with requests under way.
#[derive(Default)]
pub(super) struct State {
    blocks: RefCell<BTreeMap<u64, Vec<u8>>>,
    pub under_way: Cell<u64>,
    pub under_way_max: Cell<u64>,
    pub completed: Cell<u64>,
    pub bytes_read: Cell<u64>,
    pub largest: Cell<u64>,
    pub flushes: Cell<u64>,
    pub forced: Cell<u64>,
    /// Requests that touch this byte fail as corrupt.
    pub corrupt_at: Cell<Option<u64>>,
}

pub(super) struct Disk {
    rt: Rt,
    limits: Limits,
    delay: Nanos,
    pub state: Rc<State>,
}

impl Disk {
    pub(super) fn new(rt: &Rt, limits: Limits, delay: Nanos) -> Disk {
        Disk { rt: rt.clone(), limits, delay, state: Rc::default() }
    }

    /// 8 MiB in blocks of 512 that answer at once.
    pub(super) fn fast(rt: &Rt) -> Disk {
        Disk::new(rt, Limits::plain(8 << 20, 512), Nanos::ZERO)
    }

    /// The same with 1 ms per request.
    pub(super) fn slow(rt: &Rt) -> Disk {
        Disk::new(rt, Limits::plain(8 << 20, 512), Nanos::millis(1))
    }
}

impl Device for Disk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let (state, block) = (self.state.clone(), u64::from(self.limits.block));
        assert!(bio.range.is_aligned(block) && bio.range.end() <= self.limits.size, "{bio:?}");
        assert!(bio.len() <= u64::from(self.limits.transfer_max) || bio.buf.is_empty(), "{bio:?}");
        state.under_way.set(state.under_way.get() + 1);
        state.under_way_max.set(state.under_way_max.get().max(state.under_way.get()));
        if self.delay == Nanos::ZERO {
            return Step::Now(state.finish(bio, block));
        }
        let wait = self.rt.sleep(self.delay);
        Step::later(async move {
            wait.await;
            state.finish(bio, block)
        })
    }
}

impl State {
    fn finish(&self, mut bio: Bio, block: u64) -> Done {
        self.under_way.set(self.under_way.get() - 1);
        self.completed.set(self.completed.get() + 1);
        self.largest.set(self.largest.get().max(bio.buf.len() as u64));
        self.forced.set(self.forced.get() + u64::from(bio.flags.fua));
        if let Some(at) = self.corrupt_at.get().filter(|at| (bio.range.start()..bio.range.end()).contains(at)) {
            return bio.fail(BioError::Corrupt(at));
        }
        let range = bio.range;
        match bio.op {
            Op::Read => self.read(&mut bio, block),
            Op::Write => self.write(&bio, block),
            Op::Zero | Op::Discard => {
                let blocks = range.start() / block..range.end() / block;
                self.blocks.borrow_mut().retain(|at, _| !blocks.contains(at));
            }
            Op::Flush => self.flushes.set(self.flushes.get() + 1),
            Op::Extents => return Done { result: Ok(self.extents(range, block)), buf: bio.buf },
            Op::Ranges(_) => return bio.fail(BioError::invalid("a front end asked to remap ranges")),
        }
        bio.ok()
    }

    fn read(&self, bio: &mut Bio, block: u64) {
        self.bytes_read.set(self.bytes_read.get() + bio.len());
        let (blocks, range) = (self.blocks.borrow(), bio.range);
        let zeroes = vec![0; block as usize];
        for at in range.start() / block..range.end() / block {
            let bytes = blocks.get(&at).unwrap_or(&zeroes);
            bio.buf.fill((at * block - range.start()) as usize, bytes);
        }
    }

    fn write(&self, bio: &Bio, block: u64) {
        let mut blocks = self.blocks.borrow_mut();
        let first = bio.range.start() / block;
        for (i, bytes) in bio.buf.to_vec().chunks(block as usize).enumerate() {
            blocks.insert(first + i as u64, bytes.to_vec());
        }
    }

    /// One extent per run of blocks that are there or not.
    fn extents(&self, range: ByteRange, block: u64) -> Reply {
        let blocks = self.blocks.borrow();
        let mut list: Vec<Extent> = Vec::new();
        for at in range.start() / block..range.end() / block {
            let state = if blocks.contains_key(&at) { ExtentState::Data } else { ExtentState::Hole };
            match list.last_mut().filter(|last| last.state == state) {
                Some(last) => last.len += block,
                None => list.push(Extent { len: block, state }),
            }
        }
        Reply::Extents(list.into())
    }
}
