//! The least layer that moves blocks. Extents lie in slots of two devices; a map in memory says where, and a record of
//! one sector holds all of it. It shows how the gate and a migrating mover are used.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::split::{LowerAddress, LowerExtent};
use esker_block::step::LocalFuture;
use esker_block::{
    Bio, BioError, Buf, Class, Device, Done, Latch, Limits, Op, OpKind, Reply, Step, Support, Tag, VolumeId,
};
use esker_layer_kit::mover::{Cause, Go, Grain, Move, Mover, Outcome, Pace, Rules, Way, send};
use esker_layer_kit::{Gate, Io, Turn};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;

use super::{Mobile, Subject};

const BLOCK: u64 = 512;
const UNIT: u64 = 2 * BLOCK;
const UNITS: u8 = 4;
const EXTENT: u64 = UNIT * UNITS as u64;
const EXTENTS: usize = 3;
/// Slots of one lower device.
const SLOTS: u8 = EXTENTS as u8;
/// Where the slots begin.
const DATA: u64 = 4096;
/// The first byte of a record.
const MADE: u8 = 0xE5;

/// The kind of [`Plain`].
pub struct PlainSubject {
    /// What its records switch.
    pub grain: Grain,
}

impl Subject for PlainSubject {
    fn name(&self) -> String {
        format!("plain with grain {:?}", self.grain)
    }

    fn lowers(&self) -> [u64; 2] {
        [DATA + u64::from(SLOTS) * EXTENT; 2]
    }

    fn grain(&self) -> Grain {
        self.grain
    }

    fn open(&self, rt: Rt, lowers: [Rc<dyn Device>; 2]) -> LocalFuture<Result<Rc<dyn Mobile>, String>> {
        let grain = self.grain;
        Box::pin(async move {
            let plain = Plain::open(&rt, lowers, grain).await.map_err(|error| error.to_string())?;
            Ok(Rc::new(Running(Rc::new(plain))) as Rc<dyn Mobile>)
        })
    }
}

/// A slot of either lower device, numbered through.
type Slot = u8;

/// Where an extent lies. Its first `switched` units lie in `next`, the others in `slot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Placed {
    slot: Slot,
    next: Slot,
    switched: u8,
}

impl Placed {
    fn whole(slot: Slot) -> Placed {
        Placed { slot, next: slot, switched: 0 }
    }

    /// After more units were switched to `next`.
    fn with(self, next: Slot, switched: u8) -> Placed {
        if switched == UNITS { Placed::whole(next) } else { Placed { next, switched, ..self } }
    }

    fn slot_of(self, unit: u8) -> Slot {
        if unit < self.switched { self.next } else { self.slot }
    }
}

fn address(slot: Slot) -> LowerAddress {
    LowerAddress { lower: usize::from(slot / SLOTS), at: DATA + u64::from(slot % SLOTS) * EXTENT }
}

/// A map of extents over two devices.
struct Plain {
    io: Io,
    limits: Limits,
    gate: Gate,
    mover: Mover,
    map: RefCell<[Placed; EXTENTS]>,
    record_turn: Turn,
    latch: Latch,
    /// Slots that may not be used, whether the map names them or not: once for each move that goes on there. Where a
    /// write failed, for good.
    kept: RefCell<Vec<Slot>>,
    /// How often all moves were cancelled.
    cancels: Rc<Cell<u64>>,
    moving: Cell<usize>,
    ended: Notify,
}

fn rules(grain: Grain) -> Rules {
    let tag = Tag::of(Class::Background);
    Rules { unit: UNIT, grain, passes: 2, hold_max: Nanos::millis(5), width: 2, tag, described: false }
}

impl Plain {
    async fn open(rt: &Rt, lowers: [Rc<dyn Device>; 2], grain: Grain) -> Result<Plain, BioError> {
        let limits = Limits { size: EXTENT * EXTENTS as u64, volatile_cache: true, ..lowers[0].limits().clone() };
        let io = Io::over(rt, &Pool::default(), lowers.into());
        let gate = Gate::default();
        let plain = Plain {
            limits: limits.with(OpKind::Extents, Support::No),
            mover: Mover::migrating(gate.clone(), rules(grain)),
            gate,
            map: RefCell::new([0, 1, 2].map(Placed::whole)),
            record_turn: Turn::default(),
            latch: Latch::new("plain"),
            kept: RefCell::default(),
            cancels: Rc::default(),
            moving: Cell::new(0),
            ended: Notify::default(),
            io,
        };
        let record = plain.io.read(VolumeId(0), 0, BLOCK as usize).await?.to_vec();
        if record[0] == MADE {
            let placed = |at: usize| Placed { slot: record[at], next: record[at + 1], switched: record[at + 2] };
            *plain.map.borrow_mut() = [1, 4, 7].map(placed);
        } else {
            plain.record(0, Placed::whole(0)).await?;
        }
        Ok(plain)
    }

    /// Makes the map with one entry changed durable, and then uses it. Whether a record that fails is durable, nothing
    /// says: no change may follow.
    async fn record(&self, extent: usize, placed: Placed) -> Result<(), BioError> {
        let change = async {
            self.latch.check()?;
            let mut map = *self.map.borrow();
            map[extent] = placed;
            let mut sector = vec![MADE];
            sector.extend(map.iter().flat_map(|placed| [placed.slot, placed.next, placed.switched]));
            sector.resize(BLOCK as usize, 0);
            let buf = Buf::from_bytes(self.io.pool(), &sector);
            let write = Bio::write(0, buf).fua().tagged(Tag::of(Class::Metadata)).to(self.io.lower(0));
            let failed = |error: &BioError| self.latch.set_after(self.io.rt(), "a record failed", error, "Restart.");
            self.io.submit(write).await.result.inspect_err(failed)?;
            *self.map.borrow_mut() = map;
            Ok(())
        };
        self.record_turn.alone(change).await
    }

    fn locate(&self, at: u64) -> LowerExtent {
        let (extent, inside) = ((at / EXTENT) as usize, at % EXTENT);
        let slot = self.map.borrow()[extent].slot_of((inside / UNIT) as u8);
        LowerExtent { place: address(slot).plus(inside), len: UNIT - inside % UNIT }
    }

    fn free_slots(&self) -> impl Iterator<Item = Slot> {
        let (map, kept) = (*self.map.borrow(), self.kept.borrow().clone());
        let is_named = move |slot: Slot| map.iter().any(|placed| placed.slot == slot || placed.next == slot);
        (0..2 * SLOTS).filter(move |slot| !is_named(*slot) && !kept.contains(slot))
    }

    async fn move_away(self: Rc<Self>, extent: usize) -> Outcome {
        let Placed { slot: from, mut next, switched } = self.map.borrow()[extent];
        if switched == 0 {
            let other = 1 - address(from).lower;
            let Some(slot) = self.free_slots().find(|slot| address(*slot).lower == other) else {
                return Outcome::Abandoned(Cause::Cancelled);
            };
            next = slot;
        }
        self.kept.borrow_mut().extend([from, next]);
        self.moving.set(self.moving.get() + 1);
        let outcome = self.migrate(extent, from, next, switched).await;
        self.moving.set(self.moving.get() - 1);
        self.give_back(from);
        // A slot that cannot be written is not tried again.
        if !matches!(outcome, Outcome::Abandoned(Cause::Write) | Outcome::Part { why: Cause::Write, .. }) {
            self.give_back(next);
        }
        self.ended.notify_all();
        outcome
    }

    fn give_back(&self, slot: Slot) {
        let mut kept = self.kept.borrow_mut();
        let at = kept.iter().position(|of| *of == slot).expect("a move keeps its slots");
        kept.swap_remove(at);
    }

    async fn migrate(self: &Rc<Self>, extent: usize, from: Slot, next: Slot, switched: u8) -> Outcome {
        let (begin, done) = (extent as u64 * EXTENT, u64::from(switched) * UNIT);
        let transit = Move {
            upper: begin + done,
            from: address(from).plus(done),
            to: address(next).plus(done),
            len: EXTENT - done,
        };
        let record = |_: &Io, moves: &[Move]| {
            let switched = (moves[0].upper + moves[0].len - begin) / UNIT;
            let plain = self.clone();
            Step::later(async move {
                let placed = plain.map.borrow()[extent].with(next, switched as u8);
                plain.record(extent, placed).await
            })
        };
        let pace = UntilCancelled { cancels: self.cancels.clone(), before: self.cancels.get() };
        self.mover.migrate(&Way::Io(self.io.clone()), transit, &pace, &record).await
    }
}

/// As fast as the devices are, until moves are cancelled.
struct UntilCancelled {
    cancels: Rc<Cell<u64>>,
    before: u64,
}

impl Pace for UntilCancelled {
    fn earn(&self, _: &[usize], _: u64) -> Step<Go> {
        Step::Now(if self.cancels.get() == self.before { Go::On } else { Go::Stop })
    }
}

/// A [`Plain`] in use.
#[derive(Clone)]
struct Running(Rc<Plain>);

impl Device for Running {
    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let plain = self.0.clone();
        match bio.op {
            Op::Read | Op::Write | Op::Zero | Op::Discard => {}
            Op::Flush => return flush(plain, bio),
            Op::Ranges(_) | Op::Extents => return Step::Now(bio.fail(BioError::Unsupported(OpKind::Extents))),
        }
        let ticket = plain.gate.enter(bio.range, bio.changes_data());
        Step::later(async move {
            plain.gate.admitted(ticket).await;
            let done = match plain.latch.check() {
                Err(error) if bio.changes_data() => bio.fail(error),
                _ => send(&plain.io, bio, |at| plain.locate(at)).await,
            };
            plain.gate.leave(ticket);
            done
        })
    }
}

/// All records are durable when they are used.
fn flush(plain: Rc<Plain>, bio: Bio) -> Step<Done> {
    Step::later(async move {
        let result = match plain.latch.check() {
            Ok(()) => plain.io.flush_all().await.map(|()| Reply::Empty),
            Err(error) => Err(error),
        };
        Done { result, buf: bio.buf }
    })
}

impl Mobile for Running {
    fn device(&self) -> Rc<dyn Device> {
        Rc::new(self.clone())
    }

    fn extent(&self) -> u64 {
        EXTENT
    }

    fn unit(&self) -> u64 {
        UNIT
    }

    fn place(&self, at: u64) -> LowerAddress {
        self.0.locate(at).place
    }

    fn start(&self, extent: u64) -> LocalFuture<Outcome> {
        Box::pin(self.0.clone().move_away(extent as usize))
    }

    fn hold_max(&self) -> Nanos {
        rules(Grain::Whole).hold_max
    }

    fn cancel(&self) {
        self.0.cancels.set(self.0.cancels.get() + 1);
    }

    fn free(&self) -> usize {
        self.0.free_slots().count()
    }

    fn settle(&self) -> LocalFuture<Result<(), BioError>> {
        self.cancel();
        let plain = self.0.clone();
        Box::pin(async move {
            plain.ended.wait_until(|| plain.moving.get() == 0).await;
            plain.io.flush_all().await
        })
    }
}
