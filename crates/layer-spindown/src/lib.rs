//! `spindown`: a fast device that lets a disk sleep. All writes go there, and the pages whose reads would wake the
//! disk.
//!
//! Invariant: holds decisions only: moves data through its engine alone, and wakes the disk for nothing but clients,
//! operators and too many dirty copies. What lies where, and when it is durable, is the engine's (`layer-aside`).
//!
//! The design is that of EXCES (Useche, Guerra, Bhadkamkar, Alarcon, Rangaswami: "EXCES: External caching in energy
//! saving storage systems", HPCA 2008), as its reading in chapter 4 of "Improving Storage with Stackable Extensions"
//! has it.
//!
//! Reading order: [`ranks`] (which pages are worth most), [`director`] (what stays aside, and whether the disk rests),
//! [`windows`] (when the layer uses the disk), then this file (parameters, limits, orders).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod director;
pub mod ranks;
mod statistics;
#[cfg(test)]
mod tests;
pub mod windows;

use std::cell::OnceCell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Arity, Below, Bio, BioError, Ctx, Done, Ends, Flow, Follows, Kind, KindError, Layer, LayerHandle, Limits, Make,
    Mark, MediaCheck, OpKind, OpSet, OrderInfo, OrderLeft, Orders, Param, ParamType, Routes, Stat, Step, Trouble,
};
use esker_layer_aside::{Aside, AsideConfig, Cleaning, FAST, PAGE, Room, WriteMode, journal_bytes, volume_limits};
use esker_layer_kit::slots::{CommitRule, Doubt, SlotKind, SlotMap, SlotShape, Suspects, ZONES, check};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task, media};

use crate::director::{Costs, RankDirector};
use crate::windows::Windows;

const PARAMS: &[Param] = &[
    Param::with_default(
        "idle_after",
        ParamType::Span,
        "10s",
        "The disk's own timer: the time without requests after which it rests.",
    ),
    Param::with_default(
        "half_life",
        ParamType::Span,
        "1h",
        "Time in which a page loses half of its value; at least 1s.",
    ),
    Param::with_default(
        "pressure",
        ParamType::Ratio,
        "0.8",
        "Share of dirty pages above which write-back wakes the disk.",
    ),
    Param::with_default("idle_w", ParamType::Number, "0.8", "Watts of the disk while it turns and does nothing."),
    Param::with_default("spin_up_j", ParamType::Number, "13", "Joules of a spin-up of the disk."),
    Param::with_default(
        "adopt",
        ParamType::Choice(&["none", "home"]),
        "none",
        "With home: gives all pages up, instead of refusing, if home was changed without the layer.",
    ),
];

const ORDERS: &[OrderInfo] = &[OrderInfo {
    name: "write-back",
    arguments: "",
    doc: "Writes all dirty pages home.",
    left: Some(OrderLeft { stat: "dirty", unit: "pages" }),
}];

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard]),
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: false,
    cost: Nanos(200),
    check: Some(MEDIA),
    stats: statistics::ALL,
    orders: ORDERS,
    follows: Follows::None,
    ..Kind::stateful(
        "spindown",
        "Lets a disk sleep: a fast device has all writes and the pages that would wake it.",
        PARAMS,
        build,
    )
};

/// How the map is checked.
const MEDIA: MediaCheck = MediaCheck {
    holds: "spindown",
    media: "maps of stores of `spindown`",
    formats: &[check::FORMAT],
    is_set: false,
    is_marked: |medium| check::is_marked(medium, SlotKind::Spindown),
    check: check::media_verdict,
};

/// Slots at most: 256 GiB.
const SLOTS_MAX: u32 = 1 << 26;

/// The layer.
pub type SpindownLayer = StatefulLayer<Spindown>;

/// What a stack text says, and the layer's state once it is open.
#[derive(Clone)]
pub struct SpindownConfig {
    aside: AsideConfig,
    costs: Costs,
    half_life: Nanos,
    pressure: f64,
    opened: Orderly,
}

/// The open layer.
pub struct Spindown {
    aside: Rc<Aside<RankDirector>>,
    windows: Rc<Windows>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let [home, fast] = make.lowers else {
        return Err(unfit("spindown needs a disk and a fast device: `on home, fast`".to_string()));
    };
    let costs = Costs {
        idle_after: make.args.span("idle_after"),
        idle_w: make.args.float("idle_w"),
        spin_up_j: make.args.float("spin_up_j"),
    };
    let half_life = make.args.span("half_life");
    if costs.idle_after == Nanos::ZERO || half_life < Nanos::secs(1) {
        return Err(unfit("idle_after must be above 0, and half_life at least 1s".to_string()));
    }
    if !(costs.idle_w >= 0.0 && costs.spin_up_j >= 0.0) {
        return Err(unfit("idle_w and spin_up_j must not be negative".to_string()));
    }
    let both = home.strictest(fast);
    let limits = volume_limits(home, &both).map_err(unfit)?;
    let shape = shape(home, fast);
    let layout = SlotMap::plan(&shape, fast).map_err(|error| unfit(error.to_string()))?;
    if layout.slots > SLOTS_MAX {
        return Err(unfit("the fast device is larger than 256 GiB; give a part of it with `offset`".to_string()));
    }
    let aside = AsideConfig {
        name: make.name.to_string(),
        size: limits.size,
        unit: PAGE,
        transfer_max: u64::from(both.transfer_max) / PAGE * PAGE,
        shape,
        fast: fast.clone(),
        mode: WriteMode::Back,
        strict: false,
        cleaning: Cleaning::Kind,
        room: Room::Awaited,
        is_described: both.described,
        adopts_home: make.args.text("adopt") == "home",
    };
    let pressure = make.args.float("pressure");
    let opened = Orderly::default();
    let config = SpindownConfig { aside, costs, half_life, pressure, opened };
    Ok(Layer::single(SpindownLayer::new(config), limits))
}

/// The map. After an unclean stop all pages count as dirty, so nothing has to be durable before a page changes.
fn shape(home: &Limits, fast: &Limits) -> SlotShape {
    SlotShape {
        kind: SlotKind::Spindown,
        unit: PAGE,
        keys: home.size.div_ceil(PAGE),
        slots: None,
        journal: journal_bytes(fast),
        zones: ZONES,
        doubt: Doubt::All,
        suspects: Suspects::Dirty,
        commit: CommitRule::Group,
    }
}

impl Stateful for Spindown {
    type Config = SpindownConfig;

    const COMPLETES: bool = true;
    const RETRIES: bool = true;

    /// The heads of the map. Home keeps its data where it was.
    fn marks(_: &SpindownConfig) -> Vec<Mark> {
        vec![Mark { lower: FAST, range: ByteRange::new(0, media::HEAD).expect("it begins at 0") }]
    }

    async fn open(config: SpindownConfig, io: Io) -> Result<Rc<Spindown>, KindError> {
        let director = RankDirector::new(io.rt().clone(), config.costs, config.half_life);
        let aside = Aside::open(config.aside, &io, director).await?;
        aside.director().borrow_mut().wake_with(aside.background().clone());
        let windows = Windows::new(io.rt().clone(), aside.clone(), config.costs.idle_after, config.pressure);
        let spindown = Rc::new(Spindown { aside, windows: Rc::new(windows) });
        let is_first = config.opened.0.set(spindown.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(spindown)
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let mut tasks = self.aside.tasks(handle);
        let windows: Task = ("spindown-windows", Box::pin(self.windows.clone().run(handle.clone())));
        tasks.push(windows);
        tasks
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        self.aside.issue(ctx, bio)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.aside.complete(ctx, done);
    }

    fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        self.aside.again(ctx, done)
    }

    /// Brings everything home: the disk is whole without the layer then.
    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        if self.aside.is_over() {
            return self.aside.quiesce(io).await;
        }
        self.write_back(io).await?;
        self.aside.quiesce(io).await
    }

    fn close(&self) {
        self.aside.close();
    }

    fn orders(config: &SpindownConfig) -> Option<&dyn Orders> {
        Some(&config.opened)
    }

    fn stats(&self) -> Vec<Stat> {
        let director = self.aside.director().borrow();
        statistics::told(self.aside.stats(), &director, self.windows.counts())
    }

    fn trouble(&self) -> Option<Trouble> {
        self.aside.trouble()
    }
}

impl Spindown {
    /// Writes all dirty pages home. Answers how many there were.
    async fn write_back(&self, io: &Io) -> Result<u64, BioError> {
        let units = self.aside.dirty_in_order();
        let slots: Vec<_> = units.iter().filter_map(|unit| self.aside.copy_of(*unit)).map(|(slot, _)| slot).collect();
        self.aside.director().borrow_mut().works(true);
        let written = self.aside.clean_all(io).await;
        let mut director = self.aside.director().borrow_mut();
        director.works(true);
        director.released(slots.into_iter());
        written
    }
}

/// Takes orders of operators to the open layer.
#[derive(Clone, Default)]
struct Orderly(Rc<OnceCell<Rc<Spindown>>>);

impl Orders for Orderly {
    fn list(&self) -> &'static [OrderInfo] {
        ORDERS
    }

    fn order(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>> {
        let (opened, words) = (self.0.clone(), words.to_vec());
        Step::later(async move {
            let spindown = opened.get().expect("the stack opens a layer before it is asked");
            if words != ["write-back"] {
                return Err(KindError::Unfit("write `write-back`".to_string()));
            }
            let outside = |error: BioError| KindError::Outside(error.to_string());
            let written = spindown.write_back(&spindown.aside.io_below(below)).await.map_err(outside)?;
            Ok(serde_json::json!({ "written_back": written }).to_string())
        })
    }
}
