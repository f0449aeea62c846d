//! `cache-live`: the kind `cache` over two files as `esker attach` serves it, under fio. Random reads that hit, against
//! the fast file attached alone; and how warm the cache is behind `kill -9`.
//!
//! The files lie on one disk, so that the home is as fast as the fast file. Ratios tell the cost of hits. What a
//! slower home would cost, the hit ratios beside them tell.

use std::path::Path;
use std::time::Duration;

use esker_base::units::MIB;

use esker_lab_kit::attach_process::AttachProcess;
use esker_lab_kit::{Figure, Lab, LabError, peer, scratch, timing};

const HOME: u64 = 1024 * MIB;
const FAST: u64 = 384 * MIB;
/// What is read and written again and again: it fits the cache.
const HOT: u64 = 256 * MIB;
const PAIRS: u32 = 5;
/// Requests of a pass over the hot part, which bring all its lines.
const PASS: u64 = 64 << 10;
const CACHED: &str = "[device.home]\nkind = \"file\"\npath = 'FOLDER/home'\n[device.fast]\nkind = \"file\"\n\
                      path = 'FOLDER/fast'\n[device.vol]\nkind = \"cache\"\non = [\"home\", \"fast\"]\n\
                      [[export]]\nname = \"vol\"\ndevice = \"vol\"\n";
const BARE: &str =
    "[device.vol]\nkind = \"file\"\npath = 'FOLDER/fast'\n[[export]]\nname = \"vol\"\ndevice = \"vol\"\n";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let [cached, bare] = [lab.folder()?, lab.folder()?];
    scratch::random_file(&cached.path().join("home"), HOME, lab.seed)?;
    scratch::zero_file(&cached.path().join("fast"), FAST)?;
    scratch::random_file(&bare.path().join("fast"), FAST, lab.seed)?;
    let figure = hits(cached.path(), bare.path(), lab)?;
    Ok(vec![figure, warmth(cached.path(), lab)?])
}

/// Random reads of 4 KiB at depth 32, all of which hit.
fn hits(cached: &Path, bare: &Path, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let ours = AttachProcess::start(cached, CACHED)?;
    let alone = AttachProcess::start(bare, BARE)?;
    for pass in 1..=3 {
        requests(&ours, "randread", lab.seed + pass)?;
    }
    let span = Duration::from_secs(lab.scale(3, 10));
    let rate = |served: &AttachProcess| peer::fio_random((served.device(), HOT), "randread", 32, span, lab.seed);
    let before = seen(&ours)?;
    let rival = "the fast file attached alone, reads per second".to_string();
    let figure = timing::ratio("qd32_hit_over_fast", rival, PAIRS, || rate(&ours), || rate(&alone), lab)?;
    lab.say(format!("hit ratio meanwhile: {:.4}", ratio(before, seen(&ours)?)));
    alone.stop()?;
    ours.stop()?;
    Ok(figure)
}

/// The hit ratio of a pass of reads behind a kill over that of the same pass before. Writes go on until the kill.
fn warmth(cached: &Path, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let ours = AttachProcess::start(cached, CACHED)?;
    requests(&ours, "randwrite", lab.seed)?;
    let pass = |served: &AttachProcess| {
        let before = seen(served)?;
        requests(served, "randread", lab.seed + 9)?;
        Ok::<f64, LabError>(ratio(before, seen(served)?))
    };
    let warm = pass(&ours)?;
    requests(&ours, "randwrite", lab.seed + 10)?;
    // As `kill -9` does.
    drop(ours);
    let again = AttachProcess::start(cached, CACHED)?;
    let doubted = again.stat("suspects")?;
    let behind = pass(&again)?;
    lab.say(format!("hit ratio {warm:.4} before the kill, {behind:.4} behind it; {doubted} lines were doubted"));
    again.stop()?;
    Ok(Figure::alone("warm_after_kill", behind / warm, "ratio of hit ratios").peer("hit ratio before the kill", warm))
}

/// A pass of random requests of 4 KiB over the hot part.
fn requests(served: &AttachProcess, way: &str, seed: u64) -> Result<(), LabError> {
    let place = [format!("--filename={}", served.device().display()), format!("--size={HOT}")];
    let options = format!(
        "--rw={way} --bs=4k --direct=1 --ioengine=io_uring --iodepth=8 --randseed={seed} --number_ios={PASS} \
         --norandommap --fsync=1024"
    );
    peer::fio(&place, &options).map(drop)
}

/// Reads that hit, and that missed.
fn seen(served: &AttachProcess) -> Result<[f64; 2], LabError> {
    Ok([served.stat("read_hits")?, served.stat("read_misses")?])
}

fn ratio(before: [f64; 2], after: [f64; 2]) -> f64 {
    let [hits, misses] = [0, 1].map(|i| after[i] - before[i]);
    hits / (hits + misses).max(1.0)
}
