//! What holds for the layer as a whole.

mod power;

use esker_base::Nanos;
use esker_block::{Bio, Device, Kind};
use esker_stack::Export;
use esker_testkit::bench::{self, flush, read, sleep, write};
use esker_testkit::kept::poke;

static KINDS: &[&Kind] = &[
    &crate::KIND,
    &esker_testkit::KEPT,
    &esker_dev::memory::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::error::KIND,
    &esker_layers::delay::KIND,
];

const HOME: &str = "h = memory size=1MiB defer=always latency=90us; x = stats on h;";
const FAST: &str = "f = memory size=512KiB defer=always latency=5us; y = stats on f;";
const MODES: [&str; 3] = ["write-back", "write-through", "write-around"];

fn with<F: Future<Output = ()> + 'static>(args: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, &format!("{HOME} {FAST} vol = cache dirty_age=0s {args} on x, y"), body);
}

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

fn count(vol: &Export, part: &str, name: &str) -> u64 {
    bench::count(vol, part, name) as u64
}

async fn until(vol: &Export, name: &str, value: u64) {
    bench::until(vol, "vol", name, value as f64).await;
}

#[test]
fn a_cache_conforms_in_every_mode() {
    for mode in MODES {
        for args in
            ["line=4KiB", "line=16KiB", "line=64KiB", "line=8KiB fill=before", "line=8KiB strict=true bypass=8KiB"]
        {
            bench::check_conforms(KINDS, &format!("{HOME} {FAST} vol = cache dirty_age=0s mode={mode} {args} on x, y"));
        }
    }
    for policy in esker_caching::NAMED.iter().map(|(name, _)| *name) {
        let text = format!("{HOME} {FAST} vol = cache dirty_age=0s line=4KiB dirty=0.1 policy={policy} on x, y");
        bench::check_conforms(KINDS, &text);
    }
}

#[test]
fn a_second_read_comes_from_the_copy() {
    with("line=16KiB", async |vol| {
        assert_eq!(read(&vol, 20 << 10, 4096).await, [0; 4096]);
        until(&vol, "fills", 1).await;
        let before = count(&vol, "x", "reads");
        assert_eq!(read(&vol, 16 << 10, 16 << 10).await, [0; 16 << 10]);
        assert_eq!(count(&vol, "x", "reads"), before, "home is not asked");
        assert_eq!((stat(&vol, "read_hits"), stat(&vol, "read_misses"), stat(&vol, "used")), (1, 1, 1));
    });
}

#[test]
fn written_back_bytes_come_home_when_it_is_idle() {
    with("line=8KiB", async |vol| {
        for block in 0..16_u64 {
            write(&vol, block * 8192, &[block as u8 + 1; 4096]).await;
        }
        assert_eq!((count(&vol, "x", "writes"), stat(&vol, "dirty")), (0, 16), "all went aside");
        until(&vol, "dirty", 0).await;
        let home = vol.stack().device("h").unwrap();
        for block in 0..16_u64 {
            assert_eq!(read(&home, block * 8192, 4096).await, [block as u8 + 1; 4096]);
            assert_eq!(read(&vol, block * 8192, 8192).await[..4096], [block as u8 + 1; 4096]);
        }
    });
}

#[test]
fn writes_go_where_the_mode_says() {
    for (mode, at_home, aside) in [("write-back", 0, 1), ("write-through", 1, 1), ("write-around", 1, 0)] {
        with(&format!("line=4KiB mode={mode} dirty=1"), async move |vol| {
            read(&vol, 0, 4096).await;
            until(&vol, "fills", 1).await;
            let before = count(&vol, "x", "writes");
            write(&vol, 0, &[7; 4096]).await;
            let (home, used) = (count(&vol, "x", "writes") - before, stat(&vol, "used"));
            assert_eq!(read(&vol, 0, 4096).await, [7; 4096], "{mode}");
            sleep(&vol, Nanos::millis(1)).await;
            assert_eq!(home, at_home, "{mode}");
            assert_eq!(read(&vol, 0, 4096).await, [7; 4096], "{mode}");
            assert_eq!(used, aside, "{mode}");
        });
    }
}

#[test]
fn a_flush_waits_for_the_one_before_it() {
    with("line=4KiB", async |vol| {
        write(&vol, 0, &[1; 4096]).await;
        write(&vol, 0, &[2; 4096]).await;
        flush(&vol).await;
        write(&vol, 0, &[3; 4096]).await;
        let begun = vol.stack().rt().now();
        let (rt, first) = (vol.stack().rt().clone(), vol.clone());
        let first = rt.spawn("first", async move { flush(&first).await });
        rt.sleep(Nanos(1)).await;
        flush(&vol).await;
        assert!(rt.now().since(begun) >= Nanos::micros(5), "the write in place is on the medium");
        first.await;
    });
}

#[test]
fn a_long_stream_passes_by() {
    for (bypass, filled) in [("64KiB", false), ("0", true)] {
        with(&format!("line=4KiB bypass={bypass}"), async move |vol| {
            for at in (0..512_u64 << 10).step_by(16 << 10) {
                read(&vol, at, 16 << 10).await;
            }
            sleep(&vol, Nanos::millis(5)).await;
            assert_eq!(stat(&vol, "fills") > 40, filled, "{bypass}: {:?}", stat(&vol, "fills"));
        });
    }
}

#[test]
fn a_policy_changes_under_load_and_lines_stay() {
    with("line=4KiB", async |vol| {
        for block in 0..40_u64 {
            write(&vol, block * 4096, &[block as u8; 4096]).await;
        }
        let told = vol.stack().order("vol", &["policy".to_string(), "arc".to_string()]).await.unwrap();
        assert_eq!(told, r#"{"lines":40,"policy":"arc"}"#);
        for block in 0..40_u64 {
            assert_eq!(read(&vol, block * 4096, 4096).await, [block as u8; 4096]);
        }
        assert_eq!(stat(&vol, "read_hits"), 40);
        let wrong = vol.stack().order("vol", &["policy".to_string(), "lfru".to_string()]).await;
        assert!(wrong.unwrap_err().to_string().contains("s3-fifo"));
    });
}

#[test]
fn an_operator_has_all_lines_written_home() {
    with("line=4KiB dirty=1", async |vol| {
        for block in 0..40_u64 {
            write(&vol, block * 4096, &[block as u8 + 1; 4096]).await;
        }
        assert_eq!(vol.stack().order("vol", &["write-back".to_string()]).await.unwrap(), r#"{"written_back":40}"#);
        assert_eq!(stat(&vol, "dirty"), 0);
        let home = vol.stack().device("h").unwrap();
        for block in 0..40_u64 {
            assert_eq!(read(&home, block * 4096, 4096).await, [block as u8 + 1; 4096]);
        }
    });
}

#[test]
fn home_gets_the_pages_of_a_line_that_changed_alone() {
    with("line=64KiB", async |vol| {
        read(&vol, 0, 4096).await;
        until(&vol, "fills", 1).await;
        // Home is not idle then.
        read(&vol, 512 << 10, 4096).await;
        write(&vol, 8 << 10, &[1; 4096]).await;
        write(&vol, 40 << 10, &[2; 8192]).await;
        until(&vol, "written_back", 1).await;
        assert_eq!((count(&vol, "x", "writes"), count(&vol, "x", "write_bytes")), (2, 12 << 10));
        let home = vol.stack().device("h").unwrap();
        let found = read(&home, 0, 64 << 10).await;
        assert_eq!((found[8 << 10], found[12 << 10], found[41 << 10], found[63 << 10]), (1, 0, 2, 0));
    });
}

/// Home's flush takes a second. The flush of a client, and the first change of a clean line, do not wait for it.
#[test]
fn clients_do_not_wait_for_the_flush_of_a_write_back() {
    let text = format!("{HOME} d = delay flush=1s on x; {FAST} vol = cache dirty_age=0s line=4KiB on d, y");
    bench::with(KINDS, &text, async |vol| {
        read(&vol, 200 << 10, 4096).await;
        until(&vol, "fills", 1).await;
        flush(&vol).await;
        write(&vol, 0, &[1; 4096]).await;
        sleep(&vol, Nanos::millis(500)).await;
        assert_eq!((count(&vol, "x", "writes"), stat(&vol, "written_back")), (1, 0), "home is being flushed");
        // Once while home is being flushed, and once behind it.
        for (round, written_back) in [(2, 3), (3, 5)] {
            let begun = vol.stack().rt().now();
            write(&vol, 200 << 10, &[round; 4096]).await;
            write(&vol, 100 << 10, &[round; 4096]).await;
            flush(&vol).await;
            let took = vol.stack().rt().now().since(begun);
            assert!(took < Nanos::millis(1), "{took}");
            until(&vol, "written_back", written_back).await;
        }
    });
}

#[test]
fn a_line_that_changes_again_and_again_waits_until_it_is_old() {
    let text = format!("{HOME} {FAST} vol = cache dirty_age=1s line=4KiB on x, y");
    bench::with(KINDS, &text, async |vol| {
        write(&vol, 64 << 10, &[1; 4096]).await;
        for round in 0..50 {
            write(&vol, 0, &[round; 4096]).await;
            sleep(&vol, Nanos::millis(100)).await;
        }
        assert_eq!((stat(&vol, "written_back"), stat(&vol, "dirty")), (1, 1), "the line that did not change again");
        sleep(&vol, Nanos::secs(3)).await;
        assert_eq!((stat(&vol, "written_back"), stat(&vol, "dirty")), (2, 0));
    });
}

#[test]
fn zeroes_go_to_lines_and_discards_give_whole_ones_up() {
    with("line=8KiB dirty=1", async |vol| {
        write(&vol, 0, &[1; 32 << 10]).await;
        assert_eq!(vol.submit(Bio::zero(4096, 20 << 10)).await.result.err(), None);
        assert_eq!((stat(&vol, "used"), count(&vol, "x", "zeroes")), (4, 0));
        let mut expected = vec![1; 32 << 10];
        expected[4096..24 << 10].fill(0);
        assert_eq!(read(&vol, 0, 32 << 10).await, expected);
        flush(&vol).await;
        assert_eq!(vol.submit(Bio::discard(4096, 20 << 10)).await.result.err(), None);
        assert_eq!(stat(&vol, "used"), 2, "the lines that are discarded in part stay");
        assert_eq!(read(&vol, 24 << 10, 8 << 10).await, expected[24 << 10..]);
    });
}

#[test]
fn more_lines_in_part_than_the_map_has_room_for_go_home() {
    let text = "h = memory size=32MiB; x = stats on h; f = memory size=24MiB defer=always latency=20us; \
        vol = cache dirty_age=0s line=8KiB dirty=1 bypass=0 on x, f";
    bench::with(KINDS, text, async |vol| {
        let rt = vol.stack().rt().clone();
        for batch in 0..16_u64 {
            let writer = |number: u64| {
                let (vol, line) = (vol.clone(), batch * 128 + number);
                rt.spawn("writer", async move { write(&vol, line * 8192, &[line as u8; 4096]).await })
            };
            let writers: Vec<_> = (0..128).map(writer).collect();
            for writer in writers {
                writer.await;
            }
        }
        assert!(count(&vol, "x", "writes") > 0, "some found no room: {:?}", stat(&vol, "used"));
        for line in 0..16 * 128_u64 {
            assert_eq!(read(&vol, line * 8192, 4096).await, [line as u8; 4096], "line {line}");
        }
    });
}

/// A zero that home fails must cost nothing that was answered before.
#[test]
fn a_zero_that_fails_at_home_loses_no_line() {
    let text = format!(
        "h = memory size=1MiB; e = error ops=zero probability=1 on h; {FAST} vol = cache dirty_age=0s line=8KiB dirty=1 on e, y"
    );
    bench::with(KINDS, &text, async |vol| {
        write(&vol.stack().device("h").unwrap(), 0, &[9; 16 << 10]).await;
        write(&vol, 0, &[1; 16 << 10]).await;
        let failed = vol.submit(Bio::zero(0, 32 << 10)).await.result.is_err();
        let bytes = read(&vol, 0, 16 << 10).await;
        assert!(failed && (bytes == [0; 16 << 10] || bytes == [1; 16 << 10]), "{}", bytes[0]);
    });
}

#[test]
fn home_answers_what_the_fast_device_fails_to_read() {
    let text = format!(
        "{HOME} f = memory size=512KiB; e = error ops=read start=147456 probability=1 on f; vol = cache dirty_age=0s line=4KiB on x, e"
    );
    bench::with(KINDS, &text, async |vol| {
        let home = vol.stack().device("h").unwrap();
        write(&home, 8192, &[9; 4096]).await;
        read(&vol, 8192, 4096).await;
        until(&vol, "fills", 1).await;
        assert_eq!(read(&vol, 8192, 4096).await, [9; 4096]);
        assert_eq!((stat(&vol, "read_again"), stat(&vol, "used")), (1, 0), "the line is given up");
    });
}

/// Writes 40 blocks, stops, and starts again.
async fn fill(vol: &Export) {
    for block in 0..40_u64 {
        write(vol, block * 4096, &[block as u8 + 1; 4096]).await;
    }
}

async fn assert_filled(vol: &Export) {
    for block in 0..40_u64 {
        assert_eq!(read(vol, block * 4096, 4096).await, [block as u8 + 1; 4096], "block {block}");
    }
}

fn kept(bed: u64) -> String {
    format!(
        "h = kept bed={bed} size=1MiB; f = kept bed={bed} size=512KiB; vol = cache dirty_age=0s line=4KiB dirty=1 on h, f"
    )
}

#[test]
fn a_cache_is_warm_behind_a_stop_and_behind_a_kill() {
    for (bed, is_clean) in [(1, true), (2, false)] {
        bench::with(KINDS, &kept(bed), async move |vol| {
            fill(&vol).await;
            flush(&vol).await;
            match is_clean {
                true => vol.stack().close().await,
                false => std::mem::forget(vol),
            }
        });
        bench::with(KINDS, &kept(bed), async move |vol| {
            assert_filled(&vol).await;
            assert_eq!((stat(&vol, "read_hits"), stat(&vol, "dirty")), (40, 40));
            assert!(!is_clean || stat(&vol, "suspects") == 0);
        });
    }
}

#[test]
fn a_home_that_was_changed_without_the_cache_is_refused_or_adopted() {
    bench::with(KINDS, &kept(3), async |vol| {
        fill(&vol).await;
        vol.stack().order("vol", &["write-back".to_string()]).await.unwrap();
        vol.stack().close().await;
    });
    poke(3, "h", 0, &[99; 4096]);
    let refusal = bench::refusal(KINDS, &kept(3));
    assert!(refusal.contains("home was changed without this layer"), "{refusal}");
    bench::with(KINDS, &kept(3).replace("dirty=1", "dirty=1 adopt=home"), async |vol| {
        assert_eq!(read(&vol, 0, 4096).await, [99; 4096]);
        assert_eq!(stat(&vol, "used"), 0);
    });
}

#[test]
fn another_mode_writes_home_what_write_back_left() {
    bench::with(KINDS, &kept(4), async |vol| {
        fill(&vol).await;
        vol.stack().close().await;
    });
    for mode in ["write-through", "write-around"] {
        bench::with(KINDS, &kept(4).replace("dirty=1", &format!("mode={mode}")), async |vol| {
            assert_filled(&vol).await;
            assert_eq!(stat(&vol, "dirty"), 0);
            let home = vol.stack().device("h").unwrap();
            for block in 0..40_u64 {
                assert_eq!(read(&home, block * 4096, 4096).await, [block as u8 + 1; 4096]);
            }
            vol.stack().close().await;
        });
    }
}

/// The map on the medium still calls the copy clean when home has changed.
#[test]
fn a_copy_that_home_has_left_behind_is_not_read_after_a_kill() {
    let text = kept(6).replace("dirty=1", "mode=write-around");
    bench::with(KINDS, &kept(6), async |vol| {
        fill(&vol).await;
        vol.stack().order("vol", &["write-back".to_string()]).await.unwrap();
        vol.stack().close().await;
    });
    bench::with(KINDS, &text, async |vol| {
        assert_filled(&vol).await;
        assert_eq!(stat(&vol, "read_hits"), 40);
        write(&vol, 0, &[99; 4096]).await;
        std::mem::forget(vol);
    });
    bench::with(KINDS, &text, async |vol| assert_eq!(read(&vol, 0, 4096).await, [99; 4096]));
}

#[test]
fn pages_of_lines_that_are_there_in_part_outlive_kill_after_kill() {
    let text = kept(5).replace("line=4KiB", "line=16KiB");
    for round in 0..6_u8 {
        bench::with(KINDS, &text, async move |vol| {
            for page in 0..16 * u64::from(round) {
                let at = page % 16 * 16384 + page / 16 % 4 * 4096;
                let written = (0..round).rev().find(|round| u64::from(*round) * 16 <= page).unwrap();
                let last = if page + 64 < 16 * u64::from(round) { continue } else { written };
                assert_eq!(read(&vol, at, 4096).await, [last + 1; 4096], "round {round}, page {page}");
            }
            for page in 16 * u64::from(round)..16 * (u64::from(round) + 1) {
                write(&vol, page % 16 * 16384 + page / 16 % 4 * 4096, &[round + 1; 4096]).await;
                flush(&vol).await;
            }
            std::mem::forget(vol);
        });
    }
}
