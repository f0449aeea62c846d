//! `anvil-gc-scaling`: how long it takes to move everything, against how much there is. After figure 3.9 of ANViL:
//! sequential writes of 4 KiB, no overwrites, and then every segment is cleaned, whatever is live in it. On memory, so
//! that nothing but the collector's own work is measured.

use std::rc::Rc;
use std::time::Instant;

use esker_base::units::{GIB, MIB};
use esker_block::{Bio, BioError, Buf, Device};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_layer_logvol::segments::State;
use esker_layer_logvol::{Config, Volume};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::join_all;

use esker_lab_kit::{Experiment, Figure, LabError, Options, timing::median};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "anvil-gc-scaling",
    summary: "Time to clean everything against the amount of live data: the slope of both logarithms",
    source: "ANViL, figure 3.9 (roughly linear from 128 MiB to 128 GiB); issue 6 of this project: slope 0.9 to 1.1",
    simulated: false,
    rivals: &[],
    run,
};

const BLOCK: u64 = 4096;
const SEGMENT: u64 = 4 * MIB;
/// Writers: few, so that each block of records is shared by few and no segment is as full as one of copies.
const WRITERS: u64 = 16;
const ROUNDS: usize = 3;
const NAMES: [&str; 5] = ["seconds_64m", "seconds_128m", "seconds_256m", "seconds_512m", "seconds_2g"];

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let all = [64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, 2 * GIB];
    let sizes = if options.quick { &all[..4] } else { &all };
    let mut points = Vec::new();
    for bytes in sizes {
        let seconds = (0..ROUNDS).map(|_| clean_all(options, *bytes)).collect::<Result<Vec<_>, _>>()?;
        let seconds = median(seconds);
        progress(&format!("{} MiB in {seconds:.3} s", bytes / MIB));
        points.push((*bytes as f64, seconds));
    }
    let mut figures = vec![Figure::alone("gc_time_slope", slope(&points), "ratio")];
    let (bytes, seconds) = points[points.len() - 1];
    figures.push(Figure::alone("mib_per_second", bytes / MIB as f64 / seconds, "MiB/s"));
    figures.extend(NAMES.iter().zip(&points).map(|(name, (_, seconds))| Figure::alone(name, *seconds, "s")));
    Ok(figures)
}

/// Seconds to move `bytes` of live data.
fn clean_all(options: &Options, bytes: u64) -> Result<f64, LabError> {
    let reactor = Reactor::new(RealConfig::seeded(options.seed))?;
    let rt = reactor.rt();
    let seconds = reactor.block_on(async move {
        let device = Rc::new(MemoryDevice::over(&rt, Media::new(3 * bytes), BLOCK as u32, Defer::Never));
        let limits = device.limits().clone();
        touch(&*device, 3 * bytes).await?;
        let io = Io::over(&rt, &Pool::default(), vec![device]);
        let config = Config::over("vol", &limits, BLOCK as u32, BLOCK as u32, SEGMENT, 1 << 50);
        let volume = Volume::open(config, &rt, io.pool(), io.below().clone()).await;
        let volume = volume.expect("a blank medium becomes a volume");
        fill(&volume, &io, bytes).await?;
        let first = |volume: &Volume| -> Vec<(State, u64, u64)> {
            volume.segments().iter().map(|segment| (segment.state, segment.first, segment.live)).collect()
        };
        let full = first(&volume);
        let is_there = |volume: &Volume| {
            let now = first(volume);
            let mut both = full.iter().zip(&now).filter(|(then, _)| then.0 == State::Closed && then.2 > 0);
            both.any(|(then, now)| now.0 == State::Closed && now.1 == then.1 && now.2 > 0)
        };
        let start = Instant::now();
        while is_there(&volume) {
            volume.collect_now(&volume.store(io.below().clone())).await;
        }
        Ok::<f64, BioError>(start.elapsed().as_secs_f64())
    })?;
    Ok(seconds)
}

/// Writes to all of a device but its ends, which stay blank: what a virtual machine's host takes to find memory that
/// was never used before is not the collector's time.
async fn touch(device: &dyn Device, bytes: u64) -> Result<(), BioError> {
    let pool = Pool::default();
    for at in (MIB..bytes - MIB).step_by(MIB as usize) {
        device.submit(Bio::write(at, Buf::from_bytes(&pool, &[0xff; MIB as usize]))).await.result?;
    }
    Ok(())
}

async fn fill(volume: &Rc<Volume>, io: &Io, bytes: u64) -> Result<(), BioError> {
    let writers = (0..WRITERS).map(|writer| {
        let (volume, io) = (volume.clone(), io.clone());
        async move {
            for i in (writer..bytes / BLOCK).step_by(WRITERS as usize) {
                let buf = Buf::from_bytes(io.pool(), &[i as u8; BLOCK as usize]);
                volume.clone().change(io.below().clone(), Bio::write(i * BLOCK, buf)).await.result?;
            }
            Ok(())
        }
    });
    join_all(writers).await.into_iter().collect()
}

/// Slope of the line that fits both logarithms best.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |pick: fn(&(f64, f64)) -> f64| logs.iter().map(pick).sum::<f64>() / logs.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (above, below) = logs.iter().fold((0.0, 0.0), |sums, point| {
        (sums.0 + (point.0 - x) * (point.1 - y), sums.1 + (point.0 - x) * (point.0 - x))
    });
    above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_power_is_its_exponent() {
        let points: Vec<(f64, f64)> = (1..9).map(|i| (f64::from(i), 3.0 * f64::from(i).powf(1.25))).collect();
        assert!((slope(&points) - 1.25).abs() < 1e-9);
    }
}
