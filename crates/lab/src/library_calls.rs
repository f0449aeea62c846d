//! `library-calls`: what a call of the library costs a thread that is not the stack's.
//!
//! Reads of 4 KiB on memory: calls of the library from one thread, beside requests of a task on the stack's own thread
//! that copies the bytes out as well. Then 8 threads write and flush at once, and a layer above the file counts the
//! flushes that reach it.

use std::sync::Barrier;
use std::thread;

use esker::{Error, Stack};
use esker_block::{Bio, Buf};
use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::timing::{medians_of, seconds};
use esker_lab_kit::{Figure, Lab, LabError};

const MEMORY: &str = "vol = memory size=64MiB @";
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 4096;
const THREADS: u64 = 8;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, reads, flushes) = lab.scale((9, 50_000, 100), (21, 500_000, 1_000));
    let stack = esker::open(MEMORY).map_err(LabError::data)?;
    let [call_us, direct_us] = medians_of(rounds, |round| {
        let [call, direct] = [called_s(&stack, reads).map_err(LabError::data)?, direct_s(lab.seed, reads)?];
        let [call, direct] = [call, direct].map(|seconds| seconds / reads as f64 * 1e6);
        lab.say(format!("round {round} of {rounds}: {call:.2} us a call, {direct:.2} us on the stack's thread"));
        Ok([call, direct])
    })?;
    let shared = shared(lab, flushes)?;
    Ok(vec![
        Figure::alone("pread_4k_us", call_us, "us").peer("a task on the stack's thread", direct_us),
        Figure::alone("over_device_call_ns", (call_us - direct_us) * 1e3, "ns"),
        Figure::alone("flushes_shared_8_threads", shared, "calls for each flush of the file"),
    ])
}

fn offset(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9) % BLOCKS * BLOCK
}

fn called_s(stack: &Stack, reads: u64) -> Result<f64, Error> {
    let vol = stack.export("vol")?;
    let mut out = [0; BLOCK as usize];
    seconds(|| (0..reads).try_for_each(|n| vol.read_at(&mut out, offset(n))))
}

fn direct_s(seed: u64, reads: u64) -> Result<f64, LabError> {
    let Rig { world, stack } = Rig::real(seed, MEMORY)?;
    let (vol, mut out) = (vol(&stack), [0; BLOCK as usize]);
    seconds(|| {
        world.block_on(async move {
            for n in 0..reads {
                let buf = Buf::unique(vol.stack().pool(), out.len());
                let done = vol.request(Bio::read(offset(n), buf)).await;
                done.result?;
                done.buf.copy_to(&mut out);
            }
            Ok(())
        })
    })
}

/// Flushes that callers asked for, over those that reached the file.
fn shared(lab: &Lab<'_>, flushes: u64) -> Result<f64, LabError> {
    let folder = lab.folder()?;
    let text = format!("vol = file path={} size=64MiB | stats @", folder.path().join("vol.img").display());
    let stack = esker::open(&text).map_err(LabError::data)?;
    let (vol, barrier) = (stack.export("vol").map_err(LabError::data)?, Barrier::new(THREADS as usize));
    let work = |number: u64| -> Result<(), Error> {
        barrier.wait();
        (0..flushes).try_for_each(|n| {
            vol.write_at(&[n as u8; BLOCK as usize], (number * flushes + n) % BLOCKS * BLOCK)?;
            vol.flush()
        })
    };
    thread::scope(|threads| {
        let threads: Vec<_> = (0..THREADS).map(|number| threads.spawn(move || work(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client does not panic"))
    })
    .map_err(LabError::data)?;
    let count = |name: &str| stack.parts().into_iter().flat_map(|part| part.stats).find(|stat| stat.0 == name);
    let (_, reached) = count("flushes").ok_or_else(|| LabError::data("the layer has counted no flush"))?;
    Ok((THREADS * flushes) as f64 / reached)
}
