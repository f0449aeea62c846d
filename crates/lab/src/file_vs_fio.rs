//! `file-vs-fio`: the `file` device against fio's io_uring engine on the same file, at the same depth, in interleaved
//! pairs. Random 4 KiB reads with O_DIRECT.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use esker_base::units::MIB;
use esker_block::{Bio, BioError, Buf};
use esker_stack::Stack;

use esker_lab_kit::rig::{Rig, clients};
use esker_lab_kit::{Figure, Lab, LabError, peer, scratch, timing};

/// Bytes of the file.
const SIZE: u64 = 256 * MIB;
/// Bytes of one read.
const BLOCK: u64 = 4096;
const PAIRS: u32 = 5;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let path = dir.path().join("data");
    scratch::random_file(&path, SIZE, lab.seed)?;
    let span = Duration::from_secs(lab.scale(2, 10));
    let compare = |(id, depth): (&'static str, u64)| {
        let name = format!("fio io_uring, depth {depth}, reads per second");
        let ours = || our_rate(&path, depth, span, lab.seed);
        let theirs = || peer::fio_random((&path, SIZE), "randread", depth, span, lab.seed);
        timing::ratio(id, name, PAIRS, ours, theirs, lab)
    };
    [("qd1_ratio_fio", 1), ("qd32_ratio_fio", 32)].into_iter().map(compare).collect()
}

fn our_rate(path: &Path, depth: u64, span: Duration, seed: u64) -> Result<f64, LabError> {
    let text = format!("[device.vol]\nkind = \"file\"\npath = '{}'\ndepth = {}\n", path.display(), depth.max(1));
    let Rig { world, stack } = Rig::real(seed, &text)?;
    Ok(world.block_on(read_for(stack, depth, span))?)
}

/// Reads at random for `span` and returns the rate per second.
async fn read_for(stack: Rc<Stack>, depth: u64, span: Duration) -> Result<f64, BioError> {
    let (rt, start) = (stack.rt().clone(), Instant::now());
    let client = |client| {
        let export = stack.device("vol").expect("the experiment's own name");
        let (pool, mut random) = (stack.pool().clone(), rt.rng(&format!("client {client}")));
        async move {
            let (mut reads, mut buf) = (0u64, Buf::unique(&pool, BLOCK as usize));
            while start.elapsed() < span {
                let done = export.request(Bio::read(random.below(SIZE / BLOCK) * BLOCK, buf)).await;
                done.result?;
                buf = done.buf;
                reads += 1;
            }
            Ok(reads)
        }
    };
    let reads: u64 = clients(&rt, depth, client).await.into_iter().sum::<Result<u64, BioError>>()?;
    Ok(reads as f64 / start.elapsed().as_secs_f64())
}
