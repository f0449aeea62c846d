//! The layer in a stack.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, Device, Kind, Tag};
use esker_rt::sync::join_all;
use esker_rt::{Sim, SimConfig};
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

/// A process asks for pages, one request each, 1 ms apart.
async fn ask(vol: &Export, pid: u32, pages: &[u64]) {
    for page in pages {
        let read = Bio::read(page * PAGE, Buf::unique(vol.stack().pool(), PAGE as usize));
        assert!(vol.submit(read.tagged(Tag { pid, ..Tag::default() })).await.result.is_ok());
        sleep(vol, Nanos::millis(1)).await;
    }
}

async fn order(vol: &Export, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    vol.stack().order("vol", &words).await.unwrap()
}

const RUN: [u64; 6] = [90, 3, 200, 44, 120, 7];

async fn ask_often(vol: &Export) {
    for _ in 0..4 {
        ask(vol, 1, &RUN).await;
        sleep(vol, Nanos::secs(2)).await;
    }
}

#[test]
fn what_is_asked_for_together_comes_from_the_area_in_order() {
    with("", async |vol| {
        for page in RUN {
            write(&vol, page * PAGE, &[page as u8; PAGE as usize]).await;
        }
        ask_often(&vol).await;
        assert_eq!(order(&vol, &["plan"]).await, r#"{"planned":6}"#);
        done(&vol).await;
        assert_eq!(
            (stat(&vol, "plans"), stat(&vol, "moved"), stat(&vol, "dirty")),
            (1, 6, 6),
            "writes lay in the ring"
        );
        assert_eq!(stat(&vol, "buffer_used"), 0);
        order(&vol, &["write-back"]).await;
        let before = count(&vol, "x", "reads");
        ask(&vol, 1, &RUN).await;
        assert_eq!(count(&vol, "x", "reads"), before);
        for page in RUN {
            assert_eq!(read(&vol, page * PAGE, 512).await, [page as u8; 512]);
        }
        // Another order of pages: it takes the slots of those that are asked for no more, when their weight has faded.
        for _ in 0..8 {
            ask(&vol, 1, &[5, 60, 31]).await;
            sleep(&vol, Nanos::secs(2)).await;
            order(&vol, &["plan"]).await;
            done(&vol).await;
        }
        assert_eq!(stat(&vol, "planned"), 3);
        assert_eq!((stat(&vol, "used"), stat(&vol, "dropped")), (9, 0), "there is room for both");
        let before = count(&vol, "x", "reads");
        ask(&vol, 1, &[5, 60, 31]).await;
        assert_eq!(count(&vol, "x", "reads"), before);
    });
}

/// Item 17.
#[test]
fn writes_fill_the_ring_and_then_go_home() {
    with("write_buffer=0.25", async |vol| {
        read(&vol, 0, 512).await;
        let slots = stat(&vol, "buffer_slots");
        for page in 0..slots + 10 {
            write(&vol, page * 2 * PAGE, &[page as u8; PAGE as usize]).await;
            // A page that has a copy needs no other slot.
            write(&vol, page * 2 * PAGE + 512, &[page as u8 + 1; 512]).await;
        }
        assert_eq!((stat(&vol, "buffer_used"), stat(&vol, "buffer_full")), (slots, 20));
        assert_eq!(count(&vol, "x", "writes"), 20);
        flush(&vol).await;
        for page in 0..slots + 10 {
            assert_eq!(
                read(&vol, page * 2 * PAGE, 1024).await,
                [vec![page as u8; 512], vec![page as u8 + 1; 512]].concat()
            );
        }
        // A plan without any chain writes all of it home.
        sleep(&vol, Nanos::secs(2)).await;
        order(&vol, &["write-back"]).await;
        assert_eq!(stat(&vol, "dirty"), 0);
    });
}

#[test]
fn plans_come_by_themselves_and_steps_wait_for_an_idle_disk() {
    with("interval=12s", async |vol| {
        ask_often(&vol).await;
        // A request every 3 ms: no step can begin.
        for _ in 0..2_000 {
            ask(&vol, 2, &[1]).await;
            sleep(&vol, Nanos::millis(2)).await;
        }
        assert_eq!((stat(&vol, "plans"), stat(&vol, "fetched")), (1, 0));
        sleep(&vol, Nanos::millis(100)).await;
        assert_eq!((stat(&vol, "fetched"), stat(&vol, "steps_left")), (6, 0));
    });
}

/// Item 20.
#[test]
fn while_both_cpus_are_busy_only_the_plan_is_late() {
    let busy_until = |do_plan: bool| {
        let sim = Sim::new(SimConfig { seed: 1, cpus: 2 });
        let vol = Rc::new(bench::open(&sim.rt(), KINDS, &format!("{HOME} {AREA} vol = reorg on x, y")));
        sim.block_on(async move {
            for round in 0..50 {
                ask(&vol, 1, &(0..120).map(|page| (page * 7 + round) % 250).collect::<Vec<_>>()).await;
            }
            let rt = vol.stack().rt();
            let begun = rt.now();
            let busy: Vec<_> = (0..2)
                .map(|_| {
                    let rt = rt.clone();
                    rt.clone().spawn("busy", async move {
                        for _ in 0..2_000 {
                            rt.charge(Nanos::micros(5));
                            rt.yield_now().await;
                        }
                        rt.now()
                    })
                })
                .collect();
            let planned = {
                let (vol, rt) = (vol.clone(), rt.clone());
                rt.clone().spawn("asks", async move {
                    if do_plan {
                        order(&vol, &["plan"]).await;
                    }
                    rt.now()
                })
            };
            let ended = join_all(busy).await.into_iter().max().unwrap();
            (ended.since(begun), planned.await.since(begun))
        })
    };
    let ((alone, _), (beside, planned)) = (busy_until(false), busy_until(true));
    assert!(beside.0.abs_diff(alone.0) < 50_000, "{alone:?} {beside:?}");
    assert!(planned > beside, "the plan was made at {planned:?}, before {beside:?}");
}

#[test]
fn nonsense_is_refused() {
    let refused = |text: &str, wrong: &str| {
        let told = bench::try_open(&Sim::new(SimConfig::seeded(1)).rt(), KINDS, text).err().expect("it is refused");
        assert!(told.contains(wrong), "{text}: {told}");
    };
    for (args, wrong) in [("interval=0s", "above 0"), ("heads=0", "above 0"), ("write_buffer=2", "write_buffer")] {
        refused(&format!("{HOME} {AREA} vol = reorg {args} on x, y"), wrong);
    }
    refused("h = memory size=1MiB; f = memory size=16KiB; vol = reorg on h, f", "vol");
    refused("h = memory size=1MiB; vol = reorg on h", "vol");
}

#[test]
fn a_page_that_changes_while_it_goes_home_goes_there_again() {
    with("", async |vol| {
        write(&vol, 5 * PAGE, &[1; PAGE as usize]).await;
        let writes_back = {
            let vol = vol.clone();
            vol.stack().rt().clone().spawn("order", async move { order(&vol, &["write-back"]).await })
        };
        // The page is on its way home.
        sleep(&vol, Nanos::micros(50)).await;
        write(&vol, 5 * PAGE, &[2; PAGE as usize]).await;
        assert_eq!(writes_back.await, r#"{"written_back":1}"#);
        let home = vol.stack().device("x").unwrap();
        assert_eq!((read(&home, 5 * PAGE, 512).await, stat(&vol, "dirty")), (vec![2; 512], 0));
    });
}
