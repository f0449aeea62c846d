//! `esker kinds` tells all of the devices that models can be.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program")]

use std::process::Command;

fn kinds(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_esker")).arg("kinds").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_profile_says_what_it_is_what_it_costs_and_what_is_estimated() {
    let kind: serde_json::Value = serde_json::from_str(&kinds(&["ssd-model", "--json"])).unwrap();
    let profiles = kind["profiles"].as_array().unwrap();
    let find = |name: &str| profiles.iter().find(|profile| profile["name"] == name).unwrap();
    let expected = serde_json::json!({
        "name": "ssd-nvme-2022", "kind": "ssd-model", "product": "Samsung 990 PRO, 2 TB", "note": null, "year": 2022,
        "capacity_bytes": 2_000_398_934_016_u64, "price_usd": 290.0, "price_is_estimated": false,
        "power_is_estimated": true, "default": true,
    });
    assert_eq!(find("ssd-nvme-2022"), &expected);
    assert_eq!(find("ssd-sata-2021")["default"], false);
}
