//! When the disk works, and when it is left alone.

use esker_base::Nanos;
use esker_block::{Bio, Device};
use esker_rt::{Sim, SimConfig};
use esker_stack::Export;
use esker_testkit::bench::{self, flush, read, sleep, write};
use esker_testkit::kept::{peek, poke};

use super::{FAST, HOME, KINDS, count, kept, stat, with};

const PAGE: u64 = 4096;

/// The layer opens with its first request.
async fn open(vol: &Export) {
    read(vol, 900 << 10, 512).await;
}

async fn home_requests(vol: &Export) -> u64 {
    ["reads", "writes", "flushes"].iter().map(|name| count(vol, "x", name)).sum()
}

#[test]
fn item_22_all_writes_go_aside_while_there_is_room_and_reads_of_copies_never_reach_home() {
    with("pressure=1", async |vol| {
        read(&vol, 0, PAGE as usize).await;
        flush(&vol).await;
        let before = home_requests(&vol).await;
        // Writes of pages with and without a copy, of several pages, and of parts of pages that have copies.
        for page in 0..40_u64 {
            write(&vol, page * 2 * PAGE, &[page as u8 + 1; 4096]).await;
        }
        write(&vol, 100 * PAGE, &[9; 5 * 4096]).await;
        write(&vol, 101 * PAGE + 512, &[10; 1024]).await;
        flush(&vol).await;
        for page in 0..40_u64 {
            assert_eq!(read(&vol, page * 2 * PAGE, 4096).await, [page as u8 + 1; 4096]);
        }
        assert_eq!(read(&vol, 101 * PAGE + 512, 1024).await, [10; 1024]);
        assert_eq!(home_requests(&vol).await, before);
        assert_eq!((stat(&vol, "dirty"), stat(&vol, "write_misses")), (45, 45));
    });
}

/// More pages than slots: clean copies make room, and the disk sleeps on.
#[test]
fn item_22_clean_copies_make_room_for_writes() {
    with("idle_after=40ms pressure=0.9", async |vol| {
        open(&vol).await;
        let slots = stat(&vol, "slots");
        for page in 0..200_u64 {
            read(&vol, page * PAGE, 4096).await;
        }
        sleep(&vol, Nanos::secs(1)).await;
        assert!(stat(&vol, "fetched") > slots / 2, "{}", stat(&vol, "fetched"));
        let before = home_requests(&vol).await;
        // Each write has more pages than are kept free.
        for first in [0, 80, 160] {
            write(&vol, first * PAGE, &[1; 20 * 4096]).await;
        }
        assert_eq!((home_requests(&vol).await, stat(&vol, "home_rests")), (before, 1));
        assert_eq!(stat(&vol, "dirty"), 60);
    });
}

#[test]
fn item_23_pages_are_fetched_in_windows_that_misses_open() {
    with("idle_after=100ms", async |vol| {
        sleep(&vol, Nanos::millis(500)).await;
        assert_eq!((stat(&vol, "home_rests"), stat(&vol, "plans")), (1, 0));
        read(&vol, 20 * PAGE, 4 * 4096).await;
        assert_eq!((stat(&vol, "windows"), stat(&vol, "fetched")), (1, 0), "clients go first");
        sleep(&vol, Nanos::millis(60)).await;
        assert_eq!((stat(&vol, "plans"), stat(&vol, "fetched"), stat(&vol, "home_rests")), (1, 4, 0));
        sleep(&vol, Nanos::millis(500)).await;
        let before = home_requests(&vol).await;
        assert_eq!(read(&vol, 20 * PAGE, 4 * 4096).await, [0; 4 * 4096]);
        sleep(&vol, Nanos::secs(5)).await;
        assert_eq!((home_requests(&vol).await, stat(&vol, "home_rests")), (before, 1));
        assert_eq!((stat(&vol, "spin_ups_plain"), stat(&vol, "spin_ups_avoided")), (2, 1));
    });
}

/// A client that uses the disk goes first: a plan waits until it is quiet.
#[test]
fn item_23_a_client_goes_before_a_plan() {
    with("idle_after=100ms", async |vol| {
        for page in 0..20_u64 {
            read(&vol, page * 3 * PAGE, 4096).await;
            sleep(&vol, Nanos::millis(10)).await;
            assert_eq!(stat(&vol, "plans"), 0);
        }
        sleep(&vol, Nanos::millis(80)).await;
        assert_eq!((stat(&vol, "plans"), stat(&vol, "fetched")), (1, 20));
    });
}

/// A disk with a timer of its own wakes for clients and for too many dirty pages, and for nothing else.
#[test]
fn item_23_each_spin_up_has_a_client_or_pressure() {
    let text = format!(
        "d = disk-model profile=hdd-5400-2008 size=4MiB content=memory standby_after=2s; {FAST} \
         vol = spindown idle_after=2s pressure=0.6 on d, y"
    );
    bench::with(KINDS, &text, async |vol| {
        let mut draw = esker_base::Stream::named(3, "requests");
        for _ in 0..600 {
            let pages = if draw.chance(0.9) { 40 } else { 1000 };
            let at = draw.below(pages) * PAGE;
            match draw.chance(0.5) {
                true => write(&vol, at, &[1; 4096]).await,
                false => drop(read(&vol, at, 4096).await),
            }
            if draw.chance(0.3) {
                flush(&vol).await;
            }
            sleep(&vol, Nanos::from_secs_f64(draw.exponential() * 3.0)).await;
        }
        let (woken, pressed) = (stat(&vol, "windows"), stat(&vol, "windows_pressed"));
        let spun = bench::stat(&vol, "d", "spin_ups") as u64;
        assert!(spun <= woken + pressed && spun > 5, "{spun} spin-ups, {woken} by clients, {pressed} by pressure");
        assert!(stat(&vol, "fetched") > 10 && stat(&vol, "spin_ups_avoided") > woken);
    });
}

#[test]
fn pressure_wakes_the_disk_and_is_counted() {
    with("idle_after=50ms pressure=0.5", async |vol| {
        open(&vol).await;
        let slots = stat(&vol, "slots");
        sleep(&vol, Nanos::millis(200)).await;
        for page in 0..slots / 2 + 1 {
            write(&vol, page * PAGE, &[page as u8; 4096]).await;
        }
        sleep(&vol, Nanos::millis(200)).await;
        assert_eq!((stat(&vol, "windows_pressed"), stat(&vol, "windows")), (1, 0));
        assert_eq!(stat(&vol, "dirty"), slots / 4, "half of what is pressure stays");
        let home = vol.stack().device("h").unwrap();
        for page in 0..8 {
            assert_eq!(read(&home, page * PAGE, 4096).await, [page as u8; 4096]);
        }
    });
}

/// Reads, writes of any alignment and zeroes, and what they should leave.
async fn work(vol: &Export, seed: u64) -> Vec<u8> {
    let mut image = vec![0; 1 << 20];
    let mut draw = esker_base::Stream::named(seed, "work");
    for round in 0..400_u64 {
        let (at, len) = (draw.below(1900) * 512, (1 + draw.below(24)) * 512);
        let range = at as usize..(at + len) as usize;
        match draw.below(5) {
            0 => assert_eq!(read(vol, at, len as usize).await, image[range]),
            1 => {
                vol.submit(Bio::zero(at, len)).await.result.unwrap();
                image[range].fill(0);
            }
            _ => {
                let (at, len) = if draw.chance(0.7) { (at / PAGE * PAGE, PAGE) } else { (at, len) };
                let byte = (round % 250) as u8 + 1;
                write(vol, at, &vec![byte; len as usize]).await;
                image[at as usize..(at + len) as usize].fill(byte);
            }
        }
        if draw.chance(0.1) {
            sleep(vol, Nanos::millis(20)).await;
        }
    }
    image
}

#[test]
fn item_24_a_stop_writes_everything_home() {
    for (bed, args) in [(11, "idle_after=10ms"), (12, "idle_after=10ms pressure=0.3"), (13, "pressure=1")] {
        bench::with(KINDS, &kept(bed, args), async move |vol| {
            let image = work(&vol, bed).await;
            assert!(stat(&vol, "dirty") > 0);
            vol.stack().close().await;
            assert!(peek(bed, "h", 1 << 20) == image, "the disk is the reference");
        });
        bench::with(KINDS, &kept(bed, args), async move |vol| {
            open(&vol).await;
            assert_eq!((stat(&vol, "dirty"), stat(&vol, "suspects")), (0, 0));
            assert!(stat(&vol, "used") > 0, "copies stay");
        });
    }
}

#[test]
fn item_24_an_operator_has_everything_written_home() {
    with("pressure=1", async |vol| {
        for page in 0..40_u64 {
            write(&vol, page * PAGE, &[page as u8 + 1; 4096]).await;
        }
        let told = vol.stack().order("vol", &["write-back".to_string()]).await.unwrap();
        assert_eq!((told.as_str(), stat(&vol, "dirty")), (r#"{"written_back":40}"#, 0));
        let home = vol.stack().device("h").unwrap();
        for page in 0..40_u64 {
            assert_eq!(read(&home, page * PAGE, 4096).await, [page as u8 + 1; 4096]);
        }
        let wrong = vol.stack().order("vol", &["policy".to_string()]).await;
        assert!(wrong.unwrap_err().to_string().contains("write-back"));
    });
}

#[test]
fn item_25_behind_a_kill_all_pages_count_as_dirty_and_none_is_lost() {
    bench::with(KINDS, &kept(21, "idle_after=20ms pressure=0.5"), async |vol| {
        for page in 0..30_u64 {
            write(&vol, page * PAGE, &[page as u8 + 1; 4096]).await;
        }
        vol.stack().order("vol", &["write-back".to_string()]).await.unwrap();
        for page in 0..10_u64 {
            write(&vol, page * PAGE, &[page as u8 + 101; 4096]).await;
        }
        flush(&vol).await;
        assert_eq!((stat(&vol, "used"), stat(&vol, "dirty")), (30, 10));
        std::mem::forget(vol);
    });
    bench::with(KINDS, &kept(21, "idle_after=20ms pressure=0.5"), async |vol| {
        open(&vol).await;
        assert_eq!((stat(&vol, "used"), stat(&vol, "suspects")), (30, 20));
        for page in 0..30_u64 {
            let byte = if page < 10 { page as u8 + 101 } else { page as u8 + 1 };
            assert_eq!(read(&vol, page * PAGE, 4096).await, [byte; 4096], "page {page}");
        }
    });
}

#[test]
fn a_home_that_was_changed_without_the_layer_is_refused_or_adopted() {
    bench::with(KINDS, &kept(31, ""), async |vol| {
        write(&vol, 0, &[7; 4096]).await;
        vol.stack().close().await;
    });
    poke(31, "h", 0, &[99; 4096]);
    let refusal = bench::refusal(KINDS, &kept(31, ""));
    assert!(refusal.contains("home was changed without this layer"), "{refusal}");
    bench::with(KINDS, &kept(31, "adopt=home"), async |vol| {
        assert_eq!((read(&vol, 0, 4096).await, stat(&vol, "used")), (vec![99; 4096], 0));
    });
}

#[test]
fn home_answers_what_the_fast_device_fails_to_read() {
    // All slots fail, and the map does not.
    let text = format!(
        "{HOME} f = memory size=512KiB; e = error ops=read start=147456 probability=1 on f; \
         vol = spindown idle_after=50ms on x, e"
    );
    bench::with(KINDS, &text, async |vol| {
        write(&vol.stack().device("h").unwrap(), 8192, &[9; 4096]).await;
        read(&vol, 8192, 4096).await;
        sleep(&vol, Nanos::millis(40)).await;
        assert_eq!(stat(&vol, "fetched"), 1);
        assert_eq!(read(&vol, 8192, 4096).await, [9; 4096]);
        assert_eq!((stat(&vol, "read_again"), stat(&vol, "used")), (1, 0), "the page is given up");
    });
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let refusal = |text: &str| bench::try_open(&Sim::new(SimConfig::seeded(1)).rt(), KINDS, text).err().unwrap();
    for (args, what) in [("idle_after=0s", "above 0"), ("half_life=1ms", "at least 1s"), ("idle_w=-1", "negative")] {
        let refusal = refusal(&format!("{HOME} {FAST} vol = spindown {args} on x, y"));
        assert!(refusal.contains(what), "{args}: {refusal}");
    }
    let refusal = refusal(&format!("{HOME} vol = spindown on x"));
    assert!(refusal.contains("2 "), "{refusal}");
}

/// What was dirty when a slot was wanted, and is clean by now, makes room.
#[test]
fn held_copies_make_room_when_they_are_clean() {
    with("idle_after=50ms pressure=1", async |vol| {
        open(&vol).await;
        sleep(&vol, Nanos::millis(500)).await;
        read(&vol, 1000 << 10, 4096).await;
        sleep(&vol, Nanos::millis(40)).await;
        let slots = stat(&vol, "slots");
        assert_eq!(stat(&vol, "fetched"), 2, "one is worth most, and clean: all others are looked at for a slot");
        for page in 0..slots {
            write(&vol, page * PAGE, &[page as u8; 4096]).await;
        }
        vol.stack().order("vol", &["write-back".to_string()]).await.unwrap();
        sleep(&vol, Nanos::millis(500)).await;
        let before = home_requests(&vol).await;
        for page in 0..slots / 2 {
            write(&vol, (page + 100) * PAGE, &[1; 4096]).await;
        }
        assert_eq!(home_requests(&vol).await, before);
    });
}

/// What is left of a plan when the disk rests again is not done.
#[test]
fn item_23_a_plan_ends_with_its_window() {
    let text = format!(
        "{HOME} e = error ops=read start=12288 len=4096 probability=1 on x; {FAST} \
         vol = spindown idle_after=200ms on e, y"
    );
    bench::with(KINDS, &text, async |vol| {
        for page in 0..40_u64 {
            assert_eq!(bench::try_read(&vol, page * PAGE, 4096).await.is_err(), page == 3);
        }
        sleep(&vol, Nanos::millis(300)).await;
        let before = home_requests(&vol).await;
        assert_eq!((stat(&vol, "plans"), stat(&vol, "home_rests")), (1, 1));
        assert!((1..16).contains(&stat(&vol, "fetched")), "the batch with the bad page ends the work for a second");
        sleep(&vol, Nanos::secs(5)).await;
        assert_eq!((home_requests(&vol).await, stat(&vol, "home_rests")), (before, 1));
    });
}
