//! The product that a modelled device stands for.

use esker_dev_sim::catalogue;
use esker_stack::DeviceSpec;
use serde::Serialize;

/// The product that a modelled device stands for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Product {
    /// Maker and model.
    pub name: String,
    /// The profile in the catalogue.
    pub profile: String,
    /// Bytes that one such device holds.
    pub capacity_bytes: u64,
    /// Year of its price; `None` if the stack gives the price.
    pub price_year: Option<u32>,
    /// Bytes that the maker's warranty lets the host write; `None` if the catalogue has no such figure.
    pub rated_writes_bytes: Option<u64>,
    /// Whether a figure of its power, on which energies rest, is an estimate.
    pub power_is_estimated: bool,
}

/// Parameters of power.
const POWERS: [&str; 5] = ["active_w", "idle_w", "standby_w", "spin_up_w", "die_w"];

impl Product {
    /// That of a device of a stack; `None` if it is not in the catalogue.
    pub(crate) fn of(device: &DeviceSpec) -> Option<Product> {
        let kind = esker_kinds::ALL.iter().find(|kind| kind.name == device.kind)?;
        let is_measured = device.args.contains_key("measured");
        let default = kind.param("profile")?.default.filter(|_| !is_measured);
        let profile = device.args.get("profile").map(String::as_str).or(default)?;
        let entry = catalogue::find(kind.name, profile).ok()?;
        let is_given = |name: &str| device.args.contains_key(name);
        Some(Product {
            name: entry.what.clone(),
            profile: profile.to_string(),
            capacity_bytes: entry.capacity(),
            price_year: (!is_given("price_usd")).then_some(entry.year),
            rated_writes_bytes: entry.rated_writes,
            power_is_estimated: POWERS.iter().any(|name| !is_given(name) && entry.is_estimated(name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use esker_stack::Spec;

    use super::*;

    fn product(text: &str) -> Option<Product> {
        Product::of(&Spec::parse("test", text).unwrap().devices[0])
    }

    #[test]
    fn a_profile_has_the_product_s_name_size_and_year_and_other_devices_have_none() {
        let disk = product("vol = disk-model profile=hdd-7200-2021 @").unwrap();
        assert_eq!((disk.capacity_bytes, disk.price_year), (4_000_787_030_016, Some(2021)));
        assert!(disk.name.starts_with("WD Ultrastar") && disk.power_is_estimated);
        assert_eq!(product("vol = disk-model @"), Some(disk), "the default is a profile too");
        assert_eq!(product("vol = disk-model price_usd=1 @").unwrap().price_year, None);
        let powers = "active_w=1 idle_w=1 standby_w=1 spin_up_w=1";
        assert!(!product(&format!("vol = disk-model {powers} @")).unwrap().power_is_estimated);
        assert_eq!(product("vol = memory size=1MiB @"), None);
    }
}
