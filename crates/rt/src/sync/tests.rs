//! Notifications and credits reach the waiter that they are for, whatever else polls or goes away.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{Nanos, Time};

use super::*;
use crate::sim::{SimConfig, twice};
use crate::{JoinHandle, Rt};

/// Waiters that note their number when they are woken.
fn waiters(rt: &Rt, notify: &Rc<Notify>, count: u32) -> (Rc<RefCell<Vec<u32>>>, Vec<JoinHandle<()>>) {
    let woken = Rc::new(RefCell::new(Vec::new()));
    let start = |n| {
        let (notify, woken) = (notify.clone(), woken.clone());
        rt.spawn("waiter", async move {
            notify.wait().await;
            woken.borrow_mut().push(n);
        })
    };
    let handles = (0..count).map(start).collect();
    (woken, handles)
}

#[test]
fn one_notification_wakes_the_first_waiter_and_all_wakes_the_rest() {
    let woken = twice(SimConfig::seeded(1), |rt| async move {
        let notify = Rc::new(Notify::default());
        let (woken, handles) = waiters(&rt, &notify, 3);
        rt.yield_now().await;
        notify.notify_one();
        rt.sleep(Nanos(1)).await;
        assert_eq!(*woken.borrow(), [0]);
        notify.notify_all();
        join_all(handles).await;
        woken.take()
    });
    assert_eq!(woken, [0, 1, 2]);
}

#[test]
fn a_notification_without_a_waiter_is_kept_once() {
    let waited = twice(SimConfig::seeded(1), |rt| async move {
        let notify = Notify::default();
        notify.notify_one();
        notify.notify_one();
        notify.wait().await;
        let second = race(notify.wait(), rt.sleep(Nanos(5))).await;
        (rt.now(), second)
    });
    assert_eq!(waited, (Time(5), Either::Right(())));
}

#[test]
fn polls_for_another_reason_do_not_end_a_wait() {
    let (at, polls) = twice(SimConfig::seeded(1), |rt| async move {
        let (notify, polls) = (Rc::new(Notify::default()), Rc::new(Cell::new(0)));
        let (ringer, clock, count) = (notify.clone(), rt.clone(), polls.clone());
        rt.spawn("ringer", async move {
            clock.sleep(Nanos(100)).await;
            ringer.notify_one();
        })
        .detach();
        let timer = rt.clone();
        // The right side polls the left one again and again.
        let ticking = async move {
            loop {
                count.set(count.get() + 1);
                timer.sleep(Nanos(7)).await;
            }
        };
        assert_eq!(race(notify.wait(), ticking).await, Either::<(), ()>::Left(()));
        (rt.now(), polls.get())
    });
    assert_eq!((at, polls), (Time(100), 15));
}

#[test]
fn a_dropped_wait_neither_swallows_a_notification_nor_stays_in_the_queue() {
    let (first, second) = twice(SimConfig::seeded(1), |rt| async move {
        let notify = Rc::new(Notify::default());
        assert_eq!(race(notify.wait(), rt.sleep(Nanos(1))).await, Either::Right(()));
        assert!(notify.waiters.borrow().is_empty(), "a wait that lost leaves nothing behind");

        // Woken, but dropped before it saw it: the next in the queue gets the wake-up.
        let doomed = notify.clone();
        let mut doomed = Box::pin(async move { doomed.wait().await });
        std::future::poll_fn(|cx| {
            assert!(doomed.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let (woken, handles) = waiters(&rt, &notify, 2);
        rt.yield_now().await;
        notify.notify_one();
        drop(doomed);
        rt.sleep(Nanos(1)).await;
        let first = woken.borrow().clone();
        notify.notify_all();
        join_all(handles).await;
        (first, woken.take())
    });
    assert_eq!((first, second), (vec![0], vec![0, 1]));
}

#[test]
fn a_shared_notification_is_not_handed_on() {
    let kept = twice(SimConfig::seeded(1), |rt| async move {
        let notify = Rc::new(Notify::default());
        let doomed = notify.clone();
        let mut doomed = Box::pin(async move { doomed.wait().await });
        std::future::poll_fn(|cx| {
            assert!(doomed.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        notify.notify_all();
        drop(doomed);
        matches!(race(notify.wait(), rt.sleep(Nanos(1))).await, Either::Left(()))
    });
    assert!(!kept);
}

type Wait = Pin<Box<dyn Future<Output = ()>>>;

/// Polls a wait once, with a waker that wakes nothing.
fn poll(wait: &mut Wait) -> Poll<()> {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Claims of these amounts that wait.
fn claims(credits: &Rc<Credits>, amounts: impl IntoIterator<Item = u64>) -> Vec<Wait> {
    let claim = |amount| {
        let credits = credits.clone();
        let mut wait: Wait = Box::pin(async move { credits.take(amount).await });
        assert!(poll(&mut wait).is_pending());
        wait
    };
    amounts.into_iter().map(claim).collect()
}

/// Which of the waits have what they wait for.
fn served(waits: &mut [Wait]) -> Vec<usize> {
    (0..waits.len()).filter(|at| poll(&mut waits[*at]).is_ready()).collect()
}

#[test]
fn credits_are_granted_in_the_order_of_the_claims_and_none_is_overtaken() {
    let credits = Rc::new(Credits::new(0));
    let mut waits = claims(&credits, [2, 1, 1]);
    credits.give(1);
    assert_eq!((served(&mut waits), credits.waiting(), credits.free()), (vec![], 3, 1), "the first needs two");
    assert!(!credits.try_take(1), "others wait");
    credits.give(2);
    assert_eq!((served(&mut waits[..2]), credits.waiting(), credits.free()), (vec![0, 1], 1, 0));
    credits.give(1);
    assert_eq!((served(&mut waits[2..]), credits.waiting(), credits.free()), (vec![0], 0, 0));
}

#[test]
fn claims_that_give_up_are_neither_counted_nor_granted() {
    let credits = Rc::new(Credits::new(0));
    let mut waits = claims(&credits, [1; 9]);
    for at in [6, 4, 0] {
        drop(waits.remove(at));
    }
    assert_eq!(credits.waiting(), 6);
    for waiting in (0..6).rev() {
        credits.give(1);
        assert_eq!((served(&mut waits[..1]), credits.waiting(), credits.free()), (vec![0], waiting, 0));
        drop(waits.remove(0));
    }
    credits.give(1);
    assert!(credits.try_take(1), "no task waits any more");
}

#[test]
fn credits_that_were_granted_to_a_claim_that_never_saw_them_go_to_the_next() {
    let credits = Rc::new(Credits::new(0));
    let mut waits = claims(&credits, [2, 1, 1, 1]);
    credits.give(2);
    assert_eq!((credits.waiting(), credits.free()), (3, 0));
    drop(waits.remove(0));
    assert_eq!((credits.waiting(), credits.free(), served(&mut waits[..2])), (1, 0, vec![0, 1]));
}

#[test]
fn those_behind_a_large_claim_that_gives_up_get_what_is_free() {
    let credits = Rc::new(Credits::new(2));
    let mut waits = claims(&credits, [3, 1, 1]);
    drop(waits.remove(0));
    assert_eq!((credits.waiting(), credits.free(), served(&mut waits)), (0, 0, vec![0, 1]));
}

/// Waiters enough that a search of the line for each would be seen.
const MANY: usize = 3000;
/// What each may cost, in places looked at.
const EACH: usize = 4;

#[test]
fn a_claim_costs_the_same_however_many_wait() {
    let credits = Rc::new(Credits::new(0));
    let mut waits = claims(&credits, [1; MANY]);
    for wait in &mut waits {
        credits.give(1);
        assert!(poll(wait).is_ready());
    }
    drop(waits);
    let looked_at = credits.line.borrow().looked_at;
    assert!((MANY..=EACH * MANY).contains(&looked_at), "{looked_at} places for {MANY} claims");
}

/// Drops waits from the middle outwards, the last ones first and the first ones first.
fn give_up(mut waits: Vec<Wait>) {
    let mut turn = 0;
    while !waits.is_empty() {
        let at = [waits.len() / 2, waits.len() - 1, 0][turn % 3];
        drop(waits.swap_remove(at));
        turn += 1;
    }
}

#[test]
fn a_claim_that_gives_up_costs_the_same_however_many_wait() {
    let credits = Rc::new(Credits::new(0));
    give_up(claims(&credits, [1; MANY]));
    let line = credits.line.borrow();
    assert!(line.is_empty(), "they leave nothing behind");
    assert!((MANY..=EACH * MANY).contains(&line.looked_at), "{} places for {MANY} claims", line.looked_at);
}

#[test]
fn a_wait_for_a_notification_that_is_given_up_costs_the_same_however_many_wait() {
    let notify = Rc::new(Notify::default());
    let wait = |_| {
        let notify = notify.clone();
        let mut wait: Wait = Box::pin(async move { notify.wait().await });
        assert!(poll(&mut wait).is_pending());
        wait
    };
    let mut lasting: Vec<Wait> = (0..2).map(wait).collect();
    let doomed = (0..MANY).map(wait).collect();
    lasting.push(wait(MANY));
    give_up(doomed);
    let looked_at = notify.waiters.borrow().looked_at;
    assert!((MANY..=EACH * MANY).contains(&looked_at), "{looked_at} places for {MANY} waits");
    for _ in 0..2 {
        notify.notify_one();
    }
    assert_eq!((served(&mut lasting[..2]), notify.waiters.borrow().len()), (vec![0, 1], 1));
    notify.notify_all();
    assert_eq!(served(&mut lasting[2..]), [0]);
    // Behind one that lasts, waits that come and go leave a bounded number of places.
    let lasting = wait(0);
    (0..MANY).for_each(|at| drop(wait(at)));
    assert!(notify.waiters.borrow().len() == 1 && notify.waiters.borrow().places() <= 2);
    drop(lasting);
}
