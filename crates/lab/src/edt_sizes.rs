//! What extent-based tiering must buy for a load, against one type of disk, static tiering, and tiering by requests
//! alone: `edt-spc`, `edt-msr` and `edt-subworkloads`. Source: the thesis on extending storage, sections 6.2 to 6.4.
//!
//! Loads are generated and only look like those of the thesis. Devices and their prices are those of its table. Nothing
//! is played against devices here: an extent's demand is counted, and the sizing of the adviser answers.

use esker_tiering::sheet::SAS;
use esker_tiering::sizing::{self, Sizes};
use esker_tiering::{Objective, Sheet};

use esker_lab_kit::{Figure, Lab, LabError};

use crate::edt_loads::{ExtentLoad, Generated, collect};

/// Sizes of one load by the four systems.
struct Systems {
    sas: Sizes,
    est: Sizes,
    idt: Sizes,
    edt: Sizes,
}

impl Systems {
    fn of(sheets: &[Sheet], load: &ExtentLoad, lab: &Lab<'_>) -> Systems {
        let workload = load.workload();
        let systems = Systems {
            sas: sizing::homogeneous(sheets, SAS, &workload),
            est: sizing::est(sheets, &workload, Objective::Cost),
            idt: sizing::idt(sheets, &workload, Objective::Cost),
            edt: sizing::edt(sheets, &workload, Objective::Cost),
        };
        let name = if load.name.is_empty() { "all volumes" } else { load.name };
        lab.say(format!("{name}: {} GB", load.bytes() / 1_000_000_000));
        for (system, sizes) in
            [("SAS", &systems.sas), ("EST", &systems.est), ("IDT", &systems.idt), ("EDT", &systems.edt)]
        {
            let parts: Vec<String> = sizes.fractional.iter().map(|devices| format!("{devices:.2}")).collect();
            let (usd, exact) = (sizes.usd(sheets), sizes.usd_fractional(sheets));
            let (counts, watts) = (&sizes.counts, sizes.peak_w(sheets));
            lab.say(format!(
                "  {system}: {counts:?} for ${usd:.0} and {watts:.0} W; without rounding ({}) for ${exact:.0}",
                parts.join(", ")
            ));
        }
        systems
    }
}

/// A price over that of another system.
fn over(id: &str, ours: &Sizes, theirs: &Sizes, sheets: &[Sheet]) -> Figure {
    Figure::alone(id, ours.usd(sheets) / theirs.usd(sheets), "ratio of prices").peer("the other, $", theirs.usd(sheets))
}

/// The same without rounding to whole devices.
fn over_exactly(id: &str, ours: &Sizes, theirs: &Sizes, sheets: &[Sheet]) -> Figure {
    let (ours, theirs) = (ours.usd_fractional(sheets), theirs.usd_fractional(sheets));
    Figure::alone(id, ours / theirs, "ratio of prices without rounding").peer("the other, $", theirs)
}

/// A steady load: five minutes are an epoch.
pub(crate) fn run_spc(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let sheets = Sheet::thesis();
    let trace = Generated { profile: "spc1-like", hours: 0.5, epoch_s: 300.0 };
    let loads = collect(trace, &[""], lab)?;
    let systems = Systems::of(&sheets, &loads[0], lab);
    Ok(vec![
        over("est_cost_over_edt", &systems.est, &systems.edt, &sheets).paper(1.0),
        over("edt_cost_over_sas", &systems.edt, &systems.sas, &sheets).paper(0.86),
        over_exactly("edt_cost_over_sas_exactly", &systems.edt, &systems.sas, &sheets),
        over_exactly("idt_cost_over_edt_exactly", &systems.idt, &systems.edt, &sheets).paper(920.0 / 890.0),
    ])
}

/// Equal performance on days of servers: half an hour is an epoch.
pub(crate) fn run_msr(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let sheets = Sheet::thesis();
    let hours = lab.scale(24.0, 144.0);
    let mut figures = Vec::new();
    for (profile, hours, suffix) in [("msr-like", hours, ""), ("msr-shift", 24.0, "_shift")] {
        let loads = collect(Generated { profile, hours, epoch_s: 1800.0 }, &[""], lab)?;
        let systems = Systems::of(&sheets, &loads[0], lab);
        let id = |name: &str| format!("{name}{suffix}");
        figures.extend([
            over(&id("edt_cost_over_sas"), &systems.edt, &systems.sas, &sheets).paper(2620.0 / 5200.0),
            over(&id("est_cost_over_edt"), &systems.est, &systems.edt, &sheets).paper(3480.0 / 2620.0),
            over(&id("idt_cost_over_edt"), &systems.idt, &systems.edt, &sheets).paper(2725.0 / 2620.0),
            over_exactly(&id("edt_cost_over_sas_exactly"), &systems.edt, &systems.sas, &sheets),
        ]);
    }
    Ok(figures)
}

/// The groups of volumes, and the printed prices of SAS, EST, IDT and EDT.
const GROUPS: [(&str, [f64; 4]); 3] = [
    ("server", [1950.0, 1525.0, 1355.0, 1250.0]),
    ("data", [3250.0, 2020.0, 1760.0, 1760.0]),
    ("srcctl", [1950.0, 2005.0, 1850.0, 1850.0]),
];

/// The same for groups of its volumes alone.
pub(crate) fn run_subworkloads(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let sheets = Sheet::thesis();
    let trace = Generated { profile: "msr-like", hours: lab.scale(24.0, 144.0), epoch_s: 1800.0 };
    let loads = collect(trace, &GROUPS.map(|(name, _)| name), lab)?;
    let mut figures = Vec::new();
    for (load, (group, printed)) in loads.iter().zip(GROUPS) {
        let systems = Systems::of(&sheets, load, lab);
        let sizes = [("sas", &systems.sas), ("est", &systems.est), ("idt", &systems.idt), ("edt", &systems.edt)];
        figures.extend(sizes.into_iter().zip(printed).map(|((system, sizes), printed)| {
            Figure::alone(format!("{system}_usd_{group}"), sizes.usd(&sheets), "US dollars").paper(printed)
        }));
    }
    Ok(figures)
}
