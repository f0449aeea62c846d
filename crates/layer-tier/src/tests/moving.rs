//! Extents that move by orders, beside clients.

use esker_base::Nanos;
use esker_rt::{Sim, SimConfig};
use esker_stack::Export;
use esker_testkit::bench::{self, read, sleep, write};

use super::{all_moved, end_of, moved, open, order, residents, stat, still, with};
use crate::engine::Tier;

#[test]
fn extents_go_where_an_operator_says() {
    with(&still("size=32KiB"), async |vol| {
        for extent in 0..8_u64 {
            write(&vol, extent * 4096, &[extent as u8 + 1; 4096]).await;
        }
        moved(&vol, "place 1-3 2").await;
        assert_eq!([end_of(&vol, 0).await, end_of(&vol, 1).await, end_of(&vol, 3).await], [0, 2, 2]);
        moved(&vol, "place 2 1").await;
        assert_eq!((end_of(&vol, 2).await, stat(&vol, "moved")), (1, 4));
        for extent in 0..8_u64 {
            assert_eq!(read(&vol, extent * 4096, 4096).await, [extent as u8 + 1; 4096]);
        }
        let refused = ["place 1 7", "place 5-2 1", "place 0-8 1", "place one 1", "drain 3", "explain 8", "grow"];
        for words in refused {
            assert!(order(&vol, words).await.is_err(), "{words}");
        }
    });
}

#[test]
fn an_end_is_emptied_and_stays_empty() {
    with(&still("size=32KiB"), async |vol| {
        let before = residents(&vol).await;
        assert!(before[0] == 8);
        write(&vol, 0, &[7; 512]).await;
        moved(&vol, "drain 0").await;
        assert_eq!((residents(&vol).await[0], stat(&vol, "moved")), (0, 8));
        assert_eq!(read(&vol, 0, 512).await, [7; 512]);
        let refused = order(&vol, "place 0 0").await.unwrap_err();
        assert!(refused.contains("is being emptied"), "{refused}");
        assert_eq!(stat(&vol, "ends_unused"), 2);
    });
}

#[test]
fn an_end_without_room_elsewhere_is_not_emptied() {
    with(&still(""), async |vol| {
        let refused = order(&vol, "drain 1").await.unwrap_err();
        assert!(refused.contains("the others have room for 2"), "{refused}");
        assert_eq!(stat(&vol, "queued"), 0);
    });
}

/// Random requests and moves over three ends, against a shadow. Item 2.
#[test]
fn clients_find_what_they_wrote_while_extents_move_over_three_ends() {
    for seed in 1..=3 {
        let sim = Sim::new(SimConfig::seeded(seed));
        let rt = sim.rt();
        sim.block_on(async move {
            let (vol, tier) = open(&rt, &still("size=96KiB share=1")).await;
            let mut rng = rt.rng("model");
            let mut shadow = vec![0_u8; 96 << 10];
            for round in 0..1500_u64 {
                let at = rng.below(96 * 2 - 1) * 512;
                let len = (512 * (1 + rng.below(24))).min((96 << 10) - at);
                let span = at as usize..(at + len) as usize;
                match rng.below(8) {
                    0..=2 => {
                        assert_eq!(read(&vol, at, len as usize).await, shadow[span], "round {round} of seed {seed}")
                    }
                    3 => {
                        bench::run(&vol, esker_block::Bio::zero(at, len)).await;
                        shadow[span].fill(0);
                    }
                    4 => {
                        let (extent, end) = (rng.below(24), rng.below(3));
                        order(&vol, &format!("place {extent} {end}")).await.unwrap();
                    }
                    _ => {
                        write(&vol, at, &vec![round as u8; len as usize]).await;
                        shadow[span].fill(round as u8);
                    }
                }
                if rng.below(50) == 0 {
                    tier.cancel_all();
                }
            }
            all_moved(&vol).await;
            assert_eq!(read(&vol, 0, 96 << 10).await, shadow);
            assert!(stat(&vol, "moved") > 50, "{}", stat(&vol, "moved"));
        });
    }
}

/// Item 40: two moves go on beside each other over four ends, and none has an end of another one.
#[test]
fn item_40_one_move_has_an_end_at_a_time() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let ends =
        ["a", "b", "c", "d"].map(|end| format!("{end} = memory size=64KiB defer=always latency=90us;")).join(" ");
    let text = format!(
        "{ends} vol = tier devices=\"ssd; sas; sas; sata\" extent=4KiB size=48KiB plan=none throttle=false look=1h epoch=1h \
         on a, b, c, d"
    );
    sim.block_on(async move {
        let (vol, tier) = open(&rt, &text).await;
        let from_one = most_at_once(&vol, &tier, &["place 0-2 1", "place 3-5 2", "place 6-8 3"]).await;
        // Two pairs of ends.
        let from_two = most_at_once(&vol, &tier, &["place 3-5 3", "place 0-2 0"]).await;
        assert_eq!((from_one, from_two, stat(&vol, "moved")), (1, 2, 15));
    });
}

/// Moves that go on beside each other at most while orders are carried out.
async fn most_at_once(vol: &Export, tier: &Tier, orders: &[&str]) -> usize {
    for words in orders {
        order(vol, words).await.unwrap();
    }
    let mut most = 0;
    while stat(vol, "queued") + stat(vol, "moving") > 0 {
        let (moving, busy) = (tier.moving.borrow().len(), tier.ends.iter().filter(|end| end.is_busy.get()).count());
        assert!(moving * 2 <= busy, "{moving} extents move, and {busy} ends are busy");
        most = most.max(moving);
        sleep(vol, Nanos::micros(20)).await;
    }
    most
}

/// Item 40: beside a client, moves take the share of time that they have.
#[test]
fn item_40_moves_take_their_share_of_time() {
    let took = |share: &'static str| {
        let sim = Sim::new(SimConfig::seeded(1));
        let rt = sim.rt();
        let text = still(&format!("size=32KiB share={share}"));
        sim.block_on(async move {
            let (vol, _) = open(&rt, &text).await;
            order(&vol, "place 0-7 2").await.unwrap();
            let begun = rt.now();
            while stat(&vol, "queued") + stat(&vol, "moving") > 0 {
                read(&vol, 0, 512).await;
                read(&vol, 7 * 4096, 512).await;
                rt.sleep(Nanos::micros(50)).await;
            }
            rt.now().since(begun).as_secs_f64()
        })
    };
    let (slow, fast) = (took("0.1"), took("1"));
    assert!(slow > 5.0 * fast, "{slow} s with a tenth of the time, {fast} s with all of it");
}
