//! libFuzzer over the target of `esker-fuzz` that the variable `ESKER_FUZZ` names.

#![no_main]

use std::sync::LazyLock;

use esker_fuzz::target::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("ESKER_FUZZ").expect("ESKER_FUZZ names a target of esker-fuzz");
    let found = Target::ALL.into_iter().find(|target| target.name() == name);
    found.unwrap_or_else(|| panic!("{name:?} in ESKER_FUZZ is no target of esker-fuzz"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(promise) = TARGET.try_input(input) {
        panic!("{promise}");
    }
});
