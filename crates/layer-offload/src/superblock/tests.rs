use std::mem::offset_of;

use super::*;
use crate::format::AREA_START;
use crate::format::tests::superblock;

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(Body, home),
        offset_of!(Body, area),
        offset_of!(Body, first),
        offset_of!(Body, number),
        offset_of!(Body, epoch),
        offset_of!(Body, since),
        offset_of!(Body, durable),
        offset_of!(Body, block),
        offset_of!(Body, reserved),
    ];
    assert_eq!(at.map(|at| HEADER + at), [64, 72, 80, 88, 96, 104, 112, 120, 124]);
    assert_eq!(HEADER + size_of::<Body>(), LEN);
}

#[test]
fn superblocks_keep_the_promises_of_the_common_header() {
    esker_framing::conformance::check(&superblock(), &Superblock { sequence: 10, ..superblock() });
}

fn slots(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut slots = vec![0; AREA_START as usize];
    slots[..first.len()].copy_from_slice(first);
    slots[SLOT as usize..][..second.len()].copy_from_slice(second);
    slots
}

#[test]
fn the_newer_superblock_counts_and_a_damaged_one_is_never_passed_over() {
    let (old, mut new) = (superblock(), superblock());
    new.sequence += 1;
    assert_eq!(Superblock::newest(&slots(&new.encode(), &old.encode())), Ok(new.clone()));
    assert_eq!(Superblock::newest(&slots(&[], &old.encode())), Ok(old.clone()));
    assert_eq!(Superblock::newest(&slots(&[], &[])), Err(SuperblockError::Blank));
    assert_eq!(Superblock::newest(&slots(&old.encode(), &old.encode())), Err(SuperblockError::Duplicate(9)));
    assert_eq!(Superblock::newest(&slots(&old.encode(), &[])), Err(SuperblockError::Shifted));
    let mut damaged = new.encode();
    damaged[60] ^= 1;
    assert_eq!(Superblock::newest(&slots(&damaged, &old.encode())), Err(SuperblockError::Checksum));
    let foreign = SuperblockError::Foreign("a log of off-loaded writes");
    assert_eq!(Superblock::newest(&slots(b"a file system", &old.encode())), Err(foreign));
}

#[test]
fn what_no_esker_writes_is_refused_under_a_right_checksum() {
    let with = |change: &dyn Fn(&mut Superblock)| {
        let mut changed = superblock();
        change(&mut changed);
        Superblock::decode(&seal(&changed))
    };
    assert_eq!(with(&|_| ()), Ok(superblock()));
    let range = |field| Err(SuperblockError::Range(field));
    assert_eq!(with(&|changed| changed.block = 0), range("block"));
    assert_eq!(with(&|changed| changed.block = 8192), range("block"));
    assert_eq!(with(&|changed| changed.home = 100), range("volume"));
    assert_eq!(with(&|changed| changed.area = 0), range("area"));
    assert_eq!(with(&|changed| changed.first = 7), range("first record"));
    assert_eq!(with(&|changed| changed.sequence = 0), range("sequence"));
    assert_eq!(with(&|changed| changed.number = u64::MAX), range("number"));
    assert_eq!(Superblock::decode(&[1; 40]), Err(SuperblockError::Foreign("a log of off-loaded writes")));
}

#[test]
fn a_log_of_the_earlier_format_is_told() {
    let mut old = vec![0x5a; AREA_START as usize];
    for slot in old.chunks_exact_mut(SLOT as usize) {
        slot[..10].copy_from_slice(b"\x89EskOff\n\x01\0");
    }
    assert_eq!(Superblock::newest(&old), Err(SuperblockError::Older(1)));
}
