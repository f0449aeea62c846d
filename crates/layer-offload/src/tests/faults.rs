//! What devices that fail cost.

use std::sync::atomic::{AtomicBool, Ordering};

use esker_block::{Ctx, Extension, Flow, Layer, Op};
use esker_stack::Spec;

use super::*;
use crate::format::AREA_START;

/// Of the one test with a liar.
static LIES: AtomicBool = AtomicBool::new(false);

/// Says that records failed which it passed on.
pub(super) static LIAR: Kind =
    Kind { role: esker_block::Role::Modifier, ..Kind::layer("liar", "Lies.", &[], build_liar) };

struct Liar;

fn build_liar(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Liar, make.lowers[0].clone()))
}

impl Extension for Liar {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        ctx.scratch = u64::from(LIES.load(Ordering::Relaxed) && bio.op == Op::Write && bio.offset() >= AREA_START);
        Step::Now(Flow::Down)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        if ctx.scratch != 0 {
            done.result = Err(BioError::io("a lie"));
        }
    }
}

/// Errors of a device are switched on by inserting a layer.
async fn fail(vol: &Export, device: &str, how: &str) {
    let spec = Spec::parse("faults", &format!("z = memory size=4KiB; faults = error {how} on z")).unwrap();
    let layer = spec.device("faults").unwrap().clone();
    vol.stack().insert(layer, device, Nanos::secs(1)).await.unwrap_or_else(|e| panic!("{e}"));
}

async fn mend(vol: &Export) {
    vol.stack().remove("faults", Nanos::secs(1)).await.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_log_that_cannot_be_written_takes_no_more_and_changes_go_home() {
    // The first record that fails lies behind others; superblocks can be written.
    let text = "h = kept bed=4 size=256KiB; x = stats on h; a = kept bed=4 size=256KiB; vol = offload idle_after=0s high_watermark=1 on x, a";
    with(text, async |vol| {
        for block in 0..10 {
            write(&vol, block * 1024, &[1; 1024]).await;
        }
        fail(&vol, "a", "ops=write every=3 start=8KiB").await;
        let writes: Vec<_> = (0..12u64)
            .map(|block| {
                let writer = vol.clone();
                vol.stack().rt().spawn("writer", async move { write(&writer, block * 1024, &[2; 1024]).await })
            })
            .collect();
        for write in writes {
            write.await;
        }
        assert_eq!((stat(&vol, "offload_disabled"), stat(&vol, "latched")), (1, 0));
        for block in 0..12 {
            assert_eq!(read(&vol, block * 1024, 1024).await, [2; 1024]);
        }
        until(&vol, "records", 0).await;
        write(&vol, 0, &[3; 1024]).await;
        flush(&vol).await;
    });
    // What the device stored of the records that it called failed is not found again.
    with(text, async |vol| {
        assert_eq!(read(&vol, 0, 1024).await, [3; 1024]);
        for block in 1..12 {
            assert_eq!(read(&vol, block * 1024, 1024).await, [2; 1024]);
        }
        write(&vol, 0, &[4; 1024]).await;
        assert_eq!((stat(&vol, "records"), stat(&vol, "offload_disabled")), (1, 0), "a restart tries again");
    });
}

/// A device that stores records and says that it could not.
#[test]
fn records_that_were_given_up_are_not_found_by_a_restart() {
    let text = "h = kept bed=5 size=256KiB; x = stats on h; a = kept bed=5 size=256KiB; l = liar on a; \
        vol = offload idle_after=0s high_watermark=1 on x, l";
    LIES.store(false, Ordering::Relaxed);
    with(text, async |vol| {
        write(&vol, 0, &[1; 1024]).await;
        LIES.store(true, Ordering::Relaxed);
        write(&vol, 4096, &[2; 1024]).await;
        LIES.store(false, Ordering::Relaxed);
        until(&vol, "records", 0).await;
        write(&vol, 4096, &[3; 1024]).await;
        flush(&vol).await;
    });
    with(text, async |vol| {
        assert_eq!(read(&vol, 4096, 1024).await, [3; 1024]);
        assert_eq!((read(&vol, 0, 1024).await, stat(&vol, "records")), (vec![1; 1024], 0));
    });
}

#[test]
fn a_head_that_cannot_be_written_latches() {
    with(&format!("{BOTH} vol = offload idle_after=0s on x, a"), async |vol| {
        write(&vol, 0, &[1; 1024]).await;
        fail(&vol, "a", "ops=write probability=1").await;
        let error = try_write(&vol, 0, &[2; 1024]).await.unwrap_err();
        assert!(matches!(error, BioError::Io(_)), "{error}");
        let error = try_write(&vol, 0, &[2; 1024]).await.unwrap_err();
        assert!(matches!(error, BioError::Latched(_)), "{error}");
        assert_eq!((read(&vol, 0, 1024).await, stat(&vol, "latched")), (vec![1; 1024], 1));
    });
}

#[test]
fn a_flush_that_fails_latches() {
    with(&format!("{BOTH} vol = offload idle_after=0s on x, a"), async |vol| {
        write(&vol, 0, &[1; 1024]).await;
        fail(&vol, "a", "ops=flush probability=1").await;
        assert!(vol.submit(Bio::flush()).await.result.is_err());
        mend(&vol).await;
        assert!(matches!(vol.submit(Bio::flush()).await.result, Err(BioError::Latched(_))));
        assert_eq!(read(&vol, 0, 1024).await, [1; 1024]);
    });
}

#[test]
fn a_home_that_fails_keeps_everything_in_the_log_until_it_works_again() {
    with(&format!("{BOTH} vol = offload idle_after=1ms on x, a"), async |vol| {
        sleep(&vol, Nanos::millis(2)).await;
        for block in 0..20 {
            write(&vol, block * 1024, &[5; 1024]).await;
        }
        fail(&vol, "h", "ops=write probability=1").await;
        // The home is woken again and again and never takes anything.
        for _ in 0..20 {
            read(&vol, 100 << 10, 512).await;
            sleep(&vol, Nanos::millis(500)).await;
        }
        assert_eq!((stat(&vol, "records"), stat(&vol, "latched")), (20, 0));
        assert_eq!(read(&vol, 3 << 10, 1024).await, [5; 1024]);
        mend(&vol).await;
        for _ in 0..20 {
            read(&vol, 100 << 10, 512).await;
            sleep(&vol, Nanos::millis(500)).await;
        }
        until(&vol, "records", 0).await;
        assert_eq!(read(&vol.stack().device("h").unwrap(), 3 << 10, 1024).await, [5; 1024]);
    });
}
