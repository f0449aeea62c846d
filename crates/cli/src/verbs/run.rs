//! `esker run`: serves a stack for as long as one program runs.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::{self, JoinHandle};

use esker_rt::Rt;
use esker_rt::mem::{Pool, Slice};
use esker_rt::net::Stream;
use esker_rt::sync::{Either, race};
use esker_serve::server::Ready;
use esker_serve::{Config, Served};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::fs_kinds;
use crate::log::LogLevel;
use crate::progress::Pace;
use crate::signals::Signals;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::serve::{Asked, KEPT_BYTES_MAX, usable};
use crate::world::World;

/// The record.
pub const VERB: Verb = Verb::of::<Program>(About {
    words: &["run"],
    summary: "Serve a stack for as long as one program runs",
    details: "Opens the devices, serves each export at a socket in a folder of its own, and runs a program. In its \
              arguments, {uri} stands for the NBD address of the first export, {uri:NAME} for that of another one, and \
              {control} for the control socket. The environment has the same as ESKER_URI, ESKER_URI_NAME and \
              ESKER_CONTROL. When the program has ended, everything is flushed, and the sockets are removed. A signal \
              (SIGINT, SIGTERM) is passed to the program as SIGTERM. The exit status is the program's; 128 and the number \
              of the signal, if one has ended it.",
    examples: &[
        Example { line: "esker run 'vol = memory size=1GiB @' -- nbdinfo {uri}", does: "shows what clients see" },
        Example {
            line: "esker run stack.toml -- qemu-img convert -n -O raw disk.qcow2 {uri:vol}",
            does: "copies an image to the export `vol`",
        },
        Example {
            line: "esker run stack.toml -- sh -c 'fio --ioengine=nbd --uri=$ESKER_URI job.fio'",
            does: "measures with fio",
        },
    ],
});

#[derive(clap::Args)]
struct Program {
    #[command(flatten)]
    stack: StackText,
    #[command(flatten)]
    world: World,
    /// Program to run meanwhile, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("{program}: cannot be run: {source}")]
    NotRun { program: String, source: io::Error },
    #[error("the folder of the sockets cannot be made: {0}")]
    Folder(io::Error),
}

/// Exit status of a program that a signal has ended, less its number: as shells have it.
const SIGNALLED: i32 = 128;

impl Run for Program {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (mut spec, _) = self.stack.load(terminal)?;
        let folder = TempDir::with_prefix("esker-run-").map_err(RunError::Folder)?;
        for (at, export) in spec.exports.iter_mut().enumerate() {
            let socket = || format!("unix:{}", folder.path().join(format!("{at}.sock")).display());
            export.nbd.get_or_insert_with(socket);
        }
        let signals = Signals::catch()?;
        let reactor = self.world.start_at(LogLevel::Warn)?;
        let rt = reactor.rt();
        let control = folder.path().join("esker.ctl");
        let config = Config { file_systems: fs_kinds::file_systems(), ..self.world.config(control.clone(), &reactor) };
        let asked: Asked = Box::pin(signals.first(&rt)?);
        let served = Served::start(&rt, &Pool::new(KEPT_BYTES_MAX), esker_kinds::ALL, &spec, config)?;
        let Some((served, asked)) = reactor.block_on(usable(served, false, asked, rt.clone()))? else {
            return Err(Failure::Passed(u8::try_from(SIGNALLED + Signal::TERM.as_raw()).expect("a small number")));
        };
        let started = Started::new(&rt, &self.command, &served.ready(), &control.display().to_string());
        let (ended, waiter) = match started {
            Ok(Started { child, ended, waiter }) => (ending(child, ended, asked), waiter),
            Err(error) => {
                reactor.block_on(served.abandon());
                return Err(error);
            }
        };
        reactor.block_on(async move { served.run(ended).await })?;
        passed(waiter.join().expect("a thread that waits does not panic")?)
    }
}

/// A program that runs, and the thread that waits for it.
struct Started {
    child: Pid,
    /// Has an end once the program has one.
    ended: Stream,
    waiter: JoinHandle<io::Result<ExitStatus>>,
}

impl Started {
    fn new(rt: &Rt, command: &[String], exports: &[Ready], control: &str) -> Result<Started, Failure> {
        let (program, arguments) = command.split_first().expect("clap asks for one");
        let mut command = Command::new(program);
        command.args(arguments.iter().map(|argument| filled(argument, exports, control)));
        command.env("ESKER_CONTROL", control);
        for ready in exports.iter().rev() {
            let uri = ready.uri.to_string();
            command.env(variable(&ready.export), &uri).env("ESKER_URI", uri);
        }
        let child = command.spawn().map_err(|source| RunError::NotRun { program: program.clone(), source })?;
        let pid = Pid::from_child(&child);
        let (here, there) = UnixStream::pair()?;
        let waiter = thread::Builder::new().name("program".to_string()).spawn(move || wait(child, there))?;
        Ok(Started { child: pid, ended: Stream::from_socket(rt, here.into())?, waiter })
    }
}

/// Waits for the program, and closes a socket then.
fn wait(mut child: Child, told: UnixStream) -> io::Result<ExitStatus> {
    let status = child.wait();
    drop(told);
    status
}

/// Ends with the program; asks it to end if a signal comes.
async fn ending(child: Pid, ended: Stream, asked: Asked) {
    let end = async || drop(ended.read(vec![Slice::heap(vec![0])]).await);
    if let Either::Right(()) = race(end(), asked).await {
        // A program that has just ended needs no signal.
        let _gone = kill_process(child, Signal::TERM);
        end().await;
    }
}

/// An argument with addresses in their places.
fn filled(argument: &str, exports: &[Ready], control: &str) -> String {
    let first = exports.iter().take(1).map(|ready| ("{uri}".to_string(), ready.uri.to_string()));
    let named = exports.iter().map(|ready| (format!("{{uri:{}}}", ready.export), ready.uri.to_string()));
    let places = first.chain(named).chain([("{control}".to_string(), control.to_string())]);
    places.fold(argument.to_string(), |text, (place, value)| text.replace(&place, &value))
}

/// The variable with the address of an export.
fn variable(export: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("ESKER_URI_{}", export.chars().map(letter).collect::<String>())
}

/// The exit status of the program as ours.
fn passed(status: ExitStatus) -> Result<(), Failure> {
    let code = status.code().or(status.signal().map(|signal| SIGNALLED + signal)).unwrap_or(SIGNALLED);
    match u8::try_from(code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Passed(code)),
        Err(_) => Err(Failure::Passed(u8::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_names_of_a_shell() {
        assert_eq!(variable("db-2.log"), "ESKER_URI_DB_2_LOG");
    }

    #[test]
    fn the_status_is_that_of_the_program() {
        let status = |raw| passed(ExitStatus::from_raw(raw));
        assert!(status(0).is_ok());
        assert!(matches!(status(3 << 8), Err(Failure::Passed(3))));
        assert!(matches!(status(15), Err(Failure::Passed(143))));
    }
}
