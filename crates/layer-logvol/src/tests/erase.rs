//! What becomes of freed segments on the device below.

use super::*;

const SEGMENT: u64 = 16 << 10;

async fn write(vol: &Export, lba: u64) {
    let buf = Buf::from_bytes(vol.stack().pool(), &[7; BLOCK]);
    assert_eq!(vol.submit(Bio::write(lba * BLOCK as u64, buf)).await.result.err(), None);
}

#[test]
fn what_is_free_is_given_back_when_nobody_writes_and_when_the_volume_is_closed() {
    run(async |rt| {
        let vol = build(
            &rt,
            "a = memory size=1MiB defer=always latency=2us; \
            vol = logvol block=512 page=512 segment=16KiB checkpoint_interval=64KiB on a",
        );
        for i in 0..20_000u64 {
            write(&vol, i % 50).await;
        }
        assert!(told(&vol, "segments_freed") > 500.0);
        assert_eq!(told(&vol, "segments_erased"), 0.0, "while it is written");
        rt.sleep(Nanos::millis(300)).await;
        let erased = told(&vol, "segments_erased");
        let (free, all) = (told(&vol, "segments_free"), told(&vol, "segments"));
        assert!(erased > 4.0 && erased < all, "{erased} of {free} free ones");
        for i in 0..2_000u64 {
            write(&vol, i % 50).await;
        }
        for lba in 0..50 {
            let buf = Buf::unique(vol.stack().pool(), BLOCK);
            let done = vol.submit(Bio::read(lba * BLOCK as u64, buf)).await;
            assert!(done.result.is_ok() && done.buf.to_vec() == [7; BLOCK], "block {lba}");
        }
        vol.stack().close().await;
        assert!(told(&vol, "segments_erased") > erased, "without waiting");
    });
}

/// Writers take every segment that they may while a discard is on its way: none of its segments is among them.
#[test]
fn what_is_being_given_back_is_not_written() {
    run(async |rt| {
        let (gate, keeper) = Gate::over(device(&rt, &media(512 << 10)));
        let bench = Bench::open(&rt, gate, SEGMENT, 1 << 40).await;
        for lba in 0..300 {
            bench.write(lba, 1, 1).await;
        }
        bench.ranges(&[delete(0, 300)]).await;
        bench.checkpoint().await;
        let freed = bench.stat("segments_freed");
        assert!(freed > 5.0, "{freed}");
        keeper.log.borrow_mut().clear();
        keeper.shut.set(true);
        let eraser = bench.clone();
        rt.spawn("eraser", async move { eraser.erase().await }).detach();
        rt.sleep(Nanos::micros(10)).await;
        let [(at, len)] = keeper.noted(OpKind::Discard)[..] else { panic!("one discard is on its way") };
        assert!(len > SEGMENT, "of several segments");
        keeper.shut.set(false);
        let writer = bench.clone();
        let written = Rc::new(Cell::new(0));
        let count = written.clone();
        let write = async move {
            for lba in 0..600 {
                writer.write(lba, 1, 1 + (lba % 200) as u8).await;
                count.set(lba + 1);
            }
        };
        rt.spawn("writer", write).detach();
        rt.sleep(Nanos::millis(50)).await;
        let before = written.get();
        assert!(before > 50 && before < 600, "{before}: a write that finds nothing else waits");
        let is_inside = |(start, bytes): &(u64, u64)| start + bytes > at && *start < at + len;
        assert_eq!(keeper.noted(OpKind::Write).iter().find(|write| is_inside(write)), None);
        keeper.let_go(at);
        rt.sleep(Nanos::millis(50)).await;
        assert_eq!(written.get(), 600, "and goes on when it is free again");
        let expected: Vec<u8> = (0..600).map(|lba| 1 + (lba % 200) as u8).collect();
        assert_eq!(bench.values(0, 600).await, expected);
    });
}
