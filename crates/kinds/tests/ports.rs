//! Live changes above the ports of a layer with several.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{Bio, Buf, Device, OpKind, RangeOp, Support};
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};
use esker_stack::{DeviceSpec, Export, Location, Spec, Stack};

const PATIENCE: Nanos = Nanos::secs(5);
const TEXT: &str = "d = memory block=4096 size=64MiB; vm = thin segment=1MiB ports=\"web=8MiB,db=8MiB\" on d; \
                    export web = vm.web; export db = vm.db";

fn stats(name: &str) -> DeviceSpec {
    DeviceSpec::new(name, "stats", Vec::new(), BTreeMap::new(), Location::new("test", 1))
}

async fn write(end: &Export, value: u8) {
    let bio = Bio::write(0, Buf::from_bytes(&Pool::default(), &[value; 4096]));
    end.submit(bio).await.result.unwrap();
}

/// Lower devices by device.
fn on(stack: &Stack, name: &str) -> Vec<String> {
    stack.spec().device(name).map(|device| device.on.clone()).unwrap_or_default()
}

fn device_of(stack: &Stack, export: &str) -> String {
    stack.spec().exports.iter().find(|e| e.name == export).unwrap().device.clone()
}

#[test]
fn a_layer_comes_and_goes_above_one_port_and_sees_its_requests_alone() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &Spec::parse("test", TEXT).unwrap()).unwrap();
        stack.opened().await;
        let (web, db) = (stack.export("web").unwrap(), stack.export("db").unwrap());
        for round in 0..2u8 {
            stack.insert(stats("s"), "vm.web", PATIENCE).await.unwrap();
            assert_eq!((on(&stack, "s"), device_of(&stack, "web")), (vec!["vm.web".to_string()], "s".to_string()));
            assert_eq!(device_of(&stack, "db"), "vm.db");
            write(&web, round).await;
            write(&db, round).await;
            write(&db, round).await;
            let seen = stack.stats().into_iter().find(|part| part.name == "s").unwrap().stats;
            assert!(seen.iter().any(|stat| stat.name == "writes" && stat.value == 1.0), "{seen:?}");
            // The text of now builds the same stack.
            let text = stack.spec();
            assert!(text.check(esker_kinds::ALL).is_ok() && Spec::parse("test", &text.to_toml()).unwrap() == text);
            stack.remove("s", PATIENCE).await.unwrap();
            assert_eq!(device_of(&stack, "web"), "vm.web");
            write(&web, round).await;
        }
        stack.close().await;
    });
}

#[test]
fn above_several_ports_or_a_strange_one_is_refused_with_the_names_of_the_ports() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let stack: Rc<Stack> =
            Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &Spec::parse("test", TEXT).unwrap()).unwrap();
        stack.opened().await;
        for above in ["vm", "vm.mail"] {
            let error = stack.insert(stats("s"), above, PATIENCE).await.unwrap_err().to_string();
            assert!(error.contains("has the upper ports vm.web, vm.db"), "{error}");
        }
        let error = stack.insert(stats("s"), "d.web", PATIENCE).await.unwrap_err().to_string();
        assert!(error.contains("there is no"), "{error}");
        stack.close().await;
    });
}

/// A partition that begins inside a block of the map has sectors, but passes no range vector: `emulate` does them.
#[test]
fn windows_on_a_port_pass_range_vectors_only_if_they_cut_no_block_of_the_map() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(async move {
        let text = "d = memory size=64MiB; vm = thin segment=1MiB ports=\"db=8MiB\" on d; \
                    even = offset start=32KiB size=1MiB on vm.db; odd = offset start=32256 size=1MiB on vm.db; \
                    copied = emulate on odd";
        let stack = Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &Spec::parse("test", text).unwrap()).unwrap();
        stack.opened().await;
        let clones = |name: &str, len: u64| {
            let end = stack.device(name).unwrap();
            async move {
                let bio = Bio::write(0, Buf::from_bytes(&Pool::default(), &[7; 512]));
                end.submit(bio).await.result.unwrap();
                let src = ByteRange::new(0, len).unwrap();
                let result = end.submit(Bio::ranges([RangeOp::Clone { src, dst: 8192 }])).await.result;
                let read = end.submit(Bio::read(8192, Buf::unique(&Pool::default(), 512))).await.buf.to_vec();
                (end.limits().block, end.limits().support(OpKind::Clone), result.is_ok() && read == [7; 512])
            }
        };
        assert_eq!(clones("even", 4096).await, (512, Support::Native, true));
        assert_eq!(clones("even", 512).await, (512, Support::Native, false), "a part of a block");
        assert_eq!(clones("odd", 4096).await, (512, Support::No, false));
        assert_eq!(clones("copied", 512).await, (512, Support::Emulated, true));
        stack.close().await;
    });
}
