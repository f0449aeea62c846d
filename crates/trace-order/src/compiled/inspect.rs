//! What a compiled trace looks like: how many edges each mode and rule has and how long they are, and windows of it as
//! graph and picture.

use std::fmt::Write;
use std::ops::Range;

use esker_report::{Axis, Figure, Series, Style};
use esker_trace_calls::wire::Field;
use serde::Serialize;

use crate::rules::schedule::{for_each, mean_length};
use crate::rules::{Order, RuleCount, Rules, Schedule};

use super::Program;

/// Edges of one mode, or of one of its rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeRow {
    /// The mode, or the rule.
    pub name: String,
    /// Edges between threads that it asks for.
    pub edges: u64,
    /// Their mean length in the trace, in ns.
    pub mean_length_ns: u64,
    /// Of these, edges that no others imply: what a replay waits for.
    pub waits: u64,
    /// Their mean length, in ns.
    pub waits_mean_length_ns: u64,
}

/// What a mode asks of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeRow {
    /// All edges, each once.
    #[serde(flatten)]
    pub total: EdgeRow,
    /// Bytes of dependency state per action while it is replayed.
    pub bytes_per_action: f64,
    /// The rules that ask for edges; one that several ask for counts for each.
    pub rules: Vec<EdgeRow>,
}

impl EdgeRow {
    fn new(name: String, count: RuleCount) -> EdgeRow {
        EdgeRow {
            name,
            edges: count.edges,
            mean_length_ns: mean_length(count.length_ns, count.edges).0,
            waits: count.kept,
            waits_mean_length_ns: mean_length(count.kept_length_ns, count.kept).0,
        }
    }
}

/// Every mode's edges; `rules` are those of mode root.
pub fn modes(program: &Program, rules: Rules) -> Vec<ModeRow> {
    let orders = [Order::Root(rules), Order::Temporal, Order::Single, Order::Unconstrained];
    let row = |order: Order| {
        let schedule = program.schedule(order);
        ModeRow {
            total: EdgeRow::new(order.name().to_string(), schedule.total()),
            bytes_per_action: schedule.cost().bytes_per_action,
            rules: rules_of(&schedule),
        }
    };
    orders.into_iter().map(row).collect()
}

fn rules_of(schedule: &Schedule) -> Vec<EdgeRow> {
    let mut rules = schedule.rules().to_vec();
    rules.sort_by_key(|(rule, _)| *rule);
    rules.into_iter().map(|(rule, count)| EdgeRow::new(rule.to_string(), count)).collect()
}

/// An edge inside a window.
struct Drawn {
    from: u32,
    to: u32,
    rules: Rules,
}

/// The edges that a replay waits for, with both ends in the window.
fn drawn(program: &Program, order: Order, window: &Range<u32>) -> Vec<Drawn> {
    let mut edges = Vec::new();
    for_each(program.outline(), order, |to, candidates| {
        let inside = |id: &u32| window.contains(id);
        let kept = candidates.iter().filter(|one| one.kept && inside(&to) && inside(&one.edge.from));
        edges.extend(kept.map(|one| Drawn { from: one.edge.from, to, rules: one.edge.rules }));
    });
    edges
}

/// Consecutive actions of threads, with both ends in the window.
fn thread_edges(program: &Program, window: &Range<u32>) -> Vec<(u32, u32)> {
    let pairs = program.actions.iter().flat_map(|actions| actions.windows(2).map(|pair| (pair[0], pair[1])));
    pairs.filter(|(from, to)| window.contains(from) && window.contains(to)).collect()
}

/// The actions of a window, and their edges, in the language of Graphviz: a thread's in bold, those of ROOT solid with
/// their rules, those of the trace's order dashed.
pub fn dot(program: &Program, rules: Rules, window: Range<u32>) -> String {
    let mut text =
        String::from("digraph trace {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\", fontsize=9];\n");
    for id in window.clone() {
        let mut label = String::new();
        program.step(id).render(&mut label);
        let thread = program.instant(id).thread;
        let label = label.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(text, "  a{id} [group=t{thread}, label=\"{id} T{thread} {label}\"];");
    }
    for (from, to) in thread_edges(program, &window) {
        let _ = writeln!(text, "  a{from} -> a{to} [style=bold, color=\"#3c3c3c\", class=\"thread\"];");
    }
    for edge in drawn(program, Order::Root(rules), &window) {
        let Drawn { from, to, rules } = edge;
        let _ = writeln!(
            text,
            "  a{from} -> a{to} [style=solid, color=\"#0072b2\", label=\"{rules}\", fontsize=8, class=\"root\"];"
        );
    }
    for Drawn { from, to, .. } in drawn(program, Order::Temporal, &window) {
        let _ = writeln!(
            text,
            "  a{from} -> a{to} [style=dashed, color=\"#d55e00\", constraint=false, class=\"temporal\"];"
        );
    }
    text.push_str("}\n");
    text
}

/// The actions of a window over time, a thread a line: calls are marked and joined by their thread, edges of ROOT are
/// grey lines, those of the trace's order dashed ones.
pub fn timeline(program: &Program, rules: Rules, window: Range<u32>) -> Figure {
    let ids = window.clone();
    let origin = ids.clone().map(|id| program.instant(id).enter).min().unwrap_or(0);
    let at = |ns: u64| ns.saturating_sub(origin) as f64 / 1e6;
    let row = |id: u32| f64::from(program.instant(id).thread);
    let line = |style: Style, from: u32, to: u32, since: u64| {
        Series::help(style, vec![(at(since), row(from)), (at(program.instant(to).enter), row(to))])
    };
    let mut series = Vec::new();
    for (thread, player) in program.players().iter().enumerate() {
        let own: Vec<u32> = program.actions[thread].iter().copied().filter(|id| ids.contains(id)).collect();
        let ends = |id: &u32| {
            let instant = program.instant(*id);
            [(at(instant.enter), row(*id)), (at(instant.leave), row(*id))]
        };
        let points: Vec<(f64, f64)> = own.iter().flat_map(ends).collect();
        if !points.is_empty() {
            let name = if player.name.is_empty() { format!("T{thread}") } else { format!("T{thread} {}", player.name) };
            series.push(Series::line("", points.clone()));
            series.push(Series::marks(&name, points));
        }
    }
    let root = drawn(program, Order::Root(rules), &window);
    series.extend(root.iter().map(|edge| line(Style::Guide, edge.from, edge.to, program.instant(edge.from).leave)));
    let temporal = drawn(program, Order::Temporal, &window);
    series.extend(temporal.iter().map(|edge| {
        let first = program.instant(edge.from);
        let since = if edge.rules == Rules::TRACE_ORDER { first.enter } else { first.leave };
        line(Style::Dashed, edge.from, edge.to, since)
    }));
    Figure {
        title: format!("actions {} to {}", window.start, window.end.saturating_sub(1)),
        says: "Coloured: threads. Grey: what mode root waits for. Dashed: what mode temporal waits for.".into(),
        x: Axis::linear("time in ms"),
        y: Axis::linear("thread"),
        series,
    }
}
