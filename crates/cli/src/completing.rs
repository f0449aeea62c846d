//! Values that a shell completes: names that this program knows, and those of a running server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use esker_lab_kit::papers::{PAPERS, keys};
use esker_serve::Command as Order;
use esker_stack::Spec;
use esker_trace_block::Format;
use esker_trace_block::generate::profile::BUILTIN;
use serde_json::Value;

use crate::control;
use crate::verb;

/// The variable in which a shell asks for completions: it names the shell.
pub const VARIABLE: &str = "ESKER_COMPLETE";

/// A server that is alive answers sooner than a user notices.
const PATIENCE: Duration = Duration::from_secs(1);

/// Names with a few words about each.
type Names = Vec<(String, String)>;

/// What an argument takes.
struct Values {
    /// First words of the verbs that have it.
    words: &'static [&'static str],
    /// The name of its value in the help.
    value: &'static str,
    names: fn() -> Names,
}

const fn of(words: &'static [&'static str], value: &'static str, names: fn() -> Names) -> Values {
    Values { words, value, names }
}

/// The first that fits counts.
const VALUES: &[Values] = &[
    of(&["lab", "run"], "NAME", experiments),
    of(&["lab", "repeat"], "PREFIX", experiments),
    of(&["lab", "list"], "KEY", papers),
    of(&["kinds"], "KIND", kinds),
    of(&["blktrace", "generate"], "PROFILE", profiles),
    of(&[], "FORMAT", formats),
    of(&[], "KIND", file_systems),
    of(&["volume", "create"], "NAME", Names::new),
    of(&["volume", "clone"], "NAME", Names::new),
    of(&["volume", "receive"], "NAME", Names::new),
    of(&["volume"], "NAME", volumes),
    of(&["volume"], "VOLUME", volumes),
    of(&["volume"], "VOLUME NAME", volumes),
    of(&["volume"], "SNAPSHOT", volumes),
    of(&["volume"], "FROM", volumes),
    of(&["volume"], "TO", volumes),
    of(&["resize"], "EXPORT", exports),
    of(&["remap"], "EXPORT", exports),
    of(&["mirror"], "MIRROR", mirrors),
    of(&["mirror"], "MEMBER", parts),
    of(&["order"], "DEVICE", parts),
    of(&["stack", "insert"], "NAME", parts),
    of(&["stack", "remove"], "NAME", parts),
    of(&["stack", "reorder"], "NAME", parts),
];

/// Names of values that are files, also where the argument is text.
const FILES: &[&str] = &["STACK", "FILE", "TRACE", "SCRIPT", "REPORT", "TARGET", "A.json", "B.json"];

/// Answers a shell that asks for completions; returns if none does.
pub fn answer() {
    CompleteEnv::with_factory(verb::command).var(VARIABLE).complete();
}

/// Says which values the arguments of the verb `words` take.
pub fn add(words: &[&str], command: Command) -> Command {
    command.mut_args(|arg| with_values(words, arg))
}

fn with_values(words: &[&str], arg: Arg) -> Arg {
    let value = value_of(&arg);
    if !arg.get_possible_values().is_empty() {
        return arg;
    }
    match VALUES.iter().find(|row| words.starts_with(row.words) && row.value == value) {
        Some(row) => {
            let names = row.names;
            arg.add(ArgValueCandidates::new(move || candidates(names)))
        }
        None if FILES.contains(&value.as_str()) => arg.value_hint(ValueHint::AnyPath),
        None => arg,
    }
}

/// The name of an argument's value in the help; empty for one that takes none.
fn value_of(arg: &Arg) -> String {
    match arg.get_action().takes_values() {
        true => arg.get_value_names().unwrap_or_default().iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(" "),
        false => String::new(),
    }
}

fn candidates(names: fn() -> Names) -> Vec<CompletionCandidate> {
    let candidate = |(name, about): (String, String)| {
        CompletionCandidate::new(name).help((!about.is_empty()).then(|| about.into()))
    };
    names().into_iter().map(candidate).collect()
}

fn experiments() -> Names {
    esker_lab::ALL.iter().map(|one| (one.name.to_string(), one.summary.to_string())).collect()
}

fn papers() -> Names {
    let title = |key: &str| PAPERS.iter().find(|paper| paper.key == key).map_or("", |paper| paper.title);
    keys().into_iter().map(|key| (key.to_string(), title(key).to_string())).collect()
}

fn kinds() -> Names {
    esker_kinds::ALL.iter().map(|kind| (kind.name.to_string(), kind.summary.to_string())).collect()
}

fn file_systems() -> Names {
    esker_filesystems::ALL.iter().map(|kind| (kind.name.to_string(), kind.summary.to_string())).collect()
}

fn profiles() -> Names {
    BUILTIN.iter().map(|profile| (profile.name.to_string(), String::new())).collect()
}

fn formats() -> Names {
    Format::ALL.iter().map(|format| (format.name().to_string(), String::new())).collect()
}

fn exports() -> Names {
    let spec = served().unwrap_or_default();
    spec.exports.iter().map(|export| (export.name.clone(), format!("of {}", export.device))).collect()
}

fn parts() -> Names {
    let spec = served().unwrap_or_default();
    spec.devices.iter().map(|device| (device.name.clone(), device.kind.clone())).collect()
}

fn mirrors() -> Names {
    parts().into_iter().filter(|(_, kind)| kind == "mirror").collect()
}

/// Volumes and snapshots of all managers of the stack, or of the one that `--device` names.
fn volumes() -> Names {
    let spec = served().unwrap_or_default();
    let device = option("--device");
    let managers = spec.devices.iter().filter(|part| part.kind == "thin");
    let wanted = managers.filter(|part| device.as_ref().is_none_or(|device| *part.name == **device));
    wanted.flat_map(|part| volumes_of(&part.name).unwrap_or_default()).collect()
}

fn volumes_of(device: &str) -> Option<Names> {
    let order = Order::Order { device: device.to_string(), words: vec!["list".to_string()] };
    let answer = control::ask_within(&socket(), &order, PATIENCE).ok()?;
    let row = |volume: &Value| {
        let about = if volume["snapshot"] == true { "snapshot" } else { "volume" };
        Some((volume["name"].as_str()?.to_string(), about.to_string()))
    };
    Some(answer.as_array()?.iter().filter_map(row).collect())
}

/// The stack of the server that the command line names; none without an answer.
fn served() -> Option<Spec> {
    control::spec_within(&socket(), PATIENCE).ok()
}

fn socket() -> PathBuf {
    option("--control").map_or_else(|| PathBuf::from("esker.ctl"), PathBuf::from)
}

/// The value of an option in the command line that is completed.
fn option(name: &str) -> Option<String> {
    let words: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    value_in(&words, name)
}

fn value_in(words: &[String], name: &str) -> Option<String> {
    let of = |(at, word): (usize, &String)| match word.strip_prefix(name)? {
        "" => words.get(at + 1).filter(|value| !value.is_empty()).cloned(),
        rest => rest.strip_prefix('=').map(String::from),
    };
    words.iter().enumerate().filter_map(of).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::verbs;

    /// What a shell is offered for the last word of a command line.
    fn offered(line: &str) -> Vec<String> {
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        let last = words.len() - 1;
        let offers = clap_complete::engine::complete(&mut verb::command(), words, last, None).unwrap();
        offers.iter().map(|offer| offer.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_that_the_program_knows_are_offered() {
        for (line, name) in [
            ("esker lab run edt-", "edt-table"),
            ("esker lab list --paper ", "artc"),
            ("esker kinds mir", "mirror"),
            ("esker mount r", "ram"),
            ("esker fs mkfs l", "lfs"),
            ("esker blktrace generate zi", "zipf"),
            ("esker blktrace convert a b --to f", "fio3"),
            ("esker --color n", "never"),
            ("esker vol", "volume"),
            ("esker serve --tls r", "require"),
        ] {
            let offers = offered(line);
            assert!(offers.iter().any(|offer| offer == name), "{line}: {offers:?}");
        }
        assert!(offered("esker lab run edt-").iter().all(|offer| offer.starts_with("edt-")));
    }

    #[test]
    fn each_row_is_of_an_argument() {
        let command = verb::command();
        let has = |row: &Values, verb: &verb::Verb| {
            let mut at = &command;
            for word in verb.words {
                at = at.find_subcommand(word).unwrap();
            }
            verb.words.starts_with(row.words) && at.get_arguments().any(|arg| value_of(arg) == row.value)
        };
        for row in VALUES {
            assert!(verbs::ALL.iter().any(|verb| has(row, verb)), "{:?} {}", row.words, row.value);
        }
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let control = |line: &str| value_in(&words(line), "--control");
        assert_eq!(control("esker volume list --control a --control=b"), Some("b".to_string()));
        assert_eq!(control("esker volume list --control-mode 600"), None);
    }
}
