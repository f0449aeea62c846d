//! The stage of the router's tests: a disk, and layers that do as they are told and tell what they see.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_block::{
    Arity, Bio, BioError, Buf, Ctx, Device, Done, Ends, Extension, Flow, Kind, KindError, Layer, Limits, Make, OpKind,
    OpSet, OpenContext, Param, ParamType, Role, Routes, Stat, Step, Support, Upper, VolumeId,
};
use esker_rt::handle::LogSink;
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::{Event, Level, Rt};

use crate::{Spec, Stack};

pub(super) const SIZE: u64 = 1 << 20;

/// What happened in one world, in order: extensions and devices of these tests tell it as events.
#[derive(Clone, Default)]
pub(super) struct Trace(Rc<RefCell<Vec<String>>>);

impl LogSink for Trace {
    fn event(&mut self, _: Time, event: &Event<'_>) {
        if event.level == Level::Debug {
            self.0.borrow_mut().push(event.text.to_string());
        }
    }
}

impl Trace {
    pub(super) fn of(rt: &Rt) -> Trace {
        let trace = Trace::default();
        rt.set_log(Box::new(trace.clone()));
        trace
    }

    pub(super) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

pub(super) fn note(rt: &Rt, what: std::fmt::Arguments<'_>) {
    rt.log(Level::Debug, what);
}

/// Bytes in memory, answered after a while; or not, before `stuck_until`.
struct Disk {
    rt: Rt,
    name: String,
    limits: Limits,
    latency: Nanos,
    stuck_until: Time,
    bytes: Rc<RefCell<Vec<u8>>>,
}

impl Device for Disk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, mut bio: Bio) -> Step<Done> {
        note(&self.rt, format_args!("{} gets {:?} {}", self.name, bio.op, bio.offset()));
        let (rt, bytes) = (self.rt.clone(), self.bytes.clone());
        let (latency, stuck_until) = (self.latency, self.stuck_until);
        Step::later(async move {
            rt.sleep(latency).await;
            rt.sleep_until(stuck_until).await;
            let at = bio.offset() as usize;
            match bio.op {
                esker_block::Op::Read => bio.buf.fill(0, &bytes.borrow()[at..at + bio.len() as usize]),
                esker_block::Op::Write => bio.buf.copy_to(&mut bytes.borrow_mut()[at..at + bio.len() as usize]),
                _ => {}
            }
            bio.ok()
        })
    }
}

fn build_disk(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let limits = Limits::plain(SIZE, 512).with(OpKind::Zero, Support::No);
    let bytes = Rc::new(RefCell::new(vec![0; SIZE as usize]));
    let (latency, stuck_until) = (make.args.span("latency"), Time(make.args.span("stuck").0));
    Ok(Rc::new(Disk { rt: make.rt.clone(), name: make.name.to_string(), limits, latency, stuck_until, bytes }))
}

/// A layer that does as its mode says, with an upper port for each lower one.
struct Actor {
    rt: Rt,
    name: String,
    mode: String,
    closed: Cell<bool>,
    calls: Cell<u64>,
    spent: Cell<u64>,
}

impl Actor {
    fn spend(&self, rt: &Rt, ns: u64) {
        rt.charge(Nanos(ns));
        self.spent.set(self.spent.get() + ns);
    }

    fn generate(&self, ctx: &Ctx<'_>, lower: usize, len: usize) -> Step<Done> {
        ctx.below().submit(Bio::write(8192, Buf::zeroed(ctx.pool, len)).to(ctx.lower(lower)))
    }
}

impl Extension for Actor {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        assert!(!self.closed.get(), "{} was called after it had left", self.name);
        note(&self.rt, format_args!("{} sees {:?} {} by port {}", self.name, bio.op, bio.offset(), ctx.port));
        self.calls.set(self.calls.get() + 1);
        self.spend(ctx.rt, 100);
        bio.dest = ctx.lower(ctx.port as usize);
        match self.mode.as_str() {
            "redirect" => bio.dest = ctx.lower(1),
            "stray" => bio.dest = VolumeId(77),
            "spoil" => bio.buf = Buf::from_bytes(ctx.pool, &vec![0xee; bio.buf.len()]),
            "shift" => bio.range = esker_base::ByteRange::new(bio.offset() + 512, bio.len()).unwrap(),
            "answer" => return Step::Now(Flow::Done(bio.take().ok())),
            "create" | "create stray" | "create one" => {
                let dest = if self.mode == "create stray" { VolumeId(78) } else { ctx.lower(ctx.port as usize) };
                let created = Bio::write(8192, Buf::zeroed(ctx.pool, 512)).to(dest);
                let (below, bio, name, rt) = (ctx.below(), bio.take(), self.name.clone(), ctx.rt.clone());
                return Step::later(async move {
                    let done = below.submit(created).await;
                    let answer = done.result.map_or_else(|e| e.to_string(), |_| "ok".into());
                    note(&rt, format_args!("{name} created one: {answer}"));
                    Flow::Resume(bio)
                });
            }
            "nested" => drop(ctx.rt.spawn("nested", self.generate(ctx, 0, 512).into_future())),
            "slow" => {
                let (rt, bio) = (ctx.rt.clone(), bio.take());
                return Step::later(async move {
                    rt.sleep(Nanos::micros(3)).await;
                    Flow::Resume(bio)
                });
            }
            _ => {}
        }
        Step::Now(Flow::Down)
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        assert!(!self.closed.get(), "{} was called after it had left", self.name);
        note(&self.rt, format_args!("{} completes", self.name));
        self.spend(ctx.rt, 50);
        match self.mode.as_str() {
            "spoil answer" => done.buf = Buf::from_bytes(ctx.pool, &vec![0xee; done.buf.len()]),
            "fail answer" => done.result = Err(BioError::io("made up")),
            _ => {}
        }
    }

    fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        note(&self.rt, format_args!("{} is asked again", self.name));
        if ctx.scratch != 0 {
            return None;
        }
        ctx.scratch = 1;
        Some(Bio::read(4096, std::mem::replace(&mut done.buf, Buf::empty())).to(ctx.lower(1)))
    }

    fn retries(&self) -> bool {
        self.mode == "again"
    }

    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        note(&self.rt, format_args!("{} opens", self.name));
        match self.mode.as_str() {
            "unusable" => Step::Now(Err(KindError::Outside("its metadata is damaged".into()))),
            "reads first" => Step::later(async move {
                let lower = opening.below.lower(0);
                let done = opening.below.submit(Bio::read(0, Buf::unique(&opening.pool, 512)).to(lower)).await;
                done.result.map(drop).map_err(|e| KindError::Outside(e.to_string()))
            }),
            _ => Step::Now(Ok(())),
        }
    }

    fn quiesce(&self, _: esker_block::Below) -> Step<Result<(), BioError>> {
        note(&self.rt, format_args!("{} settles", self.name));
        Step::Now(if self.mode == "unsettled" { Err(BioError::io("no room")) } else { Ok(()) })
    }

    fn close(&self) {
        note(&self.rt, format_args!("{} closes", self.name));
        self.closed.set(true);
    }

    fn stats(&self) -> Vec<Stat> {
        vec![
            Stat { name: "calls", value: self.calls.get() as f64 },
            Stat { name: "spent_ns", value: self.spent.get() as f64 },
        ]
    }
}

fn build_actor(make: &Make<'_>) -> Result<Layer, KindError> {
    let actor = Actor {
        rt: make.rt.clone(),
        name: make.name.to_string(),
        mode: make.args.text("mode").to_string(),
        closed: Cell::new(false),
        calls: Cell::new(0),
        spent: Cell::new(0),
    };
    if make.lowers.len() == 1 {
        return Ok(Layer::single(actor, make.lowers[0].clone()));
    }
    let upper = |(i, limits): (usize, &Limits)| Upper { port: format!("v{i}"), limits: limits.clone() };
    Ok(Layer { ext: Rc::new(actor), uppers: make.lowers.iter().enumerate().map(upper).collect() })
}

const MODE: &[Param] = &[Param::with_default("mode", ParamType::Text, "pass", "What it does.")];
static DISK: Kind = Kind {
    passes: OpSet::ALL,
    needs_bytes: true,
    ..Kind::device(
        "disk",
        "A disk.",
        &[
            Param::with_default("latency", ParamType::Span, "10us", "Time of an answer."),
            Param::with_default("stuck", ParamType::Span, "0", "No answer comes before this instant."),
        ],
        build_disk,
    )
};
static LOOKER: Kind = Kind::layer("looker", "Looks only, it says.", MODE, build_actor);
static CHANGER: Kind = Kind { role: Role::Modifier, ..Kind::layer("changer", "Changes.", MODE, build_actor) };
/// Declares to send everything to lower device 0.
static KEEPER: Kind = Kind {
    role: Role::Modifier,
    lowers: Arity::AtLeast(1),
    transparent: false,
    routes: Routes { forward: Ends::These(&[0]), generate: Ends::These(&[0]), spontaneous: false },
    ..Kind::layer("keeper", "Keeps all at home.", MODE, build_actor)
};
static WIDE: Kind = Kind {
    role: Role::Modifier,
    lowers: Arity::AtLeast(1),
    transparent: false,
    ..Kind::layer("wide", "Goes anywhere.", MODE, build_actor)
};
pub(super) static KINDS: [&Kind; 5] = [&DISK, &LOOKER, &CHANGER, &KEEPER, &WIDE];

pub(super) fn stack(rt: &Rt, text: &str) -> Rc<Stack> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    Stack::build(rt, &Pool::default(), &KINDS, &spec).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(super) async fn write(stack: &Rc<Stack>, device: &str, byte: u8) -> Result<(), BioError> {
    let device = stack.device(device).unwrap();
    let done = device.request(Bio::write(4096, Buf::from_bytes(stack.pool(), &[byte; 512]))).await;
    done.result.map(drop)
}

pub(super) async fn read(stack: &Rc<Stack>, device: &str) -> Result<Vec<u8>, BioError> {
    let device = stack.device(device).unwrap();
    let done = device.request(Bio::read(4096, Buf::unique(stack.pool(), 512))).await;
    done.result.map(|_| done.buf.to_vec())
}

pub(super) fn violations(stack: &Stack) -> Vec<(String, u64)> {
    stack.stats().into_iter().filter(|p| p.violations > 0).map(|p| (p.name, p.violations)).collect()
}

/// The trace of one write to `device` of a stack.
pub(super) fn trace_of(text: &'static str, device: &'static str) -> Vec<String> {
    twice(SimConfig::seeded(1), move |rt| async move {
        let stack = stack(&rt, text);
        let trace = Trace::of(&rt);
        let result = write(&stack, device, 7).await;
        note(&rt, format_args!("the client gets {}", result.map_or_else(|e| e.to_string(), |()| "ok".into())));
        trace.take()
    })
}
