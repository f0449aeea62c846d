//! `esker man`: manual pages, made from the same records as the help.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{self, About, Example, Run, Section, Verb};

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
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let Some(folder) = self.folder else {
            // As in the folder, where the verb `help` has no page of its own.
            return Ok(write_main(terminal.output())?);
        };
        let filled = fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(verb::command(), &folder))
            .and_then(|()| write_main(&mut fs::File::create(folder.join("esker.1"))?));
        Ok(filled.map_err(|source| Unwritable { folder: folder.display().to_string(), source })?)
    }
}

/// The page of esker itself, with the verbs below the headings of its help.
fn write_main(out: &mut dyn Write) -> io::Result<()> {
    let command = verb::command().disable_help_subcommand(true);
    let sections = verb::sections(&command);
    let has_page = |word: &str| word != "help";
    let man = Man::new(command);
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    let mut roff = Roff::default();
    for Section { heading, words } in sections {
        roff.control("SH", [heading.to_uppercase().as_str()]);
        for (word, about) in words.into_iter().filter(|(word, _)| has_page(word)) {
            roff.control("TP", []);
            roff.text([roman(format!("esker-{word}(1)"))]);
            roff.text([roman(about)]);
        }
    }
    roff.to_writer(out)?;
    man.render_options_section(out)?;
    man.render_extra_section(out)?;
    man.render_version_section(out)
}
