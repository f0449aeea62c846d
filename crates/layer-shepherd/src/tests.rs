//! What holds for the layer as a whole.

mod power;

use esker_base::Nanos;
use esker_block::{Bio, BioError, Ctx, Device, Extension, Flow, Kind, KindError, Layer, Limits, Make, Step, Trouble};
use esker_stack::{Export, Spec};
use esker_testkit::bench::{self, read, sleep, try_read, try_write, write};
use esker_testkit::kept::{peek, poke};

/// The device below, in blocks of 4096 bytes.
static COARSE: Kind = Kind::layer("coarse", "Has larger blocks than the device below.", &[], build_coarse);

struct Coarse;

fn build_coarse(make: &Make<'_>) -> Result<Layer, KindError> {
    let limits =
        Limits { block: 4096, atomic: 4096, preferred: 4096, discard: 4096, remap: 4096, ..make.lowers[0].clone() };
    Ok(Layer::single(Coarse, limits))
}

impl Extension for Coarse {
    fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
        Step::Now(Flow::Down)
    }
}

static KINDS: &[&Kind] = &[
    &COARSE,
    &crate::KIND,
    &esker_testkit::KEPT,
    &esker_testkit::SPOIL,
    &esker_dev::memory::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::error::KIND,
    &esker_layers::verify::KIND,
];

fn with<F: Future<Output = ()> + 'static>(text: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, text, body);
}

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

fn stats<const N: usize>(vol: &Export, names: [&str; N]) -> [u64; N] {
    names.map(|name| stat(vol, name))
}

/// What the layer tells of its condition.
fn trouble(vol: &Export) -> Option<Trouble> {
    vol.stack().stats().into_iter().find(|part| part.name == "vol").and_then(|part| part.trouble)
}

#[test]
fn a_shepherd_conforms() {
    for text in [
        "vol = memory size=512KiB defer=always latency=5us | shepherd".to_string(),
        "vol = memory size=512KiB block=4096 | shepherd spares=8 scrub_interval=1ms".to_string(),
        "a = memory size=512KiB defer=always latency=3us; e = error ops=write,read,zero every=11 len=300KiB on a; \
         vol = shepherd spares=300 retry_delay=5us on e"
            .to_string(),
        // Many blocks are moved.
        "a = memory size=2MiB; e = error ops=write,zero every=4 len=1MiB on a; vol = shepherd retries=0 spares=2000 on e"
            .to_string(),
    ] {
        bench::check_conforms(KINDS, &text);
    }
}

#[test]
fn a_scrub_that_is_asked_for_too_soon_leaves_time_to_others() {
    with("a = memory size=512KiB; vol = shepherd scrub_interval=1ns on a", async |vol| {
        vol.stack().opened().await;
        let before = stat(&vol, "scrubbed_bytes");
        sleep(&vol, Nanos::millis(10)).await;
        let scrubbed = stat(&vol, "scrubbed_bytes") - before;
        assert!((1..=(11 * 256) << 10).contains(&scrubbed), "{scrubbed} bytes in 10 ms");
    });
}

#[test]
fn a_device_that_another_layer_has_marked_is_not_cut_by_a_new_shepherd() {
    let text = "a = kept bed=9 size=512KiB; vol = shepherd spares=16 on a";
    poke(9, "a", 0, &esker_layer_kit::media::DEDUP);
    let told = bench::refusal(KINDS, text);
    assert!(told.contains("holds a deduplicated volume that was made without a shepherd"), "{told}");
}

#[test]
fn a_passing_error_costs_a_retry_and_what_was_hard_to_read_is_written_anew() {
    // OpenContext reads and writes the table, behind which the plan begins, and looks at the first bytes.
    let text = "a = memory size=512KiB; e = error every=3 len=64KiB ops=read on a; x = stats on e; \
        vol = shepherd retry_delay=1ms on x";
    with(text, async |vol| {
        write(&vol, 0, &[7; 4096]).await;
        for _ in 0..2 {
            assert_eq!(read(&vol, 0, 4096).await, [7; 4096]);
        }
        sleep(&vol, Nanos::secs(1)).await;
        assert_eq!(stats(&vol, ["recovered", "blocks_lost", "moved_blocks", "refreshed_bytes"]), [1, 0, 0, 4096]);
        assert_eq!(stat(&vol, "retries"), 1);
    });
    with(&text.replace("every=3", "probability=1"), async |vol| {
        let before = vol.stack().rt().now();
        assert!(matches!(try_read(&vol, 0, 512).await, Err(BioError::Io(_))));
        let spent = vol.stack().rt().now().since(before);
        assert!(spent >= Nanos::millis(3) && spent < Nanos::millis(4), "{spent}");
        assert_eq!(stats(&vol, ["retries", "blocks_lost"]), [3, 1]);
    });
}

const BAD: &str = "a = kept bed=BED size=512KiB; e = error ops=write,zero probability=1 start=4KiB len=1024 on a;";

fn bad(bed: u64, rest: &str) -> String {
    format!("{BAD} {rest}").replace("BED", &bed.to_string())
}

#[test]
fn bad_blocks_are_moved_and_stay_so_after_a_restart() {
    let text = bad(1, "vol = shepherd retry_delay=1us spares=4 on e");
    with(&text, async |vol| {
        write(&vol, 0, &[1; 8192]).await;
        assert_eq!(stats(&vol, ["moved_blocks", "spares_left", "retries"]), [2, 2, 3]);
        assert_eq!(read(&vol, 0, 8192).await, [1; 8192]);
        write(&vol, 4096, &[2; 512]).await;
        assert_eq!(stats(&vol, ["moved_blocks", "retries"]), [2, 3], "it is written where it lies now");
        assert_eq!(vol.submit(Bio::zero(4608, 512)).await.result.err(), None);
        assert_eq!(vol.submit(Bio::flush()).await.result.err(), None);
    });
    with(&text, async |vol| {
        let expected = [vec![1; 4096], vec![2; 512], vec![0; 512], vec![1; 3072]].concat();
        assert_eq!(read(&vol, 0, 8192).await, expected);
        assert_eq!(stats(&vol, ["moved_blocks", "spares_left"]), [2, 2]);
    });
    // The bytes of the blocks that were moved lie on the first spares.
    let size: usize = (512 - 128 - 4) << 10;
    let bytes = peek(1, "a", 512 << 10);
    assert_eq!(bytes[size..size + 1024], [vec![2; 512], vec![0; 512]].concat());
}

#[test]
fn zeroing_a_bad_block_moves_it_too() {
    with(&bad(4, "vol = shepherd retry_delay=1us on e"), async |vol| {
        assert_eq!(vol.submit(Bio::zero(0, 16 << 10)).await.result.err(), None);
        assert_eq!((stat(&vol, "moved_blocks"), read(&vol, 4096, 1024).await), (2, vec![0; 1024]));
    });
}

#[test]
fn a_bad_spare_is_passed_over_and_without_spares_the_error_comes_through() {
    let size = (512 - 128 - 4) << 10;
    let faulty = format!("f = error ops=write probability=1 start={size} len=1024 on e;");
    let text = bad(5, &format!("{faulty} vol = shepherd retry_delay=1us spares=4 on f"));
    with(&text, async |vol| {
        write(&vol, 4096, &[1; 512]).await;
        assert_eq!(stats(&vol, ["moved_blocks", "spares_bad", "spares_left"]), [1, 2, 1]);
        write(&vol, 4608, &[2; 512]).await;
        assert_eq!(read(&vol, 4096, 1024).await, [vec![1; 512], vec![2; 512]].concat());
    });
    let text = text.replace("start=4KiB len=1024", "start=4KiB len=2048");
    with(&text, async |vol| {
        let error = try_write(&vol, 4096, &[3; 2048]).await.unwrap_err();
        assert!(error.to_string().contains("no spare block is left; replace the device"), "{error}");
        assert_eq!(stats(&vol, ["moved_blocks", "spares_left", "blocks_lost"]), [2, 0, 1]);
        let degraded = Trouble::Degraded("vol is degraded: no spare block is left. Replace the device.".to_string());
        assert_eq!(trouble(&vol), Some(degraded));
        write(&vol, 0, &[4; 4096]).await;
    });
}

#[test]
fn a_table_that_cannot_be_written_latches_moves_and_is_told() {
    let text =
        bad(16, "f = error ops=write start=384KiB len=128KiB probability=0 on e; vol = shepherd retry_delay=1us on f");
    with(&text, async |vol| {
        write(&vol, 4096, &[1; 512]).await;
        assert_eq!((stat(&vol, "moved_blocks"), trouble(&vol)), (1, None));
    });
    with(&text.replace("probability=0 on e", "probability=1 on e"), async |vol| {
        for at in [4608, 4608] {
            let error = try_write(&vol, at, &[2; 512]).await.unwrap_err();
            let BioError::Latched(why) = &error else { panic!("{error:?}") };
            assert!(why.contains("its table of moved blocks could not be written"), "{why}");
            assert_eq!(trouble(&vol), Some(Trouble::Latched(why.to_string())));
        }
        write(&vol, 0, &[3; 512]).await;
        assert_eq!(read(&vol, 4096, 512).await, [1; 512], "what was moved before is found");
    });
}

#[test]
fn a_block_that_stores_other_bytes_is_moved_where_verify_notices() {
    with(
        "a = memory size=512KiB; s = spoil at=5000 on a; v = verify on s; vol = shepherd retry_delay=1us on v",
        async |vol| {
            write(&vol, 0, &[9; 8192]).await;
            assert_eq!((stat(&vol, "moved_blocks"), read(&vol, 0, 8192).await), (1, vec![9; 8192]));
        },
    );
}

#[test]
fn what_cannot_pass_is_not_tried_again() {
    with("a = kept bed=3 gone=40 size=512KiB; vol = shepherd on a", async |vol| {
        let mut last = Ok(());
        for _ in 0..50 {
            last = try_write(&vol, 0, &[1; 512]).await;
        }
        assert!(matches!(last, Err(BioError::Gone(_))), "{last:?}");
        assert_eq!(stats(&vol, ["retries", "moved_blocks"]), [0, 0]);
    });
    with("a = memory size=512KiB; x = stats on a; vol = shepherd on x", async |vol| {
        write(&vol, 0, &[1; 512]).await;
        let spec = Spec::parse("faults", "z = memory size=4KiB; faults = error ops=flush every=2 on z").unwrap();
        vol.stack().insert(spec.device("faults").unwrap().clone(), "a", Nanos::secs(1)).await.unwrap();
        let mut failed = 0;
        for _ in 0..6 {
            failed += u64::from(vol.submit(Bio::flush()).await.result.is_err());
        }
        assert_eq!((failed, stat(&vol, "retries")), (3, 0), "after a failed flush the durable state is unknown");
    });
}

#[test]
fn a_scrub_finds_what_nobody_reads_and_writes_it_anew() {
    // Every fifth read of the second half of the volume fails once.
    let text = "a = memory size=2MiB; e = error ops=read every=2 start=1MiB len=512KiB on a; \
        vol = shepherd retry_delay=1us scrub_interval=10s on e";
    with(text, async |vol| {
        write(&vol, 1 << 20, &[6; 4096]).await;
        sleep(&vol, Nanos::secs(30)).await;
        assert!(stat(&vol, "scrubbed_bytes") >= 4 << 20, "{:?}", vol.stack().stats());
        assert!(stat(&vol, "recovered") > 1 && stat(&vol, "refreshed_bytes") > 0 && stat(&vol, "blocks_lost") == 0);
        assert_eq!(read(&vol, 1 << 20, 4096).await, [6; 4096]);
    });
}

fn refusal(text: &str) -> String {
    bench::refusal(KINDS, text)
}

#[test]
fn a_device_whose_end_is_something_else_is_refused() {
    let text = "a = kept bed=6 size=512KiB; vol = shepherd spares=4 on a";
    let fill = |at, bytes: &[u8]| poke(6, "a", at, bytes);
    fill(384 << 10, b"somebody's data");
    assert!(refusal(text).contains("hold no area of regions"), "{}", refusal(text));
    assert_eq!(peek(6, "a", 512 << 10)[384 << 10..][..15], *b"somebody's data");
    fill(384 << 10, &[0; 15]);
    with(text, async |vol| write(&vol, 0, &[1; 512]).await);
    let more = refusal(&text.replace("spares=4", "spares=5"));
    assert!(more.contains("made with 4 spare blocks; set spares=4"), "{more}");
    // A grain of the table, whose first commit is on side 1.
    fill((384 << 10) + 24_576 + 8192 + 4096 + 3, &[1]);
    assert!(refusal(text).contains("damaged"), "{}", refusal(text));
}

#[test]
fn a_table_of_blocks_of_another_size_is_refused() {
    let text = "a = kept bed=17 size=512KiB; vol = shepherd spares=4 on a";
    with(text, async |vol| write(&vol, 0, &[1; 512]).await);
    let refused =
        refusal(&text.replace("vol = shepherd spares=4 on a", "b = coarse on a; vol = shepherd spares=4 on b"));
    assert!(refused.contains("counts blocks of 512 bytes, and the device has blocks of 4096"), "{refused}");
    with(text, async |vol| assert_eq!(read(&vol, 0, 512).await, [1; 512]));
}
