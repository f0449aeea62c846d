//! What a guest tells on its console, and tables of it.

use std::fmt::Write;

/// One step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Whether it went well.
    pub ok: bool,
    /// Seconds and what it told, or why it failed.
    pub told: String,
}

/// The console of one boot.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The kernel's version.
    pub kernel: String,
    /// Steps in their order.
    pub rows: Vec<Row>,
    /// Whether the job came to its end.
    pub done: bool,
    /// Whether it was cut off because it took too long.
    pub late: bool,
    /// From the start of the machine to its end.
    pub seconds: f64,
    /// Everything.
    pub text: String,
}

impl Log {
    /// Takes in a line; gives the event in it, if it tells one.
    pub fn add(&mut self, line: &str) -> Option<String> {
        self.text.push_str(line);
        self.text.push('\n');
        // The firmware leaves escape sequences before the first line.
        let words = |word: &str| line.find(word).map(|at| line[at + word.len()..].to_string());
        if line.starts_with("DONE") {
            self.done = true;
        } else if let Some(version) = words("KERNEL ") {
            self.kernel = version;
        } else if let Some(result) = line.strip_prefix("RESULT ") {
            let mut parts = result.splitn(3, ' ').map(str::to_string);
            let mut next = || parts.next().unwrap_or_default();
            let (name, ok) = (next(), next() == "ok");
            self.rows.push(Row { name, ok, told: next().trim_end().to_string() });
        }
        line.strip_prefix("EVENT ").map(str::to_string)
    }

    /// Whether every step went well, there was one, and the job came to its end.
    pub fn is_good(&self) -> bool {
        self.done && !self.late && !self.rows.is_empty() && self.rows.iter().all(|row| row.ok)
    }

    /// A step that the log must have, for checks that would otherwise pass for want of it.
    pub fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.name == name && row.ok)
    }

    /// The steps as a table.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let mut table = String::new();
        for row in &self.rows {
            let state = if row.ok { "ok  " } else { "FAIL" };
            // Writing to a text cannot fail.
            let _written = writeln!(table, "  {:width$}  {state}  {}", row.name, row.told);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> (Log, Vec<String>) {
        let mut log = Log::default();
        let events = lines.iter().filter_map(|line| log.add(line)).collect();
        (log, events)
    }

    #[test]
    fn results_and_events_are_read_from_the_console() {
        let lines = [
            "\u{1b}[2J KERNEL 6.1.0-1-amd64",
            "RESULT a-mkfs ok 1.2 ",
            "[ 3.1] EXT4-fs: mounted",
            "EVENT loaded",
            "RESULT a-check ok 0.3 clean",
            "DONE",
        ];
        let (good, events) = log(&lines);
        assert!(good.is_good() && good.has("a-check") && !good.has("a-trim"));
        assert_eq!((good.kernel.as_str(), events), ("6.1.0-1-amd64", vec!["loaded".to_string()]));
        assert!(good.table().contains("a-mkfs   ok    1.2\n"), "{}", good.table());
    }

    #[test]
    fn a_log_is_good_only_as_a_whole() {
        assert!(!log(&["DONE"]).0.is_good(), "no step");
        assert!(!log(&["RESULT a ok 1"]).0.is_good(), "no end");
        let (bad, _) = log(&["RESULT a ok 1", "RESULT b FAIL status 1: no space", "DONE"]);
        assert!(!bad.is_good() && bad.table().contains("b  FAIL  status 1: no space"));
    }
}
