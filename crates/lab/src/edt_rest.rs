//! Consolidation: what devices of a tier draw when equal ones may be emptied, and when all share what their tier holds.
//! Source: item 45 of the specification of extensions; the thesis on extending storage, section 6.3.
//!
//! The load that `edt-msr-played` has for one device of each type, on four of each, every one an end of its own. So
//! there is room to empty some. From noon on seven of eight volumes rest. Disks rest behind ten minutes without a
//! request. This time and spin-ups are divided by the speed of the load, as all times of the layer are. So a disk rests
//! for the same share of the day, and a spin-up takes the same part of its energy.

use esker_base::Nanos;
use esker_lab_kit::{Figure, Lab, LabError};
use esker_tiering::Sheet;
use esker_tiering::sheet::peak_w;

use crate::edt_played::{DISKS, Load, SPEEDS, play_day, times};
use crate::edt_testbed::{BY_COST, EXTENT, Testbed};

const COUNTS: [u32; 3] = [4, 4, 4];
/// From noon on one of so many volumes is used where the others rest.
const VOLUMES: u32 = 8;
const REST: Nanos = Nanos::secs(600);
/// From standby to ready: the slower one of both disks.
const SPIN_UP: Nanos = Nanos::secs(8);

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let speed = lab.scale(SPEEDS[0], SPEEDS[1]);
    let mut load = Load::of_servers(lab, "msr-like", [1.0 / (DISKS * speed as f64), speed as f64])?;
    load.rest_from_noon(VOLUMES, speed);
    let start = load.placed(COUNTS, speed).balanced();
    let testbed = Testbed { counts: COUNTS, shrink: speed, extent: EXTENT };
    let rest = format!("standby_after={}ns spin_up={}ns", REST.0 / speed, SPIN_UP.0 / speed);
    let played = |consolidate: bool| {
        let args = format!("{} plan=edt {BY_COST} consolidate={consolidate}", times(speed));
        let text = testbed.tier_apart(load.bytes / EXTENT, &rest, &args);
        let found = play_day(lab, &text, &load, &start, speed)?;
        lab.say(format!(
            "twelve devices apart, consolidate={consolidate}: {}, {:.1} W, {:.1} W from noon on, {} moves{}",
            found.waits.text(),
            found.watts,
            found.late_watts,
            found.moved,
            found.told
        ));
        Ok::<_, LabError>(found)
    };
    let (on, off) = (played(true)?, played(false)?);
    let peak = peak_w(&Sheet::thesis(), &COUNTS.map(f64::from));
    let under = |id: &str, [on, off]: [f64; 2]| {
        Figure::alone(id, 1.0 - on / peak, "share of the peak power, devices apart")
            .peer("consolidation off", 1.0 - off / peak)
    };
    let (mean_on, mean_off) = (on.waits.mean_ms(), off.waits.mean_ms());
    Ok(vec![
        under("dynamic_under_peak_apart", [on.watts, off.watts]).paper(0.13),
        under("dynamic_under_peak_apart_late", [on.late_watts, off.late_watts]),
        Figure::alone("consolidated_mean_over_spread", mean_on / mean_off, "ratio of mean times")
            .peer("consolidation off, ms", mean_off),
    ])
}
