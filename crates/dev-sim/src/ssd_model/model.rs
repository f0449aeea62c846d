//! The drive as a function from (state, access, instant) to a plan. It knows when everything ends as soon as it is asked,
//! because each unit and the host interface serve in the order of arrival.

use std::collections::VecDeque;

use esker_base::{ByteRange, Nanos, Time};
use esker_block::KindError;

use super::spec::SsdSpec;

/// A drive without state.
#[derive(Clone, Debug)]
pub struct SsdModel {
    spec: SsdSpec,
}

/// When its parts are free.
#[derive(Clone, Debug)]
pub struct SsdState {
    units: Vec<Time>,
    link: Time,
    /// Buffered writes, by the end of their programs, in the order of arrival.
    buffered: VecDeque<(Time, u64)>,
    buffered_bytes: u64,
    /// End of the last program.
    programmed: Time,
}

/// How one access is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// When it is answered.
    pub finish: Time,
    /// When its data is on the medium; for reads the same.
    pub stable: Time,
    /// Whether it waited for room in the write buffer.
    pub stalled: bool,
}

/// How a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When it is in the write buffer.
    Buffered,
    /// When it is on the medium.
    Stable,
}

/// Bound on the number of units, which are walked by index.
const CHANNELS_MAX: u32 = 1 << 16;

impl SsdModel {
    /// The model of a drive.
    ///
    /// # Errors
    /// Numbers out of their range, by name.
    pub fn new(spec: SsdSpec) -> Result<SsdModel, KindError> {
        let unfit = |text: String| Err(KindError::Unfit(format!("ssd-model: {text}")));
        if !(1..=CHANNELS_MAX).contains(&spec.channels) {
            return unfit(format!("channels = {}; choose 1 to {CHANNELS_MAX}", spec.channels));
        }
        if !spec.page.is_power_of_two() || spec.page < 512 {
            return unfit(format!("page = {} bytes; choose a power of two from 512 on", spec.page));
        }
        let rates = [("capacity", spec.capacity), ("unit_rate", spec.unit_rate), ("host_rate", spec.host_rate)];
        match rates.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => unfit(format!("{name} must be above 0")),
            None => Ok(SsdModel { spec }),
        }
    }

    /// Its numbers.
    pub fn spec(&self) -> &SsdSpec {
        &self.spec
    }

    /// A drive at rest.
    pub fn at_rest(&self) -> SsdState {
        SsdState {
            units: vec![Time::ZERO; self.spec.channels as usize],
            link: Time::ZERO,
            buffered: VecDeque::new(),
            buffered_bytes: 0,
            programmed: Time::ZERO,
        }
    }

    fn host(&self, bytes: u64) -> Nanos {
        Nanos::transfer(bytes, self.spec.host_rate)
    }

    /// Takes the host interface for `bytes`, in the order of arrival, and returns until when. Reads hold it from their
    /// arrival, not from their data's: only so can a later read on an idle unit overtake, and the sum of all transfers
    /// still never exceeds the rate.
    fn take_link(&self, state: &mut SsdState, start: Time, bytes: u64) -> Time {
        state.link = state.link.max(start) + self.host(bytes);
        state.link
    }

    /// Reads `range` from `now` on.
    pub fn read(&self, state: &mut SsdState, range: ByteRange, now: Time) -> Plan {
        let start = now + self.spec.overhead;
        let link = self.take_link(state, start, range.len());
        let (mut first, mut last, mut tail) = (Time(u64::MAX), start, 0);
        for page in range.split_at_multiples(self.spec.page) {
            let unit = self.unit(state, page);
            *unit = start.max(*unit) + self.spec.read + Nanos::transfer(page.len(), self.spec.unit_rate);
            (first, last, tail) = (first.min(*unit), last.max(*unit), page.len());
        }
        let streamed = if first < last { first + self.host(range.len()) } else { last };
        let finish = (last + self.host(tail)).max(streamed).max(link);
        Plan { finish, stable: finish, stalled: false }
    }

    /// Writes `range` from `now` on.
    pub fn write(&self, state: &mut SsdState, range: ByteRange, ack: Ack, now: Time) -> Plan {
        let start = now + self.spec.overhead;
        let arrived = self.take_link(state, start, range.len());
        let ack = if range.len() > self.spec.buffer { Ack::Stable } else { ack };
        let accepted = if ack == Ack::Buffered { self.make_room(state, range.len(), arrived, now) } else { arrived };
        let mut stable = accepted;
        for page in range.split_at_multiples(self.spec.page) {
            // The buffer packs small writes into whole pages; a write that must be stable at once has one to itself.
            let program = match ack {
                Ack::Buffered => Nanos((self.spec.program.0 * page.len()).div_ceil(self.spec.page)),
                Ack::Stable => self.spec.program,
            };
            let unit = self.unit(state, page);
            *unit = accepted.max(*unit) + Nanos::transfer(page.len(), self.spec.unit_rate) + program;
            stable = stable.max(*unit);
        }
        state.programmed = state.programmed.max(stable);
        let finish = match ack {
            Ack::Buffered => {
                state.buffered.push_back((stable, range.len()));
                state.buffered_bytes += range.len();
                accepted
            }
            Ack::Stable => stable,
        };
        Plan { finish, stable, stalled: accepted > arrived }
    }

    /// Frees buffered bytes that are programmed, and waits for older ones until `bytes` fit.
    fn make_room(&self, state: &mut SsdState, bytes: u64, arrived: Time, now: Time) -> Time {
        let mut accepted = arrived;
        while let Some((stable, held)) = state.buffered.front().copied() {
            if stable > now && state.buffered_bytes + bytes <= self.spec.buffer {
                break;
            }
            accepted = accepted.max(if stable > now { stable } else { now });
            state.buffered.pop_front();
            state.buffered_bytes -= held;
        }
        accepted
    }

    /// Makes all that was written stable.
    pub fn flush(&self, state: &SsdState, now: Time) -> Time {
        state.programmed.max(now + self.spec.overhead) + self.spec.flush
    }

    /// A command that moves no data, such as zeroing or discarding by the map.
    pub fn command(&self, now: Time) -> Time {
        now + self.spec.overhead
    }

    fn unit<'a>(&self, state: &'a mut SsdState, page: ByteRange) -> &'a mut Time {
        let at = (page.start() / self.spec.page) % u64::from(self.spec.channels);
        &mut state.units[at as usize]
    }
}

impl SsdState {
    /// Bytes in the write buffer, counting those that were programmed since the last write came.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes
    }
}
