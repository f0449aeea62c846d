//! Where everything lies on the lower device: two superblocks, the journal, four tables in pages of eight cells, then
//! data.
//!
//! Byte rows: see the format's page. Tables are arrays of fixed entries that never cross a cell, so that a cell, which
//! a power cut leaves whole, always holds whole entries.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use esker_framing::cell::{CELLS, PAGE, PAYLOAD};

use crate::journal::Fingerprint;

/// Bytes of the two slots of superblocks.
pub const SUPERBLOCKS: u64 = 2 * PAGE as u64;
/// Bytes of a block's entry: fingerprint, then references.
pub const ENTRY: usize = 36;
/// Slots of a bucket of the index; a bucket is a cell.
pub const SLOTS: usize = 63;
/// Bytes of a slot of the index: tag, then block.
pub const SLOT: usize = 8;
/// Blocks for which the index has one bucket, half of what would fit: so full buckets are rare.
const BLOCKS_PER_BUCKET: u64 = 31;
/// Bytes of an entry of the map.
const MAPPED: usize = 4;
/// Smallest and largest journal in bytes.
const JOURNAL: (u64, u64) = (2 * PAGE as u64, 16 << 20);

const MAP_PER_CELL: u64 = (PAYLOAD / MAPPED) as u64;
const BLOCKS_PER_CELL: u64 = (PAYLOAD / ENTRY) as u64;

/// Volume blocks that one page of the map covers.
pub const MAP_PER_PAGE: u64 = MAP_PER_CELL * CELLS as u64;
/// Data blocks that one cell of the free map covers.
pub const BITS_PER_CELL: u64 = (PAYLOAD * 8) as u64;
/// Data blocks that one page of it covers.
pub const BITS_PER_PAGE: u64 = BITS_PER_CELL * CELLS as u64;

/// What decides where everything lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a block, a power of two.
    pub block: u64,
    /// Blocks of the volume.
    pub logical: u32,
    /// Blocks of data.
    pub physical: u32,
    /// Bytes of the journal, whole pages.
    pub journal: u64,
}

/// Something in a table: bytes of the payload of a cell of a page. Pages are counted over all tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Spot {
    /// Page.
    pub page: u32,
    /// Cell in the page.
    pub cell: usize,
    /// Byte in the cell's payload.
    pub at: usize,
}

/// Bytes that a block takes in all tables (rounded up): what a plan may not be without.
const SMALLEST_DATA: u64 = 16;

/// Why a lower device cannot hold a volume. The text says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// No room for data beside the tables.
    #[error(
        "{0} bytes have no room for data beside superblocks, journal and tables; use a larger lower device or a smaller size"
    )]
    TooSmall(u64),
    /// More blocks than 32 bits count.
    #[error("{0} blocks are more than 4294967294; use a larger block")]
    TooMany(u64),
}

impl Layout {
    /// A volume of `size` bytes, or as large as it can be without ever lacking room, on a lower device of `device`
    /// bytes.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(device: u64, block: u64, size: Option<u64>) -> Result<Layout, PlanError> {
        let journal = (device / 64 / PAGE as u64 * PAGE as u64).clamp(JOURNAL.0, JOURNAL.1);
        let logical =
            |physical: u64| size.map_or_else(|| physical.saturating_sub(spare(physical)), |size| size / block);
        let fits = |physical: u64| end(block, logical(physical), physical, journal) <= u128::from(device);
        // The largest number of data blocks that fits.
        let (mut low, mut high) = (0, device / block);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        let logical = logical(low);
        if low < SMALLEST_DATA || logical == 0 || !fits(low) {
            return Err(PlanError::TooSmall(device));
        }
        match (u32::try_from(logical), u32::try_from(low)) {
            (Ok(logical), Ok(physical)) if physical < u32::MAX && logical < u32::MAX => {
                Ok(Layout { block, logical, physical, journal })
            }
            _ => Err(PlanError::TooMany(logical.max(low))),
        }
    }

    /// Bytes of the volume.
    pub fn size(&self) -> u64 {
        u64::from(self.logical) * self.block
    }

    /// First byte of the tables.
    pub fn tables(&self) -> u64 {
        SUPERBLOCKS + self.journal
    }

    /// Pages of all tables.
    pub fn pages(&self) -> u32 {
        page(self.tables_of().iter().sum())
    }

    /// First byte of data.
    pub fn data(&self) -> u64 {
        data(self.block, u64::from(self.logical), u64::from(self.physical), self.journal)
            .try_into()
            .expect("inside the device")
    }

    /// First byte after the data; larger than any device if it does not fit in 64 bits.
    pub fn end(&self) -> u64 {
        let end = end(self.block, u64::from(self.logical), u64::from(self.physical), self.journal);
        u64::try_from(end).unwrap_or(u64::MAX)
    }

    /// First byte of a page.
    pub fn page_at(&self, page: u32) -> u64 {
        self.tables() + u64::from(page) * PAGE as u64
    }

    /// First byte of a data block.
    pub fn block_at(&self, block: u32) -> u64 {
        self.data() + u64::from(block) * self.block
    }

    /// The entry of a volume block in the map: its data block plus one, or 0.
    pub fn map(&self, logical: u32) -> Spot {
        let (cell, slot) = split(u64::from(logical), MAP_PER_CELL);
        spot(0, cell, slot * MAPPED)
    }

    /// The entry of a data block.
    pub fn entry(&self, block: u32) -> Spot {
        let (cell, slot) = split(u64::from(block), BLOCKS_PER_CELL);
        spot(self.tables_of()[0], cell, slot * ENTRY)
    }

    /// The byte of the free map with a data block's bit, and the bit: set if the block is used.
    pub fn bit(&self, block: u32) -> (Spot, u8) {
        let (cell, bit) = split(u64::from(block), BITS_PER_CELL);
        let [map, blocks, ..] = self.tables_of();
        (spot(map + blocks, cell, bit / 8), 1 << (bit % 8))
    }

    /// Pages of the free map.
    pub fn free_pages(&self) -> u32 {
        page(self.tables_of()[2])
    }

    /// The bucket of a fingerprint.
    pub fn bucket(&self, fingerprint: &Fingerprint) -> Spot {
        let word = u64::from_le_bytes(fingerprint[..8].try_into().expect("eight bytes"));
        spot(u64::from(self.first_index_page()), word % self.buckets(), 0)
    }

    /// Whether a page belongs to the index.
    pub fn is_index(&self, page: u32) -> bool {
        page >= self.first_index_page()
    }

    fn first_index_page(&self) -> u32 {
        page(self.tables_of()[..3].iter().sum())
    }

    fn buckets(&self) -> u64 {
        u64::from(self.physical).div_ceil(BLOCKS_PER_BUCKET)
    }

    fn tables_of(&self) -> [u64; 4] {
        tables(u64::from(self.logical), u64::from(self.physical))
    }
}

/// Data blocks beyond those of the volume, without which overwriting would have to wait for the journal every time.
fn spare(physical: u64) -> u64 {
    physical / 64 + 4
}

/// Pages of map, blocks, free map and index.
fn tables(logical: u64, physical: u64) -> [u64; 4] {
    let pages = |entries: u64, per_cell: u64| entries.div_ceil(per_cell).div_ceil(CELLS as u64);
    [
        pages(logical, MAP_PER_CELL),
        pages(physical, BLOCKS_PER_CELL),
        pages(physical, BITS_PER_CELL),
        pages(physical.div_ceil(BLOCKS_PER_BUCKET), 1),
    ]
}

fn data(block: u64, logical: u64, physical: u64, journal: u64) -> u128 {
    let pages: u128 = tables(logical, physical).iter().map(|pages| u128::from(*pages)).sum();
    let tables = u128::from(SUPERBLOCKS) + u128::from(journal) + pages * PAGE as u128;
    tables.next_multiple_of(u128::from(block.max(PAGE as u64)))
}

fn end(block: u64, logical: u64, physical: u64, journal: u64) -> u128 {
    data(block, logical, physical, journal) + u128::from(physical) * u128::from(block)
}

/// The cell of entry `number`, and its place there.
fn split(number: u64, per_cell: u64) -> (u64, usize) {
    (number / per_cell, place(number % per_cell))
}

fn spot(first_page: u64, cell: u64, at: usize) -> Spot {
    Spot { page: page(first_page + cell / CELLS as u64), cell: place(cell % CELLS as u64), at }
}

/// The number of a page of the tables.
fn page(number: u64) -> u32 {
    number.try_into().expect("the builder limits the tables to 2^32 pages")
}

fn place(inside: u64) -> usize {
    inside.try_into().expect("a place in a page")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lie_one_after_the_other_and_data_after_them() {
        let layout = Layout { block: 4096, logical: 2000, physical: 3000, journal: 8192 };
        assert_eq!(layout.tables_of(), [2, 27, 1, 13]);
        assert_eq!((layout.tables(), layout.pages(), layout.data()), (16_384, 43, 192_512));
        assert_eq!(layout.map(0), Spot { page: 0, cell: 0, at: 0 });
        assert_eq!(layout.map(126 + 1), Spot { page: 0, cell: 1, at: 4 });
        assert_eq!(layout.map(1008), Spot { page: 1, cell: 0, at: 0 });
        assert_eq!(layout.entry(14 * 8 + 15), Spot { page: 3, cell: 1, at: 36 });
        assert_eq!(layout.bit(4032 + 10), (Spot { page: 29, cell: 1, at: 1 }, 4));
        assert_eq!(layout.bucket(&[0; 32]), Spot { page: 30, cell: 0, at: 0 });
        assert!(layout.is_index(30) && !layout.is_index(29));
        assert_eq!(layout.end(), 192_512 + 3000 * 4096);
    }

    #[test]
    fn what_has_no_room_is_refused_with_a_reason() {
        assert_eq!(Layout::plan(40 << 10, 4096, None), Err(PlanError::TooSmall(40 << 10)));
        assert_eq!(Layout::plan(1 << 20, 4096, Some(0)), Err(PlanError::TooSmall(1 << 20)));
        assert_eq!(Layout::plan(1 << 20, 4096, Some(1 << 40)), Err(PlanError::TooSmall(1 << 20)));
        assert!(matches!(Layout::plan(1 << 45, 512, None), Err(PlanError::TooMany(_))));
        let small = Layout::plan(64 << 10, 512, None).unwrap();
        assert!(small.logical > 40 && small.physical > small.logical, "{small:?}");
    }

    proptest::proptest! {
        #[test]
        fn plans_fit_and_waste_less_than_a_few_blocks(device in 1u64 << 17..1 << 40, shift in 9u32..17, share in 0u64..300) {
            let block = 1 << shift;
            let size = (share > 0).then(|| device / 100 * share);
            let Ok(layout) = Layout::plan(device, block, size) else { return Ok(()) };
            assert!(layout.end() <= device, "{layout:?}");
            let more = Layout { physical: layout.physical + 1, ..layout };
            assert!(more.end() > device || size.is_none(), "{layout:?} leaves room");
            assert!(layout.data() - layout.tables() >= u64::from(layout.pages()) * 4096);
            let last = layout.physical - 1;
            assert!(layout.entry(last).page < layout.bit(last).0.page && layout.map(layout.logical - 1).page < layout.entry(0).page);
            assert!(layout.bit(last).0.page < layout.bucket(&[0; 32]).page);
            assert!(layout.bucket(&[255; 32]).page < layout.pages());
            match size {
                None => assert!(layout.physical > layout.logical),
                Some(size) => assert_eq!(u64::from(layout.logical), size / block),
            }
        }
    }
}
