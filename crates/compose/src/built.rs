//! Stacks that can be built: which volumes their devices and layers make, and what is known of each layer.
//!
//! A layer that leaves the volume as it is (it may be inserted, removed and reordered live) shares the volume of what
//! it stands on, so that such neighbours are extensions of one volume and can change places. Every other layer makes
//! volumes of its own, one for each upper port, and sends to the volumes below; so does one that shares what it stands
//! on with another user, because requests of that other one do not pass it. What makes a volume stands below the
//! layers on that volume and above those on the volumes that it is made of, whatever else is wanted: it is *fixed*, and
//! [`PinReason`] says why. If the media are made anew, layers that are fixed only because of what lies on them are not.

use std::collections::BTreeMap;

use crate::set::EXTENSIONS_MAX;
use crate::setting::Properties;

/// How data lies below a layer, which ties the layer to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// As it was written, at the same offsets: without the layer it reads the same.
    Plain,
    /// In an arrangement or an encoding of the layer.
    Arranged,
    /// Beside tables of the layer's own.
    Tables,
}

/// Why a layer keeps its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PinReason {
    /// It keeps tables on its medium.
    Tables,
    /// Data lies on its medium as it arranges or encodes them.
    Arranged,
    /// What it shows differs from what it stands on.
    Shape,
    /// It has several lower or upper ports.
    Ends,
    /// What it stands on has another user.
    Shared,
}

impl PinReason {
    /// In one word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            PinReason::Tables => "tables",
            PinReason::Arranged => "arranged",
            PinReason::Shape => "shape",
            PinReason::Ends => "ends",
            PinReason::Shared => "shared",
        }
    }

    /// As a sentence about "it", for people.
    pub fn why(self) -> &'static str {
        match self {
            PinReason::Tables => "it keeps tables of its own on what it stands on",
            PinReason::Arranged => "it arranges or encodes what lies on what it stands on",
            PinReason::Shape => "its upper port differs from its lower device",
            PinReason::Ends => "it has several ends, and a place above or below it does not say which one is meant",
            PinReason::Shared => "what it stands on has another user",
        }
    }
}

/// A device or layer of a stack's text.
#[derive(Clone, PartialEq, Debug)]
pub struct BuiltDevice {
    /// Its name.
    pub name: String,
    /// What it stands on: `NAME` or `NAME.PORT`; nothing for a leaf.
    pub on: Vec<String>,
    /// What its kind declares of it.
    pub properties: Properties,
    /// Places in `on` to which requests go on; all if its kind does not say.
    pub forward: Option<Vec<usize>>,
    /// The same for requests that it creates.
    pub generate: Option<Vec<usize>>,
    /// Whether its upper port is like its lower device.
    pub is_transparent: bool,
    /// How data lies below it.
    pub medium: Medium,
}

/// A stack that can be built.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Built {
    /// Devices and layers, each before everything that it stands on.
    pub devices: Vec<BuiltDevice>,
    /// What is exported: `NAME` or `NAME.PORT`.
    pub exports: Vec<String>,
    /// Whether the media are made anew, so that what lies on them holds no layer.
    pub is_anew: bool,
}

/// A layer's declaration, as far as the stack tells.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DraftLayer {
    pub name: String,
    pub input: Vec<String>,
    pub output: Vec<String>,
    pub properties: Properties,
    /// Where requests go on to, and where those go that it creates.
    pub forward: Vec<String>,
    pub generate: Vec<String>,
    /// How data lies below it.
    pub medium: Medium,
    /// Why it keeps its place, if it does: then it makes the volumes of its input.
    pub held: Option<PinReason>,
}

/// Declarations that follow from a stack.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Draft {
    /// Names, and whether clients address them.
    pub volumes: Vec<(String, bool)>,
    /// Layers, top first.
    pub layers: Vec<DraftLayer>,
    /// What must stand above what.
    pub above: Vec<(String, String)>,
}

impl Draft {
    pub(crate) fn of(built: &Built) -> Draft {
        let users = users(built);
        let volumes = volumes(built, &users);
        let volume =
            |reference: &String| volumes.get(name_of(reference)).cloned().flatten().unwrap_or(reference.clone());
        let mut draft = Draft::default();
        for device in &built.devices {
            let held = held(built, &users, device);
            let makes = held.is_some();
            let ends = users.keys().filter(|end| name_of(end) == device.name).map(ToString::to_string);
            let made: Vec<String> = if device.on.is_empty() || makes { ends.collect() } else { Vec::new() };
            for name in &made {
                draft.volumes.push((name.clone(), false));
            }
            if !device.on.is_empty() {
                let output: Vec<String> = device.on.iter().map(&volume).collect();
                let input = if makes { made } else { output.clone() };
                // Whatever makes a volume gives requests another target.
                let properties = Properties { mutator: device.properties.mutator || makes, ..device.properties };
                let ends = |places: &Option<Vec<usize>>| match places {
                    Some(places) => places.iter().filter_map(|place| output.get(*place).cloned()).collect(),
                    None => output.clone(),
                };
                let (forward, generate) = (ends(&device.forward), ends(&device.generate));
                let (name, medium) = (device.name.clone(), device.medium);
                draft.layers.push(DraftLayer { name, input, output, properties, forward, generate, medium, held });
            }
        }
        for exported in built.exports.iter().map(volume) {
            draft.volumes.iter_mut().filter(|(name, _)| *name == exported).for_each(|(_, visible)| *visible = true);
        }
        // Larger ones are refused later, and these pairs grow with the square.
        if draft.layers.len() <= EXTENSIONS_MAX {
            draft.above = above(&draft.layers);
        }
        draft
    }
}

/// How often each reference is used; an unused device has its own name as an end.
fn users(built: &Built) -> BTreeMap<&str, usize> {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for reference in built.devices.iter().flat_map(|device| &device.on).chain(&built.exports) {
        *users.entry(reference).or_default() += 1;
    }
    for device in &built.devices {
        let used = users.range(device.name.as_str()..).take_while(|(end, _)| end.starts_with(&device.name));
        if !used.map(|(end, _)| name_of(end)).any(|name| name == device.name) {
            users.insert(&device.name, 0);
        }
    }
    users
}

fn name_of(reference: &str) -> &str {
    reference.split_once('.').map_or(reference, |(name, _)| name)
}

/// Why a layer keeps its place; none if it may change places with its neighbours.
fn held(built: &Built, users: &BTreeMap<&str, usize>, device: &BuiltDevice) -> Option<PinReason> {
    let ports = format!("{}.", device.name);
    let has_ports = || users.range(ports.as_str()..).next().is_some_and(|(end, _)| end.starts_with(&ports));
    match &device.on[..] {
        _ if device.medium == Medium::Tables && !built.is_anew => Some(PinReason::Tables),
        _ if device.medium == Medium::Arranged && !built.is_anew => Some(PinReason::Arranged),
        _ if device.medium == Medium::Plain && !device.is_transparent => Some(PinReason::Shape),
        [below] if !has_ports() => (users.get(below.as_str()) != Some(&1)).then_some(PinReason::Shared),
        _ => Some(PinReason::Ends),
    }
}

/// The volume behind each device, where that is the volume of one below; none where the device makes its own.
fn volumes<'b>(built: &'b Built, users: &BTreeMap<&str, usize>) -> BTreeMap<&'b str, Option<String>> {
    let mut volumes: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for device in built.devices.iter().rev() {
        let shared = match held(built, users, device) {
            Some(_) => None,
            None => {
                let below = &device.on[0];
                Some(volumes.get(name_of(below)).cloned().flatten().unwrap_or(below.clone()))
            }
        };
        volumes.insert(&device.name, shared);
    }
    volumes
}

fn above(layers: &[DraftLayer]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let meets = |a: &[String], b: &[String]| a.iter().any(|name| b.contains(name));
    for maker in layers.iter().filter(|layer| layer.held.is_some()) {
        for other in layers.iter().filter(|other| other.name != maker.name) {
            if meets(&maker.output, &other.input) {
                pairs.push((maker.name.clone(), other.name.clone()));
            }
            if other.held.is_none() && meets(&maker.input, &other.input) {
                pairs.push((other.name.clone(), maker.name.clone()));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, on: &[&str], is_transparent: bool) -> BuiltDevice {
        let on = on.iter().map(ToString::to_string).collect();
        let properties = if is_transparent { Properties::ACCESSOR } else { Properties::WORST };
        let (name, medium) = (name.to_string(), Medium::Plain);
        BuiltDevice { name, on, properties, forward: None, generate: None, is_transparent, medium }
    }

    fn keeper(name: &str, on: &[&str], medium: Medium) -> BuiltDevice {
        BuiltDevice { medium, ..device(name, on, false) }
    }

    fn built(devices: Vec<BuiltDevice>, exports: &[&str]) -> Built {
        Built { devices, exports: exports.iter().map(ToString::to_string).collect(), is_anew: false }
    }

    fn draft(devices: Vec<BuiltDevice>, exports: &[&str]) -> Draft {
        Draft::of(&built(devices, exports))
    }

    fn held_of(draft: &Draft) -> Vec<(&str, Option<PinReason>)> {
        draft.layers.iter().map(|layer| (layer.name.as_str(), layer.held)).collect()
    }

    fn domains(draft: &Draft, name: &str) -> (String, String) {
        let layer = draft.layers.iter().find(|layer| layer.name == name).unwrap();
        (layer.input.join(","), layer.output.join(","))
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_string(), b.to_string())
    }

    #[test]
    fn neighbours_that_leave_the_volume_as_it_is_share_it() {
        let draft = draft(vec![device("c", &["b"], true), device("b", &["a"], true), device("a", &[], false)], &["c"]);
        assert_eq!(draft.volumes, [("a".to_string(), true)]);
        assert_eq!(domains(&draft, "c"), pair("a", "a"));
        assert_eq!(domains(&draft, "b"), pair("a", "a"));
        assert_eq!(draft.above, [], "they can change places");
    }

    #[test]
    fn a_layer_that_makes_a_volume_stays_between_its_neighbours() {
        let devices = vec![
            device("top", &["s"], true),
            device("s", &["x", "b"], false),
            device("x", &["a"], true),
            device("a", &[], false),
            device("b", &[], false),
        ];
        let draft = draft(devices, &["top"]);
        assert_eq!(domains(&draft, "s"), pair("s", "a,b"));
        assert_eq!(domains(&draft, "top"), pair("s", "s"));
        assert_eq!(draft.above, [pair("top", "s"), pair("s", "x")]);
        let visible: Vec<&str> = draft.volumes.iter().filter(|(_, v)| *v).map(|(name, _)| name.as_str()).collect();
        assert_eq!(visible, ["s"]);
    }

    #[test]
    fn a_layer_whose_lower_end_has_another_user_makes_a_volume() {
        let devices = vec![device("l", &["a"], true), device("r", &["a"], true), device("a", &[], false)];
        let draft = draft(devices, &["l", "r"]);
        assert_eq!(domains(&draft, "l"), pair("l", "a"));
        assert_eq!(domains(&draft, "r"), pair("r", "a"));
        assert_eq!(draft.above, []);
    }

    #[test]
    fn each_upper_end_that_is_used_is_a_volume() {
        let devices = vec![device("top", &["vm.one"], true), device("vm", &["a"], false), device("a", &[], false)];
        let draft = draft(devices, &["top", "vm.two"]);
        assert_eq!(domains(&draft, "vm"), pair("vm.one,vm.two", "a"));
        assert_eq!(domains(&draft, "top"), pair("vm.one", "vm.one"));
    }

    #[test]
    fn declared_lower_ends_are_all_that_a_layer_sends_to() {
        let mut off = device("off", &["home", "away"], false);
        (off.forward, off.generate) = (None, Some(vec![1]));
        let mut look = device("look", &["off"], false);
        look.properties = Properties::ACCESSOR;
        let draft = draft(vec![look, off, device("home", &[], false), device("away", &[], false)], &["look"]);
        let layer = |name: &str| draft.layers.iter().find(|layer| layer.name == name).unwrap();
        assert_eq!((layer("off").forward.join(","), layer("off").generate.join(",")), pair("home,away", "away"));
        assert_eq!(layer("look").properties, Properties { mutator: true, ..Properties::ACCESSOR });
    }

    #[test]
    fn what_lies_on_the_medium_holds_a_layer_until_the_medium_is_made_anew() {
        let devices = vec![
            keeper("crypt", &["dedup"], Medium::Arranged),
            keeper("dedup", &["tap"], Medium::Tables),
            device("tap", &["align"], true),
            device("align", &["mirror"], false),
            keeper("mirror", &["a", "b"], Medium::Tables),
            device("a", &[], false),
            device("b", &[], false),
        ];
        let kept = built(devices, &["crypt"]);
        let held =
            [Some(PinReason::Arranged), Some(PinReason::Tables), None, Some(PinReason::Shape), Some(PinReason::Tables)];
        let names = ["crypt", "dedup", "tap", "align", "mirror"];
        assert_eq!(held_of(&Draft::of(&kept)), names.into_iter().zip(held).collect::<Vec<_>>());
        let anew = Draft::of(&Built { is_anew: true, ..kept });
        let held = [None, None, None, Some(PinReason::Shape), Some(PinReason::Ends)];
        assert_eq!(held_of(&anew), names.into_iter().zip(held).collect::<Vec<_>>());
        for name in ["crypt", "dedup", "tap"] {
            assert_eq!(domains(&anew, name), pair("align", "align"), "{name} may change places with its neighbours");
        }
    }

    #[test]
    fn a_layer_with_named_ends_or_a_shared_lower_one_is_held_anew_too() {
        let devices = vec![
            device("top", &["vm.one"], true),
            keeper("vm", &["shared"], Medium::Tables),
            keeper("other", &["shared"], Medium::Tables),
            device("shared", &[], false),
        ];
        let draft = Draft::of(&Built { is_anew: true, ..built(devices, &["top", "vm.two", "other"]) });
        assert_eq!(held_of(&draft), [("top", None), ("vm", Some(PinReason::Ends)), ("other", Some(PinReason::Shared))]);
    }

    #[test]
    fn a_device_that_nobody_uses_is_a_volume_that_nobody_sees() {
        assert_eq!(draft(vec![device("a", &[], false)], &[]).volumes, [("a".to_string(), false)]);
    }
}
