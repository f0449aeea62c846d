//! Whole advice on small traces.

use std::sync::Arc;

use esker_base::units::{GIB, KIB, MIB};
use esker_base::{Nanos, Stream};
use esker_predict::{CandidateRun, ComparisonPlan, SpeedChoice, Trace, Watch};
use esker_trace_block::{Op, Record};

use crate::proposal::Shape;
use crate::question::Target;
use crate::{Advice, AdviseError, Adviser, Columns, Offer, Question, Settings, catalogue, trial};

/// A disk, and a drive that may only stand before it.
const SHOP: &str = "[[device]]\nname = \"hdd-7200-2021\"\n[[device]]\nname = \"ssd-sata-2021\"\nrole = \"fast\"\n";

/// The first page of those that most requests go to: 1 GiB lies before them.
const HOT: u64 = GIB / 4 / KIB;

fn silent() -> Watch {
    Arc::new(|_| {})
}

fn shop(text: &str) -> Vec<Offer> {
    catalogue::parse("shop.toml", text).unwrap()
}

/// Requests of 4 KiB, 40 a second, most of them to 8 MiB in the midst of 2 GiB, one of four a write.
fn busy(requests: u64) -> Trace {
    let mut stream = Stream::named(3, "busy");
    let record = |number: u64| {
        let page = if stream.chance(0.9) { HOT + stream.below(2048) } else { stream.below(2 * HOT) };
        let op = if stream.chance(0.25) { Op::Write } else { Op::Read };
        let at = Nanos(number * Nanos::millis(25).0);
        Record { at, volume: 0, op, offset: page * 4 * KIB, len: 4 * KIB, who: 0 }
    };
    Trace::from_records("busy", (0..requests).map(record).collect())
}

fn target(text: &str) -> Question {
    Question::Target(text.parse::<Target>().unwrap())
}

fn prepared(trace: Trace, offers: Vec<Offer>, question: Question) -> Result<Adviser, AdviseError> {
    grown(trace, offers, question, 1.0)
}

fn grown(trace: Trace, offers: Vec<Offer>, question: Question, growth: f64) -> Result<Adviser, AdviseError> {
    let settings = Settings { question, growth, proposals: 40, verified: 4 };
    Adviser::prepare(ComparisonPlan::of(vec![trace]), offers, settings, &silent())
}

/// Plays what is chosen, one after the other.
fn played(adviser: &Adviser, chosen: &[usize]) -> Vec<(usize, CandidateRun)> {
    let prepared = adviser.verification(chosen, &silent()).unwrap();
    let runs = (0..chosen.len()).map(|at| prepared.run(at, &silent()).unwrap());
    chosen.iter().copied().zip(runs.collect::<Vec<_>>()).collect()
}

fn advised(trace: Trace, offers: Vec<Offer>, question: Question) -> Advice {
    told(prepared(trace, offers, question).unwrap())
}

fn told(adviser: Adviser) -> Advice {
    let screens: Vec<_> = (0..adviser.proposals().len()).map(|at| adviser.screen(at)).collect();
    let mut runs = Vec::new();
    loop {
        let chosen = adviser.next(&screens, &runs);
        if chosen.is_empty() {
            break;
        }
        runs.extend(played(&adviser, &chosen));
    }
    adviser.conclude(screens, runs)
}

#[test]
fn another_target_has_another_answer_and_each_says_why() {
    let slow = advised(busy(3000), shop(SHOP), target("p95=60ms"));
    let (row, _) = slow.best().unwrap();
    assert!(matches!(row.shape, Shape::Plain(_)), "{}", slow.text());
    assert!(slow.headline.starts_with("Buy hdd-7200-2021 alone: $150"), "{}", slow.headline);
    let fast = advised(busy(3000), shop(SHOP), target("p95=1ms"));
    let (row, run) = fast.best().unwrap();
    assert!(!matches!(row.shape, Shape::Plain(_)) && run.all.p95_ns <= 1_000_000, "{}", fast.text());
    assert!(
        fast.reasons.len() > 1 && fast.changes.iter().any(|change| change.contains("With more time allowed")),
        "{}",
        fast.text()
    );
    let stack = fast.stack_toml("out").unwrap().unwrap();
    assert!(stack.contains("kind = \"file\"") && !stack.contains("disk-model\""), "{stack}");
}

#[test]
fn the_same_question_gets_the_same_advice() {
    let [one, other] = [(); 2].map(|()| advised(busy(800), shop(SHOP), Question::Budget(400.0)));
    assert_eq!(one.to_json(), other.to_json());
    assert_eq!(one.stack_toml("a").unwrap(), other.stack_toml("a").unwrap());
    assert!(one.rows.iter().all(|row| row.usd <= 400.0) && one.headline.contains("of $400"), "{}", one.headline);
}

#[test]
fn what_is_missing_is_told_by_dimension() {
    let missing = |adviser: Adviser| {
        let advice = told(adviser);
        assert_eq!(advice.winner, None);
        advice.deficits.join("\n")
    };
    let price = missing(prepared(busy(400), shop(SHOP), Question::Budget(10.0)).unwrap());
    assert!(price.contains("price: the cheapest devices that hold the data cost $150, $140 above $10"), "{price}");
    let time = missing(prepared(busy(400), shop(SHOP), target("p95=1us")).unwrap());
    assert!(time.contains("time: the nearest") && time.contains("above 1.00 us"), "{time}");
    let one = "[[device]]\nname = \"hdd-7200-2021\"\ncount_max = 1\n";
    let room = missing(grown(busy(400), shop(one), target("p95=1s"), 1e4).unwrap());
    assert!(room.contains("room: ") && room.contains("are missing"), "{room}");
}

/// Of each use one proposal is played. A screen that is far off would send the wrong ones into that run.
#[test]
fn every_use_is_proposed_screened_and_played() {
    let adviser = prepared(busy(3000), shop(SHOP), target("p95=1s")).unwrap();
    let mut uses = Vec::new();
    let first = |(at, shape): (usize, &Shape)| {
        let is_new = !uses.contains(&std::mem::discriminant(shape));
        uses.push(std::mem::discriminant(shape));
        is_new.then_some(at)
    };
    let shapes = adviser.proposals().iter().map(|proposal| &proposal.shape);
    let chosen: Vec<usize> = shapes.enumerate().filter_map(first).collect();
    assert_eq!(chosen.len(), 6, "plain, cache, tier, both, resting, reorganised");
    for (at, run) in played(&adviser, &chosen) {
        let (what, screened) = (&adviser.proposals()[at].what, adviser.screen(at));
        assert_eq!((run.failed, run.saturated.as_deref(), run.all.requests), (0, None, 3000), "{what}");
        let ratio = screened.mean_ns / run.all.mean_ns as f64;
        assert!((0.2..5.0).contains(&ratio), "{what}: {screened:?} against {:?}", run.all);
        let joules = screened.energy_j / run.energy_j.unwrap();
        assert!((0.5..2.0).contains(&joules), "{what}: {} J against {:?}", screened.energy_j, run.energy_j);
    }
}

#[test]
fn memories_are_played_in_every_use() {
    let memories = "[[device]]\nname = \"nvm-optane-2019\"\n[[device]]\nname = \"hdd-7200-2021\"\n";
    let adviser = prepared(busy(50), shop(memories), target("p95=1s")).unwrap();
    let all: Vec<usize> = (0..adviser.proposals().len()).collect();
    let runs = played(&adviser, &all);
    assert!(runs.iter().filter(|(_, run)| run.stack.contains("nvm-model")).count() > 5 && runs.len() > 8);
    assert!(runs.iter().all(|(_, run)| run.failed == 0));
}

#[test]
fn traces_without_requests_or_times_are_refused_and_one_request_is_enough() {
    let refused = |trace| prepared(trace, shop(SHOP), target("p95=1s")).err().unwrap().to_string();
    let flush = Record { at: Nanos(0), volume: 0, op: Op::Flush, offset: 0, len: 0, who: 0 };
    assert!(refused(Trace::from_records("idle", vec![flush])).contains("no read and no write"));
    let advice = advised(busy(1), shop(SHOP), target("p95=1s"));
    assert!(advice.winner.is_some(), "{}", advice.text());
}

#[test]
fn what_try_weighs_is_played_with_times_of_its_speed_and_served_with_those_of_the_recorded_one() {
    let plan = ComparisonPlan { speed: SpeedChoice::Factor(4.0), ..ComparisonPlan::of(vec![busy(2000)]) };
    let mut prepared = plan.prepare(&silent()).unwrap();
    let plain = prepared.candidates().len();
    let more = trial::candidates(&prepared, 1).unwrap();
    assert_eq!(
        more.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["cached", "tiered", "reorganised", "resting"]
    );
    prepared.add(more).unwrap();
    for at in plain..prepared.candidates().len() {
        let run = prepared.run(at, &silent()).unwrap();
        assert_eq!((run.failed, run.all.requests), (0, 2000), "{}: the first time does not count", run.name);
        if run.name == "tiered" {
            assert!(run.stack.contains("epoch = \"450000ms\""), "{}", run.stack);
            assert!(run.served.unwrap().contains("epoch = \"1800000ms\""));
        }
    }
}

#[test]
fn columns_tell_distances_of_a_second_time() {
    let adviser = prepared(busy(500), shop(SHOP), target("p95=1s")).unwrap();
    let columns = adviser.columns();
    assert_eq!((columns.len(), columns.left_out), (500, 0));
    assert!(columns.distance[0].iter().all(|lines| *lines <= 500), "each page was used the first time");
    assert!(columns.footprint() <= 500 * 4 * KIB && columns.read_hits(0, MIB) < columns.read_hits(0, 4 * MIB));
}

#[test]
fn of_a_longer_trace_the_busiest_window_is_estimated() {
    // A hundred requests in the midst come ten times as fast.
    let at =
        |number: u64| 25_000_000 * number.min(200) + 2_500_000 * number.clamp(200, 300) + 25_000_000 * number.max(300);
    let record = |number: u64| Record { at: Nanos(at(number) - at(0)), offset: number * MIB, ..busy_record() };
    let trace = Trace::from_records("rush", (0..500).map(record).collect());
    let prepared = ComparisonPlan::of(vec![trace]).prepare(&silent()).unwrap();
    let columns = Columns::of_busiest(&prepared, 100).unwrap();
    assert_eq!((columns.len(), columns.left_out, columns.begun), (100, 400, 200 * 25_000_000));
    assert_eq!((columns.at[0], columns.span_ns()), (0, 99 * 2_500_000));
    assert_eq!(columns.offset[0], 200 * MIB);
    assert_eq!(Columns::of_busiest(&prepared, 500).unwrap(), Columns::of(&prepared).unwrap());
}

fn busy_record() -> Record {
    Record { at: Nanos(0), volume: 0, op: Op::Read, offset: 0, len: 4 * KIB, who: 0 }
}

#[test]
fn a_browser_shows_the_page_wide_and_narrow_light_and_dark() {
    let advice = advised(busy(800), shop(SHOP), Question::Budget(400.0));
    esker_testkit::browser::check("advise", &crate::page::page(&advice, "esker advise t", None).unwrap());
}
