//! `able-predicted-vs-observed`: whether the theory says of running stacks what they do.
//!
//! Random extensions with random maps are built as real layers, in a random order, over devices in virtual time.
//! Clients send requests to every visible volume, numbered so that together they take every route that the maps allow;
//! the stack counts the last handlers of the requests of each volume. `mismatches` counts the volumes whose last
//! handlers differ from those of the exact model, and the extensions that starve in one and not in the other.
//! `text_mismatches` counts volumes on which an extension handles requests last and `esker stack explain` does not say
//! so, knowing the stack's text only. `kind_mismatches` counts the same in random stacks of the product's own layers,
//! which may also answer requests themselves. The theory is about requests that reach a volume, and says only which
//! extensions they pass (`kind_answers` were given).

use std::collections::BTreeSet;
use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::{
    Arity, Bio, Buf, Ctx, Extension, Flow, Kind, KindError, Layer, Make, OpKind, OpSet, OpenContext, Param, ParamType,
    Role, Step, Upper,
};
use esker_compose::exact::{Handlers, ModelRun};
use esker_compose::set::{ExtId, ExtSet, VolId};
use esker_compose::{Declaration, Setting};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_stack::theory::built;
use esker_stack::{Handled, Spec, Stack, Watching};

use crate::able_kinds;
use crate::random_setting::{Size, setting};
use esker_lab_kit::{Figure, Lab, LabError};

/// Bytes of a request, and of a device.
const BLOCK: usize = 512;
const SIZE: &str = "1MiB";
/// Targets of a map at most: each layer chooses by one digit of a request's number to this base.
const BASE: u64 = 2;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let stacks = lab.scale(2_000, 50_000);
    let mut rng = Stream::named(lab.seed, "able-predicted-vs-observed");
    let mut sum = Compared::default();
    for number in 0..stacks {
        let size =
            Size { volumes: 2 + rng.below(3) as usize, extensions: 1 + rng.below(5) as usize, fan_max: BASE as usize };
        let setting = setting(&mut rng, size);
        let order = shuffled(&mut rng, &setting);
        let one = compare(lab.seed, &setting, &order, &order)?;
        if one.mismatches + one.text_mismatches > 0 {
            lab.say(format!("stack {number} differs: {}", setting.names(&order).join(" > ")));
        }
        sum.volumes += one.volumes;
        sum.requests += one.requests;
        sum.mismatches += one.mismatches;
        sum.text_mismatches += one.text_mismatches;
    }
    lab.say(format!("{} volumes, {} requests", sum.volumes, sum.requests));
    let kind_stacks = lab.scale(100, 2_000);
    let [kind_mismatches, kind_answers] = of_kinds(kind_stacks, &mut rng, lab)?;
    let figure = |id, value: u64, unit| Figure::alone(id, value as f64, unit);
    Ok(vec![
        figure("stacks", stacks, "random running stacks"),
        figure("volumes", sum.volumes, "volumes compared"),
        figure("requests", sum.requests, "requests counted"),
        figure("mismatches", sum.mismatches, "volumes and extensions that differ"),
        figure("text_mismatches", sum.text_mismatches, "volumes with handlers that the text does not foretell"),
        figure("kind_stacks", kind_stacks, "random running stacks of the product's layers"),
        figure("kind_answers", kind_answers, "requests that layers in them answered themselves"),
        figure("kind_mismatches", kind_mismatches, "volumes in them with handlers that the text does not foretell"),
    ])
}

/// Volumes of stacks of the product's layers that differ from what the texts foretell, and requests that a layer
/// answered.
fn of_kinds(stacks: u64, rng: &mut Stream, lab: &Lab<'_>) -> Result<[u64; 2], LabError> {
    let (mut mismatches, mut answers) = (0, 0);
    for _ in 0..stacks {
        let (spec, handled) = able_kinds::watched(rng, lab.seed)?;
        answers += handled.iter().filter(|h| h.end.is_none()).map(|h| h.requests).sum::<u64>();
        let wrong = text_mismatches(&spec, &handled, esker_kinds::ALL)?;
        if wrong > 0 {
            lab.say(format!("a stack differs from its text: {}", spec.to_line()));
        }
        mismatches += wrong;
    }
    Ok([mismatches, answers])
}

#[derive(Default)]
struct Compared {
    volumes: u64,
    requests: u64,
    mismatches: u64,
    text_mismatches: u64,
}

fn shuffled(rng: &mut Stream, setting: &Setting) -> Vec<ExtId> {
    let mut order: Vec<ExtId> = setting.ids().collect();
    (1..order.len()).rev().for_each(|at| order.swap(at, rng.below(at as u64 + 1) as usize));
    order
}

/// A stack of real layers, and where each volume of the theory begins in it.
struct Real {
    text: String,
    /// The upper port that stands for the volume, above all layers.
    tops: Vec<String>,
}

/// Each layer has an upper port for every volume of its input, and stands on all volumes of its domains as they are
/// below it.
fn real(setting: &Setting, order: &[ExtId]) -> Real {
    let mut tops: Vec<String> = setting.volumes.iter().map(|volume| format!("d-{}", volume.name)).collect();
    let mut lines: Vec<String> = tops.iter().map(|name| format!("{name} = null size={SIZE}")).collect();
    for id in order.iter().rev() {
        let extension = setting.extension(*id);
        let lowers: Vec<VolId> = (extension.input() | extension.output()).iter().collect();
        let place =
            |volume: VolId| lowers.iter().position(|lower| *lower == volume).expect("a domain is below").to_string();
        let places = |set: esker_compose::set::VolSet| set.iter().map(place).collect::<Vec<_>>().join(",");
        let ports: Vec<String> = extension
            .input()
            .iter()
            .map(|volume| {
                let route = extension.route(volume).expect("an input volume has a route");
                format!("{}>{}+{}", place(volume), places(route.forward), places(route.generate))
            })
            .collect();
        let spontaneous = extension.properties().spontaneous;
        let on: Vec<&str> = lowers.iter().map(|lower| tops[index(*lower)].as_str()).collect();
        let name = extension.name();
        let ports_text = ports.join("/");
        let by_itself = if spontaneous { numbers(setting) } else { 0 };
        lines.push(format!("{name} = routed ports={ports_text} by_itself={by_itself} on {}", on.join(",")));
        for volume in extension.input().iter() {
            tops[index(volume)] = format!("{name}.p{}", place(volume));
        }
    }
    for (volume, top) in setting.volumes.iter().zip(&tops).filter(|(volume, _)| volume.visible) {
        lines.push(format!("export {} = {top}", volume.name));
    }
    Real { text: lines.join("\n"), tops }
}

fn index(volume: VolId) -> usize {
    esker_compose::set::Member::index(volume)
}

/// How many numbers a request's number must have so that every choice of every extension is made in every combination.
fn numbers(setting: &Setting) -> u64 {
    let widest = |id: ExtId| {
        let extension = setting.extension(id);
        extension.input().iter().filter_map(|v| extension.route(v)).map(|r| r.forward.len() as u64).max().unwrap_or(1)
    };
    setting.ids().map(widest).product()
}

/// Builds and runs a stack in `order`, and compares it with what the theory says of a stack in the order `foretold`.
fn compare(seed: u64, setting: &Setting, order: &[ExtId], foretold: &[ExtId]) -> Result<Compared, LabError> {
    let real = real(setting, order);
    let spec = Spec::parse("a random stack", &real.text).map_err(|e| LabError::Data(format!("{e}\n{}", real.text)))?;
    let sim = Sim::new(SimConfig::seeded(seed));
    let stack = Stack::build(&sim.rt(), &Pool::default(), KINDS, &spec)?;
    let watching = Watching { work: true, handlers: true, ..Watching::default() };
    stack.watch(watching).map_err(LabError::data)?;
    sim.block_on(send_all(stack.clone(), setting.clone(), numbers(setting)))?;
    let handled = stack.handled();
    let predicted = ModelRun::of(setting, foretold);
    let mut compared = Compared { requests: handled.iter().map(|h| h.requests).sum(), ..Compared::default() };
    for volume in setting.volume_ids() {
        let (top, leaf) = (&real.tops[index(volume)], format!("d-{}", setting.volume(volume).name));
        let visible = setting.volume(volume).visible;
        let seen = observed(setting, &handled, |h| {
            (visible && h.origin.as_deref() == Some(top)) || h.end.as_deref() == Some(&leaf)
        });
        compared.volumes += 1;
        compared.mismatches += u64::from(seen != predicted.handlers(volume));
    }
    let starved: ExtSet = (stack.stats().iter())
        .filter(|part| part.work.requests == 0)
        .filter_map(|part| setting.find(&part.name))
        .collect();
    compared.mismatches += u64::from(starved != predicted.starved());
    compared.text_mismatches = text_mismatches(&spec, &handled, KINDS)?;
    Ok(compared)
}

fn observed(setting: &Setting, handled: &[Handled], concerns: impl Fn(&Handled) -> bool) -> Handlers {
    let mut seen = Handlers::default();
    for one in handled.iter().filter(|one| concerns(one)) {
        match one.last.as_deref().and_then(|name| setting.find(name)) {
            Some(id) => seen.extensions |= ExtSet::one(id),
            None => seen.unhandled = true,
        }
    }
    seen
}

/// Volumes of the stack's text with handlers that its own analysis does not know.
fn text_mismatches(spec: &Spec, handled: &[Handled], kinds: &[&'static Kind]) -> Result<u64, LabError> {
    let wrong = |what: String| LabError::Data(format!("the stack's text: {what}"));
    let plan = spec.check(kinds).map_err(|e| wrong(e.to_string()))?;
    let declared = Declaration::of_stack("stack", &built(spec, &plan, kinds)).map_err(|e| wrong(e.to_string()))?;
    let setting = &declared.setting;
    let predicted = ModelRun::of(setting, &declared.order);
    let differs = |volume: &VolId| {
        let name = &setting.volume(*volume).name;
        let seen = observed(setting, handled, |h| {
            h.end.is_some() && (h.origin.as_ref() == Some(name) || h.end.as_ref() == Some(name))
        });
        let answering = observed(setting, handled, |h| h.end.is_none() && h.origin.as_ref() == Some(name));
        let foretold = predicted.handlers(*volume);
        !seen.extensions.within(foretold.extensions)
            || (seen.unhandled && !foretold.unhandled)
            || !answering.extensions.within(predicted.seeing(*volume))
    };
    Ok(setting.volume_ids().filter(differs).count() as u64)
}

/// Sends `numbers` requests to each export, and waits until what layers send by themselves has come through too.
async fn send_all(stack: Rc<Stack>, setting: Setting, numbers: u64) -> Result<(), LabError> {
    for volume in setting.volumes.iter().filter(|volume| volume.visible) {
        let export = stack.export(&volume.name).expect("every visible volume is exported");
        for number in 0..numbers {
            let mut bio = Bio::write(0, Buf::described(BLOCK, 1));
            bio.tag.trace = number;
            export.request(bio).await.result?;
        }
    }
    stack.rt().sleep(Nanos::secs(1)).await;
    Ok(())
}

static KINDS: &[&Kind] = &[&esker_dev::null::KIND, &ROUTED];

/// What becomes of requests that come in by one upper port: places among the lower devices.
struct Port {
    forward: Vec<usize>,
    generate: Vec<usize>,
}

/// A layer that takes its routes from its text.
struct Routed {
    ports: Rc<Vec<Port>>,
    by_itself: u64,
}

static ROUTED: Kind = Kind {
    lowers: Arity::AtLeast(1),
    role: Role::Modifier,
    transparent: false,
    passes: OpSet::of(&[OpKind::Write]),
    routes: esker_block::Routes { spontaneous: true, ..esker_block::Routes::WORST },
    ..Kind::layer(
        "routed",
        "Sends requests where its text says.",
        &[
            Param::required("ports", ParamType::Text, "Upper ports: place>forward,forward+created,created/..."),
            Param::with_default(
                "by_itself",
                ParamType::Count,
                "0",
                "Requests that it creates for each target unasked.",
            ),
        ],
        build,
    )
};

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let mut ports = Vec::new();
    let mut uppers = Vec::new();
    for text in make.args.text("ports").split('/') {
        let (place, routes) = text.split_once('>').expect("the experiment's own text");
        let (forward, generate) = routes.split_once('+').expect("the experiment's own text");
        let places = |list: &str| list.split(',').filter_map(|place| place.parse().ok()).collect();
        ports.push(Port { forward: places(forward), generate: places(generate) });
        uppers.push(Upper { port: format!("p{place}"), limits: make.lowers[0].clone() });
    }
    let routed = Routed { ports: Rc::new(ports), by_itself: make.args.int("by_itself") };
    Ok(Layer { ext: Rc::new(routed), uppers })
}

fn created(number: u64) -> Bio {
    let mut bio = Bio::write(0, Buf::described(BLOCK, 2));
    bio.tag.trace = number;
    bio
}

impl Extension for Routed {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let port = &self.ports[ctx.port as usize];
        // Each layer uses up one digit of the request's number, so that the layers below choose independently.
        let (digit, rest) = (bio.tag.trace % BASE, bio.tag.trace / BASE);
        bio.tag.trace = if port.forward.len() > 1 { rest } else { bio.tag.trace };
        bio.dest = ctx.lower(port.forward[digit as usize % port.forward.len()]);
        if port.generate.is_empty() {
            return Step::Now(Flow::Down);
        }
        let (below, bio, ports, at) = (ctx.below(), bio.take(), self.ports.clone(), ctx.port as usize);
        Step::later(async move {
            for lower in &ports[at].generate {
                let done = below.submit(created(bio.tag.trace).to(below.lower(*lower))).await;
                if let Err(error) = done.result {
                    return Flow::Done(bio.fail(error));
                }
            }
            Flow::Resume(bio)
        })
    }

    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        if self.by_itself > 0 {
            let targets: BTreeSet<usize> = self.ports.iter().flat_map(|port| &port.generate).copied().collect();
            let (handle, numbers) = (opening.handle, self.by_itself);
            drop(opening.rt.spawn("by itself", async move {
                for (lower, number) in targets.into_iter().flat_map(|lower| (0..numbers).map(move |n| (lower, n))) {
                    let Some(job) = handle.enter().await else { return };
                    let below = job.below();
                    below.submit(created(number).to(below.lower(lower))).await;
                }
            }));
        }
        Step::Now(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_theory_is_right_about_running_stacks() {
        let options = esker_lab_kit::Options { quick: true, seed: 7, scratch: std::path::PathBuf::new() };
        let figures = run(&Lab::new(&options, &mut |_| {})).unwrap();
        let value = |id: &str| figures.iter().find(|figure| figure.id == id).unwrap().value;
        assert!(value("stacks") >= 100.0 && value("requests") > 1_000.0);
        assert_eq!((value("mismatches"), value("text_mismatches")), (0.0, 0.0));
        assert_eq!((value("kind_stacks"), value("kind_mismatches")), (100.0, 0.0));
        assert!(value("kind_answers") > 0.0, "layers that answer are among them");
    }

    #[test]
    fn a_stack_in_another_order_than_foretold_is_noticed() {
        let mut rng = Stream::named(7, "another order");
        let noticed = (0..50).filter(|_| {
            let setting = setting(&mut rng, Size { volumes: 3, extensions: 4, fan_max: BASE as usize });
            let order: Vec<ExtId> = setting.ids().collect();
            let reversed: Vec<ExtId> = order.iter().rev().copied().collect();
            compare(7, &setting, &order, &reversed).unwrap().mismatches > 0
        });
        assert!(noticed.count() > 25);
    }
}
