//! How writes wait, change frames, and leave them to their owner.

use esker_rt::sim::{SimConfig, twice};

use super::*;

fn simulated<Fut: Future<Output = ()> + 'static>(scenario: impl Fn(Rt) -> Fut) {
    twice(SimConfig::seeded(5), scenario);
}

const PAGE_U64: u64 = PAGE as u64;

#[test]
fn a_write_fetches_what_it_changes_in_part_and_nothing_else() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        medium.files.borrow_mut().insert(FILE, vec![1; 9 * PAGE]);
        let end = 9 * PAGE_U64;
        write(&cache, &medium, FILE, 2 * PAGE_U64, &[2; 2 * PAGE], end).await;
        assert_eq!(medium.fetches(), 0, "whole frames");
        write(&cache, &medium, FILE, 4 * PAGE_U64 + 1, &[2; 3 * PAGE], end).await;
        assert_eq!(*medium.fetched.borrow(), [(FILE, 4, 1), (FILE, 7, 1)], "its first and its last frame");
        write(&cache, &medium, FILE, end, &[3; 10], end).await;
        write(&cache, &medium, FILE, end + 20, &[3; 10], end + 10).await;
        assert_eq!(medium.fetches(), 2, "nothing lies behind the end");
        let tail = read(&cache, &medium, FILE, end - 1, 31, end + 30).await;
        assert_eq!(tail, [&[1][..], &[3; 10], &[0; 10], &[3; 10]].concat());
        let edge = read(&cache, &medium, FILE, 7 * PAGE_U64, 2, end).await;
        assert_eq!(edge, [2, 1]);
    });
}

#[test]
fn a_write_that_covers_the_rest_of_a_file_fetches_nothing() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        medium.files.borrow_mut().insert(FILE, vec![1; 10]);
        assert!(cache.prepare_now(&medium, FILE, (1, 9), 10).is_none(), "the first byte stays");
        cache.prepare_now(&medium, FILE, (0, 10), 10).unwrap().write_bytes(&[2; 10]);
        assert_eq!((read(&cache, &medium, FILE, 0, 10, 10).await, medium.fetches()), (vec![2; 10], 0));
    });
}

#[test]
fn frozen_bytes_stay_and_a_later_write_is_dirty_again() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        write(&cache, &medium, FILE, 0, &[1; PAGE], 0).await;
        let mut first = cache.freeze(FILE, 0).unwrap();
        let bytes = first.bytes();
        assert!(cache.freeze(FILE, 0).is_none() && cache.dirty_inodes().is_empty());
        write(&cache, &medium, FILE, 0, &[2; PAGE], PAGE_U64).await;
        assert_eq!((bytes.to_vec(), first.bytes().to_vec()), (vec![1; PAGE], vec![1; PAGE]));
        assert_eq!(cache.stats().dirty, 2, "both count");
        first.written();
        assert_eq!((cache.dirty_frames(FILE, 0..1), cache.stats().dirty), (vec![0], 1));
        cache.freeze(FILE, 0).unwrap().written();
        assert_eq!((cache.dirty_frames(FILE, 0..1), cache.stats().dirty), (vec![], 0));
    });
}

#[test]
fn a_write_back_that_failed_leaves_the_frame_dirty() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        write(&cache, &medium, FILE, 0, &[1; PAGE], 0).await;
        drop(cache.freeze(FILE, 0).unwrap());
        assert_eq!((cache.dirty_inodes(), cache.stats().dirty), (vec![FILE], 1));
        let failed = cache.freeze(FILE, 0).unwrap();
        write(&cache, &medium, FILE, 0, &[2; PAGE], PAGE_U64).await;
        drop(failed);
        assert_eq!((cache.dirty_inodes(), cache.stats().dirty), (vec![FILE], 1), "the newer bytes alone count");
        let doomed = cache.freeze(FILE, 0).unwrap();
        cache.discard(FILE, 0..1);
        drop(doomed);
        assert_eq!((cache.dirty_inodes(), cache.stats().dirty), (vec![], 0));
    });
}

#[test]
fn writers_wait_for_room_in_their_order_and_the_owner_hears_at_half() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        for nr in 0..4 {
            write(&cache, &medium, FILE, nr * PAGE_U64, &[1; PAGE], nr * PAGE_U64).await;
        }
        let owner = rt.spawn("owner", {
            let (cache, medium, rt) = (cache.clone(), medium.clone(), rt.clone());
            async move {
                cache.pressure().await;
                let heard_at = cache.stats().dirty;
                rt.sleep(Nanos(1000)).await;
                flush(&cache, &medium);
                heard_at
            }
        });
        let done = Rc::new(RefCell::new(Vec::new()));
        let writers = [(4, 4), (8, 6), (14, 1)].map(|(nr, frames)| {
            let (cache, medium, done) = (cache.clone(), medium.clone(), done.clone());
            rt.spawn("writer", async move {
                write(&cache, &medium, FILE, nr * PAGE_U64, &vec![2; frames * PAGE], nr * PAGE_U64).await;
                done.borrow_mut().push(nr);
            })
        });
        rt.sleep(Nanos(500)).await;
        assert_eq!((done.borrow().clone(), cache.stats().dirty), (vec![4], 8), "a full cache has writers wait");
        for writer in writers {
            writer.await;
        }
        assert_eq!((owner.await, done.borrow().clone()), (8, vec![4, 8, 14]));
    });
}

#[test]
#[should_panic(expected = "has no room at any time")]
fn a_write_larger_than_the_limit_is_an_error_of_the_owner() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        let most = cache.write_bytes_max();
        write(&cache, &medium, FILE, 1, &vec![0; most], 0).await;
        flush(&cache, &medium);
        write(&cache, &medium, FILE, 0, &vec![0; most + PAGE + 1], 0).await;
    });
}

#[test]
fn what_was_discarded_does_not_come_back_with_a_fetch() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(64, 8));
        medium.files.borrow_mut().insert(FILE, vec![1; 4 * PAGE]);
        let slow = cache.read(&medium, CALL, FILE, (0, 4 * PAGE), 4 * PAGE_U64).into_future();
        let reader = rt.spawn("reader", slow);
        rt.sleep(Nanos(2)).await;
        cache.discard(FILE, 1..2);
        medium.store(FILE, 1, &[0; PAGE]);
        write(&cache, &medium, FILE, 2 * PAGE_U64, &[3; PAGE], 4 * PAGE_U64).await;
        reader.await.unwrap();
        let all = read(&cache, &medium, FILE, 0, 4 * PAGE, 4 * PAGE_U64).await;
        let kinds = all.chunks(PAGE).map(|page| page[0]).collect::<Vec<_>>();
        assert_eq!(kinds, [1, 0, 3, 1]);
    });
}

#[test]
fn a_dirty_frame_never_leaves_for_another_one() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(8, 4));
        for nr in 0..4 {
            write(&cache, &medium, FILE, nr * PAGE_U64, &[7; PAGE], nr * PAGE_U64).await;
        }
        for nr in 0..500 {
            read(&cache, &medium, Ino(8), nr * PAGE_U64, PAGE, 500 * PAGE_U64).await;
        }
        let frames = medium.fetched.borrow().iter().filter(|(ino, ..)| *ino == FILE).count();
        assert_eq!((read(&cache, &medium, FILE, 0, 4 * PAGE, 4 * PAGE_U64).await, frames), (vec![7; 4 * PAGE], 0));
        assert!(cache.stats().frames <= 8 && cache.stats().evicted > 400);
    });
}

#[test]
fn a_prepared_write_that_is_dropped_changes_nothing() {
    simulated(|rt| async move {
        let (cache, medium) = made(&rt, &config(8, 4));
        medium.files.borrow_mut().insert(FILE, vec![1; PAGE]);
        let prepared = cache.prepare(&medium, CALL, FILE, (10, 10), PAGE_U64).await.unwrap();
        assert_eq!(cache.stats().dirty, 1);
        for nr in 0..100 {
            read(&cache, &medium, Ino(8), nr * PAGE_U64, PAGE, 500 * PAGE_U64).await;
        }
        assert!(cache.read_now(&medium, CALL, FILE, 0, &mut [0; PAGE], PAGE_U64), "it holds its frame");
        drop(prepared);
        assert_eq!((cache.stats().dirty, cache.dirty_inodes()), (0, vec![]));
        cache.discard(FILE, 0..1);
    });
}
