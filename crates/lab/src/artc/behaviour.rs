//! The programs of `data/behaviour`: what they are, their recordings, and what a replay of one got wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use esker_base::Nanos;
use esker_lab_kit::{LabError, peer};
use esker_trace_calls::etrace::{self, Limits};
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::Order;
use esker_trace_record::ptrace::Status;
use esker_trace_record::{Method, Target, record};
use esker_trace_replay::report::Mismatch;
use esker_trace_replay::run::without_mask;
use esker_trace_replay::{Report, Speed};
use serde::Deserialize;

use super::{How, compiled, recording, replayed};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/behaviour");
/// Debian's programs, whatever else is installed.
const SEARCH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Seconds after which a program is ended.
const LIMIT: &str = "240";
/// How long nothing may happen in a replay.
const PATIENCE: Nanos = Nanos::secs(10);
/// The standard files of a recorded program. A log to which other programs append has another size at each `fstat`.
const NULL_FILES: &str = "< /dev/null > /dev/null 2>&1";
/// What a shell says of a program that a signal ended.
const SIGNALLED: i32 = 128;

#[derive(Deserialize)]
struct Suite {
    program: Vec<Behaviour>,
}

/// A program of the suite.
#[derive(Deserialize)]
pub(crate) struct Behaviour {
    /// Its name.
    pub name: String,
    needs: Vec<String>,
    packages: Vec<String>,
    /// Whether tests run it.
    #[serde(default)]
    #[cfg_attr(not(test), allow(dead_code, reason = "the experiment runs all"))]
    pub ci: bool,
    #[serde(default)]
    root: bool,
    /// Exit status.
    #[serde(default)]
    status: i32,
    prepare: String,
    run: String,
    #[serde(default)]
    expected: Vec<Expected>,
    /// Why the trace does not hold all of its I/O: then only a hang is wrong, and the rest is told.
    pub unseen: Option<String>,
}

/// A call that may come out otherwise.
#[derive(Deserialize)]
struct Expected {
    call: String,
    /// File systems on which it does; all if there are none.
    #[serde(default)]
    on: Vec<String>,
    /// For readers of the table.
    #[serde(rename = "why")]
    _why: String,
}

/// What of a replay is not as in the recording.
#[derive(Default)]
pub(crate) struct Wrong {
    /// Whether the watchdog ended it.
    pub hangs: u64,
    /// Calls that came out otherwise, beyond those that may.
    pub calls: u64,
    /// Names of the tree that are not as the program left them.
    pub names: u64,
    /// Each of them, for people.
    pub told: Vec<String>,
}

/// All programs of the suite.
///
/// # Errors
/// The table cannot be read.
pub(crate) fn programs() -> Result<Vec<Behaviour>, LabError> {
    let path = Path::new(SOURCES).join("suite.toml");
    let text = fs::read_to_string(&path).map_err(LabError::scratch(&path))?;
    let suite: Suite = toml::from_str(&text).map_err(|error| LabError::Data(format!("{}: {error}", path.display())))?;
    Ok(suite.program)
}

impl Behaviour {
    /// What this machine lacks for it.
    pub(crate) fn lacks(&self) -> Option<String> {
        if self.root && !rustix::process::geteuid().is_root() {
            return Some("it needs the rights of root".to_string());
        }
        let found = |program: &String| match program.starts_with('/') {
            true => Path::new(program).exists(),
            false => SEARCH.split(':').any(|folder| Path::new(folder).join(program).exists()),
        };
        let missing = self.needs.iter().find(|program| !found(program))?;
        Some(format!("{missing} is missing (apt-get install {})", self.packages.join(" ")))
    }

    /// Records it in the new folder `work` of `scratch`, with `load` times the least work.
    ///
    /// # Errors
    /// It did not end as it should, or calls were lost.
    pub(crate) fn record(&self, scratch: &Path, load: u32) -> Result<Program, LabError> {
        let fault = LabError::scratch(scratch);
        let open_to_all = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
        let work = fs::canonicalize(scratch).map_err(fault)?.join("work");
        fs::create_dir(&work).map_err(fault)?;
        open_to_all(scratch).and_then(|()| open_to_all(&work)).map_err(fault)?;
        peer::output("timeout", &self.words(&self.prepare, &work, load)[1..])?;
        let run = format!("{{ {}\n}} {NULL_FILES}", self.run);
        let words = self.words(&run, &work, load).into_iter().map(Into::into).collect();
        let mut bytes = Vec::new();
        let settings = recording(Method::Any, vec![work]);
        let done = record(&Target::Program(words), &settings, &mut bytes);
        let done = done.map_err(|error| peer::fault("the recorder", error))?;
        let status = match done.status {
            Some(Status::Exited(status)) => status,
            Some(Status::Killed(signal)) => SIGNALLED + signal,
            None => -1,
        };
        if status != self.status {
            return Err(peer::fault(&self.name, format!("it ended with {status}, and should with {}", self.status)));
        }
        if done.lost.records > 0 {
            return Err(peer::fault("the recorder", format!("{} calls were lost", done.lost.records)));
        }
        compiled(etrace::read(&bytes[..], Limits::GENEROUS).map_err(LabError::data)?)
    }

    /// A script of the suite as a command.
    fn words(&self, script: &str, work: &Path, load: u32) -> Vec<String> {
        let (sources, work) = (PathBuf::from(SOURCES), work.display());
        let sources = fs::canonicalize(&sources).unwrap_or(sources);
        let begin = format!(
            "cd {work} && export N={load} SOURCES={} PATH={SEARCH} LC_ALL=C HOME={work} && umask 022 &&",
            sources.display()
        );
        ["timeout", LIMIT, "/bin/sh", "-c", &format!("{begin} {{ {script}\n}}")].map(str::to_string).into()
    }

    /// Replays it as fast as possible.
    ///
    /// # Errors
    /// What keeps it from being replayed.
    pub(crate) fn replay(
        &self,
        program: &Program,
        dir: &Path,
        order: Order,
        system: &str,
        seed: u64,
    ) -> Result<Wrong, LabError> {
        let how = How { patience: PATIENCE, ..How::plain(order, Speed::Afap, seed) };
        Ok(self.judge(&without_mask(|| replayed(program, dir, how))?, system))
    }

    fn judge(&self, report: &Report, system: &str) -> Wrong {
        let tree = &report.tree_differences;
        let may = |one: &&Mismatch| self.expected.iter().any(|may| may.covers(&one.call, system));
        let listed = report.mismatches.listed.iter().filter(may).count() as u64;
        let calls =
            report.mismatches.listed.iter().filter(|one| !may(one)).map(|one| {
                format!("action {}: {}: expected {}, got {}", one.action, one.call, one.expected, one.actual)
            });
        let names =
            tree.listed.iter().map(|one| format!("{}: expected {}, got {}", one.path, one.expected, one.actual));
        // A stopped replay has no tree; one that was not compared for another reason counts as one difference.
        let unknown = tree.not_compared.iter().filter(|_| report.stopped.is_none());
        let told = report.stopped.iter().chain(unknown.clone()).cloned().chain(calls).chain(names).collect();
        Wrong {
            hangs: u64::from(report.stopped.is_some()),
            calls: report.mismatches.count - listed,
            names: tree.count + unknown.count() as u64,
            told,
        }
    }
}

impl Expected {
    fn covers(&self, call: &str, system: &str) -> bool {
        let is_it = call.strip_prefix(&self.call).is_some_and(|rest| rest.starts_with('('));
        is_it && (self.on.is_empty() || self.on.iter().any(|on| on == system))
    }
}
