//! Stacks that can be built: which volumes their devices and layers make, and what is known of each layer.
//!
//! A layer that leaves the volume as it is (it may be inserted, removed and reordered live) shares the volume of what it
//! stands on, so that such neighbours are extensions of one volume and can change places. Every other layer makes
//! volumes of its own, one for each upper end, and sends to the volumes below; so does one that shares what it stands
//! on with another user, because requests of that other one do not pass it. What makes a volume stands below the
//! layers on that volume and above those on the volumes that it is made of, whatever else is wanted.

use std::collections::BTreeMap;

use crate::set::EXTENSIONS_MAX;
use crate::setting::Properties;

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
    /// Whether its upper end is like its lower one.
    pub is_transparent: bool,
}

/// A stack that can be built.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Built {
    /// Devices and layers, each before everything that it stands on.
    pub devices: Vec<BuiltDevice>,
    /// What is exported: `NAME` or `NAME.PORT`.
    pub exports: Vec<String>,
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
    /// Whether it makes the volumes of its input.
    makes: bool,
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
    pub fn of(built: &Built) -> Draft {
        let users = users(built);
        let volumes = volumes(built, &users);
        let volume =
            |reference: &String| volumes.get(name_of(reference)).cloned().flatten().unwrap_or(reference.clone());
        let mut draft = Draft::default();
        for device in &built.devices {
            let makes = volumes.get(device.name.as_str()).is_none_or(Option::is_none);
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
                let name = device.name.clone();
                draft.layers.push(DraftLayer { name, input, output, properties, forward, generate, makes });
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

/// How often each reference is used; a device that nobody uses has its own name as an end.
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

/// The volume behind each device, where that is the volume of one below; none where the device makes its own.
fn volumes<'b>(built: &'b Built, users: &BTreeMap<&str, usize>) -> BTreeMap<&'b str, Option<String>> {
    let mut volumes: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for device in built.devices.iter().rev() {
        let shared = match &device.on[..] {
            [below] if device.is_transparent && users.get(below.as_str()) == Some(&1) => {
                Some(volumes.get(name_of(below)).cloned().flatten().unwrap_or(below.clone()))
            }
            _ => None,
        };
        volumes.insert(&device.name, shared);
    }
    volumes
}

fn above(layers: &[DraftLayer]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let meets = |a: &[String], b: &[String]| a.iter().any(|name| b.contains(name));
    for maker in layers.iter().filter(|layer| layer.makes) {
        for other in layers.iter().filter(|other| other.name != maker.name) {
            if meets(&maker.output, &other.input) {
                pairs.push((maker.name.clone(), other.name.clone()));
            }
            if !other.makes && meets(&maker.input, &other.input) {
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
        BuiltDevice { name: name.to_string(), on, properties, forward: None, generate: None, is_transparent }
    }

    fn draft(devices: Vec<BuiltDevice>, exports: &[&str]) -> Draft {
        Draft::of(&Built { devices, exports: exports.iter().map(ToString::to_string).collect() })
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
    fn a_device_that_nobody_uses_is_a_volume_that_nobody_sees() {
        assert_eq!(draft(vec![device("a", &[], false)], &[]).volumes, [("a".to_string(), false)]);
    }
}
