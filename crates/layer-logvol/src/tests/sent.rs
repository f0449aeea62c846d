//! Snapshots that travel from one volume manager to another.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker_layer_thin::retention::rotate;
use esker_layer_thin::stream::{Decoder, Item};
use esker_layer_thin::transfer::{Ask, Outgoing, Target, TransferError, receive, send};
use serde_json::Value;

use super::named::Named;
use super::*;

const MEDIUM: u64 = 1 << 20;

/// A manager in a world of its own.
pub(super) struct Place {
    sim: Sim,
    media: Rc<Media>,
    ports: &'static str,
    named: Rc<Named>,
}

impl Place {
    pub(super) fn new(seed: u64, ports: &'static str) -> Place {
        let (sim, media) = (Sim::new(SimConfig::seeded(seed)), media(MEDIUM));
        let named = Place::open(&sim, &media, ports);
        Place { sim, media, ports, named }
    }

    fn open(sim: &Sim, media: &Rc<Media>, ports: &'static str) -> Rc<Named> {
        let (rt, device) = (sim.rt(), device(&sim.rt(), media));
        Rc::new(sim.block_on(async move { Named::open(&rt, device, ports).await }))
    }

    /// Opens the medium again.
    pub(super) fn reopen(&mut self) {
        self.named = Place::open(&self.sim, &self.media, self.ports);
    }

    pub(super) fn run<T: 'static>(&self, body: impl AsyncFnOnce(Rc<Named>) -> T + 'static) -> T {
        let named = self.named.clone();
        self.sim.block_on(async move { body(named).await })
    }

    pub(super) fn try_do(&self, text: &str) -> Result<Value, String> {
        let text = text.to_string();
        self.run(async move |named| named.ask(&text).await)
    }

    pub(super) fn done(&self, text: &str) -> Value {
        self.try_do(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    pub(super) fn write(&self, name: &'static str, at: u64, blocks: usize, value: u8) {
        self.run(async move |named| named.write(name, at, blocks, value).await);
    }

    pub(super) fn values(&self, name: &str) -> Vec<u8> {
        let name = name.to_string();
        self.run(async move |named| named.values(&name).await)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let all = self.run(async |named| named.contents().await);
        all.into_keys().collect()
    }

    fn sent(&mut self, snapshot: &str, base: Option<&str>, start: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let what = Outgoing { snapshot, base, start };
        let mut told = (u64::MAX, 0);
        let data = send(self, &what, &mut bytes, &mut |done, of| told = (done, of)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(told, (data, data), "the last word of the progress");
        bytes
    }

    fn received(&mut self, volume: &str, stream: &[u8], force: bool) -> Result<Value, String> {
        let target = Target { volume, snapshot: None, force };
        receive(self, &target, stream, &mut |_, _| {}).map_err(|e| e.to_string())
    }
}

impl Ask for Place {
    type Error = String;

    fn ask(&mut self, words: Vec<String>) -> Result<Value, String> {
        self.run(async move |named| named.order(&words).await)
    }
}

/// A sender with two snapshots of a volume, and a receiver with the first one.
fn pair() -> (Place, Place) {
    let (mut from, mut to) = (Place::new(1, "db=8KiB"), Place::new(2, "other=1KiB"));
    from.write("db", 0, 12, 1);
    from.done("snapshot db monday");
    let stream = from.sent("monday", None, 0);
    assert_eq!(to.received("copy", &stream, false).unwrap()["of"], "copy");
    from.write("db", 2, 3, 2);
    from.write("db", 14, 1, 3);
    let zero = Bio::zero((from.named.entry("db").start + 8) * BLOCK as u64, 2 * BLOCK as u64);
    from.run(async move |named| named.bench.ok(zero).await);
    from.done("snapshot db tuesday");
    from.write("db", 0, 16, 9);
    (from, to)
}

fn items(stream: &[u8]) -> Vec<(u64, u64, bool)> {
    let mut decoder = Decoder::new(stream).unwrap();
    let mut all = Vec::new();
    loop {
        match decoder.next_item().unwrap() {
            Item::Data { at, data } => all.push((at / BLOCK as u64, data.len() as u64 / BLOCK as u64, true)),
            Item::Zero { at, len } => all.push((at / BLOCK as u64, len / BLOCK as u64, false)),
            Item::End => return all,
        }
    }
}

#[test]
fn a_snapshot_arrives_whole_and_then_what_differs_alone() {
    let (mut from, mut to) = pair();
    assert_eq!(to.values("copy"), from.values("monday"));
    let stream = from.sent("tuesday", Some("monday"), 0);
    assert_eq!(items(&stream), [(2, 3, true), (8, 2, false), (14, 1, true)]);
    let told = to.received("copy", &stream, false).unwrap();
    assert_eq!((&told["name"], &told["snapshot"], &told["of"]), (&"tuesday".into(), &true.into(), &"copy".into()));
    assert_eq!(to.names(), ["copy", "monday", "other", "tuesday"]);
    to.reopen();
    for name in ["copy", "tuesday"] {
        assert_eq!(to.values(name), from.values("tuesday"), "{name}");
    }
    assert_eq!(to.values("monday"), [vec![1; 12], vec![0; 4]].concat());
    let again = to.received("copy", &stream, false).unwrap_err();
    assert!(again.contains("\"tuesday\" already"), "{again}");
    // What was received can be sent on, and a third place takes increments from either.
    let mut third = Place::new(3, "other=1KiB");
    third.received("db", &to.sent("monday", None, 0), false).unwrap();
    third.received("db", &stream, false).unwrap();
    assert_eq!(third.values("db"), from.values("tuesday"));
}

#[test]
fn a_volume_grows_and_shrinks_with_what_it_receives() {
    let (mut from, mut to) = pair();
    to.received("copy", &from.sent("tuesday", Some("monday"), 0), false).unwrap();
    from.done("resize db 12KiB");
    from.write("db", 20, 2, 4);
    from.done("snapshot db wednesday");
    to.received("copy", &from.sent("wednesday", Some("tuesday"), 0), false).unwrap();
    assert_eq!((to.values("copy"), to.values("copy").len()), (from.values("wednesday"), 24));
    from.run(async |named| named.manager.resize_port(&named.bench.below(), "db", 4096).await.unwrap());
    from.done("snapshot db thursday");
    let stream = from.sent("thursday", Some("wednesday"), 0);
    assert_eq!(items(&stream), []);
    to.received("copy", &stream, false).unwrap();
    assert_eq!(to.values("copy"), [9; 8]);
}

#[test]
fn a_volume_that_is_not_as_the_base_is_left_alone() {
    let (mut from, mut to) = pair();
    let stream = from.sent("tuesday", Some("monday"), 0);
    let check = |to: &mut Place, volume: &str, words: &str| {
        let before = to.run(async |named| named.contents().await);
        let error = to.received(volume, &stream, false).unwrap_err();
        assert!(error.contains(words), "{volume}: {error}");
        assert_eq!(to.run(async |named| named.contents().await), before, "{volume}");
    };
    check(&mut to, "nothing", "no volume \"nothing\"");
    check(&mut to, "monday", "is a snapshot");
    check(&mut to, "other", "say `force`");
    check(&mut Place::new(4, "copy=8KiB"), "copy", "no snapshot here is the one from which the stream differs");
    to.write("copy", 5, 1, 7);
    check(&mut to, "copy", "is not as \"monday\"");
    // The same bytes at another place are no difference.
    to.write("copy", 5, 1, 1);
    to.received("copy", &stream, false).unwrap();
    assert_eq!(to.values("copy"), from.values("tuesday"));
    to.write("copy", 5, 1, 7);
    from.done("snapshot db wednesday");
    let stream = from.sent("wednesday", Some("tuesday"), 0);
    to.received("copy", &stream, true).unwrap();
    assert_eq!(to.values("copy"), from.values("wednesday"), "force overwrites what changed");
    from.done("snapshot db thursday");
    let whole = from.sent("thursday", None, 0);
    assert!(to.received("copy", &whole, false).unwrap_err().contains("a volume \"copy\" already"));
    to.received("other", &whole, true).unwrap();
    assert_eq!(to.values("other"), from.values("thursday"), "a volume with a port");
}

#[test]
fn a_stream_that_is_cut_anywhere_leaves_the_volume_and_goes_on_where_it_ended() {
    let (mut from, _) = pair();
    from.done("snapshot db wednesday");
    let stream = from.sent("tuesday", Some("monday"), 0);
    let monday = from.sent("monday", None, 0);
    for len in (0..stream.len()).step_by(97).chain([stream.len() - 1]) {
        let mut to = Place::new(2, "other=1KiB");
        to.received("copy", &monday, false).unwrap();
        let error = to.received("copy", &stream[..len], false).unwrap_err();
        assert!(error.contains("the stream was cut after"), "{len}: {error}");
        assert_eq!(to.values("copy"), from.values("monday"), "{len}");
        to.reopen();
        let listed = to.done("list");
        let kept = listed.as_array().unwrap().iter().find(|told| told["name"] == "copy-receiving");
        let start = kept.map_or(0, |told| told["received_bytes"].as_u64().unwrap());
        if start > 0 {
            assert!(error.contains(&format!("--start {start}`")), "{error}");
            let far = from.sent("tuesday", Some("monday"), start + 512);
            assert!(to.received("copy", &far, false).unwrap_err().contains("send it from byte"), "{len}");
            let other = from.sent("tuesday", None, start);
            assert!(to.received("copy", &other, true).unwrap_err().contains("has 0 bytes"), "{len}: another base");
        }
        let rest = from.sent("tuesday", Some("monday"), start);
        to.received("copy", &rest, false).unwrap();
        assert_eq!(to.values("copy"), from.values("tuesday"), "{len}");
        assert_eq!(to.names(), ["copy", "monday", "other", "tuesday"]);
    }
}

#[test]
fn a_damaged_stream_is_refused_and_what_is_received_is_of_no_other_use() {
    let (mut from, mut to) = pair();
    let stream = from.sent("tuesday", Some("monday"), 0);
    let mut damaged = stream.clone();
    let last = damaged.len() - 300;
    damaged[last] ^= 1;
    let error = to.received("copy", &damaged, false).unwrap_err();
    assert!(error.contains("the stream is damaged at byte"), "{error}");
    for order in [
        "snapshot copy-receiving s",
        "clone copy-receiving s",
        "rename copy-receiving s",
        "resize copy-receiving 1KiB",
        "rollback copy copy-receiving",
        "hold copy-receiving",
    ] {
        let error = to.try_do(order).unwrap_err();
        assert!(error.contains("is received and not complete") || error.contains("is a volume"), "{order}: {error}");
    }
    to.done("delete copy-receiving");
    to.received("copy", &stream, false).unwrap();
    to.done("create x-receiving 1KiB");
    let whole = from.sent("monday", None, 0);
    let mut third = Place::new(5, "x-receiving=1KiB");
    assert!(third.received("x", &whole, false).unwrap_err().contains("a volume \"x-receiving\" already"));
}

#[test]
fn what_the_collector_moves_is_sent_right() {
    let mut from = Place::new(1, "db=64KiB");
    for at in (0..120).step_by(4) {
        from.write("db", at, 4, at as u8 + 1);
    }
    from.done("snapshot db monday");
    for round in 0..40 {
        from.write("db", round * 3 % 100, 2, 200);
        from.run(async |named| {
            named.bench.checkpoint().await;
            named.bench.volume.collect_now(&named.bench.volume.store(named.bench.below())).await;
        });
    }
    from.done("snapshot db tuesday");
    let mut to = Place::new(2, "other=1KiB");
    to.received("copy", &from.sent("monday", None, 0), false).unwrap();
    to.received("copy", &from.sent("tuesday", Some("monday"), 0), false).unwrap();
    assert_eq!(to.values("copy"), from.values("tuesday"));
    assert_eq!(to.values("monday"), from.values("monday"));
}

#[test]
fn a_schedule_deletes_what_no_rule_keeps_and_nothing_that_is_held_or_of_another_name() {
    let mut place = Place::new(1, "db=8KiB,dbx=8KiB");
    let keep = "hourly=2,daily=2".parse().unwrap();
    place.done("snapshot db mine dbx dbx-19700101T000000Z");
    let mut held = Vec::new();
    for hour in 0..60 {
        let done = rotate(&mut place, "db", &keep, hour * 3600).unwrap();
        if hour == 5 {
            place.done(&format!("hold {}", done.made));
        }
        held = done.held;
    }
    assert_eq!(held, ["db-19700101T050000Z"]);
    let kept = [
        "db",
        "db-19700101T050000Z held",
        "db-19700102T230000Z",
        "db-19700103T100000Z",
        "db-19700103T110000Z",
        "dbx",
        "dbx-19700101T000000Z",
        "mine",
    ];
    assert_eq!(place.names(), kept);
    assert!(rotate(&mut place, "db", &keep, 59 * 3600).unwrap_err().contains("already"), "one a second");
    assert!(rotate(&mut place, "nothing", &keep, 0).unwrap_err().contains("no volume"));
}

#[test]
fn steps_that_do_not_fit_are_refused() {
    let place = Place::new(1, "db=8KiB");
    place.write("db", 0, 12, 1);
    let number = place.done("snapshot db s")[0]["id"].as_u64().unwrap();
    place.done("receive x y 4096 5 0 0");
    let block = STANDARD.encode([1; 512]);
    for (order, words) in [
        ("changes db 0", "is a volume that changes"),
        ("changes s 1", "not inside"),
        ("changes s 8704", "not inside"),
        ("changes s x", "is no number"),
        ("read s 1 0 512", "not the snapshot that was there"),
        (&format!("read s {number} 0 100"), "not inside"),
        (&format!("read s {number} 8192 512"), "not inside"),
        (&format!("read s {number} 0 1048576"), "not inside"),
        ("receive x s 4096 6 0 0", "\"s\" already"),
        ("receive x z 100 6 0 0", "cannot be a size"),
        (&format!("receive-data x 4096 {block}"), "not inside"),
        ("receive-data x 0 ?", "no Base64"),
        (&format!("receive-data y 0 {block}"), "no \"y-receiving\""),
        ("receive-zero x 0 0", "not inside"),
        ("receive-zero x 3584 1024", "not inside"),
        ("receive-keep x 5000", "not inside"),
        ("receive-end x s", "\"s\" already"),
        ("map x 0", "no volume \"x\""),
        ("map x-receiving 0", "is received and not complete"),
        ("map db 8704", "not inside"),
        ("map db 0 nothing", "no volume \"nothing\""),
        ("receive db - 4096 7 0 0", "say `force`"),
    ] {
        let error = place.try_do(order).err().unwrap_or_else(|| panic!("{order} was done"));
        assert!(error.contains(words), "{order}: {error}");
    }
    let strange: TransferError<String> = TransferError::Strange("read".into(), Value::Null);
    assert!(strange.to_string().contains("another version"));
}
