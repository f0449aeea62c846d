//! What holds for the crate as a whole.

use std::rc::Rc;

use esker_block::conformance::{self, Options};
use esker_rt::real::Backend;

use crate::testing::{check_conforms, open};

const TALL: &str = "a = memory size=512KiB block=4096; b = memory size=512KiB block=4096 defer=always; c = memory size=64KiB block=4096; \
    s = stripe chunk=4096 on a, b; vol = concat on s, c | align | emulate staging=8KiB | offset start=512 \
    | delay read=1us jitter=5us | rate iops=10000000 | error probability=0 | pass | stats";

#[test]
fn a_stack_of_all_layers_is_a_device_in_both_worlds() {
    check_conforms(TALL);
    let report = conformance::check_real(Backend::Auto, |rt| Rc::new(open(rt, TALL)), Options::facade(2));
    assert!(report.refused > 0);
}

#[test]
fn described_payloads_go_through() {
    let texts = [
        "vol = null size=1MiB block=4096 | align",
        "a = null size=1MiB; b = null size=1MiB; vol = stripe chunk=4096 on a, b | emulate",
    ];
    for text in texts {
        let options = Options { keeps_data: false, ..Options::facade(3) };
        let report = conformance::check(|rt| Rc::new(open(rt, text)), options);
        assert!(report.answered(esker_block::OpKind::Write) > 0, "{text}");
    }
}

/// The text as the added lines of a diff.
fn added(text: &str) -> String {
    text.lines().map(|line| format!("+{line}\n")).collect()
}

#[test]
fn the_smallest_layers_that_contributors_read_are_those_that_are_built() {
    let read = include_str!("../../../CONTRIBUTING.md");
    let texts = [
        include_str!("pass.rs"),
        include_str!("../../../docs/reference/kinds/pass.md"),
        include_str!("../../layer-kit/tests/blank.rs"),
        include_str!("../../layer-kit/tests/blank.md"),
    ];
    for text in texts {
        assert!(read.contains(&added(text)), "copy this into CONTRIBUTING.md:\n{}", added(text));
    }
}
