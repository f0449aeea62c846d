//! `try-any`: `esker try`, as a user runs it, on every block trace at hand and on a few that are made here.
//!
//! Each trace is given to the program with its defaults. `ended` counts the verdicts. `seconds_worst` is the wall
//! time of the slowest run. The cost of a request is the CPU time of a whole run, start and report included, by all
//! requests that it simulated: of every candidate and of the search for its headroom. Files that hold no block
//! requests must be refused as such.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use esker_base::Stream;
use esker_trace_block::{TraceError, TraceReader};

use esker_lab_kit::{Figure, Lab, LabError, cpu_time::CpuTime, peer};

/// The traces of the project, and those that may lie beside it.
const FOLDERS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../data"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"),
];
/// What is in them beside traces: system calls of programs, and texts about the files.
const PASSED_OVER: [&str; 5] = ["programs", "README.md", "COPYRIGHT", "COPYRIGHT.txt", "LICENSE"];

/// A run that takes longer is ended and does not count.
const PATIENCE: Duration = Duration::from_secs(180);

/// Traces that are made: name, requests, mean time between two in microseconds, and whether offsets are multiples of
/// 4 KiB.
const MADE: [(&str, u64, f64, bool); 3] = [
    ("six-a-second.csv", 2_000, 166_667.0, true),
    ("150000-a-second.csv", 150_000, 6.67, true),
    ("unaligned-flood.csv", 43_000, 20.0, false),
];

/// What became of one file.
enum Outcome {
    Verdict { seconds: f64, us_per_request: f64 },
    Foreign,
    None(String),
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let dir = lab.folder()?;
    let mut files = Vec::new();
    let folders = FOLDERS.iter().map(Path::new);
    folders.filter(|folder| folder.is_dir()).try_for_each(|folder| found(folder, &mut files))?;
    files.sort();
    for (name, requests, gap_us, is_aligned) in MADE {
        let file = dir.path().join(name);
        let text = made(lab.seed, requests, gap_us, is_aligned);
        fs::write(&file, text).map_err(LabError::scratch(&dir.path()))?;
        files.push(file);
    }
    let mut outcomes = Vec::new();
    for file in &files {
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let outcome = tried(file, dir.path())?;
        lab.say(&match &outcome {
            Outcome::Verdict { seconds, us_per_request } => {
                format!("{name}: {seconds:.1} s, {us_per_request:.2} us a request")
            }
            Outcome::Foreign => format!("{name}: no block requests"),
            Outcome::None(why) => format!("{name}: NO VERDICT: {why}"),
        });
        outcomes.push(outcome);
    }
    Ok(figures(&outcomes))
}

/// The files below `folder` that may be traces, and the folders that are one.
fn found(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), LabError> {
    let unread = LabError::scratch(&folder);
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        if PASSED_OVER.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.path().is_dir() && !is_trace_folder(&entry.path()) {
            found(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Whether a folder holds the parts of one trace, one for each queue or CPU.
fn is_trace_folder(folder: &Path) -> bool {
    let is_part = |name: &str| name.contains("octf.trace.") || name.contains(".blktrace.");
    fs::read_dir(folder).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| is_part(&entry.file_name().to_string_lossy())))
    })
}

/// Reads and writes all over 64 GiB in the format `alibaba`, with exponential times between them.
fn made(seed: u64, requests: u64, gap_us: f64, is_aligned: bool) -> String {
    let mut random = Stream::named(seed, "try-any");
    let (mut at, grain) = (0.0, if is_aligned { 4096 } else { 512 });
    let line = |_| {
        at += gap_us * random.exponential();
        let op = if random.chance(0.7) { 'R' } else { 'W' };
        format!("0,{op},{},4096,{}\n", random.below(64 << 30) / grain * grain, 1_577_808_000_000_000 + at as u64)
    };
    (0..requests).map(line).collect()
}

/// Runs the program on one file.
fn tried(file: &Path, dir: &Path) -> Result<Outcome, LabError> {
    let fault = |error: io::Error| peer::fault("esker try", error);
    let own = std::env::current_exe().map_err(fault)?;
    let (out, words) = (dir.join("out"), dir.join("words"));
    let (start, before) = (Instant::now(), CpuTime::now().children);
    let mut command = Command::new(own);
    command
        .arg("try")
        .arg(file)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(fs::File::create(&words).map_err(fault)?);
    let mut child = command.spawn().map_err(fault)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(fault)? {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().and_then(|()| child.wait()).map_err(fault)?;
            return Ok(Outcome::None(format!("it did not end in {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), CpuTime::now().children - before);
    if !status.success() {
        let said = fs::read_to_string(&words).unwrap_or_default();
        return Ok(if is_foreign(file) { Outcome::Foreign } else { Outcome::None(said.trim().to_string()) });
    }
    let text = fs::read_to_string(out.join("result.json")).map_err(fault)?;
    let result: serde_json::Value = serde_json::from_str(&text).map_err(LabError::data)?;
    let runs = result["runs"].as_array().ok_or_else(|| peer::fault("esker try", "no runs in its result"))?;
    let played: u64 = runs.iter().filter_map(|run| run["played"].as_u64()).sum();
    Ok(Outcome::Verdict { seconds, us_per_request: cpu * 1e6 / played.max(1) as f64 })
}

/// Whether a file is known to hold no block requests.
fn is_foreign(file: &Path) -> bool {
    let Ok(bytes) = fs::File::open(file) else { return false };
    let opened = TraceReader::open(&file.display().to_string(), Box::new(bytes), None);
    matches!(opened, Err(TraceError::Foreign { .. }))
}

fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    let verdict = |outcome: &Outcome| match outcome {
        Outcome::Verdict { seconds, us_per_request } => Some((*seconds, *us_per_request)),
        _ => None,
    };
    let (seconds, costs): (Vec<f64>, Vec<f64>) = outcomes.iter().filter_map(verdict).unzip();
    let foreign = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Foreign)).count();
    let worst = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
    let best = costs.iter().copied().fold(f64::NAN, f64::min);
    vec![
        Figure::alone("traces", (outcomes.len() - foreign) as f64, "files that may hold block requests"),
        Figure::alone("ended", seconds.len() as f64, "files with a verdict"),
        Figure::alone("foreign", foreign as f64, "files refused because they hold no block requests"),
        Figure::alone("seconds_worst", worst(&seconds), "s"),
        Figure::alone("us_per_request_best", best, "us of CPU time"),
        Figure::alone("us_per_request_worst", worst(&costs), "us of CPU time"),
        Figure::alone("us_per_request_worst_over_best", worst(&costs) / best, "ratio"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_verdict_is_missing_from_ended_and_what_is_foreign_from_traces() {
        let verdict = |seconds, us_per_request| Outcome::Verdict { seconds, us_per_request };
        let outcomes = [verdict(1.0, 2.0), Outcome::Foreign, verdict(3.0, 0.5), Outcome::None("no".to_string())];
        let value = |id: &str| figures(&outcomes).into_iter().find(|figure| figure.id == id).unwrap().value;
        assert_eq!(["traces", "ended", "foreign"].map(value), [3.0, 2.0, 1.0]);
        assert_eq!([value("seconds_worst"), value("us_per_request_worst_over_best")], [3.0, 4.0]);
    }

    #[test]
    fn made_traces_have_the_rate_and_alignment_that_their_names_say() {
        let text = made(1, 1000, 10.0, false);
        let last: u64 = text.lines().last().unwrap().rsplit(',').next().unwrap().parse().unwrap();
        let span = last - 1_577_808_000_000_000;
        assert!((8_000..12_000).contains(&span), "{span}");
        assert!(text.lines().any(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap() % 4096 != 0));
    }
}
