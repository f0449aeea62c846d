//! `blank`: hides what its device held before. Regions that were never written read as zeroes.
//!
//! Invariant: a region is zero on the medium, durably, before its bit is set, and its bit is durable before it is written.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{
    Bio, BioError, Buf, Ctx, Done, Flow, Kind, KindError, Latch, Layer, Limits, Make, Mark, Medium, Op, OpKind, OpSet,
    Reply, Role, Stat, Step, Trouble,
};
use esker_framing::{Features, Header, Newest, SLOT, Superblock, SuperblockError, newest, seal, slot, slots};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Turn};

/// The manifest.
pub static KIND: Kind = Kind {
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush]),
    role: Role::Modifier,
    medium: Medium::Tables,
    transparent: false,
    ..Kind::layer("blank", "Hides what its device held before.", &[], build)
};
/// The two slots of the superblock; the data follows.
const HEAD: u64 = 2 * SLOT as u64;
const BITS: usize = 184;
const LEN: usize = 64 + 8 + BITS;

/// The format, as its page says.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    id: u128,
    generation: u64,
    size: u64,
    written: Vec<u8>,
}

/// Bytes of a region: so many that there is a bit for each.
fn region(size: u64) -> u64 {
    size.div_ceil(BITS as u64 * 8).max(SLOT as u64).next_power_of_two()
}

impl Superblock for State {
    const MAGIC: [u8; 8] = *b"\x89EskBla\n";
    const VERSION: u16 = 1;
    const KNOWN: Features = Features::NONE;
    const DETECTS_STALE: bool = false;
    const NAME: &'static str = "a blank device";
    const LENGTHS: RangeInclusive<usize> = LEN..=LEN;

    fn header(&self) -> Header {
        Header { id: self.id, generation: self.generation, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        [&self.size.to_le_bytes()[..], &self.written].concat()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<State, &'static str> {
        let (size, written) = body.split_first_chunk().ok_or("length")?;
        let size = u64::from_le_bytes(*size);
        let state = State { id: header.id, generation: header.generation, size, written: written.to_vec() };
        let beyond = state.used().any(|at| at as u64 * region(size) >= size);
        if size > 1 << 62 || beyond { Err("bitmap") } else { Ok(state) }
    }
}

impl State {
    fn has(&self, at: usize) -> bool {
        self.written[at / 8] >> (at % 8) & 1 != 0
    }

    fn used(&self) -> impl Iterator<Item = usize> {
        (0..BITS * 8).filter(|at| self.has(*at))
    }
}

/// The checker: how many regions a medium with these first bytes has in use.
///
/// # Errors
/// Why it is none.
pub fn check(head: &[u8]) -> Result<usize, SuperblockError> {
    newest::<State>(&[slots(head)]).and_then(Newest::writable).map(|state| state.used().count())
}

/// The layer in use.
pub struct Blank {
    state: RefCell<State>,
    latch: Latch,
    turn: Turn,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let lower = &make.lowers[0];
    let size = lower.size.saturating_sub(HEAD) / SLOT as u64 * SLOT as u64;
    if size == 0 || lower.block as usize > SLOT || u64::from(lower.transfer_max) < region(size).max(HEAD) {
        return Err(KindError::Unfit(format!("{}: the device is too small, or its requests or blocks are", make.name)));
    }
    let limits = Limits { size, ranges_max: 0, described: false, ..lower.clone() };
    let limits = limits.with(OpKind::Zero, esker_block::Support::No).with(OpKind::Extents, esker_block::Support::No);
    Ok(Layer::single(StatefulLayer::<Blank>::new((make.name.to_string(), size)), limits))
}

impl Stateful for Blank {
    type Config = (String, u64);
    const FOLLOWS: bool = false;

    fn marks(_: &Self::Config) -> Vec<Mark> {
        vec![Mark { lower: 0, range: ByteRange::new(0, HEAD).expect("it begins at 0") }]
    }

    async fn open((name, size): Self::Config, io: Io) -> Result<Rc<Blank>, KindError> {
        let outside = |what: String| KindError::Outside(format!("{name}: the device {what}"));
        let head = io.read(io.lower(0), 0, HEAD as usize).await.map_err(|error| outside(format!("fails: {error}")))?;
        let state = match newest(&[slots(&head.to_vec())]).and_then(Newest::writable) {
            Err(SuperblockError::Blank) => State { id: io.rt().unique(), generation: 0, size, written: vec![0; BITS] },
            found => found.map_err(|error| outside(error.to_string()))?,
        };
        if state.size != size {
            return Err(outside(format!("was made for {} bytes of data, not {size}", state.size)));
        }
        Ok(Rc::new(Blank { state: RefCell::new(state), latch: Latch::new(&name), turn: Turn::default() }))
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if bio.op == Op::Flush {
            return Step::Now(Flow::Down);
        }
        let size = region(self.state.borrow().size);
        let regions = (bio.range.start() / size) as usize..bio.range.end().div_ceil(size) as usize;
        let used = regions.clone().filter(|at| self.state.borrow().has(*at)).count();
        if bio.op == Op::Read && used == 0 {
            let buf = Buf::zeroed(ctx.pool, bio.take().len() as usize);
            return Step::Now(Flow::Done(Done { result: Ok(Reply::Empty), buf }));
        }
        bio.range = ByteRange::new(bio.range.start() + HEAD, bio.len()).expect("inside the device");
        if used == regions.len() {
            return Step::Now(Flow::Down);
        }
        let (blank, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            match blank.turn.alone(blank.begin(&io, regions, size)).await {
                Ok(()) => Flow::Resume(bio),
                Err(error) => Flow::Done(bio.fail(error)),
            }
        })
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "regions", value: self.state.borrow().used().count() as f64 }]
    }

    fn trouble(&self) -> Option<Trouble> {
        self.latch.trouble()
    }
}

impl Blank {
    /// Makes regions zero, and then says durably that they are in use.
    async fn begin(&self, io: &Io, regions: Range<usize>, region: u64) -> Result<(), BioError> {
        self.latch.check()?;
        let mut next = self.state.borrow().clone();
        for at in regions.filter(|at| !self.state.borrow().has(*at)) {
            let start = at as u64 * region;
            let zeroes = Buf::zeroed(io.pool(), region.min(next.size - start) as usize);
            io.write(io.lower(0), HEAD + start, zeroes, false).await?;
            next.written[at / 8] |= 1 << (at % 8);
        }
        next.generation += 1;
        let mut block = seal(&next);
        block.resize(SLOT, 0);
        let (at, block) = ((slot(next.generation) * SLOT) as u64, Buf::from_bytes(io.pool(), &block));
        let written = async {
            io.flush(io.lower(0)).await?;
            io.write(io.lower(0), at, block, true).await
        };
        written.await.inspect_err(|error| {
            self.latch.set_after(io.rt(), "its bitmap cannot be written", error, "Repair the device, then restart.");
        })?;
        *self.state.borrow_mut() = next;
        Ok(())
    }
}

mod tests;
