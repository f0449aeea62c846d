//! Where a tier's extents lie over time: the layer's own counters and planner, look by look and epoch by epoch.

use esker_tiering::control::{MIGRATION_SHARE, moves_max};
use esker_tiering::demand::ALPHA;
use esker_tiering::epoch::FILL;
use esker_tiering::{Array, Collector, Edt, Epoch, Objective, Planner, Sheet, Smoothing, Transfers, UsedExtent};

use crate::columns::Columns;

/// The fast end.
pub(crate) const FAST: u8 = 0;
/// The slow end.
pub(crate) const HOME: u8 = 1;

/// A tier of two ends.
pub(crate) struct Tiering<'a> {
    /// Of the fast end and of the slow one.
    pub sheets: [Sheet; 2],
    /// Devices of each.
    pub devices: [u32; 2],
    /// Bytes of the fast end that extents have.
    pub fast_bytes: u64,
    pub extent: u64,
    /// Nanoseconds between two looks, and between two plans.
    pub look_ns: u64,
    pub epoch_ns: u64,
    pub columns: &'a Columns,
}

/// What a tier does with a load.
#[derive(Default)]
pub(crate) struct Placed {
    /// The end of each request, by its first extent.
    pub end: Vec<u8>,
    /// When extents moved: time in nanoseconds, and how many.
    pub moves: Vec<(u64, u32)>,
}

impl Tiering<'_> {
    /// Lets it learn in a first pass, and tells what it does in a second one.
    pub(crate) fn place(&self) -> Placed {
        let extents = self.columns.reach.div_ceil(self.extent).max(1);
        let extents = u32::try_from(extents).expect("a volume has 32-bit extents");
        let fast_max = u32::try_from(self.fast_bytes / self.extent).unwrap_or(u32::MAX);
        let smoothing = Smoothing { alpha: ALPHA, transfers: Transfers::Sequential };
        let first = |extent: u32| if extent < fast_max { FAST } else { HOME };
        let mut state = State {
            tiering: self,
            collector: Collector::new(extents, smoothing),
            at: (0..extents).map(first).collect(),
            fast_max,
            on_fast: fast_max.min(extents),
            first_idle: 0,
            extents,
            placed: Placed::default(),
        };
        state.pass();
        state.placed = Placed::default();
        state.pass();
        state.placed
    }
}

struct State<'a> {
    tiering: &'a Tiering<'a>,
    collector: Collector,
    /// The end of each extent.
    at: Vec<u8>,
    /// Extents for which the fast end has room: at first it has the first ones.
    fast_max: u32,
    /// Extents on the fast end.
    on_fast: u32,
    /// No idle extent before this one is on the fast end.
    first_idle: u32,
    extents: u32,
    placed: Placed,
}

impl State<'_> {
    fn end_of(&self, extent: u32) -> u8 {
        self.at[extent as usize]
    }

    fn pass(&mut self) {
        let (tiering, columns) = (self.tiering, self.tiering.columns);
        let (mut look, mut epoch) = (tiering.look_ns, tiering.epoch_ns);
        for row in 0..columns.len() {
            let at = columns.at[row];
            while at >= look {
                self.collector.roll_over(tiering.look_ns as f64 / 1e9);
                if look >= epoch {
                    self.plan(look);
                    epoch += tiering.epoch_ns;
                }
                look += tiering.look_ns;
            }
            let extent = ((columns.offset[row] / tiering.extent) as u32).min(self.extents - 1);
            self.collector.count(extent, columns.bytes[row].into(), columns.is_random[row]);
            self.placed.end.push(self.end_of(extent));
        }
    }

    fn plan(&mut self, at: u64) {
        let tiering = self.tiering;
        let used: Vec<UsedExtent> = self
            .collector
            .in_use()
            .iter()
            .map(|(id, demand)| UsedExtent { id: *id, at: self.end_of(*id).into(), demand: *demand, is_held: false })
            .collect();
        let arrays = self.arrays(&used);
        let epoch = Epoch {
            sheets: &tiering.sheets,
            arrays: &arrays,
            extents: &used,
            extent_bytes: tiering.extent as f64,
            idle_nowhere: 0,
            fill: FILL,
            consolidates: true,
        };
        if epoch.check().is_err() {
            return;
        }
        let plan = Edt { objective: Objective::Time }.plan(&epoch);
        let speed = tiering.sheets[1].mb_per_s * f64::from(tiering.devices[1]);
        let seconds = tiering.epoch_ns as f64 / 1e9;
        let most = moves_max(seconds, tiering.extent as f64, speed, MIGRATION_SHARE);
        let mut moved = 0;
        for one in plan.moves.iter().take(most as usize) {
            self.go(one.extent, one.to as u8);
            moved += 1;
        }
        let leaving = plan.idle_moves.iter().filter(|idle| idle.to == u32::from(HOME)).map(|idle| idle.extents);
        let leaving = leaving.sum::<u32>().min(most - moved);
        moved += self.idle_go_home(leaving, &used);
        self.placed.moves.push((at, moved));
    }

    fn arrays(&self, used: &[UsedExtent]) -> [Array; 2] {
        let busy = used.iter().filter(|extent| extent.at == u32::from(FAST)).count() as u32;
        let fast_idle = self.on_fast.saturating_sub(busy);
        let home_idle = self.extents.saturating_sub(fast_idle + used.len() as u32);
        let array = |tier: usize, extents_max: u32, idle: u32| {
            let devices = self.tiering.devices[tier];
            Array { tier, devices, extents_max, idle, is_powered: true }
        };
        [array(0, self.fast_max, fast_idle), array(1, self.extents, home_idle)]
    }

    fn go(&mut self, extent: u32, to: u8) {
        let from = self.end_of(extent);
        self.on_fast = self.on_fast + u32::from(to == FAST) - u32::from(from == FAST);
        self.at[extent as usize] = to;
    }

    /// Has idle extents leave the fast end, the first ones first. Answers how many there were.
    fn idle_go_home(&mut self, most: u32, used: &[UsedExtent]) -> u32 {
        let mut gone = 0;
        while gone < most && self.first_idle < self.fast_max.min(self.extents) {
            let extent = self.first_idle;
            let is_used = used.binary_search_by_key(&extent, |used| used.id).is_ok();
            if !is_used && self.end_of(extent) == FAST {
                self.go(extent, HOME);
                gone += 1;
            }
            self.first_idle += 1;
        }
        gone
    }
}
