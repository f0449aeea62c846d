//! `edt-msr-played` and `edt-spc-played`: what clients wait on tiers and on SAS disks alone. Source: items 38, 44 and
//! 45 of the specification of extensions; the thesis on extending storage, sections 6.2 and 6.3.
//!
//! The loads of `edt-msr` and `edt-spc` are made small: each volume has a part of its bytes and requests, so each place
//! is used as often. They are played faster, so that a device has as many requests per second as one of the thesis.
//! Where one disk stands for an array of four, it has as many as each of them. Bytes of devices, epochs and looks are
//! divided by the same factor; extents have 64 MiB. So moves have the same share of a device's time, and so has each
//! extent. Where extents lie at first is that of the thesis. Times are simulated.

use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Figure, Lab, LabError};
use esker_rt::sync::join_all;
use esker_stack::Stack;
use esker_tiering::Sheet;
use esker_tiering::sheet::{SAS, peak_w};
use esker_trace_block::Record;
use esker_trace_block::generate::Profile;

use crate::edt_rest;
use crate::edt_start::{Placed, begin};
use crate::edt_testbed::{
    BY_COST, Clients, EXTENT, Testbed, Waits, all_moved, bases, faster, on_one_volume, order, told, usages,
};
use crate::played::{asked, stat};

/// Equal cost: one array of four of each type, or three of SAS. One disk stands for an array.
const TIER: [u32; 3] = [1, 1, 1];
const ARRAY: [u32; 3] = [0, 3, 0];
pub(crate) const DISKS: f64 = 4.0;
/// By how much a day of servers is faster, in the short and the long form.
pub(crate) const SPEEDS: [u64; 2] = [50, 12];
const DAY: Nanos = Nanos::secs(86_400);
const EPOCH: Nanos = Nanos::secs(1_800);
const LOOK: Nanos = Nanos::secs(60);
/// Volumes of the group `data` that are left out: the thesis has the 31 most active of 36, 4,580 GB.
const LEFT_OUT: u32 = 5;
/// Epochs of equal statistics, of which the last two must move nothing.
const EQUAL_EPOCHS: u32 = 40;

/// Requests at their speed, on one volume.
pub(crate) struct Load {
    records: Vec<Record>,
    pub(crate) bytes: u64,
    /// The first byte of each volume.
    bases: Vec<u64>,
}

/// What a run found behind its first epoch.
pub(crate) struct Found {
    pub(crate) waits: Waits,
    /// Those of the second half of the day.
    late: Waits,
    /// Mean power of all devices, watts.
    pub(crate) watts: f64,
    pub(crate) late_watts: f64,
    pub(crate) moved: f64,
    /// What a tier did, for people.
    pub(crate) told: String,
}

impl Load {
    /// A generated day of servers with a part of its bytes and requests, so many times as fast.
    pub(crate) fn of_servers(lab: &Lab<'_>, name: &str, factors: [f64; 2]) -> Result<Load, LabError> {
        Load::new(lab, name, factors, |profile| {
            let data = profile.volume.iter_mut().filter(|volume| volume.name == "data");
            data.for_each(|volume| volume.count -= LEFT_OUT);
        })
    }

    /// A generated trace with a part of its bytes and requests, so many times as fast. `adapt` changes its profile.
    fn new(lab: &Lab<'_>, name: &str, [part, speed]: [f64; 2], adapt: impl Fn(&mut Profile)) -> Result<Load, LabError> {
        let mut profile = Profile::builtin(name).map_err(LabError::data)?.scaled(part);
        adapt(&mut profile);
        let (records, bytes) = on_one_volume((name, &profile), lab.seed, profile.hours.min(24.0), speed)?;
        Ok(Load { records, bytes: bytes.next_multiple_of(EXTENT), bases: bases(&profile).0 })
    }

    /// From noon on only one of so many volumes is used.
    pub(crate) fn rest_from_noon(&mut self, volumes: u32, speed: u64) {
        let noon = Nanos(DAY.0 / 2 / speed);
        self.records.retain(|record| record.at < noon || record.volume.is_multiple_of(volumes));
    }

    /// What places the extents of a day, played so many times as fast, on so many devices of each type.
    pub(crate) fn placed(&self, counts: [u32; 3], speed: u64) -> Placed<'_> {
        let testbed = Testbed { counts, shrink: speed, extent: EXTENT };
        let ends = (0..).zip(counts).flat_map(|(tier, count)| vec![(tier, testbed.room(tier)); count as usize]);
        Placed {
            records: &self.records,
            extents: (self.bytes / EXTENT) as usize,
            bases: &self.bases,
            ends: ends.collect(),
            epoch_s: EPOCH.as_secs_f64() / speed as f64,
            epochs: (DAY.0 / EPOCH.0) as usize,
        }
    }

    /// The tier that holds it.
    fn tier(&self, counts: [u32; 3], speed: u64, args: &str) -> String {
        Testbed { counts, shrink: speed, extent: EXTENT }.tier(self.bytes / EXTENT, args)
    }
}

pub(crate) fn run_msr(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, suffix) in [("msr-like", ""), ("msr-shift", "_shift")] {
        figures.extend(day(lab, name, suffix)?);
    }
    figures.extend(edt_rest::run(lab)?);
    Ok(figures)
}

/// A day of servers on all systems.
fn day(lab: &Lab<'_>, name: &str, suffix: &str) -> Result<Vec<Figure>, LabError> {
    let speed = lab.scale(SPEEDS[0], SPEEDS[1]);
    let load = Load::of_servers(lab, name, [1.0 / (DISKS * speed as f64), speed as f64])?;
    let times = times(speed);
    let sas = Testbed { counts: ARRAY, shrink: speed, extent: EXTENT }.array(SAS);
    let tier = |plan: &str, objective: &str| load.tier(TIER, speed, &format!("{times} plan={plan} {objective}"));
    let placed = load.placed(TIER, speed);
    let (balanced, fixed) = (placed.balanced(), placed.fixed());
    let played = |system: &str, text: &str, start: &[usize]| {
        let found = play_day(lab, text, &load, start, speed)?;
        lab.say(format!(
            "{name} on {system}: {}, {:.3} ms in the second half, {:.2} W, {} moves{}",
            found.waits.text(),
            found.late.mean_ms(),
            found.watts,
            found.moved,
            found.told
        ));
        Ok::<_, LabError>(found)
    };
    let sas = played("SAS", &sas, &[])?;
    let edt = played("EDT", &tier("edt", BY_COST), &balanced)?;
    let by_time = played("EDT by time", &tier("edt", ""), &balanced)?;
    let idt = played("IDT", &tier("idt", BY_COST), &balanced)?;
    // Static tiering knew the day before it began, and moves nothing.
    let est = played("EST", &tier("none", "throttle=false"), &fixed)?;
    let of = |id: &str, ours: f64, theirs: f64, unit| Figure::alone(format!("{id}{suffix}"), ours / theirs, unit);
    let mean = |id: &str, ours: &Found, theirs: &Found| {
        let (ours, theirs) = (ours.waits.mean_ms(), theirs.waits.mean_ms());
        of(id, ours, theirs, "ratio of mean times").peer("the other, ms", theirs)
    };
    let late = |id: &str, ours: &Found, theirs: &Found| {
        let (ours, theirs) = (ours.late.mean_ms(), theirs.late.mean_ms());
        of(id, ours, theirs, "ratio of mean times, second half of the day").peer("the other, ms", theirs)
    };
    let p95 = [&edt, &sas].map(|found| found.waits.percentile_ms(0.95));
    let sheets = Sheet::thesis();
    let peak = peak_w(&sheets, &TIER.map(f64::from));
    let bandwidth: f64 = sheets.iter().map(|sheet| sheet.mb_per_s).sum();
    let seconds = (DAY.as_secs_f64() - EPOCH.as_secs_f64()) / speed as f64;
    let share = edt.moved * EXTENT as f64 / 1e6 / seconds / bandwidth;
    let mut figures = vec![
        mean("edt_mean_over_idt", &edt, &idt).paper(2.94 / 5.93),
        mean("idt_mean_over_est", &idt, &est).paper(5.93 / 9.33),
        mean("edt_mean_over_sas", &edt, &sas).paper(2.94 / 5.12),
        of("edt_p95_over_sas", p95[0], p95[1], "ratio of 95th percentiles").paper(7.86 / 19.31).peer("SAS, ms", p95[1]),
        mean("est_mean_over_sas", &est, &sas).paper(9.33 / 5.12),
        mean("edt_time_mean_over_sas", &by_time, &sas),
        late("edt_late_mean_over_sas", &edt, &sas),
        late("edt_time_late_mean_over_sas", &by_time, &sas),
        late("edt_time_late_mean_over_idt", &by_time, &idt),
        Figure::alone(format!("move_share{suffix}"), share, "share of the bandwidth").paper(0.03),
        Figure::alone(format!("dynamic_under_peak{suffix}"), 1.0 - edt.watts / peak, "share of the peak power")
            .paper(0.13),
        Figure::alone(format!("dynamic_under_sas{suffix}"), 1.0 - edt.watts / sas.watts, "share of the power")
            .paper(0.55),
    ];
    if suffix.is_empty() {
        figures.push(equal_epochs(lab, &load, speed)?);
    }
    Ok(figures)
}

/// Epochs and looks of a tier whose load is played so many times as fast.
pub(crate) fn times(speed: u64) -> String {
    format!("epoch={}ns look={}ns", EPOCH.0 / speed, LOOK.0 / speed)
}

/// Plays a day, and tells of what is behind its first epoch. A tier begins with its extents on the ends of `start`.
pub(crate) fn play_day(lab: &Lab<'_>, text: &str, load: &Load, start: &[usize], speed: u64) -> Result<Found, LabError> {
    let Rig { world, stack } = Rig::simulated(lab.seed, text)?;
    let records = load.records.clone();
    let (day, epoch) = (faster(DAY, speed as f64), faster(EPOCH, speed as f64));
    let start = start.to_vec();
    world.block_on(async move {
        let (begun, elsewhere) = begin(&stack, &start, epoch.0).await?;
        let clients = Clients::new(&stack);
        // What was used until the end of the first epoch, and until noon.
        let mut until = Vec::new();
        for record in &records {
            if [epoch, day / 2].get(until.len()).is_some_and(|time| record.at >= *time) {
                until.push(used(&stack));
            }
            clients.send(record).await;
        }
        let &[[joules, moved], [noon, _]] = until.as_slice() else { return Err(LabError::data("a day is too short")) };
        stack.rt().sleep_until(begun + day).await;
        let now = used(&stack);
        let watts = |joules: f64, from: Nanos| (now[0] - joules) / (day - from).as_secs_f64();
        clients.ended().await;
        let begin = if start.is_empty() { String::new() } else { format!(", {elsewhere} began elsewhere") };
        Ok(Found {
            waits: clients.between(epoch, day),
            late: clients.between(day / 2, day),
            watts: watts(joules, epoch),
            late_watts: watts(noon, day / 2),
            moved: now[1] - moved,
            told: if is_tier(&stack) { told(&stack) + &begin } else { String::new() },
        })
    })
}

/// Joules of all devices, and moves of a tier.
fn used(stack: &Rc<Stack>) -> [f64; 2] {
    let joules = usages(stack).into_iter().map(|(_, usage)| usage.energy_j).sum();
    [joules, if is_tier(stack) { stat(stack, "vol", "moved") } else { 0.0 }]
}

fn is_tier(stack: &Rc<Stack>) -> bool {
    stack.stats().iter().any(|part| part.name == "vol" && part.stats.iter().any(|stat| stat.name == "moved"))
}

/// Item 38: the same half of an hour again and again. Moves may take all of a device's time, so that they end.
fn equal_epochs(lab: &Lab<'_>, load: &Load, speed: u64) -> Result<Figure, LabError> {
    let args = format!("epoch={}ns look={}ns throttle=false share=1 {BY_COST}", EPOCH.0 / speed, LOOK.0 / speed);
    let Rig { world, stack } = Rig::simulated(lab.seed, &load.tier(TIER, speed, &args))?;
    let epoch = Nanos(EPOCH.0 / speed);
    let one: Vec<Record> = load.records.iter().take_while(|record| record.at < epoch).copied().collect();
    let moves = world.block_on(async move {
        let (clients, mut moves) = (Clients::new(&stack), Vec::new());
        for number in 0..u64::from(EQUAL_EPOCHS) {
            for record in &one {
                clients.send(&Record { at: record.at + epoch * number, ..*record }).await;
            }
            moves.push(stat(&stack, "vol", "moved"));
        }
        moves
    });
    lab.say(format!("equal epochs: {moves:?} moves in all at the end of each"));
    let last = moves.len() - 1;
    let late = moves[last] - moves[last - 2];
    Ok(Figure::alone("moves_second_epoch", late, "moves of the last two of forty equal epochs")
        .peer("of all", moves[last]))
}

/// A steady load as SPC-1 has it: the sizes of `edt-spc` for it, dynamic and of SAS disks.
const SPC_TIER: [u32; 3] = [1, 1, 2];
const SPC_ARRAY: [u32; 3] = [0, 18, 0];
const SPC_SPEEDS: [u64; 2] = [50, 10];
/// The thesis plays half an hour. Whether a tier has settled shows later.
const SPC_LENGTH: Nanos = Nanos::secs(1_800);
const SPC_HOURS: f64 = 3.0;
const SPC_EPOCH: Nanos = Nanos::secs(300);
/// Business scaling units.
const UNITS: usize = 100;
const SATA_END: u64 = 2;

pub(crate) fn run_spc(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let speed = lab.scale(SPC_SPEEDS[0], SPC_SPEEDS[1]);
    let load = Load::new(lab, "spc1-like", [1.0 / speed as f64, speed as f64], |profile| profile.hours = SPC_HOURS)?;
    let times = format!("epoch={}ns look={}ns {BY_COST}", SPC_EPOCH.0 / speed, LOOK.0 / speed);
    let sas = Testbed { counts: SPC_ARRAY, shrink: speed, extent: EXTENT }.array(SAS);
    let played = |system: &str, text: &str| {
        let (parts, did) = play_units(lab, text, &load, speed)?;
        for (part, waits) in ["half an hour", "settled"].into_iter().zip(&parts) {
            lab.say(format!("{system}, {part}: {}", waits.text()));
        }
        lab.say(format!("{system}{did}"));
        Ok::<_, LabError>(parts)
    };
    let (sas, edt) = (played("SAS", &sas)?, played("EDT", &load.tier(SPC_TIER, speed, &times))?);
    let idt = played("IDT", &load.tier(SPC_TIER, speed, &format!("{times} plan=idt")))?;
    let mut figures = Vec::new();
    for (part, suffix) in ["", "_settled"].into_iter().enumerate() {
        let over = |id: &str, ours: &Waits, theirs: &Waits| {
            let ratio = ours.mean_ms() / theirs.mean_ms();
            Figure::alone(format!("{id}{suffix}"), ratio, "ratio of mean times").peer("the other, ms", theirs.mean_ms())
        };
        figures.extend([
            over("edt_mean_over_sas", &edt[part], &sas[part]).paper(15.0 / 28.0),
            over("edt_mean_over_idt", &edt[part], &idt[part]).paper(15.0 / 21.0),
        ]);
    }
    Ok(figures)
}

/// Each unit sends its requests in order, none before its time, and has one under way. What they wait behind the first
/// epoch of the first half of an hour, and in the last one. A tier begins with everything on SATA; what it did is told.
fn play_units(lab: &Lab<'_>, text: &str, load: &Load, speed: u64) -> Result<([Waits; 2], String), LabError> {
    let Rig { world, stack } = Rig::simulated(lab.seed, text)?;
    let mut units: Vec<Vec<Record>> = vec![Vec::new(); UNITS];
    load.records.iter().enumerate().for_each(|(number, record)| units[number % UNITS].push(*record));
    let (extents, is_tier) = (load.bytes / EXTENT, text.contains("tier"));
    world.block_on(async move {
        if is_tier {
            order(&stack, &format!("place 0-{} {SATA_END}", extents - 1)).await?;
            all_moved(&stack).await;
        }
        let (rt, epoch) = (stack.rt().clone(), SPC_EPOCH.0 / speed);
        let begun = Time(rt.now().0.next_multiple_of(epoch));
        let unit = |records: Vec<Record>| {
            let (volume, world) = (vol(&stack), rt.clone());
            rt.spawn("unit", async move {
                let mut waits = Vec::with_capacity(records.len());
                for record in records {
                    let at = begun + record.at;
                    let took = asked(&volume, &world, &Record { at: Nanos(at.0), ..record }).await;
                    waits.push((at, took));
                }
                waits
            })
        };
        let tasks: Vec<_> = units.into_iter().map(unit).collect();
        let mut all = Waits::default();
        join_all(tasks).await.into_iter().flatten().for_each(|(at, took)| all.add(at, took));
        let (half, end) = (SPC_LENGTH.0 / speed, Nanos::from_secs_f64(SPC_HOURS * 3_600.0).0 / speed);
        let part = |from, to| all.between(begun + Nanos(from), begun + Nanos(to));
        let did =
            if is_tier { format!(", moved {}{}", stat(&stack, "vol", "moved"), told(&stack)) } else { String::new() };
        Ok(([part(epoch, half), part(end - half, end)], did))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disk_has_the_requests_and_the_room_of_each_of_an_array() {
        let speed = SPEEDS[0] as f64;
        // 716 requests a second on arrays of four.
        assert!((716.0 / (DISKS * speed) * speed - 716.0 / 4.0).abs() < 1e-9);
        let load = Load { records: Vec::new(), bytes: 300 * EXTENT, bases: vec![0] };
        let text = load.tier(TIER, SPEEDS[0], "plan=edt");
        assert!(
            text.contains("sas(bytes=9000000000) x1") && text.contains("extent=67108864 size=20132659200"),
            "{text}"
        );
        assert_eq!(faster(DAY, speed), Nanos::secs(1_728));
    }
}
