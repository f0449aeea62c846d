//! The verbs in `docs/reference/commands.md`, made from their records.

use clap::{Arg, Command};
use esker_testkit::generated::{Block, check};

use super::Verb;
use crate::progress::Pace;
use crate::verbs;

#[test]
fn the_page_of_commands_says_what_verbs_take() {
    let of = |word: &&str| verbs::ALL.iter().filter(|verb| verb.words[0] == *word).map(section).collect::<Vec<_>>();
    let part = |(heading, words): &(&str, &[&str])| {
        [format!("### {heading}")].into_iter().chain(words.iter().flat_map(of)).collect::<Vec<_>>()
    };
    let text: Vec<String> = verbs::HEADINGS.iter().flat_map(part).collect();
    let block = Block { page: "docs/reference/commands.md".into(), name: "commands".into(), text: text.join("\n\n") };
    check(&block).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_page_of_commands_says_how_far_verbs_tell_they_are() {
    let row = |verb: &Verb| {
        let told = match verb.pace? {
            Pace::Shows(parts) => parts.to_string(),
            Pace::Waits(what) => format!("waits for {what}"),
            Pace::AtOnce | Pace::Serves => return None,
        };
        Some(format!("| `{}` | {told} |", verb.words.join(" ")))
    };
    let rows: Vec<String> = verbs::ALL.iter().filter_map(row).collect();
    let text = format!("| verb | what it shows |\n|---|---|\n{}", rows.join("\n"));
    let block = Block { page: "docs/reference/commands.md".into(), name: "progress".into(), text };
    check(&block).unwrap_or_else(|error| panic!("{error}"));
}

fn section(verb: &Verb) -> String {
    let name = format!("esker {}", verb.words.join(" "));
    let mut command = verb.command().bin_name(&name);
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let mut parts = vec![format!("#### `{name}`"), format!("{}.", verb.about.summary)];
    parts.push(format!("```text\n{usage}\n```"));
    parts.extend(Some(verb.about.details.to_string()).filter(|details| !details.is_empty()));
    parts.extend(arguments(&command));
    parts.join("\n\n")
}

/// A table of the arguments; nothing without any.
fn arguments(command: &Command) -> Option<String> {
    let shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let rows: Vec<String> = command.get_arguments().filter(shown).map(row).collect();
    (!rows.is_empty()).then(|| format!("| argument | meaning |\n|---|---|\n{}", rows.join("\n")))
}

fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let values = arg.get_possible_values();
    let takes = arg.get_action().takes_values();
    if takes && !arg.is_hide_possible_values_set() && !values.is_empty() {
        let words: Vec<String> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        meaning += &format!("; one of {}", words.join(", "));
    }
    if takes && let [default] = arg.get_default_values() {
        meaning += &format!("; default `{}`", default.to_string_lossy());
    }
    format!("| `{}` | {} |", typed(arg, takes), meaning.replace('|', "\\|"))
}

/// The argument as it is typed.
fn typed(arg: &Arg, takes: bool) -> String {
    let names = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let values = names.collect::<Vec<_>>().join(" ");
    let flag = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => return values,
    };
    if takes { format!("{flag} {values}") } else { flag }
}
