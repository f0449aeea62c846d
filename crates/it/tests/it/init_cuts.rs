//! The power fails while `esker init` makes the media of a stack: it can be run again, and what is half made is never taken as
//! good.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Build, Device, Kind, KindError, Make};
use esker_dev::{Defer, Media, MemoryDevice, memory};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{Rt, Secret};
use esker_stack::{InitError, Making, Medium, Spec, Stack, Wanted};
use esker_testkit::{Bound, Image, Journal, Recorder, crash};

/// Memory that outlives its world, and is recorded while there is a journal. Its size is its name: no two are equal.
static BED: Kind = Kind { name: "bed", build: Build::Device(build), ..memory::KIND };

/// The media of a stack, in the order in which they were built first, and whether what reaches them is recorded.
#[derive(Default)]
struct Beds {
    media: Vec<Rc<Media>>,
    journal: Option<Journal>,
}

thread_local! {
    static BEDS: RefCell<Beds> = RefCell::default();
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let size = make.args.int("size");
    BEDS.with_borrow_mut(|beds| {
        let known = beds.media.iter().find(|media| media.size() == size).cloned();
        let media = known.unwrap_or_else(|| {
            beds.media.push(Media::new(size));
            beds.media[beds.media.len() - 1].clone()
        });
        let defer = Defer::Always(Nanos::micros(2));
        Ok(match &beds.journal {
            Some(journal) => Recorder::leaf(journal, make.rt, &media, 512, defer),
            None => Rc::new(MemoryDevice::over(make.rt, media, 512, defer)) as Rc<dyn Device>,
        })
    })
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
    let is_used = |size: &String| {
        let bytes = size.strip_suffix("KiB").and_then(|kib| kib.parse::<u64>().ok()).expect("sizes are in KiB") << 10;
        BEDS.with_borrow(|beds| beds.media.iter().any(|media| media.size() == bytes && media.held() > 0))
    };
    let used =
        spec.devices.iter().filter(|device| device.kind == "bed" && device.args.get("size").is_some_and(is_used));
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

fn judge(text: &str, point: u64, images: &[Image], count: &mut Count) {
    let set = || {
        BEDS.with_borrow_mut(|beds| {
            for (media, image) in beds.media.iter_mut().zip(images) {
                *media = Media::of(media.size(), image.over(&SparseStore::default()));
            }
        });
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

fn check(text: &str) -> Count {
    let journal = Journal::default();
    BEDS.set(Beds { media: Vec::new(), journal: Some(journal.clone()) });
    init(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
    BEDS.with_borrow_mut(|beds| beds.journal = None);
    assert!(is_served(text, text));
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
    for text in [
        "a = bed size=4096KiB; x = volume segment=64KiB size=1MiB on a; export x = x",
        "a = bed size=4096KiB; vm = volumes segment=64KiB ports=\"x=1MiB\" on a; export x = vm.x",
        "a = bed size=4096KiB; x = dedup on a; export x = x",
        "a = bed size=4096KiB; x = shepherd spares=16 on a; export x = x",
        "a = bed size=4096KiB; b = bed size=1024KiB; x = offload on a, b; export x = x",
        "a = bed size=4096KiB; b = bed size=4160KiB; x = mirror region=64KiB on a, b; export x = x",
        "a = bed size=4096KiB; b = bed size=4160KiB; x = mirror region=64KiB new=equal on a, b; export x = x",
        "a = bed size=4096KiB; b = bed size=4160KiB; m = mirror region=64KiB on a, b; c = crypt key=env:K on m; \
         vm = volumes segment=64KiB ports=\"x=1MiB\" on c; export x = vm.x",
    ] {
        let count = check(text);
        all.refused += count.refused;
        all.again += count.again;
        all.forced += count.forced;
    }
    assert!(all.refused > 10 && all.again > 100 && all.forced > 100, "{all:?}");
}
