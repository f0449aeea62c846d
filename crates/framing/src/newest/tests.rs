use proptest::prelude::*;

use super::*;
use crate::superblock::tests::{Demo, demo};
use crate::superblock::{reseal, seal};

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Blank,
    Foreign,
    Older,
    Damaged,
    Range,
    Later,
    /// A superblock of this generation.
    Sound(u64),
}

impl Content {
    fn bytes(self) -> Vec<u8> {
        let sealed = |generation| seal(&demo::<true>(generation, 700));
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = sealed(4);
            change(&mut bytes);
            bytes
        };
        match self {
            Content::Blank => vec![0; SLOT],
            Content::Foreign => b"a file system".to_vec(),
            Content::Older => changed(&|bytes| bytes[8] = 1),
            Content::Damaged => changed(&|bytes| bytes[100] ^= 4),
            Content::Range => changed(&|bytes| {
                bytes[64] = 0;
                reseal(bytes);
            }),
            Content::Later => changed(&|bytes| {
                bytes[8] = 4;
                reseal(bytes);
            }),
            Content::Sound(generation) => sealed(generation),
        }
    }

    /// Lower numbers say less.
    fn gravity(self) -> usize {
        let order = [Content::Blank, Content::Foreign, Content::Older, Content::Damaged, Content::Range];
        order.iter().position(|content| *content == self).expect("no sound slot is asked")
    }

    fn error(self) -> SuperblockError {
        match self {
            Content::Blank => SuperblockError::Blank,
            Content::Foreign => SuperblockError::Foreign("a demonstration"),
            Content::Older => SuperblockError::Older(1),
            Content::Damaged => SuperblockError::Checksum,
            Content::Range => SuperblockError::Range("first byte"),
            Content::Later => SuperblockError::Newer(4, 0),
            Content::Sound(_) => panic!("it is sound"),
        }
    }
}

/// The rule as a table, for slots that hold what `copies` say.
fn expected(copies: &[[Content; 2]], detects_stale: bool) -> Result<u64, SuperblockError> {
    let all: Vec<(usize, Content)> = copies.iter().flat_map(|slots| slots.iter().copied().enumerate()).collect();
    if all.iter().any(|(_, content)| *content == Content::Later) {
        return Err(SuperblockError::Newer(4, 0));
    }
    let sound = |slot: usize| {
        let generation = |(at, content): &(usize, Content)| match content {
            Content::Sound(generation) if *at == slot => Some(*generation),
            _ => None,
        };
        all.iter().filter_map(generation).collect::<Vec<_>>()
    };
    let [zero, one] = [sound(0), sound(1)];
    if let Some(twin) = copies.iter().find_map(|slots| match slots {
        [Content::Sound(zero), Content::Sound(one)] if zero == one => Some(*zero),
        _ => None,
    }) {
        return Err(SuperblockError::Duplicate(twin));
    }
    if zero.iter().any(|generation| generation % 2 != 0) || one.iter().any(|generation| generation % 2 != 1) {
        return Err(SuperblockError::Shifted);
    }
    let worst = |slot: usize| {
        let contents = all.iter().filter(|(at, _)| *at == slot).map(|(_, content)| *content);
        contents.filter(|content| !matches!(content, Content::Sound(_))).max_by_key(|content| content.gravity())
    };
    let lost = [(0, &zero), (1, &one)].into_iter().filter(|(_, sound)| sound.is_empty());
    let lost = lost.filter_map(|(slot, _)| worst(slot)).max_by_key(|content| content.gravity());
    match (lost, zero.iter().chain(&one).max()) {
        (Some(lost), _) if !detects_stale && lost != Content::Blank => Err(lost.error()),
        (_, Some(generation)) => Ok(*generation),
        (lost, None) => Err(lost.map_or(SuperblockError::Blank, Content::error)),
    }
}

fn content() -> impl Strategy<Value = Content> {
    let unsound =
        [Content::Blank, Content::Foreign, Content::Older, Content::Damaged, Content::Range].map(Just).to_vec();
    prop_oneof![
        4 => proptest::strategy::Union::new(unsound),
        1 => Just(Content::Later),
        6 => (1..8u64).prop_map(Content::Sound),
    ]
}

fn judged<const DETECTS_STALE: bool>(copies: &[[Content; 2]]) -> Result<u64, SuperblockError> {
    let bytes: Vec<[Vec<u8>; 2]> = copies.iter().map(|slots| slots.map(Content::bytes)).collect();
    let copies: Vec<[&[u8]; 2]> = bytes.iter().map(|[zero, one]| [&zero[..], &one[..]]).collect();
    newest::<Demo<DETECTS_STALE>>(&copies).map(|found| found.superblock.generation)
}

proptest! {
    #[test]
    fn the_newest_superblock_is_that_of_a_naive_model(copies in prop::collection::vec([content(), content()], 1..3)) {
        // With two twins in four slots, either may be named.
        let kind = |found: Result<u64, SuperblockError>| match found {
            Err(SuperblockError::Duplicate(_)) => Err(SuperblockError::Duplicate(0)),
            found => found,
        };
        prop_assert_eq!(kind(judged::<true>(&copies)), kind(expected(&copies, true)));
        prop_assert_eq!(kind(judged::<false>(&copies)), kind(expected(&copies, false)));
    }
}

#[test]
fn a_damaged_slot_gives_way_only_where_a_stale_superblock_is_detected() {
    let [damaged, old] = [Content::Damaged, Content::Sound(3)];
    assert_eq!(judged::<true>(&[[damaged, old]]), Ok(3));
    assert_eq!(judged::<false>(&[[damaged, old]]), Err(SuperblockError::Checksum));
    assert_eq!(judged::<false>(&[[Content::Blank, old]]), Ok(3), "a slot that was never written is not damaged");
    let copies = [[damaged, old], [Content::Sound(4), damaged]];
    assert_eq!(judged::<false>(&copies), Ok(4), "a slot is lost when no copy of it is sound");
}

#[test]
fn a_superblock_counts_only_in_the_slot_of_its_generation() {
    assert_eq!(judged::<true>(&[[Content::Sound(3), Content::Blank]]), Err(SuperblockError::Shifted));
    assert_eq!(judged::<true>(&[[Content::Foreign, Content::Sound(4)]]), Err(SuperblockError::Shifted));
    assert_eq!(judged::<true>(&[[Content::Sound(4), Content::Sound(4)]]), Err(SuperblockError::Duplicate(4)));
    let [zero, one] = [Content::Sound(4), Content::Sound(3)];
    let copies = [[one, Content::Foreign], [zero, one]];
    assert_eq!(judged::<true>(&copies), Err(SuperblockError::Shifted), "the copy at the end is where it was");
}

#[test]
fn of_copies_of_one_generation_the_first_counts() {
    let one = seal(&demo::<true>(4, 100));
    let mut changed = one.clone();
    changed[90] ^= 8;
    reseal(&mut changed);
    let blank = vec![0; SLOT];
    let judge = |first: &[u8], second: &[u8]| {
        newest::<Demo<true>>(&[[first, &blank], [second, &blank]]).map(|found| found.superblock)
    };
    let other = unseal(&changed).map(|found| found.superblock);
    assert_ne!(other, Ok(demo(4, 100)));
    assert_eq!(judge(&one, &one), Ok(demo(4, 100)));
    assert_eq!(judge(&one, &changed), Ok(demo(4, 100)));
    assert_eq!(judge(&changed, &one), other);
}

#[test]
fn the_features_of_the_newest_superblock_count() {
    let with = |generation, read_only| {
        let mut superblock = demo::<true>(generation, 100);
        superblock.features.read_only = read_only;
        seal(&superblock)
    };
    let judge = |zero: &[u8], one: &[u8]| newest::<Demo<true>>(&[[zero, one]]).map(|found| found.unknown_read_only);
    assert_eq!(judge(&with(2, 8), &with(1, 2)), Ok(8));
    assert_eq!(judge(&with(2, 2), &with(3, 0)), Ok(0));
}

#[test]
fn the_slots_of_a_start_are_those_of_its_bytes() {
    let start: Vec<u8> = (0..2 * SLOT + 10).map(|at| (at / SLOT) as u8).collect();
    assert_eq!(slots(&start).map(|slot| (slot.len(), slot[0])), [(SLOT, 0), (SLOT, 1)]);
    assert_eq!(slots(&start[..SLOT + 3]).map(<[u8]>::len), [SLOT, 3]);
    assert_eq!(slots(&[]).map(<[u8]>::len), [0, 0]);
}
