//! `anvil-clone-vs-cp`: what a clone costs: 1 GiB that was written in order, and as many extents as were written in
//! random order. Beside the first: the time that copying as much through the same volume takes, by reading and writing,
//! and that of `cp --reflink` on file systems that share blocks.

use std::time::Instant;

use esker_base::units::{GIB, MIB};
use esker_block::{Bio, BioError, Buf, Device};
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::Export;

use crate::reflink;
use esker_lab_kit::{Experiment, Figure, LabError, Options, Peer, scratch, timing::median, volume_load};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "anvil-clone-vs-cp",
    summary: "Cloning 1 GiB against copying it, and the cost of one extent",
    source: "ANViL, figure 3.4: over 100 times faster than cp; issue 6 of this project: at most 1 ms, at most 1 us for each extent",
    simulated: false,
    rivals: &["mkfs.btrfs", "mkfs.xfs"],
    run,
};

const BLOCK: u64 = 4096;
const FILE: u64 = 5 * GIB;
const PARAMS: &str = "block=4096 segment=128MiB checkpoint_interval=8GiB";
/// Where the scattered blocks begin.
const SCATTERED: u64 = 1 << 40;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, blocks) = if options.quick { (9, 1 << 15) } else { (25, 1 << 17) };
    let dir = scratch::folder(&options.scratch)?;
    let reactor = Reactor::new(RealConfig::seeded(options.seed))?;
    let vol = volume_load::open(&reactor, &dir.path().join("volume"), FILE, true, PARAMS)?;
    let work = vol.clone();
    let (whole, copied, each) = reactor.block_on(async move {
        volume_load::write_all(&work, MIB as usize, GIB / MIB, |i| i * MIB).await?;
        // A full cycle through all blocks in an order without neighbours.
        volume_load::write_all(&work, BLOCK as usize, blocks, move |i| SCATTERED + i * 40_503 % blocks * 2 * BLOCK)
            .await?;
        let start = Instant::now();
        copy(&work, 0, GIB, 1 << 39).await?;
        let copied = start.elapsed().as_secs_f64();
        let (mut whole, mut each) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            let start = Instant::now();
            volume_load::clone(&work, 0, GIB, (1 << 41) + round * GIB).await?;
            whole.push(start.elapsed().as_secs_f64() * 1e3);
            let before = volume_load::stat(&work, "mappings");
            let start = Instant::now();
            volume_load::clone(&work, SCATTERED, blocks * 2 * BLOCK, (1 << 42) + round * (1 << 36)).await?;
            let seconds = start.elapsed().as_secs_f64();
            each.push(seconds * 1e6 / (volume_load::stat(&work, "mappings") - before));
        }
        Ok::<_, BioError>((whole, copied, each))
    })?;
    progress(&format!("copying 1 GiB took {copied:.2} s; {rounds} clones of each kind"));
    let ms = median(whole);
    let peer = Peer {
        name: "reading and writing 1 GiB through the volume, 1 MiB at a time, 8 at once, ms".to_string(),
        value: copied * 1e3,
    };
    let mut reflinks = Vec::new();
    for (id, mkfs) in [("ms_reflink_btrfs", "mkfs.btrfs"), ("ms_reflink_xfs", "mkfs.xfs")] {
        let time = reflink::milliseconds(mkfs, &options.scratch, rounds, options.seed)?;
        progress(&format!("cp --reflink of 1 GiB on {}: {time:.2} ms", mkfs.trim_start_matches("mkfs.")));
        reflinks.push(Figure::alone(id, time, "ms"));
    }
    let mut figures = vec![
        Figure::alone("ms_per_gib_contiguous", ms, "ms").beside(peer),
        Figure::alone("clone_copy_time_ratio", copied * 1e3 / ms, "ratio").paper(100.0),
        Figure::alone("us_per_extent", median(each), "us"),
    ];
    figures.append(&mut reflinks);
    Ok(figures)
}

/// Copies through the volume as `cp` would, but with several parts at once and without a page cache in between.
async fn copy(vol: &Export, from: u64, len: u64, to: u64) -> Result<(), BioError> {
    const WIDTH: u64 = 8;
    let copiers = (0..WIDTH).map(|copier| async move {
        for at in (copier * MIB..len).step_by((WIDTH * MIB) as usize) {
            let done = vol.submit(Bio::read(from + at, Buf::unique(vol.stack().pool(), MIB as usize))).await;
            done.result?;
            vol.submit(Bio::write(to + at, done.buf)).await.result?;
        }
        Ok(())
    });
    esker_rt::sync::join_all(copiers.collect::<Vec<_>>()).await.into_iter().collect::<Result<(), BioError>>()?;
    vol.submit(Bio::flush()).await.result.map(drop)
}
