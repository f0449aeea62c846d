//! The whole prediction on small traces.

mod answers;
mod calibrated;
mod closed;
mod joined;
mod loaded;
mod older;
mod warm;

use std::sync::Arc;

use esker_base::Nanos;
use esker_stack::Spec;
use esker_trace_block::Format;

use crate::deploy::stack_toml;
use crate::report::{Origin, page, text};
use crate::{
    Candidate, CandidateRun, Comparison, ComparisonPlan, Limit, Load, Making, PredictError, SpeedChoice, Trace, Watch,
};

fn silent() -> Watch {
    Arc::new(|_| {})
}

/// A trace in the `.load` format: time in microseconds, sector, sectors, operation.
fn trace(name: &str, records: impl Iterator<Item = (u64, u64, u64, char)>) -> Trace {
    let line = |(us, sector, sectors, op): (u64, u64, u64, char)| {
        format!("{}.{:06} ; {sector} ; {sectors} ; {op} ; 0.0 ; 0.0\n", us / 1_000_000, us % 1_000_000)
    };
    let lines: String = records.map(line).collect();
    Trace::from_bytes(name, Some(Format::Load), format!("start ; sector ; length ; op\n{lines}").into_bytes())
}

/// A read of 4 KiB every 10 ms.
fn steady(name: &str, requests: u64) -> Trace {
    trace(name, (0..requests).map(|i| (i * 10_000, i * 8, 8, 'R')))
}

/// Reads and writes all over 8 GiB, several at a time.
fn busy(name: &str, requests: u64) -> Trace {
    let mut rng = esker_base::Stream::named(7, name);
    let records = (0..requests).map(move |i| {
        (i / 3 * 4_000, rng.below(8 << 21) & !7, 8 << rng.below(4), if rng.chance(0.5) { 'R' } else { 'W' })
    });
    trace(name, records.collect::<Vec<_>>().into_iter())
}

fn candidate(name: &str, stack: &str) -> Candidate {
    Candidate::of(name, stack, Spec::parse(name, stack).unwrap())
}

fn plan(traces: Vec<Trace>, candidates: Vec<Candidate>) -> ComparisonPlan {
    ComparisonPlan { candidates, speed: SpeedChoice::Factor(1.0), ..ComparisonPlan::of(traces) }
}

fn compared(plan: ComparisonPlan) -> Comparison {
    plan.compare(&silent()).unwrap()
}

#[test]
fn reads_of_an_idle_drive_take_exactly_what_its_numbers_add_up_to() {
    let stack = "vol = ssd-model size=1GiB overhead=10us read=40us unit_rate=1GB host_rate=4GB @";
    let comparison = compared(plan(vec![steady("steady", 500)], vec![candidate("ssd", stack)]));
    let run = &comparison.runs[0];
    // Controller, sensing, 4096 bytes at 1 GB/s to the controller and at 4 GB/s to the host.
    let expected = 10_000 + 40_000 + 4_096 + 1_024;
    assert_eq!((run.reads.requests, run.reads.mean_ns, run.reads.max_ns), (500, expected, expected));
    assert_eq!([run.reads.p50_ns, run.reads.p99_ns, run.reads.p999_ns], [expected; 3]);
    assert_eq!(run.elapsed_ns, Nanos::millis(4990).0 + expected);
    assert!((run.bytes_per_s - 500.0 * 4096.0 / (run.elapsed_ns as f64 / 1e9)).abs() < 1.0);
    assert_eq!((run.inflight_max, run.saturated.as_deref(), run.failed), (1, None, 0));
}

#[test]
fn speed_divides_the_recorded_times() {
    let faster = ComparisonPlan {
        speed: SpeedChoice::Factor(10.0),
        ..plan(vec![steady("steady", 100)], vec![candidate("m", "vol = memory size=1MiB @")])
    };
    let run = &compared(faster).runs[0];
    assert!((99_000_000..99_100_000).contains(&run.elapsed_ns), "{}", run.elapsed_ns);
    assert_eq!((run.busy, run.price_usd), (None, None), "memory is no model");
}

#[test]
fn one_plan_gives_the_same_bytes_twice_and_another_speed_other_digests() {
    let plan = || ComparisonPlan { verify: true, ..plan(vec![busy("a", 900), busy("b", 300)], Vec::new()) };
    let (first, second) = (compared(plan()), compared(plan()));
    assert_eq!(first.to_json(), second.to_json());
    assert_eq!(first.runs.len(), 5);
    let other = compared(ComparisonPlan { speed: SpeedChoice::Factor(2.0), ..plan() });
    assert_ne!(first.runs[0].digest, other.runs[0].digest);
}

#[test]
fn every_request_of_every_trace_is_answered_on_its_own_volume() {
    let comparison = compared(plan(vec![busy("a", 900), busy("b", 300)], Vec::new()));
    for run in &comparison.runs {
        let requests = run.volumes.iter().map(|volume| volume.reads.requests + volume.writes.requests);
        assert_eq!(requests.collect::<Vec<_>>(), [900, 300], "{}", run.name);
        assert_eq!((run.failed, run.fitted.text()), (0, String::new()), "{}", run.name);
        assert_eq!(run.intervals.iter().map(|interval| interval.requests).sum::<u64>(), 1200);
    }
}

#[test]
fn the_searched_speed_makes_the_first_candidate_as_busy_as_asked() {
    let searched = ComparisonPlan { speed: SpeedChoice::Busy(0.7), ..plan(vec![busy("a", 6000)], Vec::new()) };
    let comparison = compared(searched);
    let busy = comparison.runs[0].busy.unwrap();
    assert!((busy - 0.7).abs() < 0.05, "{:?}", comparison.speed);
    assert_eq!(
        comparison.speed.unwrap().probes.last().map(|probe| probe.busy),
        Some(busy),
        "the last probe is the run itself"
    );
}

#[test]
fn a_load_above_what_a_disk_serves_is_called_saturated_and_stays_in_bounds() {
    let slow = candidate("slow", "vol = disk-model size=16GiB cache=off @");
    let flood = ComparisonPlan {
        speed: SpeedChoice::Factor(50.0),
        inflight_max: 64,
        ..plan(vec![busy("a", 20_000)], vec![slow])
    };
    let comparison = compared(flood);
    let run = &comparison.runs[0];
    assert_eq!((run.all.requests < 20_000, run.inflight_max, run.failed), (true, 64, 0), "what was sent is answered");
    let why = run.saturated.as_deref().unwrap();
    for words in ["64 requests were in flight", "of 20000 requests", "came a second", "were answered"] {
        assert!(why.contains(words), "{why}");
    }
    assert!(!comparison.verdict.met && comparison.verdict.headline.contains("no candidate keeps up"));
}

#[test]
fn a_stack_that_falls_behind_below_the_bound_is_saturated_too() {
    let slow = candidate("slow", "vol = disk-model size=16GiB cache=off @");
    let run = &compared(ComparisonPlan { speed: SpeedChoice::Factor(20.0), ..plan(vec![busy("a", 2000)], vec![slow]) })
        .runs[0];
    assert!(run.saturated.as_deref().is_some_and(|why| why.contains("after the last arrival")), "{:?}", run.saturated);
}

#[test]
fn an_answer_that_takes_a_minute_ends_the_run() {
    let slow = candidate("slow", "vol = memory size=128MiB | rate iops=10 burst=1us @");
    let run = &compared(plan(vec![steady("steady", 20_000)], vec![slow])).runs[0];
    assert!(run.saturated.as_deref().is_some_and(|why| why.contains("longer than 60.0 s")), "{:?}", run.saturated);
    assert!(run.all.requests < 20_000 && run.all.max_ns > Nanos::secs(60).0, "{:?}", run.all);
}

#[test]
fn headroom_is_how_many_times_the_load_a_candidate_bears() {
    // 64 reads at once every 100 ms, of which a device that answers one every millisecond takes up to 64 ms.
    let bursts = trace("bursts", (0..1280u64).map(|i| (i / 64 * 100_000, i * 8 % 2048, 8, 'R')));
    let one_a_ms = candidate("m", "vol = memory size=1MiB | rate iops=1000 burst=1us @");
    let borne = |target_ms| {
        let plan = plan(vec![bursts.clone()], vec![one_a_ms.clone()]);
        let searched = ComparisonPlan { headroom: true, target_p99: Nanos::millis(target_ms), ..plan };
        compared(searched).runs[0].headroom.unwrap()
    };
    let room = borne(70);
    assert!(room.factor >= 1.3 && room.factor < 1.7 && room.missed.is_some_and(|x| x < 1.8), "{room:?}");
    let none = borne(50);
    assert_eq!(none.factor, 0.0, "slower bursts are bursts all the same: {none:?}");
}

#[test]
fn a_candidate_bears_what_it_meets_and_misses_the_next_multiple() {
    let plan = |speed| ComparisonPlan {
        headroom: true,
        speed: SpeedChoice::Factor(speed),
        ..plan(vec![busy("a", 3000)], Vec::new())
    };
    let first = compared(plan(1.0));
    for run in &first.runs {
        let room = run.headroom.unwrap();
        let met = |factor: f64| {
            let again = compared(ComparisonPlan { headroom: false, ..plan(factor) });
            let run = again.runs.iter().find(|other| other.name == run.name).unwrap().clone();
            run.saturated.is_none() && run.all.p99_ns <= again.verdict.target_p99_ns
        };
        assert!(room.factor == 0.0 || met(room.factor), "{}: {room:?}", run.name);
        assert!(room.missed.is_none_or(|missed| !met(missed)), "{}: {room:?}", run.name);
    }
    let text = text(&first);
    assert!(text.contains("headroom") && text.contains("bears"), "{text}");
}

#[test]
fn flushes_have_columns_where_they_occur() {
    let iolog = |flush: &str| {
        let lines: String = (0..50u64).map(|i| format!("{} a write {} 4096\n{flush}", i * 5000, i * 4096)).collect();
        let bytes = format!("fio version 3 iolog\n0 a add\n0 a open\n{lines}");
        compared(plan(vec![Trace::from_bytes("db.iolog", None, bytes.into_bytes())], Vec::new()))
    };
    let (with, without) = (iolog("260000 a sync\n"), iolog(""));
    assert_eq!((with.traces[0].flushes, with.runs[0].flushes.requests), (50, 50));
    assert!(with.runs[0].flushes.p50_ns > 1_000_000, "a disk has to write first");
    assert!(text(&with).contains("flush p50") && text(&with).contains("50 flushes"));
    assert!(!text(&without).contains("flush p50") && text(&without).contains("hold no flush"));
}

#[test]
fn the_volumes_of_a_trace_are_served_by_exports_of_their_own() {
    let iolog = || {
        let record =
            |i: u64| format!("{} {} read {} 4096\n", i * 1000, ["/dev/sda", "b"][(i % 3 / 2) as usize], i * 4096);
        let lines: String = (0..90).map(record).collect();
        Trace::from_bytes(
            "two.log",
            None,
            format!("fio version 3 iolog\n0 /dev/sda add\n0 b add\n{lines}").into_bytes(),
        )
    };
    let both = compared(plan(vec![iolog()], Vec::new()));
    let told: Vec<_> = both.traces.iter().map(|facts| (facts.volume.as_str(), facts.requests)).collect();
    assert_eq!(told, [("two--dev-sda", 60), ("two-b", 30)]);
    assert!(both.runs.iter().all(|run| run.volumes[1].reads.requests == 30));
    let one = compared(plan(vec![iolog().only(Some("b"))], Vec::new()));
    assert_eq!((one.traces.len(), one.traces[0].volume.as_str(), one.traces[0].requests), (1, "two", 30));
    let closed =
        ComparisonPlan { load: Load::Closed { depth: 4, think: Nanos::ZERO }, ..plan(vec![iolog()], Vec::new()) };
    let closed = compared(closed);
    assert!(closed.runs.iter().all(|run| (run.volumes[0].reads.requests, run.inflight_max) == (60, 4)));
}

#[test]
fn a_trace_without_times_is_played_by_one_client_or_at_a_rate() {
    let pages = || {
        Trace::from_bytes(
            "p.lis",
            Some(Format::Arc),
            (0..200).map(|i| format!("{i} 1 0 {i}\n")).collect::<String>().into_bytes(),
        )
    };
    let closed = compared(plan(vec![pages()], Vec::new()));
    assert_eq!((closed.load, closed.speed.is_none(), closed.runs[0].inflight_max), (Load::ONE_CLIENT, true, 1));
    assert!(closed.caveats.iter().any(|line| line.contains("has no times")), "{:?}", closed.caveats);
    let steady = compared(ComparisonPlan { load: Load::Steady { per_s: 50.0 }, ..plan(vec![pages()], Vec::new()) });
    assert_eq!(steady.traces[0].duration_ns, 199 * 20_000_000);
    let refused = |plan: ComparisonPlan| plan.compare(&silent()).unwrap_err().to_string();
    assert!(refused(plan(vec![pages(), steady_trace()], Vec::new())).contains("those of steady have"));
    let searched = ComparisonPlan { speed: SpeedChoice::Busy(0.5), ..plan(vec![pages()], Vec::new()) };
    assert!(refused(searched).contains("no speed can be searched"));
}

fn steady_trace() -> Trace {
    steady("steady", 10)
}

#[test]
fn requests_of_one_second_of_a_coarse_clock_are_spread_over_it() {
    let record = |i: u32| {
        [
            (i / 100).to_le_bytes().to_vec(),
            u64::from(i * 8).to_le_bytes().to_vec(),
            4096u32.to_le_bytes().to_vec(),
            (-1i64).to_le_bytes().to_vec(),
        ]
        .concat()
    };
    let bytes: Vec<u8> = (0..300u32).flat_map(record).collect();
    let coarse = Trace::from_bytes("t", Some(Format::OracleGeneral), bytes);
    let comparison = compared(plan(vec![coarse], vec![candidate("m", "vol = memory size=2MiB | delay read=1ms @")]));
    assert_eq!((comparison.runs[0].inflight_max, comparison.traces[0].duration_ns), (1, 2_990_000_000));
    assert!(comparison.caveats.iter().any(|line| line.contains("spread evenly")), "{:?}", comparison.caveats);
}

#[test]
fn a_candidate_smaller_than_the_data_is_refused_unless_requests_may_be_moved() {
    let small = || vec![candidate("small", "vol = disk-model size=1MiB @")];
    let refused = |plan: ComparisonPlan| plan.compare(&silent()).unwrap_err().to_string();
    let message = refused(plan(vec![steady("t", 300)], small()));
    assert!(message.contains("small: export vol has 1.0 MiB, but t reaches to 1.2 MiB"), "{message}");
    let wraps = |candidates, trace| ComparisonPlan {
        making: Making { wraps: true, fill: 0.0 },
        ..plan(vec![trace], candidates)
    };
    assert_eq!(compared(wraps(small(), steady("t", 300))).runs[0].fitted.wrapped, 44);
    let far = || trace("far", [(0, 1 << 53, 8, 'R')].into_iter());
    assert!(refused(plan(vec![far()], Vec::new())).contains("more than 64 drives hold"));
    assert!(compared(wraps(Vec::new(), far())).runs.iter().all(|run| run.fitted.wrapped == 1));
}

#[test]
fn drives_are_named_with_their_price_and_filled_on_demand() {
    let told = text(&compared(plan(vec![busy("a", 400)], Vec::new())));
    for words in ["WD Ultrastar DC HC310, 4 TB", "$150 in 2021", "Samsung 870 EVO", "drives are new", "~"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let drive = || candidate("d", "vol = ssd-model capacity=8GiB erase_block=1MiB @");
    let making = |fill| Making { fill, wraps: true };
    let filled = |fill| compared(ComparisonPlan { making: making(fill), ..plan(vec![busy("a", 400)], vec![drive()]) });
    let (new, used) = (filled(0.0), filled(1.0));
    assert!(text(&used).contains("100 % of their capacity") && used.runs[0].stack.contains("fill = 1"));
    assert_ne!(new.runs[0].digest, used.runs[0].digest, "a drive that was written in full moves blocks");
    let refused = ComparisonPlan { making: making(2.0), ..plan(vec![busy("a", 4)], Vec::new()) };
    assert!(refused.compare(&silent()).unwrap_err().to_string().contains("fill 2 is out of range"));
}

#[test]
fn limits_cut_traces_by_time_and_count() {
    let cut = |limit| {
        let plan = plan(vec![steady("steady", 100)], vec![candidate("m", "vol = memory size=1MiB @")]);
        compared(ComparisonPlan { limit, ..plan }).runs[0].all.requests
    };
    assert_eq!(cut(Limit { duration: Some(Nanos::millis(200)), ..Limit::default() }), 20);
    assert_eq!(cut(Limit { requests: Some(7), ..Limit::default() }), 7);
}

#[test]
fn repeats_are_counted_told_and_left_out_on_demand() {
    let pairs =
        || trace("pairs", (0..50u64).flat_map(|i| [(i * 5_000, i * 8, 8, 'W'), (i * 5_000 + 600, i * 8, 8, 'W')]));
    let memory = || vec![candidate("m", "vol = memory size=1MiB @")];
    let comparison = compared(plan(vec![pairs()], memory()));
    assert_eq!((comparison.traces[0].repeats, comparison.runs[0].all.requests), (50, 100));
    assert!(comparison.caveats.iter().any(|line| line.contains("50 of 100 requests (50.0 %)")));
    let limit = Limit { dedup_window: Some(Nanos::millis(1)), ..Limit::default() };
    let without = compared(ComparisonPlan { limit, ..plan(vec![pairs()], memory()) });
    assert_eq!((without.traces[0].repeats, without.runs[0].all.requests), (0, 50));
}

#[test]
fn unaligned_writes_pay_for_reading_and_writing_back_whole_blocks() {
    let sectors_from = |first: u64, sectors: u64| {
        let writes = trace("t", (0..100u64).map(|i| (i * 10_000, i * 64 + first, sectors, 'W')));
        compared(plan(vec![writes], Vec::new()))
    };
    let moved = |run: &CandidateRun| {
        let devices = run.devices.iter();
        devices.fold((0, 0), |(read, written), d| (read + d.read_bytes, written + d.written_bytes))
    };
    let told = |of: &Comparison| of.caveats.iter().any(|line| line.contains("t: 100 of 100 requests (100.0 %) do not"));
    let (inside, across, whole) = (sectors_from(1, 1), sectors_from(7, 2), sectors_from(8, 8));
    assert_eq!([&inside, &across, &whole].map(told), [true, true, false]);
    for (comparison, blocks) in [(&inside, 1), (&across, 2), (&whole, 0)] {
        for run in &comparison.runs {
            let (read, written) = moved(run);
            assert_eq!((read, run.failed), (100 * 4096 * blocks, 0), "{}", run.name);
            // What a write cache still holds at the end has not reached a disk.
            assert!(written <= 100 * 4096 * blocks.max(1) && written > 0, "{}: {written}", run.name);
        }
    }
}

#[test]
fn the_embedded_traces_hold_what_their_page_says() {
    let load = |trace: &Trace| trace.load(&Limit::default(), Load::Open, 0).unwrap().facts;
    let facts: Vec<_> = Trace::embedded().iter().flat_map(load).collect();
    let told: Vec<_> = facts.iter().map(|f| (f.volume.as_str(), f.requests, f.repeats, f.damage.clone())).collect();
    assert_eq!(told, [("linux-mysql", 80_794, 0, None), ("linux-webserver-2", 269_007, 90_729, None)]);
}

#[test]
fn the_embedded_traces_are_those_of_the_data() {
    let unpacked = |input: Box<dyn std::io::Read + Send>| {
        let mut bytes = Vec::new();
        esker_trace_block::unpacked("a trace", input).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    let originals: [&[u8]; 2] = [
        include_bytes!("../../../data/linux-mysql.load.gz"),
        include_bytes!("../../../data/linux-webserver-2.load.gz"),
    ];
    for ((name, packed), original) in crate::input::EMBEDDED.into_iter().zip(originals) {
        assert!(unpacked(Box::new(packed)) == unpacked(Box::new(original)), "{name}");
    }
}

#[test]
fn default_candidates_hold_the_traces_and_pass_the_check() {
    let far = |name: &str, gib: u64| trace(name, [(0, gib << 21, 8, 'R')].into_iter());
    for reach in [1, 700, 3000, 9000] {
        let comparison = compared(plan(vec![far("x.gz", reach), far("x.zst", 1)], Vec::new()));
        let candidates = Candidate::defaults(&comparison.traces, &Making::default()).unwrap();
        for (run, candidate) in comparison.runs.iter().zip(candidates) {
            assert_eq!(candidate.spec.check(esker_kinds::ALL).unwrap().warnings(), []);
            let names: Vec<_> = candidate.spec.exports.iter().map(|export| export.name.as_str()).collect();
            assert_eq!((names, run.fitted.text()), (vec!["x", "x-2"], String::new()), "{} {reach} GiB", run.name);
        }
    }
}

#[test]
fn the_stack_over_files_reads_back_checks_and_names_no_model() {
    let comparison = compared(plan(vec![busy("a", 100), busy("b", 100)], Vec::new()));
    let text = stack_toml(&comparison, "out").unwrap();
    let spec = Spec::parse("stack.toml", &text).unwrap();
    assert_eq!(spec.check(esker_kinds::ALL).unwrap().warnings(), []);
    assert!(spec.devices.iter().all(|device| !device.kind.ends_with("-model")));
    let simulated = Spec::parse("run", &comparison.winner().stack).unwrap();
    let layers = |spec: &Spec| spec.devices.iter().filter(|d| !d.on.is_empty()).cloned().collect::<Vec<_>>();
    assert_eq!(layers(&spec), layers(&simulated), "the layers are those that were simulated");
    assert_eq!(spec.exports[1].nbd.as_deref(), Some("unix:out/b.sock"));
}

#[test]
fn the_page_is_whole_and_asks_nothing_of_the_network() {
    let mut comparison = compared(plan(vec![busy("<a>&", 400)], Vec::new()));
    comparison.runs[0].saturated = Some("it fell <behind>".to_string());
    let origin = Origin { command: "esker try '<a>&'".to_string(), stack: "# stack".to_string() };
    let page = page(&comparison, &origin).unwrap();
    for outside in ["http:", "https:", "//", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "the page holds {outside}");
    }
    assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (7, 7));
    assert!(page.contains("simulated (virtual time)") && page.contains("esker try '&lt;a&gt;&amp;'"));
    assert!(!page.contains("<a>") && !page.contains("NaN"));
    let text = text(&comparison);
    assert!(text.starts_with("simulated (virtual time), seed 1") && text.contains("disk (saturated)"));
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let refused = |plan: ComparisonPlan| plan.compare(&silent()).unwrap_err().to_string();
    assert!(refused(ComparisonPlan::of(Vec::new())).contains("name at least one"));
    let two = candidate("two", "a = memory size=1MiB @\nb = memory size=1MiB @");
    assert!(
        refused(plan(vec![steady("t", 9)], vec![two])).contains("two: exports 2, but the traces have 1 volumes (t)")
    );
    let real = candidate("real", "vol = file path=x size=1MiB @");
    assert!(refused(plan(vec![steady("t", 9)], vec![real])).contains("only in the real world"));
    let none = Limit { requests: Some(0), ..Limit::default() };
    assert!(
        refused(ComparisonPlan { limit: none, ..plan(vec![steady("t", 9)], Vec::new()) }).contains("holds no request")
    );
    let words = Trace::from_bytes("words", Some(Format::Load), b"no trace at all\n".to_vec());
    assert!(refused(plan(vec![words], Vec::new())).contains("words"));
    let fio: String = (0..300).map(|i| format!("0 f{i} add\n{i} f{i} read 0 512\n")).collect();
    let many = Trace::from_bytes("many", None, format!("fio version 3 iolog\n{fio}").into_bytes());
    assert!(refused(plan(vec![many], Vec::new())).contains("at least 300 volumes (f0, f1, f2, f3, f4, ...)"));
}
