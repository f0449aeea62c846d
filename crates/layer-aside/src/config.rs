//! How copies are kept.

use esker_block::Limits;
use esker_layer_kit::slots::SlotShape;

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
    /// Whether the kind writes copies home by itself: the engine does so only when it is told to.
    pub kind_cleans: bool,
    /// Share of dirty slots above which write-back does not wait until home is idle.
    pub dirty_max: f64,
    /// Share of home's time that write-back takes then.
    pub clean_share: f64,
    /// Whether payloads are described: neither device stores bytes.
    pub is_described: bool,
    /// Whether copies are given up, instead of refused, where home was changed without the layer.
    pub adopts_home: bool,
}
