//! Where a verb writes: results to standard output, everything else to standard error.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::color;
use crate::failure::Failure;

/// Columns of an indentation, which a table may get.
const INDENT: usize = 2;

/// The two outputs.
pub struct Terminal {
    out: BufWriter<Box<dyn Write + Send>>,
    err: Box<dyn Write + Send>,
}

impl Terminal {
    /// The process's own. Standard output takes bytes as they are; on standard error colours go where they are not wanted.
    pub fn standard() -> Terminal {
        Terminal { out: BufWriter::new(Box::new(io::stdout())), err: Box::new(anstream::stderr()) }
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
        let _ = self.out.flush();
        for line in text.lines() {
            let _ = writeln!(self.err, "{}", color::marked(line));
        }
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
        Ok(self.out.flush()?)
    }

    /// A bar of `total` bytes on standard error; invisible if that is no terminal.
    pub fn progress(&self, what: &str, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.with_style(style.expect("the template is well formed")).with_message(what.to_string())
    }

    /// A bar of `total` requests on standard error; invisible if that is no terminal.
    pub fn requests(&self, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:20} {wide_bar} {human_pos}/{human_len} requests {eta}");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.with_style(style.expect("the template is well formed"))
    }

    /// A bar of `total` steps on standard error; invisible if that is no terminal.
    pub fn steps(&self, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:28} {wide_bar} {pos}/{len} {eta}");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.with_style(style.expect("the template is well formed"))
    }

    /// A line that shows how far work of unknown length is, on standard error; invisible if that is no terminal.
    pub fn spinner(&self) -> ProgressBar {
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.with_style(style.expect("the template is well formed"))
    }

    /// Takes what long work tells on its way, line by line, on standard error: above a line that shows that it goes on,
    /// if that is a terminal.
    pub fn lines(&self) -> impl FnMut(&str) + use<> {
        let spinner = Cleared(self.spinner());
        move |line| match spinner.0.is_hidden() {
            true => eprintln!("{line}"),
            false => {
                spinner.0.println(line);
                spinner.0.set_message(line.to_string());
            }
        }
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

/// A line that is gone at the end, also of work that failed.
struct Cleared(ProgressBar);

/// Shows how far work is whose length is known only when it goes on.
pub fn show(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
