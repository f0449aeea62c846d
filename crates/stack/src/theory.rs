//! A stack in the words of the theory (`esker-compose`): what its text says of domains, maps and properties.

use esker_block::{Arity, Ends, Kind, Role};
use esker_compose::setting::Properties;
use esker_compose::{Built, BuiltDevice, Medium};

use crate::text::BuildPlan;
use crate::{DeviceSpec, Spec};

/// What the theory needs to know of a stack's text: domains from its references, maps and properties from its kinds.
pub fn built(spec: &Spec, plan: &BuildPlan, kinds: &[&Kind]) -> Built {
    let device = |at: usize| built_device(&spec.devices[at], kinds);
    let devices = plan.uppers_first().map(device).collect();
    let exports = spec.outlets().map(|outlet| outlet.device.to_string()).collect();
    Built { devices, exports, is_anew: false }
}

fn built_device(device: &DeviceSpec, kinds: &[&Kind]) -> BuiltDevice {
    let kind = kinds.iter().find(|kind| kind.name == device.kind);
    let places = |ends: fn(&Kind) -> Ends| kind.and_then(|kind| places(ends(kind), kind.lowers));
    BuiltDevice {
        name: device.name.clone(),
        on: device.on.clone(),
        properties: kind.map_or(Properties::WORST, |kind| properties(kind)),
        forward: places(|kind| kind.routes.forward),
        generate: places(|kind| kind.routes.generate),
        is_transparent: kind.is_some_and(|kind| kind.transparent),
        medium: kind.map_or(Medium::Tables, |kind| match kind.medium {
            esker_block::Medium::Plain => Medium::Plain,
            esker_block::Medium::Arranged | esker_block::Medium::Encoded => Medium::Arranged,
            esker_block::Medium::Tables => Medium::Tables,
        }),
    }
}

/// What a kind declares, in the words of the theory.
pub fn properties(kind: &Kind) -> Properties {
    match kind.role {
        Role::Accessor => Properties::ACCESSOR,
        Role::Modifier => Properties {
            mutator: true,
            generator: kind.routes.generate != Ends::Nowhere,
            spontaneous: kind.routes.spontaneous,
        },
    }
}

/// The numbers of lower ends; none where only a running layer knows them.
fn places(ends: Ends, lowers: Arity) -> Option<Vec<usize>> {
    match ends {
        Ends::Nowhere => Some(Vec::new()),
        Ends::These(ends) => Some(ends.to_vec()),
        Ends::Same if lowers == Arity::One => Some(vec![0]),
        Ends::All | Ends::Same => None,
    }
}

#[cfg(test)]
mod tests {
    use esker_block::{Bio, Ctx, Extension, Flow, KindError, Layer, Make, Routes, Step};

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

    static LEAF: Kind = Kind { lowers: Arity::None, ..Kind::layer("leaf", "A leaf.", &[], build) };
    static LOOK: Kind = Kind::layer("look", "Looks.", &[], build);
    static CHANGE: Kind =
        Kind { role: Role::Modifier, routes: Routes::FORWARD, ..Kind::layer("change", "Changes.", &[], build) };
    static SPLIT: Kind = Kind {
        role: Role::Modifier,
        lowers: Arity::AtLeast(2),
        transparent: false,
        routes: Routes { generate: Ends::These(&[1]), ..Routes::WORST },
        ..Kind::layer("split", "Has two ends.", &[], build)
    };
    static KINDS: &[&Kind] = &[&LEAF, &LOOK, &CHANGE, &SPLIT];

    #[test]
    fn kinds_tell_the_theory_their_maps_and_properties() {
        let spec = Spec::parse("t", "a = leaf; b = leaf; s = split on a,b; vol = look on s").unwrap();
        let built = built(&spec, &spec.check(KINDS).unwrap(), KINDS);
        let device = |name: &str| built.devices.iter().find(|device| device.name == name).unwrap();
        assert_eq!((device("s").forward.clone(), device("s").generate.clone()), (None, Some(vec![1])));
        assert_eq!(device("s").properties, Properties { mutator: true, generator: true, spontaneous: false });
        assert_eq!(device("vol").properties, Properties::ACCESSOR);
        assert_eq!(properties(&CHANGE), Properties { mutator: true, generator: false, spontaneous: false });
    }
}
