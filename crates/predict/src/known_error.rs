//! How far predictions were from the truth, for each class of devices. The table is a file of this crate; each row names
//! the command that measures it.

use std::sync::LazyLock;

use esker_stack::Spec;
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("known_error.toml");

/// The error known for a class of devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnownError {
    /// The class.
    pub class: String,
    /// What predictions were compared with.
    pub against: String,
    /// Mean of the relative errors of throughput, median and 99th percentile; `None`: not measured yet.
    pub mean: Option<f64>,
    /// The largest of them.
    pub worst: Option<f64>,
    /// The command that measures it, and where that was done.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    class: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    kinds: Vec<String>,
    against: String,
    mean: Option<f64>,
    worst: Option<f64>,
    source: String,
}

impl KnownError {
    /// For people.
    pub fn text(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match (self.mean, self.worst) {
            (Some(mean), Some(worst)) => format!(
                "{}: mean {}, worst {} against {} ({})",
                self.class,
                percent(mean),
                percent(worst),
                self.against,
                self.source
            ),
            _ => format!("{}: not measured against {}", self.class, self.against),
        }
    }
}

/// What is known of the devices at the bottom of a stack, once for each class.
pub(crate) fn of(spec: &Spec) -> Vec<KnownError> {
    static ROWS: LazyLock<Table> = LazyLock::new(|| toml::from_str(TABLE).expect("the table is tested"));
    let has = |row: &&Row| spec.devices.iter().any(|device| device.on.is_empty() && row.kinds.contains(&device.kind));
    let known = |row: &Row| KnownError {
        class: row.name.clone(),
        against: row.against.clone(),
        mean: row.mean,
        worst: row.worst,
        source: row.source.clone(),
    };
    ROWS.class.iter().filter(has).map(known).collect()
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
    fn a_row_without_figures_says_so() {
        let known = KnownError {
            class: "tape".to_string(),
            against: "a real one".to_string(),
            mean: None,
            worst: None,
            source: String::new(),
        };
        assert_eq!(known.text(), "tape: not measured against a real one");
        let measured = KnownError { mean: Some(0.021), worst: Some(0.1), source: "a command".to_string(), ..known };
        assert_eq!(measured.text(), "tape: mean 2.1 %, worst 10.0 % against a real one (a command)");
    }
}
