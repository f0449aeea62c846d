//! Rules of virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::sync;

fn config(cpus: usize) -> SimConfig {
    SimConfig { seed: 1, cpus }
}

#[test]
fn time_moves_only_when_nothing_can_run() {
    let times = twice(config(1), |rt| async move {
        let busy = rt.clone();
        let other = rt.spawn("busy", async move {
            for _ in 0..100 {
                busy.yield_now().await;
            }
            busy.now()
        });
        rt.sleep(Nanos(10)).await;
        (other.await, rt.now())
    });
    assert_eq!(times, (Time(0), Time(10)));
}

#[test]
fn wall_clock_time_is_a_fixed_date_and_virtual_time() {
    let stamps = twice(config(1), |rt| async move {
        let begun = rt.wall();
        rt.sleep(Nanos(10)).await;
        rt.charge(Nanos(5));
        (begun, rt.wall())
    });
    assert_eq!(stamps, (1_767_225_600_000_000_000, 1_767_225_600_000_000_015));
}

#[test]
fn debt_delays_what_a_task_does_next_and_nothing_else() {
    let (charged, other) = twice(config(2), |rt| async move {
        let (a, b) = (rt.clone(), rt.clone());
        let charged = rt.spawn("charged", async move {
            a.charge(Nanos(500));
            assert_eq!(a.now(), Time(500), "a task sees its own debt");
            a.sleep(Nanos(100)).await;
            a.now()
        });
        let other = rt.spawn("other", async move {
            b.sleep(Nanos(50)).await;
            b.now()
        });
        (charged.await, other.await)
    });
    assert_eq!((charged, other), (Time(600), Time(50)));
}

fn finish_times(cpus: usize) -> Vec<u64> {
    twice(config(cpus), |rt| async move {
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let rt = rt.clone();
                rt.clone().spawn("worker", async move {
                    rt.charge(Nanos(100));
                    rt.yield_now().await;
                    rt.now().0
                })
            })
            .collect();
        sync::join_all(tasks).await
    })
}

#[test]
fn charged_tasks_share_the_simulated_cpus() {
    assert_eq!(finish_times(1).iter().max(), Some(&400));
    assert_eq!(finish_times(2).iter().max(), Some(&200));
    assert_eq!(finish_times(4), [100; 4]);
}

#[test]
fn a_wake_up_by_an_indebted_task_arrives_after_its_debt() {
    let woken_at = twice(config(2), |rt| async move {
        let (send, recv) = sync::oneshot();
        let waker = rt.clone();
        rt.spawn("waker", async move {
            waker.charge(Nanos(70));
            send.send(());
        })
        .detach();
        recv.await.unwrap();
        rt.now()
    });
    assert_eq!(woken_at, Time(70));
}

#[test]
fn a_worker_occupies_a_cpu_for_its_cost() {
    let (value, at) = twice(config(1), |rt| async move {
        let value = rt.worker(Nanos(1_000), || 6 * 7).await;
        (value, rt.now())
    });
    assert_eq!((value, at), (42, Time(1_000)));
}

/// When two tasks that always want a CPU have ended, and when an idle worker has.
fn beside_busy_tasks(cpus: usize, work: Nanos) -> (u64, u64) {
    twice(config(cpus), move |rt| async move {
        let busy: Vec<_> = (0..2)
            .map(|_| {
                let rt = rt.clone();
                rt.clone().spawn("busy", async move {
                    for _ in 0..100 {
                        rt.charge(Nanos::micros(10));
                        rt.yield_now().await;
                    }
                    rt.now().0
                })
            })
            .collect();
        let idle = {
            let rt = rt.clone();
            rt.clone().spawn("waits", async move {
                rt.worker_idle(work, || ()).await;
                rt.now().0
            })
        };
        let ended = sync::join_all(busy).await.into_iter().max().unwrap();
        (ended, idle.await)
    })
}

#[test]
fn an_idle_worker_takes_no_cpu_from_busy_tasks() {
    let alone = beside_busy_tasks(2, Nanos::ZERO).0;
    assert_eq!(alone, 1_000_000);
    let (busy, idle) = beside_busy_tasks(2, Nanos::millis(1));
    assert_eq!(busy, alone, "only the idle worker is late");
    assert!(idle >= busy + 400_000, "{idle}");
    let (busy, idle) = beside_busy_tasks(4, Nanos::millis(1));
    assert_eq!((busy, idle / 1_000), (alone, 1_000), "with a free CPU it goes on at once");
}

#[test]
fn an_agent_is_a_task_in_virtual_time() {
    let at = twice(config(1), |rt| async move {
        let body = |rt: Rt| async move {
            rt.sleep(Nanos(5)).await;
            rt.now()
        };
        rt.agent("traced", body).await.unwrap()
    });
    assert_eq!(at, Time(5));
}

#[test]
fn a_stuck_world_names_who_waits() {
    let sim = Sim::new(config(1));
    let halt = sim.try_block_on(std::future::pending::<()>()).unwrap_err();
    assert_eq!(halt, Halt::Stuck(vec!["main"]));
}

/// Counts how far a loop came before the world was killed.
fn progress_when_killed_at(event: u64) -> u64 {
    let sim = Sim::new(config(1));
    let steps = Rc::new(RefCell::new(0));
    let (rt, counter) = (sim.rt(), steps.clone());
    sim.stop_at_event(event);
    let halt = sim.try_block_on(async move {
        loop {
            rt.sleep(Nanos(1)).await;
            *counter.borrow_mut() += 1;
        }
    });
    assert_eq!(halt, Err::<(), _>(Halt::Stopped(event)));
    sim.kill();
    assert_eq!(Rc::strong_count(&steps), 1, "a killed world holds nothing");
    steps.take()
}

#[test]
fn a_world_can_be_killed_at_every_event() {
    for event in 0..20 {
        assert_eq!(progress_when_killed_at(event), event);
    }
}

#[test]
#[should_panic(expected = "two different runs")]
fn the_double_run_notices_what_is_not_seeded() {
    let calls = Rc::new(RefCell::new(0));
    twice(config(1), |rt| {
        *calls.borrow_mut() += 1;
        let span = Nanos(*calls.borrow());
        async move { rt.sleep(span).await }
    });
}

#[test]
fn a_dropped_sleep_does_not_move_time() {
    let at = twice(config(1), |rt| async move {
        let long = rt.sleep(Nanos::secs(30));
        let winner = sync::race(long, rt.sleep(Nanos(3))).await;
        assert!(matches!(winner, sync::Either::Right(())));
        rt.now()
    });
    assert_eq!(at, Time(3));
}
