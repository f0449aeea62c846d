//! `map-commit`: what it costs to make changes of the durable map of slots durable, on a modelled disk.
//!
//! Each client changes the entry of a slot, waits until the change is durable, and begins anew. The entry relies on
//! data of the disk itself, so each commit is a flush of the disk and a forced write of the journal. The figures count
//! both, and those of checkpoints. `flushes_per_1000_updates` is that of 1,000 clients, with `_64` that of 64 clients,
//! of which about half share a commit. `each_over_group` is the time of changes of 64 clients with a commit of their
//! own, over that with shared commits. `touch_per_s` are the zones that 64 clients touch, each before a first write to
//! a clean entry. All times are those of virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::Time;
use esker_block::Device;
use esker_layer_kit::slots::{CommitRule, Doubt, MapError, NOTE_BYTES, SlotCounts, Suspects, ZONES};
use esker_layer_kit::{Io, LowerSet, SlotEntry, SlotKind, SlotMap, SlotMarks, SlotShape};
use esker_rt::mem::Pool;

use esker_lab_kit::rig::{Rig, clients};
use esker_lab_kit::{Figure, Lab, LabError};
use esker_report::rounded;

const DISK: &str = "vol = disk-model profile=hdd-7200-2021 content=memory size=8GiB";
const MANY: u64 = 1000;
const FEW: u64 = 64;

fn shape(commit: CommitRule) -> SlotShape {
    SlotShape {
        kind: SlotKind::Cache,
        unit: 64 << 10,
        keys: 1 << 24,
        slots: None,
        journal: 1 << 20,
        zones: ZONES,
        doubt: Doubt::Zones,
        suspects: Suspects::Dirty,
        commit,
    }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let updates = lab.scale(16_000, 128_000);
    let many = updated(lab.seed, CommitRule::Group, MANY, updates)?;
    let grouped = updated(lab.seed, CommitRule::Group, FEW, updates)?;
    let each = updated(lab.seed, CommitRule::Each, FEW, updates / 8)?;
    let touched = touched(lab.seed)?;
    for (what, done) in [("1,000 clients", &many), ("64 clients", &grouped), ("64 clients, each by itself", &each)] {
        lab.say(format!("{} updates of {what}: {}", done.updates, done.words()));
    }
    lab.say(format!("{ZONES} zones touched: {}", touched.words()));
    Ok(vec![
        Figure::alone("flushes_per_1000_updates", many.per_update() * 1000.0, "flushes and forced writes"),
        Figure::alone("flushes_per_1000_updates_64", grouped.per_update() * 1000.0, "flushes and forced writes"),
        Figure::alone("flushes_per_1000_updates_each", each.per_update() * 1000.0, "flushes and forced writes"),
        Figure::alone("each_over_group", grouped.per_second() / each.per_second(), "times as many updates per second"),
        Figure::alone("updates_per_s", grouped.per_second(), "per second"),
        Figure::alone("touch_per_s", touched.per_second(), "zones per second"),
    ])
}

/// What a run of a map did.
struct Done {
    counts: SlotCounts,
    updates: u64,
    seconds: f64,
}

impl Done {
    fn per_update(&self) -> f64 {
        (self.counts.flushes + self.counts.forced + self.counts.checkpoints) as f64 / self.updates as f64
    }

    fn per_second(&self) -> f64 {
        self.updates as f64 / self.seconds
    }

    fn words(&self) -> String {
        let SlotCounts { commits, flushes, forced, checkpoints, cells } = self.counts;
        let seconds = rounded(self.seconds);
        format!(
            "{commits} commits, {flushes} flushes, {forced} forced writes, {checkpoints} checkpoints of {cells} cells \
             in {seconds} s"
        )
    }
}

/// A new map on the disk, in use.
struct Used {
    map: SlotMap,
    io: Io,
    begun: Time,
    before: SlotCounts,
}

impl Used {
    async fn open(io: Io, disk: Rc<dyn Device>, commit: CommitRule) -> Result<Used, MapError> {
        let (map, _) = SlotMap::open(&io, 0, &shape(commit), disk.limits()).await?;
        map.begin(&io, &[0; NOTE_BYTES]).await?;
        let (begun, before) = (io.rt().now(), map.counts());
        Ok(Used { map, io, begun, before })
    }

    fn done(&self, updates: u64) -> Done {
        let counts = self.map.counts();
        let counts = SlotCounts {
            commits: counts.commits - self.before.commits,
            flushes: counts.flushes - self.before.flushes,
            forced: counts.forced - self.before.forced,
            checkpoints: counts.checkpoints - self.before.checkpoints,
            cells: counts.cells - self.before.cells,
        };
        let seconds = self.io.rt().now().since(self.begun).as_secs_f64();
        Done { counts, updates, seconds }
    }
}

/// Runs `work` on a new map in a world of its own.
fn on_map<F: Future<Output = Result<Done, MapError>> + 'static>(
    seed: u64,
    commit: CommitRule,
    work: impl FnOnce(Rc<Used>) -> F + 'static,
) -> Result<Done, LabError> {
    let rig = Rig::simulated(seed, DISK)?;
    let (rt, disk) = (rig.world.rt(), rig.device("vol"));
    let done = rig.world.block_on(async move {
        let io = Io::over(&rt, &Pool::default(), vec![disk.clone()]);
        work(Rc::new(Used::open(io, disk, commit).await?)).await
    });
    Ok(done.unwrap_or_else(|error| panic!("the experiment's own map: the disk {error}")))
}

/// Clients change entries and wait, `updates` times in all.
fn updated(seed: u64, commit: CommitRule, count: u64, updates: u64) -> Result<Done, LabError> {
    on_map(seed, commit, async move |used| {
        let client = |number| {
            let used = used.clone();
            async move {
                for turn in 0..updates / count {
                    update(&used, number * (updates / count) + turn).await?;
                }
                Ok(())
            }
        };
        clients(&used.io.rt().clone(), count, client).await.into_iter().collect::<Result<(), MapError>>()?;
        Ok(used.done(updates / count * count))
    })
}

/// A unit moves into a free slot, and the one that is there is given up if none is free.
async fn update(used: &Used, key: u64) -> Result<(), MapError> {
    let map = &used.map;
    let entry = SlotEntry::of(key).with(SlotMarks::DIRTY);
    match map.free(1).pop() {
        Some(slot) => map.set(&[(slot, Some(entry))], LowerSet::one(0)),
        None => map.set(&[((key % u64::from(map.slots())) as u32, None)], LowerSet::one(0)),
    }
    map.commit(&used.io).await
}

/// Clients touch all zones, each a few of its own.
fn touched(seed: u64) -> Result<Done, LabError> {
    on_map(seed, CommitRule::Group, async move |used| {
        let zones = Rc::new(RefCell::new(0..u64::from(used.map.layout().zones)));
        let span = used.map.slots().div_ceil(used.map.layout().zones);
        let client = |_| {
            let (used, zones) = (used.clone(), zones.clone());
            async move {
                loop {
                    let next = zones.borrow_mut().next();
                    let Some(zone) = next else { return Ok(()) };
                    let slot = (zone as u32 * span).min(used.map.slots() - 1);
                    used.map.touch(&used.io, &[slot]).await?;
                }
            }
        };
        clients(&used.io.rt().clone(), FEW, client).await.into_iter().collect::<Result<(), MapError>>()?;
        Ok(used.done(u64::from(used.map.slots().div_ceil(span))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_commits_are_few_and_fast() {
        let many = updated(1, CommitRule::Group, MANY, 4000).unwrap();
        let grouped = updated(1, CommitRule::Group, FEW, 4096).unwrap();
        let each = updated(1, CommitRule::Each, FEW, 256).unwrap();
        assert!(many.per_update() <= 0.05, "{}", many.per_update());
        assert!(each.per_update() >= 1.9, "{}", each.per_update());
        assert!(grouped.per_second() >= 5.0 * each.per_second());
    }

    #[test]
    fn one_seed_gives_one_run() {
        let run = || updated(3, CommitRule::Group, FEW, 1024).unwrap();
        let (one, other) = (run(), run());
        assert_eq!((one.counts, one.seconds), (other.counts, other.seconds));
    }
}
