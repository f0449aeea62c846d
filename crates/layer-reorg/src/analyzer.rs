//! The analyzer: a graph for each process, and the master graph of all.

use std::collections::BTreeMap;

use esker_base::{Nanos, Time};

use crate::graph::AccessGraph;
use crate::profile::AccessRecord;

/// What the analyzer keeps at most, of all processes together.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Vertices.
    pub vertices: usize,
    /// Edges.
    pub edges: usize,
    /// Processes. Those that were silent for longest are forgotten first.
    pub processes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { vertices: 1 << 20, edges: 1 << 20, processes: 256 }
    }
}

/// One process.
#[derive(Clone, Default, Debug)]
struct Process {
    graph: AccessGraph,
    /// The vertex of its last request, and when that came.
    last: Option<(u64, Time)>,
}

/// Learns which pages follow each other.
#[derive(Clone, Debug)]
pub struct Analyzer {
    processes: BTreeMap<u32, Process>,
    assoc: Nanos,
    bounds: Bounds,
}

impl Analyzer {
    /// Requests of a process with at most `assoc` between them follow each other.
    pub fn new(assoc: Nanos, bounds: Bounds) -> Analyzer {
        Analyzer { processes: BTreeMap::new(), assoc, bounds }
    }

    /// Learns from records in order of time.
    pub fn learn(&mut self, records: &[AccessRecord]) {
        for record in records {
            let process = self.processes.entry(record.who).or_default();
            let last = process.last.filter(|(_, at)| record.at.since(*at) <= self.assoc).map(|(last, _)| last);
            let last = process.graph.note(record.page, record.end(), last);
            process.last = Some((last, record.at));
        }
        self.bound();
    }

    /// Halves all weights: what is past fades. Called once an interval.
    pub fn age(&mut self) {
        for process in self.processes.values_mut() {
            process.graph.age();
            process.last = None;
        }
        self.processes.retain(|_, process| !process.graph.vertices().is_empty());
    }

    /// What one process asks for.
    pub fn process(&self, who: u32) -> Option<&AccessGraph> {
        self.processes.get(&who).map(|process| &process.graph)
    }

    /// What all processes together ask for.
    pub fn master(&self) -> AccessGraph {
        let mut master = AccessGraph::default();
        for process in self.processes.values() {
            master.join(process.graph.clone());
        }
        master.bound(self.bounds.vertices, self.bounds.edges);
        master
    }

    /// Vertices and edges of all processes.
    pub fn size(&self) -> usize {
        self.processes.values().map(|process| process.graph.vertices().len() + process.graph.edges().len()).sum()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.processes.values().map(|process| process.graph.bytes()).sum()
    }

    fn bound(&mut self) {
        while self.processes.len() > self.bounds.processes {
            let silent = self.processes.iter().min_by_key(|(who, process)| (process.last.map(|(_, at)| at), **who));
            let Some(who) = silent.map(|(who, _)| *who) else { return };
            self.processes.remove(&who);
        }
        let sum = |of: fn(&AccessGraph) -> usize| self.processes.values().map(|p| of(&p.graph)).sum::<usize>();
        let [vertices, edges] = [sum(|graph| graph.vertices().len()), sum(|graph| graph.edges().len())];
        if vertices <= self.bounds.vertices && edges <= self.bounds.edges {
            return;
        }
        // Each process keeps its share of three quarters, so that this does not come again at once.
        let share =
            |own: usize, all: usize, most: usize| (own as u128 * most as u128 * 3 / (all.max(1) as u128 * 4)) as usize;
        for process in self.processes.values_mut() {
            let own = (process.graph.vertices().len(), process.graph.edges().len());
            let vertices_max =
                if vertices > self.bounds.vertices { share(own.0, vertices, self.bounds.vertices) } else { own.0 };
            let edges_max = if edges > self.bounds.edges { share(own.1, edges, self.bounds.edges) } else { own.1 };
            process.graph.bound(vertices_max, edges_max);
            process.last = process.last.filter(|(last, _)| process.graph.vertices().contains_key(last));
        }
    }
}
