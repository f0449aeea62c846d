//! What holds for the layer as a whole.

mod attaching;
mod catching_up;
mod power;
mod replacing;

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, Build, Device, Done, Kind, KindError, Limits, Make, Op, OpKind, Step, Support};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_dev_sim::faulty::{Faulty, Injector};
use esker_stack::{Export, Spec};
use esker_testkit::bench::{self, read, write};

use crate::superblock::DATA_START;

static KINDS: &[&Kind] = &[
    &crate::KIND,
    &esker_dev::memory::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::error::KIND,
    &esker_layers::delay::KIND,
    &LATENT,
    &SILENT,
    &THICK,
];

/// Memory with sectors that cannot be read until they are written.
static LATENT: Kind = Kind { name: "latent", build: Build::Device(build_latent), ..esker_dev::memory::KIND };

fn build_latent(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let inner = Rc::new(MemoryDevice::over(make.rt, Media::new(make.args.int("size")), 512, Defer::Never));
    let plan = "latent 12288+512; latent 40960+4096".parse().expect("a plan");
    Ok(Faulty::over(make.rt, inner, &Injector::new(plan)))
}

/// Memory that does not tell where it holds data.
static SILENT: Kind = Kind { name: "silent", build: Build::Device(build_silent), ..esker_dev::memory::KIND };

struct Silent {
    inner: MemoryDevice,
    limits: Limits,
}

impl Device for Silent {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        self.inner.submit(bio)
    }
}

fn build_silent(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let inner = MemoryDevice::over(make.rt, Media::new(make.args.int("size")), 512, Defer::Never);
    let limits = inner.limits().clone().with(OpKind::Extents, Support::No);
    Ok(Rc::new(Silent { inner, limits }))
}

/// Memory that takes space for what is zeroed.
static THICK: Kind = Kind { name: "thick", build: Build::Device(build_thick), ..esker_dev::memory::KIND };

struct Thick {
    inner: MemoryDevice,
    media: Rc<Media>,
}

impl Device for Thick {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        if bio.op != Op::Zero {
            return self.inner.submit(bio);
        }
        self.media.zero(bio.range, true);
        Step::Now(bio.ok())
    }
}

fn build_thick(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let media = Media::new(make.args.int("size"));
    Ok(Rc::new(Thick { inner: MemoryDevice::over(make.rt, media.clone(), 512, Defer::Never), media }))
}

const TWO: &str = "a = memory size=256KiB defer=always latency=5us; b = memory size=256KiB defer=always latency=7us;";

fn with<F: Future<Output = ()> + 'static>(text: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, text, body);
}

fn stat(vol: &Export, name: &str) -> f64 {
    bench::stat(vol, "vol", name)
}

/// What one member holds of the data.
async fn member(vol: &Export, name: &str, at: u64, len: usize) -> Vec<u8> {
    read(&vol.stack().device(name).unwrap(), DATA_START + at, len).await
}

async fn check_equal(vol: &Export, len: usize) {
    assert!(member(vol, "a", 0, len).await == member(vol, "b", 0, len).await, "the members differ");
}

async fn until(vol: &Export, name: &str, value: f64) {
    bench::until(vol, "vol", name, value).await;
}

#[test]
fn a_mirror_conforms() {
    for text in [
        format!("{TWO} vol = mirror on a, b"),
        format!("{TWO} vol = mirror region=4KiB clean_after=1ms initial=assume-clean on a, b"),
        format!("{TWO} c = memory size=300KiB block=4096; vol = mirror region=4KiB clean_after=20us on a, b, c"),
        "a = memory size=256KiB; vol = mirror on a".to_string(),
    ] {
        let report = bench::check_conforms(KINDS, &text);
        assert!(report.answered(OpKind::Discard) > 5, "{text}: {report:?}");
    }
}

#[test]
fn every_write_is_on_both_members_and_a_new_mirror_is_made_equal() {
    with(&format!("{TWO} vol = mirror region=4KiB on a, b"), async |vol| {
        let (a, b) = (vol.stack().device("a").unwrap(), vol.stack().device("b").unwrap());
        write(&b, DATA_START + 100 * 512, &[7; 512]).await;
        write(&vol, 4096, &[1; 8192]).await;
        assert_eq!(read(&a, DATA_START + 4096, 8192).await, [1; 8192]);
        assert_eq!(read(&b, DATA_START + 4096, 8192).await, [1; 8192]);
        until(&vol, "suspect_regions", 0.0).await;
        check_equal(&vol, 240 << 10).await;
        until(&vol, "dirty_regions", 0.0).await;
    });
}

#[test]
fn a_single_error_is_tried_again_and_a_lasting_one_degrades_and_is_reported() {
    let text = "a = memory size=256KiB; b = memory size=256KiB; e = error ops=write every=5 start=8KiB on b; \
        vol = mirror initial=assume-clean retries=3 on a, e";
    with(text, async |vol| {
        for block in 0..40 {
            write(&vol, block * 512, &[block as u8; 512]).await;
        }
        assert!(stat(&vol, "retries") >= 9.0 && stat(&vol, "members_in_sync") == 2.0, "{:?}", vol.stack().stats());
        check_equal(&vol, 40 * 512).await;
    });
    let text = text.replace("every=5", "probability=1");
    with(&text, async |vol| {
        write(&vol, 0, &[3; 512]).await;
        assert_eq!(
            (stat(&vol, "retries"), stat(&vol, "members_in_sync"), stat(&vol, "members_offline")),
            (3.0, 1.0, 1.0)
        );
        assert_eq!(read(&vol, 0, 512).await, [3; 512]);
        assert_eq!(stat(&vol, "member_failures"), 1.0);
    });
}

#[test]
fn reads_go_to_the_nearest_head_and_of_equals_to_the_first() {
    with(&format!("{TWO} x = stats on a; y = stats on b; vol = mirror initial=assume-clean on x, y"), async |vol| {
        // All heads are at 0: the first member is read and its head moves to 64 KiB.
        let reads = async |at: u64| {
            let before = readings(&vol);
            read(&vol, at, 4096).await;
            let after = readings(&vol);
            (after.0 - before.0, after.1 - before.1)
        };
        assert_eq!(vol.submit(Bio::flush()).await.result.err(), None);
        assert_eq!(reads(64 << 10).await, (1, 0), "a tie");
        assert_eq!(reads(0).await, (0, 1), "the second head is still at 0");
        assert_eq!(reads(70 << 10).await, (1, 0));
        assert_eq!(reads(8 << 10).await, (0, 1));
    });
}

/// Reads that reached each member.
fn readings(vol: &Export) -> (u64, u64) {
    let of = |name: &str| {
        let parts = vol.stack().stats();
        let part = parts.iter().find(|part| part.name == name).expect("it is there");
        part.stats.iter().find(|stat| stat.name == "reads").map_or(0, |stat| stat.value as u64)
    };
    (of("x"), of("y"))
}

#[test]
fn a_failed_member_is_not_read_and_a_failed_read_goes_elsewhere() {
    let text = "a = memory size=256KiB; b = memory size=256KiB; e = error ops=read probability=1 start=8KiB on a; \
        vol = mirror initial=assume-clean on e, b";
    with(text, async |vol| {
        write(&vol, 0, &[5; 512]).await;
        assert_eq!(read(&vol, 0, 512).await, [5; 512]);
        assert_eq!((stat(&vol, "reads_redirected"), stat(&vol, "members_in_sync")), (1.0, 2.0));
    });
}

#[test]
fn what_one_member_cannot_read_is_written_to_it_again() {
    with(
        "a = latent size=256KiB; b = memory size=256KiB; vol = mirror initial=assume-clean clean_after=1ms on a, b",
        async |vol| {
            for at in [0, 32 << 10] {
                assert_eq!(read(&vol, at, 8192).await, [0; 8192]);
            }
            assert_eq!((stat(&vol, "reads_redirected"), stat(&vol, "members_in_sync")), (2.0, 2.0));
            until(&vol, "repaired_bytes", 16384.0).await;
            assert_eq!(member(&vol, "a", 0, 64 << 10).await, [0; 64 << 10], "all of it can be read now");
            check_equal(&vol, 240 << 10).await;
        },
    );
}

/// Errors of a member can be switched on and off by inserting and removing a layer.
async fn pull(vol: &Export, member: &str) {
    let spec = Spec::parse("pull", "x = memory size=4KiB; gone = error probability=1 on x").unwrap();
    let layer = spec.device("gone").unwrap().clone();
    vol.stack().insert(layer, member, Nanos::secs(1)).await.unwrap_or_else(|e| panic!("{e}"));
}

async fn push_back(vol: &Export) {
    vol.stack().remove("gone", Nanos::secs(1)).await.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_member_that_was_pulled_and_returns_gets_what_it_lacks_under_load() {
    with(
        &format!("{TWO} vol = mirror region=4KiB initial=assume-clean rescan=10ms clean_after=5ms on a, b"),
        async |vol| {
            for block in 0..64 {
                write(&vol, block * 512, &[1; 512]).await;
            }
            pull(&vol, "b").await;
            write(&vol, 0, &[2; 1024]).await;
            assert_eq!(stat(&vol, "members_offline"), 1.0);
            write(&vol, 64 << 10, &[3; 512]).await;
            assert_eq!(read(&vol, 0, 1024).await, [2; 1024]);
            push_back(&vol).await;
            // Writes go on while the member catches up.
            let writer = vol.clone();
            let load = vol.stack().rt().spawn("load", async move {
                for round in 0..200u64 {
                    write(&writer, round * 7919 % 40 * 512, &[round as u8; 512]).await;
                }
            });
            until(&vol, "members_in_sync", 2.0).await;
            load.await;
            check_equal(&vol, 240 << 10).await;
            assert!(stat(&vol, "resync_bytes") < 128.0 * 1024.0, "only what was written: {:?}", vol.stack().stats());
            until(&vol, "dirty_regions", 0.0).await;
        },
    );
}

/// Copying takes so long that writes come while each region is on its way to the member that returns, where a later
/// write may overtake an earlier one.
#[test]
fn what_is_written_while_it_is_copied_is_on_both_members() {
    let text = "a = memory size=256KiB; s = delay read=5ms on a; t = memory size=256KiB; \
        b = delay write=10us jitter=1ms on t; vol = mirror region=4KiB initial=assume-clean rescan=10ms on s, b";
    with(text, async |vol| {
        write(&vol, 0, &[1; 512]).await;
        pull(&vol, "b").await;
        write(&vol, 0, &[1; 240 << 10]).await;
        push_back(&vol).await;
        until(&vol, "members_resyncing", 1.0).await;
        let mut round = 0;
        while stat(&vol, "members_in_sync") < 2.0 {
            // A block of the region that is being copied.
            let region = (stat(&vol, "resync_bytes") as u64 / 4096).min(59);
            write(&vol, region * 4096 + round % 8 * 512, &[round as u8 + 2; 512]).await;
            round += 1;
        }
        check_equal(&vol, 240 << 10).await;
    });
}

#[test]
fn the_last_member_in_sync_is_never_given_up() {
    with(&format!("{TWO} vol = mirror initial=assume-clean rescan=1h on a, b"), async |vol| {
        write(&vol, 0, &[1; 512]).await;
        pull(&vol, "b").await;
        write(&vol, 0, &[2; 512]).await;
        let spec = Spec::parse("pull", "x = memory size=4KiB; too = error ops=write probability=1 on x").unwrap();
        vol.stack().insert(spec.device("too").unwrap().clone(), "a", Nanos::secs(1)).await.unwrap();
        let done = vol.submit(Bio::write(0, Buf::from_bytes(vol.stack().pool(), &[3; 512]))).await;
        assert!(done.result.is_err());
        let done = vol.submit(Bio::write(512, Buf::from_bytes(vol.stack().pool(), &[3; 512]))).await;
        assert!(matches!(done.result, Err(esker_block::BioError::Latched(_))), "{:?}", done.result);
        assert_eq!((stat(&vol, "members_in_sync"), stat(&vol, "members_offline")), (1.0, 1.0));
        assert!(matches!(read(&vol, 0, 512).await[0], 2 | 3));
    });
}

#[test]
fn a_stack_that_is_stopped_while_its_mirror_is_being_opened_waits_for_it() {
    with(&format!("{TWO} vol = mirror initial=assume-clean clean_after=1h on a, b"), async |vol| {
        assert_eq!(vol.stack().flush_all().await, Ok(()));
        assert_eq!(stat(&vol, "members_in_sync"), 2.0);
    });
    with(&format!("{TWO} vol = mirror initial=assume-clean clean_after=1h on a, b"), async |vol| {
        vol.stack().close().await
    });
}

#[test]
fn a_stack_that_is_closed_leaves_members_with_nothing_to_copy() {
    with(&format!("{TWO} vol = mirror region=4KiB initial=assume-clean clean_after=1h on a, b"), async |vol| {
        write(&vol, 0, &[1; 8192]).await;
        assert_eq!(stat(&vol, "dirty_regions"), 2.0);
        vol.stack().close().await;
        assert_eq!(stat(&vol, "dirty_regions"), 0.0);
    });
}

#[test]
fn the_superblocks_tell_of_a_member_before_a_write_that_it_lacks_is_answered() {
    with(&format!("{TWO} vol = mirror initial=assume-clean rescan=1h on a, b"), async |vol| {
        write(&vol, 0, &[1; 512]).await;
        let in_sync = async || {
            let head = read(&vol.stack().device("a").unwrap(), 0, DATA_START as usize).await;
            crate::superblock::Superblock::newest(&head).unwrap().0.in_sync
        };
        assert_eq!(in_sync().await, 0b11);
        pull(&vol, "b").await;
        // Its region is dirty already, so that nothing but the loss asks for a superblock.
        write(&vol, 512, &[2; 512]).await;
        assert_eq!(in_sync().await, 0b01);
    });
}

#[test]
fn after_a_crash_only_one_member_is_read_where_they_may_differ() {
    // The members of a new mirror may differ everywhere, as those of any mirror where writes were under way. The slow
    // first member keeps the copying waiting: for 10 ms it is asked for holes, for 10 ms it is read.
    let text = "x = memory size=256KiB; a = delay read=10ms on x; b = memory size=256KiB; \
        vol = mirror rescan=1h on a, b";
    with(text, async |vol| {
        write(&vol.stack().device("x").unwrap(), DATA_START + (100 << 10), &[5; 512]).await;
        write(&vol.stack().device("b").unwrap(), DATA_START, &[7; 512]).await;
        bench::sleep(&vol, Nanos::millis(15)).await;
        // The copying has moved the first head away from byte 0.
        for at in [0, 200 << 10, 0] {
            assert_eq!(read(&vol, at, 512).await, [0; 512], "byte {at}");
        }
        until(&vol, "suspect_regions", 0.0).await;
        check_equal(&vol, 240 << 10).await;
    });
}

#[test]
fn a_flush_reaches_all_members() {
    let text = "a = memory size=256KiB; b = memory size=256KiB; x = stats on a; y = stats on b; \
        vol = mirror initial=assume-clean clean_after=1h on x, y";
    with(text, async |vol| {
        let flushes = |name: &str| {
            let parts = vol.stack().stats();
            let part = parts.iter().find(|part| part.name == name).expect("it is there");
            part.stats.iter().find(|stat| stat.name == "flushes").map_or(0, |stat| stat.value as u64)
        };
        write(&vol, 0, &[1; 512]).await;
        let before = [flushes("x"), flushes("y")];
        assert_eq!(vol.submit(Bio::flush()).await.result.err(), None);
        assert_eq!([flushes("x") - before[0], flushes("y") - before[1]], [1, 1]);
    });
}
