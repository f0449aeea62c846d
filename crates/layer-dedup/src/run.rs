//! Requests: reads and extents through the map, changes in rounds.
//!
//! A round sorts blocks out under the turn (what is there already is mapped at once, what is not gets a data block),
//! writes data without the turn, and maps it under the turn again. A write of bytes that another write is just storing
//! waits for that write and then finds it. No write waits for another round while it keeps one waiting.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::buf::are_zeroes;
use esker_block::flight::WIDTH;
use esker_block::locks::{Mode, RangeLocks, Ticket};
use esker_block::{Bio, BioError, Buf, Ctx, Done, Extent, ExtentState, Flow, Op, OpKind, Reply, Stat, Step};
use esker_layer_kit::Io;
use esker_rt::Level;
use esker_rt::sync::{Notify, join_all};

use crate::journal::Fingerprint;
use crate::layout::MAP_PER_PAGE;
use crate::store::Store;

/// Bytes that a processor hashes in a nanosecond of simulated time: 4 KiB in 2 us, a little more than a measured write
/// took.
const HASHED_PER_NANOSECOND: u64 = 2;

/// A volume in use.
pub struct Dedup {
    store: Store,
    /// A reader of a volume block keeps others from changing it, or its data block could be taken for other bytes
    /// meanwhile.
    pub(crate) locks: Rc<RangeLocks>,
    /// What is being written to blocks that were given out.
    writing: RefCell<BTreeSet<Fingerprint>>,
    /// Something of `writing` has come to its end.
    written: Notify,
    counts: Counts,
}

/// What it did since it was opened.
#[derive(Default)]
struct Counts {
    hits: Cell<u64>,
    fresh: Cell<u64>,
    zeroes: Cell<u64>,
    mismatches: Cell<u64>,
    full: Cell<u64>,
}

fn more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// A block that is written.
struct Block {
    logical: u32,
    /// Where its bytes begin in the request's payload.
    at: usize,
    fingerprint: Fingerprint,
    is_zero: bool,
    trust: Trust,
}

/// What is known of data blocks with the same fingerprint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Nothing.
    Unknown,
    /// This one holds the same bytes.
    Same(u32),
    /// One holds others.
    Alone,
}

/// What came of sorting blocks out.
#[derive(Default)]
struct Round {
    /// They get these data blocks.
    fresh: Vec<(u32, Block)>,
    /// They are to be compared with these.
    doubtful: Vec<(u32, Block)>,
    /// They cannot go on before others do.
    later: Vec<Block>,
    /// Whether there is no data block for one of them, and none that others hold back.
    lacks_room: bool,
    /// Whether some are done.
    progressed: bool,
}

/// Bytes of a volume that lie one after the other below; none below if they are zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StoredExtent {
    /// First byte of the lower device.
    at: Option<u64>,
    /// Bytes.
    len: u64,
}

impl Dedup {
    /// Over tables in use.
    pub fn new(store: Store) -> Dedup {
        Dedup {
            store,
            locks: Rc::default(),
            writing: RefCell::default(),
            written: Notify::default(),
            counts: Counts::default(),
        }
    }

    fn block(&self) -> u64 {
        self.store.layout().block
    }

    fn blocks(&self, range: ByteRange) -> std::ops::Range<u32> {
        (range.start() / self.block()) as u32..(range.end() / self.block()) as u32
    }

    /// Where the bytes of a range lie, if all of them lie in one piece and the map is at hand.
    pub(crate) fn one_run(&self, range: ByteRange) -> Option<u64> {
        let (mut first, mut page) = (None, None);
        for (number, logical) in self.blocks(range).enumerate() {
            let needed = self.store.layout().map(logical).page;
            if page.replace(needed) != Some(needed) && !self.store.cache.has(needed) {
                return None;
            }
            let at = self.store.layout().block_at(self.store.block_at_hand(logical).ok()??);
            if at != *first.get_or_insert(at) + number as u64 * self.block() {
                return None;
            }
        }
        first
    }

    async fn runs(&self, io: &Io, range: ByteRange) -> Result<Vec<StoredExtent>, BioError> {
        let mut runs: Vec<StoredExtent> = Vec::new();
        for logical in self.blocks(range) {
            let at = self.store.block_of(io, logical).await?.map(|block| self.store.layout().block_at(block));
            match runs.last_mut() {
                Some(last) if last.at.map(|at| at + last.len) == at => last.len += self.block(),
                _ => runs.push(StoredExtent { at, len: self.block() }),
            }
        }
        Ok(runs)
    }

    /// Answers a read or query of what lies in one piece below by leading it there, and every other one later.
    pub(crate) fn lead(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let ticket = self.locks.enter([bio.range], Mode::Shared);
        if bio.op == Op::Read
            && self.locks.is_granted(ticket)
            && let Some(at) = self.one_run(bio.range)
        {
            bio.range = ByteRange::new(at, bio.len()).expect("inside the lower device");
            ctx.scratch = ticket;
            return Step::Now(Flow::Down);
        }
        let (dedup, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move { Flow::Done(dedup.serve_claimed(&io, bio, ticket).await) })
    }

    /// Answers a request about whole blocks of the volume.
    pub async fn serve(&self, io: &Io, bio: Bio) -> Done {
        match bio.op {
            Op::Read | Op::Extents => {
                let ticket = self.locks.enter([bio.range], Mode::Shared);
                self.serve_claimed(io, bio, ticket).await
            }
            Op::Write | Op::Zero | Op::Discard => self.change(io, bio).await,
            Op::Flush => match self.store.commit(io).await {
                Ok(()) => bio.ok(),
                Err(error) => bio.fail(error),
            },
            Op::Ranges(_) => bio.fail(BioError::Unsupported(OpKind::Clone)),
        }
    }

    /// The same for a read or a query that has its claim already.
    pub(crate) async fn serve_claimed(&self, io: &Io, bio: Bio, ticket: Ticket) -> Done {
        self.locks.granted(ticket).await;
        let done = match bio.op {
            Op::Read => self.read(io, bio).await,
            Op::Write | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => self.extents(io, bio).await,
        };
        self.locks.leave(ticket);
        done
    }

    async fn read(&self, io: &Io, mut bio: Bio) -> Done {
        let runs = match self.runs(io, bio.range).await {
            Ok(runs) => runs,
            Err(error) => return bio.fail(error),
        };
        if let [StoredExtent { at: Some(at), .. }] = runs[..] {
            bio.range = ByteRange::new(at, bio.len()).expect("inside the lower device");
            return io.submit(bio.to(io.lower(0))).await;
        }
        let part = |at| Bio::read(at, Buf::empty()).tagged(bio.tag).to(io.lower(0));
        let reads = runs.iter().filter_map(|run| run.at.map(|at| (at, run.len)));
        let reads = reads.map(|(at, len)| {
            let range = ByteRange::new(at, len).expect("inside the lower device");
            Bio { range, buf: Buf::unique(io.pool(), len as usize), ..part(at) }
        });
        let mut returned = io.all(reads.collect(), WIDTH).await.into_iter();
        let mut result = Ok(Reply::Empty);
        let mut bufs = Vec::with_capacity(runs.len());
        for run in &runs {
            bufs.push(match run.at {
                None => Buf::zeroed(io.pool(), run.len as usize),
                Some(_) => {
                    let part = returned.next().expect("one answer for each read");
                    result = result.and(part.result);
                    part.bio.buf
                }
            });
        }
        Done { result, buf: Buf::chain(bufs) }
    }

    /// Tells which blocks have data, as far as one page of the map does.
    async fn extents(&self, io: &Io, bio: Bio) -> Done {
        let blocks = self.blocks(bio.range);
        let end = (u64::from(blocks.start) / MAP_PER_PAGE + 1) * MAP_PER_PAGE * self.block();
        let part = ByteRange::new(bio.offset(), bio.range.end().min(end) - bio.offset()).expect("a part of a range");
        match self.runs(io, part).await {
            Ok(runs) => Done { result: Ok(Reply::Extents(extents(&runs))), buf: bio.buf },
            Err(error) => bio.fail(error),
        }
    }

    async fn change(&self, io: &Io, mut bio: Bio) -> Done {
        let ticket = self.locks.enter([bio.range], Mode::Exclusive);
        self.locks.granted(ticket).await;
        let mut result = match bio.op {
            Op::Write => self.write(io, &mut bio).await,
            Op::Read | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {
                self.unmap(io, bio.range).await
            }
        };
        if result.is_ok() && (bio.flags.fua || self.store.is_due()) {
            result = self.store.commit(io).await;
        }
        self.locks.leave(ticket);
        Done { result: result.map(|()| Reply::Empty), buf: bio.buf }
    }

    async fn unmap(&self, io: &Io, range: ByteRange) -> Result<(), BioError> {
        for part in range.split_at_multiples(MAP_PER_PAGE * self.block()) {
            let changes = async {
                self.store.latch.check()?;
                for logical in self.blocks(part) {
                    self.store.change(io, logical, None).await?;
                }
                Ok(())
            };
            self.store.turn.alone(changes).await?;
        }
        Ok(())
    }

    async fn write(&self, io: &Io, bio: &mut Bio) -> Result<(), BioError> {
        self.store.latch.check()?;
        let mut left = self.hash(io, bio);
        self.fetch(io, &left).await;
        while !left.is_empty() {
            let mut round = Round::default();
            let sorted = self.sort_out(io, left, &mut round).await;
            let is_stuck = !round.progressed && round.fresh.is_empty() && round.doubtful.is_empty();
            let lacks_room = round.lacks_room;
            let result = match sorted {
                Ok(()) => self.write_fresh(io, bio, &round.fresh).await,
                error => error,
            };
            self.end(&round.fresh);
            result?;
            let compared = self.compare(io, bio, round.doubtful).await?;
            left = round.later;
            left.extend(compared);
            if is_stuck {
                self.wait(io, &left, lacks_room).await?;
            }
        }
        Ok(())
    }

    /// Loads pages that the blocks will need, many at once: under the turn they would be read one by one.
    async fn fetch(&self, io: &Io, blocks: &[Block]) {
        let layout = self.store.layout();
        let pages = blocks.iter().flat_map(|one| [layout.map(one.logical).page, layout.bucket(&one.fingerprint).page]);
        let missing: BTreeSet<u32> = pages.filter(|page| !self.store.cache.has(*page)).collect();
        let loads =
            missing.into_iter().take(self.store.config.pages_max / 4).map(|page| self.store.cache.load(io, page));
        // What fails is tried again when it is needed, and told then.
        let _tried_again = join_all(loads.collect::<Vec<_>>()).await;
    }

    fn hash(&self, io: &Io, bio: &mut Bio) -> Vec<Block> {
        let block = self.block() as usize;
        io.rt().charge(Nanos(bio.len() / HASHED_PER_NANOSECOND));
        let first = self.blocks(bio.range).start;
        let hashed = (first..).zip((0..bio.buf.len()).step_by(block)).map(|(logical, at)| {
            let (mut hasher, mut is_zero) = (blake3::Hasher::new(), true);
            bio.buf.slice(at, block).for_each_piece(&mut |piece| {
                is_zero = is_zero && are_zeroes(piece);
                hasher.update(piece);
            });
            Block { logical, at, fingerprint: hasher.finalize().into(), is_zero, trust: Trust::Unknown }
        });
        hashed.collect()
    }

    /// Maps blocks whose bytes are there, and takes data blocks for the others.
    async fn sort_out(&self, io: &Io, blocks: Vec<Block>, round: &mut Round) -> Result<(), BioError> {
        let sorting = async {
            for block in blocks {
                self.sort_out_one(io, block, round).await?;
            }
            Ok(())
        };
        self.store.turn.alone(sorting).await
    }

    async fn sort_out_one(&self, io: &Io, block: Block, round: &mut Round) -> Result<(), BioError> {
        if block.is_zero {
            round.progressed = true;
            more(&self.counts.zeroes);
            return self.store.change(io, block.logical, None).await;
        }
        if self.writing.borrow().contains(&block.fingerprint) {
            round.later.push(block);
            return Ok(());
        }
        let found = match block.trust {
            Trust::Alone => None,
            Trust::Unknown | Trust::Same(_) => self.store.find(io, &block.fingerprint).await?,
        };
        match found {
            Some(there) if !self.store.config.verify || block.trust == Trust::Same(there) => {
                round.progressed = true;
                more(&self.counts.hits);
                self.store.change(io, block.logical, Some((there, block.fingerprint))).await
            }
            Some(there) => {
                round.doubtful.push((there, block));
                Ok(())
            }
            None => self.give_out(io, block, round).await,
        }
    }

    /// Takes a free data block for bytes that are not there.
    async fn give_out(&self, io: &Io, block: Block, round: &mut Round) -> Result<(), BioError> {
        match self.store.allocate(io).await? {
            Some(free) => {
                self.writing.borrow_mut().insert(block.fingerprint);
                round.fresh.push((free, block));
            }
            None => {
                // What others hold back now may be free when this round is over.
                let space = self.store.space.borrow();
                round.lacks_room = !space.has_resting() && !space.has_reserved();
                round.later.push(block);
            }
        }
        Ok(())
    }

    /// Writes data to blocks that were given out, and maps it.
    async fn write_fresh(&self, io: &Io, bio: &mut Bio, fresh: &[(u32, Block)]) -> Result<(), BioError> {
        let block = self.block() as usize;
        let writes = fresh.chunk_by(|(a, _), (b, _)| a + 1 == *b).map(|run| {
            let data = run.iter().map(|(_, one)| bio.buf.slice(one.at, block)).collect();
            Bio::write(self.store.layout().block_at(run[0].0), Buf::chain(data)).tagged(bio.tag).to(io.lower(0))
        });
        let returned = io.all(writes.collect(), WIDTH).await;
        returned.into_iter().try_for_each(|returned| returned.result.map(drop))?;
        let changes = async {
            for (there, one) in fresh {
                let changed = self.store.change(io, one.logical, Some((*there, one.fingerprint))).await;
                more(&self.counts.fresh);
                changed?;
            }
            Ok(())
        };
        self.store.turn.alone(changes).await
    }

    /// Blocks that were given out are mapped, or free again.
    fn end(&self, fresh: &[(u32, Block)]) {
        for (there, one) in fresh {
            self.store.space.borrow_mut().release_reservation(*there);
            self.writing.borrow_mut().remove(&one.fingerprint);
        }
        if !fresh.is_empty() {
            // A waiter that cannot go on must not wake other waiters.
            self.written.notify_all();
        }
    }

    /// Reads the data blocks with equal fingerprints, and notes what that tells.
    async fn compare(&self, io: &Io, bio: &mut Bio, doubtful: Vec<(u32, Block)>) -> Result<Vec<Block>, BioError> {
        let block = self.block() as usize;
        let reads = doubtful.iter().map(|(there, _)| {
            let at = self.store.layout().block_at(*there);
            Bio::read(at, Buf::unique(io.pool(), block)).tagged(bio.tag).to(io.lower(0))
        });
        let returned = io.all(reads.collect(), WIDTH).await;
        let mut compared = Vec::with_capacity(returned.len());
        for ((there, mut one), read) in doubtful.into_iter().zip(returned) {
            let is_same = read.result.is_ok() && read.bio.buf.same_bytes(&bio.buf.slice(one.at, block));
            // Meanwhile it may have been given up and taken for other bytes: then it is looked for again.
            let is_still = self.store.entry(io, there).await?.fingerprint == one.fingerprint;
            one.trust = match (is_same, is_still) {
                (true, _) => Trust::Same(there),
                (false, true) => Trust::Alone,
                (false, false) => Trust::Unknown,
            };
            if one.trust == Trust::Alone {
                self.tell_mismatch(io, there, read.result);
            }
            compared.push(one);
        }
        Ok(compared)
    }

    /// The bytes get a block of their own: what is there cannot be relied on.
    fn tell_mismatch(&self, io: &Io, there: u32, read: Result<Reply, BioError>) {
        more(&self.counts.mismatches);
        let why = read.map_or_else(|error| error.to_string(), |_| "its bytes are not those of its fingerprint".into());
        let name = &self.store.config.name;
        io.rt().log(Level::Warn, format_args!("{name}: data block {there} is not used for equal bytes: {why}"));
    }

    /// Waits for what keeps all of `left` from going on. Without room, no other request can make some.
    async fn wait(&self, io: &Io, left: &[Block], lacks_room: bool) -> Result<(), BioError> {
        if lacks_room {
            more(&self.counts.full);
            return Err(BioError::NoSpace(self.store.config.name.as_str().into()));
        }
        let is_written = left.iter().any(|one| self.writing.borrow().contains(&one.fingerprint));
        let (has_resting, has_reserved) = {
            let space = self.store.space.borrow();
            (space.has_resting(), space.has_reserved())
        };
        match (is_written, has_resting, has_reserved) {
            // Free blocks rest until the records that freed them are durable.
            (false, true, _) => self.store.commit(io).await?,
            (true, ..) | (false, false, true) => self.written.wait().await,
            // It has ended meanwhile.
            (false, false, false) => {}
        }
        Ok(())
    }

    /// The tables.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What it tells about itself.
    pub fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: f64| Stat { name, value };
        let count = |name, count: &Cell<u64>| stat(name, count.get() as f64);
        let (mapped, used) = (self.store.mapped() as f64, f64::from(self.store.used()));
        let cache = self.store.cache.counts();
        vec![
            stat("logical_blocks", mapped),
            stat("physical_blocks", used),
            stat("ratio", if used > 0.0 { mapped / used } else { 1.0 }),
            stat("free_blocks", f64::from(self.store.layout().physical) - used),
            count("hits", &self.counts.hits),
            count("fresh", &self.counts.fresh),
            count("zero_blocks", &self.counts.zeroes),
            count("mismatches", &self.counts.mismatches),
            count("full", &self.counts.full),
            stat("table_reads", cache.reads as f64),
            stat("index_reads", cache.index_reads as f64),
            stat("index_buckets_lost", cache.lost_buckets as f64),
            stat("cached_pages", cache.pages as f64),
            stat("changed_pages", cache.dirty as f64),
            count("commits", &self.store.done.commits),
            count("checkpoints", &self.store.done.checkpoints),
            count("replayed_records", &self.store.done.replayed),
            stat("latched", f64::from(u8::from(self.store.latch.is_set()))),
        ]
    }
}

fn extents(runs: &[StoredExtent]) -> Box<[Extent]> {
    let mut extents: Vec<Extent> = Vec::new();
    for run in runs {
        let state = if run.at.is_some() { ExtentState::Data } else { ExtentState::Hole };
        match extents.last_mut() {
            Some(last) if last.state == state => last.len += run.len,
            _ => extents.push(Extent { len: run.len, state }),
        }
    }
    extents.into()
}
