//! Graphs of what follows what.
//!
//! A vertex is a range of pages. All vertices of a graph are disjoint: a range that overlaps a vertex in part cuts it.
//! An edge says how often one vertex came behind another. Source: the specification of extensions, section 3.2.4.

use std::collections::BTreeMap;

/// What one occurrence weighs. Ageing divides weights, so they are kept in parts of one.
pub const ONE: u32 = 16;

/// A vertex, without its first page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vertex {
    /// The page behind its last one.
    pub end: u64,
    /// How often it was asked for.
    pub count: u32,
}

/// Vertices by their first page, and edges by the first pages of both ends.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct AccessGraph {
    vertices: BTreeMap<u64, Vertex>,
    edges: BTreeMap<(u64, u64), u32>,
}

impl AccessGraph {
    /// Vertices by their first page.
    pub fn vertices(&self) -> &BTreeMap<u64, Vertex> {
        &self.vertices
    }

    /// Edges by the first pages of both ends.
    pub fn edges(&self) -> &BTreeMap<(u64, u64), u32> {
        &self.edges
    }

    /// Notes a request for pages `from..to`, which is not empty. `last` is the vertex that came before it. Answers the
    /// last vertex of the request.
    pub fn note(&mut self, from: u64, to: u64, last: Option<u64>) -> u64 {
        if self.note_whole(from, to) {
            if let Some(last) = last {
                self.add(last, from, ONE);
            }
            return from;
        }
        let last = last.map(|last| self.cut_for(from, to, last));
        if last.is_none() {
            self.cut(from);
            self.cut(to);
        }
        let (mut at, mut before) = (from, last);
        while at < to {
            let end = match self.vertices.get_mut(&at) {
                Some(vertex) => {
                    vertex.count = vertex.count.saturating_add(ONE);
                    vertex.end
                }
                None => {
                    let end = self.vertices.range(at..to).next().map_or(to, |(next, _)| *next);
                    self.vertices.insert(at, Vertex { end, count: ONE });
                    end
                }
            };
            if let Some(before) = before {
                self.add(before, at, ONE);
            }
            (before, at) = (Some(at), end);
        }
        before.unwrap_or(from)
    }

    /// Notes a request for a vertex as it is, or for pages of no vertex, which become one. False if it is neither.
    fn note_whole(&mut self, from: u64, to: u64) -> bool {
        match self.vertices.range_mut(..to).next_back() {
            Some((first, vertex)) if (*first, vertex.end) == (from, to) => {
                vertex.count = vertex.count.saturating_add(ONE)
            }
            Some((_, vertex)) if vertex.end > from => return false,
            _ => {
                self.vertices.insert(from, Vertex { end: to, count: ONE });
            }
        }
        true
    }

    /// Cuts at both ends of a range. Answers where the last part of the vertex `last` begins then.
    fn cut_for(&mut self, from: u64, to: u64, last: u64) -> u64 {
        let end = self.vertices.get(&last).map_or(last, |vertex| vertex.end);
        self.cut(from);
        self.cut(to);
        self.vertices.range(last..end).next_back().map_or(last, |(part, _)| *part)
    }

    /// Cuts the vertex that reaches over `at`, if there is one. Edges to it go to its first part, and edges from it
    /// leave from its last part. The first part is followed by the last as often as the vertex was asked for.
    pub fn cut(&mut self, at: u64) {
        let Some((first, vertex)) = self.vertices.range_mut(..at).next_back().filter(|(_, vertex)| vertex.end > at)
        else {
            return;
        };
        let (first, whole) = (*first, *vertex);
        vertex.end = at;
        self.vertices.insert(at, whole);
        let leaving: Vec<(u64, u64)> =
            self.edges.range((first, 0)..=(first, u64::MAX)).map(|(edge, _)| *edge).collect();
        for edge in leaving {
            let weight = self.edges.remove(&edge).unwrap_or(0);
            self.add(at, edge.1, weight);
        }
        self.add(first, at, whole.count);
    }

    fn add(&mut self, from: u64, to: u64, weight: u32) {
        let sum = self.edges.entry((from, to)).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// Adds a graph. Both are cut where the other one is, so that the vertices of the sum are disjoint.
    pub fn join(&mut self, mut other: AccessGraph) {
        // The sum is the same either way, and takes as long as the smaller one is large.
        if other.vertices.len() > self.vertices.len() {
            std::mem::swap(self, &mut other);
        }
        let parts: Vec<(u64, u64)> = other.vertices.iter().map(|(first, vertex)| (*first, vertex.end)).collect();
        for (from, to) in parts {
            for at in self.borders_inside(from, to) {
                other.cut(at);
            }
            self.cut(from);
            self.cut(to);
        }
        for (first, vertex) in other.vertices {
            let sum = self.vertices.entry(first).or_insert(Vertex { end: vertex.end, count: 0 });
            sum.count = sum.count.saturating_add(vertex.count);
        }
        for ((from, to), weight) in other.edges {
            self.add(from, to, weight);
        }
    }

    /// Where vertices begin or end between two pages.
    fn borders_inside(&self, from: u64, to: u64) -> Vec<u64> {
        let overlapping = self.vertices.range(..to).rev().take_while(|(_, vertex)| vertex.end > from);
        let borders = overlapping.flat_map(|(first, vertex)| [vertex.end, *first]);
        borders.filter(|at| (from + 1..to).contains(at)).collect()
    }

    /// Halves all weights, and forgets what weighs nothing then.
    pub fn age(&mut self) {
        let before = self.vertices.len();
        self.vertices.retain(|_, vertex| {
            vertex.count /= 2;
            vertex.count > 0
        });
        self.edges.retain(|_, weight| {
            *weight /= 2;
            *weight > 0
        });
        if self.vertices.len() < before {
            self.drop_loose_edges();
        }
    }

    /// Forgets the lightest vertices and edges until at most so many of each are left.
    pub fn bound(&mut self, vertices_max: usize, edges_max: usize) {
        if self.vertices.len() > vertices_max {
            let floor = lightest_kept(self.vertices.values().map(|vertex| vertex.count), vertices_max);
            self.vertices.retain(|_, vertex| vertex.count >= floor);
            self.drop_loose_edges();
        }
        if self.edges.len() > edges_max {
            let floor = lightest_kept(self.edges.values().copied(), edges_max);
            self.edges.retain(|_, weight| *weight >= floor);
        }
    }

    fn drop_loose_edges(&mut self) {
        let vertices = &self.vertices;
        self.edges.retain(|(from, to), _| vertices.contains_key(from) && vertices.contains_key(to));
    }

    /// Bytes of memory, about: keys and values, and half as much for nodes that are not full.
    pub fn bytes(&self) -> usize {
        (self.vertices.len() * 24 + self.edges.len() * 20) * 3 / 2
    }
}

/// The least weight that stays if at most `most` stay; all of one weight stay or go.
fn lightest_kept(weights: impl Iterator<Item = u32>, most: usize) -> u32 {
    let mut weights: Vec<u32> = weights.collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    weights.get(most).map_or(0, |first_out| first_out.saturating_add(1))
}
