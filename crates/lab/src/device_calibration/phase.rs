//! Calibration of one drive from measured requests: how fast it really turns, how its cylinders are really skewed, and
//! at which angle it stands.
//!
//! A read from the medium tells an angle: its first sector had passed when its transfer began. Where the skews of the
//! files are right, the angles of all reads agree with one rotation. What is fitted here are only whole and half
//! sectors of skew per cylinder of each zone, and the rotation; how long a request takes is not looked at.

use std::collections::VecDeque;
use std::f64::consts::TAU;

use esker_base::units::SECTOR;
use esker_base::{Nanos, Time};
use esker_dev_sim::disk_model::geometry::TURN;
use esker_dev_sim::disk_model::{DiskParts, DiskSimSpec};

use super::trace::Measured;
use super::{BILL, is_buffered};

/// Reads that are compared with each other lie at most this far apart: later ones say more about the rotation's drift.
const NEAR: Nanos = Nanos::secs(3);
const NEAR_READS: usize = 60;

/// By how much rotation and skews of files may be wrong.
const RPM_ERROR_MAX: i32 = 50;
const SKEW_ERROR_MAX: f64 = 24.0;

/// Reads that say at which angle the disk stands now.
const RECENT_READS: usize = 12;

/// A read from the medium.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    /// When its first sector had passed the head.
    at: Time,
    /// The sector's angle as the files have it, in turns.
    angle: f64,
    zone: usize,
    /// Cylinder from the zone's first.
    cylinder: f64,
}

/// The reads from the medium among `requests`, by the drive's own clock.
fn sightings(spec: &DiskSimSpec, parts: &DiskParts, requests: &[Measured]) -> Vec<Sighting> {
    let mut now = Time::ZERO;
    let mut seen = Vec::new();
    for request in requests {
        let done = now + request.think + request.service;
        if !request.write && !is_buffered(parts, request, request.service) {
            seen.push(sighting(spec, parts, request, done));
        }
        now = done;
    }
    seen
}

fn sighting(spec: &DiskSimSpec, parts: &DiskParts, request: &Measured, done: Time) -> Sighting {
    let place = parts.geometry.end((request.sector + 1) * SECTOR);
    let transfer = Nanos::transfer(request.count * SECTOR, parts.interface.rate) + parts.interface.completion[0];
    let zone = spec.layout.zones.iter().rposition(|zone| zone.first <= place.cylinder).unwrap_or(0);
    Sighting {
        at: Time(done.0.saturating_sub(transfer.0)),
        angle: (place.at % TURN) as f64 / TURN as f64,
        zone,
        cylinder: f64::from(place.cylinder - spec.layout.zones[zone].first),
    }
}

/// A sum of angles as vectors, in turns.
#[derive(Clone, Copy, Default)]
struct Angles {
    x: f64,
    y: f64,
    count: f64,
}

impl Angles {
    fn of(angles: impl Iterator<Item = f64>) -> Angles {
        let mut sum = Angles::default();
        for angle in angles {
            sum.x += (angle * TAU).cos();
            sum.y += (angle * TAU).sin();
            sum.count += 1.0;
        }
        sum
    }

    /// 1 if all agree, near 0 if they are spread evenly.
    fn agreement(&self) -> f64 {
        self.x.hypot(self.y) / self.count.max(1.0)
    }

    fn mean(&self) -> f64 {
        self.y.atan2(self.x) / TAU
    }
}

/// Two near sightings of one zone: time between them, and how far angle and cylinder differ.
#[derive(Clone, Copy)]
struct Pair {
    seconds: f64,
    angle: f64,
    cylinders: f64,
}

fn pairs(seen: &[Sighting], zone: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (at, later) in seen.iter().enumerate() {
        for earlier in &seen[at.saturating_sub(NEAR_READS)..at] {
            let apart = later.at.since(earlier.at);
            if earlier.zone == zone && later.zone == zone && apart < NEAR {
                let (angle, cylinders) = (later.angle - earlier.angle, later.cylinder - earlier.cylinder);
                pairs.push(Pair { seconds: apart.as_secs_f64(), angle, cylinders });
            }
        }
    }
    pairs
}

/// How well pairs agree at `rpm` if each cylinder is skewed by `skew` turns more than the files say.
fn agreement(pairs: &[Pair], rpm: f64, skew: f64) -> Angles {
    Angles::of(pairs.iter().map(|pair| pair.seconds * rpm / 60.0 - pair.angle - skew * pair.cylinders))
}

/// The skew per cylinder, in sectors, with which a zone's pairs agree best. It is found in steps of one sector for all
/// tracks of a cylinder together: they need not all be skewed alike.
fn best_skew(pairs: &[Pair], rpm: f64, sectors: u32, heads: u32) -> f64 {
    let step = 1.0 / f64::from(heads.max(2) - 1);
    let most = (SKEW_ERROR_MAX / step) as i64;
    let skews = (-most..=most).map(|steps| steps as f64 * step);
    let score = |skew: &f64| agreement(pairs, rpm, skew / f64::from(sectors)).agreement();
    skews.max_by(|a, b| score(a).total_cmp(&score(b)).then(b.abs().total_cmp(&a.abs()))).unwrap_or(0.0)
}

/// The drive with what its own requests say of its rotation and skews, and how well all reads of each zone then agree
/// (1 at best, near 0 if the layout is wrong in other ways). Turns a minute stay a whole number.
pub(crate) fn calibrated(spec: &DiskSimSpec, requests: &[Measured]) -> (DiskSimSpec, f64) {
    let parts = spec.parts(BILL, None);
    let seen = sightings(spec, &parts, requests);
    let zones: Vec<Vec<Pair>> = (0..spec.layout.zones.len()).map(|zone| pairs(&seen, zone)).collect();
    let sectors: Vec<u32> = spec.layout.zones.iter().map(|zone| zone.sectors).collect();
    let fit = |rpm: f64| -> Vec<f64> {
        let zones = zones.iter().zip(&sectors);
        zones.map(|(pairs, sectors)| best_skew(pairs, rpm, *sectors, spec.layout.heads)).collect()
    };
    let still = |pairs: &Vec<Pair>| pairs.iter().filter(|pair| pair.cylinders == 0.0).copied().collect();
    let same: Vec<Vec<Pair>> = zones.iter().map(still).collect();
    // Reads of one cylinder know nothing of its skew, but are few; with the skews that follow, all reads tell.
    let mut rpm = best_rpm(&same, &sectors, &vec![0.0; sectors.len()], f64::from(spec.rpm), RPM_ERROR_MAX);
    let mut skews = fit(rpm);
    for _ in 0..3 {
        rpm = best_rpm(&zones, &sectors, &skews, rpm, 5);
        skews = fit(rpm);
    }
    let pairs: f64 = zones.iter().map(|pairs| pairs.len() as f64).sum();
    let agreement = weighed(&zones, &sectors, &skews, rpm) / pairs.max(1.0);
    let mut spec = spec.clone();
    spec.rpm = rpm as u32;
    for (zone, skew) in spec.layout.zones.iter_mut().zip(skews) {
        zone.cylinder_skew = (zone.cylinder_skew + skew).rem_euclid(f64::from(zone.sectors));
    }
    (spec, agreement)
}

/// How well the zones' pairs agree, each zone by the number of its pairs.
fn weighed(zones: &[Vec<Pair>], sectors: &[u32], skews: &[f64], rpm: f64) -> f64 {
    let zones = zones.iter().zip(sectors).zip(skews);
    let angles = zones.map(|((pairs, sectors), skew)| agreement(pairs, rpm, skew / f64::from(*sectors)));
    angles.map(|angles| angles.agreement() * angles.count).sum()
}

/// The turns a minute, a whole number at most `reach` from `rpm`, with which the zones' pairs agree best.
fn best_rpm(zones: &[Vec<Pair>], sectors: &[u32], skews: &[f64], rpm: f64, reach: i32) -> f64 {
    let score = |rpm: &f64| weighed(zones, sectors, skews, *rpm);
    let candidates = (-reach..=reach).map(|step| (rpm + f64::from(step)).round());
    candidates.max_by(|a, b| score(a).total_cmp(&score(b))).unwrap_or(rpm)
}

/// Follows the drive's rotation by what its completions told so far.
pub(crate) struct Tracker {
    spec: DiskSimSpec,
    parts: DiskParts,
    now: Time,
    /// Where the drive stood at time 0 by its last reads, in turns.
    recent: VecDeque<f64>,
}

impl Tracker {
    /// Nothing is known yet.
    pub(crate) fn new(spec: &DiskSimSpec) -> Tracker {
        Tracker { spec: spec.clone(), parts: spec.parts(BILL, None), now: Time::ZERO, recent: VecDeque::new() }
    }

    fn turns(&self, time: Time) -> f64 {
        (time.since(Time::ZERO).as_secs_f64() * f64::from(self.spec.rpm) / 60.0).fract()
    }

    /// How long the modelled disk, at `virtual_now`, must turn on until it stands as the drive does when `request`
    /// comes.
    pub(crate) fn lag(&self, request: &Measured, virtual_now: Time) -> Nanos {
        if self.recent.is_empty() {
            return Nanos::ZERO;
        }
        let stands = self.turns(self.now + request.think) - Angles::of(self.recent.iter().copied()).mean();
        let turns = (stands - self.turns(virtual_now)).rem_euclid(1.0);
        Nanos::from_secs_f64(turns * 60.0 / f64::from(self.spec.rpm))
    }

    /// Takes note of what a request took.
    pub(crate) fn note(&mut self, request: &Measured) {
        self.now = self.now + request.think + request.service;
        if !request.write && !is_buffered(&self.parts, request, request.service) {
            let seen = sighting(&self.spec, &self.parts, request, self.now);
            self.recent.push_back(self.turns(seen.at) - seen.angle);
            if self.recent.len() > RECENT_READS {
                self.recent.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DRIVES, play, requests, spec};
    use super::*;

    /// Requests to a disk of which everything is known: the model itself, with other skews and another rotation.
    #[test]
    fn what_was_changed_in_a_model_is_found_from_its_service_times() {
        let drive = &DRIVES[0];
        let files = spec(drive).unwrap();
        let mut real = files.clone();
        real.rpm = 10_003;
        real.layout.zones[3].cylinder_skew += 4.0;
        real.layout.zones[9].cylinder_skew -= 7.0;
        let mut asked = requests(drive).unwrap();
        let answers = play(&real.parts(BILL, None), &asked, None);
        asked.iter_mut().zip(&answers).for_each(|(request, answer)| request.service = answer.service);
        let (found, agreement) = calibrated(&files, &asked);
        assert!(agreement > 0.9, "{agreement}");
        assert!(found.rpm.abs_diff(10_003) <= 1, "{}", found.rpm);
        for (at, (found, real)) in found.layout.zones.iter().zip(&real.layout.zones).enumerate() {
            let off = found.cylinder_skew - real.cylinder_skew;
            assert!(off.abs() < 0.5, "zone {at}: {} for {}", found.cylinder_skew, real.cylinder_skew);
        }
    }
}
