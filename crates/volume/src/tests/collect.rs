//! The collector.

use esker_base::Stream;
use esker_block::BioError;

use super::*;

const SEGMENT: u64 = 16 << 10;

async fn small(rt: &Rt, bytes: u64, checkpoint: u64) -> (Bench, Keeper) {
    let (gate, keeper) = Gate::over(device(rt, &media(bytes)));
    (Bench::open(rt, gate, SEGMENT, checkpoint).await, keeper)
}

async fn try_write(bench: &Bench, lba: u64, value: u8) -> Result<(), BioError> {
    let buf = Buf::from_bytes(bench.io.pool(), &[value; BLOCK]);
    bench.submit(Bio::write(lba * BLOCK as u64, buf)).await.result.map(drop)
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
            vol = volume block=512 page=512 segment=16KiB checkpoint=256KiB on a";
        let vol = build(&rt, text);
        let mut rng = Stream::named(1, "overwrites");
        for i in 0..40_000u64 {
            let buf = Buf::from_bytes(vol.stack().pool(), &[i as u8; BLOCK]);
            let done = vol.submit(Bio::write(rng.below(3500) * BLOCK as u64, buf)).await;
            assert_eq!(done.result.err(), None, "write {i}");
        }
        let parts = vol.stack().stats();
        let part = parts.iter().find(|part| part.kind == "volume").unwrap();
        let stat = |name: &str| part.stats.iter().find(|stat| stat.name == name).unwrap().value;
        println!("{:?}", part.stats);
        assert!(stat("segments_cleaned") > 100.0 && stat("utilization") < 0.99, "{:?}", part.stats);
    });
}
