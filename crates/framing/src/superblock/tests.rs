use std::ops::RangeInclusive;

use super::*;
use crate::newest::newest;

/// What a power cut leaves whole.
pub(crate) const SECTOR: usize = 512;

/// A superblock with any body, of a format that proves it stale or does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Demo<const DETECTS_STALE: bool> {
    pub id: u128,
    pub generation: u64,
    pub features: Features,
    pub body: Vec<u8>,
}

impl<const DETECTS_STALE: bool> Superblock for Demo<DETECTS_STALE> {
    const MAGIC: [u8; 8] = *b"\x89EskDmo\n";
    const VERSION: u16 = 3;
    const KNOWN: Features = Features { compatible: 1, read_only: 2, incompatible: 4 };
    const DETECTS_STALE: bool = DETECTS_STALE;
    const NAME: &'static str = "a demonstration";
    const LENGTHS: RangeInclusive<usize> = HEADER + 1..=SLOT;

    fn header(&self) -> Header {
        Header { id: self.id, generation: self.generation, features: self.features }
    }

    fn encode_body(&self) -> Vec<u8> {
        self.body.clone()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Self, &'static str> {
        let Header { id, generation, features } = *header;
        match body[0] {
            0 => Err("first byte"),
            _ => Ok(Demo { id, generation, features, body: body.to_vec() }),
        }
    }
}

pub(crate) fn demo<const DETECTS_STALE: bool>(generation: u64, body: usize) -> Demo<DETECTS_STALE> {
    let body =
        (0..body).map(|at| (at as u8).wrapping_mul(7).wrapping_add((generation as u8).wrapping_mul(13)) | 1).collect();
    Demo { id: 0x0102_0304, generation, features: Features::NONE, body }
}

fn with(change: impl FnOnce(&mut Vec<u8>)) -> Result<Newest<Demo<true>>, SuperblockError> {
    let mut bytes = seal(&demo::<true>(7, 64));
    change(&mut bytes);
    reseal(&mut bytes);
    unseal(&bytes)
}

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(RawHeader, magic),
        offset_of!(RawHeader, version),
        offset_of!(RawHeader, length),
        offset_of!(RawHeader, compatible),
        offset_of!(RawHeader, read_only),
        offset_of!(RawHeader, incompatible),
        offset_of!(RawHeader, checksum),
        offset_of!(RawHeader, reserved),
        offset_of!(RawHeader, id),
        offset_of!(RawHeader, generation),
        offset_of!(RawHeader, reserved2),
    ];
    assert_eq!(at, [0, 8, 10, 12, 16, 20, 24, 28, 32, 48, 56]);
    assert_eq!((size_of::<RawHeader>(), SUM_AT), (HEADER, 24));
}

/// It must stay readable.
#[test]
fn the_golden_superblock_reads_as_it_was_written() {
    let golden = include_bytes!("../../golden/superblock-v1.bin");
    let features = Features { compatible: 1, read_only: 2, incompatible: 4 };
    let expected = Demo { features, ..demo::<true>(0x1122_3344_5566_7788, 64) };
    assert_eq!(unseal::<Demo<true>>(golden).and_then(Newest::writable), Ok(expected.clone()));
    assert_eq!(seal(&expected), golden);
}

#[test]
fn a_version_is_told_of_sound_and_of_damaged_superblocks_of_the_format() {
    let mut bytes = seal(&demo::<true>(7, 64));
    let magic = Demo::<true>::MAGIC;
    assert_eq!(version_told(&bytes, &magic), Some(Demo::<true>::VERSION));
    bytes[8..10].copy_from_slice(&513u16.to_le_bytes());
    assert_eq!((version_told(&bytes, &magic), version_told(&bytes, b"another!")), (Some(513), None));
    assert_eq!(version_told(&bytes[..HEADER - 1], &magic), None);
}

#[test]
fn superblocks_of_every_length_keep_the_promises_of_the_crate() {
    for body in [1, 64, SECTOR - HEADER, 3 * SECTOR - HEADER, SLOT - HEADER] {
        for generation in [7, 8, u64::MAX - 1] {
            crate::conformance::check(&demo::<true>(generation, body), &demo::<true>(generation + 1, body));
            crate::conformance::check(&demo::<false>(generation, body), &demo::<false>(generation + 1, body));
        }
    }
}

#[test]
fn what_no_esker_writes_is_refused_under_a_right_checksum() {
    assert!(with(|_| ()).is_ok());
    assert_eq!(with(|bytes| bytes[64] = 0), Err(SuperblockError::Range("first byte")));
    assert_eq!(with(|bytes| bytes[0] = 0), Err(SuperblockError::Foreign("a demonstration")));
    let mut short = seal(&demo::<true>(7, 64));
    short.truncate(HEADER);
    short[10..12].copy_from_slice(&(HEADER as u16).to_le_bytes());
    reseal(&mut short);
    assert_eq!(unseal::<Demo<true>>(&short), Err(SuperblockError::Range("length")));
    for length in [0, 63, 129, 4097, u16::MAX] {
        let mut bytes = seal(&demo::<true>(7, 64));
        bytes[10..12].copy_from_slice(&length.to_le_bytes());
        assert_eq!(unseal::<Demo<true>>(&bytes), Err(SuperblockError::Checksum), "length {length}");
    }
    assert_eq!(unseal::<Demo<true>>(&[1; 63]), Err(SuperblockError::Foreign("a demonstration")));
    assert_eq!(unseal::<Demo<true>>(&[]), Err(SuperblockError::Blank));
}

/// Media from before the common header had their version at the same place, and their checksum elsewhere.
#[test]
fn a_medium_of_an_earlier_format_is_told_by_its_version() {
    let mut old = vec![0x55; SLOT];
    old[..8].copy_from_slice(&Demo::<true>::MAGIC);
    old[8..10].copy_from_slice(&1u16.to_le_bytes());
    assert_eq!(unseal::<Demo<true>>(&old), Err(SuperblockError::Older(1)));
    let text = SuperblockError::Older(1).to_string();
    assert!(text.contains("format version 1") && text.contains("esker init"), "{text}");
}

#[test]
fn unknown_features_are_refused_read_only_or_ignored_as_their_word_says() {
    let unknown = |word: usize| with(|bytes| bytes[word] |= 0b1000_0000);
    assert_eq!(unknown(12).unwrap().writable().unwrap().features.compatible, 0x80);
    let found = unknown(16).unwrap();
    assert_eq!((found.unknown_read_only, found.superblock.generation), (0x80, 7), "it may be read");
    assert_eq!(found.writable(), Err(SuperblockError::ReadOnly(0x80)));
    assert_eq!(unknown(20), Err(SuperblockError::Newer(3, 0x80)));
    let known = with(|bytes| [12, 16, 20].into_iter().zip([1, 2, 4]).for_each(|(at, bit)| bytes[at] = bit));
    assert_eq!(known.unwrap().unknown_read_only, 0);
    assert_eq!(with(|bytes| (bytes[8], bytes[20]) = (4, 0x80)), Err(SuperblockError::Newer(4, 0x80)));
}

/// All mixtures of sectors that a power cut can leave of a superblock that is written over one of two generations
/// before.
#[test]
fn a_torn_superblock_is_never_taken_for_a_whole_one() {
    const SECTORS: usize = 4;
    let (old, new, other) = (demo::<true>(6, SECTORS * SECTOR - HEADER), demo::<true>(8, SECTORS * SECTOR - HEADER), 7);
    let [old_bytes, new_bytes] = [&old, &new].map(seal);
    let other = demo::<true>(other, 100);
    let other_bytes = seal(&other);
    for mask in 0..1u32 << SECTORS {
        let sector = |at: usize| if mask >> at & 1 != 0 { &new_bytes } else { &old_bytes };
        let torn: Vec<u8> = (0..SECTORS).flat_map(|at| sector(at)[at * SECTOR..][..SECTOR].to_vec()).collect();
        let found = unseal::<Demo<true>>(&torn).map(|found| found.superblock);
        let expected = match mask {
            0 => Ok(old.clone()),
            0b1111 => Ok(new.clone()),
            _ => Err(SuperblockError::Checksum),
        };
        assert_eq!(found, expected, "sectors {mask:#b}");
        let newest = newest::<Demo<true>>(&[[&torn, &other_bytes]]).map(|found| found.superblock);
        assert_eq!(newest, Ok(if mask == 0b1111 { new.clone() } else { other.clone() }), "sectors {mask:#b}");
    }
}

#[test]
fn every_error_says_what_to_do() {
    let errors = [
        (SuperblockError::Blank, "name the device"),
        (SuperblockError::Foreign("a mirror"), "no superblock of a mirror; name another device"),
        (SuperblockError::Checksum, "restore it from a copy"),
        (SuperblockError::Older(1), "`esker init`"),
        (SuperblockError::Newer(9, 4), "version 9 and needs the features 0x4"),
        (SuperblockError::ReadOnly(2), "use a newer one"),
        (SuperblockError::Shifted, "4096 bytes from where it was written"),
        (SuperblockError::Range("size"), "size is out of range; restore"),
        (SuperblockError::Duplicate(5), "generation 5"),
    ];
    for (error, text) in errors {
        assert!(error.to_string().contains(text), "{error}");
    }
    let unmarked = errors.map(|(error, _)| error.is_unmarked());
    assert_eq!(unmarked, [true, true, false, false, false, false, false, false, false]);
}
