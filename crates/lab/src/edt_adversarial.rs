//! `edt-adversarial`: what a tier costs under loads that it cannot learn, against SAS disks alone. Source: item 46 of
//! the specification of extensions; the thesis on extending storage, section 6.5.
//!
//! Two SSDs, two SAS and two SATA disks of the testbed hold a volume of 904 GB, as for `srcctl` of the thesis; six SAS
//! disks hold the same. A third of the extents lies on SATA at first. For two hours clients read 4 KiB at random: 400
//! times a second all over the volume, or 500 times a second from ten extents, others each minute or each epoch. All of
//! these lie on SATA at first, and none comes again. In the short form all bytes, and the times of load and layer,
//! are divided by [`SHRINK`]; requests per second are not. Times are simulated.

use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_lab_kit::rig::Rig;
use esker_lab_kit::{Figure, Lab, LabError};
use esker_stack::Stack;
use esker_trace_block::{Op, Record};

use crate::edt_testbed::{Clients, Testbed, Waits, all_moved, order, stat};

/// What all bytes and times are divided by in the short form.
const SHRINK: u64 = 8;
/// Extents of the volume: 904 GB in extents of 64 MiB.
const EXTENTS: u64 = 13_471;
/// The first of those that lie on the SATA disks at the beginning, and their end.
const ON_SATA: u64 = EXTENTS / 3 * 2;
const SATA: u64 = 2;
const TIER: [u32; 3] = [2, 2, 2];
/// The array of SAS disks alone.
const ARRAY: [u32; 3] = [0, 6, 0];
const SAS: usize = 1;
/// Length of a load, an epoch and a look.
const LENGTH: Nanos = Nanos::secs(7_200);
const EPOCH: Nanos = Nanos::secs(1_800);
const LOOK: Nanos = Nanos::secs(60);
const HOT: usize = 10;
const REQUEST: u64 = 4096;

/// A load, in the times of the thesis.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    per_s: f64,
    /// How long ten extents are hot; without it, all of them are read.
    hot_for: Option<Nanos>,
    /// Mean time over that of SAS disks alone, as printed.
    paper: Option<f64>,
}

const LOADS: [Load; 3] = [
    Load { name: "uniform", per_s: 400.0, hot_for: None, paper: Some(1.31) },
    Load { name: "hotset", per_s: 500.0, hot_for: Some(LOOK), paper: Some(1.21) },
    Load { name: "hotset_epoch", per_s: 500.0, hot_for: Some(EPOCH), paper: None },
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let shrink = lab.scale(SHRINK, 1);
    let (mut figures, mut sums) = (Vec::new(), [0.0; 2]);
    for load in LOADS {
        let sas = played(lab, load, shrink, None)?;
        let [with, without] = [played(lab, load, shrink, Some(""))?, played(lab, load, shrink, Some("backoff=false"))?];
        let over = with.mean_ms() / sas.mean_ms();
        figures.push(
            Figure::alone(format!("{}_over_sas", load.name), over, "ratio of mean times")
                .paper(load.paper)
                .peer("SAS disks alone, ms", sas.mean_ms()),
        );
        let gain = 1.0 - with.mean_ms() / without.mean_ms();
        figures.push(
            Figure::alone(format!("backoff_gain_{}", load.name), gain, "share of the mean time")
                .peer("without, ms", without.mean_ms()),
        );
        sums = [sums[0] + with.mean_ms(), sums[1] + without.mean_ms()];
    }
    let gain = 1.0 - sums[0] / sums[1];
    figures.push(Figure::alone("backoff_gain", gain, "share of the sum of mean times"));
    Ok(figures)
}

/// Plays a load on SAS disks alone, or on a tier with more arguments.
fn played(lab: &Lab<'_>, load: Load, shrink: u64, args: Option<&str>) -> Result<Waits, LabError> {
    let text = match args {
        None => Testbed::shrunk(ARRAY, shrink).array(SAS),
        Some(args) => {
            let times = format!("epoch={}ns look={}ns", EPOCH.0 / shrink, LOOK.0 / shrink);
            Testbed::shrunk(TIER, shrink).tier(EXTENTS, &format!("{times} {args}"))
        }
    };
    let Rig { world, stack } = Rig::simulated(lab.seed, &text)?;
    let (seed, is_tier) = (lab.seed, args.is_some());
    let (waits, told) = world.block_on(async move {
        if is_tier {
            order(&stack, &format!("place {ON_SATA}-{} {SATA}", EXTENTS - 1)).await?;
            all_moved(&stack).await;
            let epoch = EPOCH.0 / shrink;
            stack.rt().sleep(Nanos(epoch - stack.rt().now().0 % epoch)).await;
        }
        let clients = Clients::new(&stack);
        for record in requests(seed, load, shrink) {
            clients.send(&record).await;
        }
        clients.ended().await;
        Ok::<_, LabError>((clients.between(Nanos::ZERO, LENGTH), if is_tier { told(&stack) } else { String::new() }))
    })?;
    lab.say(format!(
        "{} on {}: {} requests, {:.2} ms in the mean, {:.2} ms for 95 %{told}",
        load.name,
        args.map_or("SAS disks", |args| if args.is_empty() { "the tier" } else { "the tier without back-off" }),
        waits.len(),
        waits.mean_ms(),
        waits.percentile_ms(0.95)
    ));
    Ok(waits)
}

/// What the tier did.
fn told(stack: &Rc<Stack>) -> String {
    let names = ["moved", "relieved", "corrections", "plans", "dropped", "budget", "saturated"];
    names.iter().map(|name| format!(", {name} {}", stat(stack, "vol", name))).collect()
}

/// Reads at random times and places.
fn requests(seed: u64, load: Load, shrink: u64) -> impl Iterator<Item = Record> {
    let extent = Testbed::shrunk(TIER, shrink).extent;
    let (mut times, mut places) = (Stream::named(seed, "times"), Stream::named(seed, "places"));
    let order = shuffled(&mut Stream::named(seed, "hot extents"));
    let mut at = 0.0;
    std::iter::from_fn(move || {
        at -= (1.0 - times.unit()).ln() / load.per_s;
        let which = match load.hot_for {
            None => places.below(EXTENTS),
            Some(span) => {
                let set = (at * shrink as f64 / span.as_secs_f64()) as usize;
                order[(set * HOT + places.below(HOT as u64) as usize) % order.len()]
            }
        };
        let offset = which * extent + places.below(extent / REQUEST) * REQUEST;
        let is_in = at * (shrink as f64) < LENGTH.as_secs_f64();
        let at = Nanos::from_secs_f64(at);
        is_in.then_some(Record { at, volume: 0, op: Op::Read, offset, len: REQUEST, who: 0 })
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
        let extent = Testbed::shrunk(TIER, SHRINK).extent;
        let hot: Vec<Record> = requests(1, LOADS[1], SHRINK).collect();
        let rate = hot.len() as f64 / (LENGTH.as_secs_f64() / SHRINK as f64);
        assert!((rate / 500.0 - 1.0).abs() < 0.02, "{rate}");
        let mut sets: Vec<Vec<u64>> = vec![Vec::new(); 120];
        for record in &hot {
            let set = (record.at.as_secs_f64() * SHRINK as f64 / 60.0) as usize;
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
        let uniform = requests(1, LOADS[0], SHRINK).take(10_000);
        let on_sata = uniform.filter(|record| record.offset / extent >= ON_SATA).count();
        assert!((3_100..3_600).contains(&on_sata), "{on_sata}");
    }
}
