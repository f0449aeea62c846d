//! Asks and judges.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::join_all;

use super::model::Model;
use super::plan::{Ask, Planner};
use super::{Options, Report, Violation, refusals, windows};
use crate::bio::{Done, OpKind, Reply};
use crate::buf::Buf;
use crate::device::Device;
use crate::limits::{Limits, Support};

pub(super) struct Run {
    rt: Rt,
    device: Rc<dyn Device>,
    limits: Limits,
    /// Largest read or write that is asked.
    transfer_max: u32,
    options: Options,
    pool: Pool,
    model: Model,
    planner: Planner,
    report: Report,
    step: String,
}

impl Run {
    pub(super) fn new(rt: Rt, device: Rc<dyn Device>, options: Options) -> Run {
        let limits = device.limits().clone();
        let rng = esker_base::Stream::named(options.seed, "conformance");
        let transfer_max = limits.transfer_max.min(options.request_max).max(limits.block);
        let asked = Limits { transfer_max, ..limits.clone() };
        Run {
            rt,
            planner: Planner::new(rng, &asked, windows(&limits, options.window)),
            transfer_max,
            model: Model::new(u64::from(limits.block)),
            device,
            limits,
            options,
            pool: Pool::default(),
            report: Report::default(),
            step: String::new(),
        }
    }

    pub(super) async fn all(mut self) -> Result<Report, Violation> {
        self.step = "limits".into();
        check_limits(&self.limits).map_err(|what| self.violation(&what))?;
        self.adopt().await?;
        self.boundaries().await?;
        for batch in 0..self.options.batches {
            self.step = format!("batch {batch}");
            let asks = self.planner.batch(self.options.inflight);
            self.together(asks).await?;
        }
        if self.options.refuses {
            self.wrong_requests().await?;
        }
        self.read_back().await?;
        Ok(self.report)
    }

    /// Takes over what the windows hold.
    async fn adopt(&mut self) -> Result<(), Violation> {
        self.step = "first read".into();
        for range in self.whole_windows() {
            let ask = Ask::Read { range };
            let done = self.submit(&ask).await;
            self.judge(&ask, &done)?;
            if self.options.keeps_data {
                self.model.adopt(range.start(), &done.buf.to_vec());
            }
        }
        Ok(())
    }

    /// First block, last block, largest transfer at either end, and a flush after it.
    async fn boundaries(&mut self) -> Result<(), Violation> {
        self.step = "boundaries".into();
        let (size, block) = (self.limits.size, u64::from(self.limits.block));
        let most = (u64::from(self.transfer_max) / block * block).min(size);
        for (start, len) in [(0, block), (size - block, block), (0, most), (size - most, most)] {
            let range = ByteRange::new(start, len).expect("inside the device");
            if self.limits.support(OpKind::Write) != Support::No {
                let write = self.planner.write(range);
                self.together(vec![write]).await?;
            }
            self.together(vec![Ask::Flush]).await?;
            self.together(vec![Ask::Read { range }]).await?;
        }
        if self.limits.support(OpKind::Extents) != Support::No {
            let range = ByteRange::new(0, size).expect("the device");
            self.together(vec![Ask::Extents { range }]).await?;
        }
        Ok(())
    }

    /// Everything once more, after a flush.
    async fn read_back(&mut self) -> Result<(), Violation> {
        self.step = "last read".into();
        self.together(vec![Ask::Flush]).await?;
        let reads = self.whole_windows().into_iter().map(|range| Ask::Read { range }).collect();
        self.together(reads).await
    }

    async fn wrong_requests(&mut self) -> Result<(), Violation> {
        for wrong in refusals::all(&self.limits, &self.pool) {
            self.step = "wrong requests".into();
            let (len, described) = (wrong.bio.buf.len(), wrong.bio.buf.is_described());
            let done = self.device.submit(wrong.bio).await;
            let verdict = refusals::judge(&done, &wrong.want).and_then(|()| judge_buffer(&done.buf, len, described));
            verdict.map_err(|what| self.violation(&format!("{}: {what}", wrong.what)))?;
            self.report.refused += 1;
        }
        Ok(())
    }

    /// Starts all, waits for all, judges all, and only then changes the model.
    async fn together(&mut self, asks: Vec<Ask>) -> Result<(), Violation> {
        let flights: Vec<_> = asks.iter().map(|ask| self.submit(ask)).collect();
        let answers = join_all(flights).await;
        for (ask, done) in asks.iter().zip(&answers) {
            self.judge(ask, done)?;
            self.follow_extents(ask, done).await?;
        }
        asks.iter().for_each(|ask| self.apply(ask));
        Ok(())
    }

    fn submit(&self, ask: &Ask) -> esker_rt::JoinHandle<Done> {
        let bio = ask.bio(&self.pool, self.limits.block as usize);
        let device = self.device.clone();
        self.rt.spawn("conformance", async move { device.submit(bio).await })
    }

    fn judge(&mut self, ask: &Ask, done: &Done) -> Result<(), Violation> {
        let verdict = self.verdict(ask, done).map_err(|what| self.violation(&format!("{ask}: {what}")));
        ask.kinds().into_iter().for_each(|kind| self.report.answered[kind as usize] += 1);
        verdict
    }

    fn verdict(&self, ask: &Ask, done: &Done) -> Result<(), String> {
        let reply = done.result.as_ref().map_err(|e| format!("failed: {e}"))?;
        match (ask, reply) {
            (Ask::Extents { .. }, Reply::Extents(_)) => {}
            (Ask::Extents { .. }, Reply::Empty) => return Err("an extent query brought no extents".into()),
            (_, Reply::Extents(_)) => return Err("extents came without a query".into()),
            (_, Reply::Empty) => {}
        }
        match ask {
            Ask::Read { range } => {
                judge_buffer(&done.buf, range.len() as usize, false)?;
                let judged = self.options.keeps_data;
                if judged { self.model.judge_read(range.start(), &done.buf.to_vec()) } else { Ok(()) }
            }
            Ask::ReadDescribed { range } => judge_buffer(&done.buf, range.len() as usize, true),
            Ask::Write { range, bytes, .. } => {
                judge_buffer(&done.buf, range.len() as usize, false)?;
                let same = done.buf.to_vec() == *bytes;
                if same { Ok(()) } else { Err("the payload came back changed".into()) }
            }
            Ask::WriteDescribed { range, .. } => judge_buffer(&done.buf, range.len() as usize, true),
            Ask::Extents { range } => self.judge_extents(*range, reply),
            Ask::Flush | Ask::Zero { .. } | Ask::Discard { .. } | Ask::Ranges { .. } => {
                judge_buffer(&done.buf, 0, true)
            }
        }
    }

    fn judge_extents(&self, range: ByteRange, reply: &Reply) -> Result<(), String> {
        let covered = covered(reply);
        let Reply::Extents(extents) = reply else { return Err("no extents".into()) };
        if extents.iter().any(|e| e.len == 0 || !e.len.is_multiple_of(u64::from(self.limits.block))) {
            return Err(format!("an extent is empty or not whole blocks: {extents:?}"));
        }
        if covered == 0 || covered > range.len() {
            return Err(format!("extents cover {covered} of {} bytes", range.len()));
        }
        if self.options.keeps_data { self.model.judge_extents(range.start(), extents) } else { Ok(()) }
    }

    /// An answer may end early; asking on must reach the end of the range.
    async fn follow_extents(&mut self, ask: &Ask, done: &Done) -> Result<(), Violation> {
        let (Ask::Extents { range }, Ok(reply)) = (ask, &done.result) else { return Ok(()) };
        let mut at = range.start() + covered(reply);
        while at < range.end() {
            let rest = Ask::Extents { range: ByteRange::new(at, range.end() - at).expect("part of a range") };
            let done = self.submit(&rest).await;
            self.judge(&rest, &done)?;
            at += done.result.as_ref().map_or(0, covered);
        }
        Ok(())
    }

    fn apply(&mut self, ask: &Ask) {
        if !self.options.keeps_data {
            return;
        }
        match ask {
            Ask::Write { range, bytes, .. } => self.model.write(range.start(), bytes),
            Ask::WriteDescribed { range, seed } => {
                self.model.write(range.start(), &Buf::described(range.len() as usize, *seed).to_vec());
            }
            Ask::Zero { range, .. } => self.model.zero(*range),
            Ask::Discard { range } => self.model.discard(*range),
            Ask::Ranges { ops } => self.model.remap(ops),
            Ask::Read { .. } | Ask::ReadDescribed { .. } | Ask::Flush | Ask::Extents { .. } => {}
        }
    }

    /// The windows in pieces that one request may read.
    fn whole_windows(&self) -> Vec<ByteRange> {
        let block = u64::from(self.limits.block);
        let most = u64::from(self.limits.transfer_max) / block * block;
        let windows = windows(&self.limits, self.options.window);
        windows.into_iter().flat_map(|window| window.split_at_multiples(most)).collect()
    }

    fn violation(&self, what: &str) -> Violation {
        Violation { seed: self.options.seed, step: self.step.clone(), what: what.to_string() }
    }
}

fn check_limits(limits: &Limits) -> Result<(), String> {
    let block = u64::from(limits.block);
    let rules = [
        (limits.block.is_power_of_two(), "the block is no power of two"),
        (limits.size > 0 && limits.size.is_multiple_of(block.max(1)), "the size is not whole blocks"),
        (limits.remap.is_multiple_of(limits.block.max(1)) && limits.remap > 0, "remapping is not in whole blocks"),
        (
            limits.size.is_multiple_of(u64::from(limits.remap.max(1))) || !remaps(limits),
            "the size cannot be remapped whole",
        ),
        (limits.atomic >= limits.block, "the atomic unit is smaller than a block"),
        (limits.transfer_max >= limits.block, "the largest transfer is smaller than a block"),
        (limits.support(OpKind::Read) != Support::No, "reads are not supported"),
        (limits.support(OpKind::Flush) != Support::No, "flushes are not supported"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(format!("{what}: {limits:?}")),
        None => Ok(()),
    }
}

fn remaps(limits: &Limits) -> bool {
    [OpKind::Clone, OpKind::Move, OpKind::Delete].into_iter().any(|kind| limits.support(kind) != Support::No)
}

/// Whether the request's buffer came back.
fn judge_buffer(buf: &Buf, len: usize, described: bool) -> Result<(), String> {
    if buf.len() != len || (len > 0 && buf.is_described() != described) {
        return Err(format!("{buf:?} came back for a payload of {len} bytes (described: {described})"));
    }
    Ok(())
}

/// Bytes that an answer with extents covers.
fn covered(reply: &Reply) -> u64 {
    match reply {
        Reply::Extents(extents) => extents.iter().map(|e| e.len).fold(0, u64::saturating_add),
        Reply::Empty => 0,
    }
}
