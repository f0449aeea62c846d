//! A served stack of mirror, verify and crypt over two files is killed again and again under load; one member is pulled
//! meanwhile and comes back. No write that was answered before an answered flush is ever lost.

use std::path::Path;
use std::rc::Rc;

use esker_base::{Nanos, Stream as Random};
use esker_layer_mirror::check;
use esker_rt::Rt;
use esker_rt::real::{Reactor, RealConfig};
use esker_testkit::SoakLength;

use crate::children::{Server, connect};
use crate::promised::Promised;

const ROUNDS: u64 = 24;
/// In these of each so many rounds one member is not there.
const PULLED: std::ops::Range<u64> = 8..11;
const PERIOD: u64 = 25;
const BLOCKS: u64 = 128;
const LEN: u64 = 4096;

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

async fn until_whole(rt: &Rt, child: &Server) {
    for _ in 0..2000 {
        if child.told("members_in_sync") == 2.0 && child.told("suspect_regions") == 0.0 {
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
    let promised = Promised::new(BLOCKS, LEN, 1);
    let reactor = Reactor::new(RealConfig::seeded(9)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        for round in 0..=rounds() {
            let stack = text(&at, round);
            Server::kill_openings(&at, &stack, &mut Random::named(round, "openings"));
            let mut child = Server::serve(&at, &stack);
            let client = Rc::new(connect(&rt, &at).await);
            match round {
                0 => promised.fill(&client).await,
                _ => promised.judge(&client, &format!("round {round}")).await,
            }
            if round % PERIOD == PULLED.end || round == rounds() {
                until_whole(&rt, &child).await;
            }
            let load = promised.clone();
            let load = rt.spawn("load", async move { load.load(&client, round).await });
            let pause = Random::named(round, "pause").below(120) + 20;
            rt.sleep(Nanos::millis(pause)).await;
            child.kill();
            load.await;
            if round == rounds() {
                compare(&at);
            }
        }
        assert!(promised.flushed() > BLOCKS / 2, "the load flushed only {} blocks", promised.flushed());
    });
}
