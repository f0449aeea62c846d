//! `cargo xtask record-suite`: records the real programs whose traces are kept in `data/programs`, and tells which of
//! them are what a suite of multithreaded programs needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::program::{End, is_installed, run_logged};

const USAGE: &str = "usage: cargo xtask record-suite [--esker PROGRAM] [--only NAME] [--table]";
/// What a trace of the suite has at least.
const ACTIONS_MIN: u64 = 5000;
const THREADS_MIN: u64 = 2;
/// Calls on files that make a thread one that does file I/O.
const THREAD_CALLS_MIN: u64 = 20;
/// Longest preparation, run and replay.
const LIMIT: Duration = Duration::from_secs(240);

/// Calls that move data of files or change names.
const FILE_CALLS: &[&str] = &[
    "open",
    "read",
    "write",
    "pread",
    "pwrite",
    "stat",
    "getdents",
    "rename",
    "unlink",
    "mkdir",
    "fsync",
    "truncate",
    "fallocate",
    "access",
    "readlink",
    "copy_range",
    "send_file",
    "link",
    "symlink",
];

struct Entry {
    name: String,
    packages: String,
    needs: Vec<String>,
    prepare: String,
    run: String,
}

/// What the table says of a trace.
struct Facts {
    bytes: u64,
    threads: u64,
    actions: u64,
    edges: Option<u64>,
    failures: Option<(u64, u64)>,
}

/// `cargo xtask record-suite`. With `--table` nothing is recorded; the table is made of what is there.
pub fn main(args: &[String]) -> Result<bool, String> {
    let options = Options::parse(args)?;
    let folder = crate::root().join("data/programs");
    let entries = entries(&folder.join("suite.toml"))?;
    let mut rows = BTreeMap::new();
    for entry in entries.iter().filter(|entry| options.wants(entry)) {
        let trace = folder.join(format!("{}.etrace", entry.name));
        if !options.table
            && let Err(why) = record(entry, &trace, &options.esker)
        {
            println!("{:<20} {why}", entry.name);
            rows.insert(entry.name.clone(), Err(why));
            continue;
        }
        if trace.is_file() {
            let judged = judge(&trace, &options.esker).map_err(|why| format!("{}: {why}", entry.name))?;
            println!("{:<20} {} threads, {} actions", entry.name, judged.threads, judged.actions);
            rows.insert(entry.name.clone(), keep(judged, &trace, &options));
        }
    }
    if options.only.is_none() {
        write_table(&folder, &entries, &rows)?;
    }
    Ok(rows.values().filter(|row| row.is_ok()).count() >= if options.only.is_some() { 1 } else { 20 })
}

struct Options {
    esker: PathBuf,
    only: Option<String>,
    table: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options { esker: "esker".into(), only: None, table: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().cloned().ok_or(USAGE);
            match arg.as_str() {
                "--esker" => options.esker = fs::canonicalize(value()?).map_err(|error| error.to_string())?,
                "--only" => options.only = Some(value()?),
                "--table" => options.table = true,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.only.as_ref().is_none_or(|only| *only == entry.name)
    }
}

fn entries(path: &Path) -> Result<Vec<Entry>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let suite: toml::Table = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let programs = suite.get("program").and_then(toml::Value::as_array).ok_or("no program in the suite")?;
    programs.iter().map(entry).collect()
}

fn entry(value: &toml::Value) -> Result<Entry, String> {
    let text = |key: &str| {
        let found = value.get(key).and_then(toml::Value::as_str);
        found.map(str::to_string).ok_or_else(|| format!("a program of the suite has no {key}"))
    };
    let list = |key: &str| -> Vec<String> {
        let found = value.get(key).and_then(toml::Value::as_array);
        found.into_iter().flatten().filter_map(|word| word.as_str().map(str::to_string)).collect()
    };
    Ok(Entry {
        name: text("name")?,
        packages: list("packages").join(" "),
        needs: list("needs"),
        prepare: text("prepare")?,
        run: text("run")?,
    })
}

/// Records one program into `trace`. The error is why there is none.
fn record(entry: &Entry, trace: &Path, esker: &Path) -> Result<(), String> {
    let is_there = |need: &String| if need.contains('/') { Path::new(need).exists() } else { is_installed(need) };
    if !entry.needs.iter().all(is_there) {
        return Err(format!("not installed: apt-get install {}", entry.packages));
    }
    let folder = scratch(&entry.name)?;
    let log = folder.join("log");
    let work = folder.join("work");
    fs::create_dir(&work).map_err(|error| error.to_string())?;
    let mut prepare = Command::new("sh");
    run("preparation", prepare.args(["-ec", &entry.prepare]).current_dir(&work), &log)?;
    let mut recorder = Command::new(esker);
    recorder.args(["trace", "record", "--anonymise", "1", "--force", "--root", ".", "-o"]).arg(trace);
    recorder.args(["--", "sh", "-c", &entry.run]).current_dir(&work);
    let result = run("run", &mut recorder, &log);
    fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    result
}

fn scratch(name: &str) -> Result<PathBuf, String> {
    let folder = crate::root().join("target/suite").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

fn run(what: &str, command: &mut Command, log: &Path) -> Result<(), String> {
    let end = run_logged(command, log, LIMIT)?;
    let said = || fs::read_to_string(log).unwrap_or_default().trim().lines().last().unwrap_or_default().to_string();
    match end {
        End::Success => Ok(()),
        End::Failure(status) => Err(format!("{what}: {status}: {}", said())),
        End::TimedOut => Err(format!("{what}: took more than {} s", LIMIT.as_secs())),
    }
}

/// What esker prints.
fn said(esker: &Path, args: &[&str], trace: &Path, more: &[&str]) -> Result<String, String> {
    let output = Command::new(esker).args(args).arg(trace).args(more).output().map_err(|error| error.to_string())?;
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

fn judge(trace: &Path, esker: &Path) -> Result<Facts, String> {
    let shown = said(esker, &["trace", "show", "--json"], trace, &[])?;
    let mut threads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut actions = 0;
    let kinds: BTreeSet<&str> = FILE_CALLS.iter().copied().collect();
    for line in shown.lines().skip(1) {
        let action: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        actions += 1;
        if action["call"].as_str().is_some_and(|call| kinds.contains(call)) {
            *threads.entry(action["thread"].as_u64().ok_or("an action without a thread")?).or_default() += 1;
        }
    }
    let threads = threads.values().filter(|calls| **calls >= THREAD_CALLS_MIN).count() as u64;
    let bytes = fs::metadata(trace).map_err(|error| error.to_string())?.len();
    Ok(Facts { bytes, threads, actions, edges: edges(trace, esker), failures: failures(trace, esker) })
}

/// Edges between threads, by the rules that are on when nothing is said.
fn edges(trace: &Path, esker: &Path) -> Option<u64> {
    let inspected: Value = serde_json::from_str(&said(esker, &["trace", "deps", "--json"], trace, &[]).ok()?).ok()?;
    let modes = inspected["modes"].as_array()?;
    modes.iter().find(|mode| mode["name"] == "root")?["edges"].as_u64()
}

/// Calls that come out otherwise when nothing orders them, of how many.
fn failures(trace: &Path, esker: &Path) -> Option<(u64, u64)> {
    let folder = scratch("replay").ok()?;
    let dir = folder.join("run");
    let more = ["--dir", dir.to_str()?, "--mode", "unconstrained", "--patience", "10s", "--json", "-"];
    let replayed = said(esker, &["trace", "replay"], trace, &more).ok();
    fs::remove_dir_all(&folder).ok()?;
    let report: Value = serde_json::from_str(&replayed?).ok()?;
    Some((report["mismatches"]["count"].as_u64()?, report["mismatches"]["compared"].as_u64()?))
}

/// Whether it belongs to the suite; what does not is not kept.
fn keep(facts: Facts, trace: &Path, options: &Options) -> Result<Facts, String> {
    if facts.threads >= THREADS_MIN && facts.actions >= ACTIONS_MIN {
        return Ok(facts);
    }
    if !options.table {
        fs::remove_file(trace).map_err(|error| error.to_string())?;
    }
    Err(format!("{} threads with file I/O, {} actions: too few", facts.threads, facts.actions))
}

const BEGIN: &str = "<!-- table: begin -->";
const END: &str = "<!-- table: end -->";

fn write_table(folder: &Path, entries: &[Entry], rows: &BTreeMap<String, Result<Facts, String>>) -> Result<(), String> {
    let path = folder.join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the table's begin is missing")?;
    let (_, after) = rest.split_once(END).ok_or("the table's end is missing")?;
    let head = "| trace | kB | threads with file I/O | actions | edges between threads | unconstrained failures |\n\
                |---|---|---|---|---|---|\n";
    let lines: String = entries.iter().filter_map(|entry| Some(line(entry, rows.get(&entry.name)?))).collect();
    fs::write(&path, format!("{before}{BEGIN}\n{head}{lines}{END}{after}")).map_err(|error| error.to_string())
}

fn line(entry: &Entry, row: &Result<Facts, String>) -> String {
    match row {
        Err(why) => format!("| {} | – | | | | not kept: {} |\n", entry.name, why.replace('|', "/")),
        Ok(facts) => {
            let edges = facts.edges.map_or("–".to_string(), |edges| edges.to_string());
            let failures = facts.failures.map_or("–".to_string(), |(count, of)| {
                format!("{count} of {of} ({:.1} %)", 100.0 * count as f64 / of.max(1) as f64)
            });
            let Facts { bytes, threads, actions, .. } = facts;
            format!("| {} | {} | {threads} | {actions} | {edges} | {failures} |\n", entry.name, bytes / 1000)
        }
    }
}
