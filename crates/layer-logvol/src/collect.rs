//! The collector: finds segments with dead blocks, copies what is live in them, points the map at the copies, and so
//! leaves segments that the next checkpoint frees.
//!
//! Invariant: never decides that a segment is free. A segment is free when no mapping refers to it, which is counted
//! apart from all that the collector believes; a wrong bitmap or reverse map costs a visit in vain, never data.
//!
//! Nothing of a move is logged. A replay begins with the map of the newest checkpoint, and what that refers to is still
//! there: a moved block is found in its old place, until a checkpoint holds the new one. So a move of a block with a
//! million references costs no record, recovery knows nothing of the collector, and a crash costs the copies since the
//! last checkpoint.
//!
//! The way of a segment: *rest*; chosen by the count of a pass, *candidate*; its reverse map made by the next pass,
//! *ready*; *cleaning*; rest again, without a reference. If its references do not fit in memory, it is ready at once,
//! its live blocks are copied as the count saw them, and the next pass points whatever it meets at the copies:
//! *forwarding*.
//!
//! Reading order: [`sweep`] (walking a map on workers), `look` (what a pass notes), `victim` (what is known of a
//! segment that is to be cleaned), `pass`, `copies` (where moved blocks go), `held` (what only snapshots hold),
//! `clean`, `pace` (how fast), `room` (what happens when), [`settings`].

mod clean;
mod copies;
mod held;
mod look;
mod pace;
mod pass;
mod room;
pub mod settings;
pub mod sweep;
mod victim;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use esker_base::Stream;
use esker_cleaning::{Policy, Separator};
use esker_layer_kit::{Background, Turn};

use crate::format::Record;
use crate::map::{Extent, Mapping};
use crate::number::SegmentNo;
use crate::volume::Volume;
use copies::Copies;
use held::HeldParts;
use pace::Pace;
pub(crate) use room::{clean_on, scan_on};
pub use settings::{Separation, Settings, SettingsError};
use victim::{Listed, Victim};

/// A pass that found nothing worth cleaning.
#[derive(Clone, Copy)]
struct Vain {
    /// References that had gone by then.
    released: u64,
    /// How full victims might be.
    limit: f64,
}

/// What the collector knows now.
struct State {
    /// Segments that are to be cleaned, from choice to end.
    victims: BTreeMap<SegmentNo, Victim>,
    /// Those of them that the cleaner may take, in the order of their worth.
    ready: VecDeque<SegmentNo>,
    copies: Copies,
    separator: Separator,
    held: HeldParts,
    /// Segments in which something could not be read: they stay as they are until the volume is opened anew.
    unreadable: BTreeSet<SegmentNo>,
    /// Where the next pass begins to count, if it cannot count all segments.
    rotation: SegmentNo,
    /// Segments that were counted since something was chosen.
    counted_in_vain: u64,
    vain: Option<Vain>,
    /// Bytes that victims take, and the most that they ever took.
    memory: u64,
    memory_peak: u64,
}

/// What it did.
#[derive(Default)]
struct Counts {
    passes: Cell<u64>,
    scanned: Cell<u64>,
    cleaned: Cell<u64>,
    forwarded: Cell<u64>,
    moved_blocks: Cell<u64>,
    remapped_blocks: Cell<u64>,
    avoided_blocks: Cell<u64>,
    stale: Cell<u64>,
    held_writers: Cell<u64>,
}

/// A volume's collector.
pub(crate) struct Collector {
    settings: Settings,
    policy: &'static dyn Policy,
    /// Draws those among which a victim is the best.
    draws: RefCell<Stream>,
    state: RefCell<State>,
    pace: Pace,
    scanning: Turn,
    cleaning: Turn,
    /// How many want space whatever the pace.
    forced: Cell<u32>,
    /// The tasks that make passes, and that clean.
    pub tasks: Background,
    counts: Counts,
}

impl Collector {
    pub(crate) fn new(settings: Settings, draws: Stream) -> Collector {
        let state = State {
            victims: BTreeMap::new(),
            ready: VecDeque::new(),
            copies: Copies::default(),
            separator: Separator::new(),
            held: HeldParts::default(),
            unreadable: BTreeSet::new(),
            rotation: SegmentNo::default(),
            counted_in_vain: 0,
            vain: None,
            memory: 0,
            memory_peak: 0,
        };
        Collector {
            policy: settings.policy(),
            draws: RefCell::new(draws),
            state: RefCell::new(state),
            pace: Pace::new(settings.pacing),
            scanning: Turn::default(),
            cleaning: Turn::default(),
            forced: Cell::new(0),
            tasks: Background::default(),
            counts: Counts::default(),
            settings,
        }
    }

    /// A mapping into a watched segment was added: the cleaner must hear of it. That one goes need not be told, because
    /// the cleaner looks at the map before it copies, and again when it points mappings at the copy.
    pub(crate) fn note(&self, mapping: Mapping, segment: SegmentNo) {
        self.state.borrow_mut().arrive(segment, mapping, self.settings.memory);
    }

    /// A record has changed the map at these places.
    pub(crate) fn note_record(&self, record: &Record, added: &[Extent]) {
        let held = &mut self.state.borrow_mut().held;
        match *record {
            Record::Write { lba, .. } => held.written(lba),
            Record::Clone { .. } | Record::Move { .. } => added.iter().for_each(|extent| held.cloned(*extent)),
            Record::Delete { .. } | Record::Apart { .. } => {}
        }
    }

    /// There may be something to do.
    pub(crate) fn wake(&self) {
        self.tasks.wake();
    }

    /// Live blocks that were moved.
    pub(crate) fn moved_blocks(&self) -> u64 {
        self.counts.moved_blocks.get()
    }

    /// Segments that wait for the cleaner.
    pub(crate) fn ready(&self) -> usize {
        self.state.borrow().ready.len()
    }
}

impl State {
    /// Lists a mapping into a segment that is to be cleaned, if lists may take that much memory.
    fn arrive(&mut self, segment: SegmentNo, mapping: Mapping, memory: u64) {
        let spare = memory.saturating_sub(self.memory);
        if let Some(victim) = self.victims.get_mut(&segment) {
            let before = victim.bytes();
            victim.arrive(mapping, spare);
            self.memory = self.memory + victim.bytes() - before;
            self.memory_peak = self.memory_peak.max(self.memory);
        }
    }

    /// For the cleaner, which has dropped what it was given before: mappings that were listed since; none if there is
    /// no list.
    fn take_mappings(&mut self, segment: SegmentNo) -> Option<Vec<Listed>> {
        let victim = self.victims.get_mut(&segment)?;
        let before = victim.bytes();
        let taken = victim.take();
        self.memory = self.memory + victim.bytes() - before;
        taken
    }

    /// Keeps what is known of a segment, instead of what was.
    fn keep(&mut self, segment: SegmentNo, victim: Victim) {
        self.drop_victim(segment);
        self.memory += victim.bytes();
        self.memory_peak = self.memory_peak.max(self.memory);
        self.victims.insert(segment, victim);
    }

    fn drop_victim(&mut self, segment: SegmentNo) {
        // What it leaves may be enough for another one.
        self.vain = None;
        self.memory -= self.victims.remove(&segment).map_or(0, |victim| victim.bytes());
    }
}

impl Volume {
    /// What the collector tells about itself.
    pub(crate) fn collector_stats(&self) -> Vec<(&'static str, f64)> {
        use crate::segments::Stage;
        let counts = &self.collector.counts;
        let (segments, state) = (self.segments.borrow(), self.collector.state.borrow());
        let staged = |stage| segments.iter().filter(|(_, segment)| segment.stage == stage).count() as f64;
        let block = f64::from(self.geometry.block);
        let per = |count: &Cell<u64>| count.get() as f64;
        vec![
            ("gc_candidates", staged(Stage::Candidate)),
            ("gc_ready", staged(Stage::Ready)),
            ("segments_cleaning", staged(Stage::Cleaning)),
            ("gc_remapping", staged(Stage::Forwarding)),
            ("segments_cleaned", per(&counts.cleaned)),
            ("gc_remapped", per(&counts.forwarded)),
            ("passes", per(&counts.passes)),
            ("mappings_scanned", per(&counts.scanned)),
            ("moved_bytes", per(&counts.moved_blocks) * block),
            ("remapped_bytes", per(&counts.remapped_blocks) * block),
            ("gc_bytes_avoided", per(&counts.avoided_blocks) * block),
            ("mappings_stale", per(&counts.stale)),
            ("reverse_bytes", state.memory as f64),
            ("reverse_bytes_peak", state.memory_peak as f64),
            ("cleaner_share", self.collector.pace.share()),
            ("writers_held", per(&counts.held_writers)),
            ("segments_unreadable", state.unreadable.len() as f64),
        ]
    }
}

/// Counts steps, and takes turns with other tasks that are ready to run after each `every`: long lists are worked off
/// in parts.
struct Breather<'a> {
    volume: &'a Volume,
    done: u32,
}

impl Breather<'_> {
    const EVERY: u32 = 256;

    fn of(volume: &Volume) -> Breather<'_> {
        Breather { volume, done: 0 }
    }

    async fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(Breather::EVERY) {
            self.volume.rt().yield_now().await;
        }
    }
}
