//! Guests that break the rules: each bad request is answered with an error or not at all, and good ones go on.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use vm_memory::{FileOffset, GuestAddress, MmapRegion};

use super::driver::{
    Bed, DATA, DISK_BYTES, Driver, HEADER, INDIRECT, MEMORY_BYTES, NEXT, RING_LEN, STATUS, WRITE, check,
};
use crate::guest::MonitorMemory;
use crate::inflight::Area;
use crate::request::kind;
use crate::{Config, Guest, Memory};

/// Whether the ring still serves.
async fn check_alive(bed: &Bed, driver: &mut Driver<'_>) {
    driver.request(12, kind::IN, 0, &[(DATA, 4096, true)]);
    bed.wait_idle().await;
    assert_eq!(driver.status(12), 0, "a good request after a bad one");
}

/// One bad request; its status must be `expected`, 0xff for one that cannot be answered.
fn check_refused(block: u32, expected: u8, bad: impl FnOnce(&mut Driver<'_>) + 'static) {
    check(move |rt| async move {
        let bed = Bed::new(&rt, block, Config::tiny());
        let mut driver = bed.start();
        driver.put(STATUS, &[0xff]);
        bad(&mut driver);
        bed.wait_idle().await;
        assert_eq!(driver.status(0), expected);
        assert_eq!(driver.used().len(), 1, "it was given back");
        assert_eq!(bed.disk.counters.malformed.get(), 1);
        assert!(bed.device.seen.borrow().is_empty(), "the device was not asked");
        check_alive(&bed, &mut driver).await;
    });
}

const OVER: u64 = MEMORY_BYTES as u64;

#[test]
fn transfers_outside_the_disk_or_its_blocks_are_errors() {
    let end = DISK_BYTES / 512;
    for sector in [end, end - 1, u64::MAX, u64::MAX / 512, 1 << 55] {
        check_refused(512, 1, move |driver| driver.request(0, kind::IN, sector, &[(DATA, 1024, true)]));
    }
    check_refused(512, 1, |driver| driver.request(0, kind::OUT, 0, &[(DATA, 513, false)]));
    check_refused(4096, 1, |driver| driver.request(0, kind::OUT, 0, &[(DATA, 512, false)]));
    check_refused(4096, 1, |driver| driver.request(0, kind::IN, 1, &[(DATA, 4096, true)]));
}

#[test]
fn unknown_types_and_short_answers_are_refused() {
    check_refused(512, 2, |driver| driver.request(0, 77, 0, &[]));
    check_refused(512, 1, |driver| driver.request(0, kind::GET_ID, 0, &[(DATA, 19, true)]));
    check_refused(512, 1, |driver| driver.chain(0, &[(HEADER, 15, false), (STATUS, 1, true)]));
    check_refused(512, 1, |driver| driver.chain(0, &[(STATUS, 1, true)]));
}

#[test]
fn bad_ranges_are_refused_before_any_is_acted_on() {
    let record = |sector: u64, sectors: u32, flags: u32| {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    };
    let good = record(0, 8, 0);
    for (bad, what, status) in [
        (record(u64::MAX, 1, 0), kind::DISCARD, 1),
        (record(0, u32::MAX, 0), kind::WRITE_ZEROES, 1),
        (record(0, 8, 1), kind::DISCARD, 2),
        (record(0, 8, 2), kind::WRITE_ZEROES, 2),
    ] {
        let both = [good.clone(), bad].concat();
        check_refused(512, status, move |driver| {
            driver.put(DATA, &both);
            driver.request(0, what, 0, &[(DATA, 32, false)]);
        });
    }
    for len in [0, 15, 17, 65 * 16] {
        check_refused(512, 1, move |driver| driver.request(0, kind::DISCARD, 0, &[(DATA, len, false)]));
    }
}

#[test]
fn chains_that_are_none_are_given_back_unanswered() {
    // A loop, an index outside, a piece to read behind one to write, memory that is not there.
    check_refused(512, 0xff, |driver| {
        driver.descriptor(0, HEADER, 16, NEXT, 1);
        driver.descriptor(1, DATA, 16, NEXT, 0);
        driver.give(0);
    });
    check_refused(512, 0xff, |driver| {
        driver.descriptor(0, HEADER, 16, NEXT, RING_LEN);
        driver.give(0);
    });
    check_refused(512, 0xff, |driver| driver.chain(0, &[(STATUS, 1, true), (HEADER, 16, false)]));
    for (addr, len) in [(OVER, 1), (OVER - 8, 16), (u64::MAX, 1), (u64::MAX - 4, 512), (0, u32::MAX)] {
        check_refused(512, 0xff, move |driver| driver.chain(0, &[(addr, len, false), (STATUS, 1, true)]));
    }
}

#[test]
fn tables_that_are_none_are_given_back_unanswered() {
    let table = |addr: u64, len: u32, flags: u16| {
        check_refused(512, 0xff, move |driver| {
            // Inside it lies another table.
            driver
                .put(DATA, &[&DATA.to_le_bytes()[..], &16u32.to_le_bytes(), &INDIRECT.to_le_bytes(), &[0; 2]].concat());
            driver.descriptor(0, addr, len, flags, 1);
            driver.give(0);
        });
    };
    table(DATA, 16, INDIRECT);
    table(DATA, 0, INDIRECT);
    table(DATA, 17, INDIRECT);
    table(DATA, u32::MAX, INDIRECT);
    table(DATA, 16, INDIRECT | NEXT);
    table(OVER, 16, INDIRECT);
    table(u64::MAX - 8, 32, INDIRECT | WRITE);
}

#[test]
fn a_ring_that_lies_about_itself_is_left_alone_until_it_is_set_up_again() {
    fn check_broken(lie: impl FnOnce(&mut Driver<'_>) + 'static) {
        check(move |rt| async move {
            let bed = Bed::new(&rt, 512, Config::tiny());
            let mut driver = bed.start();
            lie(&mut driver);
            bed.wait_idle().await;
            assert_eq!(bed.disk.counters.malformed.get(), 1);
            let used = driver.used().len();
            bed.wait_idle().await;
            assert_eq!(driver.used().len(), used, "nothing more happens");
            let base = bed.ring.stop().await;
            driver.claim(base);
            bed.set_up(&driver, true);
            bed.ring.start(None).unwrap();
            check_alive(&bed, &mut driver).await;
        });
    }
    check_broken(|driver| driver.claim(RING_LEN + 1));
    check_broken(|driver| driver.give(RING_LEN));
    check_broken(|driver| driver.give(u16::MAX));
    check_broken(|driver| {
        driver.request(0, kind::IN, 0, &[(DATA, 512, true)]);
        driver.give(0);
    });
}

#[test]
fn a_ring_outside_memory_is_not_started() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config::tiny());
        let driver = Driver::new(&bed.memory);
        let good = driver.addresses();
        assert!(bed.ring.set_addresses(good).is_err(), "there is no memory yet");
        bed.set_up(&driver, true);
        assert!([0, 3, 2048, 1 << 20].iter().all(|len| bed.ring.set_len(*len).is_err()));
        for bad in [
            crate::ring::Addresses { used: OVER, ..good },
            crate::ring::Addresses { used: u64::MAX - 3, ..good },
            crate::ring::Addresses { table: good.table + 1, ..good },
        ] {
            assert!(bed.ring.set_addresses(bad).is_err(), "{bad:?}");
        }
        bed.ring.set_addresses(crate::ring::Addresses { table: OVER - 16, ..good }).unwrap();
        assert!(bed.ring.start(None).is_err(), "its table leaves memory");
        bed.ring.set_addresses(good).unwrap();
        bed.ring.start(None).unwrap();
    });
}

/// A ring in memory of a file, of which `left` bytes are left when a request is taken from it.
fn check_loss(left: u64, kind: u32) {
    check(move |rt| async move {
        let file = tempfile::tempfile().unwrap();
        file.set_len(OVER).unwrap();
        let range = (GuestAddress(0), MEMORY_BYTES, Some(FileOffset::new(file.try_clone().unwrap(), 0)));
        let memory = Memory::from_ranges_with_files([range]).unwrap();
        let mut bed = Bed::new(&rt, 512, Config::tiny());
        bed.memory = Arc::new(Guest::new(memory).unwrap());
        let told = Rc::new(Cell::new(0));
        let tell = told.clone();
        bed.ring.on_loss(Rc::new(move || tell.set(tell.get() + 1)));
        let mut driver = bed.start();
        driver.request(0, kind::OUT, 0, &[(DATA, 4096, false)]);
        bed.wait_idle().await;
        assert_eq!((driver.status(0), told.get()), (0, 0));
        assert_eq!(bed.device.seen.replace(Vec::new()).len(), 1);
        driver.put(DATA, &[7; 4096]);
        driver.request(3, kind, 8, &[(DATA, 4096, kind == kind::IN)]);
        file.set_len(left).unwrap();
        bed.wait_idle().await;
        assert!(told.get() > 0, "the loss is told");
        assert!(bed.device.seen.borrow().is_empty(), "zeroes that no guest wrote reach the disk, or are a request");
        driver.request(6, kind::OUT, 16, &[(DATA, 4096, false)]);
        bed.wait_idle().await;
        assert!(bed.device.seen.borrow().is_empty(), "the ring is used further");
    });
}

#[test]
fn memory_that_is_taken_away_is_told_and_its_zeroes_reach_no_disk() {
    for left in [0, HEADER, DATA] {
        check_loss(left, kind::OUT);
    }
    // A header of zeroes is a read.
    check_loss(HEADER, kind::IN);
}

#[test]
fn an_area_of_requests_under_way_that_is_taken_away_is_told() {
    check(|rt| async move {
        let bed = Bed::new(&rt, 512, Config::tiny());
        let told = Rc::new(Cell::new(false));
        let tell = told.clone();
        bed.ring.on_loss(Rc::new(move || tell.set(true)));
        let mut driver = Driver::new(&bed.memory);
        bed.set_up(&driver, true);
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let region = MmapRegion::from_file(FileOffset::new(file.try_clone().unwrap(), 0), 4096).unwrap();
        bed.ring.set_area(Area::new(&Arc::new(MonitorMemory::new(region).unwrap()), 0, RING_LEN));
        bed.ring.start(None).unwrap();
        driver.request(0, kind::IN, 0, &[(DATA, 512, true)]);
        file.set_len(0).unwrap();
        bed.wait_idle().await;
        assert!(told.get());
    });
}
