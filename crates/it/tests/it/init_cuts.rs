//! The power fails while `esker init` makes the media of a stack: it can be run again, and what is half made is never
//! taken as good.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

use esker_base::Nanos;
use esker_block::buf::are_zeroes;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Build, Device, Kind, KindError, Make};
use esker_dev::{Defer, Media};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{DeviceSpec, InitError, Making, Medium, Spec, Stack, Wanted};
use esker_testkit::kept::{KEPT, peek, poke};
use esker_testkit::{Bound, Image, Journal, Recorder, crash};

/// A kept medium, which is recorded while its bed has a journal.
static BED: Kind = Kind { name: "bed", build: Build::Device(build), ..KEPT };

static JOURNALS: Mutex<BTreeMap<u64, Journal>> = Mutex::new(BTreeMap::new());

/// The beds of this test, one for each text.
const FIRST_BED: u64 = 2_700;

fn journals() -> MutexGuard<'static, BTreeMap<u64, Journal>> {
    JOURNALS.lock().expect("no test panics with it")
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let Build::Device(kept) = KEPT.build else { unreachable!("it is a device") };
    match journals().get(&make.args.int("bed")) {
        Some(journal) => {
            let media = Media::new(make.args.int("size"));
            Ok(Recorder::leaf(journal, make.rt, &media, 512, Defer::Always(Nanos::micros(2))))
        }
        None => kept(make),
    }
}

fn kinds() -> &'static [&'static Kind] {
    Box::leak(esker_kinds::ALL.iter().copied().chain([&BED]).collect())
}

/// Runs `body` in a world of its own, which then goes without a stop.
fn in_world<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce(Rt) -> F) -> T {
    let sim = Sim::new(SimConfig::seeded(2));
    let rt = sim.rt();
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
    sim.block_on(body(rt))
}

fn parsed(text: &str) -> Spec {
    Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// What `esker init` does, with `--force` or without, over what the media hold.
fn init(text: &str, is_forced: bool) -> Result<Vec<Medium>, InitError> {
    let (kinds, spec) = (kinds(), parsed(text).of_media(esker_kinds::ALL, None));
    let is_used = |device: &&DeviceSpec| {
        let number = |name: &str| device.args.get(name).and_then(|text| text.parse::<u64>().ok());
        let (bed, size) = (number("bed"), number("size"));
        let (Some(bed), Some(size)) = (bed, size) else { return false };
        !are_zeroes(&peek(bed, &device.name, size))
    };
    let used = spec.devices.iter().filter(is_used);
    let holds: BTreeMap<String, String> = used.map(|device| (device.name.clone(), "something".to_string())).collect();
    let forced = spec.devices.iter().filter(|_| is_forced).map(|device| device.name.clone()).collect();
    let wanted = Wanted { holds, forced, rehearse: false };
    in_world(async move |rt| Stack::init(&rt, &Pool::default(), kinds, &spec, &wanted).await)
}

/// Whether the stack can be served; then it holds nothing, and takes writes.
fn is_served(text: &str, what: &str) -> bool {
    let (kinds, spec, what) = (kinds(), parsed(text), what.to_string());
    in_world(async move |rt| {
        let stack = Stack::build(&rt, &Pool::default(), kinds, &spec).unwrap_or_else(|e| panic!("{what}: {e}"));
        stack.opened().await;
        let unusable: Vec<String> = stack.stats().into_iter().filter_map(|part| part.unusable).collect();
        if !unusable.is_empty() {
            return false;
        }
        let export = stack.export("x").expect("the text names it");
        for at in [0, 8192, 64 << 10] {
            let done = export.submit(Bio::read(at, Buf::unique(&Pool::default(), 4096))).await;
            assert_eq!((done.result.err(), done.buf.to_vec()), (None, vec![0; 4096]), "{what}: {at}");
            let write = Bio::write(at, Buf::from_bytes(&Pool::default(), &[7; 4096])).fua();
            assert_eq!(export.submit(write).await.result.err(), None, "{what}: {at}");
        }
        stack.close().await;
        true
    })
}

/// What became of the states.
#[derive(Default, Debug)]
struct Count {
    states: u64,
    /// Refused by a server that is started at once.
    refused: u64,
    /// Taken by the second run as it is.
    again: u64,
    /// Named by the second run, and made with `--force`.
    forced: u64,
}

/// Devices of a text in the order in which they are built, and how large they are.
fn beds(text: &str) -> Vec<(u64, String, u64)> {
    let devices = parsed(text).devices;
    let number = |device: &DeviceSpec, name: &str| device.args[name].parse().expect("a number");
    let beds = devices.iter().filter(|device| device.kind == "bed");
    beds.map(|device| (number(device, "bed"), device.name.clone(), number(device, "size"))).collect()
}

fn judge(text: &str, point: u64, images: &[Image], count: &mut Count) {
    let beds = beds(text);
    let set = || {
        for ((bed, name, size), image) in beds.iter().zip(images) {
            let mut bytes = vec![0; *size as usize];
            image.over(&SparseStore::default()).read(0, &mut bytes);
            poke(*bed, name, 0, &bytes);
        }
    };
    count.states += 1;
    let what = format!("{text}: event {point}");
    set();
    // Without another run it is made as at a first start, or refused.
    count.refused += u64::from(!is_served(text, &what));
    set();
    match init(text, false) {
        Ok(media) => {
            assert!(media.iter().all(|medium| !matches!(medium.done, Making::Anew(_))), "{what}: {media:?}");
            count.again += 1;
        }
        Err(InitError::Taken { .. }) => {
            set();
            let media = init(text, true);
            media.unwrap_or_else(|error| panic!("{what}: {error}"));
            count.forced += 1;
        }
        Err(error) => panic!("{what}: {error}"),
    }
    assert!(is_served(text, &what), "{what}");
}

fn check(text: &str, bed: u64) -> Count {
    let (text, journal) = (&text.replace("BED", &bed.to_string()), Journal::default());
    journals().insert(bed, journal.clone());
    init(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
    journals().remove(&bed);
    let (mut count, bound) = (Count::default(), Bound { states_max: 6, seed: 3 });
    let walked = crash::for_each_state(&journal, bound, |point, images| {
        judge(text, point, images, &mut count);
        Ok::<(), ()>(())
    });
    assert!(walked.is_ok() && count.states > 30, "{text}: {count:?}");
    println!("{text}: {count:?}");
    count
}

#[test]
fn media_that_a_power_cut_left_half_made_are_made_again_and_never_served() {
    let mut all = Count::default();
    let texts = [
        "a = bed bed=BED size=2097152; x = logvol segment=64KiB size=1MiB on a; export x = x",
        "a = bed bed=BED size=2097152; vm = thin segment=64KiB ports=\"x=1MiB\" on a; export x = vm.x",
        "a = bed bed=BED size=2097152; x = dedup on a; export x = x",
        "a = bed bed=BED size=2097152; x = shepherd spares=16 on a; export x = x",
        "a = bed bed=BED size=2097152; b = bed bed=BED size=1048576; x = offload on a, b; export x = x",
        "a = bed bed=BED size=3145728; b = bed bed=BED size=3145728; x = tier devices=\"ssd; sata\" on a, b; export x = x",
        "a = bed bed=BED size=2097152; b = bed bed=BED size=2162688; x = mirror region=64KiB on a, b; export x = x",
        "a = bed bed=BED size=2097152; b = bed bed=BED size=2162688; x = mirror region=64KiB initial=assume-clean on a, b; export x = x",
        "a = bed bed=BED size=2097152; b = bed bed=BED size=2162688; m = mirror region=64KiB on a, b; c = crypt key=env:K on m; \
         vm = thin segment=64KiB ports=\"x=1MiB\" on c; export x = vm.x",
    ];
    for (bed, text) in (FIRST_BED..).zip(texts) {
        let count = check(text, bed);
        all.refused += count.refused;
        all.again += count.again;
        all.forced += count.forced;
    }
    assert!(all.refused > 10 && all.again > 100 && all.forced > 10, "{all:?}");
}
