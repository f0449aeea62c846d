//! `anvil-recovery`: how long a volume takes to open whose process was killed.
//!
//! 2^20 blocks of 512 bytes are written to every other logical block and cloned 15 times, which makes 2^24 extents. A
//! checkpoint follows; then a number of random writes, so that there is a log to replay, and the volume is given up
//! without being closed. That leaves in the file, and in the page cache, what a kill leaves: all that was answered. The
//! time is that from building the stack to the answer of a first read.

use std::path::Path;
use std::time::Instant;

use esker_base::Stream;
use esker_base::units::GIB;
use esker_block::{Bio, BioError, Buf, Device};
use esker_rt::real::Reactor;
use esker_stack::Export;

use esker_lab_kit::{Figure, Lab, LabError, volume_load};

/// Bytes of a block.
const BLOCK: u64 = 512;
/// Extents that are written; the rest are clones of them.
const WRITTEN: u64 = 1 << 20;
/// Clones of what is written.
const CLONES: u64 = 15;
/// Logical bytes that they are spread over.
const SPAN: u64 = 2 * WRITTEN * BLOCK;
const FILE: u64 = 6 * GIB;
const PARAMS: &str = "block=512 page=4KiB segment=64MiB checkpoint_interval=4GiB";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let file = dir.path().join("volume");
    store(&file, lab)?;
    log(lab.scale(1 << 16, 1 << 20), &file, lab)?;
    let reactor = lab.reactor()?;
    let start = Instant::now();
    let vol = open(&reactor, &file)?;
    let reader = vol.clone();
    reactor.block_on(async move {
        let buf = Buf::unique(reader.stack().pool(), BLOCK as usize);
        reader.submit(Bio::read(0, buf)).await.result.map(drop)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(vec![
        Figure::alone("seconds_16m_mappings", seconds, "s"),
        Figure::alone("mappings", volume_load::stat(&vol, "mappings"), "mappings"),
        Figure::alone("records_replayed", volume_load::stat(&vol, "records_replayed"), "records"),
    ])
}

fn open(reactor: &Reactor, file: &Path) -> Result<Export, LabError> {
    volume_load::open(reactor, file, FILE, false, PARAMS)
}

/// Makes all extents, and a checkpoint.
fn store(file: &Path, lab: &Lab<'_>) -> Result<(), LabError> {
    let reactor = lab.reactor()?;
    let vol = open(&reactor, file)?;
    let filler = vol.clone();
    reactor.block_on(async move {
        volume_load::write_all(&filler, BLOCK as usize, WRITTEN, |i| i * 2 * BLOCK).await?;
        for copy in 1..=CLONES {
            volume_load::clone(&filler, 0, SPAN, copy * SPAN).await?;
        }
        // Closing the stack makes a checkpoint.
        filler.stack().close().await;
        Ok::<(), BioError>(())
    })?;
    lab.say(format!("{} mappings are stored", volume_load::stat(&vol, "mappings")));
    Ok(())
}

/// Makes so many random writes, and gives the volume up.
fn log(writes: u64, file: &Path, lab: &Lab<'_>) -> Result<(), LabError> {
    let reactor = lab.reactor()?;
    let vol = open(&reactor, file)?;
    let mut rng = Stream::named(lab.seed, "overwrites");
    let places: Vec<u64> = (0..writes).map(|_| rng.below(16 * WRITTEN) * 2 * BLOCK).collect();
    let overwrite =
        async move { volume_load::write_all(&vol, BLOCK as usize, writes, move |i| places[i as usize]).await };
    reactor.block_on(overwrite)?;
    lab.say(format!("{writes} records are logged behind the checkpoint"));
    Ok(())
}
