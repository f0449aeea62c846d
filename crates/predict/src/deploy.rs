//! The chosen stack for the real world: the same layers, with files in place of modelled devices.

use std::collections::BTreeMap;

use esker_base::units::size_text;
use esker_stack::text::TextErrors;
use esker_stack::{DeviceSpec, Spec};

use crate::outcome::{CandidateRun, Comparison, DeviceRun, WRITTEN_BY};

/// Direct I/O to any file system needs multiples of this.
const FILE_GRAIN: u64 = 4096;

/// The stack of the winner, with a sparse file in `folder/data` for each modelled device and a socket in `folder` for
/// each export.
///
/// # Errors
/// If the winner's text does not read back, which would be a bug.
pub fn deployed(comparison: &Comparison, folder: &str) -> Result<Spec, TextErrors> {
    over_files(comparison.winner(), folder)
}

/// The same for any run.
///
/// # Errors
/// As [`deployed`].
pub fn over_files(run: &CandidateRun, folder: &str) -> Result<Spec, TextErrors> {
    let mut spec = Spec::parse(&run.name, run.served.as_ref().unwrap_or(&run.stack))?;
    for device in &mut spec.devices {
        if let Some(model) = run.devices.iter().find(|model| model.name == device.name) {
            *device = over_file(device, model, folder);
        }
    }
    for export in &mut spec.exports {
        export.nbd = Some(format!("unix:{folder}/{}.sock", export.name));
    }
    Ok(spec)
}

fn over_file(device: &DeviceSpec, model: &DeviceRun, folder: &str) -> DeviceSpec {
    let size = model.size_bytes.next_multiple_of(FILE_GRAIN);
    let args = [("path", format!("{folder}/data/{}.img", device.name)), ("size", size_text(size))];
    let args: BTreeMap<_, _> = args.map(|(key, value)| (key.to_string(), value)).into();
    DeviceSpec::new(&device.name, "file", Vec::new(), args, device.at.clone())
}

/// The text of `stack.toml`: what was predicted, then the stack.
///
/// # Errors
/// As [`deployed`].
pub fn stack_toml(comparison: &Comparison, folder: &str) -> Result<String, TextErrors> {
    let run = comparison.winner();
    let mut about = vec![
        format!("Written by {WRITTEN_BY} {}. Replaced by its next run in this folder.", comparison.version),
        format!("{}: {}", run.name, run.what),
        format!("Predicted (simulated, virtual time), seed {}, digest {}:", comparison.seed, run.digest()),
        comparison.pace(),
        format!("reads p99 {}, writes p99 {}, all p99 {}", run.reads.p99(), run.writes.p99(), run.all.p99()),
    ];
    about.extend(about_models(run));
    let spec = deployed(comparison, folder)?;
    Ok(commented(&about, &spec))
}

/// What replaces the models of a run, in lines. Without models there is nothing to say.
pub fn about_models(run: &CandidateRun) -> Vec<String> {
    let models: Vec<String> = run.devices.iter().map(|device| format!("{} {}", device.name, device.kind)).collect();
    if models.is_empty() {
        return Vec::new();
    }
    vec![
        format!("with the models {}.", models.join(", ")),
        "Here each model is replaced by a sparse file: the layers are those that were simulated, the".to_string(),
        "speed is that of the files. Put kind = \"raw\" and a device's path in their place.".to_string(),
    ]
}

/// A stack with lines of comment before it.
pub fn commented(about: &[String], spec: &Spec) -> String {
    let comment: String = about.iter().map(|line| format!("# {line}\n")).collect();
    format!("{comment}\n{}", spec.to_toml())
}
