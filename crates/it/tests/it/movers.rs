//! A served tier of three files is killed again and again while extents move under a load that checks what it reads.
//! No write that a flush covered is lost, no block goes back, and the ends stay sound.
//!
//! Eight kills by default. `cargo xtask soak movers` makes more, for as long as wanted, with `esker serve` as the
//! server.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use esker_base::Stream as Random;
use esker_block::ReadMedium;
use esker_rt::Rt;
use esker_rt::real::{Reactor, RealConfig};
use esker_serve::Command;
use esker_testkit::SoakLength;

use crate::children::{Server, ask, connect, stat};
use crate::promised::Promised;

/// Plans and orders move extents of a tier, and moves have all the time of the ends.
const STACK: &str = "fast = file path=DIR/fast.img size=8MiB direct=false; mid = file path=DIR/mid.img size=14MiB direct=false; \
                     slow = file path=DIR/slow.img size=24MiB direct=false; \
                     vol = tier devices=\"ssd; sas; sata\" epoch=1s look=100ms share=1 size=32MiB on fast, mid, slow @ nbd=unix:DIR/sock";
const ENDS: [&str; 3] = ["fast.img", "mid.img", "slow.img"];
const KILLS: u64 = 8;
const BLOCK: u64 = 16 << 10;
const EXTENT: u64 = 1 << 20;
const WRITERS: u64 = 8;
/// A server lives between these many milliseconds under load.
const LIFE_MS: (u64, u64) = (20, 800);
/// Between two orders.
const PAUSE: Duration = Duration::from_millis(10);
/// Of so many orders one empties an end until the next start.
const DRAINS: u64 = 24;
/// Extents that one order moves, at most.
const PLACED: u64 = 8;

/// What moved while one server lived, as it told last.
#[derive(Default)]
pub struct Moves {
    moved: f64,
    /// Extents that moved, or were about to.
    pending: f64,
}

/// Orders moves until the server dies.
pub fn order_until_it_dies(control: &Path, extents: u64, mut random: Random) -> Moves {
    let mut moves = Moves::default();
    loop {
        let command = Command::Order { device: "vol".to_string(), words: order(extents, &mut random) };
        // An order may be refused: an end that is being emptied takes nothing.
        let (Some(_), Some(status)) = (ask(control, &command), ask(control, &Command::Status {})) else {
            return moves;
        };
        moves = Moves { moved: stat(&status, "moved"), pending: stat(&status, "moving") + stat(&status, "queued") };
        assert_eq!(stat(&status, "latched"), 0.0, "a latched tier takes no changes: {status}");
        sleep(PAUSE);
    }
}

fn order(extents: u64, random: &mut Random) -> Vec<String> {
    let end = random.below(ENDS.len() as u64).to_string();
    if random.below(DRAINS) == 0 {
        return vec!["drain".to_string(), end];
    }
    let first = random.below(extents);
    let last = (first + random.below(PLACED)).min(extents - 1);
    vec!["place".to_string(), format!("{first}-{last}"), end]
}

/// A file of an end.
struct End(File);

impl ReadMedium for End {
    fn size(&self) -> u64 {
        self.0.metadata().expect("an open file").len()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(out, at)
    }
}

/// Each end is sound for the checker, as the kill left it.
fn check_ends(dir: &Path, when: &str) {
    let kind = esker_kinds::ALL.iter().find(|kind| kind.name == "tier").expect("a kind");
    let check = kind.check.expect("it has a checker").check;
    for end in ENDS {
        let medium: Rc<dyn ReadMedium> = Rc::new(End(File::open(dir.join(end)).unwrap()));
        let verdict = check(&[medium]).unwrap_or_else(|error| panic!("{when}: {end}: {error}"));
        assert!(verdict.is_sound, "{when}: {end}: {}", verdict.text);
    }
}

/// The soak with its counts.
struct Soak {
    rt: Rt,
    dir: PathBuf,
    stack: String,
    seed: u64,
    moments: Random,
    kills: u64,
    moved: u64,
    /// Kills before which the server told of extents that moved.
    amid: u64,
}

impl Soak {
    /// One life of a server, from its start to its kill.
    async fn live(&mut self, promised: &Promised) {
        let when = format!("seed {}, behind kill {}", self.seed, self.kills);
        Server::kill_openings(&self.dir, &self.stack, &mut self.moments);
        let mut server = Server::serve(&self.dir, &self.stack);
        let client = connect(&self.rt, &self.dir).await;
        promised.judge(&client, &when).await;
        let extents = client.remote().size / EXTENT;
        let (control, random) = (server.control.clone(), Random::named(self.seed + self.kills, "orders"));
        let orders = thread::spawn(move || order_until_it_dies(&control, extents, random));
        let life = Duration::from_millis(LIFE_MS.0 + self.moments.below(LIFE_MS.1 - LIFE_MS.0));
        let kill = thread::spawn(move || {
            sleep(life);
            server.kill();
        });
        promised.load(&client, self.seed + self.kills).await;
        kill.join().expect("the server is killed");
        let moves = orders.join().expect("orders end with their server");
        self.kills += 1;
        self.moved += moves.moved as u64;
        self.amid += u64::from(moves.pending > 0.0);
        check_ends(&self.dir, &format!("seed {}, kill {}", self.seed, self.kills));
        println!("kill {} after {life:?}: {} extents had moved, {} were to", self.kills, moves.moved, moves.pending);
    }
}

/// Whether there is another kill.
fn goes_on(kills: u64, times: u64, begun: Instant) -> bool {
    match SoakLength::minutes() {
        Some(minutes) => begun.elapsed() < Duration::from_secs(60 * minutes),
        None => kills < times,
    }
}

#[test]
fn no_flushed_write_is_lost_by_kills_while_extents_move() {
    let SoakLength { times, seed } = SoakLength::told(KILLS);
    let (dir, begun) = (tempfile::tempdir().unwrap(), Instant::now());
    let at = dir.path().to_path_buf();
    let reactor = Reactor::new(RealConfig::seeded(seed)).unwrap();
    let stack = STACK.replace("DIR", &at.display().to_string());
    let rt = reactor.rt();
    let moments = Random::named(seed, "kills");
    let mut soak = Soak { rt, dir: at, stack, seed, moments, kills: 0, moved: 0, amid: 0 };
    reactor.block_on(async move {
        let server = Server::serve(&soak.dir, &soak.stack);
        let client = connect(&soak.rt, &soak.dir).await;
        let promised = Promised::new(client.remote().size / BLOCK, BLOCK, WRITERS);
        promised.fill(&client).await;
        client.disconnect().await.unwrap();
        server.stop();
        while goes_on(soak.kills, times, begun) {
            soak.live(&promised).await;
        }
        let Soak { kills, moved, amid, .. } = soak;
        let (checks, flushed) = (promised.checks(), promised.flushed());
        println!(
            "{kills} kills, {amid} of them while extents moved; {moved} extents moved, {checks} blocks of {BLOCK} bytes were \
             checked, {flushed} writes flushed: no mismatch"
        );
        assert!(moved >= kills && 4 * amid >= kills, "this shows little: extents hardly moved");
        assert!(flushed >= 100 * kills, "this shows little: only {flushed} writes were flushed");
    });
}
