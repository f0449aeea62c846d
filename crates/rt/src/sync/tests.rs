//! Notifications reach the waiter that they are for, whatever else polls or goes away.

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
