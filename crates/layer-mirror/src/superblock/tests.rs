use std::mem::offset_of;

use esker_framing::HEADER;

use super::*;

fn superblock() -> Superblock {
    let mut superblock = Superblock::new(0x0102_0304, 3, 1 << 20, 4096);
    superblock.sequence = 7;
    superblock.change(0b101);
    superblock.dirty.set(0);
    superblock.dirty.set(9);
    superblock
}

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(Body, data),
        offset_of!(Body, region),
        offset_of!(Body, generation),
        offset_of!(Body, base),
        offset_of!(Body, member),
        offset_of!(Body, members),
        offset_of!(Body, in_sync),
        offset_of!(Body, detached),
        offset_of!(Body, reserved),
        offset_of!(Body, past),
        offset_of!(Body, bits),
    ];
    assert_eq!(at.map(|at| HEADER + at), [64, 72, 80, 88, 96, 98, 100, 102, 104, 112, 624]);
    assert_eq!((HEADER + size_of::<Body>(), REGIONS_MAX, DATA_START), (4096, 27_776, 8192));
}

/// The superblock that version 2 wrote; it must stay readable.
#[test]
fn the_golden_superblock_reads_as_it_was_written() {
    let golden = include_bytes!("../../golden/superblock-v2.bin");
    assert_eq!(Superblock::decode(golden), Ok((superblock(), 2)));
    assert_eq!(superblock().encode(2), golden);
}

#[test]
fn superblocks_keep_the_promises_of_the_common_header() {
    let (older, newer) = (superblock(), Superblock { sequence: superblock().sequence + 1, ..superblock() });
    let on = |superblock, member| OnMember { superblock, member };
    esker_framing::conformance::check(&on(older, 0), &on(newer, 0));
}

#[test]
fn a_superblock_in_the_slot_of_the_other_is_that_of_a_device_seen_elsewhere() {
    let (old, blank) = (superblock(), vec![0; PAGE]);
    let shifted = if old.at() == 0 { [blank, old.encode(1)] } else { [old.encode(1), blank] };
    assert_eq!(Superblock::newest(&shifted.concat()), Err(SuperblockError::Shifted));
}

#[test]
fn the_newer_slot_counts_and_a_torn_one_does_not() {
    let (old, mut new) = (superblock(), superblock());
    new.sequence += 1;
    let slots = [new.encode(0), old.encode(0)].concat();
    assert_eq!(Superblock::newest(&slots), Ok((new, 0)));
    for torn in [600, 4095] {
        let mut slots = slots.clone();
        slots[torn] ^= 1;
        assert_eq!(Superblock::newest(&slots), Ok((old.clone(), 0)), "byte {torn}");
    }
    let blank = vec![0; PAGE];
    assert_eq!(Superblock::newest(&[blank.clone(), old.encode(1)].concat()), Ok((old.clone(), 1)));
    assert_eq!(Superblock::newest(&[blank.clone(), blank.clone()].concat()), Err(SuperblockError::Blank));
    let mut broken = old.encode(1);
    broken[700] ^= 1;
    assert_eq!(Superblock::newest(&[blank, broken].concat()), Err(SuperblockError::Checksum));
}

/// Changes the body of a superblock of member 0 under a right checksum.
fn with(change: impl FnOnce(&mut Body)) -> Result<(Superblock, u16), SuperblockError> {
    let mut bytes = superblock().encode(0);
    let mut body = Body::read_from_bytes(&bytes[HEADER..]).unwrap();
    change(&mut body);
    bytes[HEADER..].copy_from_slice(body.as_bytes());
    esker_framing::superblock::reseal(&mut bytes);
    Superblock::decode(&bytes)
}

#[test]
fn what_no_esker_writes_is_refused_under_a_right_checksum() {
    assert_eq!(with(|_| ()), Ok((superblock(), 0)));
    assert_eq!(with(|body| body.members = 17.into()), Err(SuperblockError::Range("number of members")));
    assert_eq!(with(|body| body.member = 3.into()), Err(SuperblockError::Range("own number")));
    assert_eq!(with(|body| body.region = 0.into()), Err(SuperblockError::Range("region")));
    assert_eq!(with(|body| body.region = 1.into()), Err(SuperblockError::Range("size")));
    assert_eq!(with(|body| body.data = u64::MAX.into()), Err(SuperblockError::Range("size")));
    assert_eq!(with(|body| body.in_sync = 0.into()), Err(SuperblockError::Range("set of members in sync")));
    assert_eq!(with(|body| body.in_sync = 0b1001.into()), Err(SuperblockError::Range("set of members in sync")));
    assert_eq!(with(|body| body.generation = 0.into()), Err(SuperblockError::Range("generation")));
    assert_eq!(with(|body| body.base = 99.into()), Err(SuperblockError::Range("sequence")));
    let mut foreign = superblock().encode(0);
    foreign[3] ^= 1;
    assert_eq!(Superblock::decode(&foreign), Err(SuperblockError::Foreign("a mirror")));
    assert_eq!(Superblock::decode(&[1; 100]), Err(SuperblockError::Foreign("a mirror")));
}

/// The label that version 1 wrote in the place of the superblock.
#[test]
fn a_member_of_the_earlier_format_is_told() {
    let mut old = vec![0x5a; 2 * PAGE];
    for slot in old.chunks_exact_mut(PAGE) {
        slot[..10].copy_from_slice(b"\x89EskMir\n\x01\0");
    }
    assert_eq!(Superblock::newest(&old), Err(SuperblockError::Older(1)));
}

#[test]
fn ancestors_are_told_from_strangers() {
    let old = superblock();
    let (mut left, mut right) = (old.clone(), old.clone());
    left.change(0b001);
    right.change(0b100);
    assert!(old.is_ancestor_of(&left) && old.is_ancestor_of(&right) && left.is_ancestor_of(&left));
    right.change(0b110);
    assert!(!left.is_ancestor_of(&right), "they went on without each other");
    for in_sync in [0b001, 0b101].into_iter().cycle().take(100) {
        left.change(in_sync);
    }
    assert!(old.is_ancestor_of(&left), "too old to be known");
}

/// All that the first superblock of a set says lies in one sector, so a power cut leaves it whole or nothing of it.
#[test]
fn what_a_crash_leaves_of_a_first_superblock_is_all_of_it_or_a_blank_member() {
    let mut first = Superblock::new(5, 2, 1 << 20, 4096);
    first.sequence = 1;
    let whole = first.encode(0);
    for (from, to) in [(0, 512), (512, 4096), (3584, 4096), (0, 3584), (1024, 2048)] {
        let mut slots = vec![0; 2 * PAGE];
        slots[PAGE + from..PAGE + to].copy_from_slice(&whole[from..to]);
        let expected = if from == 0 { Ok((first.clone(), 0)) } else { Err(SuperblockError::Blank) };
        assert_eq!(Superblock::newest(&slots), expected, "{from} to {to}");
    }
    for at in [PAGE + 600, 10] {
        let mut foreign = vec![0; 2 * PAGE];
        foreign[at] = 1;
        assert_eq!(Superblock::newest(&foreign), Err(SuperblockError::Foreign("a mirror")));
    }
}
