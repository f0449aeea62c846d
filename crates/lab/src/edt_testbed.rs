//! What the played experiments on tiers share: the testbed of the thesis on extending storage, and what its clients
//! wait.
//!
//! The testbed can be shrunk: devices have a part of their room, and times of requests stay. With extents that have
//! the same part of their bytes, there are as many, and a share of a device is what it was. What an experiment makes
//! shorter or fewer it says itself.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;

use esker_base::units::MIB;
use esker_base::{Nanos, Time};
use esker_block::Usage;
use esker_lab_kit::LabError;
use esker_lab_kit::rig::vol;
use esker_stack::Stack;
use esker_trace_block::generate::{Generator, Profile};
use esker_trace_block::{Record, Source};

use crate::played::{asked, stat};

/// Bytes of an extent in the experiments of the thesis, in binary units.
pub(crate) const EXTENT: u64 = 64 * MIB;
/// Bytes of the devices.
const BYTES: [u64; 3] = [180_000_000_000, 450_000_000_000, 1_000_000_000_000];
/// What tiers of the thesis make small. The kind has the time of devices, if it is told nothing.
pub(crate) const BY_COST: &str = "objective=cost";
/// Names of devices in sheets, and their models.
const SHEETS: [&str; 3] = ["ssd", "sas", "sata"];
const MODELS: [&str; 3] =
    ["ssd-model profile=ssd-sata-2010", "disk-model profile=hdd-15k-2008", "disk-model profile=hdd-7200-2008"];

/// Extents of an end that hold its labels, the map, and what moves to it.
const NO_ROOM: u64 = 3;

/// Devices of the testbed by type: SSD, SAS, SATA. Those of a type are one end of a tier, striped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Testbed {
    pub counts: [u32; 3],
    /// Their bytes are divided by it.
    pub shrink: u64,
    /// Bytes of an extent, a power of two.
    pub extent: u64,
}

impl Testbed {
    /// With extents that shrink as devices do.
    pub(crate) fn shrunk(counts: [u32; 3], shrink: u64) -> Testbed {
        Testbed { counts, shrink, extent: EXTENT / shrink }
    }

    /// A tier of so many extents as the device `vol`. `args`: what else it is told.
    pub(crate) fn tier(&self, extents: u64, args: &str) -> String {
        let used = (0..SHEETS.len()).filter(|tier| self.counts[*tier] > 0);
        let end = |tier: usize| (SHEETS[tier].to_string(), self.sheet(tier, self.counts[tier]), self.end(tier));
        self.joined(used.map(end), extents, args)
    }

    /// A tier in which each device is an end of its own. `rest`: what disks are told of standby.
    pub(crate) fn tier_apart(&self, extents: u64, rest: &str, args: &str) -> String {
        let end = |tier: usize, number| {
            let name = format!("{}{number}", SHEETS[tier]);
            let device = self.device(&name, tier, if MODELS[tier].starts_with("disk") { rest } else { "" });
            (name, self.sheet(tier, 1), device)
        };
        let types = (0..SHEETS.len()).flat_map(|tier| (0..self.counts[tier]).map(move |number| (tier, number)));
        self.joined(types.map(|(tier, number)| end(tier, number)), extents, args)
    }

    /// A tier over ends: their names, sheets and devices.
    fn joined(&self, ends: impl Iterator<Item = (String, String, String)>, extents: u64, args: &str) -> String {
        let (mut text, mut names, mut sheets) = (String::new(), Vec::new(), Vec::new());
        for (name, sheet, device) in ends {
            text += &device;
            names.push(name);
            sheets.push(sheet);
        }
        let _ = write!(
            text,
            "vol = tier devices=\"{}\" extent={} size={} {args} on {}",
            sheets.join("; "),
            self.extent,
            extents * self.extent,
            names.join(", ")
        );
        text
    }

    fn sheet(&self, tier: usize, count: u32) -> String {
        format!("{}(bytes={}) x{count}", SHEETS[tier], BYTES[tier] / self.shrink)
    }

    /// Extents for which a device of a type has room beside its labels, the map and a slot that stays free.
    pub(crate) fn room(&self, tier: usize) -> usize {
        (BYTES[tier] / self.shrink / self.extent).saturating_sub(NO_ROOM) as usize
    }

    /// An array of one type alone as the device `vol`.
    pub(crate) fn array(&self, tier: usize) -> String {
        format!("{} vol = pass on {}", self.end(tier), SHEETS[tier])
    }

    /// The devices of a type, as one device that has the name of their sheet.
    fn end(&self, tier: usize) -> String {
        let (name, count) = (SHEETS[tier], self.counts[tier]);
        if count == 1 {
            return self.device(name, tier, "");
        }
        let members: Vec<String> = (0..count).map(|number| format!("{name}{number}")).collect();
        let devices: String = members.iter().map(|name| self.device(name, tier, "")).collect();
        format!("{devices}{name} = stripe chunk=1MiB on {}; ", members.join(", "))
    }

    fn device(&self, name: &str, tier: usize, args: &str) -> String {
        // Models want whole blocks and erase blocks.
        let bytes = BYTES[tier] / self.shrink / MIB * MIB;
        format!("{name} = {} capacity={bytes} {args}; ", MODELS[tier])
    }
}

/// A natural time of a load that is played so many times as fast.
pub(crate) fn faster(natural: Nanos, speed: f64) -> Nanos {
    Nanos::from_secs_f64(natural.as_secs_f64() / speed)
}

/// Reads and writes of so many hours of a profile, so many times as fast, and the bytes of its volumes. These lie one
/// behind the other, each from a multiple of a MiB on.
pub(crate) fn on_one_volume(
    (name, profile): (&str, &Profile),
    seed: u64,
    hours: f64,
    speed: f64,
) -> Result<(Vec<Record>, u64), LabError> {
    let (bases, bytes) = bases(profile);
    let mut trace = Generator::new(name, profile, seed, hours).map_err(LabError::data)?;
    let mut records = Vec::new();
    while let Some(record) = trace.next_record().map_err(LabError::data)? {
        if record.op.is_transfer() {
            let offset = bases[record.volume as usize] + record.offset;
            records.push(Record { at: faster(record.at, speed), offset, ..record });
        }
    }
    Ok((records, bytes))
}

/// The first bytes of volumes that lie one behind the other, and the bytes of all.
pub(crate) fn bases(profile: &Profile) -> (Vec<u64>, u64) {
    let (mut bases, mut bytes) = (Vec::new(), 0);
    for volume in &profile.volume {
        for _ in 0..volume.count {
            bases.push(bytes);
            bytes += volume.bytes.next_multiple_of(MIB);
        }
    }
    (bases, bytes)
}

/// Times that requests waited for their answers, in the order of answers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Waits(Vec<(Time, Nanos)>);

impl Waits {
    /// A request that began at a time had its answer behind a span.
    pub(crate) fn add(&mut self, begun: Time, took: Nanos) {
        self.0.push((begun, took));
    }

    /// Those of requests that began between two times.
    pub(crate) fn between(&self, from: Time, to: Time) -> Waits {
        Waits(self.0.iter().filter(|(begun, _)| (from..to).contains(begun)).copied().collect())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Their mean in milliseconds; 0 of none.
    pub(crate) fn mean_ms(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|(_, took)| took.as_secs_f64()).sum();
        sum * 1e3 / self.0.len().max(1) as f64
    }

    /// The least time that a share of them does not exceed, in milliseconds; 0 of none.
    pub(crate) fn percentile_ms(&self, share: f64) -> f64 {
        let mut sorted: Vec<Nanos> = self.0.iter().map(|(_, took)| *took).collect();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(at.saturating_sub(1)).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    }

    /// All of it for people.
    pub(crate) fn text(&self) -> String {
        format!(
            "{} requests, {:.3} ms in the mean, {:.3} ms for half, {:.3} ms for 95 %",
            self.len(),
            self.mean_ms(),
            self.percentile_ms(0.5),
            self.percentile_ms(0.95)
        )
    }
}

/// Clients that send each request at its time, whether those before have ended or not.
pub(crate) struct Clients {
    stack: Rc<Stack>,
    begun: Time,
    waits: Rc<RefCell<Waits>>,
    left: Rc<Cell<u64>>,
}

impl Clients {
    /// Clients whose times begin now.
    pub(crate) fn new(stack: &Rc<Stack>) -> Clients {
        Clients { stack: stack.clone(), begun: stack.rt().now(), waits: Rc::default(), left: Rc::default() }
    }

    /// Sends a request at its time.
    pub(crate) async fn send(&self, record: &Record) {
        let (rt, volume) = (self.stack.rt().clone(), vol(&self.stack));
        let at = self.begun + record.at;
        rt.sleep_until(at).await;
        let (record, waits, left) = (Record { at: Nanos(at.0), ..*record }, self.waits.clone(), self.left.clone());
        left.set(left.get() + 1);
        let world = rt.clone();
        let request = async move {
            let took = asked(&volume, &world, &record).await;
            waits.borrow_mut().add(at, took);
            left.set(left.get() - 1);
        };
        rt.spawn("request", request).detach();
    }

    /// Waits until all requests have their answers.
    pub(crate) async fn ended(&self) {
        while self.left.get() > 0 {
            self.stack.rt().sleep(Nanos::millis(10)).await;
        }
    }

    /// What requests waited that began between two times of the clients.
    pub(crate) fn between(&self, from: Nanos, to: Nanos) -> Waits {
        self.waits.borrow().between(self.begun + from, self.begun + to)
    }
}

/// What all models of the stack have used.
pub(crate) fn usages(stack: &Rc<Stack>) -> Vec<(String, Usage)> {
    stack.stats().into_iter().filter_map(|part| Some((part.name.to_string(), part.usage?))).collect()
}

/// Gives `vol` an order, and answers what it says.
pub(crate) async fn order(stack: &Rc<Stack>, words: &str) -> Result<serde_json::Value, LabError> {
    let words: Vec<String> = words.split(' ').map(String::from).collect();
    let told = stack.order("vol", &words).await.map_err(LabError::data)?;
    serde_json::from_str(&told).map_err(LabError::data)
}

/// The end on which an extent lies.
pub(crate) async fn end_of(stack: &Rc<Stack>, extent: u64) -> Result<usize, LabError> {
    let end = order(stack, &format!("explain {extent}")).await?["end"].as_u64();
    Ok(end.ok_or_else(|| LabError::data("the tier does not say where an extent lies"))? as usize)
}

/// What a tier did, for people.
pub(crate) fn told(stack: &Rc<Stack>) -> String {
    let names = ["relieved", "corrections", "throttling", "plans", "planned", "dropped", "budget", "saturated"];
    names.iter().map(|name| format!(", {name} {}", stat(stack, "vol", name))).collect()
}

/// Waits until no move is left.
pub(crate) async fn all_moved(stack: &Rc<Stack>) {
    while stat(stack, "vol", "queued") + stat(stack, "vol", "moving") > 0.0 {
        stack.rt().sleep(Nanos::millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_percentiles_are_those_of_their_part() {
        let mut waits = Waits::default();
        for second in 1..=100 {
            waits.add(Time(Nanos::secs(second).0), Nanos::millis(second));
        }
        let is = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(waits.len() == 100 && is(waits.mean_ms(), 50.5) && is(waits.percentile_ms(0.95), 95.0));
        let part = waits.between(Time(Nanos::secs(10).0), Time(Nanos::secs(12).0));
        assert!(part.len() == 2 && is(part.mean_ms(), 10.5) && is(part.percentile_ms(1.0), 11.0));
        assert_eq!((Waits::default().mean_ms(), Waits::default().percentile_ms(0.95)), (0.0, 0.0));
    }

    #[test]
    fn a_shrunk_testbed_has_as_many_extents() {
        let of = |shrink| Testbed::shrunk([1, 0, 2], shrink);
        assert_eq!((of(1).extent, of(64).extent), (64 * MIB, MIB));
        let text = of(64).tier(100, "plan=none");
        assert!(text.contains("sata = stripe chunk=1MiB on sata0, sata1;"), "{text}");
        assert!(text.contains("devices=\"ssd(bytes=2812500000) x1; sata(bytes=15625000000) x2\""), "{text}");
        assert!(text.ends_with("extent=1048576 size=104857600 plan=none on ssd, sata"), "{text}");
    }
}
