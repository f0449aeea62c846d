//! Where things lie in a compiled trace: `docs/reference/formats/compiled-trace.md`.

/// The first eight bytes.
pub(super) const MAGIC: [u8; 8] = *b"ESKERCTR";
/// The version that is written. Version 1 has no maps among its slots and resources. Version 2 does not tell which
/// actions only look. Version 3 has no files after the trace, version 4 no waits for other threads. All are read.
pub(super) const VERSION: u16 = 5;
/// The first version with all sections; those before have no [`Section::After`].
pub(super) const VERSION_OF_AFTER: u16 = 4;
/// Bytes before the table of sections: magic, version, features, number of sections.
pub(super) const PREFIX: usize = 16;
/// Bytes of a section's row: number, CRC-32, offset, length.
pub(super) const ROW: usize = 24;
/// Bytes of an action's row: entry, return, thread, ends of step and touches, flags.
pub(super) const ACTION: usize = 32;
/// Flag of an action that may wait for other threads.
pub(super) const WAITS: u32 = 1;
/// Flags of an action that only looks at the files, and at the descriptors, that it uses.
pub(super) const LOOKS_SHIFT: u32 = 1;
/// Flag of an action that makes a thread.
pub(super) const BEGINS: u32 = 8;

/// A section, by its number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Section {
    Names = 1,
    About = 2,
    Players = 3,
    Snapshot = 4,
    Slots = 5,
    Opened = 6,
    Resources = 7,
    Actions = 8,
    Steps = 9,
    Touches = 10,
    After = 11,
}

impl Section {
    /// In the order of the file.
    pub(super) const ALL: [Section; 11] = [
        Section::Names,
        Section::About,
        Section::Players,
        Section::Snapshot,
        Section::Slots,
        Section::Opened,
        Section::Resources,
        Section::Actions,
        Section::Steps,
        Section::Touches,
        Section::After,
    ];

    /// Its name in messages and in the format's page.
    pub(super) fn name(self) -> &'static str {
        match self {
            Section::Names => "names",
            Section::About => "about",
            Section::Players => "players",
            Section::Snapshot => "snapshot",
            Section::Slots => "slots",
            Section::Opened => "opened",
            Section::Resources => "resources",
            Section::Actions => "actions",
            Section::Steps => "steps",
            Section::Touches => "touches",
            Section::After => "after",
        }
    }
}
