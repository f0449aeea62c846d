//! Visits to grains whose popularity follows a given curve. Because the length of a visit does not depend on the grain,
//! the curve is also that of the requests, whatever the visits' length.

use super::{Ask, Grains, Places, ProfileFlaw, Renewal, anywhere, check_part};
use esker_base::{Nanos, Stream};

/// One piece of the curve: up to the part `space` of the grains fall the part `share` of the requests; inside the piece
/// the share grows as the power `slope` of the space.
struct Piece {
    space: f64,
    share: f64,
    slope: f64,
}

impl Piece {
    /// The popularity at its end: requests for each grain, relative to the mean.
    fn density(&self) -> f64 {
        self.slope * self.share / self.space
    }
}

/// How the requests fall on the grains, most popular first. Behind the last piece all grains are alike.
struct Curve(Vec<Piece>);

impl Curve {
    fn new(points: &[(f64, f64)], head: f64) -> Result<Curve, ProfileFlaw> {
        let mut curve = Curve(Vec::new());
        for &(space, share) in points {
            let (x, y) = curve.end();
            let slope = if curve.0.is_empty() { head } else { (share / y).ln() / (space / x).ln() };
            let grows = space > x && space < 1.0 && share > y && share < 1.0 && slope <= 1.0;
            ProfileFlaw::Curve { space, share }.unless(grows)?;
            curve.check_density(slope * y / x, (space, share))?;
            curve.0.push(Piece { space, share, slope });
        }
        let (x, y) = curve.end();
        curve.check_density((1.0 - y) / (1.0 - x), (1.0, 1.0))?;
        Ok(curve)
    }

    fn end(&self) -> (f64, f64) {
        self.0.last().map_or((0.0, 0.0), |piece| (piece.space, piece.share))
    }

    /// Makes sure that what follows the curve's end is not more popular than its end.
    fn check_density(&self, density: f64, to: (f64, f64)) -> Result<(), ProfileFlaw> {
        let falls = self.0.last().is_none_or(|last| density <= last.density() * (1.0 + 1e-9));
        ProfileFlaw::Popularity { before: to }.unless(falls)
    }

    /// The part of the grains on which the part `share` of the requests falls.
    fn space(&self, share: f64) -> f64 {
        match self.0.get(self.0.partition_point(|piece| piece.share <= share)) {
            Some(piece) => piece.space * (share / piece.share).powf(1.0 / piece.slope),
            None => {
                let (x, y) = self.end();
                x + (share - y) / (1.0 - y) * (1.0 - x)
            }
        }
    }
}

pub(super) struct Visits {
    grains: Grains,
    reached: u64,
    curve: Curve,
    near: f64,
    next: f64,
    renew: Option<Renewal>,
    /// First byte of the grain that is visited, and where in it the last request ended.
    visited: Option<u64>,
    end: u64,
    is_new: bool,
}

impl Visits {
    pub(super) fn new(
        grains: Grains,
        reach: f64,
        curve: &[(f64, f64)],
        head: f64,
        near: f64,
        next: f64,
        renew: Option<Renewal>,
    ) -> Result<Visits, ProfileFlaw> {
        check_part("reach", reach)?;
        check_part("near", near)?;
        check_part("next", next)?;
        ProfileFlaw::Next { next, near }.unless(next <= near)?;
        ProfileFlaw::Head(head).unless(head > 0.0 && head <= 1.0)?;
        if let Some(Renewal { every_s, part }) = renew {
            check_part("part", part)?;
            ProfileFlaw::Renewal(every_s).unless(every_s > 0.0)?;
        }
        let reached = ((grains.count() as f64 * reach).round() as u64).clamp(1, grains.count());
        let curve = Curve::new(curve, head)?;
        Ok(Visits { reached, curve, grains, near, next, renew, visited: None, end: 0, is_new: true })
    }

    /// A grain, drawn by inversion of the curve.
    fn drawn(&self, at: Nanos, draw: &mut Stream) -> u64 {
        let part = self.curve.space(draw.unit());
        let rank = ((part * self.reached as f64) as u64).min(self.reached - 1);
        self.grains.start((self.first(at) + rank) % self.reached)
    }

    /// The number of the most popular grain: those before it were more popular once.
    fn first(&self, at: Nanos) -> u64 {
        let (Some(renew), Some(head)) = (self.renew, self.curve.0.first()) else { return 0 };
        let renewals = (at.as_secs_f64() / renew.every_s) as u64;
        let replaced = (head.space * self.reached as f64 * renew.part).round() as u64;
        (u128::from(renewals) * u128::from(replaced) % u128::from(self.reached)) as u64
    }
}

impl Places for Visits {
    fn moves_on(&mut self, draw: &mut Stream) -> bool {
        self.is_new = self.visited.is_none() || !draw.chance(self.near);
        self.is_new
    }

    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64 {
        let grain = match self.visited.filter(|_| !self.is_new) {
            Some(grain) => grain,
            None => self.drawn(ask.at, draw),
        };
        let goes_on = !self.is_new && draw.chance(self.next / self.near) && self.end + ask.len <= self.grains.size;
        let inside = if goes_on { self.end } else { anywhere(self.grains.size, ask.len, draw) };
        self.visited = Some(grain);
        self.end = inside + ask.len;
        grain + inside
    }
}
