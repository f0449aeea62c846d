//! `esker man`: manual pages, made from the same records as the help.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap_mangen::Man;

use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{self, About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Manual>(About {
    words: &["man"],
    summary: "Write manual pages",
    details: "Without a folder: the page of esker itself, to standard output. With one: a page for every verb, as \
              esker-VERB.1 in that folder, which is created if it is not there.",
    examples: &[
        Example { line: "esker man > esker.1", does: "writes the main page" },
        Example { line: "esker man man/man1", does: "writes all pages" },
    ],
});

#[derive(clap::Args)]
struct Manual {
    /// Folder to fill
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[error("{folder}: cannot be filled: {source}")]
struct Unwritable {
    folder: String,
    source: io::Error,
}

impl Run for Manual {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let Some(folder) = self.folder else {
            // As in the folder, where the verb `help` has no page of its own.
            let command = verb::command().disable_help_subcommand(true);
            return Ok(Man::new(command).render(&mut terminal.output())?);
        };
        let filled = fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(verb::command(), &folder));
        Ok(filled.map_err(|source| Unwritable { folder: folder.display().to_string(), source })?)
    }
}
