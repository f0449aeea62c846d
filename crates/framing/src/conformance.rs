//! What every format runs in its tests: damage to its own superblocks is noticed, and the rule for a damaged slot is
//! the declared one.

use std::fmt::Debug;

use crate::newest::{Newest, newest};
use crate::superblock::{SLOT, Superblock, SuperblockError, reseal, seal, slot, unseal};

/// Checks a format's superblocks: `newer` is of the generation after `older`.
///
/// # Panics
/// If damage is not noticed, or a damaged slot is not judged as the format declares.
pub fn check<S: Superblock + PartialEq + Debug>(older: &S, newer: &S) {
    let generations = [older, newer].map(|superblock| superblock.header().generation);
    assert_eq!(generations[0] + 1, generations[1], "neighbouring generations");
    check_single(newer);
    check_slots(older, newer);
}

/// Checks a superblock that is written once and has no second slot.
///
/// # Panics
/// If damage is not noticed.
pub fn check_single<S: Superblock + PartialEq + Debug>(superblock: &S) {
    check_bytes(superblock);
    check_features(superblock);
}

fn found<S: Superblock>(start: &[Vec<u8>; 2]) -> Result<S, SuperblockError> {
    newest(&[[&start[0], &start[1]]]).and_then(Newest::writable)
}

/// Every byte counts.
fn check_bytes<S: Superblock + PartialEq + Debug>(superblock: &S) {
    let sealed = seal(superblock);
    let read = unseal(&sealed).and_then(Newest::writable);
    assert_eq!(read.as_ref(), Ok(superblock), "it reads back as it was written");
    for at in 0..sealed.len() {
        for bit in [0x01, 0x80] {
            let mut damaged = sealed.clone();
            damaged[at] ^= bit;
            assert!(unseal::<S>(&damaged).is_err(), "byte {at} was damaged by {bit:#x} and not noticed");
        }
    }
}

/// What a later program wrote is refused or read only, as it asks.
fn check_features<S: Superblock + PartialEq + Debug>(superblock: &S) {
    let with = |at: usize, value: u8| {
        let mut bytes = seal(superblock);
        bytes[at] = value;
        reseal(&mut bytes);
        unseal::<S>(&bytes).and_then(Newest::writable)
    };
    let (later, unknown) = (S::VERSION + 1, 1 << 31);
    let small = |version: u16| u8::try_from(version).expect("versions count from 1");
    assert_eq!(with(8, small(later)), Err(SuperblockError::Newer(later, 0)));
    assert_eq!(with(8, small(S::VERSION - 1)), Err(SuperblockError::Older(S::VERSION - 1)));
    assert!(with(15, 0x80).is_ok(), "a compatible feature may be ignored");
    assert_eq!(with(19, 0x80), Err(SuperblockError::ReadOnly(unknown)));
    assert_eq!(with(23, 0x80), Err(SuperblockError::Newer(S::VERSION, unknown)));
}

/// Each slot damaged, emptied, moved and of a later version in turn.
fn check_slots<S: Superblock + PartialEq + Debug>(older: &S, newer: &S) {
    let slot_of = |superblock: &S| slot(superblock.header().generation);
    let mut start = [vec![0; SLOT], vec![0; SLOT]];
    for superblock in [older, newer] {
        let sealed = seal(superblock);
        start[slot_of(superblock)][..sealed.len()].copy_from_slice(&sealed);
    }
    assert_eq!(found::<S>(&start).as_ref(), Ok(newer));
    for (damaged, sound) in [(older, newer), (newer, older)] {
        let at = slot_of(damaged);
        let change = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut start = start.clone();
            change(&mut start[at]);
            found::<S>(&start)
        };
        let torn = change(&|slot| slot[24] ^= 1);
        let foreign = change(&|slot| slot[0] ^= 1);
        match S::DETECTS_STALE {
            true => assert_eq!([torn.as_ref(), foreign.as_ref()], [Ok(sound); 2], "the other slot serves"),
            false => {
                let errors = [Err(SuperblockError::Checksum), Err(SuperblockError::Foreign(S::NAME))];
                assert_eq!([torn, foreign], errors, "no slot serves");
            }
        }
        assert_eq!(change(&|slot| slot.fill(0)).as_ref(), Ok(sound), "a slot that was never written");
        let later = change(&|slot| {
            let length = usize::from(u16::from_le_bytes([slot[10], slot[11]]));
            slot[8..10].copy_from_slice(&(S::VERSION + 1).to_le_bytes());
            reseal(&mut slot[..length]);
        });
        assert_eq!(later, Err(SuperblockError::Newer(S::VERSION + 1, 0)), "a later esker wrote slot {at}");
    }
    let moved = [start[1].clone(), vec![0; SLOT]];
    let shifted = [vec![0; SLOT], start[0].clone()];
    assert_eq!(
        [found::<S>(&moved), found::<S>(&shifted)],
        [Err(SuperblockError::Shifted), Err(SuperblockError::Shifted)]
    );
    let doubled = [start[0].clone(), start[0].clone()];
    let generation = [older, newer].map(|superblock| superblock.header().generation);
    let double =
        generation.into_iter().find(|generation| slot(*generation) == 0).expect("one of two neighbours is even");
    assert_eq!(found::<S>(&doubled), Err(SuperblockError::Duplicate(double)));
}
