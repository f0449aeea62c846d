//! What building a stack would refuse, as far as that can be told without its devices.
//!
//! The layers are built in virtual time, and dropped, over the limits that their devices would have. A device of the
//! real world has the size of the text, or the one that the caller knows. Its block is one of those that such a device
//! may have. A layer is refused only if it is refused with each of them.

use std::collections::BTreeMap;

use esker_block::{Args, Build, Created, Env, Kind, KindError, Limits, Make, Worlds};
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};

use crate::build::{BuildError, mask, volume_name};
use crate::text::check::{lowers_first, strictness};
use crate::text::{DeviceSpec, Spec};

/// Blocks of devices of the real world, in bytes.
const BLOCKS: [u32; 2] = [512, 4096];

impl Spec {
    /// Whatever building this text, which was [checked](Spec::check), would refuse because of sizes and limits. `size`
    /// tells the bytes of a device of the real world whose text does not.
    pub fn trial(&self, kinds: &[&Kind], size: impl Fn(&DeviceSpec) -> Option<u64>) -> Vec<BuildError> {
        let [small, large] = BLOCKS.map(|block| refused(self, kinds, block, &size));
        let both = small.into_iter().filter(|(name, _)| large.contains_key(name));
        let mut errors: Vec<(usize, BuildError)> =
            both.filter_map(|(name, error)| Some((self.devices.iter().position(|d| d.name == name)?, error))).collect();
        errors.sort_by_key(|(at, _)| *at);
        errors.into_iter().map(|(_, error)| error).collect()
    }
}

/// The errors by device, if each device of the real world has blocks of `block` bytes.
fn refused(
    spec: &Spec,
    kinds: &[&Kind],
    block: u32,
    size: &impl Fn(&DeviceSpec) -> Option<u64>,
) -> BTreeMap<String, BuildError> {
    let (sim, pool) = (Sim::new(SimConfig::seeded(1)), Pool::default());
    let (mut ends, mut errors) = (BTreeMap::<String, Limits>::new(), BTreeMap::new());
    for device in lowers_first(spec).into_iter().map(|at| &spec.devices[at]) {
        let Some(kind) = kinds.iter().find(|kind| kind.name == device.kind) else { continue };
        let lowers: Option<Vec<Limits>> = device.on.iter().map(|lower| ends.get(lower).cloned()).collect();
        // What stands on something unknown is unknown.
        let Some(lowers) = lowers else { continue };
        let given = strictness(kind, &device.args).and_then(|(given, _)| Args::read(kind, &given));
        let Ok(args) = given else { continue };
        let created = Created::default();
        let (rt, name) = (&sim.rt(), &device.name);
        let make =
            Make { rt, pool: &pool, name, args: &args, lowers: &lowers, created: &created, env: &Env::default() };
        let known = || args.get("size").map(|_| args.int("size")).or_else(|| size(device));
        match built(kind, &make, block, known) {
            Ok(built) => {
                ends.extend(built.into_iter().map(|(port, limits)| (volume_name(&device.name, &port), limits)))
            }
            // A key or a file: a matter of the world.
            Err(KindError::Outside(_)) => {}
            Err(error) => drop(errors.insert(device.name.clone(), BuildError::of(device, error))),
        }
    }
    errors
}

/// The upper ports by port; none if they cannot be known.
fn built(
    kind: &Kind,
    make: &Make<'_>,
    block: u32,
    size: impl FnOnce() -> Option<u64>,
) -> Result<Vec<(String, Limits)>, KindError> {
    let single = |limits| vec![(String::new(), limits)];
    match kind.build {
        Build::Device(_) if kind.worlds == Worlds::RealOnly => {
            let size = size().filter(|size| *size > 0 && size.is_multiple_of(u64::from(block)));
            Ok(size.map_or_else(Vec::new, |size| single(Limits::plain(size, block))))
        }
        Build::Device(build) => Ok(single(build(make)?.limits().clone())),
        // It may open files; its upper port is like its lower device.
        Build::Layer(_) if kind.transparent => Ok(single(mask(kind, make.lowers[0].clone()))),
        Build::Layer(_) if kind.worlds == Worlds::RealOnly => Ok(Vec::new()),
        Build::Layer(build) => {
            let uppers = build(make)?.uppers.into_iter();
            Ok(uppers.map(|upper| (upper.port, mask(kind, upper.limits))).collect())
        }
    }
}
