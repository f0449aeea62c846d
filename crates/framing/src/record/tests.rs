use proptest::prelude::*;

use super::*;

const UNIT: usize = 512;
const EPOCHS: Epochs = Epochs { now: 9, since: 0, rise: true };

fn record(number: u64, position: u64, durable: u64) -> Record<'static> {
    Record { log: 5, epoch: 9, number, position, durable, kind: 1, payload: &[7; 100] }
}

/// A log of records of one unit each, the durable numbers of which are given.
fn log(durable: &[u64]) -> Vec<u8> {
    let record = |(number, durable): (u64, &u64)| record(number, number * UNIT as u64, *durable).seal(UNIT);
    (0..).zip(durable).flat_map(record).collect()
}

/// All records from the start of `bytes` on, and what ends them.
fn walk(bytes: &[u8], epochs: Epochs, durable: u64) -> (Vec<u64>, Next<'static>) {
    let mut cursor = LogCursor::new(5, epochs, 0, 0, durable);
    let (mut numbers, mut at) = (Vec::new(), 0);
    loop {
        match cursor.next(&bytes[at..], UNIT) {
            Next::Record(record) => {
                numbers.push(record.number);
                at += UNIT;
                cursor.advance(record.number + 1, at as u64);
            }
            Next::End => return (numbers, Next::End),
            Next::Damaged { at } => return (numbers, Next::Damaged { at }),
            Next::Stale { at } => return (numbers, Next::Stale { at }),
        }
    }
}

#[test]
fn the_layout_is_that_of_the_page() {
    let at = [
        offset_of!(RawRecord, checksum),
        offset_of!(RawRecord, kind),
        offset_of!(RawRecord, reserved),
        offset_of!(RawRecord, length),
        offset_of!(RawRecord, reserved2),
        offset_of!(RawRecord, log),
        offset_of!(RawRecord, epoch),
        offset_of!(RawRecord, number),
        offset_of!(RawRecord, position),
        offset_of!(RawRecord, durable),
    ];
    assert_eq!(at, [0, 4, 6, 8, 12, 16, 32, 40, 48, 56]);
    assert_eq!(size_of::<RawRecord>(), RECORD_HEADER);
}

#[test]
fn a_record_reads_back_and_every_damaged_byte_is_noticed() {
    let whole = record(3, 512, 2).seal(UNIT);
    assert_eq!((whole.len(), Record::unseal(&whole)), (UNIT, Some(record(3, 512, 2))));
    for at in 0..RECORD_HEADER + 100 {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert_eq!(Record::unseal(&damaged), None, "byte {at}");
    }
    assert_eq!([Record::unseal(&[0; UNIT]), Record::unseal(&whole[..163]), Record::unseal(&[])], [None; 3]);
}

#[test]
fn a_reader_through_a_window_learns_how_much_a_record_needs() {
    let payload = vec![3; 1900];
    let whole = Record { payload: &payload, ..record(3, 0, 2) }.seal(UNIT);
    assert_eq!([Record::needs(&[]), Record::needs(&whole[..63]), Record::needs(&whole[..UNIT])], [64, 64, 1964]);
    assert_eq!(Record::unseal(&whole[..1963]), None);
    assert_eq!(Record::unseal(&whole[..1964]).map(|record| record.payload.len()), Some(1900));
}

#[test]
fn a_torn_record_is_never_taken_for_a_whole_one() {
    let payload = vec![3; 1900];
    let new = Record { payload: &payload, ..record(3, 0, 2) }.seal(UNIT);
    assert_eq!(new.len(), 4 * UNIT);
    for mask in 0..1u32 << 4 {
        let kept = |(at, byte): (usize, &u8)| if mask >> (at / UNIT) & 1 != 0 { *byte } else { 0x11 };
        let torn: Vec<u8> = new.iter().enumerate().map(kept).collect();
        assert_eq!(Record::unseal(&torn).is_some(), mask == 0b1111, "sectors {mask:#b}");
    }
}

#[test]
fn only_the_next_record_of_the_log_is_taken() {
    let cursor = LogCursor::new(5, Epochs { now: 9, since: 3, rise: true }, 3, 512, 0);
    let is_taken = |record: Record<'_>| cursor.record(&record.seal(UNIT)).is_some();
    assert!(is_taken(record(3, 512, 3)));
    for (what, other) in [
        ("another log", Record { log: 6, ..record(3, 512, 0) }),
        ("an earlier epoch", Record { epoch: 8, ..record(3, 512, 0) }),
        ("a later epoch", Record { epoch: 10, ..record(3, 512, 0) }),
        ("another number", record(4, 512, 0)),
        ("another place", record(3, 1024, 0)),
    ] {
        assert!(!is_taken(other), "{what}");
    }
    let before = LogCursor::new(5, Epochs { now: 9, since: 4, rise: true }, 3, 512, 0);
    let with_epoch = |epoch| before.record(&Record { epoch, ..record(3, 512, 0) }.seal(UNIT)).is_some();
    assert_eq!([7, 8, 9].map(with_epoch), [true, true, false], "numbers below `since` are of lower epochs");
}

#[test]
fn a_gap_is_the_end_unless_it_was_durable_once() {
    let whole = log(&[0, 0, 2, 2]);
    assert_eq!(walk(&whole, EPOCHS, 0), (vec![0, 1, 2, 3], Next::End));
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at * UNIT + 70] ^= 1;
        bytes
    };
    assert_eq!(walk(&damaged(1), EPOCHS, 0), (vec![0], Next::Damaged { at: 512 }), "record 2 calls it durable");
    assert_eq!(walk(&damaged(2), EPOCHS, 0), (vec![0, 1], Next::End), "record 3 calls the ones before it durable");
    assert_eq!(walk(&damaged(2), EPOCHS, 3), (vec![0, 1], Next::Damaged { at: 1024 }), "the superblock does");
    assert_eq!(walk(&damaged(3), EPOCHS, 3), (vec![0, 1, 2], Next::End));
}

#[test]
fn records_of_a_later_epoch_prove_the_superblock_stale() {
    let mut bytes = log(&[0, 0]);
    bytes.extend(Record { epoch: 10, ..record(0, 1024, 0) }.seal(UNIT));
    assert_eq!(walk(&bytes, EPOCHS, 0), (vec![0, 1], Next::Stale { at: 1024 }));
    assert_eq!(
        walk(&bytes, Epochs { rise: false, ..EPOCHS }, 0),
        (vec![0, 1], Next::End),
        "drawn epochs prove nothing"
    );
    assert_eq!(walk(&log(&[0, 0]), Epochs { now: 8, ..EPOCHS }, 0), (vec![], Next::Stale { at: 0 }));
}

#[test]
fn what_was_moved_or_belongs_to_another_log_proves_nothing() {
    let mut bytes = log(&[0, 0, 2, 2]);
    bytes[UNIT + 70] ^= 1;
    let last = bytes.split_off(2 * UNIT);
    bytes.extend(vec![0; UNIT]);
    bytes.extend(&last);
    assert_eq!(walk(&bytes, EPOCHS, 0), (vec![0], Next::End), "records at places that are not theirs");
    bytes.truncate(2 * UNIT);
    bytes.extend(Record { log: 6, ..record(2, 1024, 2) }.seal(UNIT));
    assert_eq!(walk(&bytes, EPOCHS, 0), (vec![0], Next::End), "a record of another log");
    bytes.truncate(2 * UNIT);
    bytes.extend(Record { epoch: 8, ..record(2, 1024, 2) }.seal(UNIT));
    assert_eq!(walk(&bytes, EPOCHS, 0), (vec![0], Next::End), "a record that was given up");
}

#[test]
#[should_panic(expected = "record 2 calls 3 durable")]
fn no_record_calls_itself_durable() {
    let sealed = record(2, 0, 3).seal(UNIT);
    panic!("sealed as {} bytes", sealed.len());
}

/// What the bytes of unit `at` say, read one by one.
fn naive(bytes: &[u8], superblock: u64) -> (Vec<u64>, Next<'static>) {
    let units: Vec<Option<Record<'_>>> = bytes.chunks(UNIT).map(Record::unseal).collect();
    let is_here = |(at, unit): (usize, &Option<Record<'_>>)| unit.is_some_and(|unit| unit.number == at as u64);
    let count = units.iter().enumerate().take_while(|(at, unit)| is_here((*at, unit))).count();
    let called = units.iter().skip(count).flatten().map(|later| later.durable).fold(superblock, u64::max);
    let end = if called > count as u64 { Next::Damaged { at: (count * UNIT) as u64 } } else { Next::End };
    ((0..count as u64).collect(), end)
}

proptest! {
    #[test]
    fn the_end_of_a_log_is_that_of_a_naive_model(
        lags in prop::collection::vec(0..6u64, 0..12),
        damage in prop::collection::vec((0..12usize, 0..RECORD_HEADER + 100), 0..4),
        superblock in 0..4u64,
    ) {
        let durable: Vec<u64> = (0..).zip(&lags).map(|(number, lag): (u64, &u64)| number.saturating_sub(*lag)).collect();
        let mut bytes = log(&durable);
        for (unit, at) in damage {
            if let Some(byte) = bytes.get_mut(unit * UNIT + at) {
                *byte ^= 1;
            }
        }
        prop_assert_eq!(walk(&bytes, EPOCHS, superblock), naive(&bytes, superblock));
    }
}
