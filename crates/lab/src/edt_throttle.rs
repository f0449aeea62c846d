//! `edt-throttle`: how soon a tier finds and relieves disks whose load has grown to twenty times as much. Source: items
//! 41 and 42 of the specification of extensions; the thesis on extending storage, section 3.4.6.
//!
//! An SSD, a SAS and a SATA disk of the testbed hold a volume that fills the SATA disk, on which all of it lies.
//! Devices and extents have a 64th of their bytes, and all times are those of the layer's defaults. Clients read 4 KiB
//! from 800 extents at random. Each asks, has its answer, and pauses. At first all of them ask 20 times a second, and
//! no extent is worth a better place. Half a minute behind a look their pauses become a twentieth. Times are simulated.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::units::MIB;
use esker_base::{Nanos, Stream, Time};
use esker_block::{Bio, Buf};
use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Figure, Lab, LabError};
use esker_stack::Stack;

use crate::edt_testbed::{BY_COST, Testbed, Waits, all_moved, end_of, order};
use crate::played::stat;

const TESTBED: Testbed = Testbed { counts: [1, 1, 1], shrink: 64, extent: MIB };
/// Extents of the volume, and those that are read.
const EXTENTS: u64 = 13_000;
const HOT: usize = 800;
/// The end that they lie on.
const SATA: u64 = 2;
const CLIENTS: u64 = 64;
/// Requests that clients ask for in a second, and by how much that grows.
const PER_S: f64 = 20.0;
const STEP: f64 = 20.0;
/// Looks before the step.
const WARM_LOOKS: u64 = 40;
const LOOK: Nanos = Nanos::secs(60);
const REQUEST: u64 = 4096;

/// What a run found, in periods behind the step.
struct Found {
    detected: f64,
    /// The last time that an end throttled.
    recovered: f64,
    shed: f64,
    /// Moves of the plan while an end throttled.
    planned: f64,
    /// Mean wait in the last five periods, milliseconds.
    late_ms: f64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let looks = lab.scale(15, 60);
    let with = played(lab, looks, "")?;
    let without = played(lab, looks, "throttle=false")?;
    Ok(vec![
        Figure::alone("periods_to_detect", with.detected, "periods of a minute"),
        Figure::alone("periods_to_recover", with.recovered, "periods of a minute"),
        Figure::alone("shed_share", with.shed, "share of the load of the end"),
        Figure::alone("planned_moves_meanwhile", with.planned, "moves"),
        Figure::alone("late_mean_over_without", with.late_ms / without.late_ms, "ratio of times")
            .peer("without relief, ms", without.late_ms),
    ])
}

fn played(lab: &Lab<'_>, looks: u64, args: &str) -> Result<Found, LabError> {
    let Rig { world, stack } = Rig::simulated(lab.seed, &TESTBED.tier(EXTENTS, &format!("{BY_COST} {args}")))?;
    let has_relief = args.is_empty();
    let (found, lines) = world.block_on(async move { step(&stack, looks, has_relief).await })?;
    lab.say(if has_relief { "with relief:" } else { "without:" });
    lines.iter().for_each(|line| lab.say(line));
    Ok(found)
}

/// Places everything, warms, and watches the step. Gives lines for people, too.
async fn step(stack: &Rc<Stack>, looks: u64, has_relief: bool) -> Result<(Found, Vec<String>), LabError> {
    let rt = stack.rt();
    order(stack, &format!("place 0-{} {SATA}", EXTENTS - 1)).await?;
    all_moved(stack).await;
    let hot = Rc::new(hot(&mut rt.rng("hot extents")));
    let (pause, waits) = (Rc::new(Cell::new(CLIENTS as f64 / PER_S)), Rc::new(RefCell::new(Waits::default())));
    for number in 0..CLIENTS {
        rt.spawn("client", client(stack.clone(), number, hot.clone(), pause.clone(), waits.clone())).detach();
    }
    let begin = Time(rt.now().0.next_multiple_of(LOOK.0) + WARM_LOOKS * LOOK.0 + LOOK.0 / 2);
    rt.sleep_until(begin).await;
    let here = on_sata(stack, &hot).await?;
    let moved = stat(stack, "vol", "moved");
    pause.set(pause.get() / STEP);
    let watched = watched(stack, begin, looks, &here).await?;
    let waits = waits.borrow();
    let minute = |number: u64| waits.between(begin + LOOK * number, begin + LOOK * (number + 1));
    let mut lines = vec![format!("  {} of {HOT} extents lie on the disk, {moved} moves before", here.len())];
    lines.extend((0..looks).map(|number| {
        let minute = minute(number);
        format!("  minute {number}: {} requests, {:.2} ms", minute.len(), minute.mean_ms())
    }));
    lines.push(format!("  {} extents relieved", stat(stack, "vol", "relieved")));
    assert!(!has_relief || watched.detected.is_finite(), "no end throttles: the load of the experiment is too small");
    let late_ms = waits.between(begin + LOOK * (looks - 5), begin + LOOK * looks).mean_ms();
    Ok((Found { late_ms, ..watched }, lines))
}

/// Looks each second at what the tier does.
async fn watched(stack: &Rc<Stack>, begin: Time, looks: u64, here: &[u64]) -> Result<Found, LabError> {
    let rt = stack.rt();
    let periods = |at: Time| at.since(begin).as_secs_f64() / LOOK.as_secs_f64();
    let by_plan = || stat(stack, "vol", "moved") - stat(stack, "vol", "relieved");
    let mut found = Found { detected: f64::INFINITY, recovered: 0.0, shed: 0.0, planned: 0.0, late_ms: 0.0 };
    let (mut loads, mut planned) = (None, 0.0);
    let corrections = stat(stack, "vol", "corrections");
    while rt.now() < begin + LOOK * looks {
        rt.sleep(Nanos::secs(1)).await;
        if loads.is_none() && stat(stack, "vol", "corrections") > corrections {
            found.detected = periods(rt.now());
            loads = Some(loads_of(stack, here).await?);
            planned = by_plan();
        }
        if stat(stack, "vol", "throttling") > 0.0 {
            found.recovered = periods(rt.now());
            found.planned = by_plan() - planned;
        }
        let is_first_over = found.shed == 0.0
            && stat(stack, "vol", "relieved") > 0.0
            && stat(stack, "vol", "queued") + stat(stack, "vol", "moving") == 0.0;
        if let Some(loads) = &loads
            && is_first_over
        {
            let left = on_sata(stack, here).await?;
            let stays: f64 = here.iter().zip(loads).filter(|(one, _)| left.contains(one)).map(|(_, load)| load).sum();
            found.shed = 1.0 - stays / loads.iter().sum::<f64>();
        }
    }
    Ok(found)
}

/// Extents that are read: some of all, in their order.
fn hot(random: &mut Stream) -> Vec<u64> {
    let mut chosen = std::collections::BTreeSet::new();
    while chosen.len() < HOT {
        chosen.insert(random.below(EXTENTS));
    }
    chosen.into_iter().collect()
}

async fn client(stack: Rc<Stack>, number: u64, hot: Rc<Vec<u64>>, pause: Rc<Cell<f64>>, waits: Rc<RefCell<Waits>>) {
    let (rt, volume) = (stack.rt().clone(), vol(&stack));
    let mut random = rt.rng(&format!("client {number}"));
    loop {
        rt.sleep(Nanos::from_secs_f64(random.exponential() * pause.get())).await;
        let extent = hot[random.below(hot.len() as u64) as usize];
        let at = extent * TESTBED.extent + random.below(TESTBED.extent / REQUEST) * REQUEST;
        let begun = rt.now();
        let done = volume.request(Bio::read(at, Buf::described(REQUEST as usize, 1))).await;
        assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
        waits.borrow_mut().add(begun, rt.now().since(begun));
    }
}

/// Those of the extents that lie on the SATA disk.
async fn on_sata(stack: &Rc<Stack>, extents: &[u64]) -> Result<Vec<u64>, LabError> {
    let mut found = Vec::new();
    for extent in extents {
        if end_of(stack, *extent).await? == SATA as usize {
            found.push(*extent);
        }
    }
    Ok(found)
}

/// The shares of the SATA disk's time that extents take.
async fn loads_of(stack: &Rc<Stack>, extents: &[u64]) -> Result<Vec<f64>, LabError> {
    let mut loads = Vec::new();
    for extent in extents {
        let told = order(stack, &format!("explain {extent}")).await?;
        let time = told["ends"][SATA as usize]["time"].as_f64();
        loads.push(time.ok_or_else(|| LabError::data("the tier does not say what an extent asks"))?);
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_below_a_disk_first_and_above_it_then() {
        // A random request takes the SATA disk 9 ms, and an extent leaves it above 0.0302 a second.
        const { assert!(PER_S * 0.009 < 0.5 && PER_S / (HOT as f64) < 0.0302) };
        const { assert!(PER_S * STEP * 0.009 > 2.0) };
        const { assert!(EXTENTS * TESTBED.extent < 1_000_000_000_000 / TESTBED.shrink) };
        let hot = hot(&mut Stream::named(1, "hot extents"));
        assert!(hot.len() == HOT && hot.is_sorted() && hot[HOT - 1] < EXTENTS);
    }
}
