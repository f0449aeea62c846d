//! The planner: which pages lie aside, and in which order.
//!
//! Chains of vertices grow greedily from the vertex with the most traffic. Source: the specification of extensions,
//! section 3.2.4.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::graph::{AccessGraph, ONE};

/// Pages of a run that is long enough to stay at home: 1 MiB.
pub const LONG_RUN: u64 = 256;

/// What binds at least, in weights: two occurrences in an interval, or one in each of two intervals, the older of which
/// has faded by half. To copy what was asked for once costs as much as it can save.
pub const WEIGHT_MIN: u32 = ONE + ONE / 2;

/// Neighbouring pages of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first page.
    pub page: u64,
    /// How many.
    pub pages: u64,
}

/// Chains of pages, each in the order in which its pages are asked for. No page is in a plan twice.
pub type Plan = Vec<Vec<PageRun>>;

/// A vertex while a plan is made.
struct Node {
    run: PageRun,
    /// Its edges: the other node, the weight to it and the weight from it.
    edges: Vec<(usize, u32, u32)>,
    /// The sum of their weights.
    weight: u64,
    is_placed: bool,
    /// Weights of its edges from the chain that grows, and to it.
    from_chain: u64,
    to_chain: u64,
}

/// Nodes by weight, the heaviest first, of equal ones the one with the lower address. Entries may be out of date.
#[derive(Default)]
struct Buckets {
    buckets: BTreeMap<u64, BTreeSet<usize>>,
}

impl Buckets {
    fn push(&mut self, weight: u64, node: usize) {
        self.buckets.entry(weight).or_default().insert(node);
    }

    fn pop(&mut self) -> Option<(u64, usize)> {
        let mut heaviest = self.buckets.last_entry()?;
        let weight = *heaviest.key();
        let node = heaviest.get_mut().pop_first();
        if heaviest.get().is_empty() {
            heaviest.remove();
        }
        node.map(|node| (weight, node))
    }
}

/// Plans at most `pages_max` pages. Edges lighter than `weight_min` bind nothing.
pub fn plan(graph: &AccessGraph, pages_max: u64, weight_min: u32) -> Plan {
    let mut nodes = nodes(graph, weight_min);
    let mut seeds = Buckets::default();
    for (at, node) in nodes.iter().enumerate() {
        if node.weight >= u64::from(weight_min) {
            seeds.push(node.weight, at);
        }
    }
    let (mut chains, mut left) = (Vec::new(), pages_max);
    while left > 0
        && let Some((_, seed)) = seeds.pop()
    {
        if !nodes[seed].is_placed {
            chains.push(grow(&mut nodes, seed, &mut left, u64::from(weight_min)));
        }
    }
    // The heaviest chain comes first; of equal ones the one that was found first.
    chains.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    chains.into_iter().map(|(_, chain)| chain.into()).collect()
}

/// A chain with its weight: the sum of the weights of its vertices.
fn grow(nodes: &mut [Node], seed: usize, left: &mut u64, weight_min: u64) -> (u64, VecDeque<PageRun>) {
    let (mut chain, mut weight, mut reached) = (VecDeque::new(), 0, Buckets::default());
    let mut touched = vec![seed];
    let mut next = Some((seed, true));
    while let Some((at, at_tail)) = next {
        let node = &mut nodes[at];
        node.is_placed = true;
        let run = PageRun { pages: node.run.pages.min(*left), ..node.run };
        *left -= run.pages;
        weight += node.weight;
        if at_tail {
            chain.push_back(run)
        } else {
            chain.push_front(run)
        }
        if *left == 0 {
            break;
        }
        for (other, to, from) in nodes[at].edges.clone() {
            let reaches = &mut nodes[other];
            if reaches.is_placed {
                continue;
            }
            reaches.from_chain += u64::from(to);
            reaches.to_chain += u64::from(from);
            reached.push(reaches.from_chain + reaches.to_chain, other);
            touched.push(other);
        }
        next = heaviest(nodes, &mut reached, weight_min);
    }
    for at in touched {
        (nodes[at].from_chain, nodes[at].to_chain) = (0, 0);
    }
    (weight, chain)
}

/// The unplaced vertex that the chain is bound to most, and whether it comes behind the chain.
fn heaviest(nodes: &[Node], reached: &mut Buckets, weight_min: u64) -> Option<(usize, bool)> {
    while let Some((weight, at)) = reached.pop() {
        let node = &nodes[at];
        if node.is_placed || node.from_chain + node.to_chain != weight {
            continue;
        }
        return (weight >= weight_min).then_some((at, node.from_chain >= node.to_chain));
    }
    None
}

/// The vertices that may be planned, with the edges between them: those that some edge binds.
fn nodes(graph: &AccessGraph, weight_min: u32) -> Vec<Node> {
    let stay = long_runs(graph);
    let binds = |(from, to): &(u64, u64)| from != to && !stay.contains(from) && !stay.contains(to);
    let heavy: Vec<((u64, u64), u32)> = graph
        .edges()
        .iter()
        .filter(|(ends, weight)| **weight >= weight_min && binds(ends))
        .map(|(ends, weight)| (*ends, *weight))
        .collect();
    let mut bound: Vec<u64> = heavy.iter().flat_map(|((from, to), _)| [*from, *to]).collect();
    bound.sort_unstable();
    bound.dedup();
    // An edge may outlive a vertex.
    bound.retain(|first| graph.vertices().contains_key(first));
    let node = |first: &u64| {
        let run = PageRun { page: *first, pages: graph.vertices()[first].end - first };
        Node { run, edges: Vec::new(), weight: 0, is_placed: false, from_chain: 0, to_chain: 0 }
    };
    let mut nodes: Vec<Node> = bound.iter().map(node).collect();
    for ((from, to), weight) in heavy {
        let (Ok(from), Ok(to)) = (bound.binary_search(&from), bound.binary_search(&to)) else { continue };
        nodes[from].weight += u64::from(weight);
        nodes[to].weight += u64::from(weight);
        nodes[from].edges.push((to, weight, 0));
        nodes[to].edges.push((from, 0, weight));
    }
    nodes
}

/// Vertices that are parts of long sequential runs: what lies at home in the order in which it is asked for gains
/// nothing. The first page of each.
fn long_runs(graph: &AccessGraph) -> BTreeSet<u64> {
    let (mut stay, mut run, mut end) = (BTreeSet::new(), Vec::new(), None);
    let mut close = |run: &mut Vec<u64>, end: Option<u64>| {
        let pages = run.first().zip(end).map_or(0, |(first, end)| end - first);
        if pages >= LONG_RUN {
            stay.extend(run.iter().copied());
        }
        run.clear();
    };
    for (first, vertex) in graph.vertices() {
        let goes_on = end == Some(*first)
            && run.last().is_some_and(|before: &u64| {
                let through = graph.edges().get(&(*before, *first)).copied().unwrap_or(0);
                through >= vertex.count / 2
            });
        if !goes_on {
            close(&mut run, end);
        }
        run.push(*first);
        end = Some(vertex.end);
    }
    close(&mut run, end);
    stay
}
