//! `cargo xtask soak fuzz`: coverage-guided fuzzing of every target, each until it had its number of executions.
//!
//! A ledger keeps what was done, so that a soak that is broken off goes on where it was.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: cargo xtask soak fuzz [--executions N] [--sanitizer none|address] [--seconds N] [--table] [TARGET...]";
/// Executions of a target where the command line does not say.
const EXECUTIONS: u64 = 10_000_000;
/// A run of libFuzzer ends after so many executions or seconds: what is broken off loses no more than that.
const RUN_EXECUTIONS: u64 = 2_500_000;
const RUN_SECONDS: u64 = 600;
/// How long one input may take, in seconds, and how much memory in MiB.
const INPUT_SECONDS: u64 = 25;
const INPUT_MIB: u64 = 4096;

/// What the command line says.
#[derive(Debug, PartialEq)]
struct Plan {
    executions: u64,
    sanitizer: String,
    /// Seconds for each target, whatever it has by then.
    seconds: Option<u64>,
    /// Only print the table.
    table: bool,
    targets: Vec<String>,
}

/// A run of libFuzzer, one line of the ledger.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    date: String,
    target: String,
    revision: String,
    sanitizer: String,
    executions: u64,
    milliseconds: u64,
    crashes: u64,
}

/// `cargo xtask soak fuzz [--executions N] [--sanitizer none|address] [--seconds N] [--table] [TARGET...]`. It prints a
/// table and writes it to `out/soak-fuzz.md`. Debug assertions are on with either sanitizer. It needs nightly Rust and
/// `cargo-fuzz`.
pub fn main(args: &[String]) -> Result<bool, String> {
    let plan = Plan::read(args)?;
    let root = crate::root();
    let ledger = root.join("out/soak-fuzz.tsv");
    fs::create_dir_all(root.join("out")).map_err(|error| format!("cannot make out: {error}"))?;
    let mut runs = read_ledger(&ledger)?;
    if !plan.table {
        let soak = Soak::prepare(&root, &plan)?;
        for target in &soak.targets {
            soak.target(target, &mut runs, &ledger)?;
        }
    }
    let table = table(&runs);
    print!("{table}");
    fs::write(root.join("out/soak-fuzz.md"), &table).map_err(|error| format!("cannot write the table: {error}"))?;
    Ok(runs.iter().all(|run| run.crashes == 0))
}

impl Plan {
    fn read(args: &[String]) -> Result<Plan, String> {
        let mut plan = Plan {
            executions: EXECUTIONS,
            sanitizer: "none".to_string(),
            seconds: None,
            table: false,
            targets: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let number = |value: Option<&String>| value.and_then(|value| value.parse::<u64>().ok()).ok_or(USAGE);
            match arg.as_str() {
                "--executions" => plan.executions = number(args.next())?,
                "--seconds" => plan.seconds = Some(number(args.next())?),
                "--sanitizer" => {
                    let is_known = |value: &&String| ["none", "address"].contains(&value.as_str());
                    plan.sanitizer = args.next().filter(is_known).ok_or(USAGE)?.clone();
                }
                "--table" => plan.table = true,
                flag if flag.starts_with('-') => return Err(USAGE.into()),
                target => plan.targets.push(target.to_string()),
            }
        }
        Ok(plan)
    }
}

/// The built fuzzer and its targets.
struct Soak<'a> {
    root: &'a Path,
    plan: &'a Plan,
    program: PathBuf,
    revision: String,
    targets: Vec<String>,
}

impl Soak<'_> {
    fn prepare<'a>(root: &'a Path, plan: &'a Plan) -> Result<Soak<'a>, String> {
        let corpus = root.join("fuzz/corpus");
        let folder = format!("fuzz/target/{}", plan.sanitizer);
        let build = ["+nightly", "fuzz", "build", "--debug-assertions", "--sanitizer", &plan.sanitizer, "--target-dir"];
        run(
            "cargo",
            root,
            &[&["run", "--quiet", "-p", "esker-fuzz", "--", "all", "--export"], &["fuzz/corpus"][..]].concat(),
        )?;
        run("cargo", root, &[&build[..], &[&folder, "guided"]].concat()).map_err(|error| {
            format!("{error}; `rustup toolchain install nightly && cargo install --locked cargo-fuzz`")
        })?;
        let known = names(&corpus)?;
        if let Some(unknown) = plan.targets.iter().find(|target| !known.contains(target)) {
            return Err(format!("unknown target \"{unknown}\"; use some of: {}", known.join(", ")));
        }
        let program = root.join(folder).join(format!("{}-unknown-linux-gnu/release/guided", std::env::consts::ARCH));
        let revision = output("git", root, &["rev-parse", "--short", "HEAD"])?;
        let targets = if plan.targets.is_empty() { known } else { plan.targets.clone() };
        Ok(Soak { root, plan, program, revision, targets })
    }

    /// Runs libFuzzer until the target has its executions, its time is over, or an input crashes it.
    fn target(&self, target: &str, runs: &mut Vec<Run>, ledger: &Path) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let left = self.plan.executions.saturating_sub(done(runs, target, &self.plan.sanitizer));
            let spent = begun.elapsed().as_secs();
            let seconds = self.plan.seconds.map_or(RUN_SECONDS, |limit| RUN_SECONDS.min(limit.saturating_sub(spent)));
            if left == 0 || seconds == 0 {
                return Ok(());
            }
            let run = self.run(target, left.min(RUN_EXECUTIONS), seconds)?;
            let is_over = run.crashes > 0 || run.executions == 0;
            println!("{}", row(&sum(&[&run])));
            runs.push(run);
            write_ledger(ledger, runs)?;
            if is_over {
                return Ok(());
            }
        }
    }

    fn run(&self, target: &str, executions: u64, seconds: u64) -> Result<Run, String> {
        let found = self.root.join("out/soak-fuzz").join(target);
        fs::create_dir_all(&found).map_err(|error| format!("cannot make {}: {error}", found.display()))?;
        let log = self.root.join(format!("out/soak-fuzz/{target}.log"));
        let file = fs::File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let begun = Instant::now();
        let status = Command::new(&self.program)
            .env("ESKER_FUZZ", target)
            .args([&found, &self.root.join("fuzz/corpus").join(target)])
            .args([format!("-runs={executions}"), format!("-max_total_time={seconds}")])
            .args([format!("-timeout={INPUT_SECONDS}"), format!("-rss_limit_mb={INPUT_MIB}")])
            .arg(format!("-artifact_prefix={}-", found.display()))
            .args(["-print_final_stats=1", "-verbosity=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .status()
            .map_err(|error| format!("cannot run {}: {error}", self.program.display()))?;
        if !status.success() {
            println!("{target}: FOUND: see {} and the input beside it", log.display());
        }
        Ok(Run {
            date: output("date", self.root, &["+%F"])?,
            target: target.to_string(),
            revision: self.revision.clone(),
            sanitizer: self.plan.sanitizer.clone(),
            executions: executed(&String::from_utf8_lossy(&fs::read(&log).unwrap_or_default())),
            milliseconds: begun.elapsed().as_millis() as u64,
            crashes: u64::from(!status.success()),
        })
    }
}

/// The number of executions that libFuzzer tells at its end; 0 if it came to none.
fn executed(log: &str) -> u64 {
    let told = log.lines().rev().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    told.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Executions of a target so far.
fn done(runs: &[Run], target: &str, sanitizer: &str) -> u64 {
    runs.iter().filter(|run| run.target == target && run.sanitizer == sanitizer).map(|run| run.executions).sum()
}

fn read_ledger(path: &Path) -> Result<Vec<Run>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let parsed: Option<Vec<Run>> = text.lines().map(parse).collect();
    parsed.ok_or(format!("{} is no ledger of soaks; move it away to begin anew", path.display()))
}

fn parse(line: &str) -> Option<Run> {
    let words: Vec<&str> = line.split('\t').collect();
    let [date, target, revision, sanitizer, executions, milliseconds, crashes] = words[..] else { return None };
    Some(Run {
        date: date.to_string(),
        target: target.to_string(),
        revision: revision.to_string(),
        sanitizer: sanitizer.to_string(),
        executions: executions.parse().ok()?,
        milliseconds: milliseconds.parse().ok()?,
        crashes: crashes.parse().ok()?,
    })
}

fn write_ledger(path: &Path, runs: &[Run]) -> Result<(), String> {
    let line = |r: &Run| {
        let (executions, milliseconds, crashes) = (r.executions, r.milliseconds, r.crashes);
        format!("{}\t{}\t{}\t{}\t{executions}\t{milliseconds}\t{crashes}\n", r.date, r.target, r.revision, r.sanitizer)
    };
    let text: String = runs.iter().map(line).collect();
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Several runs of one target as one: the last date and revision, and sums.
fn sum(runs: &[&Run]) -> Run {
    let mut whole = (*runs.last().expect("a target has a run")).clone();
    whole.executions = runs.iter().map(|run| run.executions).sum();
    whole.milliseconds = runs.iter().map(|run| run.milliseconds).sum();
    whole.crashes = runs.iter().map(|run| run.crashes).sum();
    whole
}

fn row(run: &Run) -> String {
    let rate = run.executions as f64 / Duration::from_millis(run.milliseconds.max(1)).as_secs_f64();
    let Run { date, target, revision, sanitizer, executions, crashes, .. } = run;
    format!("| {target} | {sanitizer} | {executions} | {rate:.0} | {crashes} | {date}, {revision} |")
}

/// The table in Markdown: a row for each target and sanitizer.
fn table(runs: &[Run]) -> String {
    let mut text = "| target | sanitizer | executions | executions/s | crashes | last run |\n".to_string();
    text.push_str("|---|---|---|---|---|---|\n");
    let keys: std::collections::BTreeSet<_> = runs.iter().map(|run| (&run.target, &run.sanitizer)).collect();
    for key in keys {
        let of_key: Vec<&Run> = runs.iter().filter(|run| (&run.target, &run.sanitizer) == key).collect();
        writeln!(text, "{}", row(&sum(&of_key))).expect("a string takes all");
    }
    text
}

/// The names of the folders in `dir`, sorted.
fn names(dir: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))?;
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn run(program: &str, root: &Path, args: &[&str]) -> Result<(), String> {
    let status = Command::new(program).args(args).current_dir(root).status();
    let status = status.map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} {} failed", args.join(" "))) }
}

fn output(program: &str, root: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: &[&str]) -> Result<Plan, String> {
        Plan::read(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    fn ran(target: &str, sanitizer: &str, executions: u64, crashes: u64) -> Run {
        let text = |text: &str| text.to_string();
        let (date, revision) = (text("2026-01-02"), text("abc"));
        Run {
            date,
            target: text(target),
            revision,
            sanitizer: text(sanitizer),
            executions,
            milliseconds: 2000,
            crashes,
        }
    }

    #[test]
    fn words_are_targets_and_flags_have_values() {
        let given = plan(&["stack", "--executions", "7", "vhost", "--sanitizer", "address"]).unwrap();
        assert_eq!((given.executions, &given.sanitizer[..]), (7, "address"));
        assert_eq!(given.targets, ["stack", "vhost"]);
        assert_eq!(plan(&[]).unwrap().executions, EXECUTIONS);
        for wrong in [&["--executions", "x"][..], &["--sanitizer", "thread"], &["--what"], &["--seconds"]] {
            assert_eq!(plan(wrong), Err(USAGE.into()));
        }
    }

    #[test]
    fn a_ledger_reads_back_and_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        assert_eq!(read_ledger(&path), Ok(Vec::new()));
        let runs = vec![ran("a", "none", 5, 0), ran("a", "none", 7, 0), ran("a", "address", 1, 0)];
        write_ledger(&path, &runs).unwrap();
        assert_eq!(read_ledger(&path), Ok(runs.clone()));
        assert_eq!(done(&runs, "a", "none"), 12);
        fs::write(&path, "nonsense\n").unwrap();
        assert!(read_ledger(&path).is_err_and(|error| error.contains("no ledger")));
    }

    #[test]
    fn the_table_sums_the_runs_of_a_target_by_sanitizer() {
        let runs = [ran("b", "none", 10, 0), ran("a", "address", 1, 1), ran("b", "none", 30, 0)];
        let text = table(&runs);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let expected =
            ["| a | address | 1 | 0 | 1 | 2026-01-02, abc |", "| b | none | 40 | 10 | 0 | 2026-01-02, abc |"];
        assert_eq!(rows, expected);
    }

    #[test]
    fn executions_are_those_that_libfuzzer_tells_last() {
        assert_eq!(executed("#12\tDONE\nstat::number_of_executed_units: 12\nstat::average_exec_per_sec:     3\n"), 12);
        assert_eq!(executed("killed"), 0);
    }
}
