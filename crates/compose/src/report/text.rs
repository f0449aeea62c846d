//! Reports for people.

use std::fmt::Write as _;

use crate::built::PinReason;
use crate::effect::Effect;
use crate::explain::{Analysis, ExtensionView, GoalView, Lost, lost_text};
use crate::goals::{Priorities, Score};
use crate::grid::Claim;
use crate::report::{claim_text, handlers_text};
use crate::search::insertion::InsertPoint;
use crate::search::{BestOrder, NoOrder};
use crate::set::{ExtId, VolId};
use crate::setting::Setting;
use crate::text::contradiction_text;

/// Rows in columns; the first one has their names.
pub fn table(rows: &[Vec<String>]) -> String {
    let Some((names, rows)) = rows.split_first() else { return String::new() };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    esker_report::table(&names, rows, None) + "\n"
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

/// An order as people read it, top first.
pub fn order_text(setting: &Setting, order: &[ExtId]) -> String {
    match order {
        [] => "nothing".to_string(),
        _ => setting.names(order).join(" > "),
    }
}

/// A score: each rank with its goal.
pub fn score_text(priorities: &Priorities, score: &Score) -> String {
    let names = |rank: usize| match priorities.of_volume.is_empty() {
        true => priorities.general[rank].clone(),
        false => format!("priority {}", rank + 1),
    };
    let ranks = score.ranks.iter().enumerate().map(|(rank, count)| format!("{} {count}", names(rank)));
    match score.ranks.is_empty() {
        true => "no goals were given".to_string(),
        false => ranks.collect::<Vec<_>>().join(", "),
    }
}

/// What a search did, and what its answer is the best of; `of` analyses its order.
pub fn search_text(found: &BestOrder, of: &Analysis<'_>) -> String {
    let looked = format!("{} stacks and parts of stacks", found.looked_at);
    let (movable, fixed) = (count_text(of.movable(), "extension"), count_text(of.fixed.len(), "fixed layer"));
    match (of.fixed.is_empty(), found.is_proven) {
        (false, _) if of.movable() == 0 => format!("nothing was compared: {fixed} and no other extension"),
        (true, true) => format!("{looked} looked at; none is better"),
        (false, true) => format!("{looked} looked at; best of the orders of {movable} that may move, around {fixed}"),
        (true, false) => format!("stopped after {looked}: this is the best of them, but another may be better"),
        (false, false) => format!(
            "stopped after {looked}: this is the best of them, but another may be better; {fixed} kept their places"
        ),
    }
}

fn count_text(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The whole analysis.
pub fn analysis(analysis: &Analysis<'_>, priorities: &Priorities) -> String {
    let mut text = format!("order (top to bottom): {}\n", order_text(analysis.setting, analysis.run.order()));
    let _ = writeln!(text, "volumes dominated: {}", score_text(priorities, &analysis.score));
    text.push('\n');
    text.push_str(&volumes(analysis));
    text.push('\n');
    text.push_str(&extensions(analysis));
    text.push_str(&fixed(analysis));
    text.push_str(&goals(analysis));
    text.push_str(&swaps(analysis));
    text.push_str(&disagreements(analysis));
    text
}

fn volumes(analysis: &Analysis<'_>) -> String {
    let setting = analysis.setting;
    let mut rows = vec![row(&["volume", "clients", "handled last by", "the grid says"])];
    for view in &analysis.volumes {
        let volume = setting.volume(view.volume);
        let clients = if volume.visible { "yes" } else { "no" };
        let (last, grid) = (handlers_text(setting, view.handlers), claim_text(setting, view.claim));
        rows.push(vec![volume.name.clone(), clients.to_string(), last, grid]);
    }
    table(&rows)
}

fn extensions(analysis: &Analysis<'_>) -> String {
    let setting = analysis.setting;
    let mut rows = vec![row(&["extension", "goal", "input", "output", "dominant on", "effect"])];
    for view in &analysis.extensions {
        let extension = setting.extension(view.id);
        let dominant = analysis.volumes.iter().filter(|v| v.handlers.dominant() == Some(view.id));
        let dominant = dominant.map(|v| v.volume).collect();
        let or_dash = |text: String| if text.is_empty() { "-".to_string() } else { text };
        rows.push(vec![
            extension.name().to_string(),
            or_dash(extension.goals().join(", ")),
            setting.volume_names(extension.input()),
            setting.volume_names(extension.output()),
            or_dash(setting.volume_names(dominant)),
            effect_text(setting, view),
        ]);
    }
    table(&rows)
}

fn fixed(analysis: &Analysis<'_>) -> String {
    let line =
        |(id, held): &(ExtId, PinReason)| format!("  {}: {}\n", analysis.setting.extension(*id).name(), held.why());
    match analysis.fixed.is_empty() {
        true => String::new(),
        false => {
            format!("\nfixed layers, which keep their places:\n{}", analysis.fixed.iter().map(line).collect::<String>())
        }
    }
}

fn effect_text(setting: &Setting, view: &ExtensionView) -> String {
    if view.is_starved && view.effects.iter().all(|(_, effect)| !effect.is_proven()) {
        return "starved".to_string();
    }
    let with = |wanted: fn(Effect) -> bool| view.effects.iter().filter(|e| wanted(e.1)).map(|e| e.0).collect();
    let (proven, open) = (with(Effect::is_proven), with(|effect| effect == Effect::Undecided));
    let part = |what: &str, volumes| match setting.volume_names(volumes) {
        names if names.is_empty() => None,
        names => Some(format!("{what} on {names}")),
    };
    let parts: Vec<String> = part("certain", proven).into_iter().chain(part("open", open)).collect();
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}

fn goals(analysis: &Analysis<'_>) -> String {
    if analysis.goals.is_empty() {
        return String::new();
    }
    let lines = analysis.goals.iter().map(|view| format!("  {}\n", goal(analysis.setting, view)));
    format!("\ngoals:\n{}", lines.collect::<String>())
}

fn reached(setting: &Setting, places: &[(VolId, ExtId)]) -> String {
    let place = |(volume, id): &(VolId, ExtId)| {
        format!("{} by {}", setting.volume(*volume).name, setting.extension(*id).name())
    };
    places.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// One goal: where it is reached, or why nowhere.
pub fn goal(setting: &Setting, view: &GoalView) -> String {
    let dominant = (!view.dominant.is_empty()).then(|| format!("dominant on {}", reached(setting, &view.dominant)));
    let effective = (!view.effective.is_empty()).then(|| format!("certain on {}", reached(setting, &view.effective)));
    let met: Vec<String> = dominant.into_iter().chain(effective).collect();
    if !met.is_empty() {
        return format!("{}: met: {}", view.goal, met.join("; "));
    }
    let shown = view.lost.iter().map(|(id, lost)| lost_text(setting, *id, lost));
    let why = shown.collect::<Vec<_>>().join("\n    ");
    let why = if why.is_empty() { "no extension of this stack serves it".to_string() } else { why };
    format!("{}: NOT MET:\n    {why}", view.goal)
}

fn swaps(analysis: &Analysis<'_>) -> String {
    let pair = |pair: &(ExtId, ExtId)| {
        format!("{} and {}", analysis.setting.extension(pair.0).name(), analysis.setting.extension(pair.1).name())
    };
    match analysis.swaps.is_empty() {
        true => String::new(),
        false => {
            let pairs = analysis.swaps.iter().map(pair).collect::<Vec<_>>().join("; ");
            format!("\nneighbours whose order makes no difference: {pairs}\n")
        }
    }
}

fn disagreements(analysis: &Analysis<'_>) -> String {
    let setting = analysis.setting;
    let mut text = String::new();
    for found in &analysis.disagreements {
        let volume = &setting.volume(found.volume).name;
        let handlers = crate::exact::Handlers { extensions: found.exact, unhandled: found.unhandled };
        let exact = handlers_text(setting, handlers);
        let _ = match found.grid {
            Claim::Dominant(id) => {
                let claimed = setting.extension(id).name();
                let path = analysis.run.witness(id, found.volume).unwrap_or_default();
                let path = crate::explain::path_text(setting, &path);
                writeln!(text, "  {volume}: the grid says {claimed} is dominant, which is wrong ({exact}): {path}")
            }
            Claim::Nobody | Claim::Mixed | Claim::Silent => {
                writeln!(text, "  {volume}: the grid says that no extension is dominant, but {exact} is")
            }
        };
    }
    if text.is_empty() { text } else { format!("\nthe grid of the thesis disagrees with the exact model:\n{text}") }
}

/// Every volume of every extension on which it is not dominant; `only` limits it to one extension, one volume or both.
pub fn witnesses(analysis: &Analysis<'_>, only: (Option<ExtId>, Option<VolId>)) -> String {
    let shown = |view: &&ExtensionView| only.0.is_none_or(|id| id == view.id);
    let mut lines = String::new();
    for view in analysis.extensions.iter().filter(shown) {
        let fits = |lost: &&Lost| only.1.is_none_or(|volume| volume == lost.volume);
        for lost in view.lost.iter().filter(fits) {
            let _ = writeln!(
                lines,
                "  {}: {}",
                analysis.setting.extension(view.id).name(),
                lost_text(analysis.setting, view.id, lost)
            );
        }
    }
    match lines.is_empty() {
        true => "each extension asked for is dominant wherever it looks\n".to_string(),
        false => format!("why extensions are not dominant on volumes of their domains:\n{lines}"),
    }
}

/// Why there is no order, and what to do.
pub fn no_order(setting: &Setting, why: &NoOrder) -> String {
    match why {
        NoOrder::Contradiction(contradiction) => contradiction_text(setting, contradiction),
        NoOrder::Forbidden => "every order breaks a constraint; remove or weaken one of them".to_string(),
        NoOrder::GaveUp(looks) => {
            format!("no order that keeps the constraints was met in {looks} looks; allow more, or weaken a constraint")
        }
        NoOrder::Uncounted(looks) => format!("the orders could not all be counted in {looks} looks; allow more"),
        NoOrder::TooMany { count, max } => {
            format!("{count} extensions have too many orders to count them all; leave out some, {max} can be counted")
        }
    }
}

/// All places of an insertion with what each would bring; `analyses` are those of the places' orders.
pub fn places(places: &[InsertPoint], analyses: &[Analysis<'_>], priorities: &Priorities) -> String {
    let mut rows =
        vec![row(&["place", "order (top to bottom)", "volumes dominated", "goals met", "dominant", "starved"])];
    for (place, of) in places.iter().zip(analyses) {
        let setting = of.setting;
        let met: Vec<&str> = of.goals.iter().filter(|goal| goal.is_met()).map(|goal| goal.goal.as_str()).collect();
        let dominant = of.volumes.iter().filter(|view| setting.volume(view.volume).visible);
        let dominant = dominant
            .map(|view| format!("{}: {}", setting.volume(view.volume).name, handlers_text(setting, view.handlers)));
        let starved: Vec<ExtId> = of.run.starved().iter().collect();
        let or_dash = |text: String| if text.is_empty() { "-".to_string() } else { text };
        let score = match place.score {
            Some(_) => score_text(priorities, &of.score),
            None => "forbidden".to_string(),
        };
        rows.push(vec![
            place.at.to_string(),
            order_text(setting, &place.order),
            score,
            or_dash(met.join(", ")),
            dominant.collect::<Vec<_>>().join("; "),
            or_dash(setting.names(&starved).join(", ")),
        ]);
    }
    table(&rows)
}

/// What an administrator asked for in vain: each goal that is reached nowhere, with the request that shows it. Empty if
/// there is none.
pub fn unmet(analysis: &Analysis<'_>) -> String {
    let why = |view: &GoalView| {
        let first = view.lost.first().map(|(id, lost)| lost_text(analysis.setting, *id, lost));
        let why = first.unwrap_or_else(|| "no extension of this stack serves it".to_string());
        format!("the goal {} is not met: {why}", view.goal)
    };
    analysis.failed().map(why).collect::<Vec<_>>().join("\n")
}
