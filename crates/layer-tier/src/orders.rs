//! Orders of operators to the open layer.

use std::cell::OnceCell;
use std::ops::RangeInclusive;
use std::rc::Rc;

use esker_block::{Below, KindError, OrderInfo, OrderLeft, Orders, Step};
use esker_tiering::Objective;
use esker_tiering::control::Phase;
use esker_tiering::model::performance;
use serde_json::{Value, json};

use crate::engine::Tier;

/// What is left of an order that moves extents.
const QUEUED: Option<OrderLeft> = Some(OrderLeft { stat: "queued", unit: "moves" });

pub(crate) const ORDERS: &[OrderInfo] = &[
    OrderInfo {
        name: "place",
        arguments: "FIRST-LAST END",
        doc: "Moves extents to an end; the next plan may move them again, unless there is none.",
        left: QUEUED,
    },
    OrderInfo {
        name: "drain",
        arguments: "END",
        doc: "Empties an end, and puts nothing there until the next start.",
        left: QUEUED,
    },
    OrderInfo {
        name: "explain",
        arguments: "EXTENT",
        doc: "Says where an extent lies, what it asks, and what it weighs.",
        left: None,
    },
    OrderInfo { name: "ends", arguments: "", doc: "Says of each end what lies there, and how it does.", left: None },
];

/// What is right.
const USAGE: &str =
    "write `place FIRST-LAST END`, `drain END`, `explain EXTENT` or `ends`; extents and ends count from 0";

/// Takes orders of operators to the open layer.
#[derive(Clone, Default)]
pub(crate) struct Orderly(pub(crate) Rc<OnceCell<Rc<Tier>>>);

impl Orders for Orderly {
    fn list(&self) -> &'static [OrderInfo] {
        ORDERS
    }

    fn order(&self, _: Below, words: &[String]) -> Step<Result<String, KindError>> {
        let tier = self.0.get().expect("the stack opens a layer before it is asked");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = match words[..] {
            ["place", extents, end] => tier.place(extents, end),
            ["drain", end] => tier.drain(end),
            ["explain", extent] => tier.explain(extent),
            ["ends"] => Ok(tier.told_ends()),
            _ => Err(USAGE.to_string()),
        };
        Step::Now(answer.map(|answer| answer.to_string()).map_err(KindError::Unfit))
    }
}

impl Tier {
    /// Queues moves of extents to an end.
    fn place(&self, extents: &str, end: &str) -> Result<Value, String> {
        let (extents, end) = (self.extents_of(extents)?, self.end_of_word(end)?);
        if self.ends[end].is_out() {
            return Err(format!("end {end} is being emptied, or cannot be used"));
        }
        let elsewhere = extents.clone().filter(|extent| self.placing.borrow().end_of(*extent) != end);
        let moves: Vec<(u32, usize)> = elsewhere.map(|extent| (extent, end)).collect();
        let queued = moves.len();
        self.queue.borrow_mut().order(&extents, moves);
        self.background.wake();
        Ok(json!({ "queued": queued }))
    }

    fn drain(&self, end: &str) -> Result<Value, String> {
        let end = self.end_of_word(end)?;
        let (residents, room) = {
            let placing = self.placing.borrow();
            let others = (0..self.ends.len()).filter(|other| *other != end && !self.ends[*other].is_out());
            (placing.residents(end), others.map(|other| placing.free(other)).sum::<u32>())
        };
        if residents > room {
            return Err(format!("end {end} has {residents} extents, and the others have room for {room}"));
        }
        self.ends[end].drains.set(true);
        self.queue_drains();
        self.background.wake();
        Ok(json!({ "extents": residents }))
    }

    /// The terms that place an extent.
    fn explain(&self, extent: &str) -> Result<Value, String> {
        let extent = *self.extents_of(extent)?.start();
        let (placing, demand) = (self.placing.borrow(), self.seen.borrow().demand(extent));
        let weighs = |end: usize| {
            let devices = &self.config.ends[end].devices;
            json!({
                "end": end,
                "sheet": devices.sheet.name,
                "time": performance(&demand, &devices.sheet),
                "room": devices.sheet.capacity(self.config.extent as f64),
                "burden": self.burden(&demand, end),
            })
        };
        let split = placing.split_of(extent);
        let objective = Objective::NAMED.iter().find(|(_, known)| *known == self.config.objective);
        Ok(json!({
            "extent": extent,
            "end": placing.end_of(extent),
            "slot": placing.slot_of(extent),
            "moved_bytes": split.map_or(0, |split| split.done),
            "random_per_s": demand.random,
            "mb_per_s": demand.mb_per_s,
            "requests_per_s": demand.iops,
            "objective": objective.map(|(name, _)| *name),
            "ends": (0..self.ends.len()).map(weighs).collect::<Vec<_>>(),
        }))
    }

    fn told_ends(&self) -> Value {
        let (placing, seen) = (self.placing.borrow(), self.seen.borrow());
        let throttling: Vec<bool> = seen.throttling().collect();
        let told = |end: usize| {
            let (state, devices) = (&self.ends[end], &self.config.ends[end].devices);
            json!({
                "sheet": devices.sheet.name,
                "devices": devices.count,
                "extents": placing.residents(end),
                "free": placing.free(end),
                "throttles": throttling[end],
                "drains": state.drains.get(),
                "lost": state.is_lost.get(),
                "latched": state.latch.is_set(),
            })
        };
        let phase = match seen.phase() {
            Phase::Packing => "packing",
            Phase::Correcting => "correcting",
            Phase::Calm { .. } => "calm",
        };
        json!({ "phase": phase, "ends": (0..self.ends.len()).map(told).collect::<Vec<_>>() })
    }

    /// `7`, or `3-9`.
    fn extents_of(&self, word: &str) -> Result<RangeInclusive<u32>, String> {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("\"{word}\" is no number; {USAGE}"));
        let (first, last) = (number(first)?, number(last)?);
        let extents = self.placing.borrow().extents();
        match first <= last && last < extents {
            true => Ok(first..=last),
            false => Err(format!("there are the extents 0 to {}, and not {word}", extents - 1)),
        }
    }

    fn end_of_word(&self, word: &str) -> Result<usize, String> {
        let end = word.parse().ok().filter(|end| *end < self.ends.len());
        end.ok_or_else(|| format!("there are the ends 0 to {}, and not {word}", self.ends.len() - 1))
    }
}
