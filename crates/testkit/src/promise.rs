//! What a client was promised about one power cut, and whether a device keeps to it.

use std::collections::BTreeMap;

use esker_base::ByteRange;

use crate::log::{Candidates, Log, Moving, Value};

/// A unit that holds what it must not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("crash before event {point}: byte {at} reads as {got:#04x}; allowed are {allowed}")]
pub struct Lost {
    /// How many events of the recorded device had happened.
    pub point: u64,
    /// First wrong byte.
    pub at: u64,
    /// What is there.
    pub got: u8,
    /// The first bytes of what could be there.
    pub allowed: String,
}

/// What each unit may hold after a crash before event `point` of the devices at the end of the stack.
pub struct Promise<'a> {
    point: u64,
    log: &'a Log,
    allowed: BTreeMap<u64, Candidates>,
    moving: Vec<Moving>,
}

/// Gives the bytes of a range.
pub type Content<'a> = &'a dyn Fn(ByteRange) -> Vec<u8>;

impl<'a> Promise<'a> {
    /// What the client whose requests are in `log` was promised when event `point` was next.
    pub fn of(log: &'a Log, point: u64) -> Promise<'a> {
        // What was answered above without a further event below happened before the crash.
        Promise { point, log, allowed: log.candidates(point + 1), moving: log.moving(point + 1) }
    }

    /// The crash point.
    pub fn point(&self) -> u64 {
        self.point
    }

    /// Checks all units of `range`: `before` is what was there before the log began, `after` what is there now.
    ///
    /// # Errors
    /// The first unit that holds what it must not.
    pub fn judge(&self, range: ByteRange, before: Content<'_>, after: Content<'_>) -> Result<(), Lost> {
        for unit in self.log.units(range) {
            let at = self.log.range_of(unit);
            let got = after(at);
            let allowed = self.allowed.get(&unit).map_or(&[None][..], |values| values);
            if !fits(allowed, at, &got, before) {
                return Err(self.lost(at, &got, allowed));
            }
        }
        let here = self.moving.iter().filter(|moving| self.log.units(range).contains(&moving.from));
        here.into_iter().try_for_each(|moving| self.judge_move(moving, before, after))
    }

    /// An erased source is lost unless its copy is there.
    fn judge_move(&self, moving: &Moving, before: Content<'_>, after: Content<'_>) -> Result<(), Lost> {
        let [from, to] = [moving.from, moving.to].map(|unit| self.log.range_of(unit));
        let (source, copy) = (after(from), after(to));
        if fits(&moving.copied, to, &copy, before) || fits(&moving.unerased, from, &source, before) {
            return Ok(());
        }
        Err(self.lost(from, &source, &moving.unerased))
    }

    fn lost(&self, range: ByteRange, got: &[u8], allowed: &[Option<Value>]) -> Lost {
        let newest = allowed.iter().rev().find_map(|v| if let Some(Value::Bytes(b)) = v { Some(b) } else { None });
        let off = newest.and_then(|b| b.iter().zip(got).position(|(a, b)| a != b)).unwrap_or(0);
        let texts = allowed.iter().map(|value| match value {
            Some(Value::Bytes(bytes)) => format!("{:#04x}", bytes[off]),
            Some(Value::Anything) => "anything".to_string(),
            None => "the byte before".to_string(),
        });
        let allowed = texts.collect::<Vec<_>>().join(", ");
        Lost { point: self.point, at: range.start() + off as u64, got: got[off], allowed }
    }
}

fn fits(allowed: &[Option<Value>], range: ByteRange, got: &[u8], before: Content<'_>) -> bool {
    allowed.iter().any(|value| match value {
        Some(Value::Bytes(bytes)) => **bytes == *got,
        Some(Value::Anything) => true,
        None => before(range) == got,
    })
}
