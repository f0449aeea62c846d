//! The collector.

use esker_base::Stream;
use esker_block::BioError;

mod races;
mod space;
mod stress;

use super::*;
use crate::collect::{Separation, Settings};
use crate::segments::{Segment, Stage, State};

const SEGMENT: u64 = 16 << 10;

async fn small(rt: &Rt, bytes: u64, checkpoint: u64) -> (Bench, Keeper) {
    let (gate, keeper) = Gate::over(device(rt, &media(bytes)));
    (Bench::open(rt, gate, SEGMENT, checkpoint).await, keeper)
}

async fn try_write(bench: &Bench, lba: u64, value: u8) -> Result<(), BioError> {
    let buf = Buf::from_bytes(bench.io.pool(), &[value; BLOCK]);
    bench.submit(Bio::write(lba * BLOCK as u64, buf)).await.result.map(drop)
}

impl Bench {
    /// One pass over the map.
    async fn pass(&self) {
        self.volume.pass().await;
    }

    /// Cleans the segment that has waited longest.
    async fn clean_one(&self) {
        assert!(self.volume.clean_next(&self.volume.store(self.below())).await, "there is something, and room");
    }

    /// Cleans what is ready.
    async fn clean(&self) {
        while self.volume.collector.ready() > 0 {
            self.clean_one().await;
        }
    }

    /// The segment that is being cleaned.
    fn cleaned_now(&self) -> usize {
        let segments = self.volume.segments();
        segments.iter().position(|segment| segment.stage == Stage::Cleaning).expect("one is being cleaned")
    }

    async fn wait_for(&self, done: &Cell<bool>) {
        while !done.get() {
            self.rt.sleep(Nanos::micros(1)).await;
        }
    }

    /// A segment was cleaned: it is empty, what was in it is where it belongs, and stays there when the segment is free
    /// and used anew.
    async fn expect_moved(&self, segment: usize, expected: &[(u64, u8)]) {
        assert_eq!(self.segment(segment).live, 0, "all mappings into it were found");
        assert_eq!(self.segment(segment).stage, Stage::Rest);
        self.checkpoint().await;
        assert_eq!(self.segment(segment).state, State::Free, "it is empty");
        for i in 0..2000u64 {
            self.write(700 + i % 9, 1, 255).await;
        }
        for (lba, value) in expected {
            assert_eq!(self.values(*lba, 1).await, [*value], "block {lba}");
        }
    }

    /// Two passes, after which what one of them chose is ready.
    async fn prepare(&self) {
        self.pass().await;
        self.pass().await;
    }

    /// The segment in which a logical block lies.
    fn segment_of(&self, lba: u64) -> usize {
        self.volume.geometry().segment_of(self.volume.pieces(lba..lba + 1)[0].pba).index()
    }

    fn segment(&self, segment: usize) -> Segment {
        self.volume.segments()[segment]
    }

    /// Writes blocks one by one, the value of each its number + 1.
    async fn fill(&self, lbas: std::ops::Range<u64>) {
        for lba in lbas {
            self.write(lba, 1, lba as u8 + 1).await;
        }
    }

    /// Starts a pass or the cleaner in a task of its own; tells whether it has ended.
    fn start(&self, is_pass: bool) -> Rc<Cell<bool>> {
        let (bench, ended) = (self.clone(), Rc::new(Cell::new(false)));
        let told = ended.clone();
        let work = async move {
            if is_pass {
                bench.pass().await
            } else {
                bench.clean().await
            }
            told.set(true);
        };
        self.rt.spawn("collector", work).detach();
        ended
    }

    /// Lets everything below pass that waits now or comes, but what lies in segments in one of these states.
    async fn let_pass_all_but(&self, keeper: &Keeper, states: &[State]) {
        let g = self.volume.geometry();
        let is_held = |offset: u64| {
            let segment = offset.checked_sub(g.start).map(|at| (at / g.segment_bytes()) as usize);
            let states_of = |segment: usize| self.volume.segments().get(segment).map(|segment| segment.state);
            segment.and_then(states_of).is_some_and(|state| states.contains(&state))
        };
        for _ in 0..40 {
            self.rt.sleep(Nanos::micros(50)).await;
            keeper.waiting().into_iter().filter(|offset| !is_held(*offset)).for_each(|offset| keeper.let_go(offset));
        }
    }
}

/// A bench with so little memory that a segment with many references is cleaned without a list of them.
async fn scarce(rt: &Rt) -> (Bench, Keeper) {
    scarce_over(rt, 4 << 20).await
}

/// The same over a medium of so many bytes.
async fn scarce_over(rt: &Rt, bytes: u64) -> (Bench, Keeper) {
    let (gate, keeper) = Gate::over(device(rt, &media(bytes)));
    let settings = Settings::of(("greedy", None), Separation::Origin, (0.5, 0.9), 64 << 10, 2).unwrap();
    let config = Config { collector: settings, ..config(&*gate, SEGMENT, 1 << 40) };
    let io = Io::over(rt, &Pool::default(), vec![gate]);
    let volume = Volume::open(config, rt, io.pool(), io.below().clone()).await.unwrap();
    (Bench { rt: rt.clone(), io, volume }, keeper)
}

/// Random overwrites of single blocks, which leave no segment without a live block, many times the size of the device.
#[test]
fn a_volume_that_is_overwritten_for_ever_never_fills() {
    run(async |rt| {
        let (bench, _) = small(&rt, 1 << 20, 64 << 10).await;
        // 1 MiB are 2048 blocks, each with a block of records if it is written alone.
        let mut model = vec![0; 900];
        let mut rng = Stream::named(1, "overwrites");
        for i in 0..30_000u64 {
            let lba = rng.below(900);
            let value = (i % 250) as u8 + 1;
            try_write(&bench, lba, value).await.unwrap_or_else(|e| panic!("write {i}: {e}"));
            model[lba as usize] = value;
        }
        assert_eq!(bench.values(0, 900).await, model);
        assert!(bench.stat("segments_cleaned") > 100.0, "{}", bench.stat("segments_cleaned"));
    });
}

/// The same in a stack, with its tasks in the background.
#[test]
fn a_stack_cleans_in_the_background() {
    run(async |rt| {
        let text = "a = memory size=4MiB defer=always latency=2us; \
            vol = logvol block=512 page=512 segment=16KiB checkpoint_interval=256KiB on a";
        let vol = build(&rt, text);
        let mut rng = Stream::named(1, "overwrites");
        for i in 0..40_000u64 {
            let buf = Buf::from_bytes(vol.stack().pool(), &[i as u8; BLOCK]);
            let done = vol.submit(Bio::write(rng.below(3500) * BLOCK as u64, buf)).await;
            assert_eq!(done.result.err(), None, "write {i}");
        }
        let parts = vol.stack().stats();
        let part = parts.iter().find(|part| part.kind == "logvol").unwrap();
        let stat = |name: &str| part.stats.iter().find(|stat| stat.name == name).unwrap().value;
        println!("{:?}", part.stats);
        assert!(stat("segments_cleaned") > 100.0 && stat("used_ratio") < 0.99, "{:?}", part.stats);
    });
}
