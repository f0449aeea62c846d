use esker_rt::sim::{SimConfig, twice};
use esker_rt::sync::Either;

use super::*;

const IDLE: Nanos = Nanos::millis(50);

/// How many pieces of 1 ms are done in a second on both of two devices, of which a client uses one in a time.
fn pieces(share: f64, client_every: Nanos) -> u64 {
    twice(SimConfig::seeded(1), move |rt| async move {
        let shares = Shares::new(&rt, 2, share, IDLE);
        let (of_client, clock) = (shares.clone(), rt.clone());
        rt.spawn_detached("client", async move {
            loop {
                of_client.client_worked(1);
                clock.sleep(client_every).await;
            }
        });
        let mut done = 0;
        while rt.now() < Time::ZERO + Nanos::secs(1) {
            assert_eq!(shares.earn(&[0, 1], 1 << 20).await, Go::On);
            rt.sleep(Nanos::millis(1)).await;
            shares.took(&[0, 1], Nanos::millis(1));
            done += 1;
        }
        done
    })
}

#[test]
fn a_mover_has_its_share_of_a_device_that_clients_use_and_all_of_one_that_rests() {
    for (share, expected) in [(0.1, 100), (0.5, 500)] {
        let done = pieces(share, Nanos::millis(5));
        assert!((expected..=expected + 1).contains(&done), "{done} pieces instead of {expected}");
    }
    // The device is the client's for 50 of 100 ms: 5 pieces, and 50 in the rest.
    let bursts = pieces(0.1, Nanos::millis(100));
    assert!((500..600).contains(&bursts), "{bursts}");
}

#[test]
fn a_pace_that_is_stopped_ends_waits_and_begins_no_work_until_it_is_resumed() {
    twice(SimConfig::seeded(1), |rt| async move {
        let shares = Shares::new(&rt, 1, 0.001, Nanos::secs(100));
        assert_eq!(shares.earn(&[0], 1).await, Go::On);
        shares.took(&[0], Nanos::secs(1));
        let (stopper, clock) = (shares.clone(), rt.clone());
        rt.spawn_detached("stopper", async move {
            clock.sleep(Nanos::millis(3)).await;
            stopper.stop();
        });
        let stopped = race(shares.earn(&[0], 1).into_future(), rt.sleep(Nanos::secs(1))).await;
        assert_eq!((stopped, rt.now()), (Either::Left(Go::Stop), Time::ZERO + Nanos::millis(3)));
        assert_eq!(shares.earn(&[0], 1).await, Go::Stop);
        shares.resume();
        let paced = race(shares.earn(&[0], 1).into_future(), rt.sleep(Nanos::secs(1))).await;
        assert_eq!(paced, Either::Right(()), "what it took before is still to be paid");
    });
}
