//! Checkpoints. Changed nodes of the map, or lists of their changes, and the index of all nodes go to free pages. The
//! root of the index follows in a slot. References of dead nodes are given back before, so that all of it becomes free.
//!
//! Order, each step durable before the next: batches and pages; the slot in front; its copy at the back; only then
//! pages and segments become free that the checkpoint makes superfluous. So the newest slot that is whole always finds
//! its pages and its part of the log.

use std::collections::BTreeSet;
use std::rc::Rc;

use esker_block::{BioError, Buf, LayerHandle, WorkPermit, flight};
use esker_layer_kit::Then;

use crate::format::{Heads, Page, PageId, Slot, slots_of};
use crate::map::written::Content;
use crate::number::{PageNo, SegmentNo};
use crate::segments::State;
use crate::shortage::is_short;
use crate::store::Store;
use crate::volume::{Volume, add};
use esker_base::Nanos;

/// Pages that one worker encodes, and one request writes at most.
const PAGES_PER_PART: usize = 64;
/// Parts under way at once.
const WIDTH: usize = 8;
/// CPU time of one page, charged in virtual time: an estimate for encoding and checksum of 4 KiB.
const PAGE_COST: Nanos = Nanos(1_500);

/// What is to be written, as it was at one moment.
struct CheckpointPlan {
    seq: u64,
    heads: Heads,
    root: PageNo,
    height: u8,
    mappings: u64,
    blocks: u64,
    pages: Vec<(PageNo, Content)>,
    /// Free once this is durable.
    stale: Vec<PageNo>,
    dead: Vec<SegmentNo>,
    /// Whether the log was broken off, and goes on with this.
    mends: bool,
}

/// What a checkpoint that found no space has left to the next one.
#[derive(Default)]
pub(crate) struct Unwritten {
    pages: Vec<(PageNo, Content)>,
    stale: Vec<PageNo>,
}

/// Makes checkpoints in the background, until the volume leaves its stack.
pub(crate) async fn run(volume: Rc<Volume>, handle: LayerHandle) {
    let due = || volume.wants_checkpoint().then_some((Nanos::ZERO, ()));
    let work = async |job: WorkPermit, ()| {
        let result = volume.checkpoint(&volume.store(job.below().clone())).await;
        volume.start_batches();
        // Space may come back; what is due is tried again with the next batch.
        if result.is_ok() { Then::Again } else { Then::Woken }
    };
    volume.checkpoints.run((volume.rt(), Some(&volume.latch)), &handle, due, work).await;
}

impl Volume {
    /// Whether so much has been logged since the last checkpoint that one should be made.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let blocks = self.log.borrow().since_checkpoint;
        !self.checkpointing.is_taken() && blocks * u64::from(self.geometry.block) >= self.config.checkpoint
    }

    /// Whether one is due, or would free what is needed soon.
    fn wants_checkpoint(&self) -> bool {
        self.is_checkpoint_due()
            || !self.checkpointing.is_taken() && (self.is_checkpoint_worth_it() || self.is_space_dead())
    }

    /// Makes the map durable as it is now, so that recovery needs no older part of the log, and frees what is
    /// superfluous then. One at a time; a caller that comes meanwhile waits and makes another one.
    ///
    /// # Errors
    /// No space for its pages, here or below, which the next one makes good; or a failed write, which latches the
    /// volume.
    pub async fn checkpoint(&self, store: &Store) -> Result<(), BioError> {
        let checkpoint = async {
            self.latch.check()?;
            self.give_back_all().await;
            let plan = self.plan();
            let made = match plan {
                Ok(plan) => self.carry_out_or_keep(store, plan).await,
                Err(error) => Err(error),
            };
            made.inspect_err(|_| self.map.borrow_mut().doubt_lists())
        };
        let result = self.checkpointing.alone(checkpoint).await;
        self.note_space();
        result
    }

    /// Gives everything that has changed its pages. From here on the map changes without harm to the plan: nodes are
    /// copied.
    fn plan(&self) -> Result<CheckpointPlan, BioError> {
        let mut log = self.log.borrow_mut();
        let mut map = self.map.borrow_mut();
        let mut segments = self.segments.borrow_mut();
        let mut pages = self.pages.borrow_mut();
        map.list_changes(pages.free() + segments.free() * self.geometry.pages_per_segment());
        let needed = map.outdated_pages();
        while pages.free() < needed {
            let Some(segment) = segments.take(State::Map, 0) else {
                return Err(self.no_space());
            };
            pages.add(segment, &Default::default());
        }
        let mends = self.shortage.is_broken_off();
        if mends && !log.is_settled() {
            return Err(self.no_space());
        }
        if mends {
            self.leave_heads(&mut log, &mut segments);
        }
        let (seq, heads) = log.installed();
        log.since_checkpoint = 0;
        let written = map.write_out(&mut || pages.take().expect("counted above"));
        let left = self.shortage.unwritten.take();
        let stale = [left.stale, map.take_stale()].concat();
        let (root, height) = map.index_root();
        let superseded: BTreeSet<PageNo> = stale.iter().copied().collect();
        let pages = left.pages.into_iter().filter(|(page, _)| !superseded.contains(page)).chain(written).collect();
        Ok(CheckpointPlan {
            seq,
            heads,
            root,
            height,
            mappings: map.mappings(),
            blocks: map.blocks(),
            pages,
            stale,
            dead: segments.dead(seq),
            mends,
        })
    }

    /// Without space below, nothing durable has changed, and the next checkpoint writes the missing parts. Pages and a
    /// slot of this one are as those of a checkpoint that a power cut broke off.
    async fn carry_out_or_keep(&self, store: &Store, plan: CheckpointPlan) -> Result<(), BioError> {
        let written = self.carry_out(store, &plan).await;
        match &written {
            Ok(()) => {
                self.free(plan.stale, plan.dead);
                if plan.mends {
                    self.shortage.end(self);
                }
            }
            Err(_) => *self.shortage.unwritten.borrow_mut() = Unwritten { pages: plan.pages, stale: plan.stale },
        }
        written
    }

    async fn carry_out(&self, store: &Store, plan: &CheckpointPlan) -> Result<(), BioError> {
        let generation = self.generation.get() + 1;
        let written = self.write_pages(store, &plan.pages, generation).await;
        written.map_err(|error| self.broken("a page of the map", error))?;
        self.flush_below(store).await?;
        store.flush_map().await.map_err(|error| self.broken("a page of the map", error))?;
        let slot = Slot {
            geometry: self.geometry,
            volume: self.identity,
            generation,
            epoch: self.epoch,
            seq: plan.seq,
            heads: plan.heads,
            root: plan.root,
            height: plan.height,
            mappings: plan.mappings,
            blocks: plan.blocks,
        };
        for at in slots_of(generation, self.config.medium) {
            let written = store.write_slot(at, Buf::from_bytes(self.pool(), &slot.encode())).await.result;
            written.map_err(|error| self.broken("a slot of the superblock", error))?;
        }
        self.generation.set(generation);
        add(&self.counts.checkpoints, 1);
        add(&self.counts.pages_written, plan.pages.len() as u64);
        Ok(())
    }

    fn broken(&self, what: &str, error: BioError) -> BioError {
        if !is_short(&error) {
            self.latch(&format!("{what} could not be written"), &error);
        }
        error
    }

    async fn write_pages(&self, store: &Store, pages: &[(PageNo, Content)], generation: u64) -> Result<(), BioError> {
        let size = self.geometry.page as usize;
        let most = (self.config.transfer_max as usize / size).clamp(1, PAGES_PER_PART);
        let mut sorted: Vec<(PageNo, Content)> = pages.to_vec();
        sorted.sort_by_key(|(page, _)| *page);
        let mut result = Ok(());
        // Parts of one round are encoded by workers side by side, and written side by side.
        for round in sorted.chunks(most * WIDTH) {
            let parts = round.chunks(most).map(|part| self.encode_pages(part.to_vec(), generation));
            let encoded = esker_rt::sync::join_all(parts.collect::<Vec<_>>()).await;
            let numbers = round.iter().map(|(page, _)| *page).collect::<Vec<_>>();
            let bytes = encoded.concat();
            let runs = runs(&numbers, most);
            let steps = runs.into_iter().map(|(at, count)| {
                let page = numbers[at];
                store.write_pages(page, Buf::from_bytes(self.pool(), &bytes[at * size..(at + count) * size]))
            });
            flight::windowed(self.rt(), WIDTH, steps, |done| {
                if let Err(error) = done.result {
                    result = Err(error);
                }
                result.is_ok()
            })
            .await;
            result.clone()?;
        }
        result
    }

    async fn encode_pages(&self, part: Vec<(PageNo, Content)>, generation: u64) -> Vec<u8> {
        let (size, volume) = (self.geometry.page as usize, self.identity as u32);
        let cost = PAGE_COST * part.len() as u64;
        let work = move || {
            let mut bytes = vec![0; part.len() * size];
            for ((page, content), out) in part.iter().zip(bytes.chunks_exact_mut(size)) {
                Page::of(content).encode(PageId { volume, page: *page, generation }, out);
            }
            bytes
        };
        self.rt().worker(cost, work).await
    }

    /// The checkpoint is durable: what only the one before it needed is free.
    fn free(&self, stale: Vec<PageNo>, dead: Vec<SegmentNo>) {
        let spare = self.map.borrow().pages();
        let mut gone = {
            let mut pages = self.pages.borrow_mut();
            stale.into_iter().for_each(|page| pages.give(page));
            pages.shrink(spare)
        };
        let mut segments = self.segments.borrow_mut();
        gone.extend(dead.into_iter().filter(|segment| segments.is_unread(*segment)));
        self.learn_lifespan(gone.iter().map(|segment| segments.get(*segment)));
        add(&self.counts.segments_freed, gone.len() as u64);
        gone.into_iter().for_each(|segment| segments.free_now(segment));
        self.erasures.wake();
    }
}

/// Runs of pages that follow each other, `most` long: where each begins in the list, and how long it is.
fn runs(pages: &[PageNo], most: usize) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        match runs.last_mut() {
            Some((_, count)) if *count < most && pages[at - 1].next() == *page => *count += 1,
            _ => runs.push((at, 1)),
        }
    }
    runs
}
