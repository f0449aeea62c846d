//! A scrub: all members in sync are read and compared, many pieces at once. Where they differ, the content of the first
//! one counts, as after a crash. Where one cannot be read, it is written again: most devices mend a bad sector then.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::flight::windowed;
use esker_block::locks::Mode;
use esker_block::{Below, Bio, Buf, LayerHandle, Step};
use esker_rt::Level;
use serde_json::{Value, json};

use crate::members::State;
use crate::resync::BACKGROUND;
use crate::run::Mirror;

/// Windows of pieces that are compared before other work has a turn.
const BATCH: u64 = 4;

/// The last scrub, or the one that goes on.
#[derive(Default)]
pub(crate) struct Scrub {
    /// Bytes that were compared.
    done: Cell<u64>,
    /// Bytes of pieces in which members differed.
    differing: Cell<u64>,
    /// Bytes of pieces that a member could not read.
    unreadable: Cell<u64>,
    /// Whether it is over, or is to be.
    is_over: Cell<bool>,
}

impl Scrub {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(crate) fn describe(&self, data: u64) -> Value {
        json!({
            "running": !self.is_over.get(),
            "done_bytes": self.done.get(),
            "bytes": data,
            "differing_bytes": self.differing.get(),
            "unreadable_bytes": self.unreadable.get(),
        })
    }
}

fn add(count: &Cell<u64>, bytes: u64) {
    count.set(count.get() + bytes);
}

impl Mirror {
    /// Begins a scrub, unless one goes on.
    pub(crate) fn start_scrub(&self) {
        let mut scrub = self.scrub.borrow_mut();
        if scrub.as_ref().is_none_or(|scrub| scrub.is_over()) {
            *scrub = Some(Rc::default());
        }
        drop(scrub);
        self.background.wake();
    }

    /// Ends the scrub that goes on.
    pub(crate) fn stop_scrub(&self) {
        self.scrub.borrow().iter().for_each(|scrub| scrub.is_over.set(true));
    }

    /// The scrub that is to go on.
    pub(crate) fn wanted_scrub(&self) -> Option<Rc<Scrub>> {
        self.scrub.borrow().clone().filter(|scrub| !scrub.is_over())
    }

    /// Compares some pieces: other work in the background goes on between two calls.
    pub(crate) async fn scrub_some(self: &Rc<Self>, handle: &LayerHandle, scrub: &Rc<Scrub>) {
        let (data, from) = (self.superblock.borrow().data, scrub.done.get());
        let most = self.config.chunk * BATCH * self.config.window as u64;
        let some = ByteRange::new(from, most.min(data - from)).expect("inside the volume");
        let steps = some.split_at_multiples(self.config.chunk).map(|piece| {
            let (mirror, handle, scrub) = (self.clone(), handle.clone(), scrub.clone());
            Step::later(async move { mirror.scrub_piece(&handle, &scrub, piece).await.then_some(piece.len()) })
        });
        windowed(self.rt(), self.config.window, steps, |len: Option<u64>| {
            add(&scrub.done, len.unwrap_or_default());
            len.is_some()
        })
        .await;
        if scrub.done.get() < data {
            return;
        }
        scrub.is_over.set(true);
        let (name, differing, unreadable) = (&self.config.name, scrub.differing.get(), scrub.unreadable.get());
        let level = if differing + unreadable == 0 { Level::Info } else { Level::Warn };
        self.rt().log(
            level,
            format_args!("{name}: scrubbed {data} bytes; {differing} differed, {unreadable} could not be read"),
        );
    }

    /// Compares a piece, which no client changes meanwhile. Whether the scrub goes on.
    async fn scrub_piece(&self, handle: &LayerHandle, scrub: &Scrub, piece: ByteRange) -> bool {
        let _turn = self.pace.piece().await;
        let Some(job) = handle.enter().await else { return false };
        if scrub.is_over() || self.background.is_closed() || self.latch.is_set() {
            return false;
        }
        let ticket = self.locks.enter([piece], Mode::Exclusive);
        self.locks.granted(ticket).await;
        // What a resync or the start of a mirror writes anyway tells nothing.
        if !self.regions(piece).any(|region| self.suspect.borrow().has(region)) {
            self.compare(job.below(), scrub, piece).await;
        }
        self.locks.leave(ticket);
        true
    }

    async fn compare(&self, below: &Below, scrub: &Scrub, piece: ByteRange) {
        let mut first: Option<Buf> = None;
        let (mut differing, mut unreadable) = (Vec::new(), Vec::new());
        for lower in self.members.which(|state| state == State::InSync) {
            let buf = Buf::unique(self.pool(), piece.len() as usize);
            let done = self.submit(below, lower, Bio::read(piece.start(), buf).tagged(BACKGROUND)).await;
            match (done.result, &first) {
                (Err(_), _) => unreadable.push(lower),
                (Ok(_), Some(first)) if !first.same_bytes(&done.buf) => differing.push(lower),
                (Ok(_), Some(_)) => {}
                (Ok(_), None) => first = Some(done.buf),
            }
        }
        add(&scrub.differing, if differing.is_empty() { 0 } else { piece.len() });
        add(&scrub.unreadable, if unreadable.is_empty() { 0 } else { piece.len() });
        let targets = [differing, unreadable].concat();
        let Some(first) = first.filter(|_| !targets.is_empty()) else { return };
        let mut bio = Bio::write(piece.start(), first).tagged(BACKGROUND);
        for answer in self.to_all(below, &mut bio, &targets, self.config.tries).await {
            match &answer.done.result {
                Ok(_) => add(&self.counts.repaired, piece.len()),
                Err(error) => self.lose(answer.lower, error),
            }
        }
    }
}
