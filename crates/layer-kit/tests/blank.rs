//! `blank`: hides what its device held before. A region reads as zeroes until it is written.
//!
//! Invariant: a region is zero, durably, before its record is written; the record is durable before the region is used.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{
    Bio, BioError, Buf, Ctx, Flow, Kind, KindError, Latch, Layer, Limits, Make, Mark, OpKind, OpSet, Step, Support,
    Trouble,
};
use esker_framing::{
    Epochs, Features, Header, LogCursor, Newest, Next, Record, SLOT, Superblock, SuperblockError, newest, seal, slots,
};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Turn};
use esker_testkit::{KEPT, bench, kept, power};

static KIND: Kind = Kind {
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush]),
    ..Kind::stateful("blank", "Hides what its device held before.", &[], build)
};
const BLOCK: u64 = SLOT as u64;
/// Regions of a device. A record of the journal begins one, so the journal never wraps. The data follows.
const REGIONS: u16 = 64;
const JOURNAL: u64 = 2 * BLOCK;
const DATA: u64 = JOURNAL + REGIONS as u64 * BLOCK;

/// The superblock, which is written once: the common header, and the bytes of data.
#[derive(Clone, PartialEq, Debug)]
struct Head(Header, u64);

impl Superblock for Head {
    const MAGIC: [u8; 8] = *b"\x89EskBla\n";
    const VERSION: u16 = 1;
    const NAME: &'static str = "a blank device";
    const LENGTHS: std::ops::RangeInclusive<usize> = 72..=72;

    fn header(&self) -> Header {
        self.0
    }

    fn encode_body(&self) -> Vec<u8> {
        self.1.to_le_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Head, &'static str> {
        Ok(Head(*header, u64::from_le_bytes(body.try_into().map_err(|_| "length")?)))
    }
}

/// The checker: reads the first bytes of a medium. Gives its superblock, unless it is blank, and the regions in use.
fn check(name: &str, start: &[u8]) -> Result<Option<(Head, u64)>, KindError> {
    let refused = |error: String| KindError::Outside(format!("{name}: the device {error}"));
    let head = match newest::<Head>(&[slots(start)]).and_then(Newest::writable) {
        Err(SuperblockError::Blank) => return Ok(None),
        found => found.map_err(|error| refused(error.to_string()))?,
    };
    let mut log = LogCursor::new(head.0.id, Epochs { now: 0, since: 0, rise: false }, 0, JOURNAL, 0);
    let mut used = 0;
    loop {
        let at = JOURNAL + log.number() * BLOCK;
        match log.next(&start[at as usize..DATA as usize], SLOT) {
            Next::Record(record) if record.kind < REGIONS => used |= 1 << record.kind,
            Next::End => return Ok(Some((head, used))),
            _ => return Err(refused(format!("holds a journal that is damaged at byte {at}; restore it from a copy"))),
        }
        log.advance(log.number() + 1, at + BLOCK);
    }
}

/// The layer in use, with a bit for each region in use.
struct Blank {
    head: Head,
    used: Cell<u64>,
    latch: Latch,
    turn: Turn,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let lower = &make.lowers[0];
    let size = lower.size.saturating_sub(DATA) / BLOCK * BLOCK;
    if size == 0 || lower.block as usize > SLOT || lower.support(OpKind::Zero) == Support::No {
        return Err(KindError::Unfit(format!(
            "{}: the device is small, has large blocks, or makes no zeroes",
            make.name
        )));
    }
    let limits = Limits { size, ..lower.clone().only(KIND.passes) };
    Ok(Layer::single(StatefulLayer::<Blank>::new((make.name.into(), size)), limits))
}

impl Stateful for Blank {
    type Config = (String, u64);

    fn marks(_: &Self::Config) -> Vec<Mark> {
        vec![Mark { lower: 0, range: ByteRange::new(0, DATA).expect("it begins at 0") }]
    }

    async fn open((name, size): Self::Config, io: Io) -> Result<Rc<Blank>, KindError> {
        let refused = |what: String| KindError::Outside(format!("{name}: the device {what}"));
        let fails = |error: BioError| refused(format!("fails: {error}"));
        let start = io.read(io.lower(0), 0, DATA as usize).await.map_err(fails)?;
        let (head, used) = match check(&name, &start.to_vec())? {
            Some((head, _)) if head.1 != size => return Err(refused(format!("was made for {} bytes", head.1))),
            Some(found) => found,
            None => {
                let head = Head(Header { id: io.rt().unique(), generation: 0, features: Features::NONE }, size);
                let block = [seal(&head), vec![0; SLOT - 72]].concat();
                io.write(io.lower(0), 0, Buf::from_bytes(io.pool(), &block), true).await.map_err(fails)?;
                (head, 0)
            }
        };
        Ok(Rc::new(Blank { head, used: Cell::new(used), latch: Latch::new(&name), turn: Turn::default() }))
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let regions = bio.range.start() / self.region_bytes()..bio.range.end().div_ceil(self.region_bytes());
        let wanted = regions.fold(0, |bits, region| bits | 1 << region);
        bio.range = ByteRange::new(bio.range.start() + DATA, bio.len()).expect("inside the device");
        if wanted & !self.used.get() == 0 {
            return Step::Now(Flow::Down);
        }
        let (blank, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            match blank.turn.alone(blank.begin(&io, wanted)).await {
                Ok(()) => Flow::Resume(bio),
                Err(error) => Flow::Done(bio.fail(error)),
            }
        })
    }

    fn trouble(&self) -> Option<Trouble> {
        self.latch.trouble()
    }
}

impl Blank {
    fn region_bytes(&self) -> u64 {
        self.head.1.div_ceil(u64::from(REGIONS)).next_multiple_of(BLOCK)
    }

    /// Makes regions zero, and then says durably that they are in use.
    async fn begin(&self, io: &Io, wanted: u64) -> Result<(), BioError> {
        self.latch.check()?;
        let fresh = wanted & !self.used.get();
        for region in (0..u64::from(REGIONS)).filter(|region| fresh >> region & 1 == 1) {
            let (volume, at, number) =
                (io.lower(0), region * self.region_bytes(), u64::from(self.used.get().count_ones()));
            io.send(Bio::zero(DATA + at, self.region_bytes().min(self.head.1 - at)).to(volume)).await.result?;
            io.flush(volume).await?;
            let (log, position, kind) = (self.head.0.id, JOURNAL + number * BLOCK, region as u16);
            let record = Record { log, epoch: 0, number, position, durable: number, kind, payload: &[] }.seal(SLOT);
            let written = io.write(volume, position, Buf::from_bytes(io.pool(), &record), true).await;
            written
                .inspect_err(|error| self.latch.set_after(io.rt(), "a record fails", error, "Repair the device."))?;
            self.used.set(self.used.get() | 1 << region);
        }
        Ok(())
    }
}

static KINDS: &[&Kind] = &[&KIND, &KEPT, &power::RECORDED];

#[test]
fn superblocks_keep_the_promises_of_the_common_header() {
    let head = |generation| Head(Header { id: 7, generation, features: Features::NONE }, generation << 20);
    esker_framing::conformance::check(&head(8), &head(9));
}

#[test]
fn former_content_reads_as_zeroes_and_a_damaged_journal_is_refused() {
    kept::poke(9001, "a", DATA, &[7; 64 << 10]);
    let text = "a = kept bed=9001 size=512KiB; vol = blank on a";
    bench::with(KINDS, text, async |vol| {
        bench::write(&vol, 4608, &[1; 512]).await;
        let read = bench::read(&vol, 0, 16 << 10).await;
        assert!(read.iter().enumerate().all(|(at, byte)| *byte == u8::from((4608..5120).contains(&at))));
    });
    assert_eq!(check("a", &kept::peek(9001, "a", DATA)).unwrap().unwrap().1, 0xf);
    kept::poke(9001, "a", JOURNAL, &[9; 64]);
    assert!(bench::refusal(KINDS, text).contains("holds a journal that is damaged at byte 8192"));
}

#[test]
fn a_blank_device_keeps_its_promises_in_every_crash_state() {
    power::check_text(KINDS, "a = recorded size=512KiB latency=3us; vol = blank on a", 3..=3, 8, 500);
}
