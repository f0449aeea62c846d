//! Deduplication by hand: it keeps its table in two slots with digests, keeps reads and changes apart, and splits and
//! joins reads itself.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::digest::mix;
use esker_base::{ByteRange, span};
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, OpenContext,
    Reply, Stat, Step,
};
use esker_rt::mem::Pool;
use esker_rt::sync::{Notify, join_all};

use super::{AREA, Table, UNIT, blocks, fingerprint, full, limits, manifest, zeroes};

/// The manifest.
pub static KIND: Kind = manifest(Kind::layer("dedup-vanilla", "Deduplication by hand.", &[], build));

struct Dedup {
    state: Rc<State>,
}

struct State {
    size: u64,
    /// First byte of the area.
    area: u64,
    kept: OnceCell<Kept>,
    traffic: Traffic,
}

/// The table, and the number of the slot that holds it.
struct Kept {
    table: RefCell<Table>,
    sequence: Cell<u64>,
}

/// Requests under way, by the order in which they came.
#[derive(Default)]
struct Traffic {
    under_way: RefCell<BTreeMap<u64, (ByteRange, bool)>>,
    last: Cell<u64>,
    ended: Notify,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let limits = limits(make)?;
    let area = make.lowers[0].size - AREA;
    let state = State { size: limits.size, area, kept: OnceCell::new(), traffic: Traffic::default() };
    Ok(Layer::single(Dedup { state: Rc::new(state) }, limits))
}

impl Extension for Dedup {
    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let OpenContext { pool, below, .. } = opening;
        let state = self.state.clone();
        Step::later(async move {
            let kept = load(&below, &pool, state.size, state.area).await;
            let kept = kept.map_err(|error| KindError::Outside(error.to_string()))?;
            state.kept.get_or_init(|| kept);
            Ok(())
        })
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if let Op::Ranges(_) | Op::Extents = bio.op {
            return Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Extents))));
        }
        let (state, below, pool, bio) = (self.state.clone(), ctx.below(), ctx.pool.clone(), bio.take());
        let number = match bio.op {
            Op::Read => state.traffic.begin(bio.range, false),
            _ => state.traffic.begin(span(0, state.size), true),
        };
        Step::later(async move {
            state.traffic.turn(number).await;
            let done = match bio.op {
                Op::Read => state.read(&below, &pool, bio).await,
                _ => state.change(&below, &pool, bio).await,
            };
            state.traffic.end(number);
            Flow::Done(done)
        })
    }

    fn completes(&self) -> bool {
        false
    }

    fn stats(&self) -> Vec<Stat> {
        let used = self.state.kept.get().map_or(0, |kept| kept.table.borrow().used());
        vec![Stat { name: "data_blocks", value: used as f64 }]
    }
}

impl Traffic {
    fn begin(&self, range: ByteRange, changes: bool) -> u64 {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.under_way.borrow_mut().insert(number, (range, changes));
        number
    }

    /// Whether no earlier request is in the way.
    fn is_first(&self, number: u64) -> bool {
        let under_way = self.under_way.borrow();
        let (range, changes) = under_way[&number];
        let is_in_the_way =
            |(other, they_change): &(ByteRange, bool)| other.overlaps(range) && (changes || *they_change);
        !under_way.range(..number).any(|(_, other)| is_in_the_way(other))
    }

    async fn turn(&self, number: u64) {
        while !self.is_first(number) {
            self.ended.wait().await;
        }
    }

    fn end(&self, number: u64) {
        self.under_way.borrow_mut().remove(&number);
        self.ended.notify_all();
    }
}

/// Sequence, digest, table; whole units.
fn slot(sequence: u64, table: &[u8]) -> Vec<u8> {
    let mut page = [sequence.to_le_bytes(), digest(sequence, table).to_le_bytes()].concat();
    page.extend_from_slice(table);
    page.resize(slot_len(table.len()), 0);
    page
}

fn slot_len(table: usize) -> usize {
    (16 + table).next_multiple_of(UNIT as usize)
}

fn digest(sequence: u64, table: &[u8]) -> u64 {
    table.iter().fold(mix(sequence), |sum, byte| mix(sum ^ u64::from(*byte)))
}

async fn write(below: &Below, at: u64, buf: Buf, durable: bool) -> Result<(), BioError> {
    let mut bio = Bio::write(at, buf).to(below.lower(0));
    bio.flags.fua = durable;
    below.submit(bio).await.result.map(drop)
}

/// The newer valid slot, or a new table on a lower device with zeroes there.
async fn load(below: &Below, pool: &Pool, size: u64, area: u64) -> Result<Kept, BioError> {
    let count = Table::len(size) as usize;
    let len = slot_len(count);
    debug_assert!(2 * len as u64 <= AREA, "checked by the limits");
    let done = below.submit(Bio::read(area, Buf::unique(pool, 2 * len)).to(below.lower(0))).await;
    done.result?;
    let slots = done.buf.to_vec();
    let mut newest: Option<(u64, &[u8])> = None;
    for page in slots.chunks_exact(len) {
        let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let (sequence, table) = (word(0), &page[16..16 + count]);
        let is_newer = newest.is_none_or(|(other, _)| other < sequence);
        if sequence > 0 && word(8) == digest(sequence, table) && is_newer {
            newest = Some((sequence, table));
        }
    }
    let (sequence, table) = match newest {
        Some((sequence, table)) => (sequence, Table::decode(table, size)?),
        None if slots.iter().any(|byte| *byte != 0) => return Err(BioError::Corrupt(area)),
        None => {
            write(below, 0, zeroes(), true).await?;
            (0, Table::decode(&vec![0; count], size)?)
        }
    };
    Ok(Kept { table: RefCell::new(table), sequence: Cell::new(sequence) })
}

impl State {
    fn kept(&self) -> &Kept {
        self.kept.get().expect("opened before the first request")
    }

    /// Reads each run of neighbours below, all at once.
    async fn read(&self, below: &Below, pool: &Pool, mut bio: Bio) -> Done {
        let mut runs: Vec<ByteRange> = Vec::new();
        for logical in blocks(bio.range) {
            let at = self.kept().table.borrow().place(logical);
            match runs.last_mut() {
                Some(last) if last.end() == at => *last = span(last.start(), last.len() + UNIT),
                _ => runs.push(span(at, UNIT)),
            }
        }
        bio.dest = below.lower(0);
        if let [one] = runs[..] {
            bio.range = one;
            return below.submit(bio).await;
        }
        let mut reads = Vec::with_capacity(runs.len());
        for range in runs {
            let buf = bio.buf.like(pool, range.len() as usize);
            let part = Bio { op: Op::Read, range, flags: bio.flags, dest: bio.dest, buf, tag: bio.tag };
            reads.push(below.submit(part).into_future());
        }
        let mut result = Ok(Reply::Empty);
        let mut bufs = Vec::with_capacity(reads.len());
        for done in join_all(reads).await {
            result = result.and(done.result);
            bufs.push(done.buf);
        }
        Done { result, buf: Buf::chain(bufs) }
    }

    async fn change(&self, below: &Below, pool: &Pool, mut bio: Bio) -> Done {
        let mut result = Ok(());
        for logical in blocks(bio.range) {
            if result.is_ok() {
                result = self.change_one(below, pool, logical, &mut bio).await;
            }
        }
        if result.is_ok() && (bio.op == Op::Flush || bio.flags.fua) {
            result = self.commit(below, pool).await;
        }
        Done { result: result.map(|()| Reply::Empty), buf: bio.buf }
    }

    async fn change_one(&self, below: &Below, pool: &Pool, logical: u64, bio: &mut Bio) -> Result<(), BioError> {
        let data = match bio.op {
            Op::Write => bio.buf.slice((logical * UNIT - bio.offset()) as usize, UNIT as usize),
            _ => zeroes(),
        };
        let fingerprint = fingerprint(&data);
        let known = self.kept().table.borrow().find(&fingerprint);
        let block = match known {
            Some(block) => block,
            None => self.store(below, pool, data).await?,
        };
        self.kept().table.borrow_mut().redirect(logical, block, fingerprint);
        Ok(())
    }

    /// Writes bytes that are not there yet to a free data block.
    async fn store(&self, below: &Below, pool: &Pool, data: Buf) -> Result<u32, BioError> {
        if !self.kept().table.borrow().has_free() {
            self.commit(below, pool).await?;
        }
        let block = self.kept().table.borrow_mut().take().ok_or_else(full)?;
        write(below, u64::from(block) * UNIT, data, false).await?;
        Ok(block)
    }

    /// Makes data durable, then writes the table to the slot that does not hold the last one.
    async fn commit(&self, below: &Below, pool: &Pool) -> Result<(), BioError> {
        below.submit(Bio::flush().to(below.lower(0))).await.result?;
        let sequence = self.kept().sequence.get() + 1;
        let page = slot(sequence, &self.kept().table.borrow().encode());
        let at = self.area + sequence % 2 * page.len() as u64;
        write(below, at, Buf::from_bytes(pool, &page), true).await?;
        self.kept().sequence.set(sequence);
        self.kept().table.borrow_mut().rested();
        Ok(())
    }
}
