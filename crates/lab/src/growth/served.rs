//! `esker serve` as an operator has it: its start, and layers that come and go.

use std::fmt::Write as _;

use serde_json::json;

use super::Series;
use esker_lab_kit::serve_process::{PROGRAM, ServeProcess, failed};
use esker_lab_kit::{Figure, Lab, LabError, peer};

/// Layers, and exports: a text has less than 1 MiB.
const PARTS: [u64; 5] = [256, 512, 1_024, 2_048, 4_096];
/// Layers that came and went. A stack has 65,535 numbers for volumes, so the last ones had to be used before.
const CHANGES: [u64; 7] = [1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/// Layers of one chain: a stack has at most 64 devices above each other.
const CHAIN: u64 = 32;

/// What the start of a server costs.
pub(crate) fn starts(rounds: u32, lab: &Lab<'_>) -> Result<[Figure; 2], LabError> {
    let series = |id, text: fn(u64) -> String| {
        let cost = |size| cpu_ms(&ServeProcess::start(lab.scratch, &text(size), &[])?);
        Ok::<_, LabError>(Series::of(rounds, &PARTS, cost)?.figure(id, "ms", lab))
    };
    Ok([series("serve_layers_cpu", layers)?, series("serve_exports_cpu", exports)?])
}

/// What live changes cost in all, and what the server holds after them.
pub(crate) fn changes(rounds: u32, lab: &Lab<'_>) -> Result<[Figure; 2], LabError> {
    let (mut cpu, mut memory) = (Series::default(), Series::default());
    for _ in 0..rounds.div_ceil(2) {
        let mut server = ServeProcess::start(lab.scratch, &layers(1), &[])?;
        let begun = cpu_ms(&server)?;
        let mut made = 0;
        for size in CHANGES {
            while made < size {
                // Their names differ, as those of a script may.
                let name = format!("new{made}");
                server.ask(&json!({ "do": "insert", "device": format!("{name} = stats"), "above": "d0" }))?;
                server.ask(&json!({ "do": "remove", "name": name }))?;
                made += 1;
            }
            cpu.note(size, cpu_ms(&server)? - begun);
            memory.note(size, server.memory_mib("VmRSS")?);
        }
        lab.say(format!("{made} layers came and went"));
    }
    Ok([cpu.figure("live_changes_cpu", "ms", lab), memory.figure("live_changes_memory", "MiB", lab)])
}

/// So many layers, in chains with a device and an export each.
fn layers(count: u64) -> String {
    let mut text = String::new();
    for first in (0..count).step_by(CHAIN as usize) {
        let chain = first / CHAIN;
        let (mut below, end) = (format!("d{chain}"), count.min(first + CHAIN));
        text += &device(chain);
        for layer in first..end {
            let written = write!(text, "[device.p{layer}]\nkind = \"pass\"\non = \"{below}\"\n");
            written.expect("a text takes what is written");
            below = format!("p{layer}");
        }
        text += &export(&format!("e{chain}"), &below);
    }
    text
}

fn device(nth: u64) -> String {
    format!("[device.d{nth}]\nkind = \"memory\"\nsize = \"1MiB\"\n")
}

/// So many devices with an export each.
fn exports(count: u64) -> String {
    let devices = (0..count).map(device);
    devices.chain((0..count).map(|nth| export(&format!("e{nth}"), &format!("d{nth}")))).collect()
}

fn export(name: &str, device: &str) -> String {
    format!("[[export]]\nname = \"{name}\"\ndevice = \"{device}\"\nnbd = \"unix:FOLDER/nbd\"\n")
}

/// Milliseconds of CPU time that the threads of a server have used.
fn cpu_ms(server: &ServeProcess) -> Result<f64, LabError> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).map_err(failed)? {
        // A thread may end while they are looked at.
        let told = std::fs::read_to_string(task.map_err(failed)?.path().join("schedstat")).unwrap_or_default();
        total += run_ns(&told);
    }
    match total {
        0 => Err(peer::fault(PROGRAM, "this kernel does not tell the run time of threads (CONFIG_SCHED_INFO)")),
        total => Ok(total as f64 / 1e6),
    }
}

/// The time that a thread has run: the first number of its `schedstat` (proc_pid_schedstat in the kernel's
/// sched-stats page).
fn run_ns(told: &str) -> u64 {
    told.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use esker_stack::Spec;

    use super::*;

    #[test]
    fn texts_have_as_many_parts_as_was_asked_for() {
        for (text, devices, ends) in [(layers(5), 6, 1), (exports(5), 5, 5)] {
            let spec = Spec::parse("test", &text).unwrap();
            assert!(spec.check(esker_kinds::ALL).is_ok());
            assert_eq!((spec.devices.len(), spec.exports.len()), (devices, ends));
        }
        assert_eq!(Spec::parse("test", &layers(5)).unwrap().exports[0].device, "p4");
    }

    #[test]
    fn the_run_time_of_a_thread_is_its_first_number() {
        assert_eq!([run_ns("12345 678 9\n"), run_ns("")], [12_345, 0]);
    }
}
