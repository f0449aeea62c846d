//! All crashes of scripts: each state that a power cut can leave is opened, judged and used.

use std::collections::BTreeMap;
use std::ops::Range;

use esker_base::Stream;
use esker_fs_posix::script::{Bounded, ScriptOp};
use esker_vfs::Promise;

use super::breach::Breach;
use super::stage::{Enacted, Moment, Shown, Stage, restarted};
use crate::crash::{self, Bound, Image};

/// Calls that a file system must still serve behind a crash. The last one makes them durable.
const USE: &str = "mkdir used 0755\nopen #0 used/file rdwr,creat 0644\nwrite #0 5000 x9\nlink used/file used/other\n\
                   rename used/file used/third replace\ntruncate #0 3000\nclose #0\nlist used\nsync all\n";

/// How far a search goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// States of one crash point; where there are more, some are drawn.
    pub states_max: u64,
    /// One of so many opened states is used.
    pub used_every: u64,
    /// Seed of all draws.
    pub seed: u64,
}

impl Reach {
    /// What a usual test run affords.
    pub fn quick(seed: u64) -> Reach {
        Reach { states_max: 12, used_every: 8, seed }
    }

    /// What a soak affords.
    pub fn long(seed: u64) -> Reach {
        Reach { states_max: 64, used_every: 2, seed }
    }
}

/// What was tried, and what was left out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Searched {
    /// Scripts.
    pub scripts: u64,
    /// Scripts of the same kind that were not drawn.
    pub scripts_left: u64,
    /// Calls.
    pub calls: u64,
    /// Crash points.
    pub points: u64,
    /// Crash points of which only some states were tried.
    pub points_drawn: u64,
    /// States.
    pub states: u64,
    /// States that differ from those before, of the same script: each was opened.
    pub opened: u64,
    /// States that were used.
    pub used: u64,
}

impl Searched {
    /// Adds what another search did.
    pub fn add(&mut self, other: Searched) {
        let Searched { scripts, scripts_left, calls, points, points_drawn, states, opened, used } = other;
        self.scripts += scripts;
        self.scripts_left += scripts_left;
        self.calls += calls;
        self.points += points;
        self.points_drawn += points_drawn;
        self.states += states;
        self.opened += opened;
        self.used += used;
    }
}

/// The states that may be found after a crash before event `point`: from the last one that must be there to the last
/// one that may be.
pub fn allowed(moments: &[Moment], point: u64, promise: Promise) -> Range<usize> {
    let holds = |moment: &Moment| match promise {
        Promise::Linear => moment.until <= point,
        Promise::Prefix | Promise::Weak | Promise::None => moment.is_barrier && moment.until <= point,
    };
    let first = moments.iter().rposition(holds).unwrap_or(0);
    let last = moments.iter().rposition(|moment| moment.from <= point).unwrap_or(0);
    first..last + 1
}

impl Stage {
    /// Plays a script, and judges every state that a crash during it can leave.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn search(&self, script: &[ScriptOp], reach: Reach) -> Result<Searched, Breach> {
        let enacted = self.play(script)?;
        let mut searched = Searched { scripts: 1, calls: script.len() as u64, ..Searched::default() };
        if !self.survives() {
            return Ok(searched);
        }
        let mut seen: BTreeMap<u64, Shown> = BTreeMap::new();
        let bound = Bound { states_max: reach.states_max, seed: reach.seed };
        let count = crash::for_each_state(&enacted.journal, bound, |point, images| {
            let image = &images[0];
            let is_new = !seen.contains_key(&image.digest());
            let shown = seen.entry(image.digest()).or_insert_with(|| self.shown(image.over(&self.store)));
            let matched = self.judge(&enacted, point, self.subject.promise(), image, shown)?;
            searched.opened += u64::from(is_new);
            if is_new && image.digest().is_multiple_of(reach.used_every) {
                searched.used += 1;
                self.use_state(&enacted, point, image, &matched)?;
            }
            Ok(())
        })?;
        searched.points = count.points;
        searched.points_drawn = count.points - count.exhaustive;
        searched.states = count.states;
        Ok(searched)
    }

    /// Holds what a state shows to a promise. Answers the moment that it is.
    pub(super) fn judge(
        &self,
        enacted: &Enacted,
        point: u64,
        promise: Promise,
        image: &Image,
        shown: &Shown,
    ) -> Result<Moment, Breach> {
        let allowed = allowed(&enacted.moments, point, promise);
        let moments = &enacted.moments[allowed.clone()];
        let found = shown.as_ref().ok().and_then(|digest| moments.iter().find(|moment| moment.digest() == *digest));
        if let Some(moment) = found {
            return Ok(moment.clone());
        }
        let when = format!(
            "crash before event {point} of {}, with calls 1 to {} promised and call {} the last that began",
            enacted.journal.points(),
            allowed.start,
            allowed.end - 1
        );
        let mut what = self.nearest(image.over(&self.store), moments);
        let known = |digest: &u64| enacted.moments.iter().position(|moment| moment.digest() == *digest);
        what.extend(shown.as_ref().ok().and_then(known).map(|number| format!("it is the state behind call {number}")));
        Err(self.breach(&enacted.script, when, what))
    }

    /// Uses a state that was found good: calls are answered as the oracle says, and what is synced is found again.
    fn use_state(&self, enacted: &Enacted, point: u64, image: &Image, moment: &Moment) -> Result<(), Breach> {
        let script = ScriptOp::script(USE).expect("a constant of calls");
        let told = |breach: Breach| {
            let when = format!("used after a crash before event {point}: {}", breach.when);
            self.breach(&enacted.script, when, breach.what)
        };
        let stage = self.over(image.over(&self.store), restarted(&*self.subject, &moment.ram));
        let used = stage.play(&script).map_err(told)?;
        // A recovery that writes is cut too, and repeated.
        let points = (0..used.moments[0].until).chain([used.journal.points()]);
        let bound = Bound { states_max: 2, seed: point };
        let count = crash::for_each_state_at(&used.journal, points, bound, |point, images| {
            let shown = stage.shown(images[0].over(&stage.store));
            stage.judge(&used, point, self.subject.promise(), &images[0], &shown).map(drop)
        });
        count.map(drop).map_err(told)
    }

    /// Searches scripts of a number of steps: all of them, or `scripts_max` drawn ones.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn search_bounded(&self, length: u32, scripts_max: u64, reach: Reach) -> Result<Searched, Breach> {
        let scripts = Bounded::new(length);
        let mut searched = Searched { scripts_left: scripts.count(), ..Searched::default() };
        let mut rng = Stream::named(reach.seed, &format!("scripts of {length} steps"));
        let is_whole = scripts.count() <= scripts_max;
        for number in 0..scripts.count().min(scripts_max) {
            let number = if is_whole { number } else { rng.below(scripts.count()) };
            searched.add(self.search(&scripts.steps(number), reach)?);
            searched.scripts_left -= 1;
        }
        Ok(searched)
    }

    /// Searches drawn scripts of two and of three steps by turns, until so many states were tried. `say` hears of the
    /// sum behind each hundred scripts.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn search_long(&self, states: u64, reach: Reach, mut say: impl FnMut(&Searched)) -> Result<Searched, Breach> {
        let mut searched = Searched::default();
        for round in 0.. {
            let found = self.search_bounded(2 + round as u32 % 2, 100, Reach { seed: reach.seed + round, ..reach })?;
            searched.add(Searched { scripts_left: 0, ..found });
            say(&searched);
            if searched.states >= states || found.states == 0 {
                break;
            }
        }
        Ok(searched)
    }
}
