//! From text to a running stack.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::{Args, Build, Created, Env, Kind, KindError, Limits, Make, OpKind, Support, Upper, VolumeId, Worlds};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::audit::watched;
use crate::meters::Measure;
use crate::numbers::Number;
use crate::snapshot::{Handle, Instance, Leaf, Shared, Slot, Snapshot};
use crate::stack::{EndStats, Parts, Stack, Volume};
use crate::text::check::{self as rules, lowers_first};
use crate::text::{DeviceSpec, Location, Spec, split_reference};

/// Why a stack could not be built, and where in its text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}:{}: {what}", .at.file, .at.line)]
pub struct BuildError {
    /// The device, export or mount that is at fault.
    pub at: Location,
    /// What is wrong and what to do.
    pub what: String,
}

impl BuildError {
    pub(crate) fn of(device: &DeviceSpec, what: impl std::fmt::Display) -> BuildError {
        BuildError { at: device.at.clone(), what: format!("device \"{}\": {what}", device.name) }
    }
}

impl Stack {
    /// Builds every device of `spec`, lowest first, connects them and opens them ([`Stack::opened`]).
    ///
    /// # Errors
    /// The first fault, with its place in the text. What was built before it is dropped again, and what was created for
    /// it is removed.
    pub fn build(rt: &Rt, pool: &Pool, kinds: &'static [&'static Kind], spec: &Spec) -> Result<Rc<Stack>, BuildError> {
        Stack::build_with(rt, pool, kinds, spec, Env::default())
    }

    /// The same for a program that hands something to its kinds.
    ///
    /// # Errors
    /// As for [`Stack::build`].
    pub fn build_with(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        env: Env,
    ) -> Result<Rc<Stack>, BuildError> {
        let created = Created::default();
        let stack = Stack::build_closed(Shared::new(rt.clone(), pool.clone(), env), kinds, spec, &created)?;
        stack.check_made()?;
        stack.open_parts();
        created.keep();
        Ok(stack)
    }

    /// The same for a server, which may still fail: what is created is noted in `created`. Each export gets a volume of
    /// its own, where its requests are counted and what they change is tracked.
    ///
    /// # Errors
    /// As for [`Stack::build`].
    pub fn build_served(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        created: &Created,
    ) -> Result<Rc<Stack>, BuildError> {
        let shared = Shared::new(rt.clone(), pool.clone(), Env::default());
        let stack = Stack::build_closed(shared, kinds, spec, created)?;
        stack.check_made()?;
        stack.place_exports()?;
        stack.open_parts();
        Ok(stack)
    }

    /// Opens all layers, lowest first.
    fn open_parts(self: &Rc<Self>) {
        let spec = self.spec();
        self.open_all(lowers_first(&spec).into_iter().map(|at| spec.devices[at].name.clone()).collect());
    }

    /// The same, whatever the media: no layer is opened, and [`Stack::check_made`] was not asked.
    pub(crate) fn build_closed(
        shared: Shared,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        created: &Created,
    ) -> Result<Rc<Stack>, BuildError> {
        check(spec, kinds)?;
        let shared = Rc::new(shared);
        let building = Building { shared: &shared, kinds, created };
        let mut parts = Parts::default();
        let snapshot = build_all(&building, &mut parts, spec)?;
        Ok(Stack::assemble(shared.clone(), kinds, snapshot, spec.clone(), parts))
    }
}

impl Stack {
    /// Builds a layer again over the sizes that its lower devices got when they were opened, if it was built for others
    /// and [follows](esker_block::Follows) them. The layer was not opened yet, and nothing is above it.
    ///
    /// # Errors
    /// It cannot be built over these sizes. The layer stays as it was.
    pub(crate) fn refit(&self, name: &str) -> Result<(), BuildError> {
        let Some(old) = self.parts.borrow().instances.get(name).cloned().filter(|old| !old.kind.transparent) else {
            return Ok(());
        };
        let spec = self.spec.borrow().device(name).expect("every part stands in the text").clone();
        let mut lowers = lower_limits(&self.parts.borrow(), &spec, Some(&self.snapshot.borrow()))?;
        let count = lowers.len();
        let is_kept = |(lower, _): &(usize, (&mut Limits, &u64))| !old.kind.follows.takes(*lower, count);
        lowers.iter_mut().zip(&old.over).enumerate().filter(is_kept).for_each(|(_, (lower, size))| lower.size = *size);
        if lowers.iter().map(|lower| lower.size).eq(old.over.iter().copied()) {
            return Ok(());
        }
        let created = Created::default();
        let building = Building { shared: &self.shared, kinds: self.kinds, created: &created };
        build_over(&building, &mut self.parts.borrow_mut(), &spec, &lowers)?;
        created.keep();
        let arranged = arrange(&self.shared, &self.parts.borrow(), &self.spec.borrow(), self.measured());
        self.adopt(arranged.expect("this arrangement stood before"));
        Ok(())
    }
}

/// Builds all parts and connects them.
fn build_all(building: &Building<'_>, parts: &mut Parts, spec: &Spec) -> Result<Handle, BuildError> {
    for device in lowers_first(spec) {
        build_part(building, parts, &spec.devices[device], None)?;
    }
    let snapshot = arrange(building.shared, parts, spec, Measure::Off)?;
    for (at, outlet) in spec.outlets().enumerate() {
        if !parts.volumes.contains_key(outlet.device) {
            let what = if at < spec.exports.len() { "export" } else { "mount" };
            let what = format!("{what} \"{}\": {}", outlet.name, unknown(parts, outlet.device));
            return Err(BuildError { at: outlet.at.clone(), what });
        }
    }
    Ok(snapshot)
}

/// The first of what is wrong with the text alone.
pub(crate) fn check(spec: &Spec, kinds: &[&Kind]) -> Result<(), BuildError> {
    match spec.check(kinds) {
        Ok(_) => Ok(()),
        Err(errors) => {
            let first = &errors.list()[0];
            Err(BuildError { at: first.place.clone(), what: first.problem.to_string() })
        }
    }
}

/// Where parts are built.
pub(crate) struct Building<'a> {
    pub shared: &'a Rc<Shared>,
    pub kinds: &'static [&'static Kind],
    /// What they create.
    pub created: &'a Created,
}

/// Builds one device or layer of a checked text and numbers its volumes. `sizes` knows the sizes of what runs.
pub(crate) fn build_part(
    building: &Building<'_>,
    parts: &mut Parts,
    spec: &DeviceSpec,
    sizes: Option<&Snapshot>,
) -> Result<(), BuildError> {
    let lowers = lower_limits(parts, spec, sizes)?;
    build_over(building, parts, spec, &lowers)?;
    number_volumes(parts, spec).map_err(|e| BuildError::of(spec, e))
}

/// Builds one device or layer over lower devices with these limits.
fn build_over(
    building: &Building<'_>,
    parts: &mut Parts,
    spec: &DeviceSpec,
    lowers: &[Limits],
) -> Result<(), BuildError> {
    let Building { shared, kinds, created } = *building;
    let fault = |e: &dyn std::fmt::Display| BuildError::of(spec, e);
    let kind = kinds.iter().find(|k| k.name == spec.kind);
    let kind = *kind.ok_or_else(|| fault(&format!("there is no kind \"{}\"; `esker kinds` lists them", spec.kind)))?;
    let (given, strict) = rules::strictness(kind, &spec.args).map_err(|e| fault(&e))?;
    let args = Args::read(kind, &given).map_err(|e| fault(&e))?;
    if kind.worlds == Worlds::RealOnly && shared.rt.is_sim() {
        return Err(fault(&format!("kind \"{}\" exists only in the real world, not in virtual time", kind.name)));
    }
    let Shared { rt, pool, env, .. } = &**shared;
    let make = Make { rt, pool, name: &spec.name, args: &args, lowers, created, env };
    build_kind(kind, &make, parts, spec).map_err(|e| fault(&e))?;
    parts.instances.get(&spec.name).into_iter().for_each(|instance| instance.strict.set(strict));
    Ok(())
}

fn lower_limits(parts: &Parts, spec: &DeviceSpec, sizes: Option<&Snapshot>) -> Result<Vec<Limits>, BuildError> {
    let find = |lower: &String| {
        let built = parts.limits(lower).ok_or_else(|| BuildError::of(spec, unknown(parts, lower)))?;
        let now = parts.volume(lower).and_then(|volume| Some(sizes?.limits(volume)?.size));
        Ok(Limits { size: now.unwrap_or(built.size), ..built.clone() })
    };
    spec.on.iter().map(find).collect()
}

fn unknown(parts: &Parts, name: &str) -> String {
    let device = split_reference(name).0;
    match parts.instances.get(device) {
        Some(instance) => {
            let ports: Vec<String> = instance.uppers.iter().map(|u| volume_name(device, &u.port)).collect();
            format!("there is no \"{name}\"; \"{device}\" has the upper ports {}", ports.join(", "))
        }
        None => {
            let known: Vec<&str> = parts.volumes.keys().map(String::as_str).collect();
            format!("there is no device \"{name}\"; known: {}", known.join(", "))
        }
    }
}

fn build_kind(kind: &'static Kind, make: &Make<'_>, parts: &mut Parts, spec: &DeviceSpec) -> Result<(), KindError> {
    let name = spec.name.clone();
    match kind.build {
        Build::Device(build) => {
            let device = build(make)?;
            check_limits(device.limits())?;
            parts.leaves.insert(name.clone(), Rc::new(Leaf::new(name, kind, device)));
        }
        Build::Layer(build) => {
            let layer = build(make)?;
            layer.uppers.iter().try_for_each(|u| check_limits(&u.limits))?;
            let uppers = layer.uppers.into_iter().map(|u| Upper { limits: mask(kind, u.limits), ..u }).collect();
            let over = make.lowers.iter().map(|lower| lower.size).collect();
            let instance = Instance::new(name.clone(), kind, layer.ext, uppers, over);
            parts.instances.insert(name, Rc::new(instance));
        }
    }
    Ok(())
}

/// What a kind does not pass is refused above it, whatever is below; bytes that it needs must be carried.
pub(crate) fn mask(kind: &Kind, limits: Limits) -> Limits {
    let described = limits.described && !kind.needs_bytes;
    let refused = OpKind::ALL.into_iter().filter(|k| !kind.passes.has(*k));
    refused.fold(Limits { described, ..limits }, |l, k| l.with(k, Support::No))
}

fn check_limits(limits: &Limits) -> Result<(), KindError> {
    let block = u64::from(limits.block);
    if !block.is_power_of_two() || limits.size == 0 || !limits.size.is_multiple_of(block) {
        let size = limits.size;
        let what = format!(
            "a size of {size} bytes is not a whole number (> 0) of blocks of {block} bytes; make it a multiple of {block}"
        );
        return Err(KindError::Unfit(what));
    }
    Ok(())
}

pub(crate) fn volume_name(device: &str, port: &str) -> String {
    if port.is_empty() { device.to_string() } else { format!("{device}.{port}") }
}

/// There is no number left for a volume.
pub(crate) const NUMBERS_SPENT: &str =
    "a stack has 65,535 volumes at most; build it of fewer devices, layers, ports and exports";

fn number_volumes(parts: &mut Parts, spec: &DeviceSpec) -> Result<(), &'static str> {
    for (port, name) in parts.ends(&spec.name).into_iter().enumerate() {
        let number = parts.numbers.take();
        let number = number.ok_or(NUMBERS_SPENT)?;
        parts.volumes.insert(name, Volume { number, port });
    }
    Ok(())
}

/// Slots of one arrangement at most: a request behind the last one has a position, too.
const SLOTS_MAX: usize = u16::MAX as usize;

/// Places the parts as the text says, a slot on the device of each export or mount that has one, and a meter on each
/// end that is measured.
pub(crate) fn arrange(shared: &Rc<Shared>, parts: &Parts, spec: &Spec, measure: Measure) -> Result<Handle, BuildError> {
    let placed = spec.outlets().filter_map(|outlet| shared.exports.place(outlet, parts));
    let (mut slots, mut numbers): (Vec<Slot>, Vec<Rc<Number>>) = placed.unzip();
    let mut leaves = Vec::new();
    for device in lowers_first(spec).into_iter().rev().map(|i| &spec.devices[i]) {
        let own = parts.volumes_of(&device.name);
        slots.extend(meter_slots(parts, &device.name, measure));
        if let Some(leaf) = parts.leaves.get(&device.name) {
            leaves.extend(own.iter().map(|number| (number.volume(), leaf.clone())));
        } else if let Some(instance) = parts.instances.get(&device.name) {
            let uppers = own.iter().map(|number| number.volume()).collect();
            let lowers: Option<Vec<VolumeId>> = device.on.iter().map(|lower| parts.volume(lower)).collect();
            let lowers = lowers.ok_or_else(|| BuildError::of(device, "stands on something that is gone"))?;
            slots.push(watched(Slot::new(instance.clone(), uppers, lowers), &shared.watch));
        }
        if slots.len() > SLOTS_MAX {
            let what = "a stack has 65,535 layers and meters at most, and it is one too many; measure less, or use fewer layers";
            return Err(BuildError::of(device, what));
        }
        numbers.extend(own);
    }
    Ok(Handle::new(Snapshot::new(shared.clone(), slots, leaves, numbers, parts.numbers.span())))
}

fn meter_slots(parts: &Parts, device: &str, measure: Measure) -> Vec<Slot> {
    let slot = |name: String| Some(parts.meters.slot(&name, parts.volume(&name)?, parts.limits(&name)?));
    parts.measured_ends(device, measure).into_iter().filter_map(slot).collect()
}

impl Parts {
    /// The names of a part's upper ports.
    pub(crate) fn ends(&self, device: &str) -> Vec<String> {
        match self.instances.get(device) {
            Some(instance) => instance.uppers.iter().map(|upper| volume_name(device, &upper.port)).collect(),
            None => vec![device.to_string()],
        }
    }

    /// Their numbers.
    fn volumes_of(&self, device: &str) -> Vec<Rc<Number>> {
        self.ends(device).iter().filter_map(|end| Some(self.volumes.get(end)?.number.clone())).collect()
    }

    /// The volume of that name.
    pub(crate) fn volume(&self, name: &str) -> Option<VolumeId> {
        Some(self.volumes.get(name)?.number.volume())
    }

    /// Those of them that are measured.
    fn measured_ends(&self, device: &str, measure: Measure) -> Vec<String> {
        match measure.covers(self.leaves.contains_key(device)) {
            true => self.ends(device),
            false => Vec::new(),
        }
    }

    /// What a part's upper ports tell about themselves.
    pub(crate) fn end_stats(&self, device: &str, snapshot: &Snapshot, measure: Measure) -> Vec<EndStats> {
        let is_measured = measure.covers(self.leaves.contains_key(device));
        let end = |name: String| {
            let reading = if is_measured { self.meters.reading(&name) } else { None };
            Some(EndStats { limits: snapshot.limits(self.volume(&name)?)?.clone(), reading, name })
        };
        self.ends(device).into_iter().filter_map(end).collect()
    }

    /// Limits of the volume of that name.
    pub(crate) fn limits(&self, name: &str) -> Option<&Limits> {
        if let Some(leaf) = self.leaves.get(name) {
            return Some(leaf.device.limits());
        }
        let port = self.volumes.get(name)?.port;
        let uppers = &self.instances.get(split_reference(name).0)?.uppers;
        Some(&uppers.get(port)?.limits)
    }

    /// Forgets a part, its ends and their meters.
    pub(crate) fn forget(&mut self, name: &str) {
        for end in self.ends(name) {
            self.volumes.remove(&end);
            self.meters.forget(&end);
        }
        self.leaves.remove(name);
        self.instances.remove(name);
    }
}

/// Names of devices by what stands directly on them.
pub(crate) fn users(spec: &Spec) -> BTreeMap<&str, Vec<&str>> {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for device in &spec.devices {
        device.on.iter().for_each(|lower| users.entry(lower.as_str()).or_default().push(&device.name));
    }
    spec.outlets().for_each(|outlet| users.entry(outlet.device).or_default().push(outlet.name));
    users
}
