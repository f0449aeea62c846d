use esker_block::{Bio, Device};
use esker_rt::sim::{SimConfig, twice};

use crate::testing::{check_conforms, open, run, start_write, stat, write};

#[test]
fn counting_changes_nothing() {
    check_conforms("vol = memory size=1MiB defer=always | stats");
}

#[test]
fn requests_bytes_latencies_and_failures_are_counted() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "vol = memory size=1MiB | error ops=discard every=1 | delay write=2ms flush=9ms | stats");
        for _ in 0..3 {
            write(&vol, 0, &[1; 4096]).await;
        }
        run(&vol, Bio::flush()).await;
        assert!(vol.submit(Bio::discard(0, 512)).await.result.is_err());
        let seen = |name| stat(&vol, "vol", name);
        assert_eq!((seen("writes"), seen("write_bytes"), seen("flushes")), (3.0, 12288.0, 1.0));
        assert_eq!((seen("failed"), seen("in_flight"), seen("in_flight_max")), (1.0, 0.0, 1.0));
        assert!((seen("write_p50_ns") / 2e6 - 1.0).abs() < 0.01, "{}", seen("write_p50_ns"));
        assert!((seen("flush_max_ns") / 9e6 - 1.0).abs() < 0.01, "{}", seen("flush_max_ns"));
        let all = vol.stack().stats();
        assert!(all.iter().all(|part| part.stats.iter().all(|s| s.name != "reads")), "nothing was read");
    });
}

#[test]
fn the_most_that_was_in_flight_is_kept() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "vol = memory size=1MiB | delay write=1ms | stats");
        let writes = (0..5).map(|i| start_write(&vol, i * 512, vec![0; 512]));
        esker_rt::sync::join_all(writes.collect::<Vec<_>>()).await;
        assert_eq!((stat(&vol, "vol", "in_flight_max"), stat(&vol, "vol", "in_flight")), (5.0, 0.0));
    });
}
