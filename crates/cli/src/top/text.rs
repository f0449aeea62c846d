//! A view as plain text.

use esker_base::units::{age_human, count_human};
use esker_serve::View;
use esker_serve::rates::What;

use super::columns::{CLIENTS, PLACES, Sort, lines as lines_of};

/// Widest lines.
const WIDTH: usize = 132;

/// What to show of a view.
#[derive(Clone, Copy)]
pub struct Choice {
    /// The order of rows.
    pub sort: Sort,
    /// Whether clients are listed too.
    pub clients: bool,
}

/// One line about the server as a whole.
pub fn headline(view: &View) -> String {
    let flows = view
        .rows
        .iter()
        .filter(|row| matches!(row.what, What::Export | What::Mount))
        .filter_map(|row| row.flow.as_ref());
    let ops: f64 = flows.map(|flow| flow.ops_s).sum();
    let what = [
        format!("up {}", age_human(view.uptime_s)),
        view.io.clone(),
        format!("{} clients", view.connections),
        format!("{} in flight", view.inflight),
        format!("{} ops/s", count_human(ops)),
        format!("measuring {}", view.measured),
    ];
    what.join(", ")
}

/// What an operator must not miss.
pub fn alarms(view: &View) -> Vec<String> {
    let problems = view.problems.iter().cloned();
    let frozen =
        view.frozen_left_s.iter().map(|left| format!("frozen: requests are held for {left:.1} s more at most"));
    let stopping = view.stopping.then(|| "the server is stopping".to_string());
    let broken = view.rows.iter().filter(|row| row.violations > 0);
    let broken = broken.map(|row| format!("\"{}\" broke the contract {} times", row.name, row.violations));
    problems.chain(frozen).chain(stopping).chain(broken).collect()
}

/// What file systems tell of themselves: a line for each mount that tells anything.
pub fn states(view: &View) -> Vec<String> {
    let mounts = view.rows.iter().filter(|row| row.what == What::Mount && !row.stats.is_empty());
    let line = |stats: &std::collections::BTreeMap<String, f64>| {
        stats
            .iter()
            .map(|(name, value)| format!("{name} {}", (value * 1000.0).round() / 1000.0))
            .collect::<Vec<_>>()
            .join(", ")
    };
    mounts.map(|row| format!("{} ({}): {}", row.name, row.kind, line(&row.stats))).collect()
}

/// All of it, in lines.
pub fn page(view: &View, choice: Choice) -> String {
    let mut lines = vec![headline(view)];
    lines.extend(alarms(view).into_iter().map(|alarm| format!("! {alarm}")));
    let mut rows = view.rows.clone();
    choice.sort.places(&mut rows);
    lines.extend(lines_of(&PLACES, &rows, WIDTH));
    lines.extend(states(view));
    if choice.clients {
        let mut clients = view.clients.clone();
        choice.sort.clients(&mut clients);
        lines.push(String::new());
        lines.extend(lines_of(&CLIENTS, &clients, WIDTH));
    }
    lines.join("\n")
}
