//! A device: the end of a stack (a leaf) and its facade (what a front end holds).

use esker_base::Nanos;

use crate::bio::{Bio, BioError, Done, OpKind};
use crate::latch::Trouble;
use crate::limits::{Limits, Support};
use crate::step::Step;

/// A number that a device or layer tells about itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Stat {
    /// Name, `snake_case`, with the unit last.
    pub name: &'static str,
    /// Value.
    pub value: f64,
}

/// What pages say of a statistic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatInfo {
    /// Its name, as in [`Stat`].
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

impl StatInfo {
    /// That of everything that latches.
    pub const LATCHED: StatInfo =
        StatInfo::of("latched", "1 after a failed write or flush: changes are refused until the next start; else 0.");

    /// A statistic.
    pub const fn of(name: &'static str, doc: &'static str) -> StatInfo {
        StatInfo { name, doc }
    }
}

/// What a modelled device has used so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    /// Energy in joules since the world began.
    pub energy_j: f64,
    /// Time in which the device worked on at least one request.
    pub busy: Nanos,
    /// What the device costs to buy, in US dollars.
    pub price_usd: f64,
    /// Bytes written to the medium.
    pub written: u64,
    /// Bytes read from the medium.
    pub read: u64,
}

impl Usage {
    /// What was used since `before`, at the same price.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            energy_j: self.energy_j - before.energy_j,
            busy: self.busy.saturating_sub(before.busy),
            price_usd: self.price_usd,
            written: self.written - before.written,
            read: self.read - before.read,
        }
    }
}

/// The answer of what cannot be resized.
pub const KEEPS_SIZE: &str = "its size is fixed; `thin`, and a `file` whose text gives no size, can be resized";

/// Where the medium of a device comes from.
pub trait Origin {
    /// Whether building the device made the medium, which may not take the place of one that was lost.
    fn is_made(&self) -> bool;

    /// Whether anything but zeroes was found on the medium. What cannot be read counts as data.
    fn holds_data(&self) -> bool;
}

/// Something that answers requests.
///
/// Every request is answered once, with its buffer. No order holds between requests in flight: two writes to one block
/// that overlap in time leave either. The caller keeps to `limits`; the loop of the stack checks that it does.
pub trait Device {
    /// What requests must keep to, as it was built; a size that changes is [`Device::size`]'s.
    fn limits(&self) -> &Limits;

    /// Bytes that it has now: those of its limits, unless it was resized.
    fn size(&self) -> u64 {
        self.limits().size
    }

    /// Whether it refuses every change now.
    fn is_read_only(&self) -> bool {
        self.limits().support(OpKind::Write) == Support::No
    }

    /// Whether [`Device::resize`] may succeed.
    fn can_resize(&self) -> bool {
        false
    }

    /// Changes its size; what it gains reads as zeroes, what it loses is gone. A caller that cuts lets nothing be in
    /// flight behind the new end.
    ///
    /// # Errors
    /// [`BioError::Invalid`] for a size that it cannot have, and what the medium answers; the size is then as before.
    fn resize(&self, _bytes: u64) -> Step<Result<(), BioError>> {
        Step::Now(Err(BioError::invalid(KEEPS_SIZE)))
    }

    /// Starts one request.
    fn submit(&self, bio: Bio) -> Step<Done>;

    /// Requests that the device works on at once; more wait in the stack's leaf queue.
    fn depth(&self) -> u32 {
        256
    }

    /// What it tells about itself.
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }

    /// Where its medium comes from, if it has one outside the program.
    fn origin(&self) -> Option<&dyn Origin> {
        None
    }

    /// What an operator must know about it now: that it is latched, or does without something below.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// What it has used, if it is a model.
    fn usage(&self) -> Option<Usage> {
        None
    }
}
