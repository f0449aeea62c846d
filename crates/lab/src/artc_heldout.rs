//! `artc-heldout`: predictions of programs that no stated error was learned from. The programs are those of
//! `data/programs/suite.toml`. In alphabetical order, those at odd places (the first, the third, ...) are the half from
//! which errors by class are learned, and the others are held out. The place within a half tells the target: ext4, XFS
//! and Btrfs over catalogue models of flash, a disk and flash, in turn.
//!
//! Each program is recorded (`esker trace record`) on this machine's own file system, a few times, and the shortest
//! recording counts. Then the program itself and its prediction (`esker trace predict --prepared`) run on the target in
//! turns, each on a new file system. Both commands are processes of their own, apart from the models of this one. The
//! program's own files are not in memory there; its libraries are. The error is that of the whole process.
//!
//! Recordings of a slower device would serve less: a thread that waits for the I/O of another one by a lock seems to
//! compute.
//!
//! `--quick` judges the held-out half by the table of known errors. The long form first measures the other half. It
//! prints that table's rows: mean and worst by class, and the error to state. That is [`MARGIN`] times the worst,
//! because a half of another dozen programs has a worse one as often as not. It is at least [`LEAST`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use esker_trace_calls::etrace::{self, Limits};
use esker_trace_calls::{Snapshot, Trace};
use esker_trace_replay::init::TREE;
use esker_trace_replay::report::behaviour::{Behaviour, WaitClass};
use serde::Deserialize;
use tempfile::TempDir;

use crate::artc::mounted::{FileSystem, Mounted};
use crate::artc::{afresh, compiled};
use esker_lab_kit::timing::{self, mean, worst};
use esker_lab_kit::{Figure, Lab, LabError, peer};

const SUITE: &str = include_str!("../data/programs/suite.toml");
/// What the error to state is of the worst that was measured.
const MARGIN: f64 = 1.5;
const LEAST: f64 = 0.05;
/// Recordings of a program, and pairs of a run and a prediction.
const RECORDINGS: u32 = 3;
const QUICK_RECORDINGS: u32 = 2;
const PAIRS: u32 = 5;
const QUICK_PAIRS: u32 = 3;
/// Seconds after which a program is ended.
const LIMIT: &str = "240";
/// Debian's programs, whatever else is installed.
const SEARCH: &str = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
const INODES: u32 = 100_000;
/// Exit status of `esker trace predict` where a replay predicts nothing.
const NO_PREDICTION: i32 = 4;

const PLACES: [(&str, FileSystem, &str); 3] = [
    ("ext4-sata", FileSystem::Ext4, "vol = ssd-model profile=ssd-sata-2021 content=memory size=4GiB"),
    ("xfs-disk", FileSystem::Xfs, "vol = disk-model profile=hdd-7200-2021 content=memory size=4GiB"),
    ("btrfs-nvme", FileSystem::Btrfs, "vol = ssd-model profile=ssd-nvme-2022 content=memory size=4GiB"),
];

#[derive(Deserialize)]
struct Suite {
    program: Vec<Entry>,
}

/// A program of the suite.
#[derive(Clone, Deserialize)]
struct Entry {
    name: String,
    needs: Vec<String>,
    packages: Vec<String>,
    prepare: String,
    run: String,
}

/// The half from which errors are learned, and the one that is held out.
fn halves() -> Result<[Vec<Entry>; 2], LabError> {
    let suite: Suite = toml::from_str(SUITE).map_err(|error| LabError::Data(format!("suite.toml: {error}")))?;
    let mut programs = suite.program;
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    let half =
        |rest| programs.iter().enumerate().filter(|(at, _)| at % 2 == rest).map(|(_, one)| one.clone()).collect();
    Ok([half(0), half(1)])
}

/// A program and its prediction on a target.
struct Row {
    name: String,
    class: WaitClass,
    /// Of the prediction, too long if positive; `None` if nothing was predicted.
    error: Option<f64>,
    stated: Option<f64>,
    original_ms: f64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mounts = PLACES.map(|(_, system, text)| Mounted::with_inodes(lab, system, text, INODES));
    let mounts = mounts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let [learned, held_out] = halves()?;
    let mut figures = Vec::new();
    if !lab.quick {
        figures.extend(learn(&measured(&learned, &mounts, lab)?, lab));
    }
    figures.extend(judge(&measured(&held_out, &mounts, lab)?));
    Ok(figures)
}

/// All programs of a half. One that fails is named and left out.
fn measured(half: &[Entry], mounts: &[Mounted], lab: &Lab<'_>) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (at, entry) in half.iter().enumerate() {
        let (place, on) = (PLACES[at % PLACES.len()].0, &mounts[at % PLACES.len()]);
        match Recorded::new(entry, lab).and_then(|program| program.row(on, lab)) {
            Ok(row) => {
                let (name, class, took, percent) =
                    (&row.name, row.class.name(), row.original_ms, |share| share * 100.0);
                let error =
                    row.error.map_or("predicts nothing".to_string(), |error| format!("{:+.1} %", percent(error)));
                let stated = row.stated.map_or("none".to_string(), |stated| format!("{:.1} %", percent(stated)));
                lab.say(format!("{name}, {place}, {class}: {took:.0} ms, {error}, stated {stated}"));
                rows.push(row);
            }
            Err(error) => lab.say(format!("{}, {place}: not measured: {error}", entry.name)),
        }
    }
    Ok(rows)
}

/// The errors by class, as figures and as rows of the table of known errors.
fn learn(rows: &[Row], lab: &Lab<'_>) -> Vec<Figure> {
    let mut classes: BTreeMap<WaitClass, Vec<f64>> = BTreeMap::new();
    for row in rows {
        classes.entry(row.class).or_default().extend(row.error.map(f64::abs));
    }
    let mut figures = Vec::new();
    for (class, errors) in classes {
        let (name, count, mean, worst) = (class.name(), errors.len(), mean(&errors), worst(&errors));
        let stated = (worst * MARGIN).max(LEAST);
        lab.say(format!(
            "{name}, {count} programs: mean = {mean:.3}, worst = {worst:.3}, stated = {stated:.3} in known_error.toml"
        ));
        figures.push(Figure::alone(format!("learned_{name}_mean"), mean, "share"));
        figures.push(Figure::alone(format!("learned_{name}_worst"), worst, "share"));
        figures.push(Figure::alone(format!("learned_{name}_programs"), count as f64, "programs"));
    }
    figures.extend(rows.iter().filter_map(|row| figure("learned_", row)));
    figures
}

fn figure(prefix: &str, row: &Row) -> Option<Figure> {
    let id = format!("{prefix}{}_error", row.name.replace('-', "_"));
    let figure = Figure::alone(id, row.error?, "share, too long if positive");
    Some(figure.peer("the program itself, ms", row.original_ms))
}

fn judge(rows: &[Row]) -> Vec<Figure> {
    let predicted: Vec<&Row> = rows.iter().filter(|row| row.error.is_some()).collect();
    let errors: Vec<f64> = predicted.iter().filter_map(|row| row.error.map(f64::abs)).collect();
    let holds = |row: &&Row| row.error.zip(row.stated).is_some_and(|(error, stated)| error.abs() <= stated);
    let within = predicted.iter().filter(|row| holds(row)).count() as f64 / predicted.len().max(1) as f64;
    let mut figures = vec![
        Figure::alone("mean_error", mean(&errors), "share"),
        Figure::alone("worst_error", worst(&errors), "share"),
        Figure::alone("within_stated", within, "share of the predictions"),
        Figure::alone("programs", predicted.len() as f64, "programs that were predicted"),
        Figure::alone(
            "without_prediction",
            (rows.len() - predicted.len()) as f64,
            "programs that were not, as the report says",
        ),
    ];
    figures.extend(rows.iter().filter_map(|row| figure("", row)));
    figures
}

/// A program as it was recorded.
struct Recorded {
    entry: Entry,
    folder: PathBuf,
    /// The folder as the program finds it, and its name, which some of its files hold.
    pristine: PathBuf,
    file: PathBuf,
    snapshot: Snapshot,
    seed: u64,
    _scratch: TempDir,
}

impl Recorded {
    fn new(entry: &Entry, lab: &Lab<'_>) -> Result<Recorded, LabError> {
        demand(entry)?;
        let scratch = lab.folder()?;
        // Recordings have no other names of it.
        let own = std::fs::canonicalize(scratch.path()).map_err(LabError::scratch(scratch.path()))?;
        let [folder, pristine] = ["work", "before"].map(|name| own.join(name));
        std::fs::create_dir(&pristine).map_err(LabError::scratch(&pristine))?;
        shell(&entry.prepare, &pristine)?;
        let mut recordings = Vec::new();
        for number in 0..lab.scale(QUICK_RECORDINGS, RECORDINGS) {
            copy(&pristine, &folder)?;
            recordings.push(recorded(entry, &folder, own.join(format!("{number}.etrace")))?);
        }
        let (trace, file) = recordings.into_iter().min_by_key(|(trace, _)| took(trace)).expect("it was recorded");
        let snapshot = compiled(trace)?.snapshot().clone();
        Ok(Recorded { entry: entry.clone(), folder, pristine, file, snapshot, seed: lab.seed, _scratch: scratch })
    }

    fn row(&self, on: &Mounted, lab: &Lab<'_>) -> Result<Row, LabError> {
        let (mut pairs, mut last) = (Vec::new(), None);
        for pair in 1..=lab.scale(QUICK_PAIRS, PAIRS) {
            let replay = || Ok(last.insert(self.predicted(on)?).elapsed_ns as f64);
            pairs.push(timing::in_turns(pair, replay, || self.original(on))?);
        }
        let report = last.expect("there are pairs");
        let middle = |of: fn(&(f64, f64)) -> f64| timing::median(pairs.iter().map(of).collect());
        let error = report.prediction.as_ref().map(|_| middle(|(replay, original)| replay / original - 1.0));
        if let Some(why) = &report.no_prediction {
            lab.say(format!("{}: {why}", self.entry.name));
        }
        let stated = report.prediction.and_then(|prediction| prediction.error);
        let (name, class) = (self.entry.name.clone(), report.behaviour.class());
        Ok(Row { name, class, error, stated, original_ms: middle(|(_, original)| original / 1e6) })
    }

    /// Nanoseconds that the program itself takes there.
    fn original(&self, on: &Mounted) -> Result<f64, LabError> {
        // Where a replay would find it, among the same directories: it matters to file systems that spread these.
        afresh(on, &Snapshot::default(), self.seed)?;
        let folder = on.run_dir().join(TREE).join(self.folder.strip_prefix("/").unwrap_or(&self.folder));
        copy(&self.pristine, &folder)?;
        on.forget()?;
        let words = words(&self.entry.run, &folder);
        Ok(timing::seconds(|| peer::output(&words[0], &words[1..]))? * 1e9)
    }

    fn predicted(&self, on: &Mounted) -> Result<Told, LabError> {
        afresh(on, &self.snapshot, self.seed)?;
        on.forget()?;
        let [file, folder, dir] = [&self.file, &self.folder, &on.run_dir()].map(|path| path.display().to_string());
        let seed = self.seed.to_string();
        let words = ["predict", &file, "--dir", &dir, "--prepared", "--own", &folder, "--seed", &seed, "--json"];
        serde_json::from_str(&esker(&words, &[0, NO_PREDICTION])?).map_err(LabError::data)
    }
}

/// What a report tells.
#[derive(Deserialize)]
struct Told {
    elapsed_ns: u64,
    behaviour: Behaviour,
    prediction: Option<Predicted>,
    /// Why there is none.
    no_prediction: Option<String>,
}

#[derive(Deserialize)]
struct Predicted {
    error: Option<f64>,
}

/// A recording of a program, and its file.
fn recorded(entry: &Entry, folder: &Path, file: PathBuf) -> Result<(Trace, PathBuf), LabError> {
    let [to, root] = [file.as_path(), folder].map(|path| path.display().to_string());
    let words = words(&entry.run, folder);
    let options = ["record", "--method", "bpf", "--output", &to, "--root", &root, "--"];
    esker(&options.into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>(), &[0])?;
    let bytes = std::fs::read(&file).map_err(LabError::scratch(&file))?;
    Ok((etrace::read(&bytes[..], Limits::GENEROUS).map_err(LabError::data)?, file))
}

/// Runs a verb of `esker trace` as a process of its own that ends with one of `statuses`; what it prints.
fn esker(words: &[&str], statuses: &[i32]) -> Result<String, LabError> {
    let failed = |error: String| peer::fault("esker trace", error);
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let run = Command::new(own).arg("trace").args(words).output().map_err(|error| failed(error.to_string()))?;
    if run.status.code().is_some_and(|status| statuses.contains(&status)) {
        return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    Err(failed(format!("{}: {}", run.status, String::from_utf8_lossy(&run.stderr).trim())))
}

fn took(trace: &Trace) -> u64 {
    let first = trace.actions.iter().map(|action| action.enter.0).min().unwrap_or(0);
    trace.actions.iter().map(|action| action.leave.0).max().unwrap_or(0) - first
}

/// Whether a program's needs, names of programs or paths of files, are there.
fn demand(entry: &Entry) -> Result<(), LabError> {
    let dirs = SEARCH.trim_start_matches("PATH=");
    // An absolute path stays what it is when it is joined.
    let is_there = |need: &&String| dirs.split(':').any(|dir| Path::new(dir).join(need).exists());
    match entry.needs.iter().find(|need| !is_there(need)) {
        None => Ok(()),
        Some(need) => {
            let what = format!("is not installed: as root, apt-get install {}", entry.packages.join(" "));
            Err(peer::fault(need, what))
        }
    }
}

/// The script under a limit of time. What it prints would be part of this program's report.
fn words(script: &str, folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let script = format!("exec > /dev/null; {script}");
    let words = ["timeout", "-k", "5", LIMIT, "env", "-C", &folder, SEARCH, "sh", "-c", &script];
    words.map(str::to_string).into()
}

fn shell(script: &str, folder: &Path) -> Result<(), LabError> {
    let words = words(script, folder);
    peer::output(&words[0], &words[1..]).map(drop)
}

/// A copy in place of what is there, whose files name their new folder.
fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    const COPY: &str = "set -e; rm -rf \"$2\"; mkdir -p \"$(dirname \"$2\")\"; cp -a \"$1\" \"$2\"; cd \"$2\"; \
                        grep -rlIF \"$1\" . | xargs -r -d '\\n' sed -i \"s|$1|$2|g\"";
    let copied = Command::new("sh").args(["-c", COPY, "sh"]).args([from, to]).output();
    let copied = copied.map_err(|error| peer::fault("sh", error))?;
    // Where no file has the name, `grep` fails and so nothing is said.
    if copied.stderr.is_empty() { Ok(()) } else { Err(peer::fault("cp", String::from_utf8_lossy(&copied.stderr))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, error: Option<f64>, stated: Option<f64>) -> Row {
        Row { name: name.to_string(), class: WaitClass::Reads, error, stated, original_ms: 1.0 }
    }

    #[test]
    fn the_halves_are_of_every_second_program_and_share_none() {
        let [learned, held_out] = halves().expect("the suite is sound");
        let names = |half: &[Entry]| half.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
        let (learned, held_out) = (names(&learned), names(&held_out));
        assert_eq!((learned.len(), held_out.len()), (16, 15));
        assert_eq!((&*learned[0], &*held_out[0], &*learned[1]), ("apt-caches", "cargo-build", "chromium-page"));
        assert!(learned.is_sorted() && held_out.is_sorted() && learned.iter().all(|name| !held_out.contains(name)));
    }

    #[test]
    fn a_half_is_judged_by_the_errors_that_were_stated() {
        let rows = [
            row("a-b", Some(-0.1), Some(0.1)),
            row("c", Some(0.3), Some(0.2)),
            row("d", None, None),
            row("e", Some(0.2), None),
        ];
        let figures = judge(&rows);
        let value = |id: &str| figures.iter().find(|figure| figure.id == id).map(|figure| (figure.value * 1e6).round());
        assert_eq!([value("mean_error"), value("worst_error")], [Some(200_000.0), Some(300_000.0)]);
        assert_eq!([value("within_stated"), value("a_b_error")], [Some(333_333.0), Some(-100_000.0)]);
        assert_eq!([value("programs"), value("without_prediction"), value("d_error")], [Some(3e6), Some(1e6), None]);
    }
}
