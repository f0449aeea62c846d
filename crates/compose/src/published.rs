//! What the theory says of the thesis' six sample extensions ([`crate::samples::SIX`]), as tables: tests and
//! experiments compare with them.

use crate::exact::ModelRun;
use crate::goals::Priorities;
use crate::grid::{self, Claim};
use crate::set::ExtId;
use crate::setting::Setting;

/// Classes of orders with equal last handlers, and how many there are if all volumes with several handlers count as
/// equal.
pub const CLASSES: (usize, usize) = (57, 20);

/// All pairs: top, bottom, cell, what the grid says of D, F and D_r, and the exact last handlers of D, F, D_r and M.
const PAIRS: &str = "
BV DD (1,3) BV BV DD     BV BV DD -
BV IO (2,3) IO BV .      IO BV split -
BV MF (2,3) x MF .       BV MF split -
BV IS (2,3) IS IS .      IS IS split -
BV LC (2,3) LC x .       LC BV split LC
DD BV (1,1) BV BV x      BV BV split -
DD IO (1,1) IO . x       IO none split -
DD MF (1,1) . MF DD      none MF DD -
DD IS (1,1) IS IS DD     IS IS DD -
DD LC (1,1) LC . DD      LC none DD LC
IO BV (3,1) x BV .       IO BV split -
IO DD (1,2) DD . DD      DD none DD -
IO MF (1,1) IO MF .      IO MF split -
IO IS (3,1) x IS .       split IS split -
IO LC (2,1) IO . .       IO none split -
MF BV (3,2) BV BV .      BV BV split -
MF DD (1,1) . MF DD      none MF DD -
MF IO (1,1) IO MF .      IO MF split -
MF IS (3,2) IS IS .      IS IS none -
MF LC (1,1) LC MF .      LC MF none LC
IS BV (2,2) BV BV .      BV BV split -
IS DD (1,1) IS IS DD     IS IS DD -
IS IO (2,3) IO IS .      IO IS split -
IS MF (2,3) x MF .       IS MF none -
IS LC (2,3) LC x .       LC IS none LC
LC BV (3,3) mix BV .     split BV split LC
LC DD (1,1) LC . DD      LC none DD LC
LC IO (2,3) mix . .      split none split LC
LC MF (1,1) LC MF .      LC MF none LC
LC IS (3,3) mix IS .     split IS none LC
";

fn grid_word(setting: &Setting, claim: Claim) -> String {
    match claim {
        Claim::Dominant(id) => setting.extension(id).name().to_string(),
        Claim::Nobody => "x".to_string(),
        Claim::Mixed => "mix".to_string(),
        Claim::Silent => ".".to_string(),
    }
}

/// The last handlers of requests to a volume, in the words of the tables.
pub fn exact_word(setting: &Setting, run: &ModelRun<'_>, volume: &str) -> String {
    let handlers = run.handlers(setting.find_volume(volume).unwrap());
    match handlers.dominant() {
        Some(id) => setting.extension(id).name().to_string(),
        None if handlers.is_empty() => "-".to_string(),
        None if handlers.extensions.is_empty() => "none".to_string(),
        None => "split".to_string(),
    }
}

/// A pair, top first, as a row of the table says it.
///
/// # Panics
/// If an extension of that name is not in `setting`; so do all functions here.
pub fn pair_words(setting: &Setting, names: &str) -> String {
    let order = named(setting, names);
    let (row, column) = grid::cell(setting, order[0], order[1]).numbers();
    let claims = grid::pair(setting, order[0], order[1]);
    let run = ModelRun::of(setting, &order);
    let grid = claims[..3].iter().map(|claim| grid_word(setting, *claim));
    let exact = ["D", "F", "D_r", "M"].map(|volume| exact_word(setting, &run, volume));
    let words: Vec<String> = [format!("({row},{column})")].into_iter().chain(grid).chain(exact).collect();
    format!("{names} {}", words.join(" "))
}

fn named(setting: &Setting, names: &str) -> Vec<ExtId> {
    names.split_whitespace().map(|name| setting.find(name).expect("the sample extensions are there")).collect()
}

/// The rows of the table of all 30 pairs, in words that [`pair_words`] gives.
pub fn pairs() -> impl Iterator<Item = String> {
    let rows = PAIRS.lines().filter(|line| !line.is_empty());
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Priorities, best ranks, an optimal order, how many orders are optimal.
pub type List = (&'static str, [u32; 4], &'static str, u64);

/// Nine lists over the six sample extensions (5.4.4).
pub const LISTS: [List; 9] = [
    ("rel space energy perf", [1, 2, 0, 0], "BV MF IS IO DD LC", 18),
    ("rel energy space perf", [1, 1, 0, 0], "BV DD MF IS IO LC", 34),
    ("rel perf space energy", [1, 1, 1, 0], "BV IO DD MF IS LC", 85),
    ("space energy rel perf", [2, 0, 1, 0], "BV MF IS IO DD LC", 18),
    ("space perf rel energy", [2, 1, 0, 0], "BV IS IO DD MF LC", 24),
    ("energy space rel perf", [1, 0, 1, 0], "BV DD MF IS IO LC", 34),
    ("energy perf rel space", [1, 1, 0, 0], "BV DD IS IO MF LC", 26),
    ("perf rel space energy", [2, 0, 1, 0], "BV IO DD IS MF LC", 59),
    ("perf space rel energy", [2, 1, 0, 0], "BV IO DD IS MF LC", 59),
];

/// The same if no extension may starve.
pub const LISTS_NONE_STARVED: [List; 9] = [
    ("rel space energy perf", [1, 1, 0, 1], "BV IO DD MF IS LC", 85),
    ("rel energy space perf", [1, 0, 1, 1], "BV IO DD MF IS LC", 85),
    ("rel perf space energy", [1, 1, 1, 0], "BV IO DD MF IS LC", 85),
    ("space energy rel perf", [1, 0, 1, 1], "BV IO DD MF IS LC", 85),
    ("space perf rel energy", [1, 2, 0, 0], "BV IO DD IS MF LC", 59),
    ("energy space rel perf", [0, 1, 1, 1], "BV IO DD MF IS LC", 85),
    ("energy perf rel space", [0, 2, 0, 1], "BV IO DD IS MF LC", 59),
    ("perf rel space energy", [2, 0, 1, 0], "BV IO DD IS MF LC", 59),
    ("perf space rel energy", [2, 1, 0, 0], "BV IO DD IS MF LC", 59),
];

/// A list's goals by their full names.
pub fn priorities(goals: &str) -> Priorities {
    let long = |word: &str| match word {
        "rel" => "reliability".to_string(),
        "perf" => "performance".to_string(),
        word => word.to_string(),
    };
    Priorities { general: goals.split(' ').map(long).collect(), ..Priorities::default() }
}
