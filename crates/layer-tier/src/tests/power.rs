//! What power cuts leave. Items 6 and 7.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, Device};
use esker_stack::Export;
use esker_testkit::power;

use super::{KINDS, all_moved, order, stat};

const ENDS: &str = "a = recorded size=48KiB latency=3us; b = recorded size=36KiB latency=7us; \
    r = recorded size=36KiB latency=5us; c = delay write=1us jitter=20us on r;";

fn text(args: &str) -> String {
    format!("{ENDS} vol = tier devices=\"ssd; sas; sata\" extent=4KiB size=40KiB {args} on a, b, c")
}

#[test]
fn item_6_a_tier_keeps_its_promises_in_every_crash_state() {
    // Planning and moving all the time.
    power::check_text(KINDS, &text("look=40us epoch=100us alpha=1 share=1 heads=1"), 1..=2, 6, 1000);
    power::check_text(KINDS, &text("plan=none"), 1..=1, 6, 500);
}

/// A client writes, and extents go round and round, so that slots are used again and the journal is full many times.
async fn churn(vol: Rc<Export>, top: Rc<dyn Device>) {
    let (rt, pool) = (vol.stack().rt().clone(), vol.stack().pool().clone());
    let mut rng = rt.rng("churn");
    for round in 0..40_u64 {
        let (at, len) = (rng.below(76) * 512, 512 << rng.below(4));
        let len = (len as u64).min((40 << 10) - at);
        let bytes = vec![1 + round as u8; len as usize];
        let write = Bio::write(at, Buf::from_bytes(&pool, &bytes));
        let write = if rng.below(4) == 0 { write.fua() } else { write };
        assert_eq!(top.submit(write).await.result.err(), None);
        let (extent, end) = (rng.below(10), rng.below(3));
        order(&vol, &format!("place {extent} {end}")).await.unwrap();
        if rng.below(4) == 0 {
            assert_eq!(top.submit(Bio::flush()).await.result.err(), None);
        }
        rt.sleep(Nanos::micros([3, 80, 300][rng.below(3) as usize])).await;
    }
    all_moved(&vol).await;
    println!("{} extents moved", stat(&vol, "moved"));
}

#[test]
fn item_6_extents_that_go_round_lose_nothing_in_any_crash_state() {
    let still = text("plan=none throttle=false share=1 look=1h epoch=1h");
    assert!(power::check_script(KINDS, &still, 1..=2, 8, churn) > 1000);
}
