//! `esker top`: what goes on in a server, on a screen or as text.

use std::io::{IsTerminal, stdout};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use esker_serve::{Command, Status, View};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::control::Control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::signals::end_of_screen;
use crate::terminal::Terminal;
use crate::top::app::{App, Wish};
use crate::top::columns::Sort;
use crate::top::screen::draw;
use crate::top::text::{Choice, page};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Top>(About {
    words: &["top"],
    summary: "Show what goes on in a server: operations, bytes, latencies, queues, energy, clients",
    details: "Rates and latencies are of the last interval. For a mount, operations are requests of the kernel, and bytes, latencies and \
              the queue are those of its device; a line says what its file system tells of itself. On a terminal, h shows the keys. --batch and --once write plain \
              text, --json one object for each interval. A latency is a sixteenth too high at most.",
    examples: &[
        Example { line: "esker top --control run/esker.ctl", does: "the screen" },
        Example { line: "esker top --once --clients", does: "what went on in the next second, with clients, as text" },
        Example { line: "esker top --json --interval 10 --count 6", does: "a minute for a program" },
    ],
});

#[derive(clap::Args)]
struct Top {
    #[command(flatten)]
    control: Control,
    /// Seconds from one status to the next, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// Order of rows
    #[arg(long, value_enum, default_value = "text")]
    sort: Sort,
    /// Clients too; on the screen, clients first
    #[arg(long)]
    clients: bool,
    /// Plain text, one page for each interval
    #[arg(long)]
    batch: bool,
    /// One page of plain text
    #[arg(long)]
    once: bool,
    /// JSON, one object for each interval
    #[arg(long)]
    json: bool,
    /// Intervals to show before the end, of --batch and --json [default: without end]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// A server that does not answer for so long is told to be silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Signals are looked at so often.
const LOOK: Duration = Duration::from_millis(100);

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds from 0.1 to 3600".to_string())
}

impl Run for Top {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.batch || self.once || self.json {
            return self.write(terminal);
        }
        if !stdout().is_terminal() {
            return Err(Failure::Usage("standard output is no terminal; use --batch, --once or --json".to_string()));
        }
        // Before the screen changes: what is wrong from the start is said plainly.
        let first = self.control.status(PATIENCE)?;
        let mut screen = ratatui::try_init()?;
        let result = self.show(&mut screen, first);
        ratatui::restore();
        result
    }
}

impl Top {
    fn write(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let choice = Choice { sort: self.sort, clients: self.clients };
        let mut before = self.control.status(PATIENCE)?;
        let count = if self.once { Some(1) } else { self.count };
        let mut shown = 0;
        while count.is_none_or(|count| shown < count) {
            std::thread::sleep(self.interval);
            let now = self.control.status(PATIENCE)?;
            let view = View::between(Some(&before), &now);
            let gap = if shown > 0 && !self.json { "\n" } else { "" };
            let text = if self.json { serde_json::to_string(&view)? } else { page(&view, choice) };
            terminal.say(&format!("{gap}{text}"))?;
            terminal.finish()?;
            (before, shown) = (now, shown + 1);
        }
        Ok(())
    }

    fn show(self, screen: &mut DefaultTerminal, first: Status) -> Result<(), Failure> {
        let asked = end_of_screen()?;
        let mut app = App::new(self.control.place(), self.interval, self.sort, self.clients);
        app.take(Ok(first));
        let mut next = Instant::now() + app.interval;
        while !asked.load(Ordering::Relaxed) {
            screen.draw(|frame| draw(frame, &app))?;
            match self.wait(&mut app, next)? {
                Some(Wish::Quit) => break,
                Some(Wish::Measure(what)) => {
                    let patience_ms = PATIENCE.as_millis() as u64;
                    let changed = self.control.ask(&Command::Meters { what, patience_ms });
                    app.error = changed.err().map(|failure| failure.text());
                }
                Some(Wish::Draw) => next = next.min(Instant::now() + app.interval),
                None => {}
            }
            if Instant::now() >= next {
                next = Instant::now() + app.interval;
                if !app.paused {
                    app.take(self.control.status(PATIENCE).map_err(|failure| failure.text()));
                }
            }
        }
        Ok(())
    }

    /// Waits for a key that means something, a new size, or the next status, but not long.
    fn wait(&self, app: &mut App, next: Instant) -> Result<Option<Wish>, Failure> {
        let left = next.saturating_duration_since(Instant::now());
        if !event::poll(left.min(LOOK))? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(key) => app.press(key),
            Event::Resize(..) => Some(Wish::Draw),
            _ => None,
        })
    }
}
