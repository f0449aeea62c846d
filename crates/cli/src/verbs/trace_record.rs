//! `esker trace record`: records what a program does with files.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use esker_base::units::parse_size;
use esker_trace_record::ptrace::Status;
use esker_trace_record::{Gate, Method, Recorded, Settings, Target, record};

use crate::failure::Failure;
use crate::outputs::Output;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Record>(About {
    words: &["trace", "record"],
    summary: "Record what a program does with files",
    details: "Runs the program and records each of its calls that bears on files, with paths, arguments, results and times, \
              of all threads and of all processes that it starts; no data of files. Calls are seen by programs in the \
              kernel, or by ptrace where the kernel takes none. Files as they were before the program are recorded too: \
              trees that --root names, and others when a call first names them. The exit status is the program's; 128 and \
              the number of a signal that ended it. A recorder that is killed leaves what it had written until then.",
    examples: &[
        Example { line: "esker trace record -o sort.etrace -- sort --parallel=2 words", does: "records one run" },
        Example {
            line: "esker trace record --root project --anonymise 7 -- git -C project gc",
            does: "takes the tree as it is before, and hides its names",
        },
        Example { line: "esker trace record --pid 4711", does: "records a server until CTRL-C" },
    ],
});

#[derive(clap::Args)]
struct Record {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "trace.etrace")]
    output: PathBuf,
    /// How calls are seen: bpf (programs in the kernel), ptrace, or what this machine has
    #[arg(long, value_name = "METHOD", value_parser = method, default_value = "any")]
    method: Method,
    /// A tree to take as it is before the program runs
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Give all paths other names, drawn from this number
    #[arg(long, value_name = "SEED")]
    anonymise: Option<u64>,
    /// Memory for calls that are not yet written, a power of two
    #[arg(long, value_name = "SIZE", value_parser = ring, default_value = "64MiB")]
    buffer: u32,
    /// Replace the recording if it exists and is none
    #[arg(long)]
    force: bool,
    /// A process that runs, instead of a program
    #[arg(long, value_name = "PID", conflicts_with = "program", required_unless_present = "program")]
    pid: Option<u32>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// What a recording begins with, as text.
const MARK: &str = "ETR\r\n";

/// Exit status of a program that a signal ended, without the signal.
const KILLED: i32 = 128;

fn method(word: &str) -> Result<Method, String> {
    match word {
        "any" => Ok(Method::Any),
        "bpf" => Ok(Method::Kernel),
        "ptrace" => Ok(Method::Ptrace),
        _ => Err("no such method: any, bpf or ptrace".to_string()),
    }
}

/// The size of a ring.
///
/// # Errors
/// No size, or one that no ring has.
pub fn ring(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && bytes >= 1 << 16 => Ok(bytes),
        _ => Err("not a power of two from 64KiB to 2GiB".to_string()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}: cannot be written: {1}; choose another place with --output")]
struct Unwritable(String, std::io::Error);

impl Run for Record {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let target = match self.pid {
            Some(pid) => Target::Process(pid),
            None => Target::Program(self.program),
        };
        let settings = Settings {
            method: self.method,
            roots: self.roots,
            anonymise: self.anonymise,
            ring_bytes: self.buffer,
            gate: std::env::current_exe().map_or(Gate::Shell, Gate::Own),
            stop: Default::default(),
            ready: Default::default(),
        };
        let output = Output::claim(self.output, &[MARK], self.force, "--output")?;
        let name = output.path().display().to_string();
        let file = File::create(output.path()).map_err(|error| Unwritable(name.clone(), error))?;
        let recorded = record(&target, &settings, file)?;
        report(&name, &recorded, terminal);
        match recorded.status {
            None | Some(Status::Exited(0)) => Ok(()),
            Some(Status::Exited(status)) => Err(Failure::Passed(status as u8)),
            Some(Status::Killed(signal)) => Err(Failure::Passed((KILLED + signal) as u8)),
        }
    }
}

/// On standard error: standard output is the program's.
fn report(name: &str, recorded: &Recorded, terminal: &mut Terminal) {
    let how = match (recorded.method, recorded.filtered) {
        (Method::Ptrace, true) => "ptrace, recorded calls only",
        (Method::Ptrace, false) => "ptrace",
        _ => "programs in the kernel",
    };
    let Recorded { actions, threads, .. } = recorded;
    terminal.complain(&format!("{name}: {actions} calls of {threads} threads, seen by {how}"));
    if let Some(why) = &recorded.instead {
        terminal.complain(&format!("warning: not seen by programs in the kernel: {why}"));
    }
    for (kind, tally) in recorded.warnings.tallies() {
        let first = tally.places.first().map_or("", |place| place.text.as_str());
        terminal.complain(&format!("warning: {}: {} times, first: {first}", kind.name(), tally.count));
    }
    if recorded.changed > 0 {
        let files = recorded.changed;
        terminal.complain(&format!(
            "warning: {files} files may be recorded with a size that the program gave them; name their tree with --root"
        ));
    }
}
