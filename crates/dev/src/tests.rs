//! Memory and null pass the suite, and refuse what does not fit.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::conformance::{self, Options};
use esker_block::{Args, Bio, Buf, Build, Created, Device, Kind, KindError, Make, OpKind, Support};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};

use crate::{Defer, Media, MemoryDevice, NullDevice, memory, null};

/// Builds a device as a stack does.
pub(crate) fn build(rt: &Rt, kind: &Kind, args: &[(&str, &str)]) -> Result<Rc<dyn Device>, KindError> {
    let given: BTreeMap<String, String> = args.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let args = Args::read(kind, &given)?;
    let Build::Device(build) = kind.build else { panic!("{kind:?} is a leaf") };
    let created = Created::default();
    let built = build(&Make {
        rt,
        pool: &Pool::default(),
        name: "d1",
        args: &args,
        lowers: &[],
        created: &created,
        env: &esker_block::Env::default(),
    });
    built.inspect(|_| created.keep())
}

#[test]
fn memory_passes_the_suite_at_once_and_deferred() {
    for args in [&[][..], &[("defer", "always")], &[("defer", "always"), ("latency", "20us")], &[("block", "4096")]] {
        let args = [&[("size", "1MiB")], args].concat();
        let report = conformance::check(|rt| build(rt, &memory::KIND, &args).unwrap(), Options::leaf(11));
        assert!(report.answered(OpKind::Zero) > 10, "{report:?}");
    }
}

#[test]
fn memory_holds_only_what_was_written() {
    let report = conformance::check(|rt| build(rt, &memory::KIND, &[("size", "1TiB")]).unwrap(), Options::leaf(5));
    assert!(report.answered(OpKind::Write) > 100);
}

#[test]
fn null_answers_everything_with_and_without_bytes() {
    let forgetful = Options { keeps_data: false, ..Options::leaf(2) };
    let report = conformance::check(|_| Rc::new(NullDevice::new(1 << 30, 4096)), forgetful);
    assert!(report.answered(OpKind::Read) > 100 && report.answered(OpKind::Write) > 100);
}

#[test]
fn null_reads_zeroes_into_used_memory() {
    let (sim, pool) = (Sim::new(SimConfig::seeded(1)), Pool::default());
    let mut dirty = Buf::unique(&pool, 8192);
    dirty.bytes_mut().unwrap().fill(9);
    let chain = Buf::chain(vec![dirty, Buf::unique(&pool, 5120)]);
    let read = sim.block_on(async move { NullDevice::new(1 << 20, 512).submit(Bio::read(0, chain)).await });
    assert_eq!(read.buf.to_vec(), vec![0; 8192 + 5120]);
}

#[test]
fn a_geometry_that_does_not_fit_is_refused_with_the_nearest_that_does() {
    let sim = Sim::new(SimConfig::seeded(1));
    let cases = [
        (vec![("size", "1000")], "multiple of the block of 512 bytes; the nearest is 512"),
        (vec![("size", "100")], "the nearest is 512"),
        (vec![("size", "0")], "positive multiple"),
        (vec![("size", "1MiB"), ("block", "768")], "power of two from 512 to 65536"),
        (vec![("size", "1MiB"), ("block", "256")], "power of two"),
        (vec![], "memory needs the parameter \"size\""),
    ];
    for (args, text) in cases {
        let error = build(&sim.rt(), &memory::KIND, &args).err().expect("refused").to_string();
        assert!(error.contains(text), "{args:?}: {error}");
    }
    let useless = build(&sim.rt(), &memory::KIND, &[("size", "1MiB"), ("latency", "1ms")]).err().expect("refused");
    assert!(useless.to_string().contains("set defer"), "{useless}");
}

#[test]
fn media_outlive_a_killed_world_without_what_was_in_flight() {
    let media = Media::new(1 << 20);
    let (sim, pool) = (Sim::new(SimConfig::seeded(1)), Pool::default());
    let device = MemoryDevice::over(&sim.rt(), media.clone(), 512, Defer::Always(Nanos::micros(10)));
    let (first, second) = (Buf::from_bytes(&pool, &[1; 512]), Buf::from_bytes(&pool, &[2; 512]));
    sim.stop_at_event(1);
    let halted = sim.try_block_on(async move {
        device.submit(Bio::write(0, first)).await.result.unwrap();
        device.submit(Bio::write(512, second)).await.result.unwrap();
    });
    assert!(halted.is_err());
    drop(sim);
    assert_eq!(Rc::strong_count(&media), 1, "the killed world holds nothing");
    let range = ByteRange::new(0, 1024).unwrap();
    assert_eq!(media.bytes(range), [[1; 512], [0; 512]].concat());
}

#[test]
fn the_manifests_state_what_the_devices_do() {
    let sim = Sim::new(SimConfig::seeded(1));
    for kind in [&memory::KIND, &null::KIND] {
        let device = build(&sim.rt(), kind, &[("size", "1MiB")]).unwrap();
        for op in OpKind::ALL {
            assert_eq!(kind.passes.has(op), device.limits().support(op) != Support::No, "{kind:?} {op:?}");
        }
        assert_eq!(kind.needs_bytes, !device.limits().described);
    }
}
