//! How far predictions were from the truth, for each class of devices. The table is a file of this crate; each row
//! names the command that measures it.

use std::sync::LazyLock;

use esker_report::KnownError;
use esker_stack::Spec;
use serde::Deserialize;

const TABLE: &str = include_str!("known_error.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    known: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    kinds: Vec<String>,
    /// Since when its figures stand, whatever its experiment finds later.
    frozen: Option<String>,
    /// The loads from which they were taken.
    jobs: Option<String>,
    #[serde(flatten)]
    error: KnownError,
}

/// A stated error that stands: an experiment judges it with other loads than those from which it was taken, because an
/// error that follows what is measured cannot be wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// The day on which it was taken.
    pub on: String,
    /// The loads from which it was taken.
    pub jobs: String,
    /// Mean of the relative errors that is stated.
    pub mean: f64,
    /// The largest relative error that is stated.
    pub worst: f64,
}

/// The frozen row that the experiment of this name judges, if there is one.
pub fn frozen(experiment: &str) -> Option<Frozen> {
    let command = format!("esker lab run {experiment}");
    let row = ROWS.known.iter().find(|row| row.error.source.starts_with(&command) && row.frozen.is_some())?;
    Some(Frozen { on: row.frozen.clone()?, jobs: row.jobs.clone()?, mean: row.error.mean?, worst: row.error.worst? })
}

static ROWS: LazyLock<Table> = LazyLock::new(|| toml::from_str(TABLE).expect("the table is tested"));

/// What is known of the devices at the bottom of a stack, once for each class: the mean and the largest of the relative
/// errors of throughput, median and 99th percentile.
pub(crate) fn of(spec: &Spec) -> Vec<KnownError> {
    let has = |row: &&Row| spec.devices.iter().any(|device| device.on.is_empty() && row.kinds.contains(&device.kind));
    ROWS.known.iter().filter(has).map(|row| row.error.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_devices_has_its_rows_and_layers_have_none() {
        let of = |text: &str| of(&Spec::parse("test", text).unwrap());
        let memory = of("vol = memory size=1MiB | pass @");
        assert_eq!(memory.iter().map(|known| known.class.as_str()).collect::<Vec<_>>(), ["memory"]);
        let disks = of("a = disk-model; b = disk-model; s = concat on a,b; export vol = s");
        assert!(!disks.is_empty() && disks.iter().all(|known| known.class == "disk model"), "{disks:?}");
    }

    #[test]
    fn a_frozen_row_says_since_when_and_from_which_loads() {
        let found = frozen("paced-ext4").unwrap();
        assert_eq!((found.on.as_str(), found.mean, found.worst), ("2026-11-23", 0.066, 0.336));
        assert!(found.jobs.contains("4 KiB") && found.jobs.contains("70 % reads"), "{}", found.jobs);
        assert_eq!(frozen("try-truth"), None, "those rows follow what is measured");
        for row in &ROWS.known {
            assert_eq!(row.frozen.is_some(), row.jobs.is_some(), "{}", row.error.source);
        }
    }
}
