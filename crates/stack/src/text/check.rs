//! What must hold for a stack text before anything is built, and the order to build in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use esker_base::renamed::{self, Scope};
use esker_block::kind::{Args, Arity, Kind, KindError};

use super::error::{Problem, TextError, TextErrors};
use super::writers::second_writers;
use super::{DeviceSpec, ExportSpec, Location, MountSpec, Spec, address, is_sound_name, split_reference};

/// More names than this are not listed in a message.
const LISTED_MAX: usize = 40;

/// Most devices and layers on the way from an upper port to a leaf.
pub const DEPTH_MAX: usize = 64;

/// How alike two words must be for one to be offered in place of the other (Jaro-Winkler, from 0 to 1).
const ALIKE: f64 = 0.8;

/// The outcome of a check: the order to build in, and what is odd but no error.
#[derive(Clone, PartialEq, Debug)]
pub struct BuildPlan {
    order: Vec<usize>,
    warnings: Vec<TextError>,
}

impl BuildPlan {
    /// Indices of the devices, each after everything that it stands on; the order of the text decides otherwise.
    pub fn lowers_first(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.order.iter().copied()
    }

    /// Indices of the devices, each before everything that it stands on.
    pub fn uppers_first(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.order.iter().rev().copied()
    }

    /// What is odd but no error.
    pub fn warnings(&self) -> &[TextError] {
        &self.warnings
    }
}

impl Spec {
    /// Checks everything that can be known before building: names, kinds, parameters, references, cycles, the number of
    /// lower devices, addresses. Whether sizes and ports fit is known only to the devices themselves.
    ///
    /// # Errors
    /// All of what is wrong, in the order of the text.
    pub fn check(&self, kinds: &[&Kind]) -> Result<BuildPlan, TextErrors> {
        let index = Index::new(self);
        let mut found = Vec::new();
        self.check_names(&mut found);
        for device in &self.devices {
            check_kind(device, kinds, &mut found);
            for reference in &device.on {
                let what = format!("device \"{}\"", device.name);
                found.extend(index.missing(&what, reference).map(|problem| problem.at(device.place_of("on"))));
            }
        }
        for export in &self.exports {
            let what = format!("export \"{}\"", export.name);
            found.extend(index.missing(&what, &export.device).map(|problem| problem.at(export.at.clone())));
            found.extend(check_address(export));
        }
        for mount in &self.mounts {
            let what = format!("mount \"{}\"", mount.name);
            let missing = mount.device.iter().filter_map(|device| index.missing(&what, device));
            found.extend(missing.map(|problem| problem.at(mount.at.clone())));
            found.extend(check_dir(mount));
        }
        found.extend(second_writers(self));
        let order = index.order();
        found.extend(index.too_deep(&order));
        found.extend(
            index.cycles(&order).into_iter().map(|(at, path)| Problem::Cycle(path).at(self.devices[at].place_of("on"))),
        );
        TextErrors::none(found)?;
        Ok(BuildPlan { order, warnings: self.unused() })
    }

    fn check_names(&self, found: &mut Vec<TextError>) {
        let devices = self.devices.iter().map(|d| ("device", d.name.as_str(), &d.at));
        let exports = self.exports.iter().map(|e| ("export", e.name.as_str(), &e.at));
        let mounts = self.mounts.iter().map(|m| ("mount", m.name.as_str(), &m.at));
        let mut known: BTreeMap<(bool, &str), (&'static str, &Location)> = BTreeMap::new();
        for (what, name, at) in devices.chain(exports).chain(mounts) {
            if !is_sound_name(name) {
                found.push(Problem::UnsoundName(name.to_string()).at(at.clone()));
            }
            // Exports and mounts share their names: a status tells both.
            match known.get(&(what == "device", name)) {
                Some((other, first)) => {
                    let what = if what == *other { what } else { "export or mount" };
                    let (name, first) = (name.to_string(), (*first).clone());
                    found.push(Problem::Duplicate { what, name, first }.at(at.clone()));
                }
                None => drop(known.insert((what == "device", name), (what, at))),
            }
        }
    }

    fn unused(&self) -> Vec<TextError> {
        let below = self.devices.iter().flat_map(|d| d.on.iter());
        let outlets = self.outlets().map(|outlet| outlet.device);
        let references = below.map(String::as_str).chain(outlets);
        let used: BTreeSet<&str> = references.map(|reference| split_reference(reference).0).collect();
        let unused = self.devices.iter().filter(|d| !used.contains(d.name.as_str()));
        unused.map(|d| Problem::Unused(d.name.clone()).at(d.at.clone())).collect()
    }
}

/// Kind, parameters and the number of lower devices.
fn check_kind(device: &DeviceSpec, kinds: &[&Kind], found: &mut Vec<TextError>) {
    let Some(kind) = kinds.iter().find(|kind| kind.name == device.kind) else {
        let advice = match renamed::now(Scope::Kind, &device.kind) {
            Some(new) => format!("it is called \"{new}\" now"),
            None => advice(&device.kind, "the kinds are", kinds.iter().map(|kind| kind.name)),
        };
        found.push(Problem::UnknownKind { name: device.kind.clone(), advice }.at(device.place_of("kind")));
        return;
    };
    let mut refuse = |at: Location, source: KindError| {
        found.push(Problem::Param { device: device.name.clone(), source }.at(at));
    };
    let given = match strictness(kind, &device.args) {
        Ok((given, _)) => given,
        Err(error) => {
            refuse(device.place_of(CHECK), error);
            BTreeMap::new()
        }
    };
    for (name, text) in &given {
        let error = match kind.param(name) {
            Some(param) => param.read(text).err(),
            None => Args::read(kind, &BTreeMap::from([(name.clone(), text.clone())])).err(),
        };
        if let Some(error) = error {
            refuse(device.place_of(name), error);
        }
    }
    let must = kind.params.iter().filter(|param| param.default.is_none() && !param.optional);
    for param in must.filter(|param| !device.args.contains_key(param.name)) {
        refuse(device.at.clone(), KindError::MissingParam { param: param.name, kind: kind.name, doc: param.doc });
    }
    found.extend(check_lower_ends(device, kind));
}

/// The parameter that every layer has.
pub(super) const CHECK: &str = "check";

/// The kind's own parameters, and whether the layer is to be held to its kind's declaration (`check=strict`).
pub(crate) fn strictness(
    kind: &Kind,
    args: &BTreeMap<String, String>,
) -> Result<(BTreeMap<String, String>, bool), KindError> {
    let mut given = args.clone();
    let Some(word) = given.remove(CHECK) else { return Ok((given, false)) };
    if kind.lowers == Arity::None {
        return Err(KindError::Unfit("`check` is for layers, which pass requests on; leave it out".into()));
    }
    match word.as_str() {
        "strict" => Ok((given, true)),
        "domains" => Ok((given, false)),
        _ => Err(KindError::BadValue { param: CHECK.into(), text: word, want: "strict or domains".into() }),
    }
}

fn check_lower_ends(device: &DeviceSpec, kind: &Kind) -> Option<TextError> {
    let given = device.on.len();
    let (fits, needed, fix) = match kind.lowers {
        Arity::None => (given == 0, "none".to_string(), "remove `on`".to_string()),
        Arity::One => (given == 1, "one".to_string(), "name one device behind `on`".to_string()),
        Arity::AtLeast(n) => (given >= n, format!("at least {n}"), format!("name at least {n} devices behind `on`")),
    };
    let given = match given {
        0 => "nothing".to_string(),
        1 => "1 device".to_string(),
        n => format!("{n} devices"),
    };
    let problem = Problem::LowerEnds { device: device.name.clone(), given, kind: kind.name, needed, fix };
    (!fits).then(|| problem.at(device.place_of("on")))
}

fn check_address(export: &ExportSpec) -> Option<TextError> {
    let text = export.nbd.as_ref()?;
    let why = address::parse(text).err()?;
    let problem = Problem::Address { export: export.name.clone(), text: text.clone(), why };
    Some(problem.at(export.at.clone()))
}

fn check_dir(mount: &MountSpec) -> Option<TextError> {
    let is_none = mount.dir.is_empty() || mount.dir.contains('\0');
    is_none.then(|| Problem::NoDirectory(mount.name.clone()).at(mount.at.clone()))
}

/// What to write in place of `word`: the nearest of `names`, or what there is, which `listed` introduces ("the kinds
/// are").
pub fn advice<'a>(word: &str, listed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let alike = |name: &&str| strsim::jaro_winkler(word, name);
    let nearest = names.iter().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    match nearest {
        Some(name) if alike(&name) >= ALIKE => format!("did you mean \"{name}\"?"),
        None => "there is none".to_string(),
        Some(_) if names.len() > LISTED_MAX => format!("{listed}: {}, ...", names[..LISTED_MAX].join(", ")),
        Some(_) => format!("{listed}: {}", names.join(", ")),
    }
}

/// Indices of the devices, each after everything that it stands on, without those on a cycle and those above them.
pub(crate) fn lowers_first(spec: &Spec) -> Vec<usize> {
    Index::new(spec).order()
}

/// Devices by name, and the edges between them. Of several devices of one name the first one counts.
struct Index<'a> {
    spec: &'a Spec,
    by_name: BTreeMap<&'a str, usize>,
    /// What each device stands on, without references to nothing.
    lowers: Vec<Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(spec: &'a Spec) -> Index<'a> {
        let mut by_name = BTreeMap::new();
        for (i, device) in spec.devices.iter().enumerate() {
            by_name.entry(device.name.as_str()).or_insert(i);
        }
        let find = |reference: &String| by_name.get(split_reference(reference).0).copied();
        let lowers = spec.devices.iter().map(|d| d.on.iter().filter_map(find).collect()).collect();
        Index { spec, by_name, lowers }
    }

    fn missing(&self, what: &str, reference: &str) -> Option<Problem> {
        let (target, _) = split_reference(reference);
        if self.by_name.contains_key(target) {
            return None;
        }
        let advice = advice(target, "the devices are", self.by_name.keys().copied());
        let (what, reference) = (what.to_string(), reference.to_string());
        Some(Problem::Dangling { what, reference, target: target.to_string(), advice })
    }

    /// The lowest device, in build order, with more than [`DEPTH_MAX`] devices from it down to its deepest leaf.
    fn too_deep(&self, order: &[usize]) -> Option<TextError> {
        let mut depths = vec![1; self.lowers.len()];
        for at in order {
            let below = self.lowers[*at].iter().map(|lower| depths[*lower]).max().unwrap_or(0);
            depths[*at] = below + 1;
            if depths[*at] > DEPTH_MAX {
                let device = &self.spec.devices[*at];
                return Some(Problem::TooDeep(device.name.clone()).at(device.at.clone()));
            }
        }
        None
    }

    /// Lowers first (Kahn 1962), without the devices on a cycle and those above them.
    fn order(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = self.lowers.iter().map(Vec::len).collect();
        let mut uppers = vec![Vec::new(); waiting.len()];
        for (upper, lowers) in self.lowers.iter().enumerate() {
            lowers.iter().for_each(|lower| uppers[*lower].push(upper));
        }
        let mut ready: VecDeque<usize> = (0..waiting.len()).filter(|i| waiting[*i] == 0).collect();
        let mut order = Vec::new();
        while let Some(next) = ready.pop_front() {
            order.push(next);
            for upper in &uppers[next] {
                waiting[*upper] -= 1;
                if waiting[*upper] == 0 {
                    ready.push_back(*upper);
                }
            }
        }
        order
    }

    /// One cycle for each group of devices that stand on each other: where it begins, and its path.
    fn cycles(&self, order: &[usize]) -> Vec<(usize, String)> {
        let mut is_ordered = vec![false; self.lowers.len()];
        order.iter().for_each(|i| is_ordered[*i] = true);
        let mut seen = is_ordered.clone();
        let mut cycles = Vec::new();
        for start in 0..seen.len() {
            let mut walk = Vec::new();
            let mut at = start;
            while !std::mem::replace(&mut seen[at], true) {
                walk.push(at);
                // A device that was not ordered stands on one that was not ordered either.
                let next = self.lowers[at].iter().find(|lower| !is_ordered[**lower]);
                at = *next.expect("some device below was not ordered");
            }
            let Some(first) = walk.iter().position(|i| *i == at) else { continue };
            let names = walk[first..].iter().chain([&at]).map(|i| self.spec.devices[*i].name.as_str());
            cycles.push((at, names.collect::<Vec<_>>().join(" -> ")));
        }
        cycles
    }
}
