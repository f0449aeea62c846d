//! Sorts records that come slightly out of order.

use crate::record::Record;
use esker_base::Nanos;
use std::collections::VecDeque;

/// How many records are held back so that a late one finds its place.
pub(crate) const WINDOW: usize = 4096;

/// The last records in order of time; equal times keep their order. A record that is late by `n` places costs `n`
/// moves.
#[derive(Debug, Default)]
pub(crate) struct Order {
    held: VecDeque<Record>,
    /// The time of the latest record given out.
    given: Nanos,
}

impl Order {
    /// Whether `record` comes too late to be put into its place.
    pub(crate) fn is_late(&self, record: &Record) -> bool {
        record.at < self.given
    }

    /// Whether enough is held to give the first one out.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() > WINDOW
    }

    /// Takes a record in.
    pub(crate) fn push(&mut self, record: Record) {
        if self.held.back().is_none_or(|last| last.at <= record.at) {
            self.held.push_back(record);
        } else {
            let place = self.held.partition_point(|r| r.at <= record.at);
            self.held.insert(place, record);
        }
    }

    /// Gives the earliest record out.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        let record = self.held.pop_front()?;
        self.given = self.given.max(record.at);
        Some(record)
    }
}
