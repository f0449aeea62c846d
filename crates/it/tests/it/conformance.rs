//! Every kind, in a stack of its own, passes the conformance suite of devices.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use esker_block::conformance::{Options, check, check_real};
use esker_block::kind::Worlds;
use esker_block::{Device, OpKind};
use esker_rt::mem::Pool;
use esker_rt::real::{Backend, Reactor, RealConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{Spec, Stack};

/// A stack whose export is of one kind. DIR stands for a folder that vanishes.
pub struct Sample {
    pub kind: &'static str,
    pub stack: &'static str,
    /// Whether what was written is read back.
    keeps_data: bool,
}

const fn sample(kind: &'static str, stack: &'static str) -> Sample {
    Sample { kind, stack, keeps_data: true }
}

pub const SAMPLES: &[Sample] = &[
    Sample { kind: "null", stack: "v = null size=2MiB", keeps_data: false },
    sample("memory", "v = memory size=2MiB defer=always latency=20us"),
    sample("disk-model", "v = disk-model size=8MiB content=memory"),
    sample("ssd-model", "v = ssd-model size=8MiB content=memory"),
    sample("nvm-model", "v = nvm-model size=8MiB content=memory"),
    sample("array-model", "v = array-model members=2 layout=stripe content=memory size=8MiB"),
    sample("pass", "v = memory size=2MiB | pass"),
    sample("offset", "v = memory size=4MiB | offset start=64KiB size=1MiB"),
    sample("concat", "a = memory size=1MiB; b = memory size=64KiB block=4096 | align; v = concat on a,b"),
    sample(
        "stripe",
        "a = memory size=1MiB defer=always; b = memory size=1MiB defer=always; v = stripe chunk=8KiB on a,b",
    ),
    sample("align", "v = memory size=2MiB block=4096 defer=always latency=5us | align"),
    sample("emulate", "v = memory size=2MiB defer=always latency=5us | emulate staging=64KiB width=2 ranges=8"),
    sample("crypt", "v = memory size=2MiB defer=always latency=5us | crypt key=file:any"),
    sample(
        "mirror",
        "a = memory size=1MiB defer=always latency=5us; b = memory size=1MiB defer=always latency=9us; \
         v = mirror region=4KiB clean_after=50us on a,b",
    ),
    sample(
        "offload",
        "h = memory size=1MiB defer=always latency=9us; l = memory size=64KiB defer=always latency=5us; \
         v = offload idle_after=100us on h,l",
    ),
    sample(
        "cache",
        "h = memory size=1MiB defer=always latency=90us; f = memory size=512KiB defer=always latency=5us; \
         v = cache line=8KiB dirty=0.1 bypass=0 on h,f",
    ),
    sample(
        "spindown",
        "h = memory size=1MiB defer=always latency=90us; f = memory size=512KiB defer=always latency=5us; \
         v = spindown idle_after=1ms pressure=0.3 on h,f",
    ),
    sample(
        "tier",
        "f = memory size=4MiB defer=always latency=5us; s = memory size=4MiB defer=always latency=90us; \
         v = tier devices=\"ssd; sata\" size=4MiB look=200us epoch=1ms alpha=1 share=1 heads=1 on f,s",
    ),
    sample(
        "reorg",
        "h = memory size=1MiB defer=always latency=90us; f = memory size=512KiB defer=always latency=5us; \
         v = reorg interval=30ms write_buffer=0.5 on h,f",
    ),
    sample("shepherd", "v = memory size=2MiB defer=always latency=5us | shepherd retry_delay=1us"),
    sample("dedup", "v = memory size=2MiB defer=always latency=5us | dedup block=512 cache=64KiB"),
    sample(
        "logvol",
        "v = memory size=8MiB defer=always latency=5us | logvol block=512 page=512 segment=64KiB size=2MiB",
    ),
    sample(
        "thin",
        "a = memory size=8MiB defer=always latency=5us; \
         vm = thin block=512 page=512 segment=64KiB ports=\"one=1MiB,two=2MiB\" on a; v = pass on vm.two",
    ),
    sample("verify", "v = memory size=2MiB defer=always latency=5us | verify"),
    sample("delay", "v = memory size=2MiB | delay read=10us write=20us flush=30us jitter=50us"),
    sample("rate", "v = memory size=2MiB | rate iops=100000 bytes=1GiB"),
    sample("error", "v = memory size=2MiB | error probability=1 armed=false"),
    sample("stats", "v = memory size=2MiB defer=always | stats"),
    sample("file", "v = file path=DIR/d.img size=2MiB direct=false"),
    sample("tap", "v = memory size=2MiB | tap path=DIR/trace"),
];
/// Needs a block device: [`a_block_device_passes_on_both_backends`].
const ELSEWHERE: &str = "raw";

/// One key for every reference, in every world: what one world stored, the next one can read.
pub fn give_key(rt: &Rt) {
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
}

fn build(rt: &Rt, text: &str) -> Rc<Stack> {
    give_key(rt);
    let spec = Spec::parse("sample", &format!("{text}; export out = v")).unwrap_or_else(|e| panic!("{text}: {e}"));
    Stack::build(rt, &Pool::default(), esker_kinds::ALL, &spec).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn export(rt: &Rt, text: &str) -> Rc<dyn Device> {
    Rc::new(build(rt, text).export("out").expect("the text exports it"))
}

fn options(sample: &Sample) -> Options {
    Options { keeps_data: sample.keeps_data, batches: 80, window: 128 << 10, ..Options::facade(11) }
}

pub fn is_real_only(sample: &Sample) -> bool {
    let kind = esker_kinds::ALL.iter().find(|kind| kind.name == sample.kind);
    kind.expect("a sample is of a kind").worlds == Worlds::RealOnly
}

#[test]
fn every_kind_has_a_sample() {
    for kind in esker_kinds::ALL {
        let count = SAMPLES.iter().filter(|sample| sample.kind == kind.name).count();
        assert_eq!(count, usize::from(kind.name != ELSEWHERE), "samples of kind {}", kind.name);
    }
}

#[test]
fn every_kind_of_both_worlds_passes_in_virtual_time() {
    for sample in SAMPLES.iter().filter(|sample| !is_real_only(sample)) {
        let report = check(|rt| export(rt, sample.stack), options(sample));
        assert!(report.answered(OpKind::Read) > 50 && report.refused > 5, "{}: {report:?}", sample.kind);
    }
}

#[test]
fn every_kind_passes_on_both_backends() {
    for backend in [Backend::Uring, Backend::Threads] {
        for sample in SAMPLES {
            let dir = tempfile::tempdir().unwrap();
            let text = sample.stack.replace("DIR", &dir.path().display().to_string());
            let report = check_real(backend, |rt| export(rt, &text), options(sample));
            assert!(report.answered(OpKind::Read) > 50, "{} on {backend:?}: {report:?}", sample.kind);
        }
    }
}

/// Kinds whose statistics follow from the operations that were seen.
const OF_OPERATIONS: &str = "stats";

/// What manifests, and so pages, say of statistics is what devices and layers tell.
#[test]
fn every_kind_tells_the_statistics_of_its_manifest() {
    for sample in SAMPLES.iter().filter(|sample| sample.kind != OF_OPERATIONS) {
        let dir = tempfile::tempdir().unwrap();
        let text = sample.stack.replace("DIR", &dir.path().display().to_string());
        let reactor = Reactor::new(RealConfig { backend: Backend::Threads, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        let stack = build(&rt, &text);
        let told = reactor.block_on(async move {
            stack.opened().await;
            stack.stats()
        });
        let told = told.into_iter().find(|part| part.kind == sample.kind).expect("the sample has the kind");
        let told: Vec<&str> = told.stats.iter().map(|stat| stat.name).collect();
        let kind = esker_kinds::ALL.iter().find(|kind| kind.name == sample.kind).expect("a sample is of a kind");
        let listed: Vec<&str> = kind.stats.iter().map(|stat| stat.name).collect();
        assert_eq!(told, listed, "statistics of {}", sample.kind);
    }
}

/// A loop device over a file; detached when dropped.
struct Loop(String);

impl Loop {
    fn attach(file: &Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?.trim().to_string();
        (output.status.success() && !path.is_empty()).then(|| Loop(path))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It vanishes with the machine at the latest.
        let _detached = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_passes_on_both_backends() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    std::fs::File::create(&file).unwrap().set_len(4 << 20).unwrap();
    let Some(disk) = Loop::attach(&file) else {
        esker_testkit::skip(esker_testkit::Ability::Attach, "kind raw needs a block device: root and losetup");
        assert!(std::fs::File::open("/dev/loop-control").is_err(), "this machine has loop devices, yet losetup failed");
        return;
    };
    for backend in [Backend::Uring, Backend::Threads] {
        let text = format!("v = raw path={}", disk.0);
        let report = check_real(backend, |rt| export(rt, &text), Options { batches: 40, ..Options::facade(5) });
        assert!(report.answered(OpKind::Write) > 20, "{backend:?}: {report:?}");
    }
}
