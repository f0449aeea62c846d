//! `anvil-gc-hotcold`: write amplification of the served log-structured volume where a tenth of the blocks gets nine
//! tenths of the overwrites, against the floor of perfect separation, greedy cleaning and random victims.
//!
//! The product's volume runs in virtual time over memory: 600 segments of 1 MiB, 32 writers, 4 KiB a write. The volume
//! is filled in order and overwritten; the second half of the overwrites counts. Write amplification is everything that
//! the device below gets: data, records, moved blocks and pages of the map. Arms of the volume differ in policy,
//! sample, separation and the share of used space at which collection begins: 0.9, and for greedy the better of that
//! and the default.
//!
//! Figures that begin with `simulated_` are those of the cleaning crate's store, which has no records, no map and no
//! time. The floor is analytic, at the same utilisation in both: that of 600 segments of which six are kept free.

use std::cell::RefCell;
use std::rc::Rc;

use esker_block::{Bio, BioError, Buf, Device};
use esker_cleaning::analytic;
use esker_cleaning::model::load::{Draws, Load, Skew, TEN_NINETY};
use esker_cleaning::model::{Cleaner, Placement, Shape, SimulationPlan, Victims, run as simulate};
use esker_cleaning::policy::named;
use esker_stack::Export;

use esker_lab_kit::rig::{clients, vol};
use esker_lab_kit::{Figure, Lab, LabError, Rig, volume_load};

const SEGMENTS: u32 = 600;
const SEGMENT: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const FREE: u32 = 6;
const WRITERS: u64 = 32;
/// Blocks of one write while the volume is filled.
const FILL: u64 = 64;
const UNIT: &str = "bytes written below per byte of the clients";

/// How an arm differs from the others: parameters of the volume.
const SEPARATED: &str = "gc_start=0.9";
const DEFAULT: &str = "";
const RANDOM: &str = "gc_start=0.9 gc_sample=1";
const SAMPLED: &str = "gc_start=0.9 gc_sample=10";
/// Greedy cleaning without separation, with either pace: the better one is the rival.
const GREEDY: [&str; 2] =
    ["gc_start=0.5 gc_policy=greedy gc_separation=none", "gc_start=0.9 gc_policy=greedy gc_separation=none"];

/// Bytes that went below, over those of the clients.
#[derive(Clone, Copy)]
struct Amplification {
    data: f64,
    records: f64,
    moved: f64,
    map: f64,
    /// Share of the segments that were in use, on average.
    used: f64,
}

impl Amplification {
    fn all(&self) -> f64 {
        self.data + self.records + self.moved + self.map
    }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let arm = |live: f64, skew: Skew, params: &str| -> Result<Amplification, LabError> {
        let found = served(lab, live, skew, params)?;
        let Amplification { records, moved, map, used, .. } = found;
        lab.say(format!(
            "{skew:?} at {:.0} % [{params}]: {:.3}, of which records {records:.3}, moved {moved:.3}, map {map:.3}; {:.1} % used",
            live * 100.0,
            found.all(),
            used * 100.0
        ));
        Ok(found)
    };
    let [at_75, at_80, at_90] = [0.75, 0.80, 0.90].map(|live| arm(live, TEN_NINETY, SEPARATED));
    let (at_75, at_80, at_90) = (at_75?, at_80?, at_90?);
    let default = arm(0.75, TEN_NINETY, DEFAULT)?.all();
    let (random, sampled) = (arm(0.75, TEN_NINETY, RANDOM)?.all(), arm(0.75, TEN_NINETY, SAMPLED)?.all());
    let uniform = arm(0.75, Skew::Uniform, SEPARATED)?.all();
    let best = |live: f64, skew: Skew| -> Result<f64, LabError> {
        let [one, other] = GREEDY.map(|params| arm(live, skew, params));
        Ok(one?.all().min(other?.all()))
    };
    let (greedy, uniform_greedy) = (best(0.80, TEN_NINETY)?, best(0.75, Skew::Uniform)?);
    let over = |id, value: f64, name: &str, other: f64| Figure::alone(id, value / other, "ratio").peer(name, other);
    let floor_name = "floor of perfect separation, analytic";
    let mut figures = vec![
        over("served_over_floor_75", at_75.all(), floor_name, floor(0.75)),
        over("served_over_floor_90", at_90.all(), floor_name, floor(0.90)),
        over("served_over_greedy_80", at_80.all(), "greedy, not separated, same volume", greedy),
        over("uniform_over_greedy", uniform, "greedy, not separated, same volume", uniform_greedy),
        over("served_over_random_75", at_75.all(), "random victims, same volume", random),
        over("sampled_over_all_75", sampled, "the best of all, same volume", at_75.all()),
        Figure::alone("served_75", at_75.all(), UNIT),
        Figure::alone("served_default_75", default, UNIT),
        Figure::alone("served_80", at_80.all(), UNIT),
        Figure::alone("served_90", at_90.all(), UNIT),
        Figure::alone("served_greedy_80", greedy, UNIT),
        Figure::alone("served_75_moved", at_75.moved, UNIT),
        Figure::alone("served_75_map", at_75.map, UNIT),
        Figure::alone("served_75_records", at_75.records, UNIT),
        Figure::alone("served_75_used", at_75.used, "share of the segments"),
        Figure::alone("served_90_moved", at_90.moved, UNIT),
        Figure::alone("served_90_map", at_90.map, UNIT),
        Figure::alone("served_90_used", at_90.used, "share of the segments"),
    ];
    let simulated = |live, method| simulated(lab, live, method);
    let lifetime = ("cost-benefit", Placement::Lifetime);
    figures.extend([
        over("simulated_over_floor_75", simulated(0.75, lifetime), floor_name, floor(0.75)),
        over("simulated_over_floor_90", simulated(0.90, lifetime), floor_name, floor(0.90)),
        over(
            "simulated_over_greedy_80",
            simulated(0.80, lifetime),
            "greedy, simulated",
            simulated(0.80, ("greedy", Placement::OneLog)),
        ),
    ]);
    Ok(figures)
}

/// The floor for a cleaner that knows which blocks are hot.
fn floor(live: f64) -> f64 {
    analytic::separated(live * f64::from(SEGMENTS) / f64::from(SEGMENTS - FREE), 0.1, 0.9)
}

/// Overwrites, in volumes.
fn rounds(lab: &Lab<'_>) -> f64 {
    lab.scale(8.0, 24.0)
}

fn simulated(lab: &Lab<'_>, live: f64, (policy, placement): (&str, Placement)) -> f64 {
    let plan = SimulationPlan {
        shape: Shape { segments: SEGMENTS, blocks: (SEGMENT / BLOCK) as u32, live },
        cleaner: Cleaner { low: FREE, high: 0, victims: 4, least: 0.0 },
        victims: Victims::Best(named(policy).expect("the list names policies of the crate")),
        placement,
        load: Load::steady(TEN_NINETY),
        still: 0.0,
        copies: None,
        rounds: rounds(lab),
        seed: lab.seed,
    };
    simulate(&plan).write_amplification()
}

/// The volume itself, in virtual time.
fn served(lab: &Lab<'_>, live: f64, skew: Skew, params: &str) -> Result<Amplification, LabError> {
    // Behind 1 MiB in front of the segments, and 8 KiB at the end.
    let bytes = (u64::from(SEGMENTS) + 1) * SEGMENT + (8 << 10);
    let text = format!(
        "a = memory size={bytes} defer=always latency=20us; vol = logvol block={BLOCK} segment={SEGMENT} {params} on a"
    );
    let rig = Rig::simulated(lab.seed, &text)?;
    let vol = vol(&rig.stack);
    let blocks = (f64::from(SEGMENTS) * live) as u32 * (SEGMENT / BLOCK) as u32;
    let draws = Rc::new(RefCell::new(Draws::new(Load::steady(skew), blocks, lab.seed)));
    let each = (rounds(lab) / 2.0 * f64::from(blocks)) as u64 / WRITERS;
    let names = ["data_bytes", "record_bytes", "moved_bytes", "map_bytes"];
    let found = rig.world.block_on(async move {
        let look = |vol: &Export| names.map(|name| volume_load::stat(vol, name));
        volume_load::write_all(&vol, (FILL * BLOCK) as usize, u64::from(blocks) / FILL, |i| i * FILL * BLOCK).await?;
        overwrite(&vol, &draws, each).await?;
        let before = look(&vol);
        let used = overwrite(&vol, &draws, each).await?;
        let after = look(&vol);
        let per = |i: usize| (after[i] - before[i]) / (each * WRITERS * BLOCK) as f64;
        let [data, records, moved, map] = [per(0), per(1), per(2), per(3)];
        vol.stack().close().await;
        Ok::<_, BioError>(Amplification { data, records, moved, map, used })
    })?;
    Ok(found)
}

/// Overwrites blocks from all writers: the mean share of segments in use.
async fn overwrite(vol: &Export, draws: &Rc<RefCell<Draws>>, each: u64) -> Result<f64, BioError> {
    let used = Rc::new(RefCell::new(Vec::new()));
    let writer = |_| {
        let (vol, draws, used) = (vol.clone(), draws.clone(), used.clone());
        async move {
            for i in 0..each {
                let block = u64::from(draws.borrow_mut().draw());
                let mut buf = Buf::unique(vol.stack().pool(), BLOCK as usize);
                buf.bytes_mut().expect("just made unique")[..8].copy_from_slice(&i.to_le_bytes());
                vol.submit(Bio::write(block * BLOCK, buf)).await.result?;
                if i % 256 == 0 {
                    used.borrow_mut().push(volume_load::stat(&vol, "used_ratio"));
                }
            }
            Ok(())
        }
    };
    clients(vol.stack().rt(), WRITERS, writer).await.into_iter().collect::<Result<(), BioError>>()?;
    let used = used.take();
    Ok(used.iter().sum::<f64>() / used.len() as f64)
}
