//! `ssd-wa`: write amplification of the drive model's translation layer under uniform random writes, against the
//! published formula.
//!
//! Let `a` be flash that can hold data over live data, and W Lambert's function. A collector that takes blocks in order
//! of age writes `a / (a + W(-a exp(-a)))` units for each unit of the host. Sources: P. Desnoyers, *Analytic modeling
//! of SSD write performance*, SYSTOR 2012; L. Xiang and B. Kurkoski, arXiv 1110.4245. The greedy collector, the
//! drive's default, has the same limit for large blocks. Both are run; `uniform_wa_error` is the worst of all points.
//! Flash that can hold data is all of it without the few blocks that the collector keeps free or unwritten.

use esker_base::Stream;
use esker_dev_sim::ssd_model::ftl::{Cleaner, Ftl, Geometry, LOW, Moved};

use esker_lab_kit::{Figure, Lab, LabError, timing::worst};

/// Live data over flash that can hold data, in percent.
const POINTS: [u32; 6] = [70, 75, 80, 85, 90, 95];

/// Pages of a block, and units of a page.
const PAGES: u32 = 256;
const PAGE_UNITS: u32 = 4;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let blocks = lab.scale(1_024, 4_096);
    let (mut figures, mut errors) = (Vec::new(), Vec::new());
    for percent in POINTS {
        let utilisation = f64::from(percent) / 100.0;
        let expected = formula(utilisation);
        for (name, cleaner) in [("greedy", Cleaner::Greedy), ("fifo", Cleaner::Fifo)] {
            let id = format!("{name}_wa_{percent}");
            let value = amplification(utilisation, blocks, cleaner, lab.seed);
            let error = value / expected - 1.0;
            errors.push(error.abs());
            lab.say(format!("{id}: {value:.3}, formula {expected:.3}, {:+.2} %", error * 100.0));
            figures.push(Figure::alone(id, value, "units written per host unit").paper(expected));
        }
    }
    figures.insert(0, Figure::alone("uniform_wa_error", worst(&errors), "worst relative difference"));
    Ok(figures)
}

/// Measured over two overwrites of all data, after one.
fn amplification(utilisation: f64, blocks: u32, cleaner: Cleaner, seed: u64) -> f64 {
    let room = f64::from(blocks - LOW as u32) * f64::from(PAGES * PAGE_UNITS);
    let units = (room * utilisation) as u32;
    let geometry = Geometry { units, blocks, pages: PAGES, page_units: PAGE_UNITS, dies: 16 };
    if let Some(fault) = geometry.fault() {
        panic!("the experiment's own geometry: {fault}");
    }
    let mut rng = Stream::named(seed, "ssd-wa");
    let mut ftl = Ftl::new(geometry, cleaner, Moved::Apart);
    ftl.fill(units, &mut rng);
    let mut overwrite = |rounds: u32| {
        for _ in 0..u64::from(rounds) * u64::from(units) {
            ftl.write(rng.below(u64::from(units)) as u32, &mut ());
        }
        *ftl.counts()
    };
    let before = overwrite(1);
    overwrite(2).since(&before).write_amplification()
}

/// Write amplification at a utilisation. The share `x` that is live in a cleaned block is the root below 1 of
/// `x = exp(-a (1 - x))`, which is `-W(-a exp(-a)) / a`.
fn formula(utilisation: f64) -> f64 {
    let a = 1.0 / utilisation;
    let live = (0..10_000).fold(0.0, |x: f64, _| (-a * (1.0 - x)).exp());
    1.0 / (1.0 - live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_the_printed_values() {
        // Xiang and Kurkoski: over-provisioning 0.3 gives 2.36.
        assert!((formula(1.0 / 1.3) - 2.36).abs() < 0.01, "{}", formula(1.0 / 1.3));
        assert!((formula(0.9 * 600.0 / 594.0) - 5.68).abs() < 0.01);
    }

    #[test]
    fn a_small_drive_comes_near_to_the_formula() {
        let value = amplification(0.8, 256, Cleaner::Fifo, 1);
        assert!((value / formula(0.8) - 1.0).abs() < 0.05, "{value}");
    }
}
