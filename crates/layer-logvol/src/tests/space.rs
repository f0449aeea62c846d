//! Segments: what is freed when, and what happens when nothing is left.

use esker_block::BioError;

use super::*;
use crate::segments::State;

const SEGMENT: u64 = 16 << 10;

async fn small(rt: &Rt, checkpoint: u64) -> (Bench, Keeper) {
    let (gate, keeper) = Gate::over(device(rt, &media(512 << 10)));
    (Bench::open(rt, gate, SEGMENT, checkpoint).await, keeper)
}

async fn try_write(bench: &Bench, lba: u64, value: u8) -> Result<(), BioError> {
    let buf = Buf::from_bytes(bench.io.pool(), &vec![value; 4 * BLOCK]);
    bench.submit(Bio::write(lba * BLOCK as u64, buf)).await.result.map(drop)
}

#[test]
fn overwriting_for_ever_needs_no_more_than_a_few_segments() {
    run(async |rt| {
        let (bench, keeper) = small(&rt, 32 << 10).await;
        // Forty times the device.
        for i in 0..10_000u64 {
            try_write(&bench, i % 5 * 4, i as u8).await.unwrap_or_else(|e| panic!("write {i}: {e}"));
        }
        assert_eq!(bench.values(0, 20).await[..4], [(9_995 % 256) as u8; 4]);
        assert!(bench.stat("segments_freed") > 500.0);
        assert_eq!(keeper.noted(OpKind::Discard), [], "what is written again soon is not discarded");
    });
}

#[test]
fn a_full_volume_says_so_reads_and_deletes_and_then_takes_writes_again() {
    run(async |rt| {
        let (bench, _) = small(&rt, 1 << 40).await;
        let mut written = 0;
        let error = loop {
            match try_write(&bench, written * 4, written as u8).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, BioError::NoSpace(_)) && written > 100, "{written} writes, {error}");
        for i in (0..written).step_by(7) {
            assert_eq!(bench.values(i * 4, 4).await, [i as u8; 4]);
        }
        assert!(matches!(try_write(&bench, 0, 1).await, Err(BioError::NoSpace(_))), "still");
        bench.ranges(&[delete(0, written * 2)]).await;
        let mut again = 0;
        while again < written / 4 {
            try_write(&bench, again * 4, 99).await.unwrap_or_else(|e| panic!("write {again} after the deletion: {e}"));
            again += 1;
        }
        assert_eq!(bench.values((written - 1) * 4, 4).await, [(written - 1) as u8; 4]);
    });
}

#[test]
fn a_full_volume_can_be_emptied_and_filled_again_and_again() {
    run(async |rt| {
        let (bench, _) = small(&rt, 64 << 10).await;
        let mut rounds = Vec::new();
        for round in 0..5u8 {
            let mut written = 0;
            while try_write(&bench, written * 4, round).await.is_ok() {
                written += 1;
            }
            // Element by element, which takes space itself.
            for i in 0..written {
                bench.ranges(&[delete(i * 4, 4)]).await;
            }
            rounds.push(written);
        }
        assert!(rounds.iter().all(|written| written * 20 >= rounds[0] * 17), "space is lost: {rounds:?}");
        assert_eq!(bench.stat("mappings"), 0.0);
    });
}

/// A map that outgrows the space for its checkpoints could never be stored again.
#[test]
fn clones_that_would_leave_no_space_for_the_map_are_refused() {
    run(async |rt| {
        let (bench, _) = small(&rt, 1 << 40).await;
        // Scattered, so that each block is an extent.
        for i in (0..64u64).rev() {
            bench.write(i * 2, 1, i as u8 + 1).await;
        }
        let mut cloned = 0;
        let error = loop {
            let done = bench.submit(Bio::ranges([clone(0, 128, 1000 + cloned * 128)])).await;
            match done.result {
                Ok(_) => cloned += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, BioError::NoSpace(_)) && cloned > 20, "{cloned} clones, {error}");
        bench.checkpoint().await;
        bench.ranges(&[delete(1000, cloned * 128)]).await;
        bench.checkpoint().await;
        assert_eq!(bench.stat("mappings"), 64.0);
        bench.ranges(&[clone(0, 128, 1000)]).await;
        assert_eq!(bench.values(1126, 2).await, [64, 0]);
    });
}

/// A segment becomes free only when a checkpoint is durable that does not need it.
#[test]
fn a_segment_whose_records_are_needed_is_not_freed() {
    run(async |rt| {
        let (bench, keeper) = small(&rt, 1 << 40).await;
        for i in 0..60u64 {
            try_write(&bench, i % 2 * 4, i as u8).await.unwrap();
        }
        let dead = |bench: &Bench| {
            let segments = bench.volume.segments();
            segments.iter().filter(|segment| segment.state == State::Closed && segment.live == 0).count()
        };
        assert!(dead(&bench) >= 5, "nothing refers to them, but recovery needs their records");
        keeper.shut.set(true);
        let (other, done) = (bench.clone(), Rc::new(Cell::new(false)));
        let told = done.clone();
        rt.spawn("checkpoint", async move {
            other.checkpoint().await;
            told.set(true);
        })
        .detach();
        rt.sleep(Nanos::millis(1)).await;
        assert!(!done.get() && dead(&bench) >= 5, "its pages are not written yet");
        keeper.open_all();
        rt.sleep(Nanos::millis(1)).await;
        assert!(done.get() && dead(&bench) == 0);
    });
}

/// What the stored map refers to is needed by recovery, even if nothing refers to it any more.
#[test]
fn a_segment_that_dies_while_a_checkpoint_is_made_waits_for_the_next_one() {
    run(async |rt| {
        let (bench, keeper) = small(&rt, 1 << 40).await;
        for i in 0..12u64 {
            try_write(&bench, i * 4, 1).await.unwrap();
        }
        let segment = bench.volume.geometry().segment_of(bench.volume.pieces(0..4)[0].pba);
        let state = |bench: &Bench| bench.volume.segments()[segment.index()];
        assert!(state(&bench).state == State::Closed && state(&bench).live > 0, "{:?}", state(&bench));
        keeper.shut.set(true);
        let other = bench.clone();
        let checkpoint = rt.spawn("checkpoint", async move { other.checkpoint().await });
        rt.sleep(Nanos::millis(1)).await;
        keeper.shut.set(false);
        for i in 0..12u64 {
            try_write(&bench, i * 4, 2).await.unwrap();
        }
        assert_eq!(state(&bench).live, 0);
        keeper.open_all();
        checkpoint.await;
        assert_eq!(state(&bench).state, State::Closed, "a replay may end before the overwrites");
        bench.checkpoint().await;
        assert_ne!(state(&bench).state, State::Closed);
    });
}

/// A read that is under way keeps its segment, even when everything in it is overwritten and a checkpoint is made.
#[test]
fn a_segment_that_is_read_is_not_freed() {
    run(async |rt| {
        let (bench, keeper) = small(&rt, 1 << 40).await;
        try_write(&bench, 0, 1).await.unwrap();
        let place = bench.volume.pieces(0..4)[0].pba;
        let segment = bench.volume.geometry().segment_of(place);
        keeper.shut.set(true);
        let reader = bench.clone();
        let read = rt.spawn("reader", async move { reader.values(0, 4).await });
        rt.sleep(Nanos::millis(1)).await;
        let slow = keeper.waiting();
        assert_eq!(slow.len(), 1);
        keeper.shut.set(false);
        // The first round fills the segment with what is written for the first time, the others overwrite it.
        for i in 0..60u64 {
            try_write(&bench, i % 10 * 4, 2).await.unwrap();
        }
        bench.checkpoint().await;
        let state = |bench: &Bench| bench.volume.segments()[segment.index()];
        assert_eq!((state(&bench).state, state(&bench).holds), (State::Closed, 1));
        // As much as there is, so that a freed segment would be used anew.
        for i in 0..600u64 {
            try_write(&bench, i % 8 * 4, 3).await.unwrap();
        }
        keeper.let_go(slow[0]);
        assert_eq!(read.await, [1; 4], "what was there when the read began");
        bench.checkpoint().await;
        assert_ne!(state(&bench).state, State::Closed);
    });
}

/// Checkpoints are made in the background when enough was logged.
#[test]
fn checkpoints_come_by_themselves_and_free_segments() {
    run(async |rt| {
        let text = "a = memory size=512KiB defer=always latency=2us; \
            vol = logvol block=512 page=512 segment=16KiB checkpoint_interval=48KiB on a";
        let vol = build(&rt, text);
        for i in 0..400u64 {
            let buf = Buf::from_bytes(vol.stack().pool(), &[i as u8; 2048]);
            assert_eq!(vol.submit(Bio::write(i % 3 * 2048, buf)).await.result.err(), None);
        }
        rt.sleep(Nanos::millis(1)).await;
        let parts = vol.stack().stats();
        let part = parts.iter().find(|part| part.kind == "logvol").unwrap();
        let stat = |name: &str| part.stats.iter().find(|stat| stat.name == name).unwrap().value;
        assert!(stat("checkpoints") > 10.0 && stat("segments_freed") > 30.0, "{:?}", part.stats);
    });
}
