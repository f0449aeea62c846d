//! Cells of tables: 512 bytes with a checksum of their own, because a power cut may tear a table between cells but not
//! inside one. Byte rows: `docs/reference/formats/superblock.md`.
//!
//! Invariant: what comes out of a cell was sealed for this set and this place, or is the zeroes of a fresh table.

/// Bytes of a cell.
pub const CELL: usize = 512;
/// Bytes of a cell that hold entries.
pub const PAYLOAD: usize = 504;
/// Cells of a page of a table.
pub const CELLS: usize = 8;
/// Bytes of a page of a table.
pub const PAGE: usize = CELL * CELLS;

/// Where the checksum stands; four reserved bytes follow.
const SUM: usize = PAYLOAD;

/// Writes the checksum of the cell whose first byte is byte `at` of the device.
pub fn seal(set: u128, at: u64, cell: &mut [u8]) {
    let sum = checksum(set, at, &cell[..PAYLOAD]);
    cell[SUM..SUM + 4].copy_from_slice(&sum.to_le_bytes());
    cell[SUM + 4..].fill(0);
}

/// Whether a cell is as it was sealed there, or was never written.
pub fn is_sound(set: u128, at: u64, cell: &[u8]) -> bool {
    let sum = checksum(set, at, &cell[..PAYLOAD]).to_le_bytes();
    (cell[SUM..SUM + 4] == sum && cell[SUM + 4..] == [0; 4]) || cell.iter().all(|byte| *byte == 0)
}

fn checksum(set: u128, at: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&set.to_le_bytes());
    hasher.update(&at.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_sound_only_where_and_as_it_was_sealed() {
        let mut cell = [7; CELL];
        assert!(!is_sound(1, 512, &cell));
        seal(1, 512, &mut cell);
        assert!(is_sound(1, 512, &cell) && is_sound(1, 0, &[0; CELL]));
        assert!(!is_sound(2, 512, &cell) && !is_sound(1, 1024, &cell));
        for at in [0, 503, 504, 511] {
            let mut broken = cell;
            broken[at] ^= 1;
            assert!(!is_sound(1, 512, &broken), "byte {at}");
        }
    }
}
