//! The columns of both tables: which of them fit, what stands in them, and by which rows are sorted.

use std::cmp::Ordering;

use esker_base::Nanos;
use esker_base::units::{age_human, count_human, digits};
use esker_serve::rates::{ClientRow, Rates, Row, What};

/// A column of a table of `R`.
pub struct Column<R> {
    /// Its title.
    pub title: &'static str,
    /// Characters, without the gap before it.
    pub width: usize,
    /// The lower, the later it is left out on a narrow terminal; 0 always stays.
    rank: u8,
    /// What stands in it.
    pub cell: fn(&R) -> String,
}

const fn column<R>(title: &'static str, width: usize, rank: u8, cell: fn(&R) -> String) -> Column<R> {
    Column { title, width, rank, cell }
}

/// What was not measured.
const UNKNOWN: &str = "-";

fn with_flow(row: &Row, cell: fn(&Rates) -> String) -> String {
    row.flow.as_ref().map_or_else(|| UNKNOWN.to_string(), cell)
}

/// A latency; nothing was answered without one.
fn latency(ns: u64) -> String {
    if ns == 0 { UNKNOWN.to_string() } else { Nanos(ns).to_string() }
}

fn known(value: Option<f64>, text: fn(f64) -> String) -> String {
    value.map_or_else(String::new, text)
}

/// Exports, mounts, devices and layers. The first column takes what the others leave.
pub static PLACES: [Column<Row>; 14] = [
    column("name", 12, 0, |row| row.name.clone()),
    column("kind", 11, 5, |row| if row.what == What::Export { "export".into() } else { row.kind.clone() }),
    column("ops/s", 6, 0, |row| with_flow(row, |flow| count_human(flow.ops_s))),
    column("r MB/s", 6, 1, |row| with_flow(row, |flow| digits(flow.read_bytes_s / 1e6))),
    column("w MB/s", 6, 1, |row| with_flow(row, |flow| digits(flow.written_bytes_s / 1e6))),
    column("p50", 7, 4, |row| with_flow(row, |flow| latency(flow.p50_ns))),
    column("p99", 7, 2, |row| with_flow(row, |flow| latency(flow.p99_ns))),
    column("max", 7, 6, |row| with_flow(row, |flow| latency(flow.max_ns))),
    column("queue", 5, 3, |row| with_flow(row, |flow| flow.queue.to_string())),
    column("mean q", 6, 7, |row| with_flow(row, |flow| digits(flow.queue_mean))),
    column("err/s", 5, 8, |row| with_flow(row, |flow| count_human(flow.failed_s))),
    column("W", 5, 9, |row| known(row.power_w, digits)),
    column("busy", 5, 9, |row| known(row.busy, |busy| format!("{:.0} %", busy * 100.0))),
    column("WA", 5, 4, |row| known(row.amplification, digits)),
];

/// Clients.
pub static CLIENTS: [Column<ClientRow>; 8] = [
    column("client", 12, 0, |row| format!("{} {}", row.client, row.peer)),
    column("export", 11, 3, |row| row.export.clone()),
    column("ops/s", 6, 0, |row| count_human(row.ops_s)),
    column("r MB/s", 6, 1, |row| digits(row.read_bytes_s / 1e6)),
    column("w MB/s", 6, 1, |row| digits(row.written_bytes_s / 1e6)),
    column("queue", 5, 2, |row| row.queue.to_string()),
    column("for", 12, 4, |row| age_human(row.for_s)),
    column("tls", 3, 5, |row| if row.tls { "yes".into() } else { "no".into() }),
];

/// The columns that fit in `width` characters, with the width of each. What is left over widens the first one.
fn fitting<R>(columns: &'static [Column<R>], width: usize) -> Vec<(&'static Column<R>, usize)> {
    let needed = |rank: u8| columns.iter().filter(|c| c.rank <= rank).map(|c| c.width + 1).sum::<usize>() - 1;
    let rank = (0..=u8::MAX).take_while(|rank| *rank == 0 || needed(*rank) <= width).last().unwrap_or(0);
    let spare = width.saturating_sub(needed(rank)).min(20);
    let wide = |(at, c): (usize, &'static Column<R>)| (c, if at == 0 { c.width + spare } else { c.width });
    columns.iter().filter(|c| c.rank <= rank).enumerate().map(wide).collect()
}

/// A table for `width` characters: titles, and a line for each row.
pub fn lines<'a, R: 'a>(
    columns: &'static [Column<R>],
    rows: impl IntoIterator<Item = &'a R>,
    width: usize,
) -> Vec<String> {
    let chosen = fitting(columns, width);
    let line = |cell: &dyn Fn(&Column<R>) -> String| {
        let cells = chosen.iter().enumerate().map(|(at, (column, width))| fit(&cell(column), *width, at == 0));
        cells.collect::<Vec<_>>().join(" ").trim_end().to_string()
    };
    let titles = line(&|column| column.title.to_string());
    std::iter::once(titles).chain(rows.into_iter().map(|row| line(&|column| (column.cell)(row)))).collect()
}

/// Cuts or fills a text to `width` characters; the first column stands left, numbers stand right.
fn fit(text: &str, width: usize, is_first: bool) -> String {
    let cut: String = match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_string(),
    };
    if is_first { format!("{cut:<width$}") } else { format!("{cut:>width$}") }
}

/// By what rows are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Sort {
    /// As in the stack's text, exports first
    Text,
    /// By name
    Name,
    /// Most operations first
    Ops,
    /// Most bytes first
    Bytes,
    /// Slowest first
    P99,
    /// Longest queue first
    Queue,
}

impl Sort {
    /// The next one, for a key.
    pub fn next(self) -> Sort {
        match self {
            Sort::Text => Sort::Name,
            Sort::Name => Sort::Ops,
            Sort::Ops => Sort::Bytes,
            Sort::Bytes => Sort::P99,
            Sort::P99 => Sort::Queue,
            Sort::Queue => Sort::Text,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Text => "text",
            Sort::Name => "name",
            Sort::Ops => "ops",
            Sort::Bytes => "bytes",
            Sort::P99 => "p99",
            Sort::Queue => "queue",
        }
    }

    /// Sorts exports, mounts, devices and layers; equal ones stay in the order of the text.
    pub fn places(self, rows: &mut [Row]) {
        let flow = |row: &Row| row.flow.unwrap_or_default();
        let most = |number: fn(&Rates) -> f64| {
            move |a: &Row, b: &Row| number(&flow(b)).partial_cmp(&number(&flow(a))).unwrap_or(Ordering::Equal)
        };
        match self {
            Sort::Text => {}
            Sort::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
            Sort::Ops => rows.sort_by(most(|flow| flow.ops_s)),
            Sort::Bytes => rows.sort_by(most(|flow| flow.read_bytes_s + flow.written_bytes_s)),
            Sort::P99 => rows.sort_by(most(|flow| flow.p99_ns as f64)),
            Sort::Queue => rows.sort_by(most(|flow| flow.queue_mean)),
        }
    }

    /// Sorts clients; by age where they have no such number.
    pub fn clients(self, rows: &mut [ClientRow]) {
        let most = |number: fn(&ClientRow) -> f64| {
            move |a: &ClientRow, b: &ClientRow| number(b).partial_cmp(&number(a)).unwrap_or(Ordering::Equal)
        };
        match self {
            Sort::Text | Sort::P99 => {}
            Sort::Name => rows.sort_by(|a, b| a.export.cmp(&b.export)),
            Sort::Ops => rows.sort_by(most(|row| row.ops_s)),
            Sort::Bytes => rows.sort_by(most(|row| row.read_bytes_s + row.written_bytes_s)),
            Sort::Queue => rows.sort_by(most(|row| row.queue as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_from_the_least_important_on_until_they_fit() {
        for width in 0..200 {
            let chosen = fitting(&PLACES, width);
            let used: usize = chosen.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
            assert!(used <= width.max(19), "{used} of {width}");
            assert_eq!((chosen[0].0.title, chosen.iter().any(|(c, _)| c.title == "ops/s")), ("name", true));
        }
        let titles = |width| fitting(&PLACES, width).iter().map(|(c, _)| c.title).collect::<Vec<_>>();
        assert_eq!(titles(40), ["name", "ops/s", "r MB/s", "w MB/s"]);
        assert_eq!(titles(200).len(), PLACES.len());
    }

    #[test]
    fn long_texts_are_cut_and_short_ones_filled() {
        assert_eq!([fit("abcdef", 4, true), fit("ab", 4, true), fit("ab", 4, false)], ["abc…", "ab  ", "  ab"]);
    }
}
