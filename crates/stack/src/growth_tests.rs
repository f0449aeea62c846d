//! What a stack costs as it grows and as it is changed again and again: counted, not timed.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Bio, BioError, Buf, Ctx, Device, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, OpSet, OpenContext,
    Param, ParamType, Role, Sizing, Stat, Step, VolumeId,
};
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::{Rt, Sim};

use crate::numbers::GONE;
use crate::text::check::DEPTH_MAX;
use crate::{DeviceSpec, Handled, Location, Measure, Spec, Stack, Watching};

const SIZE: u64 = 1 << 20;
const PATIENCE: Nanos = Nanos::secs(10);

/// A leaf whose answers come after a while, and which is resized in a millisecond.
struct Yard {
    rt: Rt,
    latency: Nanos,
    limits: Limits,
    size: Rc<Cell<u64>>,
}

impl Device for Yard {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn size(&self) -> u64 {
        self.size.get()
    }

    fn can_resize(&self) -> bool {
        true
    }

    fn resize(&self, bytes: u64) -> Step<Result<(), BioError>> {
        let (rt, size) = (self.rt.clone(), self.size.clone());
        Step::later(async move {
            rt.sleep(Nanos::millis(1)).await;
            size.set(bytes);
            Ok(())
        })
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let (rt, latency) = (self.rt.clone(), self.latency);
        match latency {
            Nanos::ZERO => Step::Now(bio.ok()),
            latency => Step::later(async move {
                rt.sleep(latency).await;
                bio.ok()
            }),
        }
    }
}

fn build_yard(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let limits = Limits { described: true, ..Limits::plain(SIZE, 512) };
    let (rt, latency) = (make.rt.clone(), make.args.span("latency"));
    Ok(Rc::new(Yard { rt, latency, limits, size: Rc::new(Cell::new(SIZE)) }))
}

/// A layer that passes requests on and counts how often it is asked for its size. It may do as its mode says:
/// - `sends`: answers at once and sends a request of its own, which nothing waits for;
/// - `grows`: is twice as large from its opening on;
/// - `reads`: reads the last block below when it opens, if that is twice as large as a yard.
struct Part {
    mode: String,
    asked: Cell<u64>,
    is_open: Rc<Cell<bool>>,
}

impl Extension for Part {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if self.mode == "sends" {
            let own = Bio::read(0, Buf::described(512, 0)).to(ctx.lower(0));
            drop(ctx.rt.spawn("own", ctx.below().submit(own).into_future()));
            return Step::Now(Flow::Done(bio.take().ok()));
        }
        Step::Now(Flow::Down)
    }

    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let (is_open, mode) = (self.is_open.clone(), self.mode.clone());
        Step::later(async move {
            opening.rt.sleep(Nanos(1)).await;
            is_open.set(true);
            if mode != "reads" {
                return Ok(());
            }
            let bio = Bio::read(2 * SIZE - 512, Buf::described(512, 0)).to(opening.below.lower(0));
            let done = opening.below.submit(bio).await;
            done.result.map(drop).map_err(|e| KindError::Outside(e.to_string()))
        })
    }

    fn sizing(&self) -> Option<&dyn Sizing> {
        self.asked.set(self.asked.get() + 1);
        (self.mode == "grows").then_some(self)
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "asked", value: self.asked.get() as f64 }]
    }
}

impl Sizing for Part {
    fn size(&self, _: u16) -> u64 {
        if self.is_open.get() { 2 * SIZE } else { SIZE }
    }
}

fn build_part(make: &Make<'_>) -> Result<Layer, KindError> {
    let mode = make.args.text("mode").to_string();
    let part = Part { mode, asked: Cell::default(), is_open: Rc::default() };
    Ok(Layer::single(part, make.lowers[0].clone()))
}

static YARD: Kind = Kind {
    passes: OpSet::ALL,
    ..Kind::device(
        "yard",
        "A leaf.",
        &[Param::with_default("latency", ParamType::Span, "0", "Time of an answer.")],
        build_yard,
    )
};
static PART: Kind = Kind {
    role: Role::Modifier,
    cost: Nanos::ZERO,
    ..Kind::layer(
        "part",
        "Changes its size.",
        &[Param::with_default("mode", ParamType::Text, "pass", "What it does.")],
        build_part,
    )
};
static KINDS: [&Kind; 2] = [&YARD, &PART];

fn stack(rt: &Rt, text: &str) -> Rc<Stack> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    Stack::build(rt, &Pool::default(), &KINDS, &spec).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// `parts` layers, named `p1`, `p2` and so on from the bottom up, over the leaf `d`. Each chain of the greatest depth
/// stands on a leaf of its own.
fn chain(rt: &Rt, parts: u32) -> Rc<Stack> {
    let mut text = "d = yard\n".to_string();
    let mut below = "d".to_string();
    for part in 1..=parts {
        if part > 1 && part % (DEPTH_MAX as u32 - 1) == 1 {
            below = format!("d{part}");
            writeln!(text, "{below} = yard").unwrap();
        }
        writeln!(text, "p{part} = part on {below}").unwrap();
        below = format!("p{part}");
    }
    stack(rt, &text)
}

fn part(name: &str) -> DeviceSpec {
    DeviceSpec::new(name, "part", Vec::new(), [].into(), Location::new("test", 1))
}

fn number(stack: &Stack, name: &str) -> VolumeId {
    stack.parts.borrow().volume(name).unwrap()
}

async fn read(stack: &Rc<Stack>, name: &str, at: u64) -> Result<(), BioError> {
    let device = stack.device(name).unwrap();
    device.request(Bio::read(at, Buf::described(512, 0))).await.result.map(drop)
}

#[test]
fn each_layer_is_asked_for_its_size_a_few_times_at_the_start_however_many_there_are() {
    let asked = |parts: u32| {
        twice(SimConfig::seeded(1), move |rt| async move {
            let stack = chain(&rt, parts);
            stack.opened().await;
            stack.stats().iter().flat_map(|part| &part.stats).map(|stat| stat.value as u64).max()
        })
    };
    assert_eq!(asked(3), asked(60));
    assert!(asked(3).unwrap() <= 4, "{:?}", asked(3));
}

#[test]
fn the_table_of_hops_is_as_large_as_the_stack() {
    let hops = |parts: u32, what: Measure| {
        twice(SimConfig::seeded(1), move |rt| async move {
            let stack = chain(&rt, parts);
            stack.opened().await;
            stack.measure(what, PATIENCE).await.unwrap();
            stack.snapshot.borrow().hops.len()
        })
    };
    assert_eq!(hops(60, Measure::Off), 1 + 1 + 2 * 60, "nowhere, the leaf, and each layer with its end");
    assert_eq!(hops(60, Measure::All), 1 + 2 + 3 * 60, "and a meter on each");
}

#[test]
fn a_stack_of_more_layers_and_meters_than_there_are_positions_is_refused_and_goes_on() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let stack = chain(&rt, 33_000);
        stack.opened().await;
        let error = stack.measure(Measure::All, PATIENCE).await.unwrap_err().to_string();
        assert!(error.contains("65,535 layers and meters at most"), "{error}");
        assert_eq!((stack.measured(), read(&stack, "p33000", 0).await), (Measure::Off, Ok(())));
    });
}

#[test]
fn a_stack_of_more_ends_than_there_are_numbers_is_refused() {
    let sim = Sim::new(SimConfig::seeded(1));
    let text: String = (0..=u16::MAX).map(|device| format!("d{device} = yard\n")).collect();
    let spec = Spec::parse("test", &text).unwrap();
    let error = Stack::build(&sim.rt(), &Pool::default(), &KINDS, &spec).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("test:65536: device \"d65535\": a stack has 65,535 volumes at most"), "{error}");
}

#[test]
fn a_layer_is_opened_over_the_size_that_the_one_below_got_at_its_opening() {
    let unusable = twice(SimConfig::seeded(1), |rt| async move {
        let stack = stack(&rt, "d = yard; low = part mode=grows on d; mid = part on low; top = part mode=reads on mid");
        let changes = stack.size_changes();
        stack.opened().await;
        assert!(stack.size_changes() > changes);
        assert_eq!(stack.device("top").unwrap().size(), 2 * SIZE);
        stack.stats().iter().find_map(|part| part.unusable.clone())
    });
    // The leaf has no such block, but its contract is checked behind all layers.
    let error = unusable.expect("the leaf refuses it");
    assert!(error.contains("of a device of 1048576"), "{error}");
}

#[test]
fn a_stack_is_changed_more_often_than_there_are_numbers() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let stack = chain(&rt, 1);
        stack.opened().await;
        for _ in 0..=u16::MAX {
            stack.insert(part("new"), "d", PATIENCE).await.unwrap();
            stack.remove("new", PATIENCE).await.unwrap();
        }
        assert_eq!(stack.parts.borrow().numbers.span(), 3, "d, p1 and one that comes and goes");
        assert_eq!(read(&stack, "p1", 0).await, Ok(()));
    });
}

#[test]
fn nothing_is_kept_of_layers_that_have_left_whatever_their_names() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = chain(&rt, 1);
        stack.opened().await;
        stack.measure(Measure::All, PATIENCE).await.unwrap();
        stack.watch(Watching { handlers: true, work: true, strict: false }).unwrap();
        for round in 0..100 {
            let name = format!("new{round}");
            stack.insert(part(&name), "d", PATIENCE).await.unwrap();
            assert_eq!((read(&stack, "p1", 0).await, read(&stack, &name, 0).await), (Ok(()), Ok(())));
            let refused = stack.insert(part("p1"), "d", PATIENCE).await;
            assert!(refused.is_err());
            stack.remove(&name, PATIENCE).await.unwrap();
        }
        let parts = stack.parts.borrow();
        assert_eq!(
            (parts.numbers.span(), parts.volumes.len(), parts.instances.len(), parts.meters.len()),
            (3, 2, 1, 2)
        );
        let gone = |origin: &str| Handled {
            origin: Some(origin.into()),
            last: Some("gone".into()),
            end: Some("d".into()),
            requests: 100,
        };
        let mut handled = stack.handled();
        handled.sort();
        assert_eq!(handled, [gone("gone"), gone("p1")]);
    });
}

#[test]
fn a_number_is_not_given_out_again_while_a_request_holds_an_arrangement_that_knows_it() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = stack(&rt, "d = yard latency=1s; low = part on d; top = part mode=sends on low");
        stack.opened().await;
        let was = number(&stack, "low");
        assert_eq!(read(&stack, "top", 0).await, Ok(()), "its own request is under way for a second");
        assert_eq!(stack.inflight(), 0, "nothing waits for that one");
        stack.remove("low", PATIENCE).await.unwrap();
        stack.insert(part("early"), "d", PATIENCE).await.unwrap();
        assert_ne!(number(&stack, "early"), was);
        rt.sleep(Nanos::secs(2)).await;
        stack.insert(part("late"), "d", PATIENCE).await.unwrap();
        assert_eq!(number(&stack, "late"), was);
    });
}

#[test]
fn a_handle_on_a_layer_that_has_left_leads_nowhere_and_a_layer_of_its_name_has_a_new_one() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = chain(&rt, 1);
        stack.opened().await;
        stack.insert(part("new"), "d", PATIENCE).await.unwrap();
        let (old, was) = (stack.device("new").unwrap(), number(&stack, "new"));
        stack.remove("new", PATIENCE).await.unwrap();
        stack.insert(part("new"), "p1", PATIENCE).await.unwrap();
        assert_eq!(number(&stack, "new"), was, "the number is used again");
        let done = old.request(Bio::read(0, Buf::described(512, 0))).await;
        assert_eq!(
            done.result.unwrap_err().to_string(),
            format!("invalid request: no volume {} in this stack", GONE.0)
        );
        assert!(!old.can_resize());
        assert_eq!(read(&stack, "new", 0).await, Ok(()));
    });
}

#[test]
fn a_resize_that_ends_while_a_change_waits_for_it_lasts() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = chain(&rt, 1);
        stack.opened().await;
        let (live, own) = (stack.clone(), rt.clone());
        let resizing = rt.spawn("resize", async move { live.resize("p1", 2 * SIZE, PATIENCE).await });
        own.yield_now().await;
        assert_eq!(stack.inflight(), 1, "the resize is under way");
        stack.insert(part("new"), "d", PATIENCE).await.unwrap();
        resizing.await.unwrap();
        assert_eq!(stack.device("p1").unwrap().size(), 2 * SIZE);
        assert_eq!(read(&stack, "p1", 2 * SIZE - 512).await, Ok(()));
        let past = ByteRange::new(2 * SIZE, 512).unwrap();
        assert!(read(&stack, "p1", past.start()).await.is_err());
    });
}
