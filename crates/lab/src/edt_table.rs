//! `edt-table`: the printed numbers of extent-based dynamic tiering, computed again by the tiering crate. Nothing runs.
//!
//! `table_error` is the largest relative error of shares of devices, prices and powers of extents. They are compared
//! with values that the project's specification derived by hand from the thesis' device table, to four digits.
//! `breakeven_error` is that of the demands at which a type becomes cheaper than another one.
//!
//! `costs_matching` counts the printed configurations whose price is the sum of the printed prices. So do the figures
//! of watts, within half a watt, which the thesis' rounding needs. Two of its result tables only add up with 0.2 W for
//! an SSD, its device table and the third have 1 W, so both are counted. The price of 12 SAS drives adds up, their
//! 204 W do not.
//!
//! `power_answers_flash` is the share of demands for which the objective of power answers SSD: with the printed watts
//! it is 1, whatever an extent asks. `extent_mb_of_printed_thresholds` is the size of extents with which the thesis'
//! printed threshold between SAS and SSD follows from its model; its experiments have 64 MB.

use esker_base::Stream;
use esker_report::rounded;
use esker_tiering::model::{Dimension, break_even, overtakes};
use esker_tiering::sheet::{SAS, SATA, SSD, SSD_WATTS_OF_RESULTS, peak_w, usd};
use esker_tiering::{Demand, Objective, Sheet};

use esker_lab_kit::{Figure, Lab, LabError};

/// Bytes of an extent in the experiments of the thesis.
const EXTENT: f64 = 64e6;
/// Printed watts have so much rounding.
const WATTS_ROUNDING: f64 = 0.5;
/// Demands by which the objective of power is judged.
const DEMANDS: u32 = 100_000;
/// Random requests per second above which extents went to SSD on MSR, as printed.
const PRINTED_THRESHOLD: f64 = 1.43;

/// A printed configuration: where, the system, devices (SSD, SAS, SATA), watts and dollars.
struct Printed(&'static str, &'static str, [u32; 3], f64, f64);

const CONFIGURATIONS: [Printed; 22] = [
    Printed("SPC-1-like", "SAS", [0, 6, 0], 103.8, 1950.0),
    Printed("SPC-1-like", "EST", [2, 2, 1], 46.6, 1680.0),
    Printed("SPC-1-like", "IDT", [2, 1, 1], 29.3, 1355.0),
    Printed("SPC-1-like", "EDT", [2, 2, 1], 46.6, 1680.0),
    Printed("MSR, equal performance", "SAS", [0, 16, 0], 276.8, 5200.0),
    Printed("MSR, equal performance", "EST", [5, 2, 4], 82.0, 3480.0),
    Printed("MSR, equal performance", "IDT", [4, 1, 4], 64.5, 2725.0),
    Printed("MSR, equal performance", "EDT", [3, 2, 4], 81.6, 2620.0),
    Printed("MSR, equal cost", "SAS", [0, 12, 0], 204.0, 3900.0),
    Printed("MSR, equal cost", "EST, IDT and EDT", [4, 4, 4], 116.0, 3700.0),
    Printed("server", "SAS", [0, 6, 0], 103.8, 1950.0),
    Printed("server", "EST", [2, 1, 2], 42.5, 1525.0),
    Printed("server", "IDT", [2, 1, 1], 30.9, 1355.0),
    Printed("server", "EDT", [1, 2, 1], 47.2, 1250.0),
    Printed("data", "SAS", [0, 10, 0], 173.0, 3250.0),
    Printed("data", "EST", [2, 2, 3], 71.4, 2020.0),
    Printed("data", "IDT", [1, 2, 4], 82.0, 1760.0),
    Printed("data", "EDT", [1, 2, 4], 82.0, 1760.0),
    Printed("srcctl", "SAS", [0, 6, 0], 103.8, 1950.0),
    Printed("srcctl", "EST", [2, 3, 1], 65.5, 2005.0),
    Printed("srcctl", "IDT", [2, 2, 2], 59.8, 1850.0),
    Printed("srcctl", "EDT", [2, 2, 2], 59.8, 1850.0),
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let sheets = Sheet::thesis();
    let mut figures = vec![
        Figure::alone("table_error", worst(&table(&sheets), lab), "relative error"),
        Figure::alone("breakeven_error", worst(&break_evens(&sheets), lab), "relative error"),
    ];
    let printed = CONFIGURATIONS.len() as f64;
    let counts = [
        ("costs_matching", costs(&sheets, lab)),
        ("watts_matching_flash_1w", watts(sheets[SSD].active_w, lab)),
        ("watts_matching_flash_0_2w", watts(SSD_WATTS_OF_RESULTS, lab)),
    ];
    figures.extend(counts.map(|(id, count)| Figure::alone(id, count as f64, "printed configurations").paper(printed)));
    figures.push(Figure::alone("power_answers_flash", flash_by_power(&sheets, lab), "share of demands"));
    figures
        .push(Figure::alone("extent_mb_of_printed_thresholds", fitting_extent_mb(&sheets), "MB").paper(EXTENT / 1e6));
    Ok(figures)
}

/// A computed value beside the printed one.
struct Pair(String, f64, f64);

fn worst(pairs: &[Pair], lab: &Lab<'_>) -> f64 {
    let error = |Pair(what, ours, printed): &Pair| {
        let error = (ours / printed - 1.0).abs();
        lab.say(format!("{what}: {}, printed {printed}, relative error {error:.6}", rounded(*ours)));
        error
    };
    pairs.iter().map(error).fold(0.0, f64::max)
}

/// A quantity, how it is computed for a type, and its printed values.
type Quantity<'a> = (&'a str, Box<dyn Fn(&Sheet) -> f64 + 'a>, [f64; 3]);

/// The derived table: one line for each quantity, one column for each type.
fn table(sheets: &[Sheet; 3]) -> Vec<Pair> {
    let idle = Demand::default();
    let (random, stream) = (Demand::random(1.0), Demand { mb_per_s: 1.0, ..idle });
    // Without bytes an extent takes time alone.
    let weighs = |objective: Objective, demand, bytes| move |sheet: &Sheet| objective.burden(&demand, bytes, sheet);
    let lines: [Quantity<'_>; 8] = [
        ("share of room", Box::new(|sheet| sheet.capacity(EXTENT)), [3.556e-4, 1.422e-4, 6.40e-5]),
        ("dollars of room", Box::new(weighs(Objective::Cost, idle, EXTENT)), [0.15289, 0.04622, 0.01088]),
        (
            "dollars of a random request per second",
            Box::new(weighs(Objective::Cost, random, 0.0)),
            [0.0860, 1.2188, 1.53],
        ),
        ("dollars of a MB per second", Box::new(weighs(Objective::Cost, stream, 0.0)), [4.3, 1.3, 1.53]),
        ("watts of room", Box::new(weighs(Objective::Power, idle, EXTENT)), [3.556e-4, 2.460e-3, 7.424e-4]),
        (
            "watts of a random request per second",
            Box::new(weighs(Objective::Power, random, 0.0)),
            [2.0e-4, 6.488e-2, 0.1044],
        ),
        ("watts of a MB per second", Box::new(weighs(Objective::Power, stream, 0.0)), [0.01, 0.0692, 0.1044]),
        (
            "random requests per second at which time overtakes room",
            Box::new(|sheet| overtakes(Dimension::Random, EXTENT, sheet)),
            [1.778, 0.0379, 0.00711],
        ),
    ];
    let cell = |what: &str, sheet: &Sheet, ours, printed| Pair(format!("{what}, {}", sheet.name), ours, printed);
    let line = |(what, ours, printed): &Quantity<'_>| {
        let cells = sheets.iter().zip(printed).map(|(sheet, printed)| cell(what, sheet, ours(sheet), *printed));
        cells.collect::<Vec<_>>()
    };
    lines.iter().flat_map(line).collect()
}

/// Demands at which a type becomes cheaper than another. A stream is never cheaper on SSD than on SAS: that counts as
/// an error of 1 if it is.
fn break_evens(sheets: &[Sheet; 3]) -> Vec<Pair> {
    let at = |low: usize, high: usize, by| break_even(&sheets[low], &sheets[high], by, EXTENT, Objective::Cost);
    let pair = |what: &str, at: Option<f64>, printed| Pair(what.to_owned(), at.unwrap_or(0.0), printed);
    let never = if at(SAS, SSD, Dimension::Sequential).is_none() { 1.0 } else { 0.0 };
    vec![
        pair("SATA to SAS, random requests per second", at(SATA, SAS, Dimension::Random), 0.0302),
        pair("SAS to SSD, random requests per second", at(SAS, SSD, Dimension::Random), 0.1254),
        pair("SATA to SAS, MB per second", at(SATA, SAS, Dimension::Sequential), 0.0302),
        pair("a stream is never cheaper on SSD than on SAS", Some(never), 1.0),
    ]
}

/// Configurations whose printed price is the sum of the prices of their devices.
fn costs(sheets: &[Sheet], lab: &Lab<'_>) -> usize {
    let matches = |Printed(load, system, counts, _, dollars): &&Printed| {
        let ours = usd(sheets, &counts.map(f64::from));
        let is_equal = ours == *dollars;
        let word = if is_equal { "equal" } else { "not equal" };
        lab.say(format!("{load}, {system} {counts:?}: ${ours}, printed ${dollars}, {word}"));
        is_equal
    };
    CONFIGURATIONS.iter().filter(matches).count()
}

/// Configurations whose printed peak power is the sum of that of their devices, if an SSD draws so much.
fn watts(ssd_w: f64, lab: &Lab<'_>) -> usize {
    let mut sheets = Sheet::thesis();
    sheets[SSD].active_w = ssd_w;
    let matches = |Printed(load, system, counts, printed, _): &&Printed| {
        let ours = peak_w(&sheets, &counts.map(f64::from));
        let is_near = (ours - printed).abs() <= WATTS_ROUNDING;
        if !is_near {
            lab.say(format!("{load}, {system} {counts:?}: {ours:.1} W with {ssd_w} W for an SSD, printed {printed} W"));
        }
        is_near
    };
    CONFIGURATIONS.iter().filter(matches).count()
}

/// Of any demands and sizes of extents, the share for which power answers SSD.
fn flash_by_power(sheets: &[Sheet], lab: &Lab<'_>) -> f64 {
    let mut stream = Stream::named(lab.seed, "edt-table demands");
    let mut value = |decades: f64, least: f64| least * 10f64.powf(stream.unit() * decades);
    let best = |demand: &Demand, bytes| Objective::Power.best(demand, bytes, sheets, &[u32::MAX; 3]);
    let is_flash = |_: &u32| {
        let demand = Demand { mb_per_s: value(7.0, 1e-5) as f32, ..Demand::random(value(8.0, 1e-5) as f32) };
        best(&demand, value(4.0, 1e6)) == Some(SSD)
    };
    (0..DEMANDS).filter(is_flash).count() as f64 / f64::from(DEMANDS)
}

/// The size of extents with which the printed threshold between SAS and SSD is the model's, in MB.
fn fitting_extent_mb(sheets: &[Sheet; 3]) -> f64 {
    let ours = break_even(&sheets[SAS], &sheets[SSD], Dimension::Random, EXTENT, Objective::Cost);
    ours.map_or(0.0, |ours| PRINTED_THRESHOLD / ours * EXTENT / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_30_all_printed_prices_are_sums_of_prices() {
        let sheets = Sheet::thesis();
        for Printed(load, system, counts, _, dollars) in &CONFIGURATIONS {
            assert_eq!(usd(&sheets, &counts.map(f64::from)), *dollars, "{load}, {system}");
        }
    }

    #[test]
    fn item_28_the_table_and_the_break_evens_are_within_a_thousandth() {
        let sheets = Sheet::thesis();
        for Pair(what, ours, printed) in table(&sheets).iter().chain(&break_evens(&sheets)) {
            assert!((ours / printed - 1.0).abs() <= 1e-3, "{what}: {ours}, printed {printed}");
        }
    }
}
