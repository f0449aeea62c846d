//! Clones, moves, deletions, their queries, and what readers see meanwhile.

use esker_base::Stream;

use super::*;
use esker_layer_thin::Compared;

async fn fresh(rt: &Rt) -> Bench {
    Bench::open(rt, device(rt, &media(4 << 20)), 64 << 10, 1 << 40).await
}

#[test]
fn a_clone_shares_until_either_side_is_written() {
    run(async |rt| {
        let bench = fresh(&rt).await;
        bench.write(0, 4, 1).await;
        bench.ranges(&[clone(0, 6, 100)]).await;
        assert!(bench.volume.share_blocks(0, 100, 6));
        bench.write(1, 1, 2).await;
        bench.write(102, 1, 3).await;
        assert_eq!(bench.values(0, 6).await, [1, 2, 1, 1, 0, 0]);
        assert_eq!(bench.values(100, 6).await, [1, 1, 3, 1, 0, 0]);
        assert!(!bench.volume.share_blocks(0, 100, 6) && bench.volume.share_blocks(0, 100, 1));
    });
}

#[test]
fn a_thousand_sharers_do_not_notice_an_overwrite_of_one() {
    run(async |rt| {
        let bench = fresh(&rt).await;
        bench.write(0, 1, 9).await;
        for first in (1..1001).step_by(100) {
            let ops: Vec<RangeOp> = (first..first + 100).map(|i| clone(0, 1, i * 2)).collect();
            bench.ranges(&ops).await;
        }
        bench.write(500 * 2, 1, 4).await;
        let values = bench.values(0, 2002).await;
        for i in 0..1001 {
            assert_eq!(values[i * 2], if i == 500 { 4 } else { 9 }, "sharer {i}");
        }
        let live: u64 = bench.volume.segments().iter().map(|segment| segment.live).sum();
        assert_eq!(live, 1001, "each reference counts");
    });
}

#[test]
fn a_move_takes_holes_along_and_leaves_nothing() {
    run(async |rt| {
        let bench = fresh(&rt).await;
        bench.write(0, 2, 1).await;
        bench.write(4, 1, 2).await;
        bench.write(50, 8, 7).await;
        bench.ranges(&[shift(0, 6, 51)]).await;
        assert_eq!(bench.values(0, 6).await, [0; 6]);
        assert_eq!(bench.values(50, 8).await, [7, 1, 1, 0, 0, 2, 0, 7]);
    });
}

#[test]
fn later_elements_see_what_earlier_ones_did() {
    run(async |rt| {
        let bench = fresh(&rt).await;
        bench.write(0, 1, 1).await;
        bench.write(10, 1, 2).await;
        // A swap over a scratch block.
        bench.ranges(&[shift(0, 1, 99), shift(10, 1, 0), shift(99, 1, 10)]).await;
        assert_eq!(
            (bench.values(0, 1).await, bench.values(10, 1).await, bench.values(99, 1).await),
            (vec![2], vec![1], vec![0])
        );
    });
}

#[test]
fn a_clone_costs_one_block_of_records_and_no_data() {
    run(async |rt| {
        let (gate, keeper) = Gate::over(device(&rt, &media(4 << 20)));
        let bench = Bench::open(&rt, gate, 256 << 10, 1 << 40).await;
        for at in (0..2000).step_by(100) {
            bench.write(at, 100, 1 + (at / 100) as u8).await;
        }
        keeper.log.borrow_mut().clear();
        bench.ranges(&[clone(0, 2000, 1 << 30)]).await;
        let written: u64 = keeper.noted(OpKind::Write).iter().map(|(_, len)| len).sum();
        assert_eq!((written, keeper.noted(OpKind::Read).len()), (BLOCK as u64, 0));
        assert!(bench.values((1 << 30) + 1999, 1).await == [20]);
    });
}

#[test]
fn the_last_block_can_be_read_and_written_and_what_lies_behind_cannot() {
    run(async |rt| {
        let vol = build(&rt, "a = memory size=1MiB; vol = logvol block=512 page=512 segment=32KiB on a");
        let size = vol.limits().size;
        assert_eq!(size, 1 << 57, "128 PiB");
        let pool = vol.stack().pool().clone();
        let last = size - 512;
        assert_eq!(vol.submit(Bio::write(last, Buf::from_bytes(&pool, &[6; 512]))).await.result.err(), None);
        let done = vol.submit(Bio::read(last - 512, Buf::unique(&pool, 1024))).await;
        assert_eq!(done.buf.to_vec(), [[0; 512], [6; 512]].concat());
        let done = vol.submit(Bio::write(size, Buf::from_bytes(&pool, &[6; 512]))).await;
        assert!(matches!(done.result, Err(esker_block::BioError::Invalid(_))));
    });
}

#[test]
fn what_is_not_mapped_reads_as_zeroes_without_a_request_below() {
    run(async |rt| {
        let text = "a = memory size=1MiB; vol = logvol block=512 page=512 segment=32KiB on a";
        let vol = build(&rt, text);
        let pool = vol.stack().pool().clone();
        let reads = |vol: &Export| {
            let parts = vol.stack().stats();
            parts.iter().find(|part| part.kind == "logvol").unwrap().work.generated
        };
        let done = vol.submit(Bio::read(0, Buf::unique(&pool, 512))).await;
        assert_eq!(done.result.err(), None, "it is open now");
        let before = reads(&vol);
        let mut dirty = Buf::unique(&pool, 4096);
        dirty.bytes_mut().unwrap().fill(0xa5);
        let done = vol.submit(Bio::read(1 << 40, dirty)).await;
        assert!(done.buf.to_vec() == [0; 4096]);
        assert_eq!(reads(&vol), before);
    });
}

#[test]
fn extents_tell_data_from_holes() {
    run(async |rt| {
        let vol = build(&rt, "a = memory size=1MiB; vol = logvol block=512 page=512 segment=32KiB on a");
        let pool = vol.stack().pool().clone();
        for at in [2u64, 3, 7] {
            let buf = Buf::from_bytes(&pool, &[1; 512]);
            assert_eq!(vol.submit(Bio::write(at * 512, buf)).await.result.err(), None);
        }
        let done = vol.submit(Bio::extents(512, 9 * 512)).await;
        let Ok(esker_block::Reply::Extents(extents)) = done.result else { panic!("{:?}", done.result) };
        let (data, hole) = (esker_block::ExtentState::Data, esker_block::ExtentState::Hole);
        let got: Vec<_> = extents.iter().map(|extent| (extent.len / 512, extent.state)).collect();
        assert_eq!(got, [(1, hole), (2, data), (3, hole), (1, data), (2, hole)]);
    });
}

/// Moves go on between two places while others read both: no reader ever sees a part of a move.
#[test]
fn readers_see_all_of_a_vector_or_nothing() {
    run(async |rt| {
        let bench = fresh(&rt).await;
        const LEN: u64 = 24;
        // Written apart, so that a read takes several requests below.
        for i in (0..LEN).rev() {
            bench.write(i, 1, 1).await;
        }
        let done = Rc::new(Cell::new(false));
        let (mover, told) = (bench.clone(), done.clone());
        let moves = rt.spawn("mover", async move {
            for round in 0..200 {
                let (from, to) = if round % 2 == 0 { (0, 1000) } else { (1000, 0) };
                let ops: Vec<RangeOp> = (0..LEN).map(|i| shift(from + i, 1, to + i)).collect();
                mover.ranges(&ops).await;
            }
            told.set(true);
        });
        let (mut reads, mut seen) = (0u64, [0, 0]);
        while !done.get() {
            for at in [0, 1000] {
                let values = bench.values(at, LEN).await;
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                seen[usize::from(values[0])] += 1;
                reads += 1;
                rt.sleep(Nanos(reads * 37 % 4_000)).await;
            }
        }
        moves.await;
        assert!(reads > 60 && seen[0] > 10 && seen[1] > 10, "{reads} reads, {seen:?}");
    });
}

#[test]
fn compare_and_clone_shares_what_is_equal_and_leaves_what_differs() {
    run(async |rt| {
        let bench = fresh(&rt).await;
        bench.write(0, 8, 5).await;
        bench.write(100, 8, 5).await;
        bench.write(200, 7, 5).await;
        let compare = async |src, dst| {
            let below = bench.below();
            bench.volume.compare_and_clone(&below, src, dst, 8, Default::default()).await
        };
        assert_eq!(compare(0, 100).await, Ok(Compared::Cloned));
        assert!(bench.volume.share_blocks(0, 100, 8));
        assert_eq!(compare(0, 100).await, Ok(Compared::Shared), "nothing is done twice");
        assert_eq!(compare(0, 200).await, Ok(Compared::Different));
        assert_eq!(bench.values(200, 8).await, [5, 5, 5, 5, 5, 5, 5, 0]);
        assert!(compare(0, 4).await.is_err() && compare(0, crate::map::LOGICAL_BLOCKS - 4).await.is_err());
    });
}

/// A writer races with comparisons: whatever it wrote last is there.
#[test]
fn compare_and_clone_loses_no_write_of_a_racing_writer() {
    run(async |rt| {
        let (gate, _) = Gate::over(device(&rt, &media(16 << 20)));
        let bench = Bench::open(&rt, gate, 256 << 10, 4 << 20).await;
        let mut rng = Stream::seeded(11);
        let mut cloned = 0;
        for trial in 0..1500u32 {
            bench.write(0, 4, 1).await;
            bench.write(100, 4, 1).await;
            let pause = Nanos(rng.below(14_000));
            let (writer, at) = (bench.clone(), 100 + rng.below(4));
            let sleep = rt.sleep(pause);
            let race = rt.spawn("writer", async move {
                sleep.await;
                writer.write(at, 1, 2).await;
            });
            let below = bench.below();
            let compared = bench.volume.compare_and_clone(&below, 0, 100, 4, Default::default()).await.unwrap();
            race.await;
            cloned += u32::from(compared == Compared::Cloned);
            let mut expected = [1; 4];
            expected[at as usize - 100] = 2;
            assert_eq!(bench.values(100, 4).await, expected, "trial {trial}: {compared:?}");
        }
        assert!((100..1450).contains(&cloned), "{cloned} of 1500 comparisons won the race");
    });
}

/// Random requests of all kinds with several in flight are what a flat array would be; across reopenings.
#[test]
fn random_requests_match_a_flat_array() {
    const BLOCKS: u64 = 300;
    let media = media(4 << 20);
    let model = Rc::new(RefCell::new(vec![0u8; BLOCKS as usize]));
    for round in 0..6u64 {
        let (media, model) = (media.clone(), model.clone());
        run(async move |rt| {
            let bench = Bench::open(&rt, device(&rt, &media), 64 << 10, 128 << 10).await;
            let mut rng = Stream::named(round, "requests");
            for step in 0..700u32 {
                let len = 1 + rng.below(9);
                let [a, b] = [rng.below(140), 150 + rng.below(140)];
                let (from, to) = (a as usize..(a + len) as usize, b as usize..(b + len) as usize);
                match rng.below(6) {
                    0..=2 => {
                        let at = rng.below(BLOCKS - len);
                        bench.write(at, len as usize, step as u8).await;
                        model.borrow_mut()[at as usize..(at + len) as usize].fill(step as u8);
                    }
                    3 => {
                        bench.ranges(&[clone(a, len, b)]).await;
                        model.borrow_mut().copy_within(from, to.start);
                    }
                    4 => {
                        bench.ranges(&[shift(b, len, a)]).await;
                        model.borrow_mut().copy_within(to.clone(), from.start);
                        model.borrow_mut()[to].fill(0);
                    }
                    _ => {
                        bench.ok(Bio::discard(a * BLOCK as u64, len * BLOCK as u64)).await;
                        model.borrow_mut()[from].fill(0);
                    }
                }
                if step % 20 == 0 {
                    let values = bench.values(0, BLOCKS).await;
                    assert_eq!(values, *model.borrow(), "round {round}, step {step}");
                }
            }
        });
    }
}
