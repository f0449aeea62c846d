//! What a planner sees of a volume, and what it answers.

use crate::demand::Demand;
use crate::sheet::Sheet;

/// The place of an extent that has none yet.
pub const NOWHERE: u32 = u32::MAX;

/// An extent in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsedExtent {
    /// Its number in its volume.
    pub id: u32,
    /// The array on which it lies, or [`NOWHERE`].
    pub at: u32,
    /// What it asks.
    pub demand: Demand,
    /// It stays where it is in this epoch, for a corrector has just moved it.
    pub is_held: bool,
}

/// Devices of one type that share their load: a striped array, or one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// Its type, an index of [`Epoch::sheets`].
    pub tier: usize,
    /// Devices in it.
    pub devices: u32,
    /// Extents for which it has room. 0: it is to be emptied.
    pub extents_max: u32,
    /// Idle extents that lie on it: those that [`Epoch::extents`] does not list.
    pub idle: u32,
    /// Whether its devices are awake.
    pub is_powered: bool,
}

/// What is known at the end of an epoch. Idle extents are counts of arrays, so planning costs what is in use.
#[derive(Debug, Clone, Copy)]
pub struct Epoch<'a> {
    /// Types of devices.
    pub sheets: &'a [Sheet],
    /// Arrays, by number.
    pub arrays: &'a [Array],
    /// Extents in use, each once.
    pub extents: &'a [UsedExtent],
    /// Size of an extent, bytes.
    pub extent_bytes: f64,
    /// Idle extents that have no place yet.
    pub idle_nowhere: u32,
    /// Share of its time up to which a device is filled. The source has 1.
    pub fill: f64,
    /// Whether extents of a tier lie on as few arrays as cost nothing, so that the others may rest. Otherwise they lie
    /// on all.
    pub consolidates: bool,
}

/// The share of its time to which a running tier fills a device: the rest is for bursts and for moves.
pub const FILL: f64 = 0.7;

/// Why an epoch cannot be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EpochError {
    /// A device of this type has no room, no speed, or a negative number.
    #[error("sheet {0} has a number that is not positive, so no share of such a device can be computed; correct it")]
    Sheet(String),
    /// An array has a type without a sheet.
    #[error("array {array} is of type {tier}, but there are {sheets} sheets; give each type of device a sheet")]
    NoSheet {
        /// Array.
        array: usize,
        /// Its type.
        tier: usize,
        /// Sheets.
        sheets: usize,
    },
    /// An array has no device.
    #[error("array {0} has no device; leave it out, or give it no room")]
    NoDevice(usize),
    /// An extent is larger than a device.
    #[error("an extent of {extent} bytes is larger than one device of type {sheet}; choose smaller extents")]
    Large {
        /// Bytes of an extent.
        extent: f64,
        /// Name of the sheet.
        sheet: String,
    },
    /// An extent lies on an array that is not there.
    #[error("extent {extent} lies on array {array}, but there are {arrays} arrays")]
    NoArray {
        /// Extent.
        extent: u32,
        /// Its array.
        array: u32,
        /// Arrays.
        arrays: usize,
    },
    /// Devices are filled to a share that is not above 0.
    #[error("devices are filled to {0} of their time; choose a share above 0, at most 1")]
    Fill(f64),
}

impl Epoch<'_> {
    /// Whether planners can plan it.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn check(&self) -> Result<(), EpochError> {
        for sheet in self.sheets {
            if !sheet.is_sound() {
                return Err(EpochError::Sheet(sheet.name.clone()));
            }
            if self.extent_bytes > sheet.bytes {
                return Err(EpochError::Large { extent: self.extent_bytes, sheet: sheet.name.clone() });
            }
        }
        for (number, array) in self.arrays.iter().enumerate() {
            if array.tier >= self.sheets.len() {
                return Err(EpochError::NoSheet { array: number, tier: array.tier, sheets: self.sheets.len() });
            }
            if array.devices == 0 {
                return Err(EpochError::NoDevice(number));
            }
        }
        let arrays = self.arrays.len();
        let is_lost = |extent: &&UsedExtent| extent.at != NOWHERE && extent.at as usize >= arrays;
        if let Some(extent) = self.extents.iter().find(is_lost) {
            return Err(EpochError::NoArray { extent: extent.id, array: extent.at, arrays });
        }
        if !(self.fill > 0.0 && self.fill <= 1.0) {
            return Err(EpochError::Fill(self.fill));
        }
        Ok(())
    }

    /// Idle extents in all.
    pub fn idle(&self) -> u64 {
        u64::from(self.idle_nowhere) + self.arrays.iter().map(|array| u64::from(array.idle)).sum::<u64>()
    }

    /// Devices of the largest array of each type.
    pub fn devices_max(&self) -> Vec<u32> {
        let mut most = vec![0; self.sheets.len()];
        for array in self.arrays.iter().filter(|array| array.extents_max > 0) {
            most[array.tier] = most[array.tier].max(array.devices);
        }
        most
    }
}

/// One extent goes to another array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// Extent.
    pub extent: u32,
    /// Where it lies, or [`NOWHERE`].
    pub from: u32,
    /// Where it goes.
    pub to: u32,
    /// By how much the burden falls, in units of the planner's objective. Negative: it makes room.
    pub gain: f64,
}

/// Idle extents go to another array; which ones is the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleMove {
    /// Where they lie, or [`NOWHERE`].
    pub from: u32,
    /// Where they go.
    pub to: u32,
    /// How many.
    pub extents: u32,
}

/// Why an extent is not served as it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// No array is fast enough for it alone. Stripe it over so many devices of its array's type.
    Stripe {
        /// Devices.
        devices: u32,
    },
    /// Arrays that could serve it have no time left.
    Performance,
    /// No array has room for it: it stays where it is.
    Room,
}

/// An extent that lies somewhere, but is not served as it asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overload {
    /// Extent.
    pub extent: u32,
    /// Where it lies in the plan, or [`NOWHERE`].
    pub array: u32,
    /// Why.
    pub lack: Lack,
}

/// What a plan puts on an array.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Devices' worth of time.
    pub performance: f64,
    /// Extents in use.
    pub extents: u32,
    /// Idle extents.
    pub idle: u32,
}

impl Load {
    /// Whether the array is used at all. One that is not may rest.
    pub fn is_used(&self) -> bool {
        self.extents > 0 || self.idle > 0
    }
}

/// Where each extent is to lie. It has every extent of its epoch: what fits nowhere stays, and is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Placement {
    /// The array of each extent of the epoch, in the epoch's order.
    pub at: Vec<u32>,
    /// Extents that go, those first that gain most.
    pub moves: Vec<Move>,
    /// Idle extents that go.
    pub idle_moves: Vec<IdleMove>,
    /// Extents that are not served as they ask.
    pub overloads: Vec<Overload>,
    /// Idle extents for which no array has room.
    pub idle_overload: u32,
    /// What each array then has.
    pub loads: Vec<Load>,
}

impl Placement {
    /// Extents that go, the idle ones among them.
    pub fn moved(&self) -> u64 {
        self.moves.len() as u64 + self.idle_moves.iter().map(|idle| u64::from(idle.extents)).sum::<u64>()
    }

    /// Arrays without an extent.
    pub fn unused(&self) -> Vec<u32> {
        let is_unused = |number: &u32| !self.loads[*number as usize].is_used();
        (0..self.loads.len() as u32).filter(is_unused).collect()
    }
}
