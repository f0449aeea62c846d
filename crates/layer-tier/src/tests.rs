//! What holds for the layer as a whole. Tests of the acceptance list have their number in their names.

mod failing;
mod moving;
mod opening;
mod planning;
mod power;
mod races;

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Build, Env, Kind, KindError, Layer, Make};
use esker_rt::Rt;
use esker_stack::Export;
use esker_testkit::bench::{self, flush, read, write};

use crate::config::{SCALE, Scale, TierConfig};
use crate::engine::Tier;
use crate::orders::Orderly;

/// Extents of 4096 bytes and more; small ones are copied by 1024 bytes.
const TINY: Scale = Scale { extents: 4096..=64 << 20, unit: 1024 };

/// The same layer with small extents.
static SMALL: Kind = Kind { build: Build::Layer(build_small), ..crate::KIND };

static KINDS: &[&Kind] = &[
    &SMALL,
    &esker_testkit::KEPT,
    &esker_testkit::GIVEN,
    &esker_testkit::power::RECORDED,
    &esker_dev::memory::KIND,
    &esker_dev_sim::disk_model::KIND,
    &esker_dev_sim::ssd_model::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::error::KIND,
    &esker_layers::delay::KIND,
];

/// Takes the open layer to its test.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Option<Orderly>>>);

impl Sink {
    fn tier(&self) -> Option<Rc<Tier>> {
        self.0.borrow().as_ref()?.0.get().cloned()
    }
}

fn build_small(make: &Make<'_>) -> Result<Layer, KindError> {
    let scale = if make.args.int("extent") < SCALE.unit { &TINY } else { &SCALE };
    let (config, limits) = TierConfig::of(make, scale)?;
    if let Some(sink) = make.env.get::<Sink>() {
        *sink.0.borrow_mut() = Some(config.opened.clone());
    }
    Ok(Layer::single(crate::TierLayer::new(config), limits))
}

/// Opens the device `vol` of a text. Gives its layer, too.
async fn open(rt: &Rt, text: &str) -> (Export, Rc<Tier>) {
    let sink = Sink::default();
    let vol = bench::open_with(rt, KINDS, text, &Env::of(sink.clone()));
    vol.stack().opened().await;
    let tier = sink.tier().unwrap_or_else(|| panic!("{text}: the tier cannot be used"));
    (vol, tier)
}

const ENDS: &str = "a = memory size=64KiB defer=always latency=5us; x = stats on a; \
    b = memory size=64KiB defer=always latency=30us; y = stats on b; \
    c = memory size=64KiB defer=always latency=90us; z = stats on c;";
const SHEETS: &str = "devices=\"ssd; sas; sata\"";

/// A tier of three ends, whose plan and looks never come.
fn still(args: &str) -> String {
    format!("{ENDS} vol = tier {SHEETS} extent=4KiB plan=none throttle=false look=1h epoch=1h {args} on x, y, z")
}

fn with<F: Future<Output = ()> + 'static>(text: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, text, body);
}

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

fn count(vol: &Export, part: &str, name: &str) -> u64 {
    bench::count(vol, part, name) as u64
}

/// Orders something. Gives the answer, or why it is refused.
async fn order(vol: &Export, words: &str) -> Result<serde_json::Value, String> {
    let words: Vec<String> = words.split(' ').map(String::from).collect();
    let answer = vol.stack().order("vol", &words).await.map_err(|why| why.to_string())?;
    Ok(serde_json::from_str(&answer).expect("an answer is JSON"))
}

/// Orders what must be done, and waits until no move is left.
async fn moved(vol: &Export, words: &str) {
    order(vol, words).await.unwrap();
    all_moved(vol).await;
}

async fn all_moved(vol: &Export) {
    bench::until(vol, "vol", "queued", 0.0).await;
    bench::until(vol, "vol", "moving", 0.0).await;
}

/// The end on which an extent lies.
async fn end_of(vol: &Export, extent: u64) -> u64 {
    order(vol, &format!("explain {extent}")).await.unwrap()["end"].as_u64().unwrap()
}

/// How many extents each end has.
async fn residents(vol: &Export) -> Vec<u64> {
    let told = order(vol, "ends").await.unwrap();
    told["ends"].as_array().unwrap().iter().map(|end| end["extents"].as_u64().unwrap()).collect()
}

#[test]
fn a_tier_conforms() {
    for args in ["", "size=64KiB"] {
        bench::check_conforms(KINDS, &still(args));
    }
    let busy = "plan=edt look=200us epoch=1ms share=1 alpha=1";
    for plan in ["edt", "est", "idt", "greedy"] {
        let args = busy.replace("edt", plan);
        bench::check_conforms(KINDS, &format!("{ENDS} vol = tier {SHEETS} extent=4KiB {args} on x, y, z"));
    }
    static PRODUCT: &[&Kind] = &[&crate::KIND, &esker_dev::memory::KIND];
    let text = "a = memory size=4MiB defer=always latency=5us; b = memory size=4MiB defer=always latency=90us; \
        vol = tier devices=\"ssd; sata\" look=1ms epoch=5ms alpha=1 on a, b";
    bench::check_conforms(PRODUCT, text);
}

#[test]
fn a_fresh_tier_moves_nothing_and_fills_its_ends_in_order() {
    with(&still(""), async |vol| {
        assert_eq!(read(&vol, 0, 8192).await, [0; 8192]);
        let (extents, found) = (stat(&vol, "extents"), residents(&vol).await);
        assert_eq!(found.iter().sum::<u64>(), extents);
        let told = order(&vol, "ends").await.unwrap();
        assert!(
            told["ends"].as_array().unwrap().iter().all(|end| end["free"] == 1),
            "one slot of each is spare: {told}"
        );
        assert_eq!((end_of(&vol, 0).await, end_of(&vol, extents - 1).await), (0, 2));
        let written = ["x", "y", "z"].map(|part| count(&vol, part, "write_bytes"));
        assert!(written[0] < 64 << 10 && written[1..] == [8192; 2], "the map and two labels: {written:?}");
    });
}

#[test]
fn item_11_a_flush_reaches_the_ends_that_were_written() {
    with(&still(""), async |vol| {
        flush(&vol).await;
        let flushes = |vol: &Export| ["x", "y", "z"].map(|part| count(vol, part, "flushes"));
        let last = stat(&vol, "extents") * 4096 - 512;
        for (at, reached) in [(0, [1, 0, 0]), (last, [0, 0, 1])] {
            let before = flushes(&vol);
            write(&vol, at, &[1; 512]).await;
            flush(&vol).await;
            flush(&vol).await;
            let now = flushes(&vol);
            assert_eq!([0, 1, 2].map(|end| now[end] - before[end]), reached);
        }
    });
}

#[test]
fn one_seed_gives_one_run() {
    let text = format!(
        "{ENDS} vol = tier {SHEETS} extent=4KiB size=64KiB plan=edt throttle=false look=1ms epoch=4ms alpha=1 on x, y, z"
    );
    esker_rt::sim::twice(esker_rt::SimConfig::seeded(5), |rt| {
        let text = text.clone();
        async move {
            let (vol, _) = open(&rt, &text).await;
            let (mut rng, blocks) = (rt.rng("requests"), stat(&vol, "extents") * 8);
            for round in 0..600_u64 {
                write(&vol, rng.below(blocks) * rng.below(2) * 512, &[round as u8; 512]).await;
                rt.sleep(Nanos::micros(rng.below(60))).await;
            }
            assert!(
                stat(&vol, "plans") > 3 && stat(&vol, "moved") > 0,
                "{:?}",
                vol.stack().stats().last().unwrap().stats
            );
        }
    });
}
