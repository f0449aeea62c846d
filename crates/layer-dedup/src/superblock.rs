//! The superblock: what a volume is, and since when its journal counts. It has the common header, whose generation is
//! the epoch, and fits one sector, which a power cut leaves whole. Byte rows and trust: see the format's page.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::ops::RangeInclusive;

use esker_framing::cell::PAGE;
use esker_framing::{Features, HEADER, Header, Newest, SuperblockError, newest, seal, slot, slots};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::Layout;

/// Bytes of a superblock.
pub const LEN: usize = 512;

/// The bytes behind the common header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Body {
    block: U32,
    logical: U32,
    physical: U32,
    used: U32,
    mapped: U64,
    journal: U64,
    reserved: [u8; LEN - HEADER - 32],
}

/// What a superblock says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The volume, drawn when it was made.
    pub set: u128,
    /// Records of the journal count if they are of this epoch; it rises with each checkpoint.
    pub epoch: u64,
    /// Where everything lies.
    pub layout: Layout,
    /// Blocks of the volume that have a data block, when the epoch began.
    pub mapped: u64,
    /// Data blocks in use, when the epoch began.
    pub used: u32,
}

impl Superblock {
    /// First byte on the lower device of the slot that this superblock goes to.
    pub fn at(&self) -> u64 {
        (slot(self.epoch) * PAGE) as u64
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        seal(self)
    }

    /// The superblock of a volume, given the first two pages of its lower device.
    ///
    /// # Errors
    /// [`SuperblockError`]. A damaged slot counts only where the other one does not help.
    pub fn newest(start: &[u8]) -> Result<Superblock, SuperblockError> {
        newest(&[slots(start)]).and_then(Newest::writable)
    }

    fn check(&self) -> Result<(), &'static str> {
        let Layout { block, logical, physical, journal } = self.layout;
        let page = PAGE as u64;
        let rules = [
            ("block", block.is_power_of_two() && (512..=1 << 20).contains(&block)),
            ("size", (1..u32::MAX).contains(&logical)),
            ("number of data blocks", (1..u32::MAX).contains(&physical)),
            ("journal", (page..=1 << 30).contains(&journal) && journal.is_multiple_of(page)),
            ("epoch", (1..u64::MAX).contains(&self.epoch)),
            (
                "count",
                self.used <= physical && self.mapped <= u64::from(logical) && u64::from(self.used) <= self.mapped,
            ),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
    }
}

impl esker_framing::Superblock for Superblock {
    const MAGIC: [u8; 8] = esker_layer_kit::media::DEDUP;
    const VERSION: u16 = 2;
    /// The journal has sectors of a later epoch.
    const DETECTS_STALE: bool = true;
    const NAME: &'static str = "a deduplicated volume";
    const LENGTHS: RangeInclusive<usize> = LEN..=LEN;

    fn header(&self) -> Header {
        Header { id: self.set, generation: self.epoch, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let body = Body {
            block: u32::try_from(self.layout.block).expect("a block has at most 64 KiB").into(),
            logical: self.layout.logical.into(),
            physical: self.layout.physical.into(),
            used: self.used.into(),
            mapped: self.mapped.into(),
            journal: self.layout.journal.into(),
            reserved: [0; LEN - HEADER - 32],
        };
        body.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Superblock, &'static str> {
        let body = Body::read_from_bytes(body).map_err(|_| "length")?;
        let superblock = Superblock {
            set: header.id,
            epoch: header.generation,
            layout: Layout {
                block: u64::from(body.block.get()),
                logical: body.logical.get(),
                physical: body.physical.get(),
                journal: body.journal.get(),
            },
            mapped: body.mapped.get(),
            used: body.used.get(),
        };
        superblock.check().map(|()| superblock)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    fn superblock() -> Superblock {
        let layout = Layout { block: 4096, logical: 100, physical: 120, journal: 8192 };
        Superblock { set: 0x0102_0304, epoch: 7, layout, mapped: 30, used: 20 }
    }

    #[test]
    fn the_layout_is_that_of_the_page() {
        let at = [
            offset_of!(Body, block),
            offset_of!(Body, logical),
            offset_of!(Body, physical),
            offset_of!(Body, used),
            offset_of!(Body, mapped),
            offset_of!(Body, journal),
            offset_of!(Body, reserved),
        ];
        assert_eq!(at.map(|at| HEADER + at), [64, 68, 72, 76, 80, 88, 96]);
        assert_eq!(HEADER + size_of::<Body>(), LEN);
    }

    #[test]
    fn superblocks_keep_the_promises_of_the_common_header() {
        esker_framing::conformance::check(&superblock(), &Superblock { epoch: 8, ..superblock() });
    }

    #[test]
    fn the_newer_superblock_counts_and_a_damaged_one_does_not() {
        let (old, new) = (superblock(), Superblock { epoch: 8, ..superblock() });
        let page = |superblock: &Superblock| [superblock.encode(), vec![0; PAGE - LEN]].concat();
        assert_eq!(Superblock::newest(&[page(&new), page(&old)].concat()), Ok(new.clone()));
        let mut broken = page(&new);
        broken[100] ^= 1;
        assert_eq!(Superblock::newest(&[broken.clone(), page(&old)].concat()), Ok(old));
        assert_eq!(Superblock::newest(&[broken, vec![0; PAGE]].concat()), Err(SuperblockError::Checksum));
        assert_eq!(Superblock::newest(&[0; 2 * PAGE]), Err(SuperblockError::Blank));
        assert_eq!(Superblock::newest(&[vec![0; PAGE], page(&new)].concat()), Err(SuperblockError::Shifted));
        assert_eq!(Superblock::newest(&[1; 2 * PAGE]), Err(SuperblockError::Foreign("a deduplicated volume")));
        assert_eq!((new.at(), superblock().at()), (0, 4096));
    }

    #[test]
    fn what_no_esker_writes_is_refused_under_a_right_checksum() {
        let with = |change: &dyn Fn(&mut Superblock)| {
            let mut changed = superblock();
            change(&mut changed);
            esker_framing::unseal::<Superblock>(&changed.encode()).map(|found| found.superblock)
        };
        assert_eq!(with(&|_| ()), Ok(superblock()));
        let range = |field| Err(SuperblockError::Range(field));
        assert_eq!(with(&|changed| changed.layout.block = 100), range("block"));
        assert_eq!(with(&|changed| changed.layout.logical = 0), range("size"));
        assert_eq!(with(&|changed| changed.layout.physical = u32::MAX), range("number of data blocks"));
        assert_eq!(with(&|changed| changed.layout.journal = 100), range("journal"));
        assert_eq!(with(&|changed| changed.epoch = 0), range("epoch"));
        assert_eq!(with(&|changed| changed.used = 31), range("count"));
        let short = esker_framing::unseal::<Superblock>(&[1; 10]);
        assert_eq!(short.map(|found| found.superblock), Err(SuperblockError::Foreign("a deduplicated volume")));
    }

    #[test]
    fn a_volume_of_the_earlier_format_is_told() {
        let mut old = vec![0x5a; 2 * PAGE];
        for slot in old.chunks_exact_mut(PAGE) {
            slot[..10].copy_from_slice(b"\x89EskDed\n\x01\0");
        }
        assert_eq!(Superblock::newest(&old), Err(SuperblockError::Older(1)));
    }
}
