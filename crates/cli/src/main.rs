//! The command `esker`: its verbs, one file each, and what they share.
//!
//! Invariant: the only place that reads arguments, environment and terminal; holds no logic of its own.
//!
//! Reading order: [`verb`] (what a verb is, and the command line made of all), [`verbs`] (the table, one file for each
//! verb), [`failure`] (exit status and messages), [`terminal`]. Verbs share the rest:
//!
//! - of stacks: [`stack_text`], [`composition`], [`rewriting`], [`listeners`], [`control`], [`patience`], [`world`],
//!   [`block_devices`], [`handing`];
//! - of traces: [`block_trace`], [`trace_files`], [`trace_archives`], and [`changed_dir`] for directories to replay in;
//! - of file systems: [`fs_kinds`], [`fs_image`], [`virtual_files`];
//! - of all: [`progress`], [`log`], [`secrets`], [`signals`], [`outputs`], [`target`], [`color`], [`completing`],
//!   [`behind`].
//!
//! [`top`] is the screen of the verb of that name, [`doctor`] the checks of the verb of that name, [`hugepages`] and
//! [`volumes`] what the verbs of those managers share.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "the verbs that only predict use a part of what verbs share")
)]
#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the command line is where files, arguments and the terminal come from"
)]

mod block_trace;
mod color;
mod failure;
mod files;
mod outputs;
mod playing;
mod progress;
mod stack_text;
mod target;
mod terminal;
mod trace_archives;
mod trace_files;
mod verb;
mod verbs;

cfg_if::cfg_if! {
    if #[cfg(feature = "full")] {
        mod behind;
        mod block_devices;
        mod changed_dir;
        mod completing;
        mod composition;
        mod control;
        mod doctor;
        mod fs_image;
        mod fs_kinds;
        mod handing;
        mod hugepages;
        mod images;
        mod inherited;
        mod key_files;
        mod lab;
        mod lfs_image;
        mod listeners;
        mod local;
        mod log;
        mod media;
        mod meters;
        mod mirrors;
        mod notify;
        mod opened_stack;
        mod patience;
        mod pid_file;
        mod png;
        mod recording;
        mod replaying;
        mod rewriting;
        mod secrets;
        mod signals;
        mod top;
        mod virtual_files;
        mod volumes;
        mod world;
    }
}

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;

use progress::Pace;
use terminal::Terminal;
use verb::Verb;

fn main() -> ExitCode {
    #[cfg(feature = "full")]
    {
        let passed = esker_trace_record::gate::pass(std::env::args_os());
        if let Some(status) = passed.or_else(|| esker_lab::own::pass(std::env::args_os())) {
            return ExitCode::from(status);
        }
        completing::answer();
    }
    color::choose(&std::env::args_os().collect::<Vec<_>>());
    let mut terminal = Terminal::standard();
    ExitCode::from(run(std::env::args_os(), &mut terminal))
}

/// Runs one command line and returns the exit status.
fn run(args: impl Iterator<Item = OsString>, terminal: &mut Terminal) -> u8 {
    let args: Vec<OsString> = args.collect();
    let matches = match verb::command().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => {
            let words: Vec<String> = args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            return failure::report_usage(error, &words, terminal);
        }
    };
    let (verb, matches) = chosen(&matches);
    let watcher = terminal.watcher();
    watcher.begin(verb.words);
    let waiting = match verb.pace {
        Some(Pace::Waits(what)) => Some(watcher.takes(&format!("waiting for {what}"), None)),
        Some(Pace::AtOnce | Pace::Shows(_) | Pace::Serves) | None => None,
    };
    let done = (verb.run)(matches, terminal);
    drop(waiting);
    watcher.end();
    let result = done.and_then(|()| terminal.finish());
    result.map_or_else(|failure| failure.report(terminal), |()| 0)
}

/// The verb that was asked for, with its own arguments.
fn chosen(matches: &ArgMatches) -> (&'static Verb, &ArgMatches) {
    let (mut words, mut at) = (Vec::new(), matches);
    while let Some((word, below)) = at.subcommand() {
        words.push(word);
        at = below;
    }
    let verb = verbs::ALL.iter().find(|verb| verb.words == words);
    (verb.expect("each command was made from a verb"), at)
}
