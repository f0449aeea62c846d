//! Requests under way when the server dies are carried out by the next one.

use std::sync::Arc;

use vm_memory::{FileOffset, MmapRegion};

use super::driver::{Bed, DATA, Driver, RING_LEN, check};
use crate::Config;
use crate::guest::MonitorMemory;
use crate::inflight::{Area, area_bytes};
use crate::request::kind;

fn region() -> Arc<MonitorMemory> {
    let file = tempfile::tempfile().unwrap();
    let bytes = 2 * area_bytes(RING_LEN);
    file.set_len(bytes as u64).unwrap();
    Arc::new(MonitorMemory::new(MmapRegion::from_file(FileOffset::new(file, 0), bytes).unwrap()).unwrap())
}

#[test]
fn what_a_dead_server_had_begun_is_carried_out_once_more_in_its_order() {
    let region = region();
    check(move |rt| async move {
        let bed = Bed::new(&rt, 512, Config::production());
        let mut driver = Driver::new(&bed.memory);
        bed.set_up(&driver, true);
        bed.ring.set_area(Area::new(&region, 1, RING_LEN));
        bed.ring.start(None).unwrap();
        // One ends; of the next three, none does.
        driver.request(0, kind::IN, 0, &[(DATA, 512, true)]);
        bed.wait_idle().await;
        bed.device.stuck.set(true);
        for (head, sector) in [(9, 8), (3, 16), (6, 24)] {
            driver.put(DATA + 512 * sector, &[head as u8; 512]);
            driver.request(head, kind::OUT, sector, &[(DATA + 512 * sector, 512, false)]);
        }
        bed.ring.drain();
        rt.sleep(esker_base::Nanos::millis(1)).await;
        assert_eq!(driver.used().len(), 1);
        // The next server has the guest's memory and the area, and nothing else. The guest has gone on.
        driver.request(12, kind::FLUSH, 0, &[]);
        let next = Bed::new(&rt, 512, Config::production());
        let ring = &next.ring;
        ring.set_features(false, true);
        ring.set_memory(bed.memory.clone());
        ring.set_len(u32::from(RING_LEN)).unwrap();
        ring.set_addresses(driver.addresses()).unwrap();
        ring.set_area(Area::new(&region, 1, RING_LEN));
        ring.enable(true);
        ring.start(None).unwrap();
        ring.drain();
        ring.idle().await;
        assert_eq!(next.disk.counters.resumed.get(), 3);
        let heads: Vec<u32> = driver.used().iter().map(|(head, _)| *head).collect();
        assert_eq!(heads.len(), 5, "{heads:?}");
        assert!([9, 3, 6, 12].iter().all(|head| driver.status(*head) == 0 && heads.contains(&u32::from(*head))));
        assert_eq!(ring.stop().await, 5, "all that was made available is taken");
    });
}

#[test]
fn an_area_remembers_what_was_under_way_wherever_its_user_died() {
    let region = region();
    let area = || Area::new(&region, 0, RING_LEN).unwrap();
    let mut first = area();
    assert_eq!(first.recover(5), [0u16; 0], "a new area holds nothing");
    [7, 2, 4].iter().for_each(|head| first.begin(*head));
    first.end(2);
    assert_eq!(area().recover(5), [7, 2, 4], "it died before the guest was told");
    assert_eq!(area().recover(6), [7, 4], "it died after the guest was told");
    let mut second = area();
    second.recover(6);
    second.begin(1);
    second.end(7);
    second.ended(7, 7);
    assert_eq!(area().recover(7), [4, 1]);
}

#[test]
fn an_area_that_does_not_fit_is_none() {
    let region = region();
    assert!(Area::new(&region, 1, RING_LEN).is_some());
    assert!(Area::new(&region, 2, RING_LEN).is_none());
    assert!(Area::new(&region, u16::MAX, u16::MAX).is_none());
}
