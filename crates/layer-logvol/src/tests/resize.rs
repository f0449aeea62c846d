//! Volumes that are resized while a stack serves them.

use esker_block::BioError;
use esker_rt::sync::join_all;
use esker_stack::ResizeError;

use super::*;

const KIB: u64 = 1 << 10;
const PATIENCE: Nanos = Nanos::secs(1);
const TEXT: &str = "a = memory size=8MiB defer=always latency=3us; \
                    vm = thin block=512 page=512 segment=64KiB ports=\"db=64KiB,other=1MiB\" on a";

async fn open(rt: &Rt, text: &str) -> Rc<Stack> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).unwrap_or_else(|e| panic!("{text}: {e}"));
    stack.opened().await;
    stack
}

async fn write(vol: &Export, at: u64, len: u64, value: u8) -> Result<(), BioError> {
    let buf = Buf::from_bytes(&Pool::default(), &vec![value; len as usize]);
    vol.request(Bio::write(at, buf)).await.result.map(drop)
}

async fn read(vol: &Export, at: u64, len: u64) -> Result<Vec<u8>, BioError> {
    let done = vol.request(Bio::read(at, Buf::unique(&Pool::default(), len as usize))).await;
    done.result.map(|_| done.buf.to_vec())
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

#[test]
fn a_served_volume_grows_for_those_who_use_it() {
    run(async |rt| {
        let stack = open(&rt, TEXT).await;
        let vol = stack.device("vm.db").unwrap();
        assert!(vol.can_resize() && write(&vol, 64 * KIB, 4 * KIB, 1).await.is_err());
        let since = stack.size_changes();
        stack.order("vm", &words("resize db 1MiB")).await.unwrap();
        stack.sizes_changed(since).await;
        assert_eq!(vol.size(), 1 << 20);
        write(&vol, 1020 * KIB, 4 * KIB, 1).await.unwrap();
        vol.resize(2 << 20).await.unwrap();
        assert_eq!(read(&vol, 1016 * KIB, 12 * KIB).await.unwrap()[..], [[0; 4096], [1; 4096], [0; 4096]].concat());
        let error = stack.order("vm", &words("resize db 64KiB")).await.unwrap_err().to_string();
        assert!(error.contains("`esker resize`"), "{error}");
    });
}

/// Writes over all of the volume while it is cut: whatever was answered before the end is there, and nothing behind it
/// comes back when the volume grows again.
#[test]
fn a_cut_waits_for_writes_and_what_is_cut_off_does_not_come_back() {
    run(async |rt| {
        let stack = open(&rt, TEXT).await;
        let vol = stack.device("vm.db").unwrap();
        let all = |value| {
            let vol = vol.clone();
            async move { join_all((0..16).map(|i| write(&vol, i * 4 * KIB, 4 * KIB, value))).await }
        };
        let writes = rt.spawn("writes", all(7));
        rt.sleep(Nanos::micros(1)).await;
        let cutter = stack.clone();
        let cut = rt.spawn("cut", async move { cutter.resize("vm.db", 16 * KIB, PATIENCE).await });
        rt.sleep(Nanos::micros(1)).await;
        let late = all(8).await;
        let (writes, cut, behind) = (writes.await, cut.await, write(&vol, 16 * KIB, 4 * KIB, 9).await);
        assert!(writes.iter().all(Result::is_ok) && cut.is_ok(), "{writes:?} {cut:?}");
        assert!(matches!(behind, Err(BioError::Invalid(_))), "{behind:?}");
        let ok: Vec<bool> = late.iter().map(Result::is_ok).collect();
        assert_eq!(ok, (0..16).map(|i| i < 4).collect::<Vec<_>>(), "those behind the new end waited, and are refused");
        assert_eq!(vol.size(), 16 * KIB);
        stack.resize("vm.db", 64 * KIB, PATIENCE).await.unwrap();
        for piece in 0..4 {
            let value = if piece == 0 { 8 } else { 0 };
            assert_eq!(read(&vol, piece * 16 * KIB, 16 * KIB).await.unwrap(), [value; 16 << 10], "piece {piece}");
        }
    });
}

#[test]
fn a_size_lasts_and_a_port_offers_all_of_its_volume() {
    let media = Media::new(8 << 20);
    run(async move |rt| {
        let named = async |text: &str, resize: Option<u64>| {
            let device: Rc<dyn Device> = Rc::new(MemoryDevice::over(&rt, media.clone(), 512, Defer::Never));
            let bench = Bench::open(&rt, device, 64 << 10, 64 << 10).await;
            let ports = esker_layer_thin::ports::parse(text, 512).unwrap_or_else(|e| panic!("{e}"));
            let ports = Rc::new(ports);
            let manager =
                esker_layer_thin::Manager::open(bench.volume.clone(), &bench.below(), ports.clone(), 20).await;
            let manager = manager.unwrap_or_else(|e| panic!("{e}"));
            if let Some(bytes) = resize {
                manager.resize_port(&bench.below(), "db", bytes).await.unwrap_or_else(|e| panic!("{e}"));
            }
            ports[0].bytes.get()
        };
        assert_eq!(named("db=64KiB", Some(256 * KIB)).await, 256 * KIB);
        assert_eq!(named("db=64KiB", Some(16 * KIB)).await, 16 * KIB, "the text asks for less than there is");
        assert_eq!(named("db=64KiB", None).await, 64 * KIB, "and for more: it grows");
    });
}

#[test]
fn what_stands_on_a_volume_and_was_built_for_its_size_keeps_it_from_being_resized() {
    run(async |rt| {
        let stack =
            open(&rt, &format!("{TEXT}; top = logvol block=512 page=512 segment=16KiB size=1MiB on vm.other")).await;
        for bytes in [512 * KIB, 2 << 20] {
            let error = stack.resize("vm.other", bytes, PATIENCE).await.unwrap_err();
            assert_eq!(error, ResizeError::Used("top".into()), "{bytes}");
        }
        for (name, bytes, words) in [
            ("vm.db", 100, "multiple of 512"),
            ("vm.db", 0, "not 0"),
            ("top", 2 << 20, "its size is fixed"),
            ("a", 1 << 24, "fixed"),
        ] {
            let error = stack.resize(name, bytes, PATIENCE).await.unwrap_err().to_string();
            assert!(error.contains(words), "{name} to {bytes}: {error}");
        }
    });
}
