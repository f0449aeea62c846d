//! Faults as values with a text form, so that a failing run can be written down and repeated.
//!
//! A plan is a list: `error write 3; latent 4096+512; corrupt 8192+4096; slow 2ms; gone 10`.

use std::fmt;
use std::str::FromStr;

use esker_base::units::{parse_size, parse_span, span_text};
use esker_base::{ByteRange, Nanos};
use esker_block::OpKind;

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The n-th request (from 1) of this kind, or of any, fails and does nothing. `error write 3`, `error any 3`
    Error(Option<OpKind>, u64),
    /// The same for want of space. `full 3` is about the third write.
    Full(u64),
    /// Reads that touch the range fail until it is written. `latent 4096+512`
    Latent(ByteRange),
    /// Reads bring wrong bytes from the range until it is written. `corrupt 4096+512`
    Corrupt(ByteRange),
    /// Every request takes this much longer. `slow 2ms`
    Slow(Nanos),
    /// From the n-th request on, all fail: the device is gone. `gone 10`
    Gone(u64),
}

/// Faults that hold together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan(pub Vec<Fault>);

/// A plan's text that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{0}\" is no fault; write error KIND N, full N, latent START+LEN, corrupt START+LEN, slow SPAN or gone N")]
pub struct PlanError(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Error(kind, n) => write!(f, "error {} {n}", kind.map_or("any", OpKind::word)),
            Fault::Full(n) => write!(f, "full {n}"),
            Fault::Latent(range) => write!(f, "latent {}+{}", range.start(), range.len()),
            Fault::Corrupt(range) => write!(f, "corrupt {}+{}", range.start(), range.len()),
            Fault::Slow(span) => write!(f, "slow {}", span_text(*span)),
            Fault::Gone(n) => write!(f, "gone {n}"),
        }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(Fault::to_string).collect::<Vec<_>>().join("; "))
    }
}

impl FromStr for Fault {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Fault, PlanError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let fault = match words.as_slice() {
            ["error", kind, n] => kind_of(kind).zip(count(n)).map(|(kind, n)| Fault::Error(kind, n)),
            ["full", n] => count(n).map(Fault::Full),
            ["latent", range] => range_of(range).map(Fault::Latent),
            ["corrupt", range] => range_of(range).map(Fault::Corrupt),
            ["slow", span] => parse_span(span).ok().map(Fault::Slow),
            ["gone", n] => count(n).map(Fault::Gone),
            _ => None,
        };
        fault.ok_or_else(|| PlanError(text.trim().to_string()))
    }
}

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<FaultPlan, PlanError> {
        let faults = text.split(';').filter(|part| !part.trim().is_empty());
        faults.map(str::parse).collect::<Result<_, _>>().map(FaultPlan)
    }
}

fn kind_of(word: &str) -> Option<Option<OpKind>> {
    let kind = OpKind::ALL.into_iter().find(|kind| kind.word() == word);
    if word == "any" { Some(None) } else { kind.map(Some) }
}

/// A position in the order of requests, from 1.
fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| *n > 0)
}

fn range_of(text: &str) -> Option<ByteRange> {
    let (start, len) = text.split_once('+')?;
    ByteRange::new(parse_size(start).ok()?, parse_size(len).ok()?).filter(|range| !range.is_empty())
}
