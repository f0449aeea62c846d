//! Words at fixed places of a block, little-endian, and its checksum.

/// The word of `len` bytes at `at`.
///
/// # Panics
/// If it is longer than 8 bytes, or leaves `bytes`.
pub fn get(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}

/// Puts a word of `len` bytes at `at`.
///
/// # Panics
/// As [`get`].
pub fn put(bytes: &mut [u8], at: usize, len: usize, value: u64) {
    debug_assert!(len == 8 || value < 1 << (8 * len), "{value} in {len} bytes");
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// The checksum of `bytes` as if the four bytes at `at`, where it is kept, were zero.
pub fn checksum(bytes: &[u8], at: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..at]);
    hasher.update(&[0; 4]);
    hasher.update(&bytes[at + 4..]);
    hasher.finalize()
}
