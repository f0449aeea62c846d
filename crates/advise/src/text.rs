//! The advice for a terminal.

use esker_base::Nanos;
use esker_base::units::percent_human;
use esker_report::table;

use crate::advice::{Advice, AdviceRow, Played};

/// Proposals that were only screened, in the table.
const SCREENED_ROWS: usize = 5;

impl Advice {
    /// A page of text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.headline, self.question);
        let mut section = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                text += &format!("\n{title}\n{}", lines.iter().map(|line| format!("  {line}\n")).collect::<String>());
            }
        };
        section("why", &self.reasons);
        section("what is missing", &self.deficits);
        section("what would change it", &self.changes);
        section("played (simulated, virtual time)", &self.table(|row| row.played.is_some(), usize::MAX));
        section("screened only (estimated)", &self.table(|row| row.played.is_none(), SCREENED_ROWS));
        section("tiering by extents alone", &[self.sizing_text()]);
        let [looked, left] = self.requests;
        text += &format!("\n{looked} requests");
        if left > 0 {
            let begun = Nanos(self.window_begun_ns);
            text += &format!(" in the busiest window, from {begun} on, are estimated; {left} more are only played");
        }
        text + &format!("; {}; {} proposals; seed {}", self.pace, self.rows.len(), self.seed)
    }

    fn table(&self, wanted: impl Fn(&AdviceRow) -> bool, most: usize) -> Vec<String> {
        let rows: Vec<Vec<String>> = self.rows.iter().filter(|row| wanted(row)).take(most).map(cells).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        let names = ["USD", "mean", "p95", "p99", "busy", "joules", "proposal"];
        table(&names, &rows, None).lines().map(String::from).collect()
    }

    /// What tiering by extents would buy.
    pub(crate) fn sizing_text(&self) -> String {
        let sizing = &self.sizing;
        let parts = sizing.devices.iter().zip(&sizing.counts).zip(&sizing.fractional);
        let parts: Vec<String> = parts
            .filter(|((_, count), _)| **count > 0)
            .map(|((name, count), exact)| format!("{count} {name} ({exact:.2})"))
            .collect();
        let [usd, exact] = sizing.usd;
        let joint = match &sizing.joint {
            None => String::new(),
            Some(counts) => format!("; all epochs pack on {counts:?}"),
        };
        format!("{} for ${usd:.0} (${exact:.0} without rounding){joint}", parts.join(", "))
    }
}

fn cells(row: &AdviceRow) -> Vec<String> {
    let Played { mean_ns, p95_ns, p99_ns, busy, energy_j, saturated, .. } = match &row.played {
        Some(played) => played.clone(),
        None => of_screen(row),
    };
    let [mean, p95, p99] = [mean_ns, p95_ns, p99_ns].map(|ns| Nanos(ns as u64).to_string());
    let note = if saturated.is_some() { " (saturated)" } else { "" };
    let (usd, energy) = (format!("{:.0}", row.usd), format!("{energy_j:.0}"));
    vec![usd, mean, p95, p99, percent_human(busy), energy, format!("{}{note}", row.what)]
}

fn of_screen(row: &AdviceRow) -> Played {
    let screened = &row.screened;
    Played {
        mean_ns: screened.mean_ns,
        p95_ns: screened.p95_ns,
        p99_ns: screened.p99_ns,
        busy: screened.busy,
        energy_j: screened.energy_j,
        ..Played::default()
    }
}
