use std::mem::offset_of;

use super::*;

const VOLUME: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

fn entry(name: &str, start: u64) -> Entry {
    Entry { parent: 12, read_only: true, ..Entry::volume(name, 77, start, (2048, 1 << 31)) }
}

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(RawEntry, flags),
        offset_of!(RawEntry, name_len),
        offset_of!(RawEntry, id),
        offset_of!(RawEntry, parent),
        offset_of!(RawEntry, start),
        offset_of!(RawEntry, blocks),
        offset_of!(RawEntry, capacity),
        offset_of!(RawEntry, name),
    ];
    assert_eq!(at.map(|at| PAGE_HEADER + at), [48, 49, 56, 64, 72, 80, 88, 96]);
}

#[test]
fn the_head_keeps_the_promises_of_the_common_header() {
    esker_framing::conformance::check_single(&SegmentHeader { volume: VOLUME });
}

#[test]
fn golden_bytes_read_as_they_were_written() {
    let golden = include_bytes!("../../golden/volumes-v2.bin");
    let entry = entry("db-monday", 1 << 31);
    assert!(
        [head(512, VOLUME), entry.encode(512, VOLUME, 3)].concat() == golden,
        "the format has changed: a new version, or a mistake"
    );
    assert_eq!(check_head(&golden[..512], VOLUME), Ok(()));
    assert_eq!(Entry::decode(&golden[512..], VOLUME, 3), Ok(entry));
}

#[test]
fn entries_with_a_content_number_read_as_they_were_written() {
    let golden = include_bytes!("../../golden/volumes-v2-sent.bin");
    let sent = Entry { held: true, content: 0xfedc << 96 | 7, ..entry("db-monday", 1 << 31) };
    let received = Entry { read_only: false, content: 9, received: Some(8192), ..entry("db-receiving", 0) };
    assert!(
        [sent.encode(512, VOLUME, 3), received.encode(512, VOLUME, 4)].concat() == golden,
        "the format has changed: a new version, or a mistake"
    );
    assert_eq!(Entry::decode(&golden[..512], VOLUME, 3), Ok(sent));
    assert_eq!(Entry::decode(&golden[512..], VOLUME, 4), Ok(received));
    let at = [offset_of!(RawCopy, content), offset_of!(RawCopy, received), offset_of!(RawCopy, reserved)];
    assert_eq!(at.map(|at| PAGE_HEADER + size_of::<RawEntry>() + at), [160, 176, 184]);
}

#[test]
fn flags_that_do_not_fit_together_are_refused() {
    let whole = Entry { content: 9, ..entry("v", 0) };
    let odd = [
        Entry { read_only: false, held: true, ..whole.clone() },
        Entry { read_only: false, ..whole.clone() },
        Entry { received: Some(0), ..whole.clone() },
        Entry { content: 0, received: Some(1), read_only: false, ..whole.clone() },
    ];
    for entry in odd {
        let error = Entry::decode(&entry.encode(512, VOLUME, 3), VOLUME, 3).unwrap_err().to_string();
        assert!(error.contains("do not fit together"), "{entry:?}: {error}");
    }
    assert!(Entry::decode(&whole.encode(512, VOLUME, 3), VOLUME, 3).is_ok());
}

#[test]
fn any_damaged_byte_that_says_something_is_found() {
    let (whole, entry) = (head(512, VOLUME), entry("v", 0).encode(512, VOLUME, 3));
    let damaged = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x40;
        bytes
    };
    for at in 0..HEADER {
        assert!(check_head(&damaged(&whole, at), VOLUME).is_err(), "byte {at} of the head");
    }
    for at in 0..entry.len() {
        assert!(Entry::decode(&damaged(&entry, at), VOLUME, 3).is_err(), "byte {at} of an entry");
    }
    assert_eq!(Entry::decode(&entry, VOLUME, 4), Err(CatalogueError::Damaged(4)), "an entry at another place");
    assert_eq!(Entry::decode(&entry, VOLUME + 1, 3), Err(CatalogueError::Damaged(3)), "an entry of another volume");
    assert_eq!(check_head(&whole, VOLUME + 1), Err(CatalogueError::Range(0, "it is another volume's")));
    assert!(is_head(&damaged(&whole, 30)) && !is_head(&[0; 512]) && !is_head(b"a file system"));
}

#[test]
fn numbers_that_no_esker_writes_are_refused_under_a_right_checksum() {
    let check = |at: usize, bytes: &[u8], words: &str| {
        let block = entry("v", 0).encode(512, VOLUME, 3);
        let wanted = PageId { id: VOLUME, place: 3, generations: 0..=0, kind: ENTRY };
        let page = Page::unseal(&block, &wanted).unwrap();
        let mut payload = page.payload.to_vec();
        payload[at - PAGE_HEADER..][..bytes.len()].copy_from_slice(bytes);
        let mut forged = vec![0; 512];
        Page { payload: &payload, ..page }.seal(&mut forged);
        let error = Entry::decode(&forged, VOLUME, 3).unwrap_err().to_string();
        assert!(error.contains(words), "byte {at}: {error}");
    };
    check(48, &[16], "flags");
    check(52, &[1], "flags");
    check(48, &[HELD], "do not fit together");
    check(49, &[0], "name");
    check(49, &[65], "name");
    check(96, b".", "name");
    check(56, &[0; 8], "numbers");
    check(80, &[0; 8], "numbers");
    check(80, &u64::MAX.to_le_bytes(), "numbers");
    check(72, &CATALOGUE.to_le_bytes(), "numbers");
    let mut newer = head(512, VOLUME);
    newer[8] = 3;
    esker_framing::superblock::reseal(&mut newer[..HEADER]);
    assert_eq!(check_head(&newer, VOLUME), Err(CatalogueError::SegmentHeader(SuperblockError::Newer(3, 0))));
}

#[test]
fn names_and_room_are_given_once_and_gaps_are_used_again() {
    let mut all = Catalogue::default();
    all.put(1, entry("a", 0)).unwrap();
    all.put(2, entry("b", 1 << 31)).unwrap();
    assert_eq!(all.put(3, entry("a", 1 << 40)), Err(CatalogueError::Range(3, "a name that stands twice")));
    assert_eq!(
        all.put(3, entry("c", (1 << 31) + 5)),
        Err(CatalogueError::Range(3, "room that another volume has too"))
    );
    assert_eq!((all.free_place(), all.room(2048, 512)), (Some(3), Some((2 << 31, 1 << 31))));
    assert!(all.name_of(77) == Some("a"));
    all.take(1);
    assert_eq!((all.free_place(), all.room(2048, 512)), (Some(1), Some((0, 1 << 31))));
    assert_eq!(all.room((1 << 31) + 1, 512), Some((2 << 31, 2 << 31)), "the gap is too small");
    assert_eq!(all.room((1 << 47) + 1, 512), None, "all of the space, which it shares with the catalogue");
    assert!(all.get("a").is_none() && all.name_of(77) == Some("b"));
}

#[test]
fn an_entry_that_is_refused_leaves_the_one_at_its_place() {
    let mut all = Catalogue::default();
    all.put(1, entry("a", 0)).unwrap();
    all.put(2, entry("b", 1 << 31)).unwrap();
    let was = all.clone();
    assert!(all.put(2, entry("a", 1 << 31)).is_err() && all.put(2, entry("b", 5)).is_err());
    assert_eq!(all, was);
    assert_eq!(all.put(2, entry("c", 1 << 32)), Ok(Some(entry("b", 1 << 31))));
    assert_eq!(all.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn an_entry_outside_the_catalogue_or_the_space_of_volumes_is_refused() {
    let mut all = Catalogue::default();
    assert!(all.put(0, entry("a", 0)).is_err() && all.put(1 << 31, entry("a", 0)).is_err());
    assert!(all.put(1, entry("a", CATALOGUE)).is_err() && all.is_empty());
    assert_eq!(all, Catalogue::default());
}
