//! Does a layer keep its promises in every state that a power cut can leave? Two answers: a mirror does, and a device
//! below that forgets flushes is found out.
//!
//! `cargo run -p esker --example crash_states`

use std::rc::Rc;

use esker::block::conformance::Options;
use esker::block::{Bio, Ctx, Device, Env, Extension, Flow, Kind, KindError, Layer, Make, Op, Step};
use esker::rt::Rt;
use esker::rt::mem::Pool;
use esker_stack::{Spec, Stack};
use esker_testkit::Bound;
use esker_testkit::power::{self, RECORDED};

/// Answers flushes and passes none on.
struct Forgetful;

impl Extension for Forgetful {
    fn issue(&self, _: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        bio.flags.fua = false;
        Step::Now(if bio.op == Op::Flush { Flow::Done(bio.take().ok()) } else { Flow::Down })
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Forgetful, make.lowers[0].clone()))
}

static FORGETFUL: Kind = Kind::layer("forgetful", "Forgets flushes.", &[], build);

fn search(text: &'static str) {
    let kinds: Vec<&Kind> = esker::kinds::ALL.iter().copied().chain([&RECORDED, &FORGETFUL]).collect();
    let kinds: &'static [&Kind] = kinds.leak();
    let open = move |rt: &Rt, env: &Env| {
        let spec = Spec::parse("example", text).expect("the text is sound");
        let stack = Stack::build_with(rt, &Pool::default(), kinds, &spec, env.clone()).expect("the stack is sound");
        Rc::new(stack.device("v").expect("the text names it")) as Rc<dyn Device>
    };
    match power::check(open, Options::power_cuts(1), Bound { states_max: 10, seed: 1 }) {
        Ok(count) => println!("{text}\n  {} states behind {} events: nothing is lost", count.states, count.points),
        Err(broken) => println!("{text}\n  {broken}"),
    }
}

fn main() {
    search("a = recorded size=1MiB; b = recorded size=1MiB; v = mirror on a, b @");
    search("a = recorded size=1MiB; v = forgetful on a @");
}
