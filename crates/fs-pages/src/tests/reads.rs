//! How reads hit, miss, wait for each other and run ahead.

use esker_rt::sim::{SimConfig, twice};
use esker_rt::sync::join_all;

use super::*;

const MIB: usize = 1 << 20;

/// A file whose bytes tell their place.
fn counted(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 8 * 31 + at % 8) as u8).collect()
}

fn simulated<Fut: Future<Output = ()> + 'static>(scenario: impl Fn(Rt) -> Fut) {
    twice(SimConfig::seeded(3), scenario);
}

#[test]
fn what_was_read_is_a_hit_and_bytes_are_those_of_the_medium() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        let all = counted(10 * PAGE);
        medium.files.borrow_mut().insert(FILE, all.clone());
        let end = all.len() as u64;
        for (at, len) in [(0, 1), (4095, 2), (5000, 20_000), (40_000, 960), (0, 40_960)] {
            let part = &all[at as usize..at as usize + len];
            assert_eq!(read(&cache, &medium, FILE, at, len, end).await, part);
            assert!(is_now(&cache.read(&medium, CALL, FILE, (at, len), end)), "{len} bytes at {at}");
            let mut out = vec![0; len];
            assert!(cache.read_now(&medium, CALL, FILE, at, &mut out, end));
            assert_eq!(out, part);
        }
        assert!(!cache.read_now(&medium, CALL, Ino(8), 0, &mut [0; 4], 4));
    });
}

#[test]
fn two_readers_of_a_frame_fetch_it_once() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        let span = (5 * PAGE as u64, PAGE);
        let readers = (0..3).map(|_| read(&cache, &medium, FILE, span.0, span.1, 99 * PAGE as u64));
        join_all(readers).await;
        assert_eq!(*medium.fetched.borrow(), [(FILE, 5, 1)]);
    });
}

#[test]
fn a_reader_whose_fetch_is_given_up_leaves_the_frame_to_others() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        let span = (5 * PAGE as u64, 8);
        let given_up = cache.read(&medium, CALL, FILE, span, 99 * PAGE as u64).into_future();
        let other = rt.spawn("other", {
            let (cache, medium, rt) = (cache.clone(), medium.clone(), rt.clone());
            async move {
                rt.sleep(Nanos(2)).await;
                read(&cache, &medium, FILE, span.0, span.1, 99 * PAGE as u64).await
            }
        });
        let sleep = medium.rt.sleep(Nanos(5));
        assert!(matches!(esker_rt::sync::race(given_up, sleep).await, esker_rt::sync::Either::Right(())));
        assert_eq!(other.await, [0; 8]);
        assert_eq!(medium.fetches(), 2);
    });
}

#[test]
fn an_error_is_told_to_its_reader_and_forgotten() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        medium.fails.set(true);
        let far = (50 * PAGE as u64, 100);
        assert_eq!(cache.read(&medium, CALL, FILE, far, 99 * PAGE as u64).await.err(), Some(Errno::EIO));
        assert_eq!(cache.prepare(&medium, CALL, FILE, far, 99 * PAGE as u64).await.err(), Some(Errno::EIO));
        medium.fails.set(false);
        assert_eq!(read(&cache, &medium, FILE, far.0, far.1, 99 * PAGE as u64).await, [0; 100]);
        assert_eq!(cache.stats().dirty, 0, "a write that failed gives its room back");
    });
}

#[test]
fn sequential_readers_double_their_window_and_wait_once() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(4096, 8));
        let all = counted(4 * MIB);
        medium.files.borrow_mut().insert(FILE, all.clone());
        let mut waits = 0;
        for at in (0..all.len() as u64).step_by(PAGE) {
            let step = cache.read(&medium, CALL, FILE, (at, PAGE), all.len() as u64);
            waits += u64::from(!is_now(&step));
            assert!(step.await.unwrap().to_vec() == all[at as usize..at as usize + PAGE]);
            // A program takes longer than the device.
            rt.sleep(Nanos(100)).await;
        }
        assert_eq!(waits, 1);
        let pages = medium.fetched.borrow().iter().map(|(.., frames)| *frames).collect::<Vec<_>>();
        assert_eq!(pages[..7], [1, 3, 8, 16, 32, 64, 128]);
        assert!(pages[7..].iter().all(|frames| *frames <= 128), "at most 512 KiB: {pages:?}");
        assert_eq!(pages.iter().sum::<u64>(), 1024, "nothing is fetched twice, nor behind the end");
        assert_eq!((cache.stats().misses, cache.stats().ahead), (1, 1023));
    });
}

#[test]
fn readers_at_random_get_what_they_ask_for_alone() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(4096, 8));
        let mut random = rt.rng("offsets");
        for _ in 0..200 {
            let at = (1 + random.below(900)) * 2 * PAGE as u64;
            read(&cache, &medium, FILE, at, PAGE, 8 << 20).await;
        }
        assert_eq!(cache.stats().ahead, 0);
        assert!(medium.fetched.borrow().iter().all(|(.., frames)| *frames == 1));
    });
}

#[test]
fn two_sequential_readers_of_a_file_do_not_disturb_each_other() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(4096, 8));
        let (half, end) = (2 << 20, 4 << 20);
        for at in (0..half).step_by(PAGE) {
            for from in [at, half + at] {
                read(&cache, &medium, FILE, from, PAGE, end).await;
                rt.sleep(Nanos(100)).await;
            }
        }
        assert!(medium.fetches() < 30, "{} fetches", medium.fetches());
    });
}

#[test]
fn frames_may_have_sixteen_pages() {
    simulated(|rt| async move {
        let wide = PageCacheConfig { frame_pages: 16, ..config(256, 128) };
        let (cache, medium) = made(&rt, &wide);
        let all = counted(3 * 16 * PAGE);
        medium.files.borrow_mut().insert(FILE, all.clone());
        let end = all.len() as u64;
        assert_eq!(read(&cache, &medium, FILE, 70_000, 100_000, end).await, &all[70_000..170_000]);
        write(&cache, &medium, FILE, 60_000, b"across", end).await;
        assert_eq!(read(&cache, &medium, FILE, 59_999, 8, end).await[1..7], *b"across");
        assert_eq!(cache.dirty_frames(FILE, 0..9), [0]);
    });
}

#[test]
fn strict_classes_give_up_the_last_one_first() {
    simulated(|rt| async move {
        let strict = PageCacheConfig { between: Between::Strict(2), ahead_bytes_max: 0, ..config(8, 4) };
        let (cache, medium) = made(&rt, &strict);
        let (dear, cheap, page, end) = (Ino(100), Ino(101), PAGE as u64, 99 * PAGE as u64);
        let reads = |ino: Ino, nrs: Range<u64>| {
            let (cache, medium) = (cache.clone(), medium.clone());
            async move {
                for nr in nrs {
                    read(&cache, &medium, ino, nr * page, PAGE, end).await;
                }
                (cache, medium)
            }
        };
        let has = |ino: Ino, nr: u64| cache.read_now(&medium, CALL, ino, nr * page, &mut [0; PAGE], end);
        reads(dear, 1..5).await;
        reads(cheap, 1..60).await;
        assert!((1..5).all(|nr| has(dear, nr)), "a scan of a cheap file leaves dear frames alone");
        reads(dear, 5..9).await;
        assert!((1..9).all(|nr| has(dear, nr)), "dear frames take the place of cheap ones");
        reads(cheap, 1..3).await;
        assert!((1..9).all(|nr| has(dear, nr)) && !has(cheap, 1), "a cheap frame finds no room then");
        write(&cache, &medium, cheap, 0, &[1; PAGE], 0).await;
        assert!(has(cheap, 0), "but a dirty one does");
    });
}

#[test]
fn a_class_above_its_share_gives_frames_up_first() {
    simulated(|rt| async move {
        let caps = PageCacheConfig { between: Between::Caps(vec![2, 6]), ahead_bytes_max: 0, ..config(8, 4) };
        let (cache, medium) = made(&rt, &caps);
        let (first, second, page, end) = (Ino(100), Ino(101), PAGE as u64, 99 * PAGE as u64);
        let has = |ino: Ino, nr: u64| cache.read_now(&medium, CALL, ino, nr * page, &mut [0; PAGE], end);
        for nr in 1..9 {
            read(&cache, &medium, first, nr * page, PAGE, end).await;
        }
        assert!((1..9).all(|nr| has(first, nr)), "what another class leaves may be used");
        for nr in 1..60 {
            read(&cache, &medium, second, nr * page, PAGE, end).await;
        }
        assert_eq!((1..9).filter(|nr| has(first, *nr)).count(), 2);
        assert_eq!((1..60).filter(|nr| has(second, *nr)).count(), 6);
    });
}
