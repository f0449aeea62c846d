//! `able-complexity`: how much less code the primitives need, counted by `cargo xtask complexity` over the sample
//! extensions.

use serde_json::Value;

use esker_lab_kit::{Figure, Lab, LabError, peer, source_tree};

/// Figures, what they count of which extension, and the thesis' reduction in percent.
const FIGURES: [(&str, &str, &str, Option<f64>); 15] = [
    ("raid1_loc_reduction", "raid1", "lines", Some(76.0)),
    ("raid1_cyclomatic_reduction", "raid1", "cyclomatic", Some(89.0)),
    ("raid1_runtime_reduction", "raid1", "runtime", Some(90.0)),
    ("raid1_completion_reduction", "raid1", "completion", Some(63.0)),
    ("raw_loc_reduction", "raw", "lines", Some(47.0)),
    ("raw_cyclomatic_reduction", "raw", "cyclomatic", Some(63.0)),
    ("raw_runtime_reduction", "raw", "runtime", Some(55.0)),
    ("raw_completion_reduction", "raw", "completion", Some(90.0)),
    ("encryptor_loc_reduction", "encryptor", "lines", Some(12.0)),
    ("encryptor_cyclomatic_reduction", "encryptor", "cyclomatic", Some(20.0)),
    ("encryptor_completion_reduction", "encryptor", "completion", Some(0.0)),
    // The thesis names these two and counts neither.
    ("offload_loc_reduction", "offload", "lines", None),
    ("offload_cyclomatic_reduction", "offload", "cyclomatic", None),
    ("dedup_loc_reduction", "dedup", "lines", None),
    ("dedup_cyclomatic_reduction", "dedup", "cyclomatic", None),
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let args = ["run", "--quiet", "--package", "esker-xtask", "--", "complexity", "--json"];
    let printed = peer::output_in("cargo", &args, &source_tree::root()?)?;
    let counts: Value =
        serde_json::from_str(&printed).map_err(|error| LabError::Data(format!("{printed}: {error}")))?;
    FIGURES
        .into_iter()
        .map(|(id, extension, what, paper)| {
            let of = |variant: &str| counts["extensions"][extension][variant][what].as_f64();
            let missing = || LabError::Data(format!("no {what} of {extension} in {printed}"));
            let (vanilla, able) = (of("vanilla").ok_or_else(missing)?, of("able").ok_or_else(missing)?);
            // Where there was nothing, nothing can be saved.
            let value = if vanilla > 0.0 { (1.0 - able / vanilla) * 100.0 } else { 0.0 };
            lab.say(format!("{id}: {vanilla} -> {able}, {value:.0} %"));
            Ok(Figure::alone(id, value, "% less than by hand").paper(paper))
        })
        .collect()
}
