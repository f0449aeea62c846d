//! The experiment in a guest: this program, packed into it, runs `ingens-damon` there, and the guest's console brings
//! the report back.

use std::collections::BTreeMap;
use std::time::Duration;

use esker_guest::image::{Image, Recipe};
use esker_guest::log::Log;
use esker_guest::machine::{Guest, Power};
use esker_lab_kit::{Figure, Lab, LabError, peer};

use super::{IN_GUEST, MEASURES, RULES};

/// Debian's kernel 6.1 has no DAMON; the newer one has it for processes too.
const IMAGE: Recipe = Recipe {
    name: "damon-1",
    kernels: &["linux-image-6.12-amd64", "linux-image-amd64"],
    packages: &["busybox-static", "util-linux", "libc6", "libgcc-s1"],
    programs: &["busybox", "setpriv"],
    modules: &[],
};
const MEMORY_MIB: u32 = 2048;
/// A guest that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1500);
/// Before each line of the report.
const WORD: &str = "REPORT ";
const PROGRAM: &str = "the guest";

/// Runs it in a guest.
///
/// # Errors
/// [`LabError::Rival`]: without qemu, or without Debian's packages; what the guest says.
pub(super) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let failed = |error: String| peer::fault(PROGRAM, error);
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let folder = lab.folder()?;
    let image = Image::prepare(folder.path(), &IMAGE).map_err(failed)?;
    let (programs, job) = (vec![("esker", own.as_path())], job(lab));
    let (library, devices) = ("", Vec::new());
    let guest = Guest { image: &image, programs, library, job, devices, cpus: 2, memory_mib: MEMORY_MIB, limit: LIMIT };
    let log = guest.run(folder.path(), &mut |line| {
        lab.say(format!("guest: {line}"));
        Ok(Power::On)
    });
    let log = log.map_err(failed)?;
    lab.say(format!("the guest's kernel: {}; {:.0} s", log.kernel, log.seconds));
    figures(&log)
}

fn job(lab: &Lab<'_>) -> String {
    let (quick, seed) = (if lab.quick { "--quick" } else { "" }, lab.seed);
    format!(
        "mount -t tracefs tracefs /sys/kernel/tracing\n\
         cd /tmp\n\
         (esker lab run ingens-damon {quick} --seed {seed} --json 2>&1 >/tmp/report) |\n\
         while read -r line; do echo \"EVENT $line\"; done\n\
         sed 's/^/{WORD}/' /tmp/report\n"
    )
}

/// The figures in the report that came over the console.
fn figures(log: &Log) -> Result<Vec<Figure>, LabError> {
    let report: String = log.text.lines().filter_map(|line| line.strip_prefix(WORD)).collect();
    let told = values(&report).ok_or_else(|| {
        let last: Vec<&str> = log.text.lines().rev().take(8).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        peer::fault(PROGRAM, format!("it brings no report; its last words: {}", last.join(" | ")))
    })?;
    let mut figures = vec![Figure::alone(IN_GUEST.0, 1.0, IN_GUEST.1)];
    for rule in &RULES {
        let values = MEASURES.map(|(name, _)| told.get(&format!("{name}_{}", rule.word)).copied());
        figures.extend(super::of_rule(rule, values));
    }
    Ok(figures)
}

/// Values by id; none unless there is a report with figures.
fn values(report: &str) -> Option<BTreeMap<String, f64>> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    let figures = report.get("figures")?.as_array()?;
    let value =
        |figure: &serde_json::Value| Some((figure.get("id")?.as_str()?.to_string(), figure.get("value")?.as_f64()?));
    figures.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Log {
        let mut log = Log::default();
        lines.iter().for_each(|line| drop(log.add(line)));
        log
    }

    #[test]
    fn figures_come_over_the_console_between_other_lines() {
        let lines = [
            "KERNEL 6.12",
            "REPORT {\"figures\": [{\"id\": \"in_guest\", \"value\": 0.0},",
            "[   12.3] a word of the kernel's",
            "REPORT  {\"id\": \"bloat_ours\", \"value\": 0.01}]}",
            "DONE",
        ];
        let figures = figures(&log(&lines)).unwrap();
        let found: Vec<(&str, f64)> = figures.iter().map(|figure| (figure.id.as_str(), figure.value)).collect();
        assert_eq!(found, [("in_guest", 1.0), ("bloat_ours", 0.01)]);
    }

    #[test]
    fn a_guest_without_a_report_is_quoted() {
        let error = figures(&log(&["EVENT no such command", "DONE"])).unwrap_err().to_string();
        assert!(error.contains("no such command"), "{error}");
    }
}
