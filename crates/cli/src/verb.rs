//! What a verb is. Help, man pages, completions and the command line are all made from these records.

use clap::builder::StyledStr;
use clap::{Arg, ArgMatches, Command};

use crate::color;
#[cfg(feature = "full")]
use crate::completing;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::{self, Terminal};
use crate::verbs;

/// Exit statuses, as every help page tells them.
const STATUS: &str = "Exit status: 0 done, 1 failed, 2 wrong usage.";

/// How to get the verbs that a program without servers lacks.
const LESS: &str = "This program predicts and does no more. All verbs: cargo install --path crates/cli\n\n";

/// Widest help in columns: longer lines are hard to read.
const WIDTH: usize = 100;

/// A command line that works, and what it does.
pub struct Example {
    /// As typed; a text in single quotes is one word.
    pub line: &'static str,
    /// What it does, in a few words.
    pub does: &'static str,
}

/// The words that define a verb, for people.
pub struct About {
    /// Its words: one, or a group and one.
    pub words: &'static [&'static str],
    /// One line.
    pub summary: &'static str,
    /// What else is to be known.
    pub details: &'static str,
    /// At least one.
    pub examples: &'static [Example],
}

/// One verb.
pub struct Verb {
    /// Its words: one, or a group and one.
    pub words: &'static [&'static str],
    about: About,
    /// How long it may take, and what it shows meanwhile; a test wants it of every verb.
    pub pace: Option<Pace>,
    args: fn(Command) -> Command,
    /// Runs it with its parsed arguments.
    pub run: fn(&ArgMatches, &mut Terminal) -> Result<(), Failure>,
}

/// A verb's arguments, and what it does with them.
pub trait Run: clap::Args {
    /// How long it may take, and what it shows meanwhile. Every verb declares it.
    const PACE: Option<Pace> = None;

    /// Does it.
    ///
    /// # Errors
    /// What the user is told, and the exit status.
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure>;
}

impl Verb {
    /// The verb whose arguments are `T`.
    pub const fn of<T: Run>(about: About) -> Verb {
        Verb { words: about.words, about, pace: T::PACE, args: T::augment_args, run: parse_and_run::<T> }
    }

    fn command(&self) -> Command {
        let name = *self.words.last().expect("a verb has words");
        let long = format!("{}.\n\n{}", self.about.summary, self.about.details);
        // The arguments come first: what they share with other verbs brings a description of its own.
        let command = (self.args)(Command::new(name));
        #[cfg(feature = "full")]
        let command = completing::add(self.words, command);
        command.about(self.about.summary).long_about(long).after_long_help(self.examples())
    }

    fn examples(&self) -> String {
        let lines = self.about.examples.iter().map(|example| format!("  {}\n      {}\n", example.line, example.does));
        format!("Examples:\n{}\n{STATUS}", lines.collect::<String>())
    }
}

fn parse_and_run<T: Run>(matches: &ArgMatches, terminal: &mut Terminal) -> Result<(), Failure> {
    T::from_arg_matches(matches)?.run(terminal)
}

/// The whole command line.
pub fn command() -> Command {
    let long = "Esker, a storage stack in user space: the code that serves data is the code that was simulated.\n\n\
                Each verb has its own help: esker help VERB.";
    let mut root = Command::new("esker")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A storage stack in user space")
        .long_about(long)
        .after_long_help(if cfg!(feature = "full") { STATUS.to_string() } else { format!("{LESS}{STATUS}") })
        .max_term_width(WIDTH)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_version_flag(true)
        .styles(color::STYLES)
        .arg(version())
        .arg(color::arg());
    for (group, summary) in verbs::GROUPS {
        let mut members = verbs::ALL.iter().filter(|verb| verb.words.len() == 2 && verb.words[0] == *group).peekable();
        if members.peek().is_none() {
            continue;
        }
        let command = Command::new(*group).about(*summary).subcommand_required(true).arg_required_else_help(true);
        root = root.subcommand(command.subcommands(members.map(Verb::command)));
    }
    let root = root.subcommands(verbs::ALL.iter().filter(|verb| verb.words.len() == 1).map(Verb::command));
    let template = template(&root);
    root.help_template(template)
}

/// A heading of the help, with the words below it and what each is for.
pub struct Section {
    /// One word.
    pub heading: &'static str,
    /// Verbs and groups of verbs.
    pub words: Vec<(&'static str, String)>,
}

/// What a command line of all verbs has, by its headings.
pub fn sections(root: &Command) -> Vec<Section> {
    let about = |word: &&'static str| match root.find_subcommand(word) {
        Some(command) => (*word, command.get_about().map(ToString::to_string).unwrap_or_default()),
        None => (*word, "Explain a verb, with its options and examples".to_string()),
    };
    // A program that only predicts lacks words.
    let is_there = |word: &&&'static str| **word == "help" || root.find_subcommand(word).is_some();
    let section = |(heading, words): &(&'static str, &[&'static str])| Section {
        heading,
        words: words.iter().filter(is_there).map(&about).collect(),
    };
    verbs::HEADINGS.iter().map(section).filter(|section| !section.words.is_empty()).collect()
}

/// The first page of the help. The parser of the command line has no headings for commands.
fn template(root: &Command) -> StyledStr {
    let (header, literal) = (color::STYLES.get_header(), color::STYLES.get_literal());
    let widest = verbs::HEADINGS.iter().flat_map(|(_, words)| *words).map(|word| word.len()).max().unwrap_or(0);
    let columns = terminal::columns().unwrap_or(WIDTH).min(WIDTH);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_string();
    for Section { heading, words } in sections(root) {
        text += &format!("\n{header}{heading}:{header:#}\n");
        for (word, about) in words {
            let lines = esker_report::wrapped(&about, columns.saturating_sub(widest + 4).max(20));
            let indent = format!("\n{:1$}", "", widest + 4);
            text += &format!("  {literal}{word}{literal:#}{:1$}  {2}\n", "", widest - word.len(), lines.join(&indent));
        }
    }
    text += &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text.into()
}

/// `-V` is for the version in every tool that has `-v` for something else.
fn version() -> Arg {
    Arg::new("version").short('V').long("version").action(clap::ArgAction::Version).help("Print the version")
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a command line as a shell would cut them; quotes are single ones.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in line.split('\'').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_string)),
                _ => words.push(part.to_string()),
            }
        }
        words
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
        for verb in verbs::ALL {
            assert!(matches!(verb.words.len(), 1 | 2), "{:?}", verb.words);
            assert!(verb.words.len() == 1 || verbs::GROUPS.iter().any(|(group, _)| *group == verb.words[0]));
        }
    }

    #[test]
    fn each_verb_has_one_heading() {
        let firsts: std::collections::BTreeSet<&str> = verbs::ALL.iter().map(|verb| verb.words[0]).collect();
        let mut listed: Vec<&str> = verbs::HEADINGS.iter().flat_map(|(_, words)| *words).copied().collect();
        listed.sort_unstable();
        let expected: Vec<&str> =
            firsts.into_iter().chain(["help"]).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        assert_eq!(listed, expected);
    }

    #[test]
    fn every_verb_declares_how_long_it_may_take() {
        let silent: Vec<_> = verbs::ALL.iter().filter(|verb| verb.pace.is_none()).map(|verb| verb.words).collect();
        assert!(silent.is_empty(), "these declare no PACE in their `impl Run`: {silent:?}");
    }

    #[test]
    fn every_example_is_a_command_line_of_its_verb() {
        for verb in verbs::ALL {
            assert!(!verb.about.examples.is_empty(), "{:?} has no example", verb.words);
            for example in verb.about.examples {
                // The shell takes what follows a pipe or a redirection.
                let ends = [" | ", " > ", " < "].into_iter().filter_map(|end| example.line.find(end));
                let typed = &example.line[..ends.min().unwrap_or(example.line.len())];
                let matches = command().try_get_matches_from(shell_words(typed));
                let matches = matches.unwrap_or_else(|error| panic!("{}: {error}", example.line));
                assert_eq!(crate::chosen(&matches).0.words, verb.words, "{}", example.line);
            }
        }
    }
}
