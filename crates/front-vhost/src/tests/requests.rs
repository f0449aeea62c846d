//! What a well-behaved guest gets.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Created, Device, Kind, Op};
use esker_rt::mem::Pool;
use esker_stack::{Spec, Stack};

use super::driver::{Bed, DATA, DISK_BYTES, FAILS_AT, HEADER, INDIRECT, STATUS, WRITE, check, spy};
use crate::Config;
use crate::disk::{Disk, feature};
use crate::request::kind;

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[test]
fn what_is_written_in_pieces_is_read_in_other_pieces_and_the_copies_are_counted() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config::production());
        let mut driver = bed.start();
        let bytes = numbered(8192);
        driver.put(DATA, &bytes);
        driver.request(0, kind::OUT, 8, &[(DATA, 512, false), (DATA + 512, 7680, false)]);
        bed.wait_idle().await;
        let far = DATA + 0x10_000;
        driver.request(4, kind::IN, 9, &[(far, 1000, true), (far + 4096, 6680, true)]);
        bed.wait_idle().await;
        assert_eq!((driver.status(0), driver.status(4)), (0, 0));
        assert_eq!(driver.used(), [(0, 1), (4, 7681)]);
        let found = [driver.get(far, 1000), driver.get(far + 4096, 6680)].concat();
        assert!(found == bytes[512..], "other bytes came back");
        let counters = &bed.disk.counters;
        assert_eq!((counters.copied_bytes.get(), counters.requests.get()), (8192 + 7680, 2));
    });
}

#[test]
fn ranges_serial_and_flush_are_answered() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config::production());
        let mut driver = bed.start();
        driver.put(DATA, &numbered(4096));
        driver.request(0, kind::OUT, 0, &[(DATA, 4096, false)]);
        bed.wait_idle().await;
        let range = |sector: u64, sectors: u32, flags: u32| {
            [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
        };
        driver.put(DATA + 8192, &[range(0, 2, 1), range(4, 1, 0)].concat());
        driver.request(3, kind::WRITE_ZEROES, 0, &[(DATA + 8192, 32, false)]);
        driver.put(DATA + 9000, &range(6, 2, 0));
        driver.request(6, kind::DISCARD, 0, &[(DATA + 9000, 16, false)]);
        driver.request(9, kind::FLUSH, 0, &[]);
        driver.request(12, kind::GET_ID, 0, &[(DATA + 9100, 20, true)]);
        bed.wait_idle().await;
        assert!([3, 6, 9, 12].iter().all(|head| driver.status(*head) == 0));
        assert_eq!(driver.get(DATA + 9100, 20), b"vol\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let seen: Vec<Op> = bed.device.seen.borrow().iter().map(|(op, _)| op.clone()).collect();
        assert_eq!(seen.iter().filter(|op| **op == Op::Zero).count(), 2);
        assert!(seen.contains(&Op::Discard) && seen.contains(&Op::Flush), "{seen:?}");
        driver.request(0, kind::IN, 0, &[(DATA + 0x10_000, 4096, true)]);
        bed.wait_idle().await;
        let (found, mut expected) = (driver.get(DATA + 0x10_000, 3072), numbered(3072));
        expected[..1024].fill(0);
        expected[2048..2560].fill(0);
        assert!(found == expected, "zeroes lie elsewhere");
    });
}

#[test]
fn a_table_in_memory_is_followed() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config::production());
        let mut driver = bed.start();
        driver.header(HEADER, kind::IN, 0);
        let entry = |addr: u64, len: u32, flags: u16, next: u16| {
            [&addr.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
        };
        let table = [entry(HEADER, 16, 1, 1), entry(DATA, 512, 1 | WRITE, 2), entry(STATUS, 1, WRITE, 0)].concat();
        driver.put(DATA + 0x10_000, &table);
        driver.put(STATUS, &[0xff]);
        driver.descriptor(5, DATA + 0x10_000, 48, INDIRECT, 0);
        driver.give(5);
        bed.wait_idle().await;
        assert_eq!((driver.status(0), driver.used()), (0, vec![(5, 513)]));
    });
}

#[test]
fn a_guest_that_never_flushes_gets_durable_answers() {
    for flushes in [false, true] {
        check(move |rt| async move {
            let bed = Bed::new(&rt, 512, Config::production());
            let mut driver = super::driver::Driver::new(&bed.memory);
            bed.set_up(&driver, flushes);
            bed.ring.start(None).unwrap();
            driver.request(0, kind::OUT, 0, &[(DATA, 512, false)]);
            bed.wait_idle().await;
            assert_eq!(driver.status(0), 0);
            assert_eq!(*bed.device.seen.borrow(), [(Op::Write, !flushes)]);
        });
    }
}

#[test]
fn errors_of_the_device_reach_the_guest() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config::production());
        let mut driver = bed.start();
        driver.request(0, kind::IN, FAILS_AT / 512, &[(DATA, 512, true)]);
        driver.request(4, kind::IN, 0, &[(DATA, 512, true)]);
        bed.wait_idle().await;
        assert_eq!((driver.status(0), driver.status(4)), (1, 0));
    });
}

#[test]
fn transfers_beyond_the_bounds_of_memory_wait_for_each_other() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config { payload_bytes_max: 4096, ..Config::tiny() });
        let mut driver = bed.start();
        for head in [0, 4, 8, 12] {
            driver.request(head, kind::IN, 0, &[(DATA + u64::from(head) * 0x10_000, 32 << 10, true)]);
        }
        bed.wait_idle().await;
        assert_eq!(driver.used().iter().map(|(_, len)| *len).collect::<Vec<_>>(), [(32 << 10) + 1; 4]);
    });
}

#[test]
fn the_configuration_space_tells_the_device_as_it_is() {
    check(|rt| async move {
        for block in [512u32, 4096] {
            let disk =
                Disk::new(&rt, &Pool::default(), "a long name of an export", spy(&rt, block), Config::production());
            let space = disk.space();
            let word = |at: usize| u32::from_le_bytes(space[at..at + 4].try_into().unwrap());
            assert_eq!(space.len(), 60);
            assert_eq!(u64::from_le_bytes(space[..8].try_into().unwrap()), DISK_BYTES / 512, "sectors");
            assert_eq!((word(20), word(12)), (block, 126), "block and segments");
            assert_eq!(u16::from_le_bytes([space[34], space[35]]), 8, "queues");
            assert_eq!((word(36), word(40), word(44)), (1 << 21, 64, 8), "discard");
            let (physical, optimal) = (space[24], word(28));
            assert_eq!((block << physical, block * optimal), (4096, 4096), "physical block and optimal size");
            assert_eq!((word(48), word(52), space[56]), (1 << 21, 64, 1), "write zeroes");
            assert_eq!(&disk.serial(), b"a long name of an ex");
            let wanted = feature::DISCARD | feature::WRITE_ZEROES | feature::FLUSH | feature::BLK_SIZE | feature::MQ;
            assert_eq!(disk.features() & (wanted | feature::RO), wanted);
            assert_eq!(spy(&rt, block).limits().block, block);
        }
    });
}

static KINDS: [&Kind; 1] = [&esker_dev::memory::KIND];

#[test]
fn what_a_guest_changes_is_in_the_map_of_the_export() {
    check(|rt| async move {
        let spec = Spec::parse("test", "m = memory size=8MiB; export vol = m").unwrap();
        let stack = Stack::build_served(&rt, &Pool::default(), &KINDS, &spec, &Created::default()).unwrap();
        let export = stack.export("vol").unwrap();
        let changes = export.track_changes().unwrap();
        let bed = Bed::over(&rt, Rc::new(export), spy(&rt, 512), Config::production());
        let mut driver = bed.start();
        driver.put(DATA, &numbered(4096));
        driver.request(0, kind::OUT, 256, &[(DATA, 4096, false)]);
        driver.request(3, kind::IN, 128, &[(DATA + 8192, 512, true)]);
        let range = [&512u64.to_le_bytes()[..], &2u32.to_le_bytes(), &0u32.to_le_bytes()].concat();
        driver.put(DATA + 9000, &range);
        driver.request(6, kind::WRITE_ZEROES, 0, &[(DATA + 9000, 16, false)]);
        bed.wait_idle().await;
        assert_eq!([0, 3, 6].map(|head| driver.status(head)), [0; 3]);
        let piece = 64 << 10;
        let all = ByteRange::new(0, 8 << 20).unwrap();
        let rest = (8 << 20) - 5 * piece;
        let runs = [(2 * piece, false), (piece, true), (piece, false), (piece, true), (rest, false)];
        assert_eq!(changes.runs(all, 8 << 20), runs);
    });
}
