//! `esker completions`: what a shell needs to complete command lines.

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::completing::VARIABLE;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Completions>(About {
    words: &["completions"],
    summary: "Write completions for a shell",
    details: "Writes to standard output; put it where your shell looks for completions. What it writes asks the program \
              itself, at each completion: it offers verbs, options, files, and values such as experiments, kinds, formats, \
              and the volumes and exports of the server at --control PATH.",
    examples: &[
        Example {
            line: "esker completions bash > ~/.local/share/bash-completion/completions/esker",
            does: "writes those of bash",
        },
        Example {
            line: "esker completions fish > ~/.config/fish/completions/esker.fish",
            does: "writes those of fish",
        },
    ],
});

/// zsh loads the file of a command at its first completion, which that file then has to answer.
const FIRST_OF_ZSH: &str = "[[ $funcstack[1] == _esker ]] && _clap_dynamic_completer_esker \"$@\"\n";

#[derive(clap::Args)]
struct Completions {
    /// The shell
    shell: Shell,
}

impl Run for Completions {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell.to_string()).expect("both lists name the same shells");
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, "esker", "esker", "esker", &mut text)?;
        if self.shell == Shell::Zsh {
            text.extend_from_slice(FIRST_OF_ZSH.as_bytes());
        }
        Ok(terminal.output().write_all(&text)?)
    }
}
