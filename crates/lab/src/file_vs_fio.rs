//! `file-vs-fio`: the `file` device against fio's io_uring engine on the same file, at the same depth, in interleaved
//! pairs. Random 4 KiB reads with O_DIRECT.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use esker_base::Stream;
use esker_base::units::MIB;
use esker_block::{Bio, BioError, Buf};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_stack::{Spec, Stack};

use crate::experiment::{Experiment, Figure, LabError, Options, Peer};
use crate::peer;
use crate::timing::median;

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "file-vs-fio",
    summary: "Random 4 KiB reads of a file device against fio's io_uring engine",
    source: "the project's own bar: at least 0.9 of fio at the same depth",
    simulated: false,
    rivals: &["fio"],
    run,
};

/// Bytes of the file.
const SIZE: u64 = 256 * MIB;
/// Bytes of one read.
const BLOCK: u64 = 4096;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let fault = |source| LabError::Scratch { dir: options.scratch.clone(), source };
    let dir = tempfile::tempdir_in(&options.scratch).map_err(fault)?;
    let path = dir.path().join("data");
    fill(&path, options.seed).map_err(fault)?;
    let span = Duration::from_millis(if options.quick { 2_000 } else { 10_000 });
    let depths = [("qd1_ratio_fio", 1), ("qd32_ratio_fio", 32)];
    depths.into_iter().map(|(id, depth)| compare(id, depth, &path, span, options.seed, progress)).collect()
}

/// Random content, so that no layer below can cheat on zeroes.
fn fill(path: &Path, seed: u64) -> std::io::Result<()> {
    let mut random = Stream::named(seed, "file-vs-fio content");
    let mut file = File::create_new(path)?;
    let mut chunk = vec![0; MIB as usize];
    for _ in 0..SIZE / MIB {
        random.fill(&mut chunk);
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

fn compare(
    id: &'static str,
    depth: u64,
    path: &Path,
    span: Duration,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<Figure, LabError> {
    let (mut ratios, mut rivals) = (Vec::new(), Vec::new());
    for pair in 1..=5 {
        // Whoever comes second may find a busier or quieter machine: take turns.
        let (ours, fio) = if pair % 2 == 0 {
            let ours = our_rate(path, depth, span, seed)?;
            (ours, fio_rate(path, depth, span, seed)?)
        } else {
            let fio = fio_rate(path, depth, span, seed)?;
            (our_rate(path, depth, span, seed)?, fio)
        };
        progress(&format!("depth {depth}, pair {pair} of 5: {ours:.0} against {fio:.0} reads per second"));
        ratios.push(ours / fio);
        rivals.push(fio);
    }
    let peer = Peer { name: format!("fio io_uring, depth {depth}, reads per second"), value: median(rivals) };
    Ok(Figure { peer: Some(peer), ..Figure::alone(id, median(ratios), "ratio") })
}

fn fio_rate(path: &Path, depth: u64, span: Duration, seed: u64) -> Result<f64, LabError> {
    let args = [
        "--name=lab".to_string(),
        format!("--filename={}", path.display()),
        "--rw=randread --bs=4k --direct=1 --ioengine=io_uring --time_based --output-format=json --norandommap"
            .to_string(),
        format!("--iodepth={depth}"),
        format!("--size={SIZE}"),
        format!("--randseed={seed}"),
        format!("--runtime={}", span.as_secs()),
    ];
    let words: Vec<String> = args.iter().flat_map(|a| a.split(' ')).map(str::to_string).collect();
    let text = peer::output("fio", &words)?;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let rate = json["jobs"][0]["read"]["iops"].as_f64();
    rate.ok_or_else(|| LabError::Rival { program: "fio".to_string(), what: "no read rate in its report".to_string() })
}

fn our_rate(path: &Path, depth: u64, span: Duration, seed: u64) -> Result<f64, LabError> {
    let reactor = Reactor::new(RealConfig::seeded(seed))?;
    let text = format!("[device.vol]\nkind = \"file\"\npath = '{}'\ndepth = {}\n", path.display(), depth.max(1));
    let spec = Spec::parse("file-vs-fio", &text).unwrap_or_else(|e| panic!("the experiment's own text: {e}"));
    let pool = Pool::default();
    let stack = Stack::build(&reactor.rt(), &pool, esker_kinds::ALL, &spec)?;
    Ok(reactor.block_on(read_for(stack, depth, span))?)
}

/// Reads at random for `span` and returns the rate per second.
async fn read_for(stack: Rc<Stack>, depth: u64, span: Duration) -> Result<f64, BioError> {
    let (rt, start) = (stack.rt().clone(), Instant::now());
    let clients: Vec<_> = (0..depth)
        .map(|client| {
            let export = stack.device("vol").expect("the experiment's own name");
            let (pool, mut random) = (stack.pool().clone(), rt.rng(&format!("client {client}")));
            rt.spawn("client", async move {
                let (mut reads, mut buf) = (0u64, Buf::unique(&pool, BLOCK as usize));
                while start.elapsed() < span {
                    let done = export.request(Bio::read(random.below(SIZE / BLOCK) * BLOCK, buf)).await;
                    done.result?;
                    buf = done.buf;
                    reads += 1;
                }
                Ok(reads)
            })
        })
        .collect();
    let mut reads = 0;
    for client in clients {
        reads += client.await?;
    }
    Ok(reads as f64 / start.elapsed().as_secs_f64())
}
