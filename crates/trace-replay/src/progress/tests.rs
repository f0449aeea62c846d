#![allow(clippy::disallowed_methods, reason = "threads that wait for each other are what is tested")]

use std::sync::Arc;
use std::thread;

use super::*;

#[test]
fn threads_that_hand_on_a_turn_lose_no_wake() {
    const THREADS: usize = 6;
    const ROUNDS: u32 = 3000;
    let counters: Arc<Vec<Counter>> = Arc::new((0..THREADS).map(|_| Counter::default()).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let play = |me: usize| {
        let (counters, stop) = (counters.clone(), stop.clone());
        move || {
            for round in 1..=ROUNDS {
                // The one before in this round; the first waits for the last one's round before.
                let (other, needed) = if me == 0 { (THREADS - 1, round - 1) } else { (me - 1, round) };
                counters[other].wait(needed, &stop).unwrap();
                assert_eq!(counters[me].count(), round - 1);
                counters[me].reach(round);
            }
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|me| thread::spawn(play(me))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(counters.iter().all(|counter| counter.count() == ROUNDS));
}

#[test]
fn waiters_with_different_wishes_are_all_woken() {
    let counter = Arc::new(Counter::default());
    let stop = Arc::new(AtomicBool::new(false));
    let waiter = |needed: u32| {
        let (counter, stop) = (counter.clone(), stop.clone());
        move || counter.wait(needed, &stop).map(|()| counter.count() >= needed)
    };
    let threads: Vec<_> = (1..=8).map(|at| thread::spawn(waiter(at * 500))).collect();
    for count in 1..=4000 {
        counter.reach(count);
    }
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == Ok(true)));
}

#[test]
fn a_count_that_leaps_wakes_all_waiters_that_it_passes() {
    for leap in [1, 7, BELLS - 1, BELLS, BELLS + 1, 5 * BELLS] {
        let counter = Arc::new(Counter::default());
        let stop = Arc::new(AtomicBool::new(false));
        let waiter = |needed: u32| {
            let (counter, stop) = (counter.clone(), stop.clone());
            move || counter.wait(needed, &stop)
        };
        let threads: Vec<_> = (1..=leap).map(|needed| thread::spawn(waiter(needed))).collect();
        // All of them sleep.
        thread::sleep(Duration::from_millis(20));
        counter.reach(leap);
        let start = clock::now_ns();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == Ok(())));
        let late = Duration::from_nanos(clock::now_ns() - start);
        assert!(late < LOOK / 2, "{leap}: a waiter woke by its timeout: {late:?}");
    }
}

#[test]
fn a_step_wakes_only_those_whose_wish_it_meets() {
    let counter = Counter::default();
    let rung = |bell: u32| counter.bell(bell).rung.load(Ordering::SeqCst);
    counter.bell(5).wanted.store(5, Ordering::SeqCst);
    counter.bell(9).wanted.store(9, Ordering::SeqCst);
    counter.reach(8);
    assert_eq!([rung(5), rung(9)], [1, 0]);
    counter.reach(9);
    assert_eq!([rung(5), rung(9)], [1, 1]);
}

#[test]
fn who_waits_for_nobody_is_let_go() {
    let counter = Arc::new(Counter::default());
    let stop = Arc::new(AtomicBool::new(false));
    let waiter = thread::spawn({
        let (counter, stop) = (counter.clone(), stop.clone());
        move || counter.wait(1, &stop)
    });
    stop.store(true, Ordering::SeqCst);
    counter.ring();
    assert_eq!(waiter.join().unwrap(), Err(Stopped));
}
