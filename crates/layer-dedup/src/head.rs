//! The head: what a volume is, and since when its journal counts. Two slots of one sector each, written in turn, so that
//! one of them is always whole. Byte rows and trust: see the format's page.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::cell::PAGE;
use crate::layout::Layout;

/// Bytes of a head.
pub const HEAD: usize = 512;

const MAGIC: [u8; 8] = esker_layer_kit::media::DEDUP;
const VERSION: u16 = 1;

/// The bytes.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Sector {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    features: U32,
    set: [u8; 16],
    epoch: U64,
    block: U32,
    logical: U32,
    physical: U32,
    used: U32,
    mapped: U64,
    journal: U64,
    rest: [u8; 436],
    checksum: U32,
}

/// What a head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
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

/// Why a lower end has no head that can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeadError {
    /// Only zeroes.
    #[error("is blank")]
    Blank,
    /// Something else.
    #[error("holds no deduplicated volume; if nothing there is needed, `esker init` makes a new one")]
    Foreign,
    /// A damaged head, and no other.
    #[error("has a head with a wrong checksum and no other; restore it from a copy")]
    Checksum,
    /// From a later esker.
    #[error("has version {0} and features {1:#x}, which this esker does not know; use a newer one")]
    Newer(u16, u32),
    /// A sound head in the slot of the other one.
    #[error(
        "has a head 4096 bytes from where it was written, so it begins at another byte than it did; give it the `offset` that it \
         had"
    )]
    Shifted,
    /// Numbers that no esker writes, under a right checksum.
    #[error("has a head whose {0} is out of range; restore it from a copy")]
    Range(&'static str),
}

impl Head {
    /// Which slot this head goes to: its first byte on the lower end.
    pub fn at(&self) -> u64 {
        self.epoch % 2 * PAGE as u64
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut sector = Sector {
            magic: MAGIC,
            version: VERSION.into(),
            reserved: 0.into(),
            features: 0.into(),
            set: self.set.to_le_bytes(),
            epoch: self.epoch.into(),
            block: (self.layout.block as u32).into(),
            logical: self.layout.logical.into(),
            physical: self.layout.physical.into(),
            used: self.used.into(),
            mapped: self.mapped.into(),
            journal: self.layout.journal.into(),
            rest: [0; 436],
            checksum: 0.into(),
        };
        sector.checksum = checksum(&sector).into();
        sector.as_bytes().to_vec()
    }

    /// Reads one slot.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn decode(bytes: &[u8]) -> Result<Head, HeadError> {
        let Ok((sector, _)) = Sector::read_from_prefix(bytes) else { return Err(HeadError::Foreign) };
        if sector.magic != MAGIC {
            let is_blank = bytes.iter().all(|byte| *byte == 0);
            return Err(if is_blank { HeadError::Blank } else { HeadError::Foreign });
        }
        if sector.checksum.get() != checksum(&sector) {
            return Err(HeadError::Checksum);
        }
        if sector.version != VERSION || sector.features != 0 {
            return Err(HeadError::Newer(sector.version.get(), sector.features.get()));
        }
        let head = Head {
            set: u128::from_le_bytes(sector.set),
            epoch: sector.epoch.get(),
            layout: Layout {
                block: u64::from(sector.block.get()),
                logical: sector.logical.get(),
                physical: sector.physical.get(),
                journal: sector.journal.get(),
            },
            mapped: sector.mapped.get(),
            used: sector.used.get(),
        };
        head.check().map(|()| head)
    }

    /// The head of a volume: the newer one of its two slots, given the first two pages.
    ///
    /// # Errors
    /// Why there is none; a damaged slot counts only where the other one does not help.
    pub fn newest(slots: &[u8]) -> Result<Head, HeadError> {
        let (mut best, mut worst) = (None, HeadError::Blank);
        for (at, slot) in (0..).zip(slots.chunks(PAGE)) {
            match Head::decode(slot) {
                Ok(head) if head.at() != at * PAGE as u64 => return Err(HeadError::Shifted),
                Ok(head) if best.as_ref().is_none_or(|best: &Head| best.epoch < head.epoch) => best = Some(head),
                Ok(_) | Err(HeadError::Blank) => {}
                Err(error) => worst = error,
            }
        }
        match worst {
            // A newer esker may have written one slot: what the other says would be old.
            HeadError::Newer(..) => Err(worst),
            _ => best.ok_or(worst),
        }
    }

    fn check(&self) -> Result<(), HeadError> {
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
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(HeadError::Range(what)))
    }
}

fn checksum(sector: &Sector) -> u32 {
    crc32fast::hash(&sector.as_bytes()[..HEAD - size_of::<U32>()])
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    fn head() -> Head {
        let layout = Layout { block: 4096, logical: 100, physical: 120, journal: 8192 };
        Head { set: 0x0102_0304, epoch: 7, layout, mapped: 30, used: 20 }
    }

    #[test]
    fn the_layout_is_that_of_the_page() {
        let at = [
            offset_of!(Sector, magic),
            offset_of!(Sector, version),
            offset_of!(Sector, features),
            offset_of!(Sector, set),
            offset_of!(Sector, epoch),
            offset_of!(Sector, block),
            offset_of!(Sector, logical),
            offset_of!(Sector, physical),
            offset_of!(Sector, used),
            offset_of!(Sector, mapped),
            offset_of!(Sector, journal),
            offset_of!(Sector, rest),
            offset_of!(Sector, checksum),
        ];
        assert_eq!(at, [0, 8, 12, 16, 32, 40, 44, 48, 52, 56, 64, 72, 508]);
        assert_eq!(size_of::<Sector>(), HEAD);
    }

    #[test]
    fn the_newer_head_counts_and_a_damaged_one_does_not() {
        let (old, new) = (head(), Head { epoch: 8, ..head() });
        let page = |head: &Head| [head.encode(), vec![0; PAGE - HEAD]].concat();
        assert_eq!(Head::newest(&[page(&new), page(&old)].concat()), Ok(new.clone()));
        let mut broken = page(&new);
        broken[100] ^= 1;
        assert_eq!(Head::newest(&[broken.clone(), page(&old)].concat()), Ok(old));
        assert_eq!(Head::newest(&[broken, vec![0; PAGE]].concat()), Err(HeadError::Checksum));
        assert_eq!(Head::newest(&[0; 2 * PAGE]), Err(HeadError::Blank));
        assert_eq!(Head::newest(&[vec![0; PAGE], page(&new)].concat()), Err(HeadError::Shifted));
        assert_eq!(Head::newest(&[1; 2 * PAGE]), Err(HeadError::Foreign));
        assert_eq!((new.at(), head().at()), (0, 4096));
    }

    #[test]
    fn what_no_esker_writes_is_refused_under_a_right_checksum() {
        let with = |change: &dyn Fn(&mut Sector)| {
            let mut sector = Sector::read_from_bytes(&head().encode()).unwrap();
            change(&mut sector);
            sector.checksum = checksum(&sector).into();
            Head::decode(sector.as_bytes())
        };
        assert_eq!(with(&|_| ()), Ok(head()));
        assert_eq!(with(&|sector| sector.version = 2.into()), Err(HeadError::Newer(2, 0)));
        assert_eq!(with(&|sector| sector.features = 1.into()), Err(HeadError::Newer(1, 1)));
        assert_eq!(with(&|sector| sector.block = 100.into()), Err(HeadError::Range("block")));
        assert_eq!(with(&|sector| sector.logical = 0.into()), Err(HeadError::Range("size")));
        assert_eq!(with(&|sector| sector.physical = u32::MAX.into()), Err(HeadError::Range("number of data blocks")));
        assert_eq!(with(&|sector| sector.journal = 100.into()), Err(HeadError::Range("journal")));
        assert_eq!(with(&|sector| sector.epoch = 0.into()), Err(HeadError::Range("epoch")));
        assert_eq!(with(&|sector| sector.used = 31.into()), Err(HeadError::Range("count")));
        assert_eq!(Head::decode(&[1; 10]), Err(HeadError::Foreign));
    }
}
