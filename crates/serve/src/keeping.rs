//! What keeps reads, so that announcing them helps.

use std::collections::{BTreeMap, BTreeSet};

use esker_stack::text::split_reference;
use esker_stack::{DeviceSpec, Spec};

/// Names of devices and layers over something that keeps what was read: today that is the page cache of files without
/// direct I/O.
pub(crate) fn keeping_reads(spec: &Spec) -> BTreeSet<&str> {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for device in &spec.devices {
        device.on.iter().for_each(|lower| users.entry(split_reference(lower).0).or_default().push(&device.name));
    }
    let is_buffered =
        |device: &&DeviceSpec| device.kind == "file" && device.args.get("direct").is_some_and(|flag| flag == "false");
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<&str> = spec.devices.iter().filter(is_buffered).map(|device| device.name.as_str()).collect();
    while let Some(name) = next.pop() {
        if found.insert(name) {
            next.extend(users.get(name).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_kept_over_a_file_in_the_page_cache_through_ports_and_whatever_stands_between() {
        let text = "a = file path=/a direct=false; b = file path=/b; m = mirror on a,b; v = thin on m; top = pass on v.one; \
                    alone = pass on b";
        let spec = Spec::parse("test", text).unwrap();
        assert_eq!(keeping_reads(&spec).into_iter().collect::<Vec<_>>(), ["a", "m", "top", "v"]);
    }

    #[test]
    fn each_device_is_looked_at_once_however_many_ways_lead_to_it() {
        let mut text = "d0 = file path=/a direct=false".to_string();
        for level in 1..=100 {
            let below = level - 1;
            text += &format!(
                "; l{level} = pass on d{below}; r{level} = pass on d{below}; d{level} = mirror on l{level},r{level}"
            );
        }
        let spec = Spec::parse("test", &text).unwrap();
        assert_eq!(keeping_reads(&spec).len(), 301);
    }
}
