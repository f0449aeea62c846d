//! The cleaner: a program of its own that keeps segments clean before a change finds no room.
//!
//! It knows a file system by [`LfsControl`] alone, in this process or another. It begins when clean segments fall below
//! the lower threshold, and ends above the upper one. Each step selects victims, reads their logs, asks for the lives
//! of their blocks, and orders what lives to move. A step that would give too little back is not made (late abort). A
//! cleaner that dies between two calls leaves nothing behind but its claim, which lapses.
//!
//! Reading order: [`config`] (what it may do), [`choice`] (which segments), [`step`] (one step), [`LfsCleaner::run`].

pub mod choice;
pub mod config;
pub mod step;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{Errno, Nanos};
use esker_rt::sync::{Notify, race};
use esker_rt::{Level, Rt};

pub use config::{CleanerConfig, CleanerConfigError};
pub use step::{CleaningStep, StepEnd};

use crate::control::{LEASE, LfsControl, LfsTotals};

/// The cleaner of one file system.
pub struct LfsCleaner {
    rt: Rt,
    control: Rc<dyn LfsControl>,
    config: RefCell<CleanerConfig>,
    changed: Notify,
    /// Configurations that it was given so far.
    changes: Cell<u64>,
    /// Whether it works on towards the upper threshold.
    is_running: Cell<bool>,
    /// What the file system was found not to know.
    unknown: Cell<step::Unknown>,
    /// Freedom to choose in this run, for the adaptive policy.
    slack: Cell<f64>,
    /// Segments that one step takes at most: less than configured when room is short.
    victims_max: Cell<usize>,
    /// Where the search for the first protected checkpoint begins.
    protected_hint: Cell<u64>,
}

/// What a turn of the cleaner came to.
#[derive(Clone, PartialEq, Debug)]
pub enum CleanerTurn {
    /// Segments enough are clean.
    Idle,
    /// A step was made.
    Made(CleaningStep),
}

impl LfsCleaner {
    /// Of a file system.
    pub fn new(rt: &Rt, control: Rc<dyn LfsControl>, config: CleanerConfig) -> LfsCleaner {
        LfsCleaner {
            rt: rt.clone(),
            control,
            config: RefCell::new(config),
            changed: Notify::default(),
            changes: Cell::new(0),
            is_running: Cell::new(false),
            unknown: Cell::default(),
            slack: Cell::new(1.0),
            victims_max: Cell::new(usize::MAX),
            protected_hint: Cell::new(1),
        }
    }

    /// What it works by from the next step on.
    pub fn configure(&self, config: CleanerConfig) {
        *self.config.borrow_mut() = config;
        self.protected_hint.set(1);
        self.victims_max.set(usize::MAX);
        self.changes.set(self.changes.get() + 1);
        self.changed.notify_all();
    }

    /// What it works by.
    pub fn config(&self) -> CleanerConfig {
        self.config.borrow().clone()
    }

    /// Works until the file system is closed.
    ///
    /// # Errors
    /// `EBUSY`: another cleaner has the claim. What else stops it.
    pub async fn run(&self) -> Result<(), Errno> {
        loop {
            let pause = match self.turn().await {
                Ok(turn) => self.pause_after(&turn),
                Err(Errno::ENODEV) => return Ok(()),
                Err(errno @ (Errno::EBUSY | Errno::EROFS | Errno::EIO | Errno::EPROTO)) => return Err(errno),
                Err(errno) => {
                    self.rt.log(Level::Warn, format_args!("cleaner: a step was not made: {errno}"));
                    self.config.borrow().retry_interval
                }
            };
            match self.rest(pause).await {
                Ok(()) => {}
                Err(Errno::ENODEV) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Waits so long, or until it is given another configuration. It keeps the claim meanwhile.
    async fn rest(&self, pause: Nanos) -> Result<(), Errno> {
        let (seen, end) = (self.changes.get(), self.rt.now() + pause);
        loop {
            let left = end.since(self.rt.now()).min(Nanos(LEASE.0 / 2));
            race(self.rt.sleep(left), self.changed.wait_until(|| self.changes.get() != seen)).await;
            if self.rt.now() >= end || self.changes.get() != seen {
                return Ok(());
            }
            self.control.claim().await?;
        }
    }

    /// Works until segments enough are clean, or until nothing can be cleaned.
    ///
    /// # Errors
    /// As for [`LfsCleaner::turn`].
    pub async fn run_once(&self) -> Result<(), Errno> {
        loop {
            match self.turn().await? {
                CleanerTurn::Made(CleaningStep { end: StepEnd::Cleaned | StepEnd::Deferred, .. }) => {}
                CleanerTurn::Made(_) | CleanerTurn::Idle => return Ok(()),
            }
        }
    }

    /// The world that it works in.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Looks at the thresholds, and makes one step if it is due.
    ///
    /// # Errors
    /// As for the calls of [`LfsControl`].
    pub async fn turn(&self) -> Result<CleanerTurn, Errno> {
        self.control.claim().await?;
        let (totals, config) = (self.control.totals().await?, self.config());
        let lower = config.min_clean.segments(&totals).saturating_add(totals.reserved);
        let upper = config.max_clean.segments(&totals).saturating_add(totals.reserved);
        match self.is_running.get() {
            false if totals.clean < lower => {
                self.is_running.set(true);
                let gain = upper.saturating_sub(totals.clean).saturating_mul(totals.segment_blocks);
                self.slack.set(self.slack_of_pass(&totals, gain).await?);
            }
            true if totals.clean > upper => self.is_running.set(false),
            _ => {}
        }
        if !self.is_running.get() {
            return Ok(CleanerTurn::Idle);
        }
        let step = self.step(&totals, &config, totals.clean < lower).await?;
        if step.end == StepEnd::Nothing {
            // A look at the same segments again finds nothing new before something is written.
            self.is_running.set(false);
        }
        step.log(&self.rt);
        Ok(CleanerTurn::Made(step))
    }

    /// How long it rests behind a turn.
    pub fn pause_after(&self, turn: &CleanerTurn) -> Nanos {
        let config = self.config.borrow();
        match turn {
            CleanerTurn::Idle => config.check_interval,
            CleanerTurn::Made(step) => match step.end {
                StepEnd::Cleaned if step.is_pressed => config.pressed.interval,
                StepEnd::Cleaned => config.relaxed.interval,
                // Other segments are better ones.
                StepEnd::Deferred => Nanos::ZERO,
                StepEnd::Nothing => config.check_interval,
                StepEnd::NoRoom => config.retry_interval,
            },
        }
    }

    /// Freedom to choose in a pass that gains so many blocks.
    async fn slack_of_pass(&self, totals: &LfsTotals, gain: u64) -> Result<f64, Errno> {
        let mut dead = 0;
        for info in self.infos(totals).await? {
            dead += info.live.map_or(0, |live| u64::from(info.blocks.saturating_sub(live.live)));
        }
        Ok(esker_cleaning::Situation::of_pass(totals.written, dead, gain).slack)
    }
}
