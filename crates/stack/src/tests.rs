//! The loop over small layers that record what they see.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::{
    Arity, Bio, Buf, Ctx, Device, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, OpSet, Param, ParamType,
    Role, Stat, Step, Upper, VolumeId,
};
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::{Rt, sync};

use crate::{DeviceSpec, ExportSpec, LayerOrderError, LiveError, Location, Spec, Stack};

mod served;

const SIZE: u64 = 1 << 20;

/// A leaf that answers after `wait`, and refuses reads of the byte 4096 on.
struct TestLeaf {
    rt: Rt,
    wait: Nanos,
    limits: Limits,
}

impl Device for TestLeaf {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let rt = self.rt.clone();
        match self.wait {
            Nanos::ZERO => Step::Now(bio.ok()),
            wait => Step::later(async move {
                rt.sleep(wait).await;
                bio.ok()
            }),
        }
    }

    fn depth(&self) -> u32 {
        2
    }
}

fn build_leaf(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let limits = Limits { described: true, ..Limits::plain(SIZE, 512) };
    Ok(Rc::new(TestLeaf { rt: make.rt.clone(), wait: make.args.span("wait"), limits }))
}

/// A layer that notes when it saw the last request go down and come up. Each look costs a nanosecond of CPU time, so
/// that times give the order.
struct Watcher {
    mode: String,
    down: Cell<Nanos>,
    up: Cell<Nanos>,
}

fn look(ctx: &Ctx<'_>) -> Nanos {
    ctx.rt.charge(Nanos(1));
    ctx.rt.now().since(Time::ZERO)
}

impl Extension for Watcher {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        self.down.set(look(ctx));
        ctx.scratch = bio.offset();
        let rt = ctx.rt.clone();
        match self.mode.as_str() {
            "stray" => {
                bio.dest = VolumeId(77);
                Step::Now(Flow::Down)
            }
            "answer" => Step::Now(Flow::Done(bio.take().ok())),
            "lose" => Step::Now(Flow::Done(Done { buf: Buf::empty(), ..bio.take().ok() })),
            "wait" => {
                let bio = bio.take();
                Step::later(async move {
                    rt.sleep(Nanos(1_000)).await;
                    Flow::Resume(bio)
                })
            }
            "twice" => {
                let (below, lower, bio) = (ctx.below(), ctx.lower(0), bio.take());
                Step::later(async move {
                    let first = below.submit(Bio::read(0, Buf::described(bio.buf.len(), 0)).to(lower)).await;
                    assert!(first.result.is_ok());
                    Flow::Resume(bio)
                })
            }
            _ => Step::Now(Flow::Down),
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        assert!(ctx.scratch.is_multiple_of(512), "the scratch word of issue comes back");
        self.up.set(look(ctx));
        if self.mode == "shrink" {
            done.buf = Buf::empty();
        }
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, at: &Cell<Nanos>| Stat { name, value: at.get().0 as f64 };
        vec![stat("down_ns", &self.down), stat("up_ns", &self.up)]
    }
}

fn build_watcher(make: &Make<'_>) -> Result<Layer, KindError> {
    let mode = make.args.text("mode").to_string();
    let watcher = Watcher { mode, down: Cell::default(), up: Cell::default() };
    Ok(Layer::single(watcher, make.lowers[0].clone()))
}

/// Two upper ports over two lower ones.
struct Crossing;

impl Extension for Crossing {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        bio.dest = ctx.lower(1 - usize::from(ctx.port));
        Step::Now(Flow::Down)
    }
}

fn build_crossing(make: &Make<'_>) -> Result<Layer, KindError> {
    let upper = |port: &str| Upper { port: port.to_string(), limits: make.lowers[0].clone() };
    Ok(Layer { ext: Rc::new(Crossing), uppers: vec![upper("a"), upper("b")] })
}

static LEAF: Kind = Kind {
    passes: OpSet::ALL,
    ..Kind::device(
        "leaf",
        "A leaf.",
        &[Param::with_default("wait", ParamType::Span, "0", "Time per request.")],
        build_leaf,
    )
};
static WATCHER: Kind = Kind {
    role: Role::Modifier,
    cost: Nanos::ZERO,
    ..Kind::layer(
        "watcher",
        "Watches.",
        &[Param::with_default("mode", ParamType::Text, "pass", "What it does.")],
        build_watcher,
    )
};
static CROSSING: Kind = Kind {
    lowers: Arity::AtLeast(2),
    role: Role::Modifier,
    transparent: false,
    cost: Nanos::ZERO,
    ..Kind::layer("crossing", "Crosses its ports.", &[], build_crossing)
};
static KINDS: [&Kind; 3] = [&LEAF, &WATCHER, &CROSSING];

fn device(name: &str, kind: &str, on: &[&str], arg: Option<(&str, &str)>) -> DeviceSpec {
    let on = on.iter().map(ToString::to_string).collect();
    let args = arg.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    DeviceSpec::new(name, kind, on, args, Location::new("test.toml", 7))
}

fn export(name: &str, device: &str) -> ExportSpec {
    ExportSpec {
        name: name.to_string(),
        device: device.to_string(),
        nbd: None,
        read_only: false,
        at: Location::new("test.toml", 1),
    }
}

/// An export "vol" over watchers of these modes, top first (named w0, w1, ...), over a leaf "d".
fn chain(modes: &[&str], wait: &str) -> Spec {
    let mut devices = vec![device("d", "leaf", &[], Some(("wait", wait)))];
    for (i, mode) in modes.iter().enumerate() {
        let below = if i + 1 < modes.len() { format!("w{}", i + 1) } else { "d".to_string() };
        devices.push(device(&format!("w{i}"), "watcher", &[&below], Some(("mode", mode))));
    }
    let top = devices.last().filter(|_| modes.is_empty()).map_or("w0", |_| "d").to_string();
    Spec { devices, exports: vec![export("vol", &top)], ..Spec::default() }
}

fn build(rt: &Rt, spec: &Spec) -> Rc<Stack> {
    Stack::build(rt, &Pool::default(), &KINDS, spec).unwrap()
}

fn read(len: usize) -> Bio {
    Bio::read(4096, Buf::described(len, 0))
}

/// Runs one read through a chain twice and returns the outcome as text, and what `after` sees.
fn one_read<T: 'static>(modes: &'static [&'static str], after: fn(&Stack) -> T) -> (String, T) {
    twice(SimConfig::seeded(1), move |rt| async move {
        let stack = build(&rt, &chain(modes, "10us"));
        let done = stack.export("vol").unwrap().request(read(4096)).await;
        assert_eq!(done.buf.len(), 4096, "in every case the buffer comes back");
        let outcome = done.result.map_or_else(|e| e.to_string(), |_| "ok".to_string());
        (outcome, after(&stack))
    })
}

fn times(stack: &Stack, stat: usize) -> Vec<f64> {
    stack.stats().iter().filter(|s| s.kind == "watcher").map(|s| s.stats[stat].value).collect()
}

#[test]
fn requests_pass_slots_top_down_and_complete_in_reverse() {
    let (outcome, (down, up)) = one_read(&["pass", "wait", "pass"], |s| (times(s, 0), times(s, 1)));
    assert_eq!(outcome, "ok");
    assert!(down.is_sorted() && down[0] > 0.0, "{down:?}");
    assert!(up.iter().rev().is_sorted() && up[2] > down[2], "{up:?}");
}

#[test]
fn a_layer_that_answers_hides_what_is_below_and_skips_its_own_completion() {
    let (outcome, (down, up)) = one_read(&["pass", "answer", "pass"], |s| (times(s, 0), times(s, 1)));
    assert_eq!(outcome, "ok");
    assert_eq!((down[2], up[1], up[2]), (0.0, 0.0, 0.0));
    assert!(up[0] > down[1]);
}

#[test]
fn generated_requests_enter_below_their_maker() {
    let (outcome, up) = one_read(&["pass", "twice", "pass"], |s| times(s, 1));
    assert_eq!(outcome, "ok");
    assert!(up[2] >= 20_000.0, "the lower layer saw two requests of 10 us each: {up:?}");
}

#[test]
fn a_destination_outside_the_lower_ends_is_refused_and_counted() {
    let (outcome, violations) = one_read(&["pass", "stray"], |s| s.stats()[2].violations);
    assert_eq!(
        (outcome.as_str(), violations),
        ("invalid request: w1 sent a request to volume 77, which is not below it", 1)
    );
}

#[test]
fn a_lost_buffer_latches_the_stack_and_names_who_lost_it() {
    for mode in [&["lose"], &["shrink"]] {
        let (outcome, dead) = one_read(mode, Stack::dead);
        assert!(outcome.contains("w0 gave back a buffer of 0 bytes instead of 4096"), "{outcome}");
        assert!(dead.is_some());
    }
}

#[test]
fn ports_address_the_ends_of_one_layer() {
    let names = twice(SimConfig::seeded(1), |rt| async move {
        let mut spec = chain(&[], "10us");
        spec.devices.push(device("fast", "leaf", &[], None));
        spec.devices.push(device("x", "crossing", &["d", "fast"], None));
        spec.exports = vec![export("slow", "x.b"), export("quick", "x.a")];
        let stack = build(&rt, &spec);
        let mut took = Vec::new();
        for name in ["slow", "quick"] {
            let start = rt.now();
            assert!(stack.export(name).unwrap().request(read(512)).await.result.is_ok());
            took.push(rt.now().since(start));
        }
        took
    });
    assert_eq!(names, [Nanos::micros(10), Nanos::ZERO], "port a leads to lower device 1, port b to 0");
}

#[test]
fn a_leaf_works_on_no_more_than_its_depth_and_classes_do_not_starve_each_other() {
    let (foreground, metadata) = twice(SimConfig::seeded(1), |rt| async move {
        let export = build(&rt, &chain(&[], "10us")).export("vol").unwrap();
        let many: Vec<_> = (0..8).map(|_| rt.spawn("client", export.request(read(512)))).collect();
        rt.yield_now().await;
        let tag = esker_block::Tag { class: esker_block::Class::Metadata, ..Default::default() };
        export.request(read(512).tagged(tag)).await;
        let metadata = rt.now();
        sync::join_all(many).await;
        (rt.now(), metadata)
    });
    assert_eq!(foreground, Time(40_000), "8 requests, 2 at a time, 10 us each");
    assert_eq!(metadata, Time(10_000), "a class of its own does not queue behind the others");
}

#[test]
fn an_order_to_a_closed_stack_is_refused_and_changes_no_count() {
    let (answer, inflight) = twice(SimConfig::seeded(1), |rt| async move {
        let stack = build(&rt, &chain(&["pass"], "10us"));
        stack.close().await;
        (stack.order("w0", &["any".to_string()]).await, stack.shared.admission.inflight())
    });
    assert_eq!((answer, inflight), (Err(LayerOrderError::Ended), 0));
}

#[test]
fn dropping_a_request_in_flight_latches_the_stack() {
    let dead = twice(SimConfig::seeded(1), |rt| async move {
        let stack = build(&rt, &chain(&["pass"], "10us"));
        let request = stack.export("vol").unwrap().request(read(512));
        drop(sync::race(request, rt.sleep(Nanos(1))).await);
        let late = stack.export("vol").unwrap().request(read(512)).await;
        (stack.dead(), late.result.is_err())
    });
    assert_eq!(
        dead,
        (
            Some("the stack is latched: a request was dropped while it was in flight. Restart the server.".to_string()),
            true,
        )
    );
}

#[test]
fn dropping_a_ticket_of_a_request_in_flight_latches_the_stack_and_one_of_a_killed_world_does_not() {
    let dead = twice(SimConfig::seeded(1), |rt| async move {
        let stack = build(&rt, &chain(&["pass"], "10us"));
        let export = stack.export("vol").unwrap();
        let Step::Ticket(first) = export.submit(read(512)) else { panic!("it waits for the leaf") };
        assert!(first.await.result.is_ok());
        assert_eq!((stack.dead(), stack.inflight()), (None, 0));
        let Step::Ticket(second) = export.submit(read(512)) else { panic!("it waits for the leaf") };
        drop(sync::race(second, rt.sleep(Nanos(1))).await);
        (stack.dead(), export.request(read(512)).await.result.is_err())
    });
    let why = "the stack is latched: a request was dropped while it was in flight. Restart the server.";
    assert_eq!(dead, (Some(why.to_string()), true));
    let sim = esker_rt::Sim::new(SimConfig::seeded(1));
    let stack = build(&sim.rt(), &chain(&["pass"], "10us"));
    let step = stack.export("vol").unwrap().submit(read(512));
    sim.kill();
    drop(step);
    assert_eq!(stack.dead(), None);
}

#[test]
fn a_dropped_stack_lets_go_of_its_devices() {
    let sim = esker_rt::Sim::new(SimConfig::seeded(1));
    let stack = build(&sim.rt(), &chain(&["pass", "wait"], "10us"));
    let shared = Rc::downgrade(&stack.shared);
    let export = stack.export("vol").unwrap();
    assert!(sim.block_on(async move { export.request(read(512)).await }).result.is_ok());
    drop(stack);
    assert!(shared.upgrade().is_none(), "a file device would still hold its file and lock");
}

#[test]
fn read_only_exports_refuse_changes_and_allow_reads() {
    let results = twice(SimConfig::seeded(1), |rt| async move {
        let mut spec = chain(&["pass"], "0");
        spec.exports[0].read_only = true;
        let export = build(&rt, &spec).export("vol").unwrap();
        let write = export.request(Bio::write(0, Buf::described(512, 1))).await;
        (write.result.is_err(), export.request(read(512)).await.result.is_ok())
    });
    assert_eq!(results, (true, true));
}

#[test]
fn build_errors_name_the_place_and_the_fix() {
    let check = |spec: Spec, expected: &str| {
        let sim = esker_rt::Sim::new(SimConfig::seeded(1));
        let error = Stack::build(&sim.rt(), &Pool::default(), &KINDS, &spec).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should contain {expected:?}");
    };
    let with = |extra: DeviceSpec| {
        let mut spec = chain(&["pass"], "0");
        spec.devices.push(extra);
        spec
    };
    check(with(device("y", "nothing", &[], None)), "test.toml:7: unknown kind");
    check(
        with(device("y", "watcher", &["nowhere"], None)),
        "there is no device \"nowhere\"; the devices are: d, w0, y",
    );
    check(with(device("y", "watcher", &["y"], None)), "devices stand on each other: y");
    check(with(device("y", "leaf", &["d"], None)), "leaf needs none");
    check(with(device("y", "crossing", &["d"], None)), "at least 2");
    check(with(device("y", "leaf", &[], Some(("size", "3")))), "unknown parameter \"size\"; leaf has: wait");
    check(with(device("y", "leaf", &[], Some(("wait", "soon")))), "expected a time span: ");
    let mut dangling = chain(&["pass"], "0");
    dangling.exports[0].device = "nowhere".to_string();
    check(dangling, "export \"vol\" is on \"nowhere\", but there is no device \"nowhere\"; the devices are: d, w0");
}

/// Keeps requests in flight while `change` runs, and checks that none was lost.
async fn under_load(rt: Rt, stack: Rc<Stack>, change: impl Future<Output = Result<(), LiveError>>) -> (usize, Spec) {
    let export = stack.export("vol").unwrap();
    let stop = Rc::new(Cell::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (export, stop) = (export.clone(), stop.clone());
            rt.spawn("client", async move {
                let mut answered = 0;
                while !stop.get() {
                    assert!(export.request(read(4096)).await.result.is_ok());
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    rt.sleep(Nanos::millis(1)).await;
    let result = change.await;
    rt.sleep(Nanos::millis(1)).await;
    stop.set(true);
    result.unwrap();
    (sync::join_all(clients).await.iter().sum(), stack.spec())
}

fn edges(spec: &Spec) -> Vec<String> {
    let mut edges: Vec<String> = spec.devices.iter().map(|d| format!("{}>{}", d.name, d.on.join(","))).collect();
    edges.extend(spec.exports.iter().map(|e| format!("={}", e.device)));
    edges.sort();
    edges
}

#[test]
fn layers_come_move_and_go_under_load() {
    let patience = Nanos::secs(1);
    let (answered, spec) = twice(SimConfig::seeded(1), move |rt| async move {
        let stack = build(&rt, &chain(&["pass", "wait"], "10us"));
        let live = stack.clone();
        under_load(rt, stack, async move {
            live.insert(device("new", "watcher", &[], None), "d", patience).await?;
            assert_eq!(edges(&live.spec()), ["=w0", "d>", "new>d", "w0>w1", "w1>new"]);
            live.reorder(&["new".into(), "w0".into(), "w1".into()], patience).await?;
            assert_eq!(edges(&live.spec()), ["=new", "d>", "new>w0", "w0>w1", "w1>d"]);
            live.remove("w1", patience).await
        })
        .await
    });
    assert_eq!(edges(&spec), ["=new", "d>", "new>w0", "w0>d"]);
    assert!(answered > 100, "{answered}");
}

#[test]
fn a_change_that_cannot_be_made_leaves_the_stack_as_it_was() {
    let errors = twice(SimConfig::seeded(1), |rt| async move {
        let stack = build(&rt, &chain(&["pass", "pass"], "1s"));
        let before = edges(&stack.spec());
        let slow = rt.spawn("slow", stack.export("vol").unwrap().request(read(512)));
        rt.yield_now().await;
        let short = Nanos::millis(1);
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let results = [
            stack.insert(device("new", "watcher", &[], None), "d", short).await,
            stack.insert(device("w0", "watcher", &[], None), "d", short).await,
            stack.insert(device("new", "crossing", &[], None), "d", short).await,
            stack.remove("d", short).await,
            stack.remove("nobody", short).await,
            stack.reorder(&names(&["w0"]), short).await,
            stack.reorder(&names(&["w0", "d"]), short).await,
        ];
        assert!(slow.await.result.is_ok());
        assert_eq!(edges(&stack.spec()), before);
        assert!(stack.export("vol").unwrap().request(read(512)).await.result.is_ok());
        results.map(|r| r.unwrap_err().to_string())
    });
    let reasons = [
        "still in flight",
        "of this name already",
        "at least 2 devices",
        "a device, not a layer",
        "no \"nobody\"",
        "at least two",
        "a device, not a layer",
    ];
    for (error, reason) in errors.iter().zip(reasons) {
        assert!(error.contains(reason), "{error:?} should contain {reason:?}");
    }
}

/// What each measured end has seen: its name, requests answered, and their latencies added up.
fn seen(stack: &Stack) -> Vec<(String, u64, Nanos)> {
    let ends = stack.stats().into_iter().flat_map(|part| part.ends);
    let op = |end: crate::EndStats| {
        let reads = end.reading?.ops.into_iter().find(|op| op.op == "read");
        Some(reads.map_or((end.name.clone(), 0, Nanos::ZERO), |op| (end.name, op.count, op.time)))
    };
    ends.filter_map(op).collect()
}

#[test]
fn meters_stand_on_every_end_that_is_measured_and_count_on_when_they_come_back() {
    let counts = twice(SimConfig::seeded(1), |rt| async move {
        let mut spec = chain(&[], "10us");
        spec.devices.push(device("fast", "leaf", &[], None));
        spec.devices.push(device("x", "crossing", &["d", "fast"], None));
        spec.exports = vec![export("slow", "x.b"), export("quick", "x.a")];
        let stack = build(&rt, &spec);
        let slow = stack.export("slow").unwrap();
        let mut all = Vec::new();
        for what in [crate::Measure::Off, crate::Measure::Devices, crate::Measure::All, crate::Measure::Devices] {
            stack.measure(what, Nanos::secs(1)).await.unwrap();
            assert!(slow.request(read(512)).await.result.is_ok());
            all.push(
                seen(&stack)
                    .into_iter()
                    .map(|(name, count, _)| format!("{name}={count}"))
                    .collect::<Vec<_>>()
                    .join(" "),
            );
        }
        let took = seen(&stack)[0].2;
        assert!(took >= Nanos::micros(30) && took < Nanos::micros(32), "three reads of 10 us: {took}");
        all
    });
    assert_eq!(counts, ["", "d=1 fast=0", "d=2 fast=0 x.a=0 x.b=1", "d=3 fast=0"]);
}

#[test]
fn a_held_stack_lets_nobody_in_flushes_and_goes_on_when_it_is_let_go() {
    let (held_for, refused) = twice(SimConfig::seeded(1), |rt| async move {
        let stack = build(&rt, &chain(&["pass"], "10us"));
        let export = stack.export("vol").unwrap();
        let held = stack.hold(Nanos::secs(1)).await.unwrap();
        let begun = rt.now();
        let waiting = rt.spawn("client", export.request(read(512)));
        stack.flush_all().await.unwrap();
        let refused = stack.hold(Nanos::secs(1)).await.err().unwrap();
        rt.sleep(Nanos::millis(1)).await;
        assert_eq!(stack.inflight(), 0, "flushes are not let in, they are ours");
        drop(held);
        assert!(waiting.await.result.is_ok());
        (rt.now().since(begun), refused.to_string())
    });
    assert!(held_for >= Nanos::millis(1), "{held_for}");
    assert!(refused.contains("held by another change"), "{refused}");
    let late = twice(SimConfig::seeded(1), |rt| async move {
        let stack = build(&rt, &chain(&[], "10us"));
        let request = rt.spawn("client", stack.export("vol").unwrap().request(read(512)));
        rt.yield_now().await;
        let error = stack.hold(Nanos(10)).await.err().unwrap();
        assert!(request.await.result.is_ok() && stack.hold(Nanos(10)).await.is_ok(), "it runs on");
        error
    });
    assert_eq!(late, LiveError::TimedOut { inflight: 1, waited: Nanos(10) });
}
