//! `anvil-gc-scaling`: how long it takes to move everything, against how much there is. After figure 3.9 of ANViL:
//! sequential writes of 4 KiB, no overwrites, and then every segment is cleaned, whatever is live in it. On memory,
//! so that nothing but the collector's own work is measured.

use std::rc::Rc;
use std::time::Instant;

use esker_base::units::{GIB, MIB};
use esker_block::{Bio, BioError, Buf, Device};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_layer_logvol::segments::State;
use esker_layer_logvol::{Config, Volume};
use esker_rt::mem::Pool;
use esker_rt::sync::join_all;

use esker_lab_kit::{Figure, Lab, LabError, timing};
use esker_report::{Axis, Figure as Plot, Series};

const BLOCK: u64 = 4096;
const SEGMENT: u64 = 4 * MIB;
/// Writers: few, so that each block of records is shared by few and no segment is as full as one of copies.
const WRITERS: u64 = 16;
const ROUNDS: u32 = 3;
/// Live data, and the words for it.
const SIZES: [(u64, &str); 5] =
    [(64 * MIB, "64m"), (128 * MIB, "128m"), (256 * MIB, "256m"), (512 * MIB, "512m"), (2 * GIB, "2g")];
/// The table of figure 3.9: MiB of data, and seconds.
const THESIS: [(f64, f64); 4] = [(128.0, 0.3), (8_192.0, 28.3), (65_536.0, 179.4), (131_072.0, 363.7)];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (mut points, mut seconds) = (Vec::new(), Vec::new());
    for (bytes, word) in &SIZES[..lab.scale(4, 5)] {
        let took = timing::median_of(ROUNDS, |_| clean_all(lab, *bytes))?;
        lab.say(format!("{} MiB in {took:.3} s", bytes / MIB));
        points.push(((bytes / MIB) as f64, took));
        seconds.push(Figure::alone(format!("seconds_{word}"), took, "s"));
    }
    let (mib, took) = points[points.len() - 1];
    let slope = Figure::alone("gc_time_slope", timing::exponent(&points), "ratio");
    let rate = Figure::alone("mib_per_second", mib / took, "MiB/s");
    lab.draw(plot(points));
    Ok([slope, rate].into_iter().chain(seconds).collect())
}

/// Figure 3.9, with the points that were measured.
fn plot(points: Vec<(f64, f64)>) -> Plot {
    Plot {
        title: "Time to clean everything".to_string(),
        says:
            "All data are live, so all are moved: here on memory, in the thesis on flash. On both axes equal distances \
               are equal ratios, so a line as steep as the thesis' grows with the data as its line does."
                .to_string(),
        x: Axis::logarithmic("live data, MiB"),
        y: Axis::logarithmic("seconds"),
        series: vec![Series::line("measured", points), Series::line("in the thesis", THESIS.to_vec())],
    }
}

/// Seconds to move `bytes` of live data.
fn clean_all(lab: &Lab<'_>, bytes: u64) -> Result<f64, LabError> {
    let reactor = lab.reactor()?;
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

#[cfg(test)]
mod tests {
    use esker_report::html;

    use super::*;

    #[test]
    fn the_figure_shows_the_points_of_the_thesis_beside_ours() {
        let plots = [plot(vec![(64.0, 0.021), (128.0, 0.044), (256.0, 0.09), (512.0, 0.2), (2_048.0, 0.81)])];
        let figures = html::figures(&plots).unwrap();
        esker_testkit::browser::check("anvil-gc-scaling", &html::page("A test", "a test", &figures));
        assert!(figures.into_string().contains("in the thesis"));
    }
}
