//! `esker hugepage top`: a heat map of each managed process, on a screen.

use std::io::{IsTerminal, stdout};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use esker_hugepage_linux::Status;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::failure::Failure;
use crate::hugepages::Manager;
use crate::hugepages::screen::draw;
use crate::progress::Pace;
use crate::signals::end_of_screen;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Top>(About {
    words: &["hugepage", "top"],
    summary: "Watch the memory of managed processes as heat maps",
    details: "One cell for each 2 MiB, or for several where there are many. Arrow keys scroll, q leaves.",
    examples: &[Example { line: "esker hugepage top --control run/hp.sock", does: "the screen" }],
});

#[derive(clap::Args)]
struct Top {
    #[command(flatten)]
    manager: Manager,
}

/// From one status to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Signals are looked at so often.
const LOOK: Duration = Duration::from_millis(100);

impl Run for Top {
    const PACE: Option<Pace> = Some(Pace::Serves);

    fn run(self, _: &mut Terminal) -> Result<(), Failure> {
        if !stdout().is_terminal() {
            return Err(Failure::Usage("standard output is no terminal; use esker hugepage status".to_string()));
        }
        // Before the screen changes: what is wrong from the start is said plainly.
        let first = self.manager.status()?;
        let mut screen = ratatui::try_init()?;
        let result = self.show(&mut screen, first);
        ratatui::restore();
        result
    }
}

impl Top {
    fn show(self, screen: &mut DefaultTerminal, first: Status) -> Result<(), Failure> {
        let asked = end_of_screen()?;
        let (mut status, mut scrolled, mut next) = (Ok(first), 0usize, Instant::now() + INTERVAL);
        while !asked.load(Ordering::Relaxed) {
            screen.draw(|frame| draw(frame, &self.manager.place(), &status, scrolled))?;
            let left = next.saturating_duration_since(Instant::now());
            if event::poll(left.min(LOOK))?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => break,
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => break,
                    KeyCode::Down | KeyCode::Char('j') => scrolled += 1,
                    KeyCode::Up | KeyCode::Char('k') => scrolled = scrolled.saturating_sub(1),
                    _ => {}
                }
            }
            if Instant::now() >= next {
                next = Instant::now() + INTERVAL;
                status = self.manager.status().map_err(|failure| failure.text());
            }
        }
        Ok(())
    }
}
