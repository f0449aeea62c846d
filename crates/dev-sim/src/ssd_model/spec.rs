//! What a solid-state drive is made of. The numbers of real drives, each with its source, are in the catalogue.

use esker_base::Nanos;
use esker_block::KindError;

use super::ftl::Geometry;
use crate::catalogue::{self, Numbers};
use crate::meter::{Bill, not_negative};

/// Bytes of a unit of the map.
pub const UNIT: u64 = 4096;

/// The numbers of a drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SsdSpec {
    /// Bytes that the host sees.
    pub capacity: u64,
    /// Flash beyond the capacity, as a share of it.
    pub spare: f64,
    /// Channels between the controller and flash.
    pub channels: u32,
    /// Dies (or planes that work alone) on each channel.
    pub dies: u32,
    /// Bytes that one die programs at once: its page, on all planes.
    pub page: u64,
    /// Bytes that one die erases at once.
    pub erase_block: u64,
    /// Time to sense a page.
    pub read: Nanos,
    /// Time to program a page.
    pub program: Nanos,
    /// Time to erase a block.
    pub erase: Nanos,
    /// Longest time that a read waits for a program or an erasure, which is suspended for it.
    pub suspend: Nanos,
    /// Time of a flush after the last program.
    pub flush: Nanos,
    /// Bytes per second of a channel.
    pub unit_rate: u64,
    /// Bytes per second of the host interface.
    pub host_rate: u64,
    /// Controller time of a command, as it adds to its latency.
    pub overhead: Nanos,
    /// Part of the overhead in which the controller works on no other command.
    pub serial: Nanos,
    /// Bytes of the write buffer.
    pub buffer: u64,
    /// Watts of a die that senses, programs or erases, beside the active power.
    pub die_w: f64,
    /// Power and price.
    pub bill: Bill,
}

/// Bound on channels and dies, which are walked by index.
const DIES_MAX: u64 = 1 << 16;

impl SsdSpec {
    /// A drive of the catalogue.
    pub fn profile(name: &str) -> Option<SsdSpec> {
        let entry = catalogue::find(super::KIND.name, name).ok()?;
        SsdSpec::of(&Numbers::of_entry(&super::KIND, &entry).ok()?).ok()
    }

    /// The drive that the numbers make.
    ///
    /// # Errors
    /// A number that is unknown.
    pub fn of(numbers: &Numbers) -> Result<SsdSpec, KindError> {
        Ok(SsdSpec {
            capacity: numbers.int("capacity")?,
            spare: not_negative("spare", numbers.float("spare")?)?,
            channels: numbers.count("channels")?,
            dies: numbers.count("dies")?,
            page: numbers.int("page")?,
            erase_block: numbers.int("erase_block")?,
            read: numbers.span("read")?,
            program: numbers.span("program")?,
            erase: numbers.span("erase")?,
            suspend: numbers.span("suspend")?,
            flush: numbers.span("flush")?,
            unit_rate: numbers.int("unit_rate")?,
            host_rate: numbers.int("host_rate")?,
            overhead: numbers.span("overhead")?,
            serial: numbers.span("serial")?,
            buffer: numbers.int("buffer")?,
            die_w: not_negative("die_w", numbers.float("die_w")?)?,
            bill: Bill::of(numbers)?,
        })
    }

    /// How its units lie on flash.
    ///
    /// # Errors
    /// Numbers out of their range or that do not fit together, by name.
    pub fn geometry(&self) -> Result<Geometry, KindError> {
        let unfit = |text: String| Err(KindError::Unfit(format!("ssd-model: {text}")));
        let (channels, all) = (u64::from(self.channels), u64::from(self.channels) * u64::from(self.dies));
        if !(1..=DIES_MAX).contains(&channels) || !(1..=DIES_MAX).contains(&all) {
            return unfit(format!("channels = {channels}, dies = {}; choose 1 to {DIES_MAX} dies in all", self.dies));
        }
        if !self.page.is_power_of_two() || !(UNIT..=1 << 30).contains(&self.page) {
            return unfit(format!("page = {} bytes; choose a power of two from {UNIT} to 1GiB", self.page));
        }
        if self.erase_block == 0 || !self.erase_block.is_multiple_of(self.page) {
            return unfit(format!(
                "erase_block = {} bytes must be a multiple of page = {}",
                self.erase_block, self.page
            ));
        }
        if self.buffer < 2 * self.page {
            return unfit(format!("buffer = {} bytes; the write buffer needs two pages of {}", self.buffer, self.page));
        }
        let rates = [("capacity", self.capacity), ("unit_rate", self.unit_rate), ("host_rate", self.host_rate)];
        if let Some((name, _)) = rates.iter().find(|(_, value)| *value == 0) {
            return unfit(format!("{name} must be above 0"));
        }
        let block = self.erase_block.saturating_mul(all);
        let flash = self.capacity as f64 * (1.0 + self.spare);
        let geometry = Geometry {
            units: u32::try_from(self.capacity.div_ceil(UNIT)).unwrap_or(u32::MAX),
            blocks: (flash / block as f64) as u32,
            pages: u32::try_from(block / self.page).unwrap_or(u32::MAX),
            page_units: (self.page / UNIT) as u32,
            dies: all as u32,
        };
        match geometry.fault() {
            None => Ok(geometry),
            Some(fault) => unfit(format!(
                "{fault}; a block is erase_block = {} bytes on each of {all} dies: choose fewer dies, a smaller \
                 erase_block, or more spare than {}",
                self.erase_block, self.spare
            )),
        }
    }
}
