//! Two-dimensional first fit decreasing with a keep set: extents of one tier over its arrays.
//!
//! First fit decreasing alone needs at most 11/9 of the least number of arrays, and one. The source's section 3.4.5
//! leaves open which arrays remain powered. Here a first run, without regard to residents, says which extents the tier
//! admits and how many arrays these need. Then residents stay, either on all arrays, or on as many as the first run
//! needs, those with most resident load. The second way counts if it places no less on fewer arrays.

/// Room for rounding when shares are added.
pub(crate) const SLACK: f64 = 1e-9;

/// What an array of the tier has left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Time left, in devices.
    pub performance: f64,
    /// Extents for which there is room.
    pub slots: u32,
    /// Idle extents that lie on it.
    pub idle: u32,
    /// Whether it has something that stays, or is awake. Such a bin is filled before one at rest.
    pub is_powered: bool,
}

/// An extent of the tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Time that it takes, in devices.
    pub performance: f64,
    /// The bin on which it lies.
    pub at: Option<u32>,
}

/// Where extents go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Bins of the extents, in their order. `None`: the tier has no room for this one.
    pub at: Vec<Option<u32>>,
    /// Bins with an extent, idle ones too.
    pub used: usize,
}

impl Packed {
    /// Extents without a bin.
    pub fn left(&self) -> usize {
        self.at.iter().filter(|at| at.is_none()).count()
    }
}

/// Packs extents, which come in falling order, and a number of idle ones that the tier shall hold.
///
/// Without consolidation residents stay on all bins, and each other extent goes where most time is left.
pub fn pack(bins: &[Bin], wanted: &[Wanted], idle: u64, consolidates: bool) -> Packed {
    let first = first_fit_decreasing(bins, wanted, idle);
    let admitted: Vec<bool> = first.at.iter().map(Option::is_some).collect();
    let arrange = |keep: &[bool]| {
        let filling = Filling { spreads: !consolidates, ..Filling::new(bins, keep) };
        arrange(filling, wanted, idle, &admitted)
    };
    let stays = arrange(&vec![true; bins.len()]);
    if !consolidates || stays.used <= first.used {
        return stays;
    }
    let fewer = arrange(&keep(bins, wanted, first.used));
    if fewer.used < stays.used && fewer.left() <= stays.left() { fewer } else { stays }
}

/// First fit decreasing alone: no extent lies anywhere yet.
pub fn first_fit_decreasing(bins: &[Bin], wanted: &[Wanted], idle: u64) -> Packed {
    let mut filling = Filling::new(bins, &vec![false; bins.len()]);
    let at = wanted.iter().map(|one| filling.put(one.performance, None)).collect();
    Packed { at, used: filling.used(idle) }
}

/// The bins with most resident load, so many of them.
fn keep(bins: &[Bin], wanted: &[Wanted], count: usize) -> Vec<bool> {
    let mut load: Vec<(f64, u64)> = bins.iter().map(|bin| (0.0, u64::from(bin.idle))).collect();
    for (one, at) in wanted.iter().filter_map(|one| Some((one, one.at?))) {
        load[at as usize].0 += one.performance;
        load[at as usize].1 += 1;
    }
    let mut order: Vec<usize> = (0..bins.len()).collect();
    let rank = |bin: usize| (load[bin].0, load[bin].1, bins[bin].is_powered);
    order.sort_by(|a, b| rank(*b).partial_cmp(&rank(*a)).expect("loads are finite").then(a.cmp(b)));
    let mut keep = vec![false; bins.len()];
    order.into_iter().take(count).for_each(|bin| keep[bin] = true);
    keep
}

/// Residents of kept bins stay, then the others go where they fit first: admitted ones before the rest.
fn arrange(mut filling: Filling<'_>, wanted: &[Wanted], idle: u64, admitted: &[bool]) -> Packed {
    let mut at = vec![None; wanted.len()];
    for (number, one) in wanted.iter().enumerate().filter(|(number, _)| admitted[*number]) {
        at[number] = one.at.filter(|bin| filling.keep[*bin as usize] && filling.take(*bin, one.performance));
    }
    for is_admitted in [true, false] {
        for (number, one) in wanted.iter().enumerate() {
            if admitted[number] == is_admitted && at[number].is_none() {
                at[number] = filling.put(one.performance, one.at);
            }
        }
    }
    Packed { at, used: filling.used(idle) }
}

/// Bins while they are filled.
struct Filling<'a> {
    bins: &'a [Bin],
    left: Vec<Bin>,
    keep: Vec<bool>,
    /// Bins with slots, in the order in which they are tried: kept ones, then powered ones, then by number.
    open: Vec<u32>,
    /// An extent goes to the bin with most time left, instead of the first one into which it fits.
    spreads: bool,
}

impl Filling<'_> {
    fn new<'a>(bins: &'a [Bin], keep: &[bool]) -> Filling<'a> {
        let mut open: Vec<u32> = (0..bins.len() as u32).filter(|bin| bins[*bin as usize].slots > 0).collect();
        open.sort_by_key(|bin| (!keep[*bin as usize], !bins[*bin as usize].is_powered, *bin));
        Filling { bins, left: bins.to_vec(), keep: keep.to_vec(), open, spreads: false }
    }

    fn fits(&self, bin: u32, performance: f64) -> bool {
        let bin = &self.left[bin as usize];
        bin.slots > 0 && performance <= bin.performance + SLACK
    }

    /// Puts an extent on this bin, if it fits.
    fn take(&mut self, bin: u32, performance: f64) -> bool {
        if !self.fits(bin, performance) {
            return false;
        }
        let left = &mut self.left[bin as usize];
        left.performance -= performance;
        left.slots -= 1;
        if left.slots == 0 {
            self.open.retain(|open| *open != bin);
        }
        true
    }

    /// The bin that comes first for an extent, whichever bin the extent lies on.
    fn first(&self, performance: f64) -> Option<u32> {
        let mut fit = self.open.iter().copied().filter(|bin| self.fits(*bin, performance));
        let left = |bin: &u32| self.left[*bin as usize].performance;
        if self.spreads { fit.max_by(|a, b| left(a).total_cmp(&left(b)).then(b.cmp(a))) } else { fit.next() }
    }

    /// Puts an extent on the bin that comes first. Its own bin precedes all, but not kept ones if it is none of them.
    fn put(&mut self, performance: f64, own: Option<u32>) -> Option<u32> {
        let first = self.first(performance);
        let is_kept = |bin: u32| self.keep[bin as usize];
        let own = own.filter(|own| self.fits(*own, performance) && (is_kept(*own) || !first.is_some_and(is_kept)));
        let bin = own.or(first)?;
        let fits = self.take(bin, performance);
        debug_assert!(fits, "a bin was just found to have room");
        Some(bin)
    }

    /// Bins in use once idle extents are put where bins are used anyway, and then on those that have most of them.
    fn used(&self, idle: u64) -> usize {
        let is_used = |bin: &usize| self.left[*bin].slots < self.bins[*bin].slots;
        let (used, mut free): (Vec<usize>, Vec<usize>) = (0..self.bins.len()).partition(is_used);
        let mut idle = idle.saturating_sub(used.iter().map(|bin| u64::from(self.left[*bin].slots)).sum());
        free.retain(|bin| self.bins[*bin].slots > 0);
        free.sort_by_key(|bin| (std::cmp::Reverse(self.bins[*bin].idle), *bin));
        let needed = free.into_iter().take_while(|bin| {
            let is_needed = idle > 0;
            idle = idle.saturating_sub(u64::from(self.bins[*bin].slots));
            is_needed
        });
        used.len() + needed.count()
    }
}
