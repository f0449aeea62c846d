//! The whole of a replay: lines in, calls out.

use std::io::{self, BufRead};

use esker_base::Nanos;

use crate::lines::next_line;
use crate::moment::Moment;
use crate::packet::{Direction, Packet, PacketFlaw};
use crate::player::{NfsPayload, NfsPlayer};
use crate::report::NfsReport;
use crate::request::{NfsReply, NfsRequest};
use crate::target::ReplayTarget;
use crate::transactions::Transactions;
use crate::tree::TreeLimits;

/// Share of the memory that requests without replies may take: one part of so many.
const PENDING_SHARE: u64 = 8;
/// Lines between two looks of the caller at the counts.
const LINES_PER_LOOK: u64 = 256;

/// How a trace is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NfsReplayOptions {
    /// Memory of all tables, in bytes.
    pub memory: u64,
    /// Time of the trace between two syncs of the target; never if `None`.
    pub sync_every: Option<Nanos>,
    /// What writes carry.
    pub payload: NfsPayload,
    /// Packets before it are passed over.
    pub begin: Option<Moment>,
    /// The replay ends before it.
    pub end: Option<Moment>,
}

/// Replays a trace. `look` sees the counts every few lines; the replay ends early when it answers false. Answers the
/// counts, and the error at which the stream of the trace ended, if one did. What the target refuses is counted.
pub async fn replay<T: ReplayTarget>(
    mut trace: impl BufRead,
    target: T,
    options: NfsReplayOptions,
    look: &mut dyn FnMut(&NfsReport) -> bool,
) -> (NfsReport, io::Result<()>) {
    let mut run = NfsRun::new(target, options);
    let mut buffer = Vec::new();
    let ended = loop {
        let line = match next_line(&mut trace, &mut buffer) {
            Ok(Some(line)) => line,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let goes_on = run.line(line.bytes, line.is_cut).await;
        let is_looked_at = run.counts.lines.is_multiple_of(LINES_PER_LOOK);
        if !goes_on || is_looked_at && !look(&run.report()) {
            break Ok(());
        }
    };
    (run.finish().await, ended)
}

/// A replay between two lines.
pub struct NfsRun<T> {
    options: NfsReplayOptions,
    player: NfsPlayer<T>,
    transactions: Transactions,
    /// What is counted before pairs come about.
    counts: NfsReport,
    /// Times of the first packet, and of the first and the last that were used.
    first: Option<Nanos>,
    used: Option<(Nanos, Nanos)>,
}

impl<T: ReplayTarget> NfsRun<T> {
    /// A replay that has seen nothing yet.
    pub fn new(target: T, options: NfsReplayOptions) -> NfsRun<T> {
        let pending = options.memory / PENDING_SHARE;
        let limits = TreeLimits::usual(options.memory - pending);
        NfsRun {
            options,
            player: NfsPlayer::new(target, limits, options.payload, options.sync_every),
            transactions: Transactions::new(pending),
            counts: NfsReport::default(),
            first: None,
            used: None,
        }
    }

    /// Takes a line: whether the replay goes on behind it. A line that lacks its end is damaged.
    pub async fn line(&mut self, line: &[u8], is_cut: bool) -> bool {
        self.counts.lines += 1;
        self.player.at_line(self.counts.lines);
        let packet = match Packet::read(line) {
            Ok(packet) if !is_cut => packet,
            Err(PacketFlaw::Foreign) => {
                self.counts.skipped += 1;
                return true;
            }
            Ok(_) | Err(PacketFlaw::Short | PacketFlaw::Time | PacketFlaw::Direction | PacketFlaw::Xid) => {
                self.counts.malformed += 1;
                return true;
            }
        };
        let first = *self.first.get_or_insert(packet.time);
        if self.options.end.is_some_and(|end| packet.time >= end.after(first)) {
            return false;
        }
        if self.options.begin.is_some_and(|begin| packet.time < begin.after(first)) {
            self.counts.early += 1;
            return true;
        }
        let begun = self.used.map_or(packet.time, |(begun, _)| begun);
        self.used = Some((begun, packet.time));
        self.counts.cut += u64::from(packet.attributes.is_cut);
        self.packet(&packet).await;
        true
    }

    async fn packet(&mut self, packet: &Packet<'_>) {
        match packet.direction {
            Direction::Call => {
                self.counts.requests += 1;
                match NfsRequest::of(packet) {
                    Ok(request) => self.transactions.ask(packet.time, packet.xid, request),
                    Err(_) => self.counts.malformed += 1,
                }
            }
            Direction::Reply { is_ok } => {
                self.counts.responses += 1;
                match self.transactions.answer(packet.time, packet.xid) {
                    None => self.counts.orphans += 1,
                    Some(_) if !is_ok => self.counts.refused += 1,
                    Some(request) => self.player.play(packet.time, request, NfsReply::of(packet)).await,
                }
            }
        }
    }

    /// Makes the target durable, if syncs are wanted. The counts of all.
    pub async fn finish(&mut self) -> NfsReport {
        if self.options.sync_every.is_some() {
            self.player.sync().await;
        }
        let mut report = self.report();
        report.dropped += self.transactions.waiting();
        report
    }

    /// The player, with image and target.
    pub fn player(&mut self) -> &mut NfsPlayer<T> {
        &mut self.player
    }

    /// The counts up to here.
    pub fn report(&self) -> NfsReport {
        let NfsReport { lines, skipped, early, malformed, cut, requests, responses, orphans, refused, .. } =
            self.counts;
        let waited = self.transactions.counts();
        NfsReport {
            lines,
            skipped,
            early,
            malformed,
            cut,
            requests,
            responses,
            orphans,
            refused,
            dropped: waited.replaced + waited.evicted,
            timed_out: waited.timed_out,
            trace_seconds: self.used.map_or(0, |(begun, last)| last.saturating_sub(begun).0 / 1_000_000_000),
            ..self.player.report()
        }
    }
}
