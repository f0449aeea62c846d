//! What the screen of `esker top` knows, and what keys do to it. Touches neither terminal nor server.

use std::time::Duration;

use esker_serve::command::Measured;
use esker_serve::{Status, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::columns::Sort;

/// Intervals that the keys choose between, in milliseconds.
const INTERVALS_MS: [u64; 7] = [200, 500, 1000, 2000, 5000, 10_000, 60_000];

/// The state.
pub struct App {
    /// Where the server is, for the title.
    pub place: String,
    /// The last statuses, compared.
    pub view: Option<View>,
    before: Option<Status>,
    /// Why there is no newer one.
    pub error: Option<String>,
    /// Time from one status to the next.
    pub interval: Duration,
    /// Order of rows.
    pub sort: Sort,
    /// Whether rows stand the other way round.
    pub reversed: bool,
    /// Whether clients are shown instead of devices.
    pub clients: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// Whether no new status is asked for.
    pub paused: bool,
    /// Rows that are scrolled away.
    pub scrolled: usize,
}

/// What a key asks of the owner of terminal and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Only to draw anew.
    Draw,
    /// To leave.
    Quit,
    /// To measure other parts.
    Measure(Measured),
}

impl App {
    /// An empty one.
    pub fn new(place: String, interval: Duration, sort: Sort, clients: bool) -> App {
        App {
            place,
            view: None,
            before: None,
            error: None,
            interval,
            sort,
            reversed: false,
            clients,
            help: false,
            paused: false,
            scrolled: 0,
        }
    }

    /// Takes a new status.
    pub fn take(&mut self, status: Result<Status, String>) {
        match status {
            Ok(now) => {
                self.view = Some(View::between(self.before.as_ref(), &now));
                self.before = Some(now);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Follows a key. None if it means nothing.
    pub fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Some(Wish::Quit),
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => return Some(Wish::Quit),
            KeyCode::Char('h' | '?') => self.help = !self.help,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('c') => (self.clients, self.scrolled) = (!self.clients, 0),
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = self.other_interval(1),
            KeyCode::Char('-') => self.interval = self.other_interval(-1),
            KeyCode::Char('m') => return Some(Wish::Measure(self.other_measure())),
            KeyCode::Down | KeyCode::Char('j') => {
                self.scrolled = (self.scrolled + 1).min(self.rows().saturating_sub(1))
            }
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            _ => return None,
        }
        Some(Wish::Draw)
    }

    fn rows(&self) -> usize {
        self.view.as_ref().map_or(0, |view| if self.clients { view.clients.len() } else { view.rows.len() })
    }

    fn other_interval(&self, step: isize) -> Duration {
        let now = self.interval.as_millis() as u64;
        let at = INTERVALS_MS.partition_point(|ms| *ms < now).min(INTERVALS_MS.len() - 1);
        let at = at.saturating_add_signed(step).min(INTERVALS_MS.len() - 1);
        Duration::from_millis(INTERVALS_MS[at])
    }

    fn other_measure(&self) -> Measured {
        match self.view.as_ref().map(|view| view.measured.as_str()) {
            Some("all") => Measured::Devices,
            _ => Measured::All,
        }
    }
}
