//! Named volumes: what orders do, alone and across power cuts.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker_base::Stream;
use esker_block::store::SparseStore;
use esker_testkit::{Bound, Journal, Recorder, crash};
use serde_json::Value;

use super::*;
use esker_layer_thin::Manager;
use esker_layer_thin::catalogue::Entry;
use esker_layer_thin::ports;

const MEDIUM: u64 = 1 << 20;
const SEGMENT: u64 = 16 << 10;

/// A manager over a medium, without a stack.
pub(super) struct Named {
    pub(super) bench: Bench,
    pub(super) manager: Manager<Volume>,
}

impl Named {
    pub(super) async fn open(rt: &Rt, device: Rc<dyn Device>, ports: &str) -> Named {
        Named::try_open(rt, device, ports).await.unwrap_or_else(|e| panic!("{e}"))
    }

    pub(super) async fn try_open(rt: &Rt, device: Rc<dyn Device>, ports: &str) -> Result<Named, String> {
        let bench = Bench::try_open(rt, device, SEGMENT, 64 << 10).await?;
        let ports = ports::parse(ports, BLOCK as u64).unwrap_or_else(|e| panic!("{e}"));
        let manager = Manager::open(bench.volume.clone(), &bench.below(), Rc::new(ports), 20).await;
        Ok(Named { bench, manager: manager.map_err(|e| e.to_string())? })
    }

    pub(super) async fn ask(&self, text: &str) -> Result<Value, String> {
        self.order(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>()).await
    }

    pub(super) async fn order(&self, words: &[String]) -> Result<Value, String> {
        let answer = self.manager.ask(&self.bench.below(), words).await.map_err(|e| e.to_string())?;
        Ok(serde_json::from_str(&answer).unwrap())
    }

    pub(super) async fn done(&self, text: &str) -> Value {
        self.ask(text).await.unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    pub(super) fn entry(&self, name: &str) -> Entry {
        self.manager.entry(name).unwrap_or_else(|e| panic!("{e}")).1
    }

    pub(super) async fn write(&self, name: &str, at: u64, blocks: usize, value: u8) {
        self.bench.write(self.entry(name).start + at, blocks, value).await;
    }

    pub(super) async fn values(&self, name: &str) -> Vec<u8> {
        let entry = self.entry(name);
        self.bench.values(entry.start, entry.blocks).await
    }

    /// Names and contents of all volumes. Of those that are held or received, that stands behind the name.
    pub(super) async fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        for told in self.done("list").await.as_array().unwrap() {
            let name = told["name"].as_str().unwrap();
            let values = self.values(name).await;
            let held = if told["held"] == true { " held" } else { "" };
            let received = told["received_bytes"].as_u64().map_or(String::new(), |bytes| format!(" with {bytes}"));
            all.insert(format!("{name}{held}{received}"), values);
        }
        all
    }
}

fn on_fresh(body: impl AsyncFnOnce(Rt, Rc<Media>) + 'static) {
    run(async move |rt| body(rt, media(MEDIUM)).await);
}

#[test]
fn ports_of_named_volumes_conform() {
    let text = "a = memory size=8MiB defer=always latency=3us; \
                vm = thin block=512 page=512 segment=64KiB ports=\"other=1MiB,db=2MiB\" on a";
    let port = |rt: &Rt| -> Rc<dyn Device> {
        let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).unwrap_or_else(|e| panic!("{text}: {e}"));
        Rc::new(stack.device("vm.db").expect("the text names it"))
    };
    let report = conformance::check(port, Options::facade(7));
    for kind in OpKind::ALL {
        assert!(report.answered(kind) > 5, "{kind:?}: {report:?}");
    }
}

#[test]
fn snapshots_and_clones_hold_what_the_volume_held_and_each_goes_its_own_way() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=4KiB").await;
        named.write("db", 0, 8, 1).await;
        named.done("snapshot db s1").await;
        named.write("db", 0, 4, 2).await;
        named.done("snapshot s1 s2").await;
        named.done("clone s2 c").await;
        named.write("c", 6, 2, 3).await;
        assert_eq!(named.values("db").await, [2, 2, 2, 2, 1, 1, 1, 1]);
        assert_eq!(named.values("s1").await, [1; 8]);
        assert_eq!(named.values("s2").await, [1; 8]);
        assert_eq!(named.values("c").await, [1, 1, 1, 1, 1, 1, 3, 3]);
        named.done("delete s1").await;
        assert_eq!(named.values("s2").await, [1; 8], "a snapshot of a snapshot stands alone");
        named.done("rollback db c force").await;
        assert_eq!(named.values("db").await, named.values("c").await);
        let told = named.done("list").await;
        let names: Vec<&str> = told.as_array().unwrap().iter().map(|told| told["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["c", "db", "s2"]);
        assert_eq!((&told[0]["of"], &told[0]["snapshot"]), (&Value::from("s2"), &Value::from(false)));
        assert_eq!((&told[2]["of"], &told[2]["snapshot"]), (&Value::Null, &Value::from(true)), "s1 is gone");
        let before = named.contents().await;
        drop(named);
        let again = Named::open(&rt, device(&rt, &media), "db=4KiB").await;
        assert_eq!(again.contents().await, before);
    });
}

#[test]
fn several_volumes_are_kept_at_one_moment() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "data=2KiB,log=2KiB").await;
        named.write("data", 0, 4, 1).await;
        named.write("log", 0, 4, 2).await;
        named.done("snapshot data data-1 log log-1").await;
        assert_eq!((named.values("data-1").await, named.values("log-1").await), (vec![1; 4], vec![2; 4]));
        assert!(named.ask("snapshot data data-2 nothing log-2").await.unwrap_err().contains("no volume \"nothing\""));
        assert!(named.ask("snapshot data data-1 log log-2").await.unwrap_err().contains("data-1\" already"));
        assert!(named.ask("snapshot data x log x").await.unwrap_err().contains("\"x\" already"));
        assert_eq!(named.contents().await.len(), 4, "all of them or none");
    });
}

#[test]
fn sizes_and_names_change_and_what_is_cut_off_is_gone() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=2KiB").await;
        named.done("create v 4KiB").await;
        named.write("v", 0, 8, 5).await;
        named.done("resize v 2KiB").await;
        assert_eq!(named.values("v").await, [5; 4]);
        named.done("resize v 4KiB").await;
        assert_eq!(named.values("v").await, [5, 5, 5, 5, 0, 0, 0, 0], "what was cut off does not come back");
        // Beyond the room that it was given: it moves.
        let before = named.entry("v").start;
        named.done(&format!("resize v {}", 2u64 << 40)).await;
        assert_ne!(named.entry("v").start, before);
        assert_eq!(named.bench.values(named.entry("v").start, 8).await, [5, 5, 5, 5, 0, 0, 0, 0]);
        assert_eq!(named.bench.values(before, 8).await, [0; 8]);
        named.done("resize v 2KiB").await;
        named.done("rename v w").await;
        named.done("snapshot w s").await;
        named.write("w", 0, 4, 6).await;
        named.done("resize w 8KiB").await;
        named.done("rollback w s").await;
        assert_eq!(named.values("w").await, [5; 4], "size and content");
    });
}

#[test]
fn wrong_orders_say_what_is_wrong_and_change_nothing() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=2KiB").await;
        named.done("snapshot db s").await;
        named.done("create v 4KiB").await;
        named.done(&format!("create large {}", 4u64 << 40)).await;
        let before = named.done("list").await;
        for (order, words) in [
            ("create db 1KiB", "\"db\" already"),
            ("create a.b 1KiB", "cannot be a name"),
            ("create x 100", "multiple of 512"),
            ("create x 0", "not 0"),
            ("create x 16EiB", "is no size"),
            ("create x 100000TiB", "no room in the logical space"),
            ("clone nothing x", "no volume \"nothing\""),
            ("rollback db s", "say `force`"),
            ("rollback s db", "is a snapshot"),
            ("rollback v v", "named twice"),
            ("rollback v large", "make a clone of \"large\""),
            ("resize s 4KiB", "is a snapshot"),
            ("resize db 1KiB", "has a port of 2048 bytes, and 1024 bytes are fewer"),
            ("resize db 9TiB", "has room for 1099511627776 bytes where it lies"),
            ("delete db", "take its port out"),
            ("delete v v", "named twice"),
            ("delete v nothing", "no volume \"nothing\""),
            ("rename db x", "take its port out"),
            ("rename v s", "\"s\" already"),
            ("dedup v v", "named twice"),
            ("hold v", "is a volume that changes"),
            ("hold s nothing", "no volume \"nothing\""),
            ("receive-end v x", "there is no \"v-receiving\""),
            ("format v", "is no order"),
        ] {
            let error = named.ask(order).await.err().unwrap_or_else(|| panic!("{order} was done"));
            assert!(error.contains(words), "{order}: {error}");
            assert_eq!(named.done("list").await, before, "{order}");
        }
        let many: String = (0..11).map(|i| format!(" v many-{i}")).collect();
        assert!(named.ask(&format!("snapshot{many}")).await.unwrap_err().contains("too many; 20 fit"));
    });
}

#[test]
fn a_held_snapshot_stays_until_it_is_released() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=2KiB").await;
        named.write("db", 0, 4, 1).await;
        named.done("snapshot db s db t").await;
        named.done("hold s t").await;
        assert_eq!(named.done("hold s").await[0]["held"], true, "it may be said twice");
        named.done("rename s u").await;
        drop(named);
        let named = Named::open(&rt, device(&rt, &media), "db=2KiB").await;
        let refused = named.ask("delete t u").await.unwrap_err();
        assert!(refused.contains("\"t\" is held") && refused.contains("esker volume release t"), "{refused}");
        named.done("release t").await;
        assert!(named.ask("delete t u").await.unwrap_err().contains("\"u\" is held"));
        assert_eq!(named.contents().await.keys().collect::<Vec<_>>(), ["db", "t", "u held"], "all of them or none");
        named.done("release u t").await;
        named.done("delete t u").await;
        assert_eq!(named.contents().await.len(), 1);
    });
}

#[test]
fn a_port_grows_its_volume_and_refuses_what_cannot_grow() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=2KiB").await;
        named.write("db", 0, 4, 1).await;
        named.done("snapshot db s").await;
        drop(named);
        let named = Named::open(&rt, device(&rt, &media), "db=4KiB,s=4KiB").await;
        assert_eq!(named.values("db").await, [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(named.values("s").await, [1; 4]);
        let mut bio = Bio::flush();
        let ports = ports::parse("x=1KiB", 512).unwrap_or_else(|e| panic!("{e}"));
        assert!(ports[0].redirect(&mut bio).unwrap_err().to_string().contains("not open yet"));
    });
}

#[test]
fn space_tells_what_is_shared_and_what_a_deletion_would_give_back() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=8KiB").await;
        named.write("db", 0, 10, 1).await;
        named.done("snapshot db s").await;
        named.write("db", 0, 4, 2).await;
        let told = named.done("usage").await;
        let blocks = |volume: &Value, what: &str| volume[what].as_u64().unwrap() / BLOCK as u64;
        let of =
            |volume: &Value| ["apparent_bytes", "exclusive_bytes", "shared_bytes"].map(|what| blocks(volume, what));
        assert_eq!(of(&told["volumes"][0]), [10, 4, 6], "db");
        assert_eq!(of(&told["volumes"][1]), [10, 4, 6], "s");
        assert_eq!(blocks(&told, "used_bytes"), 14);
        named.done("delete s").await;
        assert_eq!(blocks(&named.done("usage").await, "used_bytes"), 10);
    });
}

#[test]
fn equal_volumes_share_again_and_different_blocks_stay() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "a=100KiB,b=100KiB").await;
        for at in (0..200).step_by(8) {
            named.write("a", at, 8, (at % 7) as u8 + 1).await;
            named.write("b", at, 8, (at % 7) as u8 + 1).await;
        }
        named.write("b", 77, 1, 99).await;
        let before = named.contents().await;
        let told = named.done("dedup a b").await;
        assert_eq!(told["shared_now_bytes"], 199 * BLOCK as u64);
        assert_eq!(named.contents().await, before);
        let told = named.done("dedup a b").await;
        assert_eq!(
            (&told["shared_now_bytes"], &told["shared_before_bytes"]),
            (&Value::from(0), &Value::from(199 * 512))
        );
        let space = named.done("usage").await;
        assert_eq!(space["used_bytes"], 201 * BLOCK as u64);
    });
}

#[test]
fn named_volumes_and_a_single_one_are_not_taken_for_each_other() {
    let open = |rt: &Rt, media: &Rc<Media>, kind: &str| {
        let (rt, media, kind) = (rt.clone(), media.clone(), kind.to_string());
        async move {
            let bench = Bench::open(&rt, device(&rt, &media), SEGMENT, 64 << 10).await;
            match kind.as_str() {
                "named" => Named::try_open(&rt, device(&rt, &media), "db=1KiB").await.err(),
                _ => esker_layer_thin::demand_none(&bench.volume, &bench.below()).await.err().map(|e| e.to_string()),
            }
        }
    };
    run(async move |rt| {
        let single = media(MEDIUM);
        assert_eq!(open(&rt, &single, "single").await, None);
        let bench = Bench::open(&rt, device(&rt, &single), SEGMENT, 64 << 10).await;
        bench.write(0, 1, 1).await;
        bench.checkpoint().await;
        assert!(open(&rt, &single, "named").await.unwrap().contains("use kind `logvol`"));
        let several = media(MEDIUM);
        assert_eq!(open(&rt, &several, "named").await, None);
        assert!(open(&rt, &several, "single").await.unwrap().contains("use kind `thin`"));
    });
}

#[test]
fn a_full_volume_still_takes_deletions_of_snapshots() {
    on_fresh(async |rt, media| {
        let named = Named::open(&rt, device(&rt, &media), "db=2MiB").await;
        for at in (0..104).step_by(8) {
            named.write("db", at, 8, 1).await;
        }
        named.done("snapshot db s").await;
        let mut at = 0;
        loop {
            let start = named.entry("db").start;
            let buf = Buf::from_bytes(named.bench.io.pool(), &vec![2; 8 * BLOCK]);
            if named.bench.submit(Bio::write((start + at) * BLOCK as u64, buf)).await.result.is_err() {
                break;
            }
            at += 8;
        }
        assert!(named.ask("create more 1KiB").await.unwrap_err().contains("no space"), "it is full");
        named.done("delete s").await;
        assert_eq!(named.contents().await.len(), 1);
    });
}

/// Orders and writes at random; the model is names with contents.
struct Acted {
    journal: Journal,
    models: Vec<BTreeMap<String, Vec<u8>>>,
    began: Vec<u64>,
    durable: BTreeMap<u64, usize>,
}

/// Draws what is to be done next, from what there is; the number makes new names.
fn draw(rng: &mut Stream, model: &BTreeMap<String, Vec<u8>>, number: usize) -> String {
    let names: Vec<&str> = model.keys().map(|key| key.split(' ').next().unwrap()).collect();
    let any = names[rng.below(names.len() as u64) as usize];
    let new = format!("n{number}");
    match rng.below(15) {
        0 => format!("create {new} {}", 512 * (1 + rng.below(6))),
        1 => format!("snapshot {any} {new}"),
        2 => format!("snapshot {any} {new} db {new}b"),
        3 => format!("clone {any} {new}"),
        4 => format!("rollback {any} {} force", names[rng.below(names.len() as u64) as usize]),
        5 => format!("delete {any}"),
        6 => format!("resize {any} {}", 512 * (1 + rng.below(8))),
        7 => format!("rename {any} {new}"),
        8 => format!("hold {any}"),
        9 => format!("release {any}"),
        10 => format!("receive db {new} {} {} 0 0 force", 512 * (4 + rng.below(4)), number + 1),
        11 => format!("receive-data db 512 {}", STANDARD.encode([number as u8 + 1; 512])),
        12 => format!("receive-keep db {}", 512 * rng.below(5)),
        13 => format!("receive-end db {new} force"),
        _ => format!("write {any}"),
    }
}

/// What an opening makes of volumes: that of the port has at least the port's 2 KiB.
fn opened(mut contents: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    if let Some(db) = contents.get_mut("db") {
        db.resize(db.len().max(4), 0);
    }
    contents
}

async fn act(rt: &Rt, journal: &Journal, seed: u64, acts: usize) -> Acted {
    let leaf = Recorder::leaf(journal, rt, &media(MEDIUM), BLOCK as u32, Defer::Always(Nanos::micros(3)));
    let named = Named::open(rt, leaf, "db=2KiB").await;
    let mut rng = Stream::named(seed, "orders");
    let models = vec![opened(named.contents().await)];
    let mut acted = Acted { journal: journal.clone(), models, began: vec![], durable: BTreeMap::new() };
    acted.durable.insert(journal.points(), 0);
    for number in 0..acts {
        let order = draw(&mut rng, acted.models.last().unwrap(), number);
        acted.began.push(journal.points());
        let is_durable = match order.split_once(' ').unwrap() {
            ("write", name) if !named.entry(name).read_only => {
                named.write(name, 0, 1 + number % 2, number as u8 + 1).await;
                false
            }
            ("write", _) => false,
            ("receive-data", _) => {
                let _ = named.ask(&order).await;
                false
            }
            // As the stack does it: clients of a port are kept off the part that is cut.
            ("resize", _) => {
                let bytes = order.rsplit(' ').next().unwrap().parse().unwrap();
                let name = order.split(' ').nth(1).unwrap();
                named.manager.resize_port(&named.bench.below(), name, bytes).await.is_ok()
            }
            // What is refused has changed nothing.
            _ => named.ask(&order).await.is_ok(),
        };
        // What the model of the next state is, the volumes themselves say: that they say it after a power cut too is
        // tested.
        acted.models.push(opened(named.contents().await));
        if is_durable {
            acted.durable.insert(journal.points(), number + 1);
        }
    }
    acted
}

#[test]
fn every_crash_state_shows_whole_orders_only() {
    let (mut states, mut changes, mut received) = (0, 0, 0);
    for seed in 1..=3 {
        let sim = Sim::new(SimConfig::seeded(seed));
        let (rt, journal) = (sim.rt(), Journal::default());
        let acted = sim.block_on(async move { act(&rt, &journal, seed, 60).await });
        changes += acted.durable.len();
        let is_told = |words: &str| acted.models.iter().flat_map(BTreeMap::keys).any(|key| key.contains(words));
        received += u32::from(is_told(" with ")) + u32::from(is_told(" held"));
        let opened = *acted.durable.keys().next().unwrap();
        let bound = Bound { states_max: 4, seed };
        let walked = crash::for_each_state(&acted.journal, bound, |point, images| {
            let media = Media::of(MEDIUM, images[0].over(&SparseStore::default()));
            let sim = Sim::new(SimConfig::seeded(9));
            let rt = sim.rt();
            let found = sim.block_on(async move {
                let named = Named::open(&rt, device(&rt, &media), "db=2KiB").await;
                named.contents().await
            });
            states += 1;
            let least = acted.durable.range(..=point).next_back().map_or(0, |(_, acts)| *acts);
            let most = acted.began.partition_point(|began| *began <= point);
            match point < opened || acted.models[least..=most].contains(&found) {
                true => Ok(()),
                false => Err(format!("event {point}: {found:?} is not what any of acts {least} to {most} left")),
            }
        });
        walked.unwrap_or_else(|lost| panic!("seed {seed}: {lost}"));
    }
    assert!(states > 1000 && changes > 60, "only {states} states of {changes} changes");
    assert!(received > 4, "snapshots are held and received in {received} of 6 places alone");
}
