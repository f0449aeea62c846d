//! Plays the traces against one candidate in a virtual world of its own.
//!
//! Open loop: a request enters when it is due, however many wait, and its latency counts from then. Only above a bound of
//! requests in flight does the player itself wait; then the stack counts as saturated.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Time};
use esker_blktrace::{Op, Record, Speed};
use esker_block::{Bio, Buf, Device, Done, Limits, OpKind, Step, Support};
use esker_rt::mem::Pool;
use esker_rt::sync::{Credits, Notify};
use esker_rt::{JoinHandle, Rt, Sim, SimConfig};
use esker_stack::{Export, Stack};

use crate::candidate::Candidate;
use crate::error::PredictError;
use crate::measure::{Answered, Tally};
use crate::outcome::{DeviceRun, Fitted, Run, VolumeRun};
use crate::plan::Watch;
use crate::trace::{Facts, Feed, Limit, STRIDE, Trace};

/// Idle memory that a world keeps for payloads of devices that need bytes.
const POOLED: usize = 16 << 20;

/// A stack that needs more than this share of the planned time after the last arrival has fallen behind...
const DRAIN_SHARE: f64 = 0.05;
/// ...unless that is a short time by itself.
const DRAIN_MIN: Nanos = Nanos::millis(100);

/// What is played, and how.
pub(crate) struct Play<'a> {
    pub traces: &'a [Trace],
    pub facts: &'a [Facts],
    pub candidate: &'a Candidate,
    pub seed: u64,
    pub speed: Speed,
    pub limit: Limit,
    pub inflight_max: u64,
    pub watch: &'a Watch,
}

/// The player of one run, shared by the tasks of its requests.
struct Player {
    rt: Rt,
    pool: Pool,
    speed: Speed,
    tally: RefCell<Tally>,
    fitted: Cell<Fitted>,
    credits: Credits,
    /// Requests that had to wait because too many were in flight.
    held: Cell<u64>,
    quiet: Notify,
    watch: Watch,
    name: String,
}

impl Play<'_> {
    /// Plays it once.
    ///
    /// # Errors
    /// A stack that cannot be built or has the wrong exports, an unreadable trace, requests that are never answered.
    pub fn run(&self) -> Result<Run, PredictError> {
        let sim = Sim::new(SimConfig::seeded(self.seed));
        let pool = Pool::new(POOLED);
        let candidate = || self.candidate.name.clone();
        let built = Stack::build(&sim.rt(), &pool, esker_kinds::ALL, &self.candidate.spec);
        let stack = built.map_err(|source| PredictError::Build { candidate: candidate(), source })?;
        let exports = self.exports(&stack)?;
        let player = Rc::new(self.player(&sim, pool));
        let feeds: Result<Vec<Feed>, _> = self.traces.iter().map(|trace| trace.feed(&self.limit)).collect();
        let volumes = exports.into_iter().zip(feeds?).collect();
        let played = sim.try_block_on(play_all(player.clone(), volumes));
        played.map_err(|halt| PredictError::Stuck { candidate: candidate(), halt: halt.to_string() })??;
        Ok(self.conclude(&sim, &stack, &player))
    }

    fn player(&self, sim: &Sim, pool: Pool) -> Player {
        Player {
            rt: sim.rt(),
            pool,
            speed: self.speed,
            tally: RefCell::new(Tally::new(self.traces.len(), self.span())),
            fitted: Cell::default(),
            credits: Credits::new(self.inflight_max),
            held: Cell::default(),
            quiet: Notify::default(),
            watch: self.watch.clone(),
            name: self.candidate.name.clone(),
        }
    }

    /// The time of the last arrival.
    fn span(&self) -> Nanos {
        let longest = self.facts.iter().map(|facts| facts.duration_ns).max().unwrap_or(0);
        self.speed.apply(Nanos(longest))
    }

    fn exports(&self, stack: &Rc<Stack>) -> Result<Vec<Export>, PredictError> {
        let named: Vec<Export> =
            self.candidate.spec.exports.iter().filter_map(|export| stack.export(&export.name)).collect();
        if named.len() == self.traces.len() {
            return Ok(named);
        }
        let (candidate, exports, traces) = (self.candidate.name.clone(), named.len(), self.traces.len());
        Err(PredictError::Exports { candidate, exports, traces })
    }

    fn conclude(&self, sim: &Sim, stack: &Rc<Stack>, player: &Player) -> Run {
        let tally = player.tally.borrow();
        let all = tally.sum(|volume| vec![&volume.reads, &volume.writes, &volume.others]);
        let elapsed = player.rt.now().since(Time::ZERO);
        let drain = tally.last_answer.since(tally.last_due);
        let devices = devices(stack, elapsed);
        let is_model = !devices.is_empty();
        let per_second = |count: u64| if elapsed == Nanos::ZERO { 0.0 } else { count as f64 / elapsed.as_secs_f64() };
        let volume = |(tally, facts): (&crate::measure::VolumeTally, &Facts)| VolumeRun {
            name: facts.volume.clone(),
            reads: tally.reads.summary(),
            writes: tally.writes.summary(),
            read_bytes: tally.read_bytes,
            written_bytes: tally.written_bytes,
        };
        Run {
            name: self.candidate.name.clone(),
            what: self.candidate.what.clone(),
            stack: self.candidate.spec.to_toml(),
            reads: tally.sum(|volume| vec![&volume.reads]).summary(),
            writes: tally.sum(|volume| vec![&volume.writes]).summary(),
            volumes: tally.volumes.iter().zip(self.facts).map(volume).collect(),
            elapsed_ns: elapsed.0,
            drain_ns: drain.0,
            requests_per_s: per_second(all.summary().requests),
            bytes_per_s: per_second(tally.bytes()),
            inflight_max: tally.inflight_max,
            saturated: self.saturation(player.held.get(), drain),
            failed: tally.failed,
            first_failure: tally.first_failure.clone(),
            fitted: player.fitted.get(),
            busy: devices.iter().map(|device| device.busy).reduce(f64::max),
            energy_j: is_model.then(|| devices.iter().map(|device| device.energy_j).sum()),
            price_usd: is_model.then(|| devices.iter().map(|device| device.price_usd).sum()),
            devices,
            digest: format!("{:016x}", sim.digest()),
            events: sim.events(),
            cdf: all.cdf(),
            intervals: tally.intervals(),
            all: all.summary(),
        }
    }

    fn saturation(&self, held: u64, drain: Nanos) -> Option<String> {
        let span = self.span();
        if held > 0 {
            let bound = self.inflight_max;
            return Some(format!("{held} requests came while {bound} were in flight, which is the bound"));
        }
        let is_late = drain > DRAIN_MIN && drain.as_secs_f64() > DRAIN_SHARE * span.as_secs_f64();
        is_late.then(|| format!("it needed {drain} after the last arrival of a run of {span} to answer what waited"))
    }
}

fn devices(stack: &Rc<Stack>, elapsed: Nanos) -> Vec<DeviceRun> {
    let device = |part: esker_stack::PartStats| {
        let usage = part.usage?;
        let size_bytes = stack.device(&part.name).map_or(0, |device| device.limits().size);
        Some(DeviceRun {
            name: part.name,
            kind: part.kind,
            size_bytes,
            busy: if elapsed == Nanos::ZERO { 0.0 } else { usage.busy.as_secs_f64() / elapsed.as_secs_f64() },
            energy_j: usage.energy_j,
            price_usd: usage.price_usd,
            read_bytes: usage.read,
            written_bytes: usage.written,
        })
    };
    stack.stats().into_iter().filter_map(device).collect()
}

/// Plays each trace against its export and waits for the last answer.
async fn play_all(player: Rc<Player>, volumes: Vec<(Export, Feed)>) -> Result<(), PredictError> {
    let play = |(at, (export, feed))| player.rt.spawn("player", play_one(player.clone(), at, export, feed));
    let players: Vec<JoinHandle<_>> = volumes.into_iter().enumerate().map(play).collect();
    for one in players {
        one.await?;
    }
    player.quiet.wait_until(|| player.tally.borrow().inflight == 0).await;
    Ok(())
}

async fn play_one(player: Rc<Player>, volume: usize, export: Export, mut feed: Feed) -> Result<(), PredictError> {
    let mut played = 0u64;
    while let Some(record) = feed.next()? {
        played += 1;
        if played.is_multiple_of(STRIDE) {
            (player.watch)(&player.name, STRIDE);
        }
        let due = Time::ZERO + player.speed.apply(record.at);
        player.rt.sleep_until(due).await;
        let Some(bio) = player.bio(&record, export.limits()) else { continue };
        if !player.credits.try_take(1) {
            player.held.set(player.held.get() + 1);
            player.credits.take(1).await;
        }
        player.clone().submit(volume, &export, due, bio);
    }
    (player.watch)(&player.name, played % STRIDE);
    Ok(())
}

impl Player {
    /// The request for a record, if the volume can take one.
    fn bio(&self, record: &Record, limits: &Limits) -> Option<Bio> {
        let mut fitted = self.fitted.get();
        let range = fit(record, limits, &mut fitted);
        self.fitted.set(fitted);
        let range = range?;
        let payload = |seed| match limits.described {
            true => Buf::described(range.len() as usize, seed),
            false => Buf::zeroed(&self.pool, range.len() as usize),
        };
        Some(match record.op {
            Op::Read => Bio::read(range.start(), payload(0)),
            Op::Write => Bio::write(range.start(), payload(record.at.0 | 1)),
            Op::Flush => Bio::flush(),
            Op::Discard => Bio::discard(range.start(), range.len()),
        })
    }

    fn submit(self: Rc<Self>, volume: usize, export: &Export, due: Time, bio: Bio) {
        self.tally.borrow_mut().enters(due);
        let (op, bytes) = match bio.op {
            esker_block::Op::Read => (OpKind::Read, bio.len()),
            esker_block::Op::Write => (OpKind::Write, bio.len()),
            esker_block::Op::Flush => (OpKind::Flush, 0),
            _ => (OpKind::Discard, 0),
        };
        let answered = Answered { volume, op, bytes, due, at: due };
        match export.submit(bio) {
            Step::Now(done) => self.ended(answered, &done),
            Step::Later(answer) => {
                let rt = self.rt.clone();
                let request = rt.spawn("request", async move {
                    let done = answer.await;
                    self.ended(answered, &done);
                });
                request.detach();
            }
        }
    }

    fn ended(&self, answered: Answered, done: &Done) {
        let mut tally = self.tally.borrow_mut();
        tally.answered(&Answered { at: self.rt.now(), ..answered });
        if let Err(error) = &done.result {
            tally.failed += 1;
            tally.first_failure.get_or_insert_with(|| error.to_string());
        }
        let is_quiet = tally.inflight == 0;
        drop(tally);
        self.credits.give(1);
        if is_quiet {
            self.quiet.notify_all();
        }
    }
}

/// The range that a volume can take for a record; `None` if there is none.
fn fit(record: &Record, limits: &Limits, fitted: &mut Fitted) -> Option<ByteRange> {
    let kind = match record.op {
        Op::Read => OpKind::Read,
        Op::Write => OpKind::Write,
        Op::Flush => return ByteRange::new(0, 0),
        Op::Discard => OpKind::Discard,
    };
    if limits.support(kind) == Support::No {
        fitted.unsupported += 1;
        return None;
    }
    let block = u64::from(limits.block);
    let most = if record.op.is_transfer() { limits.size.min(u64::from(limits.transfer_max)) } else { limits.size };
    let range = record.range().align_out(block).filter(|range| range.len() <= most);
    let Some(range) = range else {
        fitted.too_large += 1;
        return None;
    };
    fitted.widened += u64::from(range != record.range());
    if range.end() <= limits.size {
        return Some(range);
    }
    fitted.wrapped += 1;
    let places = limits.size - range.len() + block;
    ByteRange::new(range.start() % places, range.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn fit_in(size: u64, op: Op, offset: u64, len: u64) -> (Option<ByteRange>, Fitted) {
        let mut fitted = Fitted::default();
        let limits = Limits::plain(size, BLOCK as u32).with(OpKind::Discard, Support::No);
        let range = fit(&Record { at: Nanos::ZERO, volume: 0, op, offset, len }, &limits, &mut fitted);
        (range, fitted)
    }

    #[test]
    fn requests_are_widened_wrapped_or_left_out_and_counted() {
        let range = |start, len| ByteRange::new(start, len);
        let none = Fitted::default();
        assert_eq!(fit_in(8 * BLOCK, Op::Read, BLOCK, BLOCK), (range(BLOCK, BLOCK), none));
        assert_eq!(fit_in(8 * BLOCK, Op::Write, 512, 512), (range(0, BLOCK), Fitted { widened: 1, ..none }));
        let (wrapped, fitted) = fit_in(8 * BLOCK, Op::Write, 9 * BLOCK, 2 * BLOCK);
        assert_eq!((wrapped, fitted), (range(2 * BLOCK, 2 * BLOCK), Fitted { wrapped: 1, ..none }));
        assert_eq!(fit_in(8 * BLOCK, Op::Read, 0, 9 * BLOCK), (None, Fitted { too_large: 1, ..none }));
        assert_eq!(fit_in(8 * BLOCK, Op::Discard, 0, BLOCK), (None, Fitted { unsupported: 1, ..none }));
        assert_eq!(fit_in(8 * BLOCK, Op::Flush, 0, 0), (range(0, 0), none));
    }

    proptest::proptest! {
        #[test]
        fn what_fits_lies_in_the_volume_between_blocks(blocks in 1u64..64, offset: u64, len in 1u64..(1 << 20)) {
            let (range, fitted) = fit_in(blocks * BLOCK, Op::Read, offset.min(u64::MAX - len), len);
            match range {
                Some(range) => assert!(range.end() <= blocks * BLOCK && range.is_aligned(BLOCK) && range.len() >= len),
                None => assert_eq!(fitted.too_large, 1),
            }
        }
    }
}
