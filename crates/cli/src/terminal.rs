//! Where a verb writes: results to standard output, everything else to standard error.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// The two outputs.
pub struct Terminal {
    out: BufWriter<Box<dyn Write + Send>>,
    err: Box<dyn Write + Send>,
}

impl Terminal {
    /// The process's own.
    pub fn standard() -> Terminal {
        Terminal { out: BufWriter::new(Box::new(io::stdout())), err: Box::new(io::stderr()) }
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

    /// Writes lines that are not the result, each behind `esker: `. A failure has no reader.
    pub fn complain(&mut self, text: &str) {
        let _ = self.out.flush();
        for line in text.lines() {
            let _ = if line.is_empty() { writeln!(self.err) } else { writeln!(self.err, "esker: {line}") };
        }
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
