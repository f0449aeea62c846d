//! Why a proposal answers the question, and what would change that.

use esker_base::units::size_human;

use crate::advice::{AdviceRow, Played, Told, screen_error, span};
use crate::columns::{Columns, LINES};
use crate::proposal::Shape;
use crate::question::Question;

/// Why the winner wins, and the best of the other uses does not.
pub(crate) fn reasons(told: &Told<'_>, rows: &[AdviceRow], winner: usize) -> Vec<String> {
    let (row, columns) = (&rows[winner], told.columns);
    let mut reasons = vec![use_of(row, columns)];
    reasons.extend(row.played.as_ref().and_then(long_waits));
    let kind = |shape: &Shape| std::mem::discriminant(shape);
    let mut told_of = vec![kind(&row.shape)];
    for other in rows.iter().filter(|other| other.played.is_some()) {
        if told_of.contains(&kind(&other.shape)) {
            continue;
        }
        told_of.push(kind(&other.shape));
        reasons.push(against(told, row, best_of(rows, other, told)));
    }
    reasons.extend(plain_why(told, rows, row));
    if let Some(error) = screen_error(rows) {
        reasons.push(format!(
            "Screens of those that were played miss the 95th percentile by {:.0} % (median). Proposals that were only \
             screened are that uncertain.",
            error * 100.0
        ));
    }
    reasons
}

/// What its fast side does for it.
fn use_of(row: &AdviceRow, columns: &Columns) -> String {
    let share = row.screened.fast_share.unwrap_or(0.0) * 100.0;
    match &row.shape {
        Shape::Plain(_) => {
            let writes = columns.is_write.iter().filter(|is_write| **is_write).count() as f64;
            let random = columns.is_random.iter().filter(|is_random| **is_random).count() as f64;
            let all = columns.len() as f64;
            format!(
                "{:.0} % of the requests are writes and {:.0} % are random; outside long streams they use {}.",
                100.0 * writes / all,
                100.0 * random / all,
                size_human(columns.footprint())
            )
        }
        Shape::Cache { line, .. } => format!(
            "Lines of {} answer about {share:.0} % of the reads, because so many come back to what was used within the \
             cache's size ({} are used outside long streams).",
            size_human(LINES[*line]),
            size_human(columns.footprint())
        ),
        Shape::Both { line, extent, .. } => format!(
            "Lines of {} answer about {share:.0} % of the reads; below them, busy extents of {} lie on the rest of the \
             fast end.",
            size_human(LINES[*line]),
            size_human(*extent)
        ),
        Shape::Resting { .. } => format!(
            "The fast device takes all writes and answers about {share:.0} % of the reads, so the disk rests in between."
        ),
        Shape::Reorganised(_) => format!(
            "Pages that are asked for in turn lie side by side; {} are used outside long streams.",
            size_human(columns.footprint())
        ),
        Shape::Tier { extent, .. } => format!(
            "Extents of {} on the fast end serve about {share:.0} % of the reads; about {} move.",
            size_human(*extent),
            size_human(row.screened.moved_bytes)
        ),
    }
}

/// That few requests wait so long that percentiles do not show it, as behind a disk that has to start.
fn long_waits(played: &Played) -> Option<String> {
    (played.mean_ns > played.p99_ns).then(|| {
        format!(
            "Its mean of {} is above its p99 of {}: few requests wait very long, the longest {}. A target with a mean \
             excludes such proposals.",
            span(played.mean_ns),
            span(played.p99_ns),
            span(played.max_ns)
        )
    })
}

/// The best run of the same use as `like`.
fn best_of<'r>(rows: &'r [AdviceRow], like: &'r AdviceRow, told: &Told<'_>) -> &'r AdviceRow {
    let same = rows.iter().filter(|row| {
        row.played.is_some() && std::mem::discriminant(&row.shape) == std::mem::discriminant(&like.shape)
    });
    let key = |row: &&AdviceRow| {
        let played = row.played.as_ref().expect("only such rows are looked at");
        match told.question {
            Question::Target(target) => {
                let excess = target.excess(&played.responses());
                if excess <= 1.0 { (0.0, row.usd) } else { (excess, row.usd) }
            }
            Question::Budget(_) => (played.p95_ns, row.usd),
        }
    };
    same.min_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
    .unwrap_or(like)
}

fn against(told: &Told<'_>, winner: &AdviceRow, other: &AdviceRow) -> String {
    let played = other.played.as_ref().expect("only such rows are looked at");
    let p95 = span(played.p95_ns);
    match (&played.saturated, told.question) {
        (Some(why), _) => format!("{} does not keep up: {why}.", other.what),
        (None, Question::Target(target)) => match target.missed(&played.responses()).join(", ") {
            missed if missed.is_empty() => {
                format!("{} meets the target too, for ${:.0} more.", other.what, other.usd - winner.usd)
            }
            missed => format!("{} costs ${:.0}, and misses the target: its {missed}.", other.what, other.usd),
        },
        (None, Question::Budget(_)) => format!("{} has a p95 of {p95} for ${:.0}.", other.what, other.usd),
    }
}

/// That a cache or a tier was weighed if plain devices win.
fn plain_why(told: &Told<'_>, rows: &[AdviceRow], winner: &AdviceRow) -> Option<String> {
    let Shape::Plain(ends) = winner.shape else { return None };
    let is_only = rows.iter().all(|row| matches!(row.shape, Shape::Plain(_)));
    let name = &told.offers[ends.offer].name;
    Some(match is_only {
        true => {
            format!("No cache and no tier is proposed: no device is three times as fast as another one beside {name}.")
        }
        false => format!("{name} alone holds all of the data, so a second device would only add to the price."),
    })
}

/// Targets, or budgets, at which another proposal that was played would win.
pub(crate) fn changes(told: &Told<'_>, rows: &[AdviceRow], winner: usize) -> Vec<String> {
    let best = rows[winner].played.as_ref().expect("it was played");
    let sound: Vec<(&AdviceRow, &Played)> = rows
        .iter()
        .filter_map(|row| Some((row, row.played.as_ref()?)))
        .filter(|(row, played)| played.is_sound() && !std::ptr::eq(*row, &rows[winner]))
        .collect();
    let mut told_of = Vec::new();
    let cheaper = sound.iter().filter(|(row, _)| row.usd < rows[winner].usd);
    let faster = sound.iter().filter(|(_, played)| played.p95_ns < best.p95_ns);
    let key = |played: &Played| match told.question {
        Question::Target(target) => target.excess(&played.responses()),
        Question::Budget(_) => played.p95_ns,
    };
    if let Some((row, played)) = cheaper.min_by(|a, b| key(a.1).total_cmp(&key(b.1))) {
        let (what, usd) = (&row.what, row.usd);
        told_of.push(match told.question {
            Question::Target(target) => {
                let missed = target.missed(&played.responses()).join(", ");
                format!("With more time allowed, {what} would do for ${usd:.0}: its {missed}.")
            }
            Question::Budget(_) => format!("For ${usd:.0}, {what} has a p95 of {}.", span(played.p95_ns)),
        });
    }
    if let Some((row, played)) = faster.min_by(|a, b| a.0.usd.total_cmp(&b.0.usd)) {
        let (what, usd, p95) = (&row.what, row.usd, span(played.p95_ns));
        told_of.push(format!("A p95 below {} takes {what}: ${usd:.0} for {p95}.", span(best.p95_ns)));
    }
    if told_of.is_empty() {
        told_of.push("Nothing that was played is cheaper or faster.".to_string());
    }
    told_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_above_the_99th_percentile_is_told_with_the_longest_wait() {
        let resting = Played { mean_ns: 19.5e6, p99_ns: 4.71e6, max_ns: 10.9e9, ..Played::default() };
        let told = long_waits(&resting).unwrap();
        assert!(told.starts_with("Its mean of 19.5 ms is above its p99 of 4.71 ms"), "{told}");
        assert!(told.contains("the longest 10.9 s"), "{told}");
        assert_eq!(long_waits(&Played { mean_ns: 1e6, ..resting }), None);
    }
}
