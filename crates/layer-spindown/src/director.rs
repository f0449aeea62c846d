//! What stays aside: pages by the energy that their accesses would have cost, and what is known of the disk.

use std::rc::Rc;

use esker_base::Nanos;
use esker_caching::{Lines, Slot};
use esker_layer_aside::{Access, Director, Fill, Put};
use esker_layer_kit::Background;
use esker_layer_kit::awake::Awake;
use esker_rt::Rt;

use crate::ranks::Ranks;

/// Joules of an access while the disk works anyway: a laptop's disk draws about 2 W for about 10 ms.
const ACCESS_J: f64 = 0.02;
/// What a page must be worth to be fetched: an access within the last half-life. What is read together wakes the disk
/// together, and only the first page of it has the value of a spin-up.
const FETCH_J: f64 = ACCESS_J / 2.0;

/// What the disk draws.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// Time without requests after which it rests by itself.
    pub idle_after: Nanos,
    /// Watts while it turns and does nothing.
    pub idle_w: f64,
    /// Joules of a spin-up.
    pub spin_up_j: f64,
}

/// What the layer has seen of the disk.
#[derive(Clone, Copy, Default, Debug)]
pub struct SpinCounts {
    /// Requests of clients that found it resting.
    pub woken: u64,
    /// Write-back that did.
    pub pressed: u64,
    /// Requests of clients that would have found it resting if all had gone there.
    pub plain: u64,
}

/// Decides by ranks.
pub struct RankDirector {
    rt: Rt,
    costs: Costs,
    half_life: Nanos,
    ranks: Option<Ranks>,
    /// The disk.
    awake: Awake,
    /// The disk as it would be if all requests of clients went there.
    plain: Awake,
    under_way: u64,
    /// A client has used the disk since the last plan.
    is_wanted: bool,
    counts: SpinCounts,
    wakes: Option<Rc<Background>>,
}

impl RankDirector {
    /// With ranks that are made when the number of slots is known.
    pub fn new(rt: Rt, costs: Costs, half_life: Nanos) -> RankDirector {
        let awake = || Awake::new(costs.idle_after, rt.now());
        RankDirector {
            awake: awake(),
            plain: awake(),
            rt,
            costs,
            half_life,
            ranks: None,
            under_way: 0,
            is_wanted: false,
            counts: SpinCounts::default(),
            wakes: None,
        }
    }

    /// Wakes these tasks from now on when a client uses the disk.
    pub fn wake_with(&mut self, background: Rc<Background>) {
        self.wakes = Some(background);
    }

    /// Whether the disk rests, and must be left alone.
    pub fn is_resting(&self) -> bool {
        self.under_way == 0 && self.awake.is_resting(self.rt.now())
    }

    /// Whether a plan should be made: a client has used the disk since the last one, and it is awake.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted && !self.is_resting()
    }

    /// A plan is made.
    pub fn planned(&mut self) {
        self.is_wanted = false;
    }

    /// The disk does work of the layer. It may wake only if too many copies are dirty.
    pub fn works(&mut self, is_pressed: bool) {
        self.counts.pressed += u64::from(is_pressed && self.is_resting());
        self.awake.work(self.rt.now());
    }

    /// What was seen of the disk.
    pub fn counts(&self) -> SpinCounts {
        self.counts
    }

    /// Pages that are known.
    pub fn pages(&self) -> usize {
        self.ranks.as_ref().map_or(0, Ranks::pages)
    }

    /// These copies are clean, or were found to be.
    pub fn released(&mut self, slots: impl Iterator<Item = Slot>) {
        slots.for_each(|slot| self.ranks().released(slot));
    }

    /// At most `most` pages to fetch, the best first. There are `free` slots; for each page beyond those a copy that is
    /// worth less is among `leaving`, which `is_held` must allow.
    pub fn exchange(&self, free: u64, most: usize, is_held: impl Fn(Slot) -> bool) -> (Vec<u64>, Vec<Slot>) {
        let Some(ranks) = &self.ranks else { return (Vec::new(), Vec::new()) };
        let mut copies = ranks.copies().filter(|(slot, _)| !is_held(*slot));
        let (mut fetched, mut leaving) = (Vec::new(), Vec::new());
        for (page, log) in ranks.wanted(FETCH_J, self.rt.now()).take(most) {
            if fetched.len() as u64 >= free {
                match copies.next() {
                    Some((slot, least)) if least < log => leaving.push(slot),
                    _ => break,
                }
            }
            fetched.push(page);
        }
        (fetched, leaving)
    }

    /// Joules of an access now, if it went to the disk (3.3.4 of the reading of EXCES).
    fn joules(&self) -> f64 {
        let now = self.rt.now();
        let idle = self.awake.idle(now).min(self.costs.idle_after).as_secs_f64() * self.costs.idle_w;
        match (self.under_way > 0, self.is_resting()) {
            (true, _) => ACCESS_J,
            (false, true) => self.costs.spin_up_j.max(ACCESS_J) + idle,
            (false, false) => idle.max(ACCESS_J),
        }
    }

    /// A client accesses a page. Every write goes aside, so no copy saves the disk one.
    fn worth(&mut self, of: Access) -> f64 {
        self.counts.plain += u64::from(self.plain.work(self.rt.now()));
        if of.changes { ACCESS_J } else { self.joules() }
    }

    fn ranks(&mut self) -> &mut Ranks {
        self.ranks.as_mut().expect("the engine begins before it asks")
    }
}

impl Director for RankDirector {
    fn begin(&mut self, slots: u32) {
        self.ranks = Some(Ranks::new(self.half_life, slots));
    }

    fn hit(&mut self, slot: Slot, of: Access) {
        let (joules, now) = (self.worth(of), self.rt.now());
        self.ranks().note_slot(slot, joules, now);
    }

    fn read_miss(&mut self, unit: u64, of: Access) -> Fill {
        let (joules, now) = (self.worth(of), self.rt.now());
        self.ranks().note(unit, joules, now);
        // Copies are made in windows only.
        Fill::No
    }

    fn write_miss(&mut self, unit: u64, of: Access) -> Put {
        let (joules, now) = (self.worth(of), self.rt.now());
        self.ranks().note(unit, joules, now);
        Put::Aside
    }

    fn home_begins(&mut self) {
        let now = self.rt.now();
        self.counts.woken += u64::from(self.is_resting());
        self.awake.work(now);
        self.under_way += 1;
        self.is_wanted = true;
        self.wakes.iter().for_each(|background| background.wake());
    }

    fn home_ended(&mut self) {
        self.under_way -= 1;
        self.awake.work(self.rt.now());
        self.wakes.iter().for_each(|background| background.wake());
    }

    fn victim(&mut self, lines: &dyn Lines) -> Option<Slot> {
        self.ranks().victim(|slot| lines.is_held(slot))
    }

    fn placed(&mut self, unit: u64, slot: Slot) {
        let now = self.rt.now();
        self.ranks().placed(unit, slot, now);
    }

    fn removed(&mut self, slot: Slot) {
        self.ranks().removed(slot);
    }

    fn coldest(&self, coldest: &mut Vec<Slot>, most: usize) {
        coldest.extend(self.ranks.iter().flat_map(Ranks::coldest).take(most));
    }

    fn bytes(&self) -> usize {
        self.ranks.as_ref().map_or(0, Ranks::bytes)
    }
}
