//! `packages`: sizes of what is released, and whether equal sources give equal packages. `cargo xtask release check`
//! measures it on the tree from which this program was built.

use std::path::Path;

use serde_json::Value;

use esker_lab_kit::{Figure, Lab, LabError, peer, source_tree};

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let root = source_tree::root()?;
    lab.say("the quick form of the check, over programs that tests have built");
    let quick = check(lab, &root, &["--quick"])?;
    lab.say("programs for packages, and packages of them; the first build takes a quarter of an hour");
    let whole = check(lab, &root, lab.scale(&["--sizes"], &[]))?;
    let of = |figures: &Value, name: &str| {
        figures[name].as_f64().ok_or_else(|| LabError::data(format!("the check of the release printed no {name}")))
    };
    Ok(vec![
        Figure::alone("deb_mib", of(&whole, "deb_mib")?, "MiB"),
        Figure::alone("rpm_mib", of(&whole, "rpm_mib")?, "MiB"),
        Figure::alone("binary_mib", of(&whole, "binary_mib")?, "MiB, stripped"),
        Figure::alone("reproducible", of(&whole, "reproducible")?, "1 if equal sources give equal packages"),
        Figure::alone("quick_minutes", of(&quick, "minutes")?, "minutes"),
    ])
}

fn check(lab: &Lab<'_>, root: &Path, flags: &[&str]) -> Result<Value, LabError> {
    let words = ["run", "--quiet", "--package", "esker-xtask", "--", "release", "check", "--json"];
    let printed = peer::output_in("cargo", &[&words, flags].concat(), root)?;
    lab.say(printed.trim());
    serde_json::from_str(&printed).map_err(|error| LabError::data(format!("{printed}: {error}")))
}
