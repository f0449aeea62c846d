//! The argument `--color` of every verb, and the styles of messages: those of the parser of the command line.

use std::ffi::OsString;
use std::str::FromStr;

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use clap::Arg;
use clap::builder::Styles;
#[cfg(feature = "full")]
use ratatui::crossterm::style::force_color_output;

/// Styles of help and errors.
pub const STYLES: Styles = Styles::styled();
/// Style of the word `warning:`, for which the parser has none.
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// The argument.
pub fn arg() -> Arg {
    Arg::new("color")
        .long("color")
        .value_name("WHEN")
        .value_parser(clap::value_parser!(clap::ColorChoice))
        .default_value("auto")
        .global(true)
        .hide_possible_values(true)
        .hide_default_value(true)
        .display_order(1000)
        .help("Colours: auto (on a terminal, unless NO_COLOR is set), always or never")
}

/// Does what a command line says of colours, before it is parsed and before an output is opened: the parser prints help
/// and errors in colours too.
pub fn choose(args: &[OsString]) {
    let choice = match asked(args) {
        Some(clap::ColorChoice::Always) => ColorChoice::Always,
        Some(clap::ColorChoice::Never) => ColorChoice::Never,
        Some(clap::ColorChoice::Auto) | None => return,
    };
    choice.write_global();
    // The screen of `esker top` looks at NO_COLOR by itself.
    #[cfg(feature = "full")]
    force_color_output(choice == ColorChoice::Always);
}

/// The last `--color` before `--`.
fn asked(args: &[OsString]) -> Option<clap::ColorChoice> {
    let ours = args.split(|arg| *arg == "--").next().unwrap_or_default();
    let values = ours.iter().enumerate().filter_map(|(at, arg)| match arg.to_str()? {
        "--color" => ours.get(at + 1)?.to_str(),
        arg => arg.strip_prefix("--color="),
    });
    values.filter_map(|value| clap::ColorChoice::from_str(value).ok()).next_back()
}

/// A line of a message, with its first word in colour if it says what the line is.
pub fn marked(line: &str) -> String {
    let word = line.trim_start();
    let indent = &line[..line.len() - word.len()];
    let styles = [
        ("error:", *STYLES.get_error()),
        ("! ", *STYLES.get_error()),
        ("warning:", WARNING),
        ("tip:", *STYLES.get_valid()),
    ];
    match styles.into_iter().find_map(|(mark, style)| Some((mark, style, word.strip_prefix(mark)?))) {
        Some((mark, style, rest)) => format!("{indent}{style}{mark}{style:#}{rest}"),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<clap::ColorChoice> {
        asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_word_before_the_command_counts() {
        assert_eq!(said("esker kinds"), None);
        assert_eq!(said("esker --color=always kinds --color never"), Some(clap::ColorChoice::Never));
        assert_eq!(said("esker run s --color auto -- ls --color=always"), Some(clap::ColorChoice::Auto));
        assert_eq!(said("esker kinds --color"), None);
    }

    #[test]
    fn words_that_say_what_a_line_is_have_a_colour() {
        assert_eq!(anstream::adapter::strip_str(&marked("error: no")).to_string(), "error: no");
        assert!(marked("  tip: do").starts_with("  \u{1b}["));
        assert_eq!(marked("an error: no"), "an error: no");
    }
}
