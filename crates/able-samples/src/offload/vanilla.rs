//! Off-loading by hand: it keeps its bits in two slots with digests, holds requests of what moves, splits those that
//! span both devices, and copies home itself.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::digest::mix;
use esker_base::{ByteRange, span};
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Layer, LayerHandle, Make, Op, OpKind,
    OpenContext, Reply, Step,
};
use esker_rt::mem::Pool;
use esker_rt::sync::{Notify, join_all};

use super::{AREA, BACKUP, DISK, PARAMS, UNIT, limits, manifest, units};

/// The manifest.
pub static KIND: Kind = manifest(Kind::layer("offload-vanilla", "Off-loading by hand.", PARAMS, build));

struct Offload {
    state: Rc<State>,
}

struct State {
    rests: bool,
    size: u64,
    bits: OnceCell<Bits>,
    traffic: Traffic,
}

/// Which units are newer on the backup, and the turn to store that.
struct Bits {
    bytes: RefCell<Vec<u8>>,
    sequence: Cell<u64>,
    is_storing: Cell<bool>,
    stored: Notify,
}

/// Requests under way, and the range that moves.
#[derive(Default)]
struct Traffic {
    under_way: RefCell<BTreeMap<u64, ByteRange>>,
    last: Cell<u64>,
    moving: Cell<Option<ByteRange>>,
    changed: Notify,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let limits = limits(make)?;
    let (bits, traffic) = (OnceCell::new(), Traffic::default());
    let state = State { rests: make.args.flag("rests"), size: limits.size, bits, traffic };
    Ok(Layer::single(Offload { state: Rc::new(state) }, limits))
}

impl Extension for Offload {
    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let OpenContext { rt, pool, below, handle } = opening;
        let state = self.state.clone();
        Step::later(async move {
            let bits = load(&below, &pool, state.size).await;
            let bits = bits.map_err(|error| KindError::Outside(error.to_string()))?;
            state.bits.get_or_init(|| bits);
            if !state.rests {
                rt.spawn("off-loading", go_home(state, pool, handle)).detach();
            }
            Ok(())
        })
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let (state, below, pool) = (self.state.clone(), ctx.below(), ctx.pool.clone());
        match bio.op {
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
            Op::Flush => {
                let bio = bio.take();
                Step::later(async move { Flow::Done(flush(&state, &below, &pool, bio).await) })
            }
            _ if !state.rests => {
                let bio = bio.take();
                Step::later(async move { Flow::Done(routed(&state, &below, &pool, bio).await) })
            }
            Op::Write | Op::Zero | Op::Discard => {
                units(bio.range).for_each(|unit| state.bits().set(unit, true));
                bio.dest = ctx.lower(BACKUP);
                if bio.flags.fua {
                    let bio = bio.take();
                    return Step::later(async move { Flow::Done(forced(&state, &below, &pool, bio).await) });
                }
                Step::Now(Flow::Down)
            }
            Op::Read | Op::Extents => {
                bio.dest = ctx.lower(BACKUP);
                Step::Now(Flow::Down)
            }
        }
    }

    fn completes(&self) -> bool {
        false
    }
}

impl State {
    fn bits(&self) -> &Bits {
        self.bits.get().expect("opened before the first request")
    }
}

impl Bits {
    fn has(&self, unit: u64) -> bool {
        self.bytes.borrow()[unit as usize / 8] >> (unit % 8) & 1 != 0
    }

    fn set(&self, unit: u64, value: bool) {
        let mut bytes = self.bytes.borrow_mut();
        let byte = &mut bytes[unit as usize / 8];
        *byte = *byte & !(1 << (unit % 8)) | u8::from(value) << (unit % 8);
    }

    /// Writes all bits to the slot that does not hold the last ones. What was set before is durable when this ends.
    async fn store(&self, below: &Below, pool: &Pool, size: u64) -> Result<(), BioError> {
        while self.is_storing.replace(true) {
            self.stored.wait().await;
        }
        let sequence = self.sequence.get() + 1;
        let page = slot(sequence, &self.bytes.borrow());
        let at = size + sequence % 2 * page.len() as u64;
        let bio = Bio::write(at, Buf::from_bytes(pool, &page)).fua().to(below.lower(BACKUP));
        let result = below.submit(bio).await.result;
        if result.is_ok() {
            self.sequence.set(sequence);
        }
        self.is_storing.set(false);
        self.stored.notify_all();
        result.map(drop)
    }
}

/// Sequence, digest, bits; whole units.
fn slot(sequence: u64, bits: &[u8]) -> Vec<u8> {
    let mut page = [sequence.to_le_bytes(), digest(sequence, bits).to_le_bytes()].concat();
    page.extend_from_slice(bits);
    page.resize(slot_len(bits.len()), 0);
    page
}

fn slot_len(bits: usize) -> usize {
    (16 + bits).next_multiple_of(UNIT as usize)
}

fn digest(sequence: u64, bits: &[u8]) -> u64 {
    bits.iter().fold(mix(sequence), |sum, byte| mix(sum ^ u64::from(*byte)))
}

/// The newer valid slot, or no bits on a backup with zeroes there.
async fn load(below: &Below, pool: &Pool, size: u64) -> Result<Bits, BioError> {
    let count = size.div_ceil(8 * UNIT) as usize;
    let len = slot_len(count);
    debug_assert!(2 * len as u64 <= AREA, "checked by the limits");
    let bio = Bio::read(size, Buf::unique(pool, 2 * len)).to(below.lower(BACKUP));
    let done = below.submit(bio).await;
    done.result?;
    let slots = done.buf.to_vec();
    let mut newest: Option<(u64, Vec<u8>)> = None;
    for page in slots.chunks_exact(len) {
        let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let (sequence, bits) = (word(0), &page[16..16 + count]);
        let is_newer = newest.as_ref().is_none_or(|(other, _)| *other < sequence);
        if sequence > 0 && word(8) == digest(sequence, bits) && is_newer {
            newest = Some((sequence, bits.to_vec()));
        }
    }
    if newest.is_none() && slots.iter().any(|byte| *byte != 0) {
        return Err(BioError::Corrupt(size));
    }
    let (sequence, bytes) = newest.unwrap_or_else(|| (0, vec![0; count]));
    let (bytes, sequence) = (RefCell::new(bytes), Cell::new(sequence));
    Ok(Bits { bytes, sequence, is_storing: Cell::default(), stored: Notify::default() })
}

async fn flush(state: &State, below: &Below, pool: &Pool, bio: Bio) -> Done {
    let lowers = if state.rests { BACKUP..BACKUP + 1 } else { DISK..BACKUP + 1 };
    let flushes = lowers.map(|lower| below.submit(Bio::flush().to(below.lower(lower))).into_future());
    let answers = join_all(flushes.collect::<Vec<_>>()).await;
    let mut result = answers.into_iter().map(|done| done.result).reduce(Result::and).expect("a lower device");
    if result.is_ok() {
        result = state.bits().store(below, pool, state.size).await.map(|()| Reply::Empty);
    }
    Done { result, buf: bio.buf }
}

async fn forced(state: &State, below: &Below, pool: &Pool, bio: Bio) -> Done {
    let mut done = below.submit(bio).await;
    if done.result.is_ok() {
        done.result = state.bits().store(below, pool, state.size).await.map(|()| Reply::Empty);
    }
    done
}

impl Traffic {
    /// Waits while the range moves, and keeps it from moving.
    async fn begin(&self, range: ByteRange) -> u64 {
        while self.moving.get().is_some_and(|moving| moving.overlaps(range)) {
            self.changed.wait().await;
        }
        let number = self.last.get() + 1;
        self.last.set(number);
        self.under_way.borrow_mut().insert(number, range);
        number
    }

    fn end(&self, number: u64) {
        self.under_way.borrow_mut().remove(&number);
        self.changed.notify_all();
    }

    fn is_used(&self, range: ByteRange) -> bool {
        self.under_way.borrow().values().any(|other| other.overlaps(range))
    }

    /// Keeps new requests away and waits for those under way.
    async fn stop(&self, range: ByteRange) {
        self.moving.set(Some(range));
        while self.is_used(range) {
            self.changed.wait().await;
        }
    }

    fn go_on(&self) {
        self.moving.set(None);
        self.changed.notify_all();
    }
}

/// Serves each unit from where it is.
async fn routed(state: &State, below: &Below, pool: &Pool, mut bio: Bio) -> Done {
    let number = state.traffic.begin(bio.range).await;
    let mut parts: Vec<(usize, ByteRange)> = Vec::new();
    for part in bio.range.split_at_multiples(UNIT) {
        let lower = if state.bits().has(part.start() / UNIT) { BACKUP } else { DISK };
        match parts.last_mut() {
            Some((last, range)) if *last == lower => *range = span(range.start(), range.len() + part.len()),
            _ => parts.push((lower, part)),
        }
    }
    if bio.op == Op::Extents {
        // The answer may end before the range does.
        parts.truncate(1);
    }
    let start = bio.offset();
    let mut sends = Vec::with_capacity(parts.len());
    for (lower, range) in parts {
        let buf = match bio.op {
            Op::Read => bio.buf.like(pool, range.len() as usize),
            Op::Write => bio.buf.slice((range.start() - start) as usize, range.len() as usize),
            _ => Buf::empty(),
        };
        let dest = below.lower(lower);
        let part = Bio { op: bio.op.clone(), range, flags: bio.flags, dest, buf, tag: bio.tag };
        sends.push(below.submit(part).into_future());
    }
    let answers = join_all(sends).await;
    state.traffic.end(number);
    let mut result = Ok(Reply::Empty);
    let mut bufs = Vec::with_capacity(answers.len());
    for done in answers {
        result = result.and(done.result);
        bufs.push(done.buf);
    }
    let buf = if bio.op == Op::Read { Buf::chain(bufs) } else { bio.buf };
    Done { result, buf }
}

async fn go_home(state: Rc<State>, pool: Pool, handle: LayerHandle) {
    for unit in units(span(0, state.size)).filter(|unit| state.bits().has(*unit)).collect::<Vec<_>>() {
        let Some(job) = handle.enter().await else { return };
        let range = span(unit * UNIT, UNIT);
        state.traffic.stop(range).await;
        // What could not be moved stays dirty and is served from the backup.
        let _left_there = bring_home(&state, job.below(), &pool, range).await;
        state.traffic.go_on();
    }
}

async fn bring_home(state: &State, below: &Below, pool: &Pool, range: ByteRange) -> Result<(), BioError> {
    let buf = Buf::unique(pool, range.len() as usize);
    let read = below.submit(Bio::read(range.start(), buf).to(below.lower(BACKUP))).await;
    read.result?;
    let write = Bio::write(range.start(), read.buf).fua().to(below.lower(DISK));
    below.submit(write).await.result?;
    state.bits().set(range.start() / UNIT, false);
    state.bits().store(below, pool, state.size).await
}
