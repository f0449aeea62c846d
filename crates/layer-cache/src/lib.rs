//! `cache`: copies of blocks of a slow device on a fast one, by a policy.
//!
//! Invariant: holds decisions only: moves data through its engine alone. What lies where, and when it is durable, is
//! the engine's (`layer-aside`).
//!
//! Reading order: [`director`] (which lines stay), then this file (parameters, limits, orders).

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod director;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Arity, Below, Bio, BioError, Ctx, Done, Ends, Flow, Follows, Kind, KindError, Layer, LayerHandle, Make, Mark,
    MediaCheck, OpKind, OpSet, OrderInfo, OrderLeft, Orders, Param, ParamType, Routes, Stat, Step, Trouble,
};
use esker_caching::compact_by_name;
use esker_layer_aside::{
    Aside, AsideConfig, Cleaning, FAST, Fill, PAGE, Room, STATS, WriteMode, journal_bytes, volume_limits,
};
use esker_layer_kit::slots::{CommitRule, Doubt, SlotKind, SlotMap, SlotShape, Suspects, ZONES, check};
use esker_layer_kit::{Io, Stateful, StatefulLayer, Task, media};

use crate::director::PolicyDirector;

/// As [`esker_caching::NAMED`] has them.
const POLICIES: &[&str] = &["lru", "clock", "2q", "mq", "arc", "lirs", "w-tinylfu", "s3-fifo", "sieve"];

const PARAMS: &[Param] = &[
    Param::with_default(
        "mode",
        ParamType::Choice(&["write-back", "write-through", "write-around"]),
        "write-back",
        "Where writes go: to the copy alone, to home and the copy, or to home alone.",
    ),
    Param::with_default(
        "line",
        ParamType::Size,
        "64KiB",
        "Bytes of a line, 4 KiB to 1 MiB; set when the cache is made.",
    ),
    Param::with_default("policy", ParamType::Choice(POLICIES), "s3-fifo", "Which line makes room."),
    Param::with_default(
        "fill",
        ParamType::Choice(&["behind", "before", "none"]),
        "behind",
        "Whether a line that a read misses is copied behind its answer, before it, or not.",
    ),
    Param::with_default(
        "bypass",
        ParamType::Size,
        "4MiB",
        "Bytes after which a sequential stream is neither filled nor written to copies; 0: never.",
    ),
    Param::with_default(
        "dirty",
        ParamType::Ratio,
        "0.5",
        "Share of dirty lines above which write-back does not wait until home is idle.",
    ),
    Param::with_default(
        "dirty_age",
        ParamType::Span,
        "5s",
        "How long a line does not change, at least, before an idle home gets it.",
    ),
    Param::with_default("clean_share", ParamType::Ratio, "0.1", "Share of home's time that write-back takes then."),
    Param::with_default(
        "strict",
        ParamType::Flag,
        "false",
        "Answers each write only when a restart would find its line.",
    ),
    Param::with_default(
        "adopt",
        ParamType::Choice(&["none", "home"]),
        "none",
        "With home: gives all lines up, instead of refusing, if home was changed without the cache.",
    ),
];

const ORDERS: &[OrderInfo] = &[
    OrderInfo { name: "policy", arguments: "NAME", doc: "Changes the policy; the lines stay.", left: None },
    OrderInfo {
        name: "write-back",
        arguments: "",
        doc: "Writes all dirty lines home.",
        left: Some(OrderLeft { stat: "dirty", unit: "lines" }),
    },
];

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Zero, OpKind::Discard]),
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: true },
    needs_bytes: false,
    cost: Nanos(150),
    check: Some(MEDIA),
    stats: STATS,
    orders: ORDERS,
    follows: Follows::None,
    ..Kind::stateful("cache", "Keeps copies of a slow device's blocks on a fast one.", PARAMS, build)
};

/// How the map of a cache is checked.
const MEDIA: MediaCheck = MediaCheck {
    holds: "cache",
    media: "maps of caches",
    formats: &[check::FORMAT],
    is_set: false,
    is_marked: |medium| check::is_marked(medium, SlotKind::Cache),
    check: check::media_verdict,
};

/// The smallest and largest line.
const LINES: std::ops::RangeInclusive<u64> = PAGE..=1 << 20;

/// The layer.
pub type CacheLayer = StatefulLayer<Cache>;

/// What a stack text says, and the cache once it is open.
#[derive(Clone)]
pub struct CacheConfig {
    aside: AsideConfig,
    policy: String,
    fill: Fill,
    bypass: u64,
    opened: Orderly,
}

/// An open cache.
pub struct Cache(Rc<Aside<PolicyDirector>>);

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let [home, fast] = make.lowers else {
        return Err(unfit("a cache needs a home and a fast device: `on home, fast`".to_string()));
    };
    let line = make.args.int("line");
    if !line.is_power_of_two() || !LINES.contains(&line) {
        return Err(unfit(format!("line={line} is not a power of two from 4KiB to 1MiB")));
    }
    let policy = make.args.text("policy").to_string();
    let both = home.strictest(fast);
    let limits = volume_limits(home, &both).map_err(unfit)?;
    let mode = WriteMode::of(make.args.text("mode")).expect("one of the choices");
    let shape = SlotShape {
        kind: SlotKind::Cache,
        unit: line,
        keys: home.size.div_ceil(line),
        slots: None,
        journal: journal_bytes(fast),
        zones: ZONES,
        doubt: Doubt::Zones,
        suspects: if mode == WriteMode::Back { Suspects::Dirty } else { Suspects::Drop },
        commit: CommitRule::Group,
    };
    SlotMap::plan(&shape, fast).map_err(|error| unfit(error.to_string()))?;
    let aside = AsideConfig {
        name: make.name.to_string(),
        size: limits.size,
        unit: line,
        transfer_max: u64::from(both.transfer_max) / PAGE * PAGE,
        shape,
        fast: fast.clone(),
        mode,
        strict: make.args.flag("strict"),
        cleaning: Cleaning::Idle {
            dirty_max: make.args.float("dirty"),
            share: make.args.float("clean_share"),
            age: make.args.span("dirty_age"),
        },
        room: Room::Ahead,
        is_described: both.described,
        adopts_home: make.args.text("adopt") == "home",
    };
    let fill = match make.args.text("fill") {
        "before" => Fill::Before,
        "none" => Fill::No,
        _ => Fill::Behind,
    };
    let bypass = make.args.int("bypass");
    Ok(Layer::single(CacheLayer::new(CacheConfig { aside, policy, fill, bypass, opened: Orderly::default() }), limits))
}

impl Stateful for Cache {
    type Config = CacheConfig;

    const COMPLETES: bool = true;
    const RETRIES: bool = true;

    /// The heads of the map. Home keeps its data where it was.
    fn marks(_: &CacheConfig) -> Vec<Mark> {
        vec![Mark { lower: FAST, range: ByteRange::new(0, media::HEAD).expect("it begins at 0") }]
    }

    async fn open(config: CacheConfig, io: Io) -> Result<Rc<Cache>, KindError> {
        let make = compact_by_name(&config.policy).expect("the policy was looked up when the cache was built");
        let director = PolicyDirector::new(make, config.fill, config.bypass);
        let cache = Rc::new(Cache(Aside::open(config.aside, &io, director).await?));
        let is_first = config.opened.0.set(cache.clone()).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(cache)
    }

    fn tasks(self: &Rc<Self>, handle: &LayerHandle) -> Vec<Task> {
        self.0.tasks(handle)
    }

    fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        self.0.issue(ctx, bio)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.0.complete(ctx, done);
    }

    fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        self.0.again(ctx, done)
    }

    async fn quiesce(self: &Rc<Self>, io: &Io) -> Result<(), BioError> {
        self.0.quiesce(io).await
    }

    fn close(&self) {
        self.0.close();
    }

    fn orders(config: &CacheConfig) -> Option<&dyn Orders> {
        Some(&config.opened)
    }

    fn stats(&self) -> Vec<Stat> {
        self.0.stats()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.0.trouble()
    }
}

/// Takes orders of operators to the open cache.
#[derive(Clone, Default)]
struct Orderly(Rc<OnceCell<Rc<Cache>>>);

impl Orders for Orderly {
    fn list(&self) -> &'static [OrderInfo] {
        ORDERS
    }

    fn order(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>> {
        let (opened, words) = (self.0.clone(), words.to_vec());
        Step::later(async move {
            let cache = opened.get().expect("the stack opens a layer before it is asked");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words[..] {
                ["policy", name] => cache.set_policy(name),
                ["write-back"] => {
                    let written = cache.0.write_back(below).await;
                    let lines = written.map_err(|error| KindError::Outside(error.to_string()))?;
                    Ok(serde_json::json!({ "written_back": lines }).to_string())
                }
                _ => Err(KindError::Unfit("write `policy NAME` or `write-back`".to_string())),
            }
        })
    }
}

impl Cache {
    /// Another policy from now on. It gets the lines in the order of the one before.
    fn set_policy(&self, name: &str) -> Result<String, KindError> {
        let make = compact_by_name(name).ok_or_else(|| {
            KindError::Unfit(format!("there is no policy `{name}`; write one of {}", POLICIES.join(", ")))
        })?;
        let lines = self.0.coldest();
        self.0.director().borrow_mut().change(make(self.0.slots()), &lines);
        Ok(serde_json::json!({ "policy": name, "lines": lines.len() }).to_string())
    }
}
