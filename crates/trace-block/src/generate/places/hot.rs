//! A hot set that moves on: a window over the scattered grains, which advances from time to time.

use super::{Ask, Grains, Places, ProfileFlaw, anywhere, check_part};
use esker_base::Stream;

pub(super) struct Hot {
    grains: Grains,
    /// Grains in the window.
    hot: u64,
    share: f64,
    renew_ns: f64,
    /// Grains that are replaced each time.
    step: u64,
}

impl Hot {
    pub(super) fn new(grains: Grains, space: f64, share: f64, renew_s: f64, part: f64) -> Result<Hot, ProfileFlaw> {
        check_part("hot_space", space)?;
        check_part("hot_share", share)?;
        check_part("renew_part", part)?;
        ProfileFlaw::Renewal(renew_s).unless(renew_s > 0.0)?;
        let hot = ((grains.count() as f64 * space).round() as u64).clamp(1, grains.count() - 1);
        let step = (hot as f64 * part).round() as u64;
        Ok(Hot { grains, hot, share, renew_ns: renew_s * 1e9, step })
    }

    /// The first rank of the window at a time in ns; the window goes round.
    fn window(&self, at: u64) -> u64 {
        let steps = (at as f64 / self.renew_ns) as u64;
        let begin = u128::from(steps) * u128::from(self.step) % u128::from(self.grains.count());
        begin as u64
    }
}

impl Places for Hot {
    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64 {
        let count = self.grains.count();
        let behind = match draw.chance(self.share) {
            true => draw.below(self.hot),
            false => self.hot + draw.below(count - self.hot),
        };
        let rank = (self.window(ask.at.0) + behind) % count;
        self.grains.start(rank) + anywhere(self.grains.size, ask.len, draw)
    }
}
