//! What the elapsed time of a replay says of the program itself, and how far such predictions were from the truth. The
//! table of known errors is a file of this crate; each row names the command that measures it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use esker_report::KnownError;
use serde::{Deserialize, Serialize};

use super::behaviour::WaitClass;
use super::text::{percent, span};
use super::{How, Report};

const TABLE: &str = include_str!("known_error.toml");
/// The one speed at which elapsed times are predictions.
const NATURAL: &str = "natural";

/// What the program itself is expected to take on the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// The stated error: the largest that is stated for `known_errors`. `None`: such predictions were never measured.
    pub error: Option<f64>,
    /// By that error, the program takes at least and at most this many nanoseconds.
    pub range_ns: Option<[u64; 2]>,
    /// What is known of predictions on this file system in this mode: of programs of this class, where errors are known
    /// by class, else by the program that was predicted.
    pub known_errors: Vec<KnownError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    known: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    file_systems: Vec<String>,
    mode: String,
    /// Rules that must be in force.
    rules: Vec<String>,
    /// Of programs of this class alone.
    behaviour: Option<WaitClass>,
    /// The error to state, where that is more than the worst which was measured.
    stated: Option<f64>,
    #[serde(flatten)]
    error: KnownError,
}

impl Row {
    fn is_of(&self, how: &How, file_system: &str, class: WaitClass) -> bool {
        let has = |rule: &String| how.rules.split(' ').any(|one| one == rule);
        let is_of_class = self.behaviour.is_none_or(|behaviour| behaviour == class);
        let is_of_mode = self.mode == how.mode && self.rules.iter().all(has);
        is_of_class && is_of_mode && self.file_systems.iter().any(|one| one == file_system)
    }

    fn stated(&self) -> Option<f64> {
        self.stated.or(self.error.worst)
    }
}

/// Why a replay predicts nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPrediction {
    #[error("it was stopped, or more than 1 % of its calls came out otherwise")]
    Unusable,
    /// I/O that no call of the trace holds, for people.
    #[error("{0}")]
    LeftOut(String),
    #[error("computation was not slept as traced: replay at natural speed")]
    NotNatural,
}

impl Prediction {
    /// What `report` predicts.
    ///
    /// # Errors
    /// [`NoPrediction`].
    pub(crate) fn of(report: &Report) -> Result<Prediction, NoPrediction> {
        if !report.is_usable() {
            return Err(NoPrediction::Unusable);
        }
        if let Some(why) = report.left_out.why_no_time() {
            return Err(NoPrediction::LeftOut(why));
        }
        if report.how.speed != NATURAL {
            return Err(NoPrediction::NotNatural);
        }
        let known = known(&ROWS.known, &report.how, &report.target.file_system, report.behaviour.class());
        let error = known.iter().filter_map(|row| row.stated()).reduce(f64::max);
        let known_errors = known.into_iter().map(|row| row.error.clone()).collect();
        let elapsed_ns = report.elapsed_ns;
        Ok(Prediction { elapsed_ns, error, range_ns: error.map(|error| range(elapsed_ns, error)), known_errors })
    }

    /// For people: the prediction with its stated error, and what is known of such ones.
    pub fn text(&self) -> Vec<String> {
        let elapsed = span(self.elapsed_ns);
        let (Some(error), Some([least, most])) = (self.error, self.range_ns) else {
            return vec![format!("{elapsed}; its error is not known, since none was measured {}", unmeasured())];
        };
        let range = if most == u64::MAX {
            format!("{} or more", span(least))
        } else {
            format!("{} to {}", span(least), span(most))
        };
        let head = format!("{elapsed}, by errors of at most {} {range} of the program itself", percent(error));
        let known = self.known_errors.iter().map(|known| format!("known error: {}", known.text()));
        std::iter::once(head).chain(known).collect()
    }

    /// Whether what the program took itself is in the range that was stated; `None` if none was.
    pub fn holds(&self, original_ns: u64) -> Option<bool> {
        self.range_ns.map(|[least, most]| (least..=most).contains(&original_ns))
    }
}

/// An error is a share of what the program takes: a prediction that is too long by it, or too short by it.
fn range(elapsed_ns: u64, error: f64) -> [u64; 2] {
    let elapsed = elapsed_ns as f64;
    // The cast gives the largest number where a prediction may be too short by all.
    [(elapsed / (1.0 + error)) as u64, (elapsed / (1.0 - error).max(0.0)).ceil() as u64]
}

static ROWS: LazyLock<Table> = LazyLock::new(|| toml::from_str(TABLE).expect("the table is tested"));

/// Rows by class come from programs of all kinds, so they rule out those of single programs.
fn known<'a>(rows: &'a [Row], how: &How, file_system: &str, class: WaitClass) -> Vec<&'a Row> {
    let of = |row: &&Row| row.is_of(how, file_system, class);
    let by_class: Vec<&Row> = rows.iter().filter(of).filter(|row| row.behaviour.is_some()).collect();
    if by_class.is_empty() { rows.iter().filter(of).collect() } else { by_class }
}

/// Of what replays there are errors, for people.
fn unmeasured() -> String {
    let rows = &ROWS.known;
    let systems: BTreeSet<&str> = rows.iter().flat_map(|row| &row.file_systems).map(String::as_str).collect();
    let mode = |row: &Row| match row.rules.as_slice() {
        [] => row.mode.clone(),
        rules => format!("{} with {}", row.mode, rules.join(" and ")),
    };
    let modes: BTreeSet<String> = rows.iter().map(mode).collect();
    let modes: Vec<String> = modes.into_iter().collect();
    let systems: Vec<&str> = systems.into_iter().collect();
    format!("but in mode {} on {}", modes.join(", "), systems.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_figures_and_the_command_that_measures_them() {
        for row in &ROWS.known {
            let (mean, worst) = (row.error.mean.unwrap(), row.error.worst.unwrap());
            assert!(0.0 < mean && mean <= worst, "{}: {mean} {worst}", row.error.class);
            assert!(row.stated.is_none_or(|stated| stated >= worst), "{}: {:?}", row.error.class, row.stated);
            assert!(row.error.source.starts_with("esker lab run artc-"), "{}", row.error.source);
            assert!(!row.file_systems.is_empty(), "{}", row.error.class);
        }
    }

    #[test]
    fn errors_by_class_rule_out_those_of_single_programs() {
        let row = |behaviour, worst| Row {
            file_systems: vec!["ext4".to_string()],
            mode: "root".to_string(),
            rules: vec!["file_rw".to_string()],
            behaviour,
            stated: None,
            error: KnownError {
                class: String::new(),
                against: String::new(),
                mean: Some(0.1),
                worst: Some(worst),
                source: String::new(),
            },
        };
        let rows = [row(None, 0.4), row(Some(WaitClass::Syncs), 0.2), row(Some(WaitClass::Reads), 0.3)];
        let how = How {
            mode: "root".to_string(),
            rules: "file_rw thread_stage".to_string(),
            speed: NATURAL.to_string(),
            fsync: "durable".to_string(),
            exchange: "link".to_string(),
        };
        let stated =
            |file_system, class| known(&rows, &how, file_system, class).iter().map(|row| row.stated()).collect();
        let of: [Vec<Option<f64>>; 3] = WaitClass::ALL.map(|class| stated("ext4", class));
        assert_eq!(of, [vec![Some(0.2)], vec![Some(0.3)], vec![Some(0.4)]]);
        assert!(stated("xfs", WaitClass::Syncs).is_empty());
    }

    #[test]
    fn an_error_is_a_share_of_what_the_program_takes() {
        assert_eq!(range(1000, 0.25), [800, 1334], "800 is predicted 25 % too long, 1334 as much too short");
        assert_eq!(range(1000, 1.0), [500, u64::MAX], "whatever it takes, it may be predicted too short by all of it");
        let stated = |range_ns| Prediction { elapsed_ns: 1000, error: Some(0.25), range_ns, known_errors: Vec::new() };
        let holds = [799, 800, 1334, 1335].map(|original| stated(Some([800, 1334])).holds(original).unwrap());
        assert_eq!(holds, [false, true, true, false]);
        assert_eq!(stated(None).holds(1000), None);
        let head = |most| stated(Some([800, most])).text().remove(0);
        assert!(head(1334).ends_with("800 ns to 1.33 us of the program itself"), "{}", head(1334));
        assert!(head(u64::MAX).ends_with("800 ns or more of the program itself"), "{}", head(u64::MAX));
    }
}
