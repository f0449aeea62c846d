//! What holds for the layer as a whole. Tests of the acceptance list have its number in their names.

mod crashes;
mod ranking;
mod resting;

use esker_block::Kind;
use esker_stack::Export;
use esker_testkit::bench;

static KINDS: &[&Kind] = &[
    &crate::KIND,
    &esker_testkit::KEPT,
    &esker_dev::memory::KIND,
    &esker_dev_sim::disk_model::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::error::KIND,
    &esker_layers::delay::KIND,
];

const HOME: &str = "h = memory size=1MiB defer=always latency=90us; x = stats on h;";
const FAST: &str = "f = memory size=512KiB defer=always latency=5us; y = stats on f;";

fn with<F: Future<Output = ()> + 'static>(args: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, &format!("{HOME} {FAST} vol = spindown {args} on x, y"), body);
}

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

fn count(vol: &Export, part: &str, name: &str) -> u64 {
    bench::count(vol, part, name) as u64
}

fn kept(bed: u64, args: &str) -> String {
    format!("h = kept bed={bed} size=1MiB; f = kept bed={bed} size=512KiB; vol = spindown {args} on h, f")
}

#[test]
fn a_resting_volume_conforms() {
    for args in ["", "idle_after=1ms pressure=0.2", "idle_after=300us pressure=0", "pressure=1 half_life=1s"] {
        bench::check_conforms(KINDS, &format!("{HOME} {FAST} vol = spindown {args} on x, y"));
    }
    let small = "f = memory size=192KiB defer=always latency=5us; y = stats on f;";
    bench::check_conforms(KINDS, &format!("{HOME} {small} vol = spindown idle_after=1ms pressure=0.5 on x, y"));
}
