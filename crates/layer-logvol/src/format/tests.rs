use std::mem::offset_of;

use esker_framing::{HEADER, PAGE_HEADER, RECORD_HEADER, SuperblockError};
use proptest::prelude::*;

use super::head::{RawCopyHead, RawHead};
use super::slot::Body;

use super::*;
use crate::map::Extent;
use crate::number::{PageNo, SegmentNo};
use esker_cleaning::Class;

fn geometry() -> Geometry {
    Geometry::fit(1 << 20, 512, 512, 16 << 10).unwrap()
}

fn slot() -> Slot {
    Slot {
        geometry: geometry(),
        volume: 0x0102_0304_0506_0708,
        generation: 7,
        epoch: 0xfeed,
        seq: 99,
        heads: [(3, 5), (6, 7)].map(|(segment, block)| Position { segment: SegmentNo::of(segment), block }),
        root: PageNo(40),
        height: 1,
        mappings: 11,
        blocks: 222,
    }
}

fn batch() -> Batch {
    Batch {
        epoch: 0xfeed,
        seq: 100,
        durable: 98,
        records: vec![
            Record::Apart { class: 1, pba: 77, len: 8 },
            Record::Write { lba: 0x0102_0304_0506, len: 9, sum: 0xaabb_ccdd, run: 0 },
            Record::Write { lba: 0x0605, len: 8, sum: 1, run: 1 },
            Record::Clone { src: 10, dst: 500, len: 20 },
            Record::Move { src: 500, dst: 10, len: 20 },
            Record::Delete { lba: 7, len: 1 << 40 },
        ],
    }
}

const ID: PageId = PageId { volume: 5, page: PageNo(44), generation: 3 };

fn pages() -> [Page; 5] {
    [
        Page::Leaf(vec![Extent { lba: 1, pba: 2, len: 3 }, Extent { lba: 1 << 27, pba: 9, len: 1 }]),
        Page::Inner(vec![(0, 12), (800, 13)]),
        Page::Roots(6, vec![0, 4, 0, 4]),
        Page::Index(1, vec![PageNo(77), PageNo::NONE, PageNo(78)]),
        Page::Changes(vec![(4, Extent { lba: 1, pba: 2, len: 3 }), (9, Extent { lba: 1 << 27, pba: 0, len: 1 })]),
    ]
}

fn encoded(batch: &Batch, block: usize) -> Vec<u8> {
    let mut out = vec![0; Batch::head_bytes(batch.records.len(), block)];
    batch.encode(&mut out);
    out
}

fn page_bytes(page: &Page) -> Vec<u8> {
    let mut out = vec![0; 512];
    page.encode(ID, &mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The rows of the format's page, byte by byte.
#[test]
fn the_layout_is_that_of_the_page() {
    let body = [
        offset_of!(Body, segment),
        offset_of!(Body, segments),
        offset_of!(Body, start),
        offset_of!(Body, epoch),
        offset_of!(Body, seq),
        offset_of!(Body, position_segment),
        offset_of!(Body, position_block),
        offset_of!(Body, root),
        offset_of!(Body, mappings),
        offset_of!(Body, blocks),
        offset_of!(Body, block_log2),
        offset_of!(Body, page_log2),
        offset_of!(Body, height),
        offset_of!(Body, long_segment),
        offset_of!(Body, long_block),
        offset_of!(Body, reserved),
    ];
    assert_eq!(body.map(|at| HEADER + at), [64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 145, 146, 152, 160, 168]);
    assert_eq!((HEADER + size_of::<Body>(), slot().encode().len()), (512, SLOT));
    let head = [
        offset_of!(RawHead, previous),
        offset_of!(RawHead, generation),
        offset_of!(RawHead, class),
        offset_of!(RawHead, begins_with_data),
    ];
    assert_eq!((head.map(|at| RECORD_HEADER + at), RECORD_HEADER + size_of::<RawHead>()), ([64, 72, 80, 81], 88));
    let copies = [offset_of!(RawCopyHead, born), offset_of!(RawCopyHead, class)];
    assert_eq!((copies.map(|at| PAGE_HEADER + at), PAGE_HEADER + size_of::<RawCopyHead>()), ([48, 56], 64));

    let bytes = encoded(&batch(), 512);
    assert_eq!(hex(&bytes[..4]), "45620000");
    assert_eq!((get(&bytes, 8, 8), get(&bytes, 16, 8), get(&bytes, 24, 4), get(&bytes, 28, 4)), (100, 0xfeed, 2, 6));
    let record = |i: usize| hex(&bytes[BATCH_HEAD + RECORD * i..][..RECORD]);
    assert_eq!(record(0), "0501 080000000000 4d0000000000 000000000000 00000000".replace(' ', ""));
    assert_eq!(record(2), "0101 0000 050600000000 0000 08000000 01000000 00000000".replace(' ', ""));
    assert_eq!(record(1), "0100 0000 060504030201 0000 09000000 ddccbbaa 00000000".replace(' ', ""));
    assert_eq!(record(3), "0200 140000000000 0a0000000000 f40100000000 00000000".replace(' ', ""));
    assert_eq!(record(4), "0300 140000000000 f40100000000 0a0000000000 00000000".replace(' ', ""));
    assert_eq!(record(5), "0400 000000000001 070000000000 000000000000 00000000".replace(' ', ""));
    assert_eq!((records_per(512), records_per(4096)), (20, 169));

    let [leaf, inner, roots, index, changes] = pages().map(|page| page_bytes(&page));
    assert_eq!(hex(&leaf[..4]), hex(b"EsMp"));
    assert_eq!((get(&leaf, 8, 8), get(&leaf, 16, 8), get(&leaf, 24, 2), leaf[26], get(&leaf, 28, 4)), (3, 44, 2, 0, 5));
    assert_eq!(hex(&leaf[32..56]), "010000000000 020000000000 03000000 0000000000000000".replace(' ', ""));
    assert_eq!((inner[26], hex(&inner[32..48])), (1, "00000000 0c000000 20030000 0d000000".replace(' ', "")));
    assert_eq!((roots[26], get(&roots, 24, 2)), (2, 5));
    assert_eq!(hex(&roots[32..52]), "06000000 00000000 04000000 00000000 04000000".replace(' ', ""));
    assert_eq!((index[26], index[27], get(&index, 32, 8), get(&index, 40, 8), get(&index, 48, 8)), (3, 1, 77, 0, 78));
    assert_eq!((changes[26], get(&changes, 24, 2)), (4, 2));
    assert_eq!(hex(&changes[32..52]), "04000000 020000000000 01000000 03000000 0000".replace(' ', ""));
    assert_eq!(hex(&changes[52..72]), "09000000 000000000000 00000008 01000000 0000".replace(' ', ""));
}

#[test]
fn what_is_written_reads_back() {
    assert_eq!(Slot::decode(&slot().encode()), Ok(slot()));
    for block in [512, 4096] {
        assert_eq!(Batch::decode(&encoded(&batch(), block), block, 0xfeed), Ok(batch()));
    }
    for page in pages() {
        assert_eq!(Page::decode(&page_bytes(&page), ID), Ok(page));
    }
    let (head, copies) = heads();
    let g = &geometry();
    let (log, moved) = (head.encode(g), copies.encode(g));
    let (four, six) = (SegmentNo::of(4), SegmentNo::of(6));
    assert_eq!(
        (SegmentHeader::decode(&log, 9, four, g), CopyHeader::decode(&moved, 9, six, g)),
        (Some(head), Some(copies))
    );
    for (volume, segment) in [(9, 5), (8, 4), (8, 6)] {
        let segment = SegmentNo::of(segment);
        assert_eq!(SegmentHeader::decode(&log, volume, segment, g), None);
        assert_eq!(CopyHeader::decode(&moved, volume, segment, g), None);
    }
    assert_eq!((SegmentHeader::decode(&moved, 9, six, g), CopyHeader::decode(&log, 9, four, g)), (None, None));
}

#[test]
fn slots_keep_the_promises_of_the_common_header() {
    esker_framing::conformance::check(&slot(), &Slot { generation: 8, ..slot() });
}

/// A head of the log and one of copies.
fn heads() -> (SegmentHeader, CopyHeader) {
    let head = SegmentHeader {
        volume: 9,
        segment: SegmentNo::of(4),
        seq: 5,
        epoch: 6,
        previous: 7,
        generation: 8,
        durable: 3,
        class: Class::NEW_LONG,
        begins_with_data: true,
    };
    (head, CopyHeader { volume: 9, segment: SegmentNo::of(6), born: 2, class: 3 })
}

/// What version 4 wrote; it must stay readable.
#[test]
fn golden_bytes_read_as_they_were_written() {
    let golden = include_bytes!("../../golden/volume-v4.bin");
    let (head, copies) = heads();
    let heads = [head.encode(&geometry()), copies.encode(&geometry())].concat();
    let pages = pages().map(|page| page_bytes(&page)).concat();
    let bytes = [slot().encode(), encoded(&batch(), 512), pages, heads].concat();
    assert!(bytes == golden, "the format has changed: a new version, or a mistake");
    assert_eq!(Slot::decode(&golden[..SLOT]), Ok(slot()));
    assert_eq!(Batch::decode(&golden[SLOT..], 512, 0xfeed), Ok(batch()));
}

#[test]
fn a_batch_longer_than_a_block_asks_for_all_of_it() {
    let long = Batch { records: vec![Record::Delete { lba: 1, len: 1 }; 1024], ..batch() };
    let bytes = encoded(&long, 512);
    assert_eq!(bytes.len(), 49 * 512);
    assert_eq!(Batch::decode(&bytes[..512], 512, 0xfeed), Err(BatchError::Short(49 * 512)));
    assert_eq!(Batch::decode(&bytes, 512, 0xfeed), Ok(long));
    for torn in 0..49 {
        let mut bytes = bytes.clone();
        bytes[torn * 512..][..512].fill(0);
        assert_eq!(Batch::decode(&bytes, 512, 0xfeed), Err(BatchError::None), "block {torn} is missing");
    }
}

/// Changes bytes of an encoding and mends its checksum, which lies in 4 bytes at `sum`.
fn forged(mut bytes: Vec<u8>, used: usize, sum: usize, at: usize, value: &[u8]) -> Vec<u8> {
    bytes[at..at + value.len()].copy_from_slice(value);
    let right = checksum(&bytes[..used], sum);
    bytes[sum..sum + 4].copy_from_slice(&right.to_le_bytes());
    bytes
}

#[test]
fn slots_that_no_esker_writes_are_refused_under_a_right_checksum() {
    let check = |at: usize, value: &[u8], field: &'static str| {
        let bytes = forged(slot().encode(), 512, 24, at, value);
        assert_eq!(Slot::decode(&bytes), Err(SuperblockError::Range(field)), "byte {at}");
    };
    check(144, &[10], "geometry");
    check(144, &[63], "block");
    check(145, &[8], "geometry");
    check(64, &[0; 8], "geometry");
    check(64, &[255; 8], "geometry");
    check(72, &[255; 8], "geometry");
    check(80, &[1], "geometry");
    check(48, &[0; 8], "generation");
    check(96, &[255; 8], "sequence");
    check(104, &[255], "position");
    check(112, &[33], "position");
    check(152, &[255], "position");
    check(160, &[33], "position");
    check(152, &[3], "position");
    check(120, &[0], "root");
    check(120, &[255; 8], "root");
    check(146, &[16], "root");
    let mut old = vec![0x5a; SLOT];
    old[..10].copy_from_slice(b"\x89EskVol\n\x01\0");
    assert_eq!(Slot::decode(&old), Err(SuperblockError::Older(1)));
}

#[test]
fn records_that_no_esker_writes_are_refused_under_a_right_checksum() {
    let check = |at: usize, value: &[u8], what: &str| {
        let bytes = forged(encoded(&batch(), 512), 512, 4, at, value);
        match Batch::decode(&bytes, 512, 0xfeed) {
            Err(error @ BatchError::Unknown(..)) => assert!(error.to_string().contains(what), "byte {at}: {error}"),
            other => panic!("byte {at}: {other:?}"),
        }
    };
    let record = |i: usize| BATCH_HEAD + RECORD * i;
    check(2, &[1], "another kind of batch");
    check(record(0) + 2, &[9], "another length");
    check(record(0) + 2, &[0], "no data apart");
    check(record(0) + 14, &[1], "no data apart");
    check(record(1), &[9], "not known");
    check(record(5) + 1, &[1], "flags");
    check(record(1) + 2, &[1], "a key");
    check(record(1) + 12, &[0; 4], "outside");
    check(record(2) + 1, &[2], "another length");
    check(record(1) + 1, &[2], "not named");
    check(record(3) + 20, &[1], "group");
    check(record(3) + 8, &[255; 6], "outside");
    check(record(3) + 14, &[11, 0], "overlap");
    check(record(5) + 14, &[1], "a destination");
    assert_eq!(Batch::decode(&encoded(&batch(), 512), 512, 0xbeef), Err(BatchError::None), "another epoch");
}

#[test]
fn pages_that_no_esker_writes_are_refused() {
    let [leaf, inner, roots, _, changes] = pages().map(|page| page_bytes(&page));
    assert_eq!(Page::decode(&leaf, PageId { page: PageNo(45), ..ID }), Err(PageError::Other));
    assert_eq!(Page::decode(&leaf, PageId { volume: 6, ..ID }), Err(PageError::Other));
    assert_eq!(Page::decode(&leaf, PageId { generation: 2, ..ID }), Err(PageError::Other));
    let refuses = |page: &[u8], at: usize, value: &[u8]| {
        let forged = forged(page.to_vec(), 512, 4, at, value);
        assert!(matches!(Page::decode(&forged, ID), Err(PageError::Misfit(_))), "byte {at}");
    };
    refuses(&leaf, 32 + 16, &[1]);
    refuses(&leaf, 24, &[255]);
    refuses(&leaf, 26, &[5]);
    refuses(&leaf, 27, &[1]);
    refuses(&leaf, 32 + 12, &[0; 4]);
    refuses(&leaf, 32 + 24, &[2, 0, 0, 0]);
    refuses(&leaf, 32 + 24, &[0, 0, 0, 16]);
    refuses(&inner, 40, &[0; 4]);
    refuses(&inner, 40, &[0, 0, 0, 16]);
    refuses(&inner, 36, &[0; 4]);
    refuses(&inner, 24, &[0]);
    refuses(&roots, 24, &[0]);
    refuses(&roots, 32, &[255; 4]);
    refuses(&changes, 32, &[0; 4]);
    refuses(&changes, 52 + 10, &[0, 0, 0, 16]);
    refuses(&changes, 52 + 14, &[0]);
    refuses(&changes, 52 + 18, &[1]);
}

#[test]
fn bad_geometries_are_refused_with_what_would_be_right() {
    let check = |bytes, block, page, segment, what: &str| {
        let error = Geometry::fit(bytes, block, page, segment).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    check(1 << 30, 1024, 4096, 1 << 20, "512 or 4096");
    check(1 << 30, 4096, 512, 1 << 20, "from 4096");
    check(1 << 30, 4096, 4096, 3 << 20, "power of two");
    check(1 << 40, 4096, 4096, 2 << 30, "to 1073741824");
    check(1 << 20, 512, 512, 512, "from 8192");
    check(1 << 20, 4096, 4096, 1 << 20, "8 are needed");
    check(64 << 40, 4096, 4096, 1 << 20, "write segment=16MiB");
    check(1 << 60, 4096, 4096, 128 << 20, "a size of at most 4PiB");
    assert_eq!(Geometry::fit(64 << 40, 4096, 4096, 16 << 20).map(|g| g.segments), Ok((1 << 22) - 1));
    let g = Geometry::fit(1 << 34, 4096, 4096, 128 << 20).unwrap();
    assert_eq!((g.start, g.segments, g.fanout().leaf, g.fanout().inner), (1 << 20, 127, 169, 508));
    assert!(
        g.bytes() <= 1 << 34
            && g.segment_of_page(PageNo(0)).is_none()
            && g.segment_of_page(g.pages_of(SegmentNo::of(5)).start) == Some(SegmentNo::of(5))
    );
}

proptest! {
    /// A single wrong bit anywhere is found.
    #[test]
    fn any_flipped_bit_is_found(bit in 0..4096usize) {
        let flipped = |mut bytes: Vec<u8>| {
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        prop_assert!(Slot::decode(&flipped(slot().encode())).is_err());
        prop_assert!(Batch::decode(&flipped(encoded(&batch(), 512)), 512, 0xfeed).is_err());
        for page in pages() {
            prop_assert!(Page::decode(&flipped(page_bytes(&page)), ID).is_err());
        }
    }
}
