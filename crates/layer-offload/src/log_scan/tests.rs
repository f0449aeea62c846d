use super::*;
use crate::format::AREA_START;

const BLOCK: u64 = 512;

fn superblock() -> Superblock {
    Superblock { epoch: 1, ..Superblock::new(77, 1 << 20, 64 << 10, BLOCK as u32) }
}

/// Four records of a block of zeroes. The last one calls those before record 2 durable.
fn log() -> Vec<u8> {
    let superblock = superblock();
    let content = Content::Data(crc32fast::hash(&[0; BLOCK as usize]));
    let mut bytes = vec![0; (AREA_START + superblock.area) as usize];
    for number in 0..4 {
        let range = ByteRange::new(number * BLOCK, BLOCK).expect("a small range");
        let (position, durable) = (number * 2 * BLOCK, if number == 3 { 2 } else { 0 });
        let record = Record { number, epoch: 1, position, range, content, durable };
        let at = place(&superblock, position) as usize;
        bytes[at..][..BLOCK as usize].copy_from_slice(&record.encode(&superblock));
    }
    bytes
}

/// The numbers of the records that are found with this byte damaged.
fn found(damaged: Option<u64>, whole: bool) -> Result<Vec<u64>, Damage> {
    let mut bytes = log();
    damaged.into_iter().for_each(|at| bytes[(AREA_START + at) as usize] ^= 1);
    let mut replay = Replay::new(superblock(), whole, 4096);
    while let Some(range) = replay.wants() {
        replay.feed(&bytes[range.start() as usize..range.end() as usize]);
    }
    replay.end().map(|records| records.iter().map(|record| record.number).collect())
}

#[test]
fn a_record_that_a_later_one_calls_durable_is_never_missed_in_silence() {
    assert_eq!(found(None, false), Ok(vec![0, 1, 2, 3]));
    for number in [0, 1] {
        let at = AREA_START + number * 2 * BLOCK;
        let damage = Damage { at, number, durable: 2 };
        assert_eq!(found(Some(number * 2 * BLOCK + 70), false), Err(damage), "the header of record {number}");
    }
    for number in [2, 3] {
        assert_eq!(found(Some(number * 2 * BLOCK), false), Ok((0..number).collect()), "record {number} may be torn");
    }
}

#[test]
fn data_of_durable_records_are_compared_by_the_checker_only() {
    let data = |number: u64| Some(number * 2 * BLOCK + BLOCK);
    assert_eq!(found(data(1), false), Ok(vec![0, 1, 2, 3]));
    let damage = Damage { at: AREA_START + 2 * BLOCK, number: 1, durable: 2 };
    assert_eq!(found(data(1), true), Err(damage));
    assert_eq!((found(data(2), false), found(data(2), true)), (Ok(vec![0, 1]), Ok(vec![0, 1])));
}
