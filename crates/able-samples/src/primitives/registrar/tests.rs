//! Registering in a small stack.

use std::collections::BTreeMap;

use esker_block::{Bio, Ctx, Extension, Flow, KindError, Layer, Make, Role, Routes, Step};
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};
use esker_stack::Location;

use super::*;

struct Pass;

impl Extension for Pass {
    fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
        Step::Now(Flow::Down)
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Pass, make.lowers[0].clone()))
}

static LOOK: Kind = Kind::layer("look", "Looks.", &[], build);
static CHANGE: Kind =
    Kind { role: Role::Modifier, routes: Routes::FORWARD, ..Kind::layer("change", "Changes.", &[], build) };
static MAKE: Kind = Kind { role: Role::Modifier, ..Kind::layer("make", "Creates.", &[], build) };
static KINDS: &[&Kind] = &[&esker_dev::memory::KIND, &LOOK, &CHANGE, &MAKE];

const GOALS: &str =
    "goals = [\"space\", \"security\"]\n[extension.c]\ngoal = \"security\"\n[extension.m]\ngoal = \"space\"\n";

fn layer(name: &str, kind: &str) -> DeviceSpec {
    DeviceSpec::new(name, kind, vec![], BTreeMap::new(), Location::default())
}

fn above(position: &Position) -> &str {
    &position.above
}

#[test]
fn a_query_lists_every_place_with_its_outcome_and_changes_nothing() {
    twice(SimConfig::seeded(1), |rt| async move {
        let spec = Spec::parse("t", "vol = memory size=1MiB | change | look @").unwrap();
        let text = spec.to_line().replace("vol-1", "c");
        let spec = Spec::parse("t", &text).unwrap();
        let stack = Stack::build(&rt, &Pool::default(), KINDS, &spec).unwrap();
        let goals = GOALS.replace("[extension.c]\ngoal = \"security\"\n", "");
        let registrar = Registrar::new(&stack, KINDS, &goals.replace(", \"security\"", ""));
        let positions = registrar.query(&layer("m", "make")).unwrap();
        let names: Vec<&str> = positions.iter().map(above).collect();
        assert_eq!(names.len(), 3, "above the device and both layers: {names:?}");
        // A layer above that only looks takes dominance in the exact model; only the topmost place keeps it from none.
        for position in &positions {
            let last = position.order.last().map(String::as_str) == Some("m");
            assert_eq!(position.goals.contains(&"space".to_string()), last, "{position:?}");
            assert!(position.starved.is_empty());
        }
        assert_eq!(stack.spec(), spec);
    });
}

#[test]
fn automatic_registration_takes_the_best_place_and_unregistering_undoes_it() {
    twice(SimConfig::seeded(1), |rt| async move {
        let text = "d = memory size=1MiB; c = change on d; vol = look on c; export vol = vol";
        let spec = Spec::parse("t", text).unwrap();
        let stack = Stack::build(&rt, &Pool::default(), KINDS, &spec).unwrap();
        let patience = Nanos::millis(1);
        let registrar = Registrar::new(&stack, KINDS, GOALS);
        let position = registrar.register(layer("m", "make"), patience).await.unwrap();
        assert_eq!((position.above.as_str(), position.goals.clone()), ("d", vec!["space".to_string()]));
        assert_eq!(stack.spec().device("c").unwrap().on, ["m"]);
        registrar.unregister("m", patience).await.unwrap();
        assert_eq!(stack.spec(), spec);
        let position = registrar.register_at(layer("m", "make"), "vol", patience).await.unwrap();
        assert_eq!(position.goals, ["security"], "the layer that changes comes after it");
        registrar.unregister("m", patience).await.unwrap();
        let error = registrar.register_at(layer("m", "make"), "nobody", patience).await.unwrap_err().to_string();
        assert!(error.contains("no \"nobody\""), "{error}");
        let error = registrar.unregister("nobody", patience).await.unwrap_err().to_string();
        assert!(error.contains("no \"nobody\""), "{error}");
        let forbidden = format!("{GOALS}[constraints]\nabove = [[\"m\", \"c\"], [\"c\", \"m\"]]\n");
        let error = Registrar::new(&stack, KINDS, &forbidden).query(&layer("m", "make")).unwrap_err().to_string();
        assert!(error.contains("circle") || error.contains("above"), "{error}");
    });
}
