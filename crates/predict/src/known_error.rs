//! How far predictions were from the truth, for each class of devices. The table is a file of this crate; each row names
//! the command that measures it.

use std::sync::LazyLock;

use esker_plot::KnownError;
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
    #[serde(flatten)]
    error: KnownError,
}

/// What is known of the devices at the bottom of a stack, once for each class: the mean and the largest of the relative errors
/// of throughput, median and 99th percentile.
pub(crate) fn of(spec: &Spec) -> Vec<KnownError> {
    static ROWS: LazyLock<Table> = LazyLock::new(|| toml::from_str(TABLE).expect("the table is tested"));
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
}
