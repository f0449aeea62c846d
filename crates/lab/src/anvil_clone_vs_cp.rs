//! `anvil-clone-vs-cp`: what a clone costs: 1 GiB that was written in order, and as many extents as were written in
//! random order. Beside the first: the time that copying as much through the same volume takes, by reading and
//! writing, and that of `cp --reflink` on file systems that share blocks.

use std::time::Instant;

use esker_base::units::{GIB, MIB};
use esker_block::{Bio, BioError, Buf, Device};
use esker_stack::Export;

use crate::reflink;
use esker_lab_kit::{Figure, Lab, LabError, timing::median, volume_load};

const BLOCK: u64 = 4096;
const FILE: u64 = 5 * GIB;
const PARAMS: &str = "block=4096 segment=128MiB checkpoint_interval=8GiB";
/// Where the scattered blocks begin.
const SCATTERED: u64 = 1 << 40;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, blocks) = lab.scale((9, 1 << 15), (25, 1 << 17));
    let dir = lab.folder()?;
    let reactor = lab.reactor()?;
    let vol = volume_load::open(&reactor, &dir.path().join("volume"), FILE, true, PARAMS)?;
    let work = vol.clone();
    let (whole, copied, each) = reactor.block_on(async move {
        volume_load::write_all(&work, MIB as usize, GIB / MIB, |i| i * MIB).await?;
        // A full cycle through all blocks in an order without neighbours.
        volume_load::write_all(&work, BLOCK as usize, blocks, move |i| SCATTERED + i * 40_503 % blocks * 2 * BLOCK)
            .await?;
        let copied = milliseconds(copy(&work, 0, GIB, 1 << 39)).await?;
        let (mut whole, mut each) = (Vec::new(), Vec::new());
        for round in 1..=u64::from(rounds) {
            whole.push(milliseconds(volume_load::clone(&work, 0, GIB, (1 << 41) + round * GIB)).await?);
            let before = volume_load::stat(&work, "mappings");
            let to = (1 << 42) + round * (1 << 36);
            let took = milliseconds(volume_load::clone(&work, SCATTERED, blocks * 2 * BLOCK, to)).await?;
            each.push(took * 1e3 / (volume_load::stat(&work, "mappings") - before));
        }
        Ok::<_, BioError>((whole, copied, each))
    })?;
    lab.say(format!("copying 1 GiB took {:.2} s; {rounds} clones of each kind", copied / 1e3));
    let ms = median(whole);
    let copying = "reading and writing 1 GiB through the volume, 1 MiB at a time, 8 at once, ms";
    let mut figures = vec![
        Figure::alone("ms_per_gib_contiguous", ms, "ms").peer(copying, copied),
        Figure::alone("clone_copy_time_ratio", copied / ms, "ratio").paper(100.0),
        Figure::alone("us_per_extent", median(each), "us"),
    ];
    for system in ["btrfs", "xfs"] {
        let time = reflink::milliseconds(&format!("mkfs.{system}"), rounds, lab)?;
        lab.say(format!("cp --reflink of 1 GiB on {system}: {time:.2} ms"));
        figures.push(Figure::alone(format!("ms_reflink_{system}"), time, "ms"));
    }
    Ok(figures)
}

async fn milliseconds(work: impl Future<Output = Result<(), BioError>>) -> Result<f64, BioError> {
    let start = Instant::now();
    work.await?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
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
