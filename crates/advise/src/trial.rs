//! What `esker try` weighs beside plain devices: a cache, a tier, a disk laid out anew, and a disk that rests.

use esker_base::units::MIB;
use esker_predict::{Candidate, Prepared};

use crate::catalogue::{Offer, builtin};
use crate::error::AdviseError;
use crate::proposal::{Making, Mode, OfferedDevices, Proposal, Shape};
use crate::service::Service;

/// The slow side and the fast one, which are plain candidates, too.
const DEVICES: [&str; 2] = ["hdd-7200-2021", "ssd-sata-2021"];
/// The line of the cache, in [`LINES`](crate::columns::LINES), and its bytes.
const LINE: (usize, u64) = (2, 64 << 10);

/// Candidates for traces that were looked at, at their speed. Times of layers are divided by it.
///
/// # Errors
/// A device that cannot be measured, or traces that reach further than plain candidates may.
pub fn candidates(prepared: &Prepared, seed: u64) -> Result<Vec<Candidate>, AdviseError> {
    let volumes = prepared.volumes()?;
    let all = builtin();
    let offers: Vec<Offer> =
        DEVICES.iter().filter_map(|name| all.iter().find(|offer| offer.name == *name)).cloned().collect();
    let services: Result<Vec<Service>, AdviseError> =
        offers.iter().map(|offer| Service::measure(offer, volumes.total(), seed)).collect();
    let speed = prepared.speed().map_or(1.0, |speed| speed.factor);
    let requests: u64 = prepared.facts().iter().map(|facts| facts.requests).sum();
    let recorded_ns = prepared.facts().iter().map(|facts| facts.duration_ns).max().unwrap_or(0);
    let making = Making {
        offers: &offers,
        services: &services?,
        volume: volumes.total().next_multiple_of(MIB),
        // No request uses more than a line or two, but large ones, which are streams.
        footprint: volumes.total().min(requests.saturating_mul(LINE.1)),
        budget: f64::INFINITY,
        speed,
        span_ns: (recorded_ns as f64 / speed) as u64,
    };
    let home = OfferedDevices { offer: 0, count: making.needed(0) };
    let fast = OfferedDevices { offer: 1, count: 1 };
    let shapes = [
        ("cached", Shape::Cache { home, fast, line: LINE.0, mode: Mode::WriteBack }),
        ("tiered", Shape::Tier { home, fast, extent: MIB }),
        ("reorganised", Shape::Reorganised(home)),
        ("resting", Shape::Resting { home, fast }),
    ];
    let candidate = |(name, shape): (&str, Shape)| {
        making.candidate(&Proposal { name: name.to_string(), ..making.proposal(shape) }, &volumes)
    };
    shapes.into_iter().map(candidate).collect()
}
