//! One suite for both variants of each extension.

use esker_base::Nanos;
use esker_block::{Bio, BioError, Buf, Device, Kind};
use esker_rt::Rt;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sim::{Sim, SimConfig};
use esker_stack::Export;
use esker_testkit::bench::{self, count, stat, try_read as read, try_write as write};

static KINDS: &[&Kind] = &[
    &esker_dev::memory::KIND,
    &esker_layers::error::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::stripe::KIND,
    &crate::raid1::vanilla::KIND,
    &crate::raid1::able::KIND,
    &crate::raw::vanilla::KIND,
    &crate::raw::able::KIND,
    &crate::encryptor::vanilla::KIND,
    &crate::encryptor::able::KIND,
    &crate::offload::vanilla::KIND,
    &crate::offload::able::KIND,
    &crate::dedup::vanilla::KIND,
    &crate::dedup::able::KIND,
    &esker_dev::file::KIND,
    &esker_testkit::SPOIL,
];

const VARIANTS: [&str; 2] = ["vanilla", "able"];

fn open(rt: &Rt, text: &str) -> Export {
    bench::open(rt, KINDS, text)
}

/// Runs `body` on the device `vol` of both variants of a text in which VARIANT stands.
fn with<F: Future<Output = ()> + 'static>(text: &str, body: impl Fn(Export) -> F + Clone + 'static) {
    for variant in VARIANTS {
        let (sim, text, body) = (Sim::new(SimConfig::seeded(1)), text.replace("VARIANT", variant), body.clone());
        let rt = sim.rt();
        sim.block_on(async move { body(open(&rt, &text)).await });
    }
}

fn check_conforms(text: &str) {
    for variant in VARIANTS {
        bench::check_conforms(KINDS, &text.replace("VARIANT", variant));
    }
}

async fn below(vol: &Export, name: &str, at: u64, len: usize) -> Vec<u8> {
    read(&vol.stack().device(name).unwrap(), at, len).await.unwrap()
}

#[test]
fn all_variants_conform() {
    let disks = "a = memory size=256KiB defer=always; b = memory size=256KiB defer=always;";
    check_conforms(&format!("{disks} vol = raid1-VARIANT on a, b"));
    let pair = "a = memory size=256KiB defer=always; b = memory size=512KiB defer=always;";
    check_conforms(&format!("{pair} vol = offload-VARIANT on a, b"));
    check_conforms(&format!("{pair} vol = offload-VARIANT rests=false on a, b"));
    check_conforms("vol = memory size=1MiB defer=always latency=5us | dedup-VARIANT");
    check_conforms("vol = memory size=256KiB defer=always latency=5us | raw-VARIANT");
    check_conforms("vol = memory size=256KiB defer=always | encryptor-VARIANT key=file:k");
    check_conforms(&format!("{disks} vol = stripe chunk=4096 on a, b | encryptor-VARIANT key=file:k"));
}

#[test]
fn raid1_writes_both_disks_and_tries_again() {
    let text =
        "a = memory size=64KiB; b = memory size=64KiB; e = error ops=write every=3 on b; vol = raid1-VARIANT on a, e";
    with(text, async |vol| {
        for block in 0..20u8 {
            write(&vol, u64::from(block) * 512, &[block; 512]).await.unwrap();
        }
        assert_eq!(below(&vol, "a", 0, 20 * 512).await, below(&vol, "b", 0, 20 * 512).await);
        assert_eq!((stat(&vol, "vol", "disks_good"), stat(&vol, "e", "failed")), (2.0, 9.0));
    });
}

#[test]
fn raid1_leaves_a_disk_alone_that_fails_for_good() {
    let text = "a = memory size=64KiB; b = memory size=64KiB; e = error probability=1 on a; s = stats on e; \
        vol = raid1-VARIANT on s, b";
    with(text, async |vol| {
        write(&vol, 0, &[1; 512]).await.unwrap();
        assert_eq!((stat(&vol, "vol", "disks_good"), stat(&vol, "e", "failed")), (1.0, 4.0));
        for at in [0, 512, 8192] {
            read(&vol, at, 512).await.unwrap();
        }
        write(&vol, 512, &[2; 512]).await.unwrap();
        assert_eq!(stat(&vol, "e", "failed"), 4.0, "neither read nor written any more");
    });
}

#[test]
fn raid1_with_no_disk_left_gives_the_error() {
    let text = "a = memory size=64KiB; b = memory size=64KiB; x = error ops=write probability=1 on a; \
        y = error ops=write probability=1 on b; vol = raid1-VARIANT on x, y";
    with(text, async |vol| {
        assert!(matches!(write(&vol, 0, &[1; 512]).await, Err(BioError::Io(_))));
        assert_eq!(stat(&vol, "vol", "disks_good"), 2.0, "neither is better than the other");
        read(&vol, 0, 512).await.unwrap();
    });
}

#[test]
fn raid1_reads_from_the_nearest_head_and_of_equals_from_the_first() {
    let text =
        "a = memory size=1MiB; b = memory size=1MiB; x = stats on a; y = stats on b; vol = raid1-VARIANT on x, y";
    with(text, async |vol| {
        let mut seen = Vec::new();
        for at in [64 << 10, 0, 70 << 10, 8 << 10, 300 << 10] {
            let before = count(&vol, "x", "reads");
            read(&vol, at, 4096).await.unwrap();
            seen.push(count(&vol, "x", "reads") > before);
        }
        assert_eq!(seen, [true, false, true, false, true]);
    });
}

#[test]
fn raw_detects_every_silent_corruption() {
    with("raw = memory size=64KiB; s = spoil at=100 every=1KiB on raw; vol = raw-VARIANT on s", async |vol| {
        for block in 0..100u64 {
            let at = block % 64 * 1024;
            assert_eq!(write(&vol, at, &[block as u8; 1024]).await, Err(BioError::Corrupt(at)), "write {block}");
        }
    });
}

#[test]
fn raw_raises_no_false_alarm_for_overlapping_writes() {
    with("vol = memory size=64KiB defer=always latency=9us | raw-VARIANT", async |vol| {
        let writes: Vec<_> = (0..20u8)
            .map(|i| {
                let writer = vol.clone();
                let write = async move { write(&writer, 512 * u64::from(i % 3), &vec![i; 2048]).await };
                vol.stack().rt().spawn("writer", write)
            })
            .collect();
        for write in writes {
            assert_eq!(write.await, Ok(()));
        }
    });
}

#[test]
fn encryptor_stores_other_bytes_and_gives_the_plain_ones_back() {
    with("raw = memory size=64KiB; vol = encryptor-VARIANT key=file:k on raw", async |vol| {
        write(&vol, 4096, &[9; 1024]).await.unwrap();
        let stored = below(&vol, "raw", 4096, 1024).await;
        assert!(stored[..512] != [9; 512] && stored[..512] != stored[512..]);
        assert_eq!(read(&vol, 4096, 1024).await.unwrap(), [9; 1024]);
    });
}

#[test]
fn both_variants_store_the_same() {
    let stored = VARIANTS.map(|variant| {
        let sim = Sim::new(SimConfig::seeded(1));
        let rt = sim.rt();
        sim.block_on(async move {
            let text = format!("raw = memory size=64KiB; vol = encryptor-{variant} key=file:k on raw");
            let vol = open(&rt, &text);
            write(&vol, 0, &[7; 2048]).await.unwrap();
            below(&vol, "raw", 0, 2048).await
        })
    });
    assert!(stored[0] == stored[1]);
}

/// While the disk rests nothing reaches it; when it no longer does, all that was written comes home.
#[test]
fn offload_lets_the_disk_rest_and_brings_everything_home() {
    for variant in VARIANTS {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let text = format!(
            "a = file path={at}/a.img size=256KiB direct=false; b = file path={at}/b.img size=512KiB direct=false; \
             disk = stats on a; vol = offload-{variant} rests=RESTS on disk, b"
        );
        let mut shadow = vec![0u8; 256 << 10];
        let rests = text.replace("RESTS", "true");
        let written = run_realtime(&rests, async move |vol| {
            for i in 0..60u64 {
                let (at, byte) = (i * 37 % 500 * 512, i as u8 + 1);
                write(&vol, at, &[byte; 1024]).await.unwrap();
                shadow[at as usize..at as usize + 1024].fill(byte);
                assert_eq!(read(&vol, at, 1024).await.unwrap(), [byte; 1024]);
            }
            assert_eq!(vol.submit(Bio::flush()).await.result.err(), None);
            assert_eq!((count(&vol, "disk", "reads"), count(&vol, "disk", "writes")), (0.0, 0.0), "{variant}");
            shadow
        });
        let returns = text.replace("RESTS", "false");
        run_realtime(&returns, async move |vol| {
            assert!(read(&vol, 0, 256 << 10).await.unwrap() == written, "{variant}: served from where it is");
            for _ in 0..400 {
                if below(&vol, "a", 0, 256 << 10).await == written {
                    return;
                }
                vol.stack().rt().sleep(Nanos::millis(10)).await;
            }
            panic!("{variant}: the disk does not become equal to the shadow copy");
        });
    }
}

#[test]
fn dedup_stores_a_second_identical_write_once_and_both_are_read_after_a_restart() {
    for variant in VARIANTS {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("d.img");
        let disk = format!("d = file path={} size=1MiB direct=false; disk = stats on d", file.display());
        let text = format!("{disk}; vol = dedup-{variant} on disk");
        run_realtime(&text, async |vol| {
            write(&vol, 8192, &[7; 4096]).await.unwrap();
            let before = (stat(&vol, "vol", "data_blocks"), count(&vol, "disk", "writes"));
            write(&vol, 40960, &[7; 4096]).await.unwrap();
            assert_eq!((stat(&vol, "vol", "data_blocks"), count(&vol, "disk", "writes")), before);
            write(&vol, 4096, &[8; 4096]).await.unwrap();
            assert_eq!(stat(&vol, "vol", "data_blocks"), 2.0);
            assert_eq!(vol.submit(Bio::flush()).await.result.err(), None);
        });
        run_realtime(&text, async |vol| {
            assert_eq!(read(&vol, 0, 12288).await.unwrap(), [[0; 4096], [8; 4096], [7; 4096]].concat());
            assert_eq!(read(&vol, 40960, 4096).await.unwrap(), [7; 4096]);
            assert_eq!(stat(&vol, "vol", "data_blocks"), 2.0);
        });
    }
}

/// Blocks that are written over and over are free again, and never while the map on the medium still leads there.
#[test]
fn dedup_writes_on_when_every_block_was_taken_once() {
    with("vol = memory size=512KiB | dedup-VARIANT", async |vol| {
        let blocks = vol.limits().size / 4096;
        for round in 1..=4u64 {
            for block in 0..blocks {
                let bytes = Buf::described(4096, round * 1000 + block).to_vec();
                write(&vol, block * 4096, &bytes).await.unwrap();
                assert!(read(&vol, block * 4096, 4096).await.unwrap() == bytes);
            }
            assert_eq!(stat(&vol, "vol", "data_blocks"), blocks as f64);
        }
    });
}

/// Runs `body` on the device `vol` of a text, on real files.
fn run_realtime<T: 'static, F: Future<Output = T> + 'static>(
    text: &str,
    body: impl FnOnce(Export) -> F + 'static,
) -> T {
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let (rt, text) = (reactor.rt(), text.to_string());
    reactor.block_on(async move {
        let vol = open(&rt, &text);
        let value = body(vol.clone()).await;
        vol.stack().close().await;
        value
    })
}
