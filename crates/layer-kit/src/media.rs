//! The magics of media: what a device holds, by its first bytes.
//!
//! Each format takes its magic from here, so that every layer knows the media of all others and can say what it was
//! given in place of its own.

use esker_framing::SLOT;

/// A member of a mirror.
pub const MIRROR: [u8; 8] = *b"\x89EskMir\n";
/// A deduplicated volume.
pub const DEDUP: [u8; 8] = *b"\x89EskDed\n";
/// A log of off-loaded writes.
pub const OFFLOAD: [u8; 8] = *b"\x89EskOff\n";
/// A log-structured volume.
pub const VOLUME: [u8; 8] = *b"\x89EskVol\n";
/// A map of slots.
pub const SLOTS: [u8; 8] = *b"\x89EskMov\n";
/// An end of a tier, but the first.
pub const END: [u8; 8] = *b"\x89EskEnd\n";
/// Memory of a layer.
pub const REGION: [u8; 8] = *b"ESKRPAIR";

/// All of them, with what a user calls their media.
const NAMED: [([u8; 8], &str); 7] = [
    (MIRROR, "a member of a mirror"),
    (DEDUP, "a deduplicated volume"),
    (OFFLOAD, "a log of off-loaded writes"),
    (VOLUME, "a log-structured volume"),
    (SLOTS, "a map of slots"),
    (END, "an end of a tier"),
    (REGION, "the memory of a layer"),
];

/// Bytes at the start of a device in which all formats have their two slots.
pub const HEAD: u64 = 2 * SLOT as u64;

/// What a device with these first bytes holds: what one of its first slots begins with. None if no layer has marked it.
pub fn name_of(start: &[u8]) -> Option<&'static str> {
    let named = |slot: &[u8]| NAMED.iter().find(|(magic, _)| slot.starts_with(magic)).map(|(_, name)| *name);
    start.chunks(SLOT).take(2).find_map(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_is_known_by_either_of_its_slots() {
        let mut start = vec![0; 2 * SLOT];
        assert_eq!(name_of(&start), None);
        start[SLOT..SLOT + 8].copy_from_slice(&OFFLOAD);
        assert_eq!(name_of(&start), Some("a log of off-loaded writes"));
        start[..8].copy_from_slice(&MIRROR);
        assert_eq!(name_of(&start), Some("a member of a mirror"));
        assert_eq!(name_of(b"a file system"), None);
    }

    #[test]
    fn no_two_media_have_one_magic() {
        for (at, (magic, _)) in NAMED.iter().enumerate() {
            assert!(NAMED[..at].iter().all(|(other, _)| other != magic));
        }
    }
}
