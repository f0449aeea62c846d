//! Events of a world as lines: for people, or JSON for programs. What a client can cause is bounded: so many lines of
//! one kind, and so much of each text.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

use esker_base::{Nanos, Time};
use esker_rt::handle::LogSink;
use esker_rt::{Event, Level};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// Events of one kind that are written however close together they come.
pub const BURST: u64 = 50;
/// After that, one in this time.
pub const PERIOD: Nanos = Nanos::secs(5);
/// Events that are all written: their sources pace them, and programs read each one.
const COMPLETE: [&str; 1] = ["lfs_cleaned"];
/// Longest text, and longest field, in bytes.
const TEXT_MAX: usize = 1024;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Seconds since the start, level, text.
    Text,
    /// One JSON object.
    Json,
}

/// Writes events that are at least as important as `least`.
pub struct Log<W> {
    out: W,
    format: Format,
    least: Level,
    /// The instant at which the world began.
    start: Timestamp,
    limits: BTreeMap<&'static str, Limit>,
}

/// What of a kind may still be written.
struct Limit {
    left: u64,
    since: Time,
    left_out: u64,
}

impl<W: Write> Log<W> {
    /// A log of a world that began `start_ns` nanoseconds after 1970.
    pub fn new(out: W, format: Format, least: Level, start_ns: i128) -> Log<W> {
        let start = Timestamp::from_nanosecond(start_ns).unwrap_or_default();
        Log { out, format, least, start, limits: BTreeMap::new() }
    }

    fn json(&self, at: Time, event: &Event<'_>, left_out: u64) -> String {
        let since = SignedDuration::from_nanos(i64::try_from(at.0).unwrap_or(i64::MAX));
        let instant = self.start.checked_add(since).unwrap_or(Timestamp::MAX);
        let mut line = Map::new();
        let mut put = |key: &str, value: Value| drop(line.insert(key.to_string(), value));
        put("time", format!("{instant:.3}").into());
        put("up_s", (at.0 as f64 / 1e9).into());
        put("level", word(event.level).into());
        put("event", event.kind.into());
        for (name, value) in event.fields {
            put(name, bounded(value).into());
        }
        if left_out > 0 {
            put("left_out", left_out.into());
        }
        put("text", bounded(&event.text).into());
        Value::Object(line).to_string()
    }
}

impl Limit {
    /// Whether one more is written, and how many before it were not.
    fn admit(&mut self, now: Time) -> Option<u64> {
        let earned = now.since(self.since).0 / PERIOD.0;
        self.since = self.since + Nanos(earned * PERIOD.0);
        self.left = (self.left + earned).min(BURST);
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl<W: Write> LogSink for Log<W> {
    fn event(&mut self, at: Time, event: &Event<'_>) {
        if event.level > self.least {
            return;
        }
        let fresh = || Limit { left: BURST, since: at, left_out: 0 };
        let admitted = match COMPLETE.contains(&event.kind) {
            true => Some(0),
            false => self.limits.entry(event.kind).or_insert_with(fresh).admit(at),
        };
        let Some(left_out) = admitted else { return };
        let mut line = match self.format {
            Format::Json => self.json(at, event, left_out),
            Format::Text => plain(at, event, left_out),
        };
        line.push('\n');
        // A failure here has no reader.
        let _unheard = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn plain(at: Time, event: &Event<'_>, left_out: u64) -> String {
    let mut line = format!("{:10.3} {:<5} ", at.0 as f64 / 1e9, word(event.level));
    // What a client says must not look like a line of its own, or speak to the terminal.
    for char in bounded(&event.text).chars() {
        match char.is_control() {
            true => line.extend(char.escape_default()),
            false => line.push(char),
        }
    }
    if left_out > 0 {
        line += &format!(" ({left_out} more like this were left out)");
    }
    line
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

fn bounded(text: &dyn fmt::Display) -> String {
    let mut text = text.to_string();
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(format: Format, least: Level, events: &[(u64, Event<'_>)]) -> Vec<String> {
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, format, least, 1_763_781_480_250_000_000);
        events.iter().for_each(|(ms, event)| log.event(Time(ms * 1_000_000), event));
        String::from_utf8(out).unwrap().lines().map(String::from).collect()
    }

    #[test]
    fn json_lines_have_time_level_kind_fields_and_text() {
        let fields: [(&str, &dyn fmt::Display); 2] = [("client", &7), ("peer", &"a \"b\"")];
        let event = Event { level: Level::Warn, kind: "client_lost", fields: &fields, text: format_args!("it\nwent") };
        let line = &lines(Format::Json, Level::Warn, &[(1500, event)])[0];
        let value: Value = serde_json::from_str(line).unwrap();
        let told = ["time", "level", "event", "client", "peer", "text"].map(|key| value[key].as_str().unwrap());
        assert_eq!(told, ["2025-11-22T03:18:01.750Z", "warn", "client_lost", "7", "a \"b\"", "it\nwent"]);
        assert_eq!(value["up_s"].as_f64(), Some(1.5));
    }

    #[test]
    fn text_lines_stay_one_line_whatever_a_client_says() {
        let event = |text| Event { level: Level::Info, kind: "note", fields: &[], text };
        let long = "x".repeat(5000);
        let (first, second) = (format_args!("a\nb\x1b[2J"), format_args!("{long}"));
        let seen = lines(Format::Text, Level::Info, &[(0, event(first)), (12_345, event(second))]);
        assert_eq!(seen[0], "     0.000 info  a\\nb\\u{1b}[2J");
        assert!(seen.len() == 2 && seen[1].starts_with("    12.345 info  xx") && seen[1].len() < 1100);
    }

    #[test]
    fn unimportant_events_are_left_out() {
        let event = |level| Event { level, kind: "note", fields: &[], text: format_args!("x") };
        let events = [Level::Error, Level::Warn, Level::Info, Level::Debug].map(|level| (0, event(level)));
        assert_eq!(lines(Format::Text, Level::Warn, &events).len(), 2);
    }

    #[test]
    fn a_flood_of_one_kind_is_thinned_and_counted_while_others_are_written() {
        let event = |kind, text| Event { level: Level::Warn, kind, fields: &[], text };
        let mut events: Vec<(u64, Event<'_>)> = (0..10_000).map(|_| (1, event("flood", format_args!("f")))).collect();
        events.push((2, event("other", format_args!("o"))));
        events.push((5_002, event("flood", format_args!("late"))));
        events.push((5_003, event("flood", format_args!("again"))));
        let seen = lines(Format::Text, Level::Warn, &events);
        assert_eq!(seen.len() as u64, BURST + 2);
        assert!(seen[BURST as usize].ends_with(" o"));
        let last = seen.last().unwrap();
        assert!(last.ends_with(&format!("late ({} more like this were left out)", 10_000 - BURST)), "{last}");
    }

    #[test]
    fn each_step_of_a_cleaner_is_written() {
        let event = || Event { level: Level::Info, kind: "lfs_cleaned", fields: &[], text: format_args!("step") };
        let events: Vec<(u64, Event<'_>)> = (0..10 * BURST).map(|_| (1, event())).collect();
        assert_eq!(lines(Format::Text, Level::Info, &events).len() as u64, 10 * BURST);
    }
}
