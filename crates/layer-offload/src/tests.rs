//! What holds for the layer as a whole.

mod faults;
mod power;

use esker_base::Nanos;
use esker_block::{Bio, BioError, Buf, Device, Done, Kind, KindError, Make, OpKind, Step};
use esker_stack::Export;
use esker_testkit::bench::{self, flush, read, sleep, try_write, write};
use esker_testkit::kept::{peek, poke};

use crate::check;

static KINDS: &[&Kind] = &[
    &crate::KIND,
    &esker_testkit::KEPT,
    &faults::LIAR,
    &esker_dev::memory::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::error::KIND,
    &esker_layers::delay::KIND,
];

const BOTH: &str = "h = memory size=256KiB defer=always latency=9us; x = stats on h; \
    a = memory size=256KiB defer=always latency=5us;";

fn with<F: Future<Output = ()> + 'static>(text: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, text, body);
}

fn stat_of(vol: &Export, part: &str, name: &str) -> u64 {
    bench::count(vol, part, name) as u64
}

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

/// Requests of any kind that reached home.
fn at_home(vol: &Export) -> u64 {
    ["reads", "writes", "flushes", "zeroes", "discards"].iter().map(|name| stat_of(vol, "x", name)).sum()
}

async fn until(vol: &Export, name: &str, value: u64) {
    bench::until(vol, "vol", name, value as f64).await;
}

/// Looks at the log as it lies on the kept medium now.
fn verdict(bed: u64) -> check::Verdict {
    let bytes = peek(bed, "a", 256 << 10);
    let verdict = check::check(&mut |at, out| {
        out.copy_from_slice(&bytes[at as usize..][..out.len()]);
        Ok(())
    });
    verdict.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn off_loading_conforms() {
    let small = "h = memory size=256KiB defer=always latency=9us; a = memory size=64KiB defer=always latency=5us;";
    for text in [
        format!("{BOTH} vol = offload idle_after=0s on x, a"),
        format!("{BOTH} vol = offload idle_after=1h on x, a"),
        format!("{BOTH} vol = offload write_back=true on x, a"),
        format!("{small} vol = offload idle_after=100us on h, a"),
        format!("{small} vol = offload idle_after=0s high_watermark=0.3 index_max=20 on h, a"),
        "h = memory size=256KiB block=4096; a = memory size=128KiB; vol = offload idle_after=50us on h, a".to_string(),
    ] {
        let report = bench::check_conforms(KINDS, &text);
        assert!(report.answered(OpKind::Discard) > 5, "{text}: {report:?}");
    }
}

#[test]
fn while_home_rests_no_write_and_no_flush_reaches_it() {
    with(&format!("{BOTH} vol = offload idle_after=10ms on x, a"), async |vol| {
        write(&vol, 0, &[1; 4096]).await;
        assert_eq!((stat(&vol, "writes_in_place"), stat(&vol, "offloaded_bytes")), (1, 0), "home is awake at first");
        flush(&vol).await;
        sleep(&vol, Nanos::millis(10)).await;
        let before = at_home(&vol);
        for block in 0..20 {
            write(&vol, block * 1024, &[block as u8; 1024]).await;
        }
        assert_eq!(vol.submit(Bio::zero(2048, 1024)).await.result.err(), None);
        flush(&vol).await;
        for block in 0..20u8 {
            let expected = if block == 2 { 0 } else { block };
            assert_eq!(read(&vol, u64::from(block) * 1024, 1024).await, [expected; 1024]);
        }
        assert_eq!(read(&vol, 1024, 3072).await, [vec![1; 1024], vec![0; 1024], vec![3; 1024]].concat());
        sleep(&vol, Nanos::secs(100)).await;
        assert_eq!(at_home(&vol), before, "{:?}", vol.stack().stats());
        assert_eq!((stat(&vol, "offloaded_bytes"), stat(&vol, "log_newest_bytes")), (21 << 10, 20 << 10));
    });
}

#[test]
fn a_flush_reaches_the_log_and_home_if_something_was_changed_there() {
    let text = "h = memory size=256KiB; x = stats on h; b = memory size=256KiB; a = stats on b; \
        vol = offload idle_after=1s high_watermark=1 on x, a";
    with(text, async |vol| {
        let flushes = || [stat_of(&vol, "x", "flushes"), stat_of(&vol, "a", "flushes")];
        write(&vol, 0, &[1; 512]).await;
        let before = flushes();
        flush(&vol).await;
        assert_eq!(flushes(), [before[0] + 1, before[1]], "home is awake");
        sleep(&vol, Nanos::secs(1)).await;
        write(&vol, 8192, &[1; 512]).await;
        let before = flushes();
        flush(&vol).await;
        assert_eq!(flushes(), [before[0], before[1] + 1], "home rests");
        // A forced write in the log is durable with all records before it.
        write(&vol, 4096, &[1; 512]).await;
        let forced = Bio::write(1024, Buf::from_bytes(vol.stack().pool(), &[2; 512])).fua();
        assert_eq!(vol.submit(forced).await.result.err(), None);
        assert_eq!(flushes(), [before[0], before[1] + 2]);
    });
}

#[test]
fn a_read_wakes_home_and_everything_goes_there() {
    with(&format!("{BOTH} vol = offload idle_after=10s on x, a"), async |vol| {
        write(&vol, 100 << 10, &[9; 512]).await;
        sleep(&vol, Nanos::secs(20)).await;
        for block in 0..64 {
            write(&vol, block * 1024, &[block as u8 + 1; 1024]).await;
        }
        assert_eq!(vol.submit(Bio::zero(0, 512)).await.result.err(), None);
        assert_eq!(read(&vol, 100 << 10, 512).await, [9; 512], "this is at home only");
        assert_eq!((stat(&vol, "home_wakeups"), stat(&vol, "home_idle")), (1, 0));
        until(&vol, "records", 0).await;
        assert_eq!((stat(&vol, "log_newest_bytes"), stat(&vol, "log_used_bytes"), stat(&vol, "ranges")), (0, 0, 0));
        let home = vol.stack().device("h").unwrap();
        assert_eq!(read(&home, 0, 1024).await, [vec![0; 512], vec![1; 512]].concat());
        for block in 1..64u8 {
            assert_eq!(read(&home, u64::from(block) * 1024, 1024).await, [block + 1; 1024]);
        }
        // It is awake, so it takes changes itself.
        let before = stat(&vol, "offloaded_bytes");
        write(&vol, 0, &[5; 512]).await;
        assert_eq!((read(&home, 0, 512).await, stat(&vol, "offloaded_bytes")), (vec![5; 512], before));
    });
}

#[test]
fn what_the_log_holds_is_changed_in_the_log_until_it_is_home() {
    // Home is so slow that nothing is reclaimed meanwhile.
    let text = "h = memory size=256KiB; x = delay write=1s on h; a = memory size=256KiB; vol = offload idle_after=10ms on x, a";
    with(text, async |vol| {
        sleep(&vol, Nanos::millis(10)).await;
        write(&vol, 0, &[1; 1024]).await;
        read(&vol, 8192, 512).await;
        sleep(&vol, Nanos::micros(10)).await;
        // The bytes are on their way home, so this waits, and goes home too.
        write(&vol, 0, &[2; 512]).await;
        assert_eq!(read(&vol, 0, 1024).await, [vec![2; 512], vec![1; 512]].concat());
    });
}

#[test]
fn a_log_without_room_gives_back_what_is_overwritten_before_it_wakes_home() {
    let text = "h = memory size=256KiB; x = stats on h; a = memory size=40KiB; vol = offload idle_after=10ms high_watermark=0.5 on x, a";
    with(text, async |vol| {
        vol.stack().opened().await;
        let made = at_home(&vol);
        sleep(&vol, Nanos::millis(10)).await;
        for round in 0..200u8 {
            write(&vol, 0, &[round; 4096]).await;
            sleep(&vol, Nanos::micros(100)).await;
        }
        assert_eq!((at_home(&vol), stat(&vol, "home_wakeups")), (made, 0), "one block over and over needs no home");
        assert_eq!(read(&vol, 0, 4096).await, [199; 4096]);
        for block in 0..10u8 {
            write(&vol, u64::from(block) * 4096, &[block; 4096]).await;
            sleep(&vol, Nanos::micros(100)).await;
        }
        until(&vol, "records", 0).await;
        assert_eq!(stat(&vol, "home_wakeups"), 1, "{:?}", vol.stack().stats());
        for block in 0..10u8 {
            assert_eq!(read(&vol, u64::from(block) * 4096, 4096).await, [block; 4096]);
        }
    });
}

#[test]
fn without_room_changes_go_home_and_none_is_lost() {
    // Nothing is taken home before the log is full to the last record.
    let text = "h = memory size=256KiB; x = stats on h; a = memory size=24KiB; vol = offload idle_after=0s high_watermark=1 on x, a";
    with(text, async |vol| {
        let writes: Vec<_> = (0..60u64)
            .map(|block| {
                let writer = vol.clone();
                let work = async move { write(&writer, block % 20 * 2048, &vec![block as u8; 2048]).await };
                vol.stack().rt().spawn("writer", work)
            })
            .collect();
        for write in writes {
            write.await;
        }
        assert!(stat(&vol, "log_full_writes") > 0 && stat(&vol, "writes_in_place") > 0, "{:?}", vol.stack().stats());
        for block in 0..20u64 {
            assert_eq!(read(&vol, block * 2048, 2048).await, [block as u8 + 40; 2048]);
        }
        write(&vol, 0, &[7; 32 << 10]).await;
        assert_eq!(read(&vol, 0, 32 << 10).await, [7; 32 << 10], "more than the log can ever hold");
    });
}

#[test]
fn memory_is_bounded_by_entries() {
    with(&format!("{BOTH} vol = offload idle_after=0s index_max=10 on x, a"), async |vol| {
        for block in 0..100u64 {
            write(&vol, block * 1024, &[block as u8; 512]).await;
            assert!(stat(&vol, "records") + stat(&vol, "ranges") <= 10);
        }
        assert!(stat(&vol, "log_full_writes") > 0);
        for block in 0..100u64 {
            assert_eq!(read(&vol, block * 1024, 512).await, [block as u8; 512]);
        }
    });
}

/// A home and a log that outlive their stack.
fn keeping(bed: u64) -> String {
    format!("h = kept bed={bed} size=256KiB; x = stats on h; a = kept bed={bed} size=256KiB;")
}

#[test]
fn what_is_off_loaded_is_there_after_a_restart_and_goes_home_in_a_drain() {
    let keeping = keeping(1);
    with(&format!("{keeping} vol = offload idle_after=0s on x, a"), async |vol| {
        for block in 0..30u64 {
            write(&vol, block % 25 * 1024, &[block as u8; 1024]).await;
        }
        assert_eq!(vol.submit(Bio::zero(1024, 512)).await.result.err(), None);
        vol.stack().close().await;
        let found = verdict(1);
        assert_eq!((found.records.len(), found.newest, found.compared), (31, 25 << 10, 30 << 10));
        assert_eq!(found.superblock.durable, 31);
    });
    let expected = |block: u64| {
        let value = if block < 5 { block + 25 } else { block } as u8;
        if block == 1 { [vec![0; 512], vec![value; 512]].concat() } else { vec![value; 1024] }
    };
    with(&format!("{keeping} vol = offload idle_after=0s on x, a"), async move |vol| {
        for block in 0..25 {
            assert_eq!(read(&vol, block * 1024, 1024).await, expected(block), "block {block}");
        }
        assert_eq!(at_home(&vol), 0);
    });
    with(&format!("{keeping} vol = offload write_back=true on x, a"), async move |vol| {
        until(&vol, "records", 0).await;
        let home = vol.stack().device("h").unwrap();
        for block in 0..25 {
            assert_eq!(read(&home, block * 1024, 1024).await, expected(block), "block {block}");
        }
        assert_eq!(verdict(1).records, []);
        write(&vol, 0, &[77; 512]).await;
        assert_eq!(read(&home, 0, 512).await, [77; 512], "a drain off-loads nothing");
    });
}

fn refusal(text: &str) -> String {
    bench::refusal(KINDS, text)
}

#[test]
fn what_is_no_log_or_of_another_volume_is_refused_and_nothing_is_overwritten() {
    let text = format!("{} vol = offload idle_after=0s on x, a", keeping(2));
    let fill = |at, bytes: &[u8]| poke(2, "a", at, bytes);
    fill(0, b"somebody's file system");
    assert!(refusal(&text).contains("holds no superblock of a log of off-loaded writes"), "{}", refusal(&text));
    assert_eq!(peek(2, "a", 22)[..22], *b"somebody's file system");
    fill(0, &[0; 22]);
    with(&text, async |vol| write(&vol, 0, &[1; 4096]).await);
    let smaller = text.replace("h = kept bed=2 size=256KiB", "h = memory size=128KiB");
    assert!(refusal(&smaller).contains("of a volume of 262144 bytes, and home has 131072"), "{}", refusal(&smaller));
    let coarser = text.replace("h = kept bed=2 size=256KiB", "h = memory size=256KiB block=4096");
    assert!(refusal(&coarser).contains("blocks of 512 bytes, and here are 4096"), "{}", refusal(&coarser));
}

#[test]
fn home_and_log_that_are_swapped_are_refused_before_anything_is_written() {
    let text = format!("{} vol = offload idle_after=0s on x, a", keeping(51));
    with(&text, async |vol| write(&vol, 8192, &[1; 4096]).await);
    let before = ["h", "a"].map(|name| peek(51, name, 256 << 10));
    let swapped = text.replace("on x, a", "on a, x");
    let told = refusal(&swapped);
    assert!(told.contains("home holds a log of off-loaded writes") && told.contains("may be swapped"), "{told}");
    assert!(before == ["h", "a"].map(|name| peek(51, name, 256 << 10)), "nothing was written");
}

#[test]
fn a_log_of_another_layers_medium_is_named() {
    let text = format!("{} vol = offload idle_after=0s on x, a", keeping(61));
    poke(61, "a", 4096, &esker_layer_kit::media::MIRROR);
    assert!(refusal(&text).contains("the device of the log holds a member of a mirror"), "{}", refusal(&text));
}

#[test]
fn a_log_that_is_seen_4096_bytes_off_is_refused() {
    let text = format!("{} vol = offload idle_after=0s on x, a", keeping(71));
    with(&text, async |vol| {
        write(&vol, 0, &[1; 4096]).await;
        vol.stack().close().await;
    });
    let sound = peek(71, "a", 64 << 10);
    poke(71, "a", 0, &[0; 4096]);
    poke(71, "a", 4096, &sound[..60 << 10]);
    assert!(refusal(&text).contains("4096 bytes from where it was written"), "{}", refusal(&text));
}

#[test]
fn a_head_that_is_made_can_be_read_again_for_the_largest_devices() {
    use esker_framing::SuperblockError;

    use crate::superblock::{AREA_MAX, HOME_MAX};
    let superblock = |home, area| crate::superblock::Superblock::new(9, home, area, 512);
    for (home, area) in [(1 << 61, 8 << 20), (HOME_MAX - 512, AREA_MAX)] {
        assert_eq!(superblock(home, area).check_new(), Ok(()));
        let written = crate::superblock::Superblock { sequence: 1, ..superblock(home, area) };
        assert_eq!(crate::superblock::Superblock::decode(&written.encode()), Ok(written));
    }
    assert_eq!(superblock(1 << 20, AREA_MAX + 512).check_new(), Err(SuperblockError::Range("area")));
    // The log of a larger device takes what it can address.
    let text =
        "h = memory size=2305843009213693952; a = memory size=4611686018427387904; vol = offload idle_after=0s on h, a";
    with(text, async |vol| {
        write(&vol, 1 << 60, &[7; 4096]).await;
        assert_eq!(read(&vol, 1 << 60, 4096).await, [7; 4096]);
    });
}

#[test]
fn damage_where_all_was_durable_is_refused_with_its_place() {
    let text = format!("{} vol = offload idle_after=0s on x, a", keeping(3));
    with(&text, async |vol| {
        for block in 0..10 {
            write(&vol, block * 512, &[3; 512]).await;
        }
        vol.stack().close().await;
    });
    let sound = peek(3, "a", 256 << 10);
    // The header of record 6.
    poke(3, "a", crate::format::AREA_START + 6 * 1024 + 30, &[1]);
    let told = refusal(&text);
    assert!(
        told.contains("damaged at byte 14336: record 6 is not there, although all before 10 were durable"),
        "{told}"
    );
    poke(3, "a", 0, &sound);
    // The superblocks are never torn.
    poke(3, "a", 56, &[1]);
    assert!(refusal(&text).contains("checksum is wrong"), "{}", refusal(&text));
}
