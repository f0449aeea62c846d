//! `borg`: what the kind `reorg` saves of a modelled disk's time on generated weeks of four machines, and what it costs
//! when they change. Source: items 15 to 17 and 21 of the specification of extensions.
//!
//! The file system takes half of the disk, and the area lies in its middle, unused in the runs without the layer. Each
//! process sends its requests one behind the other, none before its time. The first day trains. From then on the disk's
//! busy time counts, with all work of the layer. Copies that are newer than home at the end stay; a second figure
//! counts the time in which all of them are written home, those of the first day with them. Times are simulated.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::units::MIB;
use esker_base::{Nanos, Time};
use esker_block::{Bio, Buf};
use esker_rt::Rt;
use esker_rt::sync::join_all;
use esker_stack::{Export, Stack};
use esker_trace_block::generate::{Generator, Profile};
use esker_trace_block::{Op, Record, Source};

use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Figure, Lab, LabError};

use crate::played::{asked, stat};

/// A disk of the time of the measurements.
const DISK: &str = "hdd-7200-2008";
/// Bytes of the disk for each byte of the file system.
const DISK_OVER_HOME: u64 = 2;
/// The area's part of the file system, and the other parts of the sweep.
const AREA: f64 = 0.08;
const AREAS: [(&str, f64); 3] = [("4", 0.04), ("8", AREA), ("16", 0.16)];
const INTERVALS: [&str; 3] = ["24h", "12h", "6h"];
const SHARES: [(&str, &str); 3] = [("25", "0.25"), ("12", "0.125"), ("50", "0.5")];
/// Time that trains.
const TRAINED: Nanos = Nanos::secs(86_400);

/// A machine of the four, and the parts of it that short and long runs play.
struct Machine {
    name: &'static str,
    profile: &'static str,
    scales: [f64; 2],
    /// Whether half of its jumps or more come again.
    is_determined: bool,
}

const MACHINES: [Machine; 4] = [
    Machine { name: "office", profile: "borg-office", scales: [0.2, 1.0], is_determined: true },
    Machine { name: "developer", profile: "borg-developer", scales: [0.04, 0.5], is_determined: true },
    Machine { name: "svn", profile: "borg-svn", scales: [1.0, 1.0], is_determined: true },
    Machine { name: "web", profile: "borg-web", scales: [0.05, 0.5], is_determined: false },
];

/// A machine at one scale, with the requests of its days.
#[derive(Clone)]
struct Load {
    home: u64,
    records: Rc<Vec<Record>>,
    end: Nanos,
}

/// What a run took.
#[derive(Clone, Copy, Debug)]
struct Taken {
    busy: Nanos,
    /// The same, until home has all.
    busy_to_home: Nanos,
    waited: Nanos,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    let mut least = f64::INFINITY;
    for machine in &MACHINES {
        let load = load(lab, machine, 1.0)?;
        let [plain, borg] = [played(lab, &load, AREA, None)?, played(lab, &load, AREA, Some(""))?];
        let saved = saved(plain, borg);
        least = if machine.is_determined { least.min(saved) } else { least };
        let to_home = 1.0 - borg.busy_to_home.as_secs_f64() / plain.busy.as_secs_f64();
        let waits = 1.0 - borg.waited.as_secs_f64() / plain.waited.as_secs_f64();
        lab.say(format!(
            "{}: {saved:.3} of the busy time saved ({to_home:.3} to home), {waits:.3} of the waits",
            machine.name
        ));
        figures.push(
            Figure::alone(format!("busy_saved_{}", machine.name), saved, "share of the busy time")
                .peer("without the layer, s", plain.busy.as_secs_f64()),
        );
        figures.push(Figure::alone(format!("busy_saved_{}_to_home", machine.name), to_home, "share of the busy time"));
        figures.push(Figure::alone(format!("waits_saved_{}", machine.name), waits, "share of the waits"));
    }
    figures.push(Figure::alone("busy_saved", least, "least of three machines"));
    figures.push(shift_slowdown(lab)?);
    figures.extend(write_travel(lab)?);
    figures.extend(sweep(lab)?);
    Ok(figures)
}

fn saved(plain: Taken, borg: Taken) -> f64 {
    1.0 - borg.busy.as_secs_f64() / plain.busy.as_secs_f64()
}

/// The requests of a machine's first days. `part`: of what a run of this length plays.
fn load(lab: &Lab<'_>, machine: &Machine, part: f64) -> Result<Load, LabError> {
    let hours = lab.scale(72.0, 168.0);
    let [short, long] = machine.scales;
    records(machine.profile, lab.seed, lab.scale(short, long) * part, hours)
}

fn records(name: &str, seed: u64, scale: f64, hours: f64) -> Result<Load, LabError> {
    let profile = Profile::builtin(name).map_err(LabError::data)?.scaled(scale);
    let home = profile.volume[0].bytes.next_multiple_of(2 * MIB);
    let mut trace = Generator::new(name, &profile, seed, hours).map_err(LabError::data)?;
    let mut records = Vec::new();
    while let Some(record) = trace.next_record().map_err(LabError::data)? {
        records.push(record);
    }
    Ok(Load { home, records: Rc::new(records), end: Nanos::from_secs_f64(hours * 3_600.0) })
}

/// A disk with the area in the middle of home. `args` of the layer; without them, home alone.
fn text(home: u64, area: f64, args: Option<&str>) -> String {
    let area = ((home as f64 * area) as u64).next_multiple_of(MIB);
    let (half, behind) = (home / 2, home / 2 + area);
    let vol = match args {
        Some(args) => format!("vol = reorg {args} on h, a"),
        None => "vol = pass on h".to_string(),
    };
    format!(
        "d = disk-model profile={DISK} capacity={capacity} size={size}; h1 = offset start=0 size={half} on d; \
         a = offset start={half} size={area} on d; h2 = offset start={behind} size={half} on d; \
         h = concat on h1, h2; {vol}",
        capacity = home * DISK_OVER_HOME + area,
        size = home + area,
    )
}

/// Plays a load and tells what it took behind the training.
fn played(lab: &Lab<'_>, load: &Load, area: f64, args: Option<&str>) -> Result<Taken, LabError> {
    let Rig { world, stack } = Rig::simulated(lab.seed, &text(load.home, area, args))?;
    let (load, has_layer) = (load.clone(), args.is_some());
    Ok(world.block_on(async move { measured(&stack, &load, has_layer).await }))
}

async fn measured(stack: &Rc<Stack>, load: &Load, has_layer: bool) -> Taken {
    let split = load.records.partition_point(|record| record.at < TRAINED);
    let _trained = play(stack, &load.records[..split]).await;
    stack.rt().sleep_until(Time(TRAINED.0)).await;
    let before = busy(stack);
    let waited = play(stack, &load.records[split..]).await;
    stack.rt().sleep_until(Time(load.end.0)).await;
    // The disk's own cache is written, too.
    flush(stack).await;
    let after = busy(stack);
    if has_layer {
        stack.order("vol", &["write-back".to_string()]).await.expect("the layer takes the order");
    }
    flush(stack).await;
    Taken { busy: after.saturating_sub(before), busy_to_home: busy(stack).saturating_sub(before), waited }
}

async fn flush(stack: &Rc<Stack>) {
    assert!(vol(stack).request(Bio::flush()).await.result.is_ok(), "a flush of the experiment failed");
}

/// Time in which the disk has worked.
fn busy(stack: &Rc<Stack>) -> Nanos {
    stack.stats().into_iter().find_map(|part| part.usage).expect("there is one model, and it tells").busy
}

/// Each process sends its requests in order, none before its time. Answers how long all of them waited.
async fn play(stack: &Rc<Stack>, records: &[Record]) -> Nanos {
    let mut of_process: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    for record in records {
        of_process.entry(record.who).or_default().push(*record);
    }
    let rt = stack.rt();
    let tasks = of_process.into_values().map(|records| rt.spawn("process", sent(vol(stack), rt.clone(), records)));
    join_all(tasks.collect::<Vec<_>>()).await.into_iter().fold(Nanos::ZERO, |sum, waited| sum + waited)
}

async fn sent(vol: Export, rt: Rt, records: Vec<Record>) -> Nanos {
    let mut waited = Nanos::ZERO;
    for record in records {
        waited += asked(&vol, &rt, &record).await;
    }
    waited
}

/// A machine whose second day has nothing in common with the first: how much longer its reads wait than without the
/// layer.
fn shift_slowdown(lab: &Lab<'_>) -> Result<Figure, LabError> {
    let scale = lab.scale(0.1, 0.5);
    let [trained, other] = [lab.seed, lab.seed + 1].map(|seed| records("borg-office", seed, scale, 24.0));
    let (trained, other) = (trained?, other?);
    let moved = other.records.iter().map(|record| Record { at: record.at + TRAINED, ..*record });
    let reads = trained.records.iter().copied().chain(moved).filter(|record| record.op == Op::Read);
    let load = Load { home: trained.home, records: Rc::new(reads.collect()), end: Nanos(2 * TRAINED.0) };
    let [plain, borg] = [played(lab, &load, AREA, None)?, played(lab, &load, AREA, Some(""))?];
    let slowdown = borg.waited.as_secs_f64() / plain.waited.as_secs_f64() - 1.0;
    lab.say(format!("shift: waits {slowdown:.4} longer"));
    let peer = plain.waited.as_secs_f64();
    Ok(Figure::alone("shift_slowdown", slowdown, "share of the waits").peer("without the layer, s", peer))
}

/// Random writes of 4 KiB, 50 ms apart, until the write buffer is full, and as many behind that: cylinders over which
/// the arm goes for each.
fn write_travel(lab: &Lab<'_>) -> Result<[Figure; 2], LabError> {
    let home = lab.scale(1 << 30, 8 << 30);
    let travelled = |args: Option<&'static str>| -> Result<(f64, u64), LabError> {
        let Rig { world, stack } = Rig::simulated(lab.seed, &text(home, AREA, args))?;
        Ok(world.block_on(async move {
            let (volume, rt) = (vol(&stack), stack.rt());
            let mut random = rt.rng("random writes");
            // A quarter of the area, less its map: no write of these finds the buffer full.
            let fits = (home as f64 * AREA * 0.25 / 4096.0 * 0.95) as u64;
            let mut per_write = 0.0;
            for number in 0..2 * fits {
                let at = random.below(home / 4096) * 4096;
                let done = volume.request(Bio::write(at, Buf::described(4096, 1))).await;
                assert!(done.result.is_ok(), "a write of the experiment failed: {:?}", done.result);
                rt.sleep(Nanos::millis(50)).await;
                if number + 1 == fits {
                    per_write = stat(&stack, "d", "write_travel_cylinders") / fits as f64;
                }
            }
            let full = args.map_or(0.0, |_| stat(&stack, "vol", "buffer_full"));
            (per_write, full as u64)
        }))
    };
    let ((plain, _), (borg, full)) = (travelled(None)?, travelled(Some("interval=8760h"))?);
    lab.say(format!("random writes: {borg:.1} cylinders for each, {plain:.1} without the layer"));
    Ok([
        Figure::alone("write_travel_saved", 1.0 - borg / plain, "share of the way")
            .peer("without the layer, cylinders a write", plain),
        Figure::alone("writes_past_the_buffer", full as f64, "writes that went home"),
    ])
}

/// Item 21: all settings on one machine, and the tuner's.
fn sweep(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let load = load(lab, &MACHINES[1], 0.5)?;
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let (mut best, mut best_of_area, mut worst) = (f64::INFINITY, f64::INFINITY, 0.0f64);
    let mut plains = Vec::new();
    for (percent, area) in AREAS {
        let plain = played(lab, &load, area, None)?;
        plains.push(plain);
        for interval in INTERVALS {
            for (share, write_buffer) in SHARES {
                let args = format!("interval={interval} write_buffer={write_buffer}");
                let taken = played(lab, &load, area, Some(&args))?;
                let (saved, busy) = (saved(plain, taken), taken.busy.as_secs_f64());
                lab.say(format!("area {percent} %, {args}: {saved:.3} of the busy time saved"));
                for key in [format!("area_{percent}"), format!("interval_{interval}"), format!("buffer_{share}")] {
                    *sums.entry(key).or_default() += saved / 9.0;
                }
                (best, worst) = (best.min(busy), worst.max(busy));
                best_of_area = if area == AREA { best_of_area.min(busy) } else { best_of_area };
            }
        }
    }
    let tuned = played(lab, &load, AREA, Some("tune=true"))?.busy.as_secs_f64();
    let mut figures: Vec<Figure> = sums
        .into_iter()
        .map(|(key, saved)| Figure::alone(format!("sweep_{key}"), saved, "share of the busy time, mean of nine"))
        .collect();
    figures.push(Figure::alone("sweep_worst_over_best", worst / best, "ratio of busy times"));
    let ratio = Figure::alone("tuned_over_best", tuned / best_of_area, "ratio of busy times");
    figures.push(ratio.peer("best of nine with the same area, s", best_of_area));
    Ok(figures)
}
