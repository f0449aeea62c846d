//! `fs-harness`: whether the harness of file systems finds every planted flaw, and what it finds in sound ones. The
//! rate of crash states that it judges stands beside.
//!
//! The harness is a tool of tests, which no part of the product links. So a program of its own measures.

use esker_lab_kit::{Figure, Lab, LabError, peer};

/// The program, for cargo.
const PACKAGE: [&str; 6] = ["run", "--quiet", "--release", "--package", "esker-it", "--"];

/// Units of figures: those of the program are words of its lines.
const UNITS: [&str; 11] = [
    "mutants",
    "by ram",
    "by whole without a flaw",
    "states that a crash can leave",
    "states/s",
    "scripts",
    "runs with a fault",
    "cycles of filling and emptying",
    "broken promises",
    "states that were mounted",
    "objects that were judged",
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    lab.say("building the harness, and judging with it");
    let seed = lab.seed.to_string();
    let mut args: Vec<&str> = [&PACKAGE[..], &["harness", "--seed", &seed]].concat();
    args.extend(lab.quick.then_some("--quick"));
    let told = peer::output("cargo", &args)?;
    let figures = told.lines().filter_map(|line| line.strip_prefix("FIGURE ")).map(figure).collect::<Result<_, _>>()?;
    match told.lines().find_map(|line| line.strip_prefix("ABSENT ")) {
        None => Ok(figures),
        Some(why) => Err(LabError::Absent { figures, why: format!("{why}; run it as root") }),
    }
}

/// A figure of a line: name, value, unit.
fn figure(line: &str) -> Result<Figure, LabError> {
    let broken = || peer::fault("esker-it", format!("no figure: {line}"));
    let (name, rest) = line.split_once(' ').ok_or_else(broken)?;
    let (value, unit) = rest.split_once(' ').ok_or_else(broken)?;
    let value: f64 = value.parse().map_err(|_| broken())?;
    let unit = UNITS.into_iter().find(|known| *known == unit).unwrap_or("");
    Ok(Figure::alone(name, value, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_figure() {
        assert_eq!(figure("states_per_s 1234.5 states/s").unwrap(), Figure::alone("states_per_s", 1234.5, "states/s"));
        assert!(figure("states_per_s many states/s").is_err() && figure("alone").is_err());
    }
}
