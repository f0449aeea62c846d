//! A served stack of mirror, verify and crypt over two files is killed again and again under load; one member is pulled
//! meanwhile and comes back. No write that was answered before an answered flush is ever lost.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Stream as Random};
use esker_front_nbd::Client;
use esker_layer_mirror::check;
use esker_rt::mem::{Pool, Slice};
use esker_rt::net::{Address, Stream};
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Secret};
use esker_serve::{Config, Served};
use esker_stack::Spec;
use esker_testkit::SoakLength;

const ROUNDS: u64 = 24;
/// In these of each so many rounds one member is not there.
const PULLED: std::ops::Range<u64> = 8..11;
const PERIOD: u64 = 25;
const BLOCKS: u64 = 128;
const LEN: u64 = 4096;
const SECTOR: usize = 512;
/// Tells the child where its stack is.
const FOLDER: &str = "ESKER_IT_SERVED";

/// `cargo xtask soak layers` sets another number.
fn rounds() -> u64 {
    SoakLength::told(ROUNDS).times
}

fn is_pulled(round: u64) -> bool {
    PULLED.contains(&(round % PERIOD)) && round < rounds()
}

fn text(dir: &Path, round: u64) -> String {
    let dir = dir.display();
    let member = |name: &str| format!("{name} = file path={dir}/{name}.img size=2MiB direct=false");
    let (members, on) = match is_pulled(round) {
        true => (member("a"), "degraded=true on a"),
        false => (format!("{}; {}", member("a"), member("b")), "on a, b"),
    };
    format!(
        "{members}; vol = mirror region=64KiB rescan=50ms clean_after=100ms {on} | verify | crypt key=file:k @ nbd=unix:{dir}/sock"
    )
}

fn control(dir: &Path) -> Address {
    Address::Unix(dir.join("ctl"))
}

/// What the parent starts and kills.
#[test]
#[ignore = "the child of the test below"]
fn the_child_serves() {
    let dir = PathBuf::from(std::env::var_os(FOLDER).expect("the parent names a folder"));
    let spec = Spec::parse("stack", &std::fs::read_to_string(dir.join("stack")).unwrap()).unwrap();
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
    let config = Config { stop_patience: Nanos::secs(60), ..Config::at(control(&dir), "test") };
    let served = Served::start(&rt, &Pool::default(), esker_kinds::ALL, &spec, config).unwrap();
    let ended = reactor.block_on(async move { served.run(std::future::pending()).await });
    panic!("a child is killed, but it ended: {ended:?}");
}

fn start(dir: &Path, round: u64) -> Child {
    std::fs::write(dir.join("stack"), text(dir, round)).unwrap();
    for socket in ["sock", "ctl"] {
        // The one that was killed left its sockets.
        let _absent_at_first = std::fs::remove_file(dir.join(socket));
    }
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill_nine::the_child_serves", "--ignored", "--nocapture"])
        .env(FOLDER, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Versions of one block: the last that a flush covered, the last that was answered, the last that was sent.
#[derive(Clone, Copy, Default, Debug)]
struct Versions {
    durable: u64,
    answered: u64,
    sent: u64,
}

/// The content of a sector in this version.
fn sector(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    Random::named(version, &format!("block {block}")).fill(&mut bytes);
    bytes
}

async fn connect(rt: &Rt, dir: &Path) -> Client {
    for _ in 0..2000 {
        if let Ok(stream) = Stream::connect(rt, &Address::Unix(dir.join("sock")))
            && let Ok(client) = Client::connect(rt, &Pool::default(), stream, "vol").await
        {
            return client;
        }
        rt.sleep(Nanos::millis(5)).await;
    }
    panic!("the child does not serve");
}

/// Each sector holds a version that is not older than the durable one and not newer than the one that was sent.
async fn judge(client: &Client, blocks: &mut [Versions], round: u64) {
    for (block, versions) in (0..).zip(blocks.iter_mut()) {
        let bytes = client.read(ByteRange::new(block * LEN, LEN).unwrap()).await.unwrap();
        if versions.sent == 0 {
            continue;
        }
        let mut oldest = u64::MAX;
        for read in bytes[..LEN as usize].chunks(SECTOR) {
            let found = (versions.durable.max(1)..=versions.sent).find(|version| sector(block, *version) == *read);
            match found {
                Some(version) => oldest = oldest.min(version),
                None => assert_eq!(versions.durable, 0, "round {round}: block {block} lost {versions:?}"),
            }
        }
        // What it holds now may still be lost until the next flush; what was sent and is not there never comes.
        versions.answered = if oldest == u64::MAX { 0 } else { oldest };
    }
}

/// Kills some children while they open what the last kill left, or a moment later.
async fn kill_openings(rt: &Rt, dir: &Path, round: u64) {
    let mut random = Random::named(round, "openings");
    for _ in 0..random.below(3) {
        let mut child = start(dir, round);
        rt.sleep(Nanos::micros(random.below(60_000))).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Writes and flushes until the server dies.
async fn load(client: Client, blocks: Rc<std::cell::RefCell<Vec<Versions>>>, mut random: Random) {
    for step in 1u64.. {
        let block = random.below(BLOCKS);
        let version = blocks.borrow()[block as usize].sent + 1;
        blocks.borrow_mut()[block as usize].sent = version;
        let bytes = sector(block, version).repeat(LEN as usize / SECTOR);
        if client.write(block * LEN, Slice::heap(bytes), false).await.is_err() {
            return;
        }
        blocks.borrow_mut()[block as usize].answered = version;
        if step % 5 == 0 {
            let covered: Vec<u64> = blocks.borrow().iter().map(|versions| versions.answered).collect();
            if client.flush().await.is_err() {
                return;
            }
            blocks.borrow_mut().iter_mut().zip(covered).for_each(|(versions, answered)| versions.durable = answered);
        }
    }
}

/// A number in the status of the child.
async fn told(rt: &Rt, dir: &Path, name: &str) -> f64 {
    let stream = Stream::connect(rt, &control(dir)).unwrap();
    let line = esker_serve::Command::Status {}.line();
    stream.write_all(vec![Slice::heap(line.into_bytes())]).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        let (parts, count) = stream.read(vec![Slice::heap(vec![0; 4096])]).await;
        answer.extend_from_slice(&parts[0].bytes()[..count.unwrap()]);
    }
    let text = String::from_utf8(answer).unwrap();
    let after = text.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    after.split([',', '}']).next().unwrap().parse().unwrap()
}

async fn until_whole(rt: &Rt, dir: &Path) {
    for _ in 0..2000 {
        if told(rt, dir, "members_in_sync").await == 2.0 && told(rt, dir, "suspect_regions").await == 0.0 {
            return;
        }
        rt.sleep(Nanos::millis(10)).await;
    }
    panic!("the member that came back does not catch up");
}

/// The members as the last kill left them.
fn compare(dir: &Path) {
    use std::os::unix::fs::FileExt;
    let files = ["a.img", "b.img"].map(|name| std::fs::File::open(dir.join(name)).unwrap());
    let verdict = check::check(2, &mut |member, at, out| files[member].read_exact_at(out, at)).unwrap();
    assert_eq!(verdict.differing, [], "{:?}", verdict.assembly.members);
    assert!(verdict.compared > 0);
}

#[test]
fn no_flushed_write_is_lost_by_kills_while_a_member_is_pulled_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_path_buf();
    let blocks = Rc::new(std::cell::RefCell::new(vec![Versions::default(); BLOCKS as usize]));
    let reactor = Reactor::new(RealConfig::seeded(9)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        for round in 0..=rounds() {
            kill_openings(&rt, &at, round).await;
            let mut child = start(&at, round);
            let client = connect(&rt, &at).await;
            let mut now = blocks.borrow().clone();
            judge(&client, &mut now, round).await;
            *blocks.borrow_mut() = now;
            if round % PERIOD == PULLED.end || round == rounds() {
                until_whole(&rt, &at).await;
            }
            let random = Random::named(round, "load");
            let writes = rt.spawn("load", load(client, blocks.clone(), random));
            let pause = Random::named(round, "pause").below(120) + 20;
            rt.sleep(Nanos::millis(pause)).await;
            child.kill().unwrap();
            child.wait().unwrap();
            writes.await;
            if round == rounds() {
                compare(&at);
            }
        }
        let flushed = blocks.borrow().iter().filter(|versions| versions.durable > 0).count();
        assert!(flushed as u64 > BLOCKS / 2, "the load flushed only {flushed} blocks");
    });
}
