//! The best order of extensions that may all reach everything, and its explanation.

use std::fmt::Write;

use esker_compose::search::branch::{LOOKS_MAX, compose};
use esker_compose::{Analysis, Built, Declaration};

use super::cpu_ms;
use esker_lab_kit::{Figure, LabError};

const EXTENSIONS: usize = 12;
const VOLUMES: usize = 8;

pub fn figure(rounds: u32, progress: &mut dyn FnMut(&str)) -> Result<Figure, LabError> {
    let id = "compose_12_seconds";
    let mut least = f64::INFINITY;
    for _ in 0..rounds {
        least = least.min(seconds(EXTENSIONS)?);
    }
    progress(&format!("{id}: {least:.3}"));
    Ok(Figure::alone(id, least, "s of CPU time"))
}

/// Seconds of CPU time until a text with so many extensions is read, ordered and explained.
fn seconds(extensions: usize) -> Result<f64, LabError> {
    let text = text(extensions);
    let (took, explained) = cpu_ms(|| -> Result<usize, String> {
        let declared = Declaration::parse("growth", &text, &Built::default()).map_err(|error| error.to_string())?;
        let found = compose(&declared.problem(), LOOKS_MAX).map_err(|error| format!("{error:?}"))?;
        Ok(Analysis::of(&declared.setting, &found.order, &declared.priorities).extensions.len())
    });
    match explained.map_err(LabError::Data)? {
        all if all == extensions => Ok(took / 1e3),
        some => Err(LabError::Data(format!("{some} of {extensions} extensions were explained"))),
    }
}

/// Extensions over all volumes, which every request may reach: what a text means that narrows no domain.
fn text(extensions: usize) -> String {
    let mut text = "goals = [\"g0\", \"g1\", \"g2\"]\n".to_string();
    let volumes: Vec<String> = (0..VOLUMES).map(|volume| format!("\"v{volume}\"")).collect();
    let all = volumes.join(", ");
    let mut tell = |line: String| writeln!(text, "{line}").expect("a text takes what is written");
    (0..VOLUMES).for_each(|volume| tell(format!("[volume.v{volume}]")));
    for extension in 0..extensions {
        tell(format!("[extension.e{extension}]\ngoal = \"g{}\"", extension % 3));
        tell(format!("input = [{all}]\noutput = [{all}]\nproperties = [\"mutator\", \"generator\"]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_reaches_every_volume() {
        let declared = Declaration::parse("test", &text(3), &Built::default()).unwrap();
        let setting = &declared.setting;
        assert_eq!((setting.volumes.len(), setting.extensions.len()), (VOLUMES, 3));
        assert!(setting.extensions.iter().all(|extension| extension.input().len() == VOLUMES));
        assert!(setting.extensions.iter().all(|extension| extension.output().len() == VOLUMES));
        assert!(seconds(3).unwrap() > 0.0);
    }
}
