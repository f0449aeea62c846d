//! The twin of a stack for virtual time: the same layers, each on a slot that takes its measured CPU time, and measured
//! devices in place of those that are not models.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use esker_base::Nanos;
use esker_base::units::{parse_size, size_text};
use esker_block::{Build, Kind, Worlds};
use esker_stack::{DeviceSpec, Spec};

use super::{Calibration, CalibrationError, ClientCost, DeviceTimes, cpu, measured};

/// All kinds, with layers that take no CPU time by themselves, and the two that twins are made of.
pub(crate) fn kinds() -> &'static [&'static Kind] {
    static OWNED: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        let free = |kind: &&Kind| match kind.build {
            Build::Layer(_) => Kind { cost: Nanos::ZERO, ..**kind },
            Build::Device(_) => **kind,
        };
        esker_kinds::ALL.iter().map(free).chain([cpu::KIND, measured::KIND]).collect()
    });
    static LIST: LazyLock<Vec<&'static Kind>> = LazyLock::new(|| OWNED.iter().collect());
    &LIST
}

/// A stack text for virtual time, and what its requests cost to make.
pub(crate) struct Twin {
    pub spec: Spec,
    pub client: ClientCost,
}

/// The twin of `spec`, which is the stack of `candidate`.
///
/// # Errors
/// A device that exists only in the real world and was not measured, or has no size in the text.
pub(crate) fn of(calibration: &Calibration, candidate: &str, spec: &Spec) -> Result<Twin, CalibrationError> {
    let (mut devices, mut measured) = (Vec::new(), None);
    for device in &spec.devices {
        match device.on.is_empty() {
            true => {
                let (leaf, times) = leaf(calibration, candidate, device)?;
                devices.push(leaf);
                measured = measured.or(times);
            }
            false => layer(calibration, spec, device, &mut devices),
        }
    }
    let times = measured.or_else(|| calibration.device("null", 0));
    let client = ClientCost::measured(times, &calibration.wakes, measured.is_none());
    Ok(Twin { spec: Spec { devices, exports: spec.exports.clone(), ..Spec::default() }, client })
}

/// Parameters that change how long an answer takes: a device that has one is no longer the one that was measured.
const TIMING: [&str; 3] = ["latency", "defer", "direct"];

/// The twin of a device, and the times that it stands for.
fn leaf<'a>(
    calibration: &'a Calibration,
    candidate: &str,
    device: &DeviceSpec,
) -> Result<(DeviceSpec, Option<&'a DeviceTimes>), CalibrationError> {
    let (candidate, name, kind) = (candidate.to_string(), device.name.clone(), device.kind.clone());
    let size = device.args.get("size").and_then(|text| parse_size(text).ok());
    let is_plain = !TIMING.iter().any(|param| device.args.contains_key(*param));
    let own = device.args.get("path").and_then(|path| calibration.device_at(&kind, path));
    let times = own.or_else(|| calibration.device(&kind, size.unwrap_or_default())).filter(|_| is_plain);
    let size = size.or(own.map(|own| own.size));
    let is_real = esker_kinds::ALL.iter().any(|k| k.name == kind && k.worlds == Worlds::RealOnly);
    match (times, size) {
        (Some(times), Some(size)) => {
            let json = serde_json::to_string(times).expect("all keys are texts");
            let args = BTreeMap::from([("size".to_string(), size_text(size)), ("times".to_string(), json)]);
            let twin = DeviceSpec::new(&name, measured::KIND.name, Vec::new(), args, device.at.clone());
            Ok((twin, Some(times)))
        }
        (Some(_), None) => Err(CalibrationError::Size { candidate, device: name }),
        (None, _) if is_real => Err(CalibrationError::NotMeasured { candidate, device: name, kind }),
        (None, _) => Ok((device.clone(), None)),
    }
}

/// A name for the twin's device number `at` that no device of `spec` has.
fn unused(spec: &Spec, at: usize) -> String {
    let mut names = (0..=spec.devices.len()).map(|n| format!("cpu-{at}-{n}"));
    let is_free = |name: &String| spec.devices.iter().all(|device| device.name != *name);
    names.find(is_free).expect("one more name than devices")
}

/// Puts a layer on slots that take its time.
fn layer(calibration: &Calibration, spec: &Spec, device: &DeviceSpec, devices: &mut Vec<DeviceSpec>) {
    let measured = calibration.kind(&device.kind).map(|cost| (cost.ns, cost.ns_per_kib));
    let stated = || esker_kinds::ALL.iter().find(|kind| kind.name == device.kind).map(|kind| (kind.cost.0 as f64, 0.0));
    let (ns, ns_per_kib) = measured.or_else(stated).unwrap_or_default();
    let mut on = Vec::new();
    for lower in &device.on {
        let name = unused(spec, devices.len());
        let args =
            BTreeMap::from([("ns".to_string(), ns.to_string()), ("ns_per_kib".to_string(), ns_per_kib.to_string())]);
        devices.push(DeviceSpec::new(&name, cpu::KIND.name, vec![lower.clone()], args, device.at.clone()));
        on.push(name);
    }
    let mut twin = device.clone();
    twin.on = on;
    devices.push(twin);
}
