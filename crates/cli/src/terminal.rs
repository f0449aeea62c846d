//! Where a verb writes: results to standard output, everything else to standard error.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::color;
use crate::failure::Failure;
use crate::progress::Watcher;

/// Columns of an indentation, which a table may get.
const INDENT: usize = 2;

/// The two outputs, and what shows progress beside them.
pub struct Terminal {
    out: BufWriter<Box<dyn Write + Send>>,
    err: Box<dyn Write + Send>,
    watcher: Watcher,
}

impl Terminal {
    /// The process's own. Standard output takes bytes as they are; on standard error colours go where they are not
    /// wanted.
    pub fn standard() -> Terminal {
        Terminal {
            out: BufWriter::new(Box::new(io::stdout())),
            err: Box::new(anstream::stderr()),
            watcher: Watcher::standard(),
        }
    }

    /// Lines of a result for people, whose marks are in colour where standard output takes colours.
    ///
    /// # Errors
    /// If the reader has closed the output.
    pub fn say_marked(&mut self, text: &str) -> Result<(), Failure> {
        match anstream::AutoStream::choice(&io::stdout()) {
            anstream::ColorChoice::Never => self.say(text),
            _ => self.say(&text.lines().map(color::marked).collect::<Vec<_>>().join("\n")),
        }
    }

    /// Writes one or more lines of the result.
    ///
    /// # Errors
    /// If the reader has closed the output.
    pub fn say(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// The result's stream, for callers that write bytes.
    pub fn output(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Writes lines that are not the result: warnings begin with `warning: `, notes with what they are about. A failure
    /// has no reader.
    pub fn complain(&mut self, text: &str) {
        let Terminal { out, err, watcher } = self;
        watcher.beside(|| {
            let _ = out.flush();
            for line in text.lines() {
                let _ = writeln!(err, "{}", color::marked(line));
            }
        });
    }

    /// Writes an error as the parser of the command line writes its own. Lines that begin with `tip: ` say what helps.
    pub fn fail(&mut self, text: &str) {
        let mut parts = text.split("\ntip: ");
        self.complain(&format!("error: {}", parts.next().unwrap_or_default()));
        parts.for_each(|tip| self.complain(&format!("\n  tip: {tip}")));
    }

    /// Writes an error that has its form and its colours already.
    pub fn pass_on(&mut self, text: impl std::fmt::Display) {
        let _ = self.out.flush();
        let _ = write!(self.err, "{text}");
    }

    /// Hands everything on.
    ///
    /// # Errors
    /// If the reader has closed the output.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let out = &mut self.out;
        Ok(self.watcher.beside(|| out.flush())?)
    }

    /// What shows how far the verb is.
    pub fn watcher(&self) -> Watcher {
        self.watcher.clone()
    }
}

/// Columns of the terminal on standard output; without one those of the variable COLUMNS, as shells set it.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    size.filter(|columns| *columns > 0).or_else(told)
}

/// Rows below the names of their columns, as wide as standard output if it is a terminal.
pub fn table(names: &[&str], rows: &[Vec<String>]) -> String {
    let width = columns().filter(|_| io::stdout().is_terminal());
    esker_report::table(names, rows, width.map(|width| width.saturating_sub(INDENT)))
}

/// Lines with two blanks before each.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
