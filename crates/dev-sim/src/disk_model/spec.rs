//! A disk by the numbers of its data sheet, as parameters and the catalogue give them.

use esker_base::Nanos;
use esker_base::units::SECTOR;
use esker_block::KindError;

use super::geometry::{Backwards, Geometry, Layout};
use super::parts::{BufferSpec, DiskParts, Interface, ReadsOn};
use super::seek::SeekCurve;
use super::zone::{Sparing, ZoneSpec};
use crate::catalogue::{self, Numbers};
use crate::meter::{Bill, Rest};

/// The numbers of a data sheet, and those that sheets leave out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DiskSpec {
    /// Bytes of the whole medium.
    pub capacity: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Tracks per cylinder.
    pub heads: u32,
    /// Seek over one cylinder, for reads.
    pub seek_single: Nanos,
    /// Average seek, for reads.
    pub seek_average: Nanos,
    /// Seek over all cylinders, for reads.
    pub seek_full: Nanos,
    /// Time to change heads.
    pub head_switch: Nanos,
    /// What a seek takes longer before a write.
    pub write_settle: Nanos,
    /// Sustained bytes per second at the outer edge.
    pub rate_outer: u64,
    /// Sustained bytes per second at the inner edge.
    pub rate_inner: u64,
    /// Bytes per second of the host interface.
    pub host_rate: u64,
    /// Controller time per command.
    pub overhead: Nanos,
    /// Bytes of the write cache.
    pub buffer: u64,
    /// Runs of bytes that the read buffer can hold.
    pub segments: u32,
    /// Bytes that the disk reads on after a read.
    pub read_ahead: u64,
    /// Power and price.
    pub bill: Bill,
    /// Standby.
    pub rest: Option<Rest>,
}

/// Zones of a disk of which only the outer and the inner rate are known: as many as the disks measured with DIXtrac
/// had.
const ZONES: u32 = 24;

/// Skews leave this much more than a switch takes, so that rounding never costs a turn.
const MARGIN: Nanos = Nanos::micros(10);

impl DiskSpec {
    /// A disk of the catalogue.
    pub fn profile(name: &str) -> Option<DiskSpec> {
        let entry = catalogue::find(super::KIND.name, name).ok()?;
        DiskSpec::of(&Numbers::of_entry(&super::KIND, &entry).ok()?).ok()
    }

    /// The disk that these numbers describe.
    ///
    /// # Errors
    /// A number that is unknown.
    pub fn of(numbers: &Numbers) -> Result<DiskSpec, KindError> {
        let seek_single = numbers.span("seek_single")?;
        Ok(DiskSpec {
            capacity: numbers.int("capacity")?,
            rpm: numbers.count("rpm")?,
            heads: numbers.count("heads")?,
            seek_single,
            seek_average: numbers.span("seek_average")?,
            seek_full: numbers.span("seek_full")?,
            head_switch: numbers.int_opt("head_switch").map_or(seek_single, Nanos),
            write_settle: numbers.span("write_settle")?,
            rate_outer: numbers.int("rate_outer")?,
            rate_inner: numbers.int("rate_inner")?,
            host_rate: numbers.int("host_rate")?,
            overhead: numbers.span("overhead")?,
            buffer: numbers.int("buffer")?,
            segments: numbers.count("segments")?,
            read_ahead: numbers.int("read_ahead")?,
            bill: Bill::of(numbers)?,
            rest: super::rest(numbers)?,
        })
    }

    /// What the disk is made of: its zones are drawn so that sequential transfers have the sheet's sustained rates,
    /// which contain head switches.
    ///
    /// # Errors
    /// Numbers that are zero, or do not fit together, by name.
    pub fn parts(&self) -> Result<DiskParts, KindError> {
        self.check()?;
        let layout = self.layout()?;
        let step = self.seek_single.max(self.head_switch) + self.write_settle;
        let geometry = Geometry::new(&layout, self.rpm, self.head_switch + self.write_settle, step);
        let (single, average, full) = (self.seek_single, self.seek_average, self.seek_full);
        let seek = SeekCurve::three_points(single, average, full, geometry.cylinders())
            .map_err(|error| unfit(&error.to_string()))?;
        Ok(DiskParts {
            capacity: self.capacity,
            geometry,
            seek,
            head_switch: self.head_switch,
            write_settle: self.write_settle,
            interface: Interface::plain(self.host_rate, self.overhead),
            buffer: BufferSpec {
                segments: self.segments as usize,
                write_segments: 1,
                segment: self.read_ahead.saturating_mul(2).max(SECTOR),
                reads_on: ReadsOn::Window,
                read_ahead: self.read_ahead,
                replaces: true,
                read_on_hit: true,
                read_free: false,
                any_order: false,
                write: self.buffer,
            },
            bill: self.bill,
            rest: self.rest,
        })
    }

    fn check(&self) -> Result<(), KindError> {
        let positive = [
            ("capacity", self.capacity),
            ("rpm", u64::from(self.rpm)),
            ("heads", u64::from(self.heads)),
            ("rate_inner", self.rate_inner),
            ("host_rate", self.host_rate),
            ("segments", u64::from(self.segments)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(unfit(&format!("{name} must be above 0")));
        }
        if self.rate_inner > self.rate_outer {
            return Err(unfit("rate_inner must not be above rate_outer; swap them"));
        }
        if self.rpm > 100_000 {
            return Err(unfit(&format!("rpm = {} is above 100000; give revolutions per minute", self.rpm)));
        }
        if self.heads > 1000 || self.segments > 4096 {
            return Err(unfit("more than 1000 heads or 4096 segments; give what one disk has"));
        }
        Ok(())
    }

    fn layout(&self) -> Result<Layout, KindError> {
        let heads = f64::from(self.heads);
        let turn = 60.0 / f64::from(self.rpm);
        let track_skew = (self.head_switch + self.write_settle + MARGIN).as_secs_f64() / turn;
        let step = self.seek_single.max(self.head_switch) + self.write_settle + MARGIN;
        let cylinder_skew = step.as_secs_f64() / turn;
        // Turns in which a head passes a cylinder and goes on to the next.
        let turns = heads + (heads - 1.0) * track_skew + cylinder_skew;
        let sectors = |rate: f64| rate * turn * turns / heads / SECTOR as f64;
        let (outer, inner) = (self.rate_outer as f64, self.rate_inner as f64);
        let mean = sectors((outer + inner) / 2.0);
        let tracks = self.capacity as f64 / SECTOR as f64 / mean;
        // One cylinder more makes up for tracks rounded down.
        let cylinders = (tracks / heads / f64::from(ZONES) * (1.0 + 1.0 / mean)).ceil().max(1.0);
        if cylinders * f64::from(ZONES) > f64::from(u32::MAX) || sectors(inner) < 1.0 || sectors(outer) > 1e9 {
            return Err(unfit("rates, rpm, heads and capacity give no possible tracks; check their units"));
        }
        let zone = |at: u32| {
            let rate = outer - (outer - inner) * f64::from(at) / f64::from(ZONES - 1);
            let sectors = sectors(rate).round().max(1.0);
            ZoneSpec {
                first: at * cylinders as u32,
                last: (at + 1) * cylinders as u32 - 1,
                sectors: sectors as u32,
                track_skew: track_skew * sectors,
                cylinder_skew: cylinder_skew * sectors,
                ..ZoneSpec::default()
            }
        };
        let zones = (0..ZONES).map(zone).collect();
        Ok(Layout { heads: self.heads, zones, sparing: Sparing::Zone(false), backwards: Backwards::Never })
    }
}

fn unfit(text: &str) -> KindError {
    KindError::Unfit(format!("disk-model: {text}"))
}
