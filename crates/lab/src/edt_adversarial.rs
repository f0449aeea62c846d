//! `edt-adversarial`: what a tier costs under loads that it cannot learn, against SAS disks alone. Source: item 46 of
//! the specification of extensions; the thesis on extending storage, section 6.5.
//!
//! Two SSDs, two SAS and two SATA disks of the testbed hold a volume of 904 GB, as for `srcctl` of the thesis; six SAS
//! disks hold the same. A third of the extents lies on SATA at first. Clients read 4 KiB at random: 400 times a second
//! all over the volume, or 500 times a second from ten extents, others each minute or each epoch. All of these lie on
//! SATA at first, and none comes again. Sets change at looks, or half a minute behind them.
//!
//! The long form lasts for two hours. In the short form `uniform` has an eighth of all bytes, and the times of load and
//! layer are eight times as short. Requests per second are not fewer, so each look counts an eighth of the requests
//! of an extent. `uniform_natural` has all bytes and natural times, for 40 minutes. Hot sets have them too, because
//! shrunk ones fit into the buffers of disks; they last for 10 minutes, or 40 with epochs. Times are simulated.

use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_lab_kit::rig::Rig;
use esker_lab_kit::{Figure, Lab, LabError};
use esker_stack::Stack;
use esker_trace_block::{Op, Record};

use crate::edt_testbed::{BY_COST, Clients, Testbed, Waits, all_moved, end_of, order, told};
use crate::played::stat;

/// Extents of the volume: 904 GB in extents of 64 MiB.
const EXTENTS: u64 = 13_471;
/// The first of those that lie on the SATA disks at the beginning.
const ON_SATA: u64 = EXTENTS / 3 * 2;
const SATA: u64 = 2;
const TIER: [u32; 3] = [2, 2, 2];
/// The array of SAS disks alone.
const ARRAY: [u32; 3] = [0, 6, 0];
const SAS: usize = 1;
/// Length of the long form, an epoch and a look.
const LENGTH: Nanos = Nanos::secs(7_200);
const EPOCH: Nanos = Nanos::secs(1_800);
const LOOK: Nanos = Nanos::secs(60);
const HOT: usize = 10;
const REQUEST: u64 = 4096;
/// One request of so many is asked where it lies.
const SAMPLE: usize = 50;

/// A load, in natural times.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    per_s: f64,
    /// How long ten extents are hot; without it, all of them are read.
    hot_for: Option<Nanos>,
    /// How much of that is over at the begin.
    phase: Nanos,
    length: Nanos,
    /// What bytes and times are divided by.
    shrink: u64,
    /// Whether it is played without back-off, too.
    judges_backoff: bool,
    /// Mean time over that of SAS disks alone, as printed.
    paper: Option<f64>,
}

const UNIFORM: Load = Load {
    name: "uniform",
    per_s: 400.0,
    hot_for: None,
    phase: Nanos::ZERO,
    length: LENGTH,
    shrink: 8,
    judges_backoff: true,
    paper: Some(1.31),
};
const HOTSET: Load = Load {
    name: "hotset",
    per_s: 500.0,
    hot_for: Some(LOOK),
    phase: Nanos::ZERO,
    length: Nanos::secs(600),
    shrink: 1,
    judges_backoff: false,
    paper: Some(1.21),
};
/// All, with the lengths of the short form.
const LOADS: [Load; 5] = [
    UNIFORM,
    Load { name: "uniform_natural", length: Nanos::secs(2_400), shrink: 1, judges_backoff: false, ..UNIFORM },
    HOTSET,
    Load { name: "hotset_between_looks", phase: Nanos::secs(30), ..HOTSET },
    Load {
        name: "hotset_epoch",
        hot_for: Some(EPOCH),
        length: Nanos::secs(2_400),
        judges_backoff: true,
        paper: None,
        ..HOTSET
    },
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (mut figures, mut sums) = (Vec::new(), [0.0; 2]);
    for load in LOADS {
        let load = lab.scale(load, Load { length: LENGTH, shrink: 1, ..load });
        let (sas, with) = (played(lab, load, None)?.mean_ms(), played(lab, load, Some(""))?.mean_ms());
        figures.push(
            Figure::alone(format!("{}_over_sas", load.name), with / sas, "ratio of mean times")
                .paper(load.paper)
                .peer("SAS disks alone, ms", sas),
        );
        if load.judges_backoff {
            let without = played(lab, load, Some("backoff=false"))?.mean_ms();
            figures.push(
                Figure::alone(format!("backoff_gain_{}", load.name), 1.0 - with / without, "share of the mean time")
                    .peer("without, ms", without),
            );
            sums = [sums[0] + with, sums[1] + without];
        }
    }
    let gain = 1.0 - sums[0] / sums[1];
    figures.push(Figure::alone("backoff_gain", gain, "share of the sum of mean times"));
    Ok(figures)
}

/// Plays a load on SAS disks alone, or on a tier with more arguments.
fn played(lab: &Lab<'_>, load: Load, args: Option<&str>) -> Result<Waits, LabError> {
    let text = match args {
        None => Testbed::shrunk(ARRAY, load.shrink).array(SAS),
        Some(args) => {
            let times = format!("epoch={}ns look={}ns", EPOCH.0 / load.shrink, LOOK.0 / load.shrink);
            Testbed::shrunk(TIER, load.shrink).tier(EXTENTS, &format!("{times} {BY_COST} {args}"))
        }
    };
    let Rig { world, stack } = Rig::simulated(lab.seed, &text)?;
    let (seed, is_tier) = (lab.seed, args.is_some());
    let (waits, told) = world.block_on(async move {
        match is_tier {
            true => on_tier(&stack, seed, load).await,
            false => {
                let clients = Clients::new(&stack);
                for record in requests(seed, load) {
                    clients.send(&record).await;
                }
                clients.ended().await;
                Ok((clients.between(Nanos::ZERO, LENGTH), String::new()))
            }
        }
    })?;
    lab.say(format!(
        "{} on {}: {}{told}",
        load.name,
        args.map_or("SAS disks", |args| if args.is_empty() { "the tier" } else { "the tier without back-off" }),
        waits.text()
    ));
    Ok(waits)
}

/// Places, plays from the begin of an epoch, and says what the tier did.
async fn on_tier(stack: &Rc<Stack>, seed: u64, load: Load) -> Result<(Waits, String), LabError> {
    order(stack, &format!("place {ON_SATA}-{} {SATA}", EXTENTS - 1)).await?;
    all_moved(stack).await;
    let (rt, epoch) = (stack.rt(), EPOCH.0 / load.shrink);
    rt.sleep(Nanos(epoch - rt.now().0 % epoch)).await;
    let (clients, moved) = (Clients::new(stack), stat(stack, "vol", "moved"));
    let extent = Testbed::shrunk(TIER, load.shrink).extent;
    let mut on_ends = [0_u32; TIER.len()];
    for (number, record) in requests(seed, load).enumerate() {
        if number.is_multiple_of(SAMPLE) {
            on_ends[end_of(stack, record.offset / extent).await?] += 1;
        }
        clients.send(&record).await;
    }
    clients.ended().await;
    let asked = f64::from(on_ends.iter().sum::<u32>());
    let [ssd, sas, sata] = on_ends.map(|count| f64::from(count) / asked);
    let moved = stat(stack, "vol", "moved") - moved;
    let waits = clients.between(Nanos::ZERO, LENGTH);
    Ok((waits, format!("; {ssd:.3}, {sas:.3}, {sata:.3} of them on SSD, SAS, SATA; moved {moved}{}", told(stack))))
}

/// Reads at random times and places.
fn requests(seed: u64, load: Load) -> impl Iterator<Item = Record> {
    let extent = Testbed::shrunk(TIER, load.shrink).extent;
    let (mut times, mut places) = (Stream::named(seed, "times"), Stream::named(seed, "places"));
    let order = shuffled(&mut Stream::named(seed, "hot extents"));
    let mut at = 0.0;
    std::iter::from_fn(move || {
        at += times.exponential() / load.per_s;
        let natural = at * load.shrink as f64;
        let which = match load.hot_for {
            None => places.below(EXTENTS),
            Some(span) => {
                let set = ((natural + load.phase.as_secs_f64()) / span.as_secs_f64()) as usize;
                order[(set * HOT + places.below(HOT as u64) as usize) % order.len()]
            }
        };
        let offset = which * extent + places.below(extent / REQUEST) * REQUEST;
        let at = Nanos::from_secs_f64(at);
        let record = Record { at, volume: 0, op: Op::Read, offset, len: REQUEST, who: 0 };
        (natural < load.length.as_secs_f64()).then_some(record)
    })
}

/// The extents that lie on SATA at first, in an order by chance.
fn shuffled(random: &mut Stream) -> Vec<u64> {
    let mut extents: Vec<u64> = (ON_SATA..EXTENTS).collect();
    for at in (1..extents.len()).rev() {
        extents.swap(at, random.below(at as u64 + 1) as usize);
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_extents_are_hot_at_a_time_and_none_comes_again() {
        let load = Load { shrink: 8, length: LENGTH, ..HOTSET };
        let extent = Testbed::shrunk(TIER, load.shrink).extent;
        let hot: Vec<Record> = requests(1, load).collect();
        let rate = hot.len() as f64 / (LENGTH.as_secs_f64() / load.shrink as f64);
        assert!((rate / 500.0 - 1.0).abs() < 0.02, "{rate}");
        let mut sets: Vec<Vec<u64>> = vec![Vec::new(); 120];
        for record in &hot {
            let set = (record.at.as_secs_f64() * load.shrink as f64 / 60.0) as usize;
            sets[set].push(record.offset / extent);
        }
        sets.iter_mut().for_each(|set| {
            set.sort_unstable();
            set.dedup();
        });
        assert!(sets.iter().all(|set| set.len() == HOT && set[0] >= ON_SATA));
        let mut all = sets.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 120 * HOT);
        let uniform = requests(1, UNIFORM).take(10_000);
        let extent = Testbed::shrunk(TIER, UNIFORM.shrink).extent;
        let on_sata = uniform.filter(|record| record.offset / extent >= ON_SATA).count();
        assert!((3_100..3_600).contains(&on_sata), "{on_sata}");
    }
}
