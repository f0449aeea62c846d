//! How copies are kept.

use esker_base::Nanos;
use std::ops::RangeInclusive;

use esker_block::{Limits, OpKind, Support};
use esker_layer_kit::slots::SlotShape;

use crate::PAGE;

/// Bytes of a half of the map's journal.
const JOURNAL: RangeInclusive<u64> = 64 << 10..=4 << 20;
/// The fast device's part that a half takes at most.
const JOURNAL_SHARE: u64 = 256;

/// Bytes of a half of the journal of a map on this device.
pub fn journal_bytes(fast: &Limits) -> u64 {
    (fast.size / JOURNAL_SHARE).clamp(*JOURNAL.start(), *JOURNAL.end()) / PAGE * PAGE
}

/// Limits of a volume on `home` with copies beside it. `both`: the stricter of the limits of both devices.
///
/// # Errors
/// In words, that blocks are larger than a page.
pub fn volume_limits(home: &Limits, both: &Limits) -> Result<Limits, String> {
    let block = u64::from(both.block);
    if block > PAGE {
        return Err(format!("blocks of {block} bytes are larger than a page of {PAGE}"));
    }
    let limits = Limits {
        size: home.size / block * block,
        atomic: both.block,
        volatile_cache: true,
        ranges_max: 0,
        discard: home.discard.max(both.block),
        ..both.clone()
    };
    let zero = both.support(OpKind::Zero);
    let discard = if zero == Support::No { Support::No } else { home.support(OpKind::Discard) };
    Ok(limits.with(OpKind::Zero, zero).with(OpKind::Discard, discard).with(OpKind::Extents, Support::No))
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteMode {
    /// Aside; home gets it later.
    Back,
    /// Home, and then the copy if there is one.
    Through,
    /// Home; the copy loses these pages.
    Around,
}

impl WriteMode {
    /// All of them, by the words of stack texts.
    pub const ALL: [(&str, WriteMode); 3] =
        [("write-back", WriteMode::Back), ("write-through", WriteMode::Through), ("write-around", WriteMode::Around)];

    /// The mode of a word.
    pub fn of(word: &str) -> Option<WriteMode> {
        WriteMode::ALL.iter().find(|(known, _)| *known == word).map(|(_, mode)| *mode)
    }
}

/// When copies that are newer than home are written there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cleaning {
    /// While home is idle.
    Idle {
        /// Share of dirty slots above which write-back does not wait until home is idle.
        dirty_max: f64,
        /// Share of home's time that write-back takes then.
        share: f64,
        /// How long a copy does not change, at least, before an idle home gets it.
        age: Nanos,
    },
    /// When the kind says so ([`Aside::clean`](crate::Aside::clean)). A stop leaves them where they are.
    Kind,
}

/// When copies that are not newer than home are given up, so that others find slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Whenever few slots are free. A write that finds none goes home.
    Ahead,
    /// The same, and a write that finds none waits until one is given up.
    Awaited,
    /// When the kind says so ([`Aside::drop_clean`](crate::Aside::drop_clean)).
    Kind,
}

/// What a stack text and the devices say.
#[derive(Clone, Debug)]
pub struct AsideConfig {
    /// Name in the stack text.
    pub name: String,
    /// Bytes of the volume: whole units.
    pub size: u64,
    /// Bytes of a unit: a power of two, at least a page.
    pub unit: u64,
    /// Bytes of a request below at most.
    pub transfer_max: u64,
    /// The map.
    pub shape: SlotShape,
    /// The device on which it lies.
    pub fast: Limits,
    /// Where writes go.
    pub mode: WriteMode,
    /// Whether each write is answered only when a restart would find its bytes as the map says now.
    pub strict: bool,
    /// When copies are written home.
    pub cleaning: Cleaning,
    /// When copies are given up.
    pub room: Room,
    /// Whether payloads are described: neither device stores bytes.
    pub is_described: bool,
    /// Whether copies are given up, instead of refused, where home was changed without the layer.
    pub adopts_home: bool,
}
