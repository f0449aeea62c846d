//! The layer in a stack.

use esker_base::Nanos;
use esker_block::{Bio, Device, Kind, Tag};
use esker_stack::Export;
use esker_testkit::bench::{self, flush, read, sleep, write};

static KINDS: &[&Kind] = &[
    &crate::KIND,
    &esker_testkit::KEPT,
    &esker_dev::memory::KIND,
    &esker_layers::stats::KIND,
    &esker_layers::delay::KIND,
];

const HOME: &str = "h = memory size=1MiB defer=always latency=90us; x = stats on h;";
const AREA: &str = "f = memory size=512KiB defer=always latency=5us; y = stats on f;";
const PAGE: u64 = 4096;

fn with<F: Future<Output = ()> + 'static>(args: &str, body: impl FnOnce(Export) -> F + 'static) {
    bench::with(KINDS, &format!("{HOME} {AREA} vol = reorg {args} on x, y"), body);
}

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

fn count(vol: &Export, part: &str, name: &str) -> u64 {
    bench::count(vol, part, name) as u64
}

async fn done(vol: &Export) {
    bench::until(vol, "vol", "steps_left", 0.0).await;
}

#[test]
fn a_reorganised_disk_conforms() {
    for args in ["", "write_buffer=0.9", "write_buffer=0", "interval=50ms write_buffer=0.5", "interval=20ms tune=true"]
    {
        bench::check_conforms(KINDS, &format!("{HOME} {AREA} vol = reorg {args} on x, y"));
    }
}
