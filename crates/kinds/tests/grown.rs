//! Volumes that were grown, and are then served through a layer that is not transparent: its text still has the old
//! size.

use std::path::Path;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, Device};
use esker_rt::mem::Pool;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{Export, Spec, Stack};

const MIB: u64 = 1 << 20;
const OLD: u64 = 8 * MIB;
const NEW: u64 = 16 * MIB;
const PIECE: usize = 8 << 10;
const PATIENCE: Nanos = Nanos::secs(5);
const PORTS: &str = "d = file path=DIR/d.img size=128MiB; \
                     vm = thin segment=1MiB ports=\"db=8MiB,twin=8MiB,small=4MiB\" on d";

/// Opens the stack of volumes with `layers` on them.
async fn open(rt: &Rt, dir: &Path, layers: &str) -> Rc<Stack> {
    let text = format!("{PORTS}{layers}").replace("DIR", &dir.display().to_string());
    let spec = Spec::parse("test", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), esker_kinds::ALL, &spec).unwrap_or_else(|e| panic!("{text}: {e}"));
    stack.opened().await;
    stack
}

async fn write(vol: &Export, at: u64, value: u8) -> Result<(), String> {
    let bio = Bio::write(at, Buf::from_bytes(&Pool::default(), &[value; PIECE])).fua();
    vol.request(bio).await.result.map(drop).map_err(|e| e.to_string())
}

async fn read(vol: &Export, at: u64) -> Result<u8, String> {
    let done = vol.request(Bio::read(at, Buf::unique(&Pool::default(), PIECE))).await;
    done.result.map_err(|e| e.to_string())?;
    let bytes = done.buf.to_vec();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "one value at {at}");
    Ok(bytes[0])
}

fn in_world(body: impl AsyncFnOnce(Rt, &Path) + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let reactor = Reactor::new(RealConfig::seeded(4)).unwrap();
    let rt = reactor.rt();
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
    reactor.block_on(async move { body(rt, dir.path()).await });
}

/// Orders the growth of volumes on which nothing stands.
async fn grow(rt: &Rt, dir: &Path, names: &[&str], size: &str) {
    let stack = open(rt, dir, "").await;
    for name in names {
        let words = ["resize", name, size].map(String::from);
        stack.order("vm", &words).await.unwrap();
    }
    stack.close().await;
}

/// Grow, stop, serve, read the tail: `layers` are on `grown` of the ports, and `top` has `before` bytes first, `after`
/// then.
fn check(layers: &'static str, grown: &'static [&'static str], before: u64, after: u64) {
    in_world(async move |rt, dir| {
        let piece = PIECE as u64;
        let stack = open(&rt, dir, layers).await;
        let top = stack.device("top").unwrap();
        assert_eq!(top.size(), before, "{layers}");
        for (at, value) in [(0, 1), (before - piece, 2)] {
            assert_eq!(write(&top, at, value).await, Ok(()), "{layers}");
        }
        stack.close().await;
        drop((top, stack));
        grow(&rt, dir, grown, "16MiB").await;
        for round in 0..2 {
            let stack = open(&rt, dir, layers).await;
            let top = stack.device("top").unwrap();
            let unusable = stack.stats().iter().find_map(|part| part.unusable.clone());
            assert_eq!((top.size(), unusable), (after, None), "{layers}");
            assert_eq!((read(&top, 0).await, read(&top, before - piece).await), (Ok(1), Ok(2)), "{layers}");
            if after > before && round == 0 {
                assert_eq!(write(&top, after - piece, 3).await, Ok(()), "{layers}");
            }
            let tail = if after > before { 3 } else { 2 };
            assert_eq!(read(&top, after - piece).await, Ok(tail), "{layers}: the tail, round {round}");
            stack.close().await;
        }
    });
}

#[test]
fn layers_that_keep_nothing_on_the_medium_have_all_of_a_grown_volume() {
    check("; top = align block=512 on vm.db", &["db"], OLD, NEW);
    check("; top = crypt key=env:KEY on vm.db", &["db"], OLD, NEW);
    check("; top = emulate on vm.db", &["db"], OLD, NEW);
    check("; top = offset start=64KiB on vm.db", &["db"], OLD - (64 << 10), NEW - (64 << 10));
    check("; top = stripe chunk=64KiB on vm.db, vm.twin", &["db", "twin"], 2 * OLD, 2 * NEW);
}

#[test]
fn layers_on_layers_have_it_too_and_transparent_ones_between_change_nothing() {
    let chain =
        "; s = stats on vm.db; a = align block=512 on s; p = pass on a; c = crypt key=env:KEY on p; top = stats on c";
    check(chain, &["db"], OLD, NEW);
}

#[test]
fn a_window_of_a_given_size_keeps_it() {
    check("; top = offset start=64KiB size=1MiB on vm.db", &["db"], MIB, MIB);
}

#[test]
fn joined_devices_grow_at_their_end_only_so_that_nothing_moves() {
    check("; top = concat on vm.small, vm.db", &["db"], 12 * MIB, 20 * MIB);
    check("; top = concat on vm.small, vm.db", &["small", "db"], 12 * MIB, 20 * MIB);
    check("; top = concat on vm.db, vm.small", &["db"], 12 * MIB, 12 * MIB);
}

#[test]
fn off_loading_has_all_of_a_grown_home_and_keeps_its_log() {
    check("; top = offload on vm.db, vm.twin", &["db"], OLD, NEW);
    check("; top = offload on vm.db, vm.twin", &["db", "twin"], OLD, NEW);
}

#[test]
fn layers_with_a_record_of_their_size_keep_it_on_a_grown_volume() {
    for layers in ["; top = mirror on vm.db, vm.twin", "; top = dedup on vm.db", "; top = shepherd on vm.db"] {
        in_world(async move |rt, dir| {
            let stack = open(&rt, dir, layers).await;
            let size = stack.device("top").unwrap().size();
            stack.close().await;
            drop(stack);
            assert!(size < OLD && size.is_multiple_of(4096), "{layers}: {size}");
            kept(&rt, dir, layers, size).await;
        });
    }
    check("; top = logvol size=2MiB segment=64KiB on vm.db", &["db"], 2 * MIB, 2 * MIB);
}

/// Data at both ends of `top` is where it was.
async fn kept(rt: &Rt, dir: &Path, layers: &str, size: u64) {
    let last = (size - PIECE as u64) / 4096 * 4096;
    let stack = open(rt, dir, layers).await;
    let top = stack.device("top").unwrap();
    assert_eq!((write(&top, 0, 1).await, write(&top, last, 2).await), (Ok(()), Ok(())), "{layers}");
    stack.close().await;
    drop((top, stack));
    grow(rt, dir, &["db", "twin"], "16MiB").await;
    let stack = open(rt, dir, layers).await;
    let top = stack.device("top").unwrap();
    assert_eq!(top.size(), size, "{layers}");
    assert_eq!((read(&top, 0).await, read(&top, last).await), (Ok(1), Ok(2)), "{layers}");
    stack.close().await;
}

#[test]
fn while_a_layer_stands_on_a_volume_both_orders_refuse_to_resize_it() {
    in_world(async |rt, dir| {
        let stack = open(&rt, dir, "; top = align block=512 on vm.db; st = stats on vm.twin").await;
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        let ordered = stack.order("vm", &words("resize db 16MiB")).await.unwrap_err().to_string();
        assert!(ordered.contains("\"top\" stands on it") && ordered.contains("stop the server"), "{ordered}");
        for bytes in [NEW, OLD / 2] {
            let through = stack.resize("top", bytes, PATIENCE).await.unwrap_err().to_string();
            assert!(through.contains("its size is fixed"), "{through}");
            let below = stack.resize("vm.db", bytes, PATIENCE).await.unwrap_err().to_string();
            assert!(below.contains("\"top\" stands on it"), "{below}");
        }
        assert_eq!((stack.device("vm.db").unwrap().size(), stack.device("top").unwrap().size()), (OLD, OLD));
        stack.order("vm", &words("snapshot db db-old")).await.unwrap();
        stack.order("vm", &words("rollback db db-old force")).await.unwrap();
        stack.order("vm", &words("resize small 16MiB")).await.unwrap();
        let other = stack.order("vm", &words("rollback db small force")).await.unwrap_err().to_string();
        assert!(other.contains("\"top\" stands on it"), "a roll back to another size: {other}");
        stack.order("vm", &words("resize twin 16MiB")).await.unwrap();
        assert_eq!(stack.device("st").unwrap().size(), NEW, "what is transparent keeps nothing");
        stack.remove("st", PATIENCE).await.unwrap();
        stack.order("vm", &words("resize twin 32MiB")).await.unwrap();
        stack.close().await;
    });
}
