//! The stacks of proposals: what is screened is played as this, and served as this.

use esker_base::units::{GIB, MIB, size_text};
use esker_dev_sim::nvm_model;
use esker_predict::{Candidate, Volumes};
use esker_stack::{Location, Spec};

use crate::columns::LINES;
use crate::error::AdviseError;
use crate::proposal::{MAP_ROOM, Making, Mode, OfferedDevices, Proposal, Shape};
use crate::queue::CHUNK;

/// Extents that the ends of a tier have beside those of the volume.
const SPARE_EXTENTS: u64 = 4;
/// Seconds between two plans of a tier, and between two looks: the defaults of the layer.
pub(crate) const EPOCH_S: f64 = 1800.0;
pub(crate) const LOOK_S: f64 = 60.0;
/// Seconds without a change before home gets a line of a cache: the default of the layer.
pub(crate) const DIRTY_AGE_S: f64 = 5.0;
/// The part of a fast device that is a cache where the rest of it is an end of a tier.
const CACHE_PART: u64 = 4;
/// The part of a volume that a reorganised disk has as its area beside it: 8 %, as in the thesis on extending storage.
const AREA: f64 = 0.08;
const AREA_MIN: u64 = 64 * MIB;
const AREA_MAX: u64 = 8 * GIB;
/// Seconds between two plans of such a disk at most: the default of the layer. Shorter traces have four plans.
const INTERVAL_S: f64 = 86_400.0;
const PLANS: u64 = 4;
/// The part of an area that takes writes: the default of the layer.
const WRITE_BUFFER: f64 = 0.25;
/// Seconds in which a page loses half of its value: the default of the layer.
const HALF_LIFE_S: f64 = 3600.0;
/// A disk rests after so many seconds at least.
const REST_S: f64 = 10.0;

impl Making<'_> {
    /// Bytes of a fast side that are used: what lies beyond the data is never reached.
    pub fn fast_bytes(&self, fast: &OfferedDevices) -> u64 {
        let room = self.offers[fast.offer].bytes.saturating_mul(u64::from(fast.count)) / MIB * MIB;
        let wanted = (2 * self.footprint + GIB).next_multiple_of(MIB);
        room.min(wanted)
    }

    /// Bytes of the fast side that are a cache where the others are an end of a tier.
    pub(crate) fn copy_bytes(&self, fast: &OfferedDevices) -> u64 {
        self.fast_bytes(fast) / CACHE_PART / MIB * MIB
    }

    /// Bytes of the area of a reorganised disk.
    pub(crate) fn area_bytes(&self) -> u64 {
        ((self.volume as f64 * AREA) as u64).clamp(AREA_MIN, AREA_MAX).next_multiple_of(MIB)
    }

    /// Pages of an area that plans have.
    pub(crate) fn planned_slots(&self) -> u32 {
        let pages = self.area_bytes() / LINES[0];
        u32::try_from(pages - (pages as f64 * WRITE_BUFFER) as u64).expect("an area is small")
    }

    /// Nanoseconds between two plans of a reorganised disk, at the speed of the traces.
    pub(crate) fn interval_ns(&self) -> u64 {
        ((INTERVAL_S * 1e9 / self.speed) as u64).min(self.span_ns / PLANS).max(1)
    }

    /// Nanoseconds after which disks of an offer rest: as soon as resting saves what the spin-up costs.
    pub(crate) fn rest_after_ns(&self, offer: usize) -> f64 {
        let offer = &self.offers[offer];
        let worth = |rest: crate::catalogue::Rest| rest.spin_up_j / (offer.idle_w - rest.watts).max(0.01);
        offer.rest.map_or(f64::INFINITY, |rest| worth(rest).max(REST_S) * 1e9 / self.speed)
    }

    /// The stack that is played, with these volumes.
    ///
    /// # Errors
    /// A text of ours that does not read back.
    pub fn candidate(&self, proposal: &Proposal, volumes: &Volumes) -> Result<Candidate, AdviseError> {
        // A server meets the load at the recorded speed.
        let span_ns = (self.span_ns as f64 * self.speed) as u64;
        let served = Making { speed: 1.0, span_ns, ..*self }.spec(proposal, volumes)?;
        let spec = self.spec(proposal, volumes)?;
        let learns = proposal.shape.learns();
        Ok(Candidate { learns, served: Some(served), ..Candidate::of(&proposal.name, &proposal.what, spec) })
    }

    fn spec(&self, proposal: &Proposal, volumes: &Volumes) -> Result<Spec, AdviseError> {
        let mut text = Text { making: self, lines: Vec::new() };
        let top = text.store(&proposal.shape);
        let mut spec = Spec::parse(&proposal.name, &text.lines.join("\n"))?;
        volumes.put_on(&mut spec, &top, &Location::new(&proposal.name, 0));
        Ok(spec)
    }

    /// A time of a layer at the speed of the traces.
    fn time(&self, seconds: f64) -> String {
        format!("{}ms", (seconds * 1e3 / self.speed).ceil().max(1.0))
    }

    /// A device for the model of tiering.
    fn sheet(&self, ends: &OfferedDevices) -> String {
        let (offer, service) = (&self.offers[ends.offer], &self.services[ends.offer]);
        let sheet = service.sheet(offer);
        let nanos = |seconds: f64| format!("{}ns", (seconds * 1e9).ceil().max(1.0));
        format!(
            "{}(usd={}, bytes={}, idle_w={}, active_w={}, rtime={}, rtime_write={}, xtime={}, iops={:.0}) x{}",
            offer.name,
            offer.usd,
            size_text(offer.bytes),
            offer.idle_w,
            offer.active_w,
            nanos(sheet.rtime_s),
            nanos(sheet.rtime_write_s),
            nanos(sheet.xtime_s_per_mb),
            sheet.iops.max(1.0),
            ends.count
        )
    }
}

/// The lines of a stack.
struct Text<'a> {
    making: &'a Making<'a>,
    lines: Vec<String>,
}

impl Text<'_> {
    fn add(&mut self, name: &str, what: &str) -> String {
        self.lines.push(format!("{name} = {what}"));
        name.to_string()
    }

    /// Adds all of a shape, and answers the name of what holds the volume.
    fn store(&mut self, shape: &Shape) -> String {
        let making = self.making;
        let volume = making.volume.next_multiple_of(MIB);
        match shape {
            Shape::Plain(ends) => self.devices("disk", ends, volume, ""),
            Shape::Cache { home, fast, line, mode } => {
                let home = self.devices("home", home, volume, "");
                let fast = self.devices("fast", fast, making.fast_bytes(fast), "");
                self.cache(*line, *mode, &home, &fast)
            }
            Shape::Tier { home, fast, extent } => {
                let bytes = making.fast_bytes(fast).max(room(*extent));
                let top = self.devices("fast", fast, bytes, "");
                self.tier([fast, home], *extent, &top)
            }
            Shape::Both { home, fast, line, extent } => {
                let copies = making.copy_bytes(fast);
                let busy = (making.fast_bytes(fast) - copies).max(room(*extent));
                let top = self.devices("fast", fast, copies + busy, "");
                let copied = self.add("copies", &format!("offset start=0 size={} on {top}", size_text(copies)));
                let window = format!("offset start={} size={} on {top}", size_text(copies), size_text(busy));
                let busy = self.add("busy", &window);
                let extents = self.tier([fast, home], *extent, &busy);
                self.cache(*line, Mode::WriteBack, &extents, &copied)
            }
            Shape::Resting { home, fast } => self.resting(home, fast, volume),
            Shape::Reorganised(ends) => self.reorganised(ends, volume),
        }
    }

    fn cache(&mut self, line: usize, mode: Mode, home: &str, fast: &str) -> String {
        let (line, age) = (size_text(LINES[line]), self.making.time(DIRTY_AGE_S));
        self.add("store", &format!("cache line={line} mode={} dirty_age={age} on {home}, {fast}", mode.word()))
    }

    /// A tier of the device `fast`, which is there already, and of slow ones.
    fn tier(&mut self, ends: [&OfferedDevices; 2], extent: u64, fast: &str) -> String {
        let making = self.making;
        let sheets = ends.map(|ends| making.sheet(ends)).join("; ");
        // The volume has whole extents.
        let size = making.volume.next_multiple_of(MIB).next_multiple_of(extent);
        let home = self.devices("home", ends[1], size + room(extent), "");
        let what = format!(
            "tier devices=\"{sheets}\" extent={} size={} epoch={} look={} on {fast}, {home}",
            size_text(extent),
            size_text(size),
            making.time(EPOCH_S),
            making.time(LOOK_S)
        );
        self.add("extents", &what)
    }

    fn resting(&mut self, home: &OfferedDevices, fast: &OfferedDevices, volume: u64) -> String {
        let making = self.making;
        let offer = &making.offers[home.offer];
        let after = format!("{}ms", (making.rest_after_ns(home.offer) / 1e6).ceil());
        let top = self.devices("home", home, volume, &format!(" standby_after={after}"));
        let fast = self.devices("fast", fast, making.fast_bytes(fast), "");
        // The layer takes no half-life below a second.
        let half_life = making.time(HALF_LIFE_S.max(making.speed));
        let spin_up_j = offer.rest.map_or(0.0, |rest| rest.spin_up_j);
        let watts = format!("idle_w={} spin_up_j={spin_up_j}", offer.idle_w);
        self.add("store", &format!("spindown idle_after={after} half_life={half_life} {watts} on {top}, {fast}"))
    }

    fn reorganised(&mut self, ends: &OfferedDevices, volume: u64) -> String {
        let making = self.making;
        let (front, area) = (volume / 2 / MIB * MIB, making.area_bytes());
        let top = self.devices("disk", ends, volume + area, "");
        let mut start = 0;
        for (name, bytes) in [("front", front), ("area", area), ("back", volume - front)] {
            if bytes > 0 {
                self.add(name, &format!("offset start={} size={} on {top}", size_text(start), size_text(bytes)));
            }
            start += bytes;
        }
        let home = if front == 0 { "back".to_string() } else { self.add("home", "concat on front, back") };
        let interval = making.time(making.interval_ns() as f64 / 1e9 * making.speed);
        self.add("store", &format!("reorg interval={interval} on {home}, area"))
    }

    /// Adds devices, and a stripe if they are several. Answers the name of what holds `bytes`.
    fn devices(&mut self, name: &str, ends: &OfferedDevices, bytes: u64, more: &str) -> String {
        let (offer, count) = (&self.making.offers[ends.offer], u64::from(ends.count));
        let each = size_text(bytes.div_ceil(count).next_multiple_of(MIB));
        let price = if offer.is_list_price() { String::new() } else { format!(" price_usd={}", offer.usd) };
        // Volumes have blocks of 512 bytes, and those of a memory are smaller.
        let block = if offer.kind == nvm_model::KIND.name { " block=512" } else { "" };
        let model = format!("{} profile={} size={each}{block}{price}{more}", offer.kind, offer.profile);
        let names: Vec<String> = (0..count).map(|at| self.add(&format!("{name}{at}"), &model)).collect();
        match names.as_slice() {
            [one] => one.clone(),
            _ => self.add(name, &format!("stripe chunk={} on {}", size_text(CHUNK), names.join(", "))),
        }
    }
}

/// Bytes that an end of a tier needs beside the extents of the volume.
fn room(extent: u64) -> u64 {
    MAP_ROOM + SPARE_EXTENTS * extent
}
