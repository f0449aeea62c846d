//! The one list of all kinds of devices and layers.
//!
//! Invariant: holds no logic. The builder of a stack gets this list; nothing else knows a kind by name.

#![forbid(unsafe_code)]

use std::sync::LazyLock;

use esker_block::kind::Kind;

/// Every kind, in the order in which it is shown: devices, models of devices, layers.
pub const ALL: &[&Kind] = &[
    &esker_dev::null::KIND,
    &esker_dev::memory::KIND,
    &esker_dev::file::KIND,
    &esker_dev::raw::KIND,
    &esker_dev_sim::disk_model::KIND,
    &esker_dev_sim::ssd_model::KIND,
    &esker_dev_sim::nvm_model::KIND,
    &esker_dev_sim::array_model::KIND,
    &esker_layers::pass::KIND,
    &esker_layers::offset::KIND,
    &esker_layers::concat::KIND,
    &esker_layers::stripe::KIND,
    &esker_layers::align::KIND,
    &esker_layers::emulate::KIND,
    &esker_layers::crypt::KIND,
    &esker_layers::delay::KIND,
    &esker_layers::rate::KIND,
    &esker_layers::error::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::tap::KIND,
    &esker_layers::verify::KIND,
    &esker_layer_mirror::KIND,
    &esker_layer_logvol::KIND,
    &esker_layer_logvol::thin::KIND,
    &esker_layer_dedup::KIND,
    &esker_layer_cache::KIND,
    &esker_layer_reorg::KIND,
    &esker_layer_spindown::KIND,
    &esker_layer_tier::KIND,
    &esker_layer_offload::KIND,
    &esker_layer_shepherd::KIND,
];

/// The same kinds, with files and block devices that are only read: what a stack writes to them is lost.
pub static REHEARSED: LazyLock<Vec<&'static Kind>> = LazyLock::new(|| {
    let rehearsed: [&'static Kind; 2] = [&esker_dev::rehearsal::FILE, &esker_dev::rehearsal::RAW];
    ALL.iter().map(|kind| rehearsed.into_iter().find(|other| other.name == kind.name).unwrap_or(kind)).collect()
});

#[cfg(test)]
mod tests {
    use esker_block::kind::Build;

    use super::*;

    #[test]
    fn a_rehearsal_has_every_kind_and_creates_no_file() {
        let names = |kinds: &[&Kind]| kinds.iter().map(|kind| kind.name).collect::<Vec<_>>();
        assert_eq!(names(&REHEARSED), names(ALL));
        let created = [esker_dev::file::KIND.build, esker_dev::raw::KIND.build];
        for kind in REHEARSED.iter() {
            let is_real = |build: &Build| match (build, &kind.build) {
                (Build::Device(real), Build::Device(own)) => std::ptr::fn_addr_eq(*real, *own),
                _ => false,
            };
            assert!(!created.iter().any(is_real), "{kind:?}");
        }
    }

    #[test]
    fn names_are_words_and_stand_once() {
        for (at, kind) in ALL.iter().enumerate() {
            assert!(kind.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{kind:?}");
            assert!(ALL[..at].iter().all(|other| other.name != kind.name), "{kind:?} stands twice");
        }
    }

    #[test]
    fn each_format_of_media_has_one_checker() {
        let holds: Vec<&str> = ALL.iter().filter_map(|kind| kind.check).map(|check| check.holds).collect();
        let expected =
            ["mirror", "volume", "dedup", "cache", "area of a reorganised disk", "spindown", "tier", "offload"];
        assert_eq!(holds, expected);
    }

    #[test]
    fn defaults_are_values_of_their_parameters() {
        for (kind, param) in ALL.iter().flat_map(|kind| kind.params.iter().map(move |param| (kind, param))) {
            assert!(param.default.is_none_or(|text| param.read(text).is_ok()), "{kind:?}: {}", param.name);
            assert!(
                !matches!(param.name, "kind" | "on" | "check"),
                "{kind:?}: a stack text has its own `{}`",
                param.name
            );
        }
    }
}
