//! The best order of extensions that may all reach everything, and its explanation.

use esker_compose::search::branch::{LOOKS_MAX, compose};
use esker_compose::{Analysis, Built, Declaration};

use super::cpu_ms;
use esker_lab_kit::{Figure, Lab, LabError};

const EXTENSIONS: usize = 12;
const VOLUMES: usize = 8;

pub(crate) fn figure(rounds: u32, lab: &Lab<'_>) -> Result<Figure, LabError> {
    let id = "compose_12_seconds";
    let least = (0..rounds).try_fold(f64::INFINITY, |least, _| Ok::<f64, LabError>(seconds(EXTENSIONS)?.min(least)))?;
    lab.say(format!("{id}: {least:.3}"));
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
    let all = (0..VOLUMES).map(|volume| format!("\"v{volume}\"")).collect::<Vec<_>>().join(", ");
    let volumes = (0..VOLUMES).map(|volume| format!("[volume.v{volume}]\n"));
    let domains = format!("input = [{all}]\noutput = [{all}]\nproperties = [\"mutator\", \"generator\"]\n");
    let extension = |at| format!("[extension.e{at}]\ngoal = \"g{}\"\n{domains}", at % 3);
    let goals = "goals = [\"g0\", \"g1\", \"g2\"]\n".to_string();
    [goals].into_iter().chain(volumes).chain((0..extensions).map(extension)).collect()
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
