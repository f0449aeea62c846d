//! Fixed parts: header and heads of blocks.

use esker_base::codec::Reader;

use crate::words::choices;

/// The version that is written. Version 1 has no page faults, version 2 no files after the trace, version 3 no waits
/// for other threads; all are read too.
pub const VERSION: u16 = 4;
/// Bytes of the header.
pub const HEADER: usize = HEADER_LEN as usize;
const HEADER_LEN: u16 = 32;
/// Bytes of a block's head.
pub const BLOCK_HEAD: usize = 32;
/// Largest payload in bytes, unpacked.
pub(super) const PAYLOAD_MAX: usize = 4 << 20;
/// Features that are known: payloads may be packed with zstd.
pub(super) const FEATURES: u32 = 1;

const MAGIC: [u8; 8] = *b"\x89ETR\r\n\x1a\n";
/// Where a block begins; after damage the next one is searched for.
pub const MARK: [u8; 8] = *b"\x89ETB\r\n\x1a\n";

choices! {
    /// What a block holds.
    BlockKind {
        /// The name of what recorded it.
        Source = 1 "source",
        /// Processes.
        Processes = 2 "processes",
        /// Threads.
        Threads = 3 "threads",
        /// Descriptors that were open before.
        Inherited = 4 "inherited",
        /// Files before the trace.
        Snapshot = 5 "snapshot",
        /// Actions.
        Actions = 6 "actions",
        /// Warnings.
        Warnings = 7 "warnings",
        /// The end: how many actions there are.
        End = 8 "end",
        /// Where files after the trace were looked at.
        Scope = 9 "scope",
        /// Files after the trace.
        After = 10 "after",
    }
}

/// Whether bytes begin as an `.etrace` does.
pub fn is_etrace(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// The header of a file of `platform`.
pub(super) fn header(platform: u8) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&HEADER_LEN.to_le_bytes());
    bytes[12..16].copy_from_slice(&FEATURES.to_le_bytes());
    bytes[16] = platform;
    seal(&mut bytes);
    bytes
}

/// Puts the checksum of what is before it into the last four bytes.
fn seal(bytes: &mut [u8]) {
    let (body, sum) = bytes.split_at_mut(bytes.len() - 4);
    sum.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
}

/// Whether the checksum in the last four bytes is that of what is before it.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    let (body, sum) = bytes.split_at(bytes.len() - 4);
    sum == crc32fast::hash(body).to_le_bytes()
}

/// What the head of a block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHead {
    /// What it holds.
    pub kind: BlockKind,
    /// Whether its payload is packed with zstd.
    pub packed: bool,
    /// Items.
    pub items: u32,
    /// Bytes of the payload as stored.
    pub stored: u32,
    /// Bytes of the payload unpacked.
    pub unpacked: u32,
    /// Checksum of the payload as stored.
    pub sum: u32,
}

impl BlockHead {
    /// Its bytes.
    pub(super) fn to_bytes(self) -> [u8; BLOCK_HEAD] {
        let mut bytes = [0; BLOCK_HEAD];
        bytes[..8].copy_from_slice(&MARK);
        bytes[8] = self.kind.code();
        bytes[9] = u8::from(self.packed);
        bytes[12..16].copy_from_slice(&self.items.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.stored.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.unpacked.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.sum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads it; `None` if it is damaged, of an unknown kind, or larger than any that is written.
    pub(super) fn from_bytes(bytes: &[u8; BLOCK_HEAD]) -> Option<BlockHead> {
        if !bytes.starts_with(&MARK) || !is_sealed(bytes) {
            return None;
        }
        let mut rest = Reader::new(&bytes[8..]);
        let kind = BlockKind::from_code(rest.u8().ok()?)?;
        let packing = rest.u8().ok()?;
        rest.le_u16().ok()?;
        let items = rest.le_u32().ok()?;
        let (stored, unpacked) = (rest.le_u32().ok()?, rest.le_u32().ok()?);
        let head = BlockHead { kind, packed: packing == 1, items, stored, unpacked, sum: rest.le_u32().ok()? };
        let fits = stored.max(unpacked) as usize <= PAYLOAD_MAX && items <= unpacked;
        (fits && packing <= 1 && (packing == 1 || stored == unpacked)).then_some(head)
    }
}
