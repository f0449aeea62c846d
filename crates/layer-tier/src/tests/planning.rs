//! Plans and relief, in virtual time.

use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::Export;
use esker_testkit::bench::{self, read};

use super::{end_of, open, order, residents, stat};
use crate::engine::Tier;
use crate::queue::Why;

const MIB: u64 = 1 << 20;

/// Reads extents in turn, so many times a second, for so many seconds.
async fn use_extents(vol: &Export, extents: &[u64], per_s: u64, seconds: u64) {
    for (_, extent) in (0..seconds * per_s).zip(extents.iter().cycle()) {
        read(vol, extent * MIB, 4096).await;
        bench::sleep(vol, Nanos(1_000_000_000 / per_s)).await;
    }
}

/// Runs a test on three ends of 14 extents each, of which the first one and a part of the second one are used.
fn with_plan<F: Future<Output = ()> + 'static>(args: &str, body: impl FnOnce(Export, Rc<Tier>) -> F + 'static) {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let text = format!(
        "a = memory size=16MiB defer=always latency=200us; b = memory size=16MiB defer=always latency=3ms; \
         c = memory size=16MiB defer=always latency=9ms; \
         vol = tier devices=\"ssd; sas; sata\" size=18MiB look=1s epoch=5s heads=1 {args} on a, b, c"
    );
    sim.block_on(async move {
        let (vol, tier) = open(&rt, &text).await;
        assert_eq!(residents(&vol).await, [14, 4, 0]);
        body(vol, tier).await;
    });
}

/// Extents that were used lie on end 1 at first. One after the other they are more than 512 KiB apart.
const HOT: [u64; 4] = [14, 16, 15, 17];

#[test]
fn hot_extents_go_to_the_fast_end_and_ends_fall_empty() {
    with_plan("", async |vol, _| {
        use_extents(&vol, &HOT, 40, 24).await;
        for extent in HOT {
            assert_eq!(end_of(&vol, extent).await, 0);
        }
        assert_eq!((residents(&vol).await, stat(&vol, "ends_unused")), (vec![4, 0, 14], 1));
        let told = order(&vol, "explain 14").await.unwrap();
        assert_eq!(told["ends"][0]["sheet"], "ssd");
        assert!(told["random_per_s"].as_f64().unwrap() > 5.0, "{told}");
        // Item 38.
        let moved = stat(&vol, "moved");
        use_extents(&vol, &HOT, 40, 12).await;
        assert!(stat(&vol, "plans") >= 4, "{}", stat(&vol, "plans"));
        assert_eq!(stat(&vol, "moved"), moved, "an equal load moves nothing");
    });
}

#[test]
fn without_a_planner_nothing_moves_and_static_placement_needs_no_other() {
    with_plan("plan=none", async |vol, _| {
        use_extents(&vol, &HOT, 40, 12).await;
        assert_eq!((residents(&vol).await, stat(&vol, "plans"), stat(&vol, "moved")), (vec![14, 4, 0], 0, 0));
    });
    for plan in ["est", "idt", "greedy"] {
        with_plan(&format!("plan={plan}"), async |vol, _| {
            use_extents(&vol, &HOT, 40, 12).await;
            assert_eq!(end_of(&vol, 14).await, 0);
            assert!(stat(&vol, "plans") >= 2);
        });
    }
}

/// Nothing lies on an end that is not used, so it rests by its own timer: neither looks nor flushes reach it.
#[test]
fn item_39_an_unused_end_is_left_alone() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let text = "a = memory size=16MiB defer=always; b = memory size=16MiB defer=always; y = stats on b; \
        vol = tier devices=\"ssd; sata\" size=10MiB look=1s epoch=5s heads=1 on a, y";
    sim.block_on(async move {
        let (vol, _) = open(&rt, text).await;
        bench::flush(&vol).await;
        let asked = |vol: &Export| ["reads", "writes", "flushes"].map(|name| bench::count(vol, "y", name));
        let before = asked(&vol);
        for _ in 0..20 {
            bench::write(&vol, 0, &[1; 4096]).await;
            bench::write(&vol, 5 * MIB, &[1; 4096]).await;
            bench::flush(&vol).await;
            order(&vol, "ends").await.unwrap();
            bench::sleep(&vol, Nanos::millis(40)).await;
        }
        assert_eq!(asked(&vol), before);
    });
}

/// Item 43: what an epoch did not get to is dropped at its end.
#[test]
fn item_43_the_queue_ends_with_its_epoch() {
    with_plan("plan=none share=0.001", async |vol, tier| {
        tier.queue.borrow_mut().add(Why::Planned, (14..18).map(|extent| (extent, 2)));
        tier.background.wake();
        use_extents(&vol, &HOT, 200, 6).await;
        assert!(stat(&vol, "dropped") >= 1 && stat(&vol, "queued") == 0, "{}", stat(&vol, "dropped"));
        assert_eq!(stat(&vol, "dropped") + stat(&vol, "moved") + stat(&vol, "moving"), 4);
        assert_eq!(residents(&vol).await.iter().sum::<u64>(), 18, "no extent is half mapped");
    });
}

/// A client that reads extents 0 to 31 at random and thinks after each answer.
async fn client(rt: Rt, vol: Export, number: u64) {
    let mut rng = rt.rng(&format!("client {number}"));
    loop {
        read(&vol, rng.below(32) * 4 * MIB + rng.below(1024) * 4096, 4096).await;
        rt.sleep(Nanos::millis(60)).await;
    }
}

/// A small drive and a disk of their time, without a planner.
fn throttled(args: &str) -> String {
    format!(
        "a = ssd-model profile=ssd-sata-2010 size=512MiB; b = disk-model profile=hdd-7200-2008 size=512MiB; \
         vol = tier devices=\"ssd; sata\" extent=4MiB size=160MiB plan=none look=5s epoch=60s {args} on a, b"
    )
}

/// Items 41 and 42: 64 clients ask more of a disk than it can give, while planned moves wait.
#[test]
fn item_41_an_end_that_throttles_is_relieved() {
    const LOOK: u64 = 5;
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let (vol, tier) = open(&rt, &throttled("heads=1 share=0.001 theta=3")).await;
        super::moved(&vol, "place 0-31 1").await;
        assert_eq!(residents(&vol).await, [8, 32]);
        // Planned moves that do not come to an end beside clients.
        tier.queue.borrow_mut().add(Why::Planned, (32..40).map(|extent| (extent, 1)));
        tier.background.wake();
        for number in 0..64 {
            rt.spawn("client", client(rt.clone(), vol.clone(), number)).detach();
        }
        let mut looks = 0;
        while stat(&vol, "corrections") == 0 {
            bench::sleep(&vol, Nanos::secs(LOOK)).await;
            looks += 1;
            assert!(looks <= 2, "a queue is found within two looks: {}", order(&vol, "ends").await.unwrap());
        }
        assert!(stat(&vol, "dropped") > 0, "{}", order(&vol, "ends").await.unwrap());
        let by_plan = |vol: &Export| stat(vol, "moved") - stat(vol, "relieved");
        let before = by_plan(&vol);
        while stat(&vol, "throttling") > 0 {
            bench::sleep(&vol, Nanos::secs(LOOK)).await;
            looks += 1;
            assert!(looks <= 7, "{}", order(&vol, "ends").await.unwrap());
        }
        assert!(stat(&vol, "relieved") >= 16, "half of the load has left: {}", stat(&vol, "relieved"));
        assert_eq!(by_plan(&vol), before, "the plan rests");
        assert_eq!(order(&vol, "ends").await.unwrap()["phase"], "calm");
        bench::sleep(&vol, Nanos::secs(65)).await;
        assert_eq!(
            order(&vol, "ends").await.unwrap()["phase"],
            "packing",
            "one epoch behind the last end that throttled"
        );
    });
}

#[test]
fn without_relief_an_end_throttles_on() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let (vol, _) = open(&rt, &throttled("throttle=false")).await;
        super::moved(&vol, "place 0-31 1").await;
        for number in 0..64 {
            rt.spawn("client", client(rt.clone(), vol.clone(), number)).detach();
        }
        bench::sleep(&vol, Nanos::secs(20)).await;
        assert_eq!((stat(&vol, "corrections"), stat(&vol, "relieved")), (0, 0));
    });
}
