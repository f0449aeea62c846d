//! Sequential streams of one length that begin anew somewhere when they end.

use super::{Ask, Places, ProfileFlaw, check_part};
use esker_base::Stream;
use esker_base::units::KIB;

/// Streams begin at multiples of this.
const START: u64 = 64 * KIB;

pub(super) struct Streams {
    /// Where streams begin: from this byte, one of so many multiples of [`START`].
    first: u64,
    starts: u64,
    run: u64,
    /// The next byte and the end of each stream.
    heads: Vec<(u64, u64)>,
}

impl Streams {
    pub(super) fn new(
        bytes: u64,
        longest: u64,
        count: u32,
        span: [f64; 2],
        run: f64,
        draw: &mut Stream,
    ) -> Result<Streams, ProfileFlaw> {
        for (name, part) in [("from", span[0]), ("to", span[1]), ("run", run)] {
            check_part(name, part)?;
        }
        ProfileFlaw::NoStreams.unless(count > 0)?;
        let [from, to] = span;
        ProfileFlaw::Streams { from, to, run }.unless(from < to && to + run <= 1.0 + 1e-9)?;
        let part = |part: f64| (bytes as f64 * part) as u64;
        let first = part(span[0]) / START * START;
        let starts = (part(span[1] - span[0]) / START).max(1);
        let run = part(run).min(bytes - first - (starts - 1) * START);
        ProfileFlaw::OverStream { run, longest }.unless(run >= longest)?;
        let mut streams = Streams { first, starts, run, heads: Vec::new() };
        streams.heads = (0..count).map(|_| streams.begin(draw)).collect();
        Ok(streams)
    }

    fn begin(&self, draw: &mut Stream) -> (u64, u64) {
        let start = self.first + draw.below(self.starts) * START;
        (start, start + self.run)
    }
}

impl Places for Streams {
    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64 {
        let stream = draw.below(self.heads.len() as u64) as usize;
        let (mut at, mut end) = self.heads[stream];
        if at + ask.len > end {
            (at, end) = self.begin(draw);
        }
        self.heads[stream] = (at + ask.len, end);
        at
    }
}
