//! Random volumes and extensions for experiments with the theory of stacking.

use esker_base::Stream;
use esker_compose::Setting;
use esker_compose::set::{Member, VolId, VolSet};
use esker_compose::setting::{Extension, Properties, Route, Volume};

/// What a random setting has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Volumes.
    pub volumes: usize,
    /// Extensions, named `e0` and so on, each with one goal of `g0`, `g1` and `g2`.
    pub extensions: usize,
    /// Volumes of a domain or map at most.
    pub fan_max: usize,
}

/// One volume in four is not visible, but the first is.
pub(crate) fn setting(rng: &mut Stream, size: Size) -> Setting {
    let volume = |at: usize, rng: &mut Stream| Volume {
        name: format!("v{at}"),
        visible: at == 0 || rng.below(4) > 0,
        weight: 1,
    };
    let volumes = (0..size.volumes).map(|at| volume(at, rng)).collect();
    let extensions = (0..size.extensions).map(|at| extension(at, rng, size)).collect();
    Setting { volumes, extensions }
}

fn extension(at: usize, rng: &mut Stream, size: Size) -> Extension {
    let all: VolSet = (0..size.volumes).map(VolId::of).collect();
    let input = some_of(rng, all, size.fan_max);
    let (mutator, generator) = (rng.below(2) == 0, rng.below(2) == 0);
    let output = some_of(rng, all, size.fan_max);
    // An extension that forwards a request to where it was must be able to send there.
    let output = if mutator { output } else { output | input };
    let routes = input.iter().map(|volume| {
        let forward = if mutator { some_of(rng, output, size.fan_max) } else { VolSet::one(volume) };
        let generate = if generator { some_of(rng, output, size.fan_max) } else { VolSet::EMPTY };
        (volume, Route { forward, generate })
    });
    let routes = routes.collect();
    let properties = Properties { mutator, generator, spontaneous: generator && rng.below(3) == 0 };
    let goals = vec![format!("g{}", rng.below(3))];
    Extension::new(&format!("e{at}"), goals, properties, output, routes).expect("maps lie in their domains")
}

/// 1 to `most` members.
fn some_of(rng: &mut Stream, of: VolSet, most: usize) -> VolSet {
    let list: Vec<VolId> = of.iter().collect();
    let count = 1 + rng.below(most.min(list.len()) as u64) as usize;
    let mut some = VolSet::EMPTY;
    while some.len() < count {
        some |= VolSet::one(list[rng.below(list.len() as u64) as usize]);
    }
    some
}
