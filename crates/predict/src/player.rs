//! Sends the requests of traces to the exports of a stack and counts the answers. The same code plays in both worlds.
//!
//! Open loop: a request enters when it is due, however many wait, and its latency counts from then. When a [`Bounds`]
//! is exceeded, no more requests are sent, and those in flight are answered. Closed loop: each client sends its next
//! request after the answer to its last one, and latency counts from the sending.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Stream, Time};
use esker_block::{Bio, Buf, Device, Done, Limits, OpKind, Step, Support, Tag};
use esker_rt::mem::Pool;
use esker_rt::sync::{Either, Notify, race};
use esker_rt::{JoinHandle, Rt};
use esker_stack::{Export, PartStats, Stack};
use esker_trace_block::{Op, Record, Speed};

use crate::calibration::ClientCost;
use crate::calibration::times::Mix;
use crate::error::PredictError;
use crate::feed::{Counting, Feed};
use crate::input::STRIDE;
use crate::load::Load;
use crate::measure::{Answered, Tally};
use crate::outcome::Fitted;
use crate::teller::Teller;

/// The player of one run, shared by the tasks of its requests.
pub(crate) struct Player {
    pub rt: Rt,
    pub pool: Pool,
    pub load: Load,
    pub speed: Speed,
    pub tally: RefCell<Tally>,
    pub fitted: Cell<Fitted>,
    pub bounds: Bounds,
    /// Why no more requests are sent.
    pub stop: Cell<Option<Stop>>,
    pub stopped: Notify,
    /// Requests that took longer than the bound on misses allows.
    pub misses: Cell<u64>,
    pub quiet: Notify,
    pub teller: Rc<Teller>,
    /// CPU time of making a request and counting its answer, and how late a client wakes.
    pub client: ClientCost,
    pub wakes: RefCell<Stream>,
    /// Of the requests that were made.
    pub mix: RefCell<Mix>,
    /// What is written, where bytes must be there.
    pub pattern: RefCell<Buf>,
    /// When the run began.
    pub start: Time,
    /// Which requests count.
    pub counting: Counting,
    /// What the stack's parts had used when counting began; nothing if everything counts.
    pub begun: OnceCell<Vec<PartStats>>,
    pub stack: Rc<Stack>,
}

/// What a run in open loop may not exceed.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Requests in flight.
    pub inflight_max: u64,
    /// Time from when a request was due to its answer.
    pub latency_max: Nanos,
    /// A latency, and how many requests may take longer.
    pub misses: Option<(Nanos, u64)>,
}

impl Bounds {
    /// No bound.
    pub(crate) const NONE: Bounds = Bounds { inflight_max: u64::MAX, latency_max: Nanos(u64::MAX), misses: None };
}

/// The bound that was exceeded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Stop {
    /// As many requests were in flight as may be, at this time.
    Full(Time),
    /// A request took as long as it may, at this time.
    Late(Time),
    /// Too many requests took too long.
    Missed,
}

/// Where a volume lies.
pub(crate) struct Volume {
    pub export: Export,
    /// Byte of the export at which it begins.
    pub base: u64,
}

/// All volumes, by number.
pub(crate) type Volumes = Rc<[Volume]>;

/// Plays each trace against the volumes from a number on, and waits for the last answer.
pub(crate) async fn play_all(
    player: Rc<Player>,
    volumes: Volumes,
    feeds: Vec<(usize, Feed)>,
) -> Result<(), PredictError> {
    let mut clients: Vec<JoinHandle<_>> = Vec::new();
    for (first, feed) in feeds {
        match player.load {
            Load::Open | Load::Steady { .. } => {
                clients.push(player.rt.spawn("player", play_open(player.clone(), first, volumes.clone(), feed)));
            }
            Load::Closed { depth, .. } => {
                let feed = Rc::new(RefCell::new(feed));
                let client = |_| {
                    let play = play_closed(player.clone(), first, volumes.clone(), feed.clone());
                    player.rt.spawn("client", play)
                };
                clients.extend((0..depth).map(client));
            }
        }
    }
    let ended = async {
        for client in clients {
            client.await?;
        }
        Ok::<(), PredictError>(())
    };
    // Players that sleep until a request is due find at their next one that they have stopped.
    if let Either::Left(result) = race(ended, player.stopped.wait()).await {
        result?;
    }
    player.quiet.wait_until(|| player.tally.borrow().inflight == 0).await;
    Ok(())
}

async fn play_open(player: Rc<Player>, first: usize, volumes: Volumes, mut feed: Feed) -> Result<(), PredictError> {
    while let Some(record) = player.next(&mut feed)? {
        let due = player.due(record.at);
        if player.is_first_to_count(&record) {
            player.rt.sleep_until(player.due(player.counting.from)).await;
            player.begins();
        }
        let slept = due.since(player.rt.now());
        player.rt.sleep_until(due).await;
        let late = player.client.late(slept, &mut player.wakes.borrow_mut());
        player.waits(late).await;
        let number = first + record.volume as usize;
        let export = &volumes[number].export;
        let Some(bio) = player.bio(&record, number, &volumes[number]) else { continue };
        player.rt.charge(player.client.of(record.op, &mut player.mix.borrow_mut(), bio.len(), 1));
        if player.tally.borrow().inflight >= player.bounds.inflight_max {
            player.stops(Stop::Full(player.rt.now()));
        }
        if player.stop.get().is_some() {
            break;
        }
        player.clone().submit(player.request(number, &record, &bio, due), export, bio);
    }
    player.told(&feed);
    Ok(())
}

async fn play_closed(
    player: Rc<Player>,
    first: usize,
    volumes: Volumes,
    feed: Rc<RefCell<Feed>>,
) -> Result<(), PredictError> {
    let Load::Closed { depth, think } = player.load else { unreachable!("clients wait for answers in closed loop") };
    let mut last = None;
    loop {
        let record = player.next(&mut feed.borrow_mut())?;
        let Some(record) = record else { break };
        let number = first + record.volume as usize;
        let export = &volumes[number].export;
        let Some(bio) = player.bio(&record, number, &volumes[number]) else { continue };
        player.makes(record.op, &bio, depth).await;
        if player.is_first_to_count(&record) {
            player.begins();
        }
        let due = player.rt.now();
        let request = player.request(number, &record, &bio, due);
        player.tally.borrow_mut().enters(&request);
        let done = export.request(bio).await;
        player.wakes_to(due).await;
        player.ended(&request, &done);
        player.turned(last.replace(player.rt.now()), due);
        // An answer may have come at once: the other clients are next all the same.
        match think {
            Nanos::ZERO => player.rt.yield_now().await,
            think => player.rt.sleep(think).await,
        }
    }
    if Rc::strong_count(&feed) == 1 {
        player.told(&feed.borrow());
    }
    Ok(())
}

impl Player {
    fn next(&self, feed: &mut Feed) -> Result<Option<Record>, PredictError> {
        let record = feed.next()?;
        if record.is_some() && feed.taken().is_multiple_of(STRIDE) {
            self.teller.more(STRIDE);
        }
        Ok(record)
    }

    /// Reports what was played since the last report.
    fn told(&self, feed: &Feed) {
        self.teller.more(feed.taken() % STRIDE);
    }

    /// The request for a record of a volume, if its export can take one.
    fn bio(&self, record: &Record, number: usize, volume: &Volume) -> Option<Bio> {
        let (mut fitted, limits) = (self.fitted.get(), volume.export.limits());
        let base = if record.op == Op::Flush { 0 } else { volume.base };
        let range = fit(&Record { offset: base + record.offset, ..*record }, limits, &mut fitted);
        self.fitted.set(fitted);
        let range = range?;
        let len = range.len() as usize;
        let tag = Tag { issuer: number as u32, pid: record.who, ..Tag::default() };
        let bio = match (record.op, limits.described) {
            (Op::Read, true) => Bio::read(range.start(), Buf::described(len, 0)),
            (Op::Read, false) => Bio::read(range.start(), Buf::unique(&self.pool, len)),
            (Op::Write, true) => Bio::write(range.start(), Buf::described(len, record.at.0 | 1)),
            (Op::Write, false) => Bio::write(range.start(), self.written(len)),
            (Op::Flush, _) => Bio::flush(),
            (Op::Discard, _) => Bio::discard(range.start(), range.len()),
        };
        Some(bio.tagged(tag))
    }

    /// In virtual time: makes a request for as long as one of `depth` clients of the real world does.
    async fn makes(&self, op: Op, bio: &Bio, depth: u32) {
        let span = self.client.of(op, &mut self.mix.borrow_mut(), bio.len(), depth);
        if self.client.is_on_cpu() {
            self.rt.charge(span);
        } else {
            self.waits(span).await;
        }
    }

    /// Counts what passed between a client's last answer, if this was not its first request, and its next request.
    fn turned(&self, last: Option<Time>, next: Time) {
        if let Some(last) = last {
            let mut tally = self.tally.borrow_mut();
            tally.turns += 1;
            tally.turning += next.since(last);
        }
    }

    /// Bytes to write: a window of one buffer, so that making them costs nothing.
    fn written(&self, len: usize) -> Buf {
        let mut pattern = self.pattern.borrow_mut();
        if pattern.len() < len {
            *pattern = Buf::zeroed(&self.pool, len.next_power_of_two());
        }
        pattern.slice(0, len)
    }

    /// When a request of this recorded time is due.
    fn due(&self, at: Nanos) -> Time {
        self.start + self.speed.apply(at)
    }

    fn is_first_to_count(&self, record: &Record) -> bool {
        self.begun.get().is_none() && self.counting.counts(record.at)
    }

    /// Begins to count, unless another client did.
    fn begins(&self) {
        if self.begun.set(self.stack.stats()).is_ok() {
            self.tally.borrow_mut().begins(self.rt.now());
        }
    }

    fn request(&self, volume: usize, record: &Record, bio: &Bio, due: Time) -> Answered {
        let (op, bytes) = match bio.op {
            esker_block::Op::Read => (OpKind::Read, bio.len()),
            esker_block::Op::Write => (OpKind::Write, bio.len()),
            esker_block::Op::Flush => (OpKind::Flush, 0),
            esker_block::Op::Zero
            | esker_block::Op::Discard
            | esker_block::Op::Ranges(_)
            | esker_block::Op::Extents => (OpKind::Discard, 0),
        };
        Answered { volume, op, bytes, due, at: due, counts: self.counting.counts(record.at) }
    }

    fn submit(self: Rc<Self>, request: Answered, export: &Export, bio: Bio) {
        self.tally.borrow_mut().enters(&request);
        match export.submit(bio) {
            Step::Now(done) => {
                self.ended(&request, &done);
            }
            answer @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                let rt = self.rt.clone();
                let task = rt.spawn("request", async move {
                    let sent = self.rt.now();
                    let done = answer.await;
                    self.wakes_to(sent).await;
                    self.ended(&request, &done);
                });
                task.detach();
            }
        }
    }

    /// In virtual time: waits as long as the real world would be late to see an answer to what was `sent` then.
    async fn wakes_to(&self, sent: Time) {
        let took = self.rt.now().since(sent);
        let late = self.client.sees_late(took, &mut self.wakes.borrow_mut());
        self.waits(late).await;
    }

    /// Even a wait for nothing would let others run.
    async fn waits(&self, span: Nanos) {
        if span > Nanos::ZERO {
            self.rt.sleep(span).await;
        }
    }

    fn ended(&self, request: &Answered, done: &Done) {
        let now = self.rt.now();
        let mut tally = self.tally.borrow_mut();
        tally.answered(&Answered { at: now, ..*request });
        if let Err(error) = &done.result {
            tally.failed += 1;
            tally.first_failure.get_or_insert_with(|| error.to_string());
        }
        let is_quiet = tally.inflight == 0;
        drop(tally);
        self.judges(request, now);
        if is_quiet {
            self.quiet.notify_all();
        }
    }
}

impl Player {
    /// Stops the run if an answer exceeds a bound.
    fn judges(&self, request: &Answered, now: Time) {
        let latency = now.since(request.due);
        if latency > self.bounds.latency_max {
            self.stops(Stop::Late(now));
        }
        let Some((most, allowed)) = self.bounds.misses else { return };
        if request.counts && latency > most {
            self.misses.set(self.misses.get() + 1);
            if self.misses.get() > allowed {
                self.stops(Stop::Missed);
            }
        }
    }

    fn stops(&self, why: Stop) {
        if self.stop.get().is_none() {
            self.stop.set(Some(why));
            self.stopped.notify_one();
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
        let range = fit(&Record { at: Nanos::ZERO, volume: 0, op, offset, len, who: 0 }, &limits, &mut fitted);
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
