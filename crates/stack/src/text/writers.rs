//! Devices under mounted file systems that something else may change: a file system must be the only writer.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Problem, TextError};
use super::{Outlet, Spec, split_reference};

/// Each mount of which another mount or a writable export may change the device, directly or through layers.
pub(super) fn second_writers(spec: &Spec) -> Vec<TextError> {
    let (outlets, first_mount) = (spec.outlets().collect::<Vec<Outlet<'_>>>(), spec.exports.len());
    let mut found = Vec::new();
    if outlets.len() == first_mount {
        return found;
    }
    let links = Links::of(spec);
    for (at, mount) in outlets.iter().enumerate().skip(first_mount) {
        let reach = links.reach(mount.device);
        // Of two mounts the later one is told.
        let others = outlets[..at].iter().enumerate().filter(|(_, other)| !other.read_only);
        for (number, other) in others.filter(|(_, other)| reach.meets(other.device)) {
            let (what, fix) = match number < first_mount {
                true => ("export", "make that export read-only, or remove one of them"),
                false => ("mount", "remove one of them"),
            };
            let (other, device) = (format!("{what} \"{}\"", other.name), mount.device.to_string());
            let problem = Problem::SecondWriter { mount: mount.name.to_string(), other, device, fix };
            found.push(problem.at(mount.at.clone()));
        }
    }
    found
}

/// What stands on what.
struct Links<'a> {
    /// References by the device that they are on.
    lowers: BTreeMap<&'a str, Vec<&'a str>>,
    /// Devices by what they are on: as referred to, and by its name alone.
    uppers: BTreeMap<&'a str, Vec<&'a str>>,
    uppers_by_name: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Links<'a> {
    fn of(spec: &'a Spec) -> Links<'a> {
        let mut links = Links { lowers: BTreeMap::new(), uppers: BTreeMap::new(), uppers_by_name: BTreeMap::new() };
        for device in &spec.devices {
            for on in &device.on {
                links.lowers.entry(&device.name).or_default().push(on);
                links.uppers.entry(on).or_default().push(&device.name);
                links.uppers_by_name.entry(split_reference(on).0).or_default().push(&device.name);
            }
        }
        links
    }

    fn reach(&self, reference: &'a str) -> Reach<'a> {
        let (mut below, mut waiting) = (BTreeSet::new(), vec![reference]);
        while let Some(next) = waiting.pop() {
            if below.insert(next) {
                waiting.extend(self.lowers.get(split_reference(next).0).into_iter().flatten());
            }
        }
        let (mut above, mut waiting) = (BTreeSet::new(), self.uppers.get(reference).cloned().unwrap_or_default());
        while let Some(next) = waiting.pop() {
            // Each port of a device above may lead here.
            if above.insert(next) {
                waiting.extend(self.uppers_by_name.get(next).into_iter().flatten());
            }
        }
        Reach { below, above }
    }
}

/// Places whose writers may change the bytes of one device or port.
struct Reach<'a> {
    /// It, and everything below it, as referred to.
    below: BTreeSet<&'a str>,
    /// Names of the devices above it.
    above: BTreeSet<&'a str>,
}

impl Reach<'_> {
    fn meets(&self, reference: &str) -> bool {
        self.below.contains(reference) || self.above.contains(split_reference(reference).0)
    }
}
