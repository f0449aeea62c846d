//! `reorg`: a disk that is laid out by what its processes do.
//!
//! Each request stays at home or goes to an area of the same disk. The layer notes what each process asks for, and
//! learns which pages follow each other. Once an interval it plans: pages that are asked for together get copies in the
//! area, in the order in which they are asked for. The rest of the area takes writes, one behind the other. Source: the
//! thesis on extending storage, BORG (section 3.2 of the specification of extensions). The page
//! `docs/reference/kinds/reorg.md` says how to use it.
//!
//! Invariant: holds decisions only: moves data through its engine alone; a plan is forgotten at any crash without harm.
//!
//! Reading order: [`profile`] (what is noted), [`graph`], [`analyzer`], [`planner`], [`layout`] (all without I/O);
//! `reorganise` (when what is done), [`director`] (which slot a copy gets), [`tuner`] over `miniature`.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod analyzer;
pub mod director;
pub mod graph;
pub mod layout;
mod miniature;
pub mod planner;
pub mod profile;
mod reorganise;
#[cfg(test)]
mod tests;
pub mod tuner;

use std::cell::OnceCell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Arity, Below, Bio, BioError, Ctx, Done, Ends, Flow, Follows, Kind, KindError, Layer, LayerHandle, Make, Mark,
    MediaCheck, Op, OpKind, OpSet, OrderInfo, OrderLeft, Orders, Param, ParamType, Routes, Stat, StatInfo, Step,
    Trouble,
};
use esker_layer_aside::{Aside, AsideConfig, Cleaning, FAST, PAGE, Room, WriteMode, journal_bytes, volume_limits};
use esker_layer_kit::slots::{CommitRule, Doubt, SlotKind, SlotMap, SlotShape, Suspects, ZONES, check};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task, media};

pub use analyzer::{Analyzer, Bounds};
pub use graph::{AccessGraph, ONE, Vertex};
pub use layout::{Slot, SlotMove, Steps, assign, steps};
pub use planner::{LONG_RUN, PageRun, Plan, WEIGHT_MIN, plan};
pub use profile::{AccessRecord, CHUNK, Heads, Profiler};

use crate::director::RingDirector;
use crate::reorganise::Reorganiser;

const PARAMS: &[Param] = &[
    Param::with_default("interval", ParamType::Span, "24h", "Time between two plans."),
    Param::with_default(
        "write_buffer",
        ParamType::Ratio,
        "0.25",
        "Share of the area that takes writes of pages without a copy.",
    ),
    Param::with_default(
        "assoc",
        ParamType::Span,
        "1s",
        "Requests of a process with at most this time between them follow each other.",
    ),
    Param::with_default(
        "heads",
        ParamType::Count,
        "32",
        "Streams that stand for processes where requests do not name one.",
    ),
    Param::with_default(
        "tune",
        ParamType::Flag,
        "false",
        "Tries nine settings on the requests of the last interval, and takes the best.",
    ),
];

const ORDERS: &[OrderInfo] = &[
    OrderInfo { name: "plan", arguments: "", doc: "Plans now; copies move when the disk is idle.", left: None },
    OrderInfo {
        name: "write-back",
        arguments: "",
        doc: "Writes all copies home that are newer than home.",
        left: Some(OrderLeft { stat: "dirty", unit: "copies" }),
    },
];

const OWN_STATS: &[StatInfo] = &[
    StatInfo::of("plans", "Plans that were made."),
    StatInfo::of("planned", "Pages of the last plan."),
    StatInfo::of("steps_left", "Pieces of the last plan that are to be done."),
    StatInfo::of("dropped", "Copies that plans gave up."),
    StatInfo::of("moved", "Copies that plans moved to other slots."),
    StatInfo::of("fetched", "Copies that plans made."),
    StatInfo::of("buffer_slots", "Slots that take writes."),
    StatInfo::of("buffer_used", "Those of them that have a copy."),
    StatInfo::of("buffer_full", "Times that a write found no such slot and went home."),
    StatInfo::of("interval_s", "Seconds between two plans: as given, or as the tuner chose."),
    StatInfo::of("tuned", "Times that the tuner chose another setting."),
    StatInfo::of("unlearned", "Requests that were not learned, because no worker was free for long."),
];

const STATS_COUNT: usize = esker_layer_aside::STATS.len() + OWN_STATS.len();

const STATS: [StatInfo; STATS_COUNT] = {
    let mut all = [OWN_STATS[0]; STATS_COUNT];
    let mut at = 0;
    while at < STATS_COUNT {
        let engine = esker_layer_aside::STATS.len();
        all[at] = if at < engine { esker_layer_aside::STATS[at] } else { OWN_STATS[at - engine] };
        at += 1;
    }
    all
};

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard]),
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: false,
    cost: Nanos(250),
    check: Some(MEDIA),
    stats: &STATS,
    orders: ORDERS,
    follows: Follows::None,
    ..Kind::stateful("reorg", "Lays a disk out by what its processes do.", PARAMS, build)
};

/// How the map of an area is checked.
const MEDIA: MediaCheck = MediaCheck {
    holds: "area of a reorganised disk",
    media: "maps of areas",
    formats: &[check::FORMAT],
    is_set: false,
    is_marked: |medium| check::is_marked(medium, SlotKind::Reorg),
    check: check::media_verdict,
};

/// The layer.
pub type ReorgLayer = StatefulLayer<Reorg>;

/// What a stack text says of reorganising.
#[derive(Clone, Debug)]
pub(crate) struct ReorgParams {
    pub interval: Nanos,
    pub write_buffer: f64,
    pub assoc: Nanos,
    pub heads: usize,
    pub tune: bool,
    /// Bytes of home.
    pub home: u64,
}

/// What a stack text says, and the layer once it is open.
#[derive(Clone)]
pub struct ReorgConfig {
    aside: AsideConfig,
    params: ReorgParams,
    opened: Orderly,
}

/// An open layer.
pub struct Reorg {
    aside: Rc<Aside<RingDirector>>,
    reorganiser: Rc<Reorganiser>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let [home, area] = make.lowers else {
        return Err(unfit("a reorganised disk needs a home and an area: `on home, area`".to_string()));
    };
    let both = home.strictest(area);
    let limits = volume_limits(home, &both).map_err(unfit)?;
    let params = ReorgParams {
        interval: make.args.span("interval"),
        write_buffer: make.args.float("write_buffer"),
        assoc: make.args.span("assoc"),
        heads: make.args.int("heads") as usize,
        tune: make.args.flag("tune"),
        home: home.size,
    };
    if params.interval == Nanos::ZERO || params.heads == 0 {
        return Err(unfit("interval and heads must be above 0".to_string()));
    }
    let shape = SlotShape {
        kind: SlotKind::Reorg,
        unit: PAGE,
        keys: home.size.div_ceil(PAGE),
        slots: None,
        journal: journal_bytes(area),
        zones: ZONES,
        // Writes go to clean copies all the time: to say so on the medium first would cost more than it saves.
        doubt: Doubt::All,
        suspects: Suspects::Dirty,
        commit: CommitRule::Group,
    };
    SlotMap::plan(&shape, area).map_err(|error| unfit(error.to_string()))?;
    let aside = AsideConfig {
        name: make.name.to_string(),
        size: limits.size,
        unit: PAGE,
        transfer_max: u64::from(both.transfer_max) / PAGE * PAGE,
        shape,
        fast: area.clone(),
        mode: WriteMode::Back,
        strict: false,
        cleaning: Cleaning::Kind,
        room: Room::Kind,
        is_described: both.described,
        adopts_home: false,
    };
    Ok(Layer::single(ReorgLayer::new(ReorgConfig { aside, params, opened: Orderly::default() }), limits))
}

impl Stateful for Reorg {
    type Config = ReorgConfig;

    const COMPLETES: bool = true;
    const RETRIES: bool = true;

    /// The heads of the map. Home keeps its data where it was.
    fn marks(_: &ReorgConfig) -> Vec<Mark> {
        vec![Mark { lower: FAST, range: ByteRange::new(0, media::HEAD).expect("it begins at 0") }]
    }

    async fn open(config: ReorgConfig, io: Io) -> Result<Rc<Reorg>, KindError> {
        let director = RingDirector::new(config.params.write_buffer);
        let aside = Aside::open(config.aside, &io, director).await?;
        let reorganiser = Reorganiser::new(aside.clone(), io.rt().clone(), config.params);
        let reorg = Rc::new(Reorg { aside, reorganiser });
        let is_first = config.opened.0.set(reorg.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(reorg)
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        let mut tasks = self.aside.tasks(handle);
        tasks.extend(self.reorganiser.tasks(handle));
        tasks
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if matches!(bio.op, Op::Read | Op::Write) {
            self.reorganiser.note(bio.tag, bio.range, bio.op == Op::Write);
        }
        self.aside.issue(ctx, bio)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.aside.complete(ctx, done);
    }

    fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        self.aside.again(ctx, done)
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        self.aside.quiesce(io).await
    }

    fn close(&self) {
        self.reorganiser.close();
        self.aside.close();
    }

    fn orders(config: &ReorgConfig) -> Option<&dyn Orders> {
        Some(&config.opened)
    }

    fn stats(&self) -> Vec<Stat> {
        let (counts, director) = (&self.reorganiser.counts, self.aside.director().borrow());
        let setting = self.reorganiser.setting();
        let own = [
            counts.plans.get(),
            counts.planned.get(),
            self.reorganiser.steps_left(),
            counts.dropped.get(),
            counts.moved.get(),
            counts.fetched.get(),
            u64::from(self.aside.slots() - director.reads()),
            u64::from(director.filled()),
            director.full,
            setting.interval.0 / 1_000_000_000,
            counts.tuned.get(),
            self.reorganiser.records_dropped(),
        ];
        drop(director);
        let told = OWN_STATS.iter().zip(own).map(|(info, value)| Stat { name: info.name, value: value as f64 });
        self.aside.stats().into_iter().chain(told).collect()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.aside.trouble()
    }
}

/// Takes orders of operators to the open layer.
#[derive(Clone, Default)]
struct Orderly(Rc<OnceCell<Rc<Reorg>>>);

impl Orders for Orderly {
    fn list(&self) -> &'static [OrderInfo] {
        ORDERS
    }

    fn order(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>> {
        let (opened, words) = (self.0.clone(), words.to_vec());
        Step::later(async move {
            let reorg = opened.get().expect("the stack opens a layer before it is asked");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words[..] {
                ["plan"] => {
                    let pages = reorg.reorganiser.plan_now().await;
                    Ok(serde_json::json!({ "planned": pages }).to_string())
                }
                ["write-back"] => {
                    let written = reorg.aside.write_back(below).await;
                    let pages = written.map_err(|error| KindError::Outside(error.to_string()))?;
                    Ok(serde_json::json!({ "written_back": pages }).to_string())
                }
                _ => Err(KindError::Unfit("write `plan` or `write-back`".to_string())),
            }
        })
    }
}
