//! The device manager: what an extension knows of the ends below it.
//!
//! A stack does not say where the arm of a disk is, and no caller should rely on it. The position is that of the last
//! request that this extension sent: it is right as long as nothing else uses the device much. Nothing here decides; a
//! caller that asks does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::{Bio, BioError, Done, Limits, Op};

/// Which way an arm went last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// Not at all, as far as is known.
    #[default]
    Unknown,
    /// To higher addresses.
    Up,
    /// To lower addresses.
    Down,
}

/// Where the arm of a device probably is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArmState {
    /// The byte after the last one that was asked for.
    pub at: u64,
    /// Which way it went to get there.
    pub way: Way,
}

/// What does not change about a lower device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Characteristics {
    /// Bytes.
    pub size: u64,
    /// Logical block in bytes.
    pub block: u32,
    /// Largest write in bytes that a power cut leaves whole or undone.
    pub atomic: u32,
    /// Granularity of discards in bytes: the erase unit of flash.
    pub discard: u32,
    /// Whether completed writes can be lost until a flush.
    pub volatile_cache: bool,
}

/// What changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Whether it answers.
    pub is_plugged: bool,
    /// Requests of this extension that it has not answered.
    pub in_flight: u64,
    /// Requests that it has answered.
    pub answered: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Where its arm probably is.
    pub head: ArmState,
}

/// Something that happened to a lower device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// It is there again.
    Plug,
    /// It is gone.
    Unplug,
}

/// A lower device that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no lower device {lower}; there are {count}")]
pub struct NoLower {
    /// Its number.
    pub lower: usize,
    /// How many there are.
    pub count: usize,
}

struct Lower {
    characteristics: Characteristics,
    plugged: Cell<bool>,
    in_flight: Cell<u64>,
    answered: Cell<u64>,
    failed: Cell<u64>,
    head: Cell<ArmState>,
}

type Handler = Rc<dyn Fn(usize, Event)>;

/// A handler, for one lower device or all and one event or all.
struct Registered {
    lower: Option<usize>,
    event: Option<Event>,
    handler: Handler,
}

impl Registered {
    fn wants(&self, lower: usize, event: Event) -> bool {
        self.lower.is_none_or(|of| of == lower) && self.event.is_none_or(|of| of == event)
    }
}

/// What an extension knows of its lower devices.
pub struct Lowers {
    lowers: Vec<Lower>,
    /// By number.
    handlers: RefCell<BTreeMap<u64, Registered>>,
    last_handler: Cell<u64>,
}

impl Lowers {
    /// For an extension whose lower devices have these limits, as it is built. All are taken as plugged.
    pub fn new(limits: &[Limits]) -> Lowers {
        let lower = |limits: &Limits| Lower {
            characteristics: Characteristics {
                size: limits.size,
                block: limits.block,
                atomic: limits.atomic,
                discard: limits.discard,
                volatile_cache: limits.volatile_cache,
            },
            plugged: Cell::new(true),
            in_flight: Cell::default(),
            answered: Cell::default(),
            failed: Cell::default(),
            head: Cell::default(),
        };
        Lowers {
            lowers: limits.iter().map(lower).collect(),
            handlers: RefCell::default(),
            last_handler: Cell::default(),
        }
    }

    fn lower(&self, lower: usize) -> Result<&Lower, NoLower> {
        self.lowers.get(lower).ok_or(NoLower { lower, count: self.lowers.len() })
    }

    /// Notes that `bio` goes to lower device `lower`.
    ///
    /// # Errors
    /// No such lower device; so do all functions that name one.
    pub fn sent(&self, lower: usize, bio: &Bio) -> Result<(), NoLower> {
        let lower = self.lower(lower)?;
        lower.in_flight.set(lower.in_flight.get() + 1);
        if matches!(bio.op, Op::Read | Op::Write | Op::Zero) {
            let way = if bio.offset() < lower.head.get().at { Way::Down } else { Way::Up };
            lower.head.set(ArmState { at: bio.range.end(), way });
        }
        Ok(())
    }

    /// Notes its answer. That the device is gone is an [`Event::Unplug`], the first time.
    ///
    /// # Errors
    /// No such lower device.
    pub fn answered(&self, number: usize, done: &Done) -> Result<(), NoLower> {
        let lower = self.lower(number)?;
        lower.in_flight.set(lower.in_flight.get().saturating_sub(1));
        lower.answered.set(lower.answered.get() + 1);
        lower.failed.set(lower.failed.get() + u64::from(done.result.is_err()));
        if matches!(done.result, Err(BioError::Gone(_) | BioError::Latched(_))) {
            self.report(number, Event::Unplug)?;
        }
        Ok(())
    }

    /// What does not change about it.
    ///
    /// # Errors
    /// No such lower device.
    pub fn characteristics(&self, lower: usize) -> Result<&Characteristics, NoLower> {
        Ok(&self.lower(lower)?.characteristics)
    }

    /// What does.
    ///
    /// # Errors
    /// No such lower device.
    pub fn state(&self, lower: usize) -> Result<State, NoLower> {
        let lower = self.lower(lower)?;
        Ok(State {
            is_plugged: lower.plugged.get(),
            in_flight: lower.in_flight.get(),
            answered: lower.answered.get(),
            failed: lower.failed.get(),
            head: lower.head.get(),
        })
    }

    /// Of the lower devices in `among` that are plugged, the one whose arm has the shortest way to `offset`; of equally
    /// near ones the first in `among`. None if all are gone.
    pub fn closest(&self, among: &[usize], offset: u64) -> Option<usize> {
        let there = among.iter().copied().filter(|lower| self.lowers.get(*lower).is_some_and(|l| l.plugged.get()));
        there.min_by_key(|lower| self.lowers[*lower].head.get().at.abs_diff(offset))
    }

    /// Calls `handler` for each `event` (or any) of `lower` (or any) from now on, until [`Lowers::forget`] is called
    /// with the number that this gives.
    ///
    /// # Errors
    /// No such lower device.
    pub fn on(
        &self,
        lower: Option<usize>,
        event: Option<Event>,
        handler: impl Fn(usize, Event) + 'static,
    ) -> Result<u64, NoLower> {
        lower.map(|lower| self.lower(lower)).transpose()?;
        let number = self.last_handler.get() + 1;
        self.last_handler.set(number);
        let handler: Handler = Rc::new(handler);
        self.handlers.borrow_mut().insert(number, Registered { lower, event, handler });
        Ok(number)
    }

    /// Calls a handler no more. Whether there was one.
    pub fn forget(&self, handler: u64) -> bool {
        self.handlers.borrow_mut().remove(&handler).is_some()
    }

    /// Says that something happened. Handlers are called once for each change, in the order in which they came: what a
    /// lower end is already is no event. Whether it was one.
    ///
    /// # Errors
    /// No such lower device.
    pub fn report(&self, lower: usize, event: Event) -> Result<bool, NoLower> {
        let plugged = event == Event::Plug;
        if self.lower(lower)?.plugged.replace(plugged) == plugged {
            return Ok(false);
        }
        // A handler may register or forget others.
        let handlers = self.handlers.borrow();
        let wanted = handlers.values().filter(|registered| registered.wants(lower, event));
        let called: Vec<Handler> = wanted.map(|registered| registered.handler.clone()).collect();
        drop(handlers);
        called.iter().for_each(|handler| handler(lower, event));
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
