//! A server that is killed under load: the next one takes over its sockets and files, and every write that was answered
//! and flushed, or sent with FUA, is there.
//!
//! Five kills by default. `cargo xtask soak kill` runs more, over any stack, and `cargo xtask soak named` over named
//! volumes: they set the variables that are read here.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::rc::Rc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use esker_base::Stream;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::join_all;
use esker_testkit::SoakLength;

use crate::harness::{Server, check_esker, esker, missing, tool};
use crate::ledger::Ledger;
use crate::load::{CHECK_BYTES, Load, Met, check_export, clear, size_of};

/// O_DIRECT, so that what the server holds is not in the page cache.
const STACK: &str = "d = file path=DIR/d.img size=32MiB @ nbd=unix:DIR/sock";
/// The same, of which a snapshot is made under load.
const NAMED: &str = "d = file path=DIR/d.img size=16GiB; vm = thin segment=8MiB checkpoint_interval=32MiB ports=\"v=32MiB\" on d; \
                     export v = vm.v nbd=unix:DIR/sock";
const WRITERS: u64 = 16;
/// A server lives between these many milliseconds under load.
const LIFE_MS: (u64, u64) = (5, 400);
/// A server that is killed while it opens its stack lives no longer than this, in microseconds.
const OPENING_US: u64 = 40_000;
/// By then fio has connected.
const FIO_START_MAX: Duration = Duration::from_secs(20);

/// In these of each so many kills a part of the stack is not there, if the soak has a stack without it.
const PULLED: std::ops::Range<u64> = 8..11;
const PERIOD: u64 = 25;

/// What a soak sets.
struct Plan {
    stack: String,
    pulled: Option<String>,
    times: u64,
    seed: u64,
    /// Whether it is a volume with a name, and snapshots are made of it.
    is_named: bool,
}

impl Plan {
    fn read(is_named: bool) -> Plan {
        let SoakLength { times, seed } = SoakLength::told(5);
        let text = |name: &str| {
            let file = env::var(name).ok()?;
            Some(fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}={file}: {error}")))
        };
        Plan {
            stack: match is_named {
                true => NAMED.to_string(),
                false => text("ESKER_KILL_STACK").unwrap_or_else(|| STACK.to_string()),
            },
            pulled: text("ESKER_KILL_PULLED").filter(|_| !is_named),
            times,
            seed,
            is_named,
        }
    }

    /// What is served around a kill.
    fn stack(&self, kill: u64) -> &str {
        let pulled = self.pulled.as_deref().filter(|_| PULLED.contains(&(kill % PERIOD)));
        pulled.unwrap_or(&self.stack)
    }
}

#[test]
fn what_was_flushed_survives_kills_and_stale_sockets_are_replaced() {
    kill_again_and_again(&Plan::read(false));
}

#[test]
fn what_was_flushed_to_a_named_volume_survives_kills_and_so_do_snapshots() {
    kill_again_and_again(&Plan::read(true));
}

fn kill_again_and_again(plan: &Plan) {
    println!("{} kills, seed {}, of: {}", plan.times, plan.seed, plan.stack);
    let dir = tempfile::tempdir().unwrap();
    // The first half is ours, the second half fio's.
    let server = Server::start(dir.path(), &plan.stack, &[]);
    let half = size_of(&server.uris[0]) / 2 / CHECK_BYTES * CHECK_BYTES;
    assert!(half >= 2 * CHECK_BYTES, "an export of {} bytes is too small for the load", 2 * half);
    clear(&server.uris[0], 0, half);
    server.stop();
    let book = Rc::new(RefCell::new(Ledger::new(half)));
    let mut moments = Stream::named(plan.seed, "kills");
    let (mut verified, mut snapshots) = (0, 0);
    let enough = || book.borrow().promises >= 5 * plan.times;
    // Where a slow machine flushes little between two kills, there are more of them.
    for kill in (1..=4 * plan.times).take_while(|kill| *kill <= plan.times || !enough()) {
        let mut server = Server::start(dir.path(), plan.stack(kill), &[]);
        let fio = Fio { dir: dir.path(), uri: server.uris[0].clone(), at: half, seed: plan.seed + kill };
        let mut load = fio.write();
        let life = LIFE_MS.0 * 1000 + moments.below((LIFE_MS.1 - LIFE_MS.0) * 1000);
        let (uri, control) = (server.uris[0].clone(), server.control.clone());
        let snapshot = plan.is_named.then(|| format!("kill-{kill}"));
        let kill_later = move || {
            spawn(move || {
                sleep(Duration::from_micros(life / 2));
                let kept = snapshot.filter(|name| volume(&["snapshot", "v", name], &server.control).0);
                sleep(Duration::from_micros(life / 2));
                server.kill();
                (server, kept)
            })
        };
        let killer = write_until_killed(&uri, plan.seed + kill, &book, kill_later);
        let (server, kept) = killer.join().expect("the server was killed");
        let status = server.wait();
        assert_eq!(status, None, "a signal ended it");
        assert!(Path::new(&control).exists(), "a killed server leaves its sockets");
        let ended = load.wait().expect("fio ends");
        book.borrow_mut().server_died();
        if plan.is_named {
            check_esker(&["check", &dir.path().join("d.img").display().to_string()], 0);
        }
        // What the kill left is opened, and opening it is killed too.
        for _ in 0..moments.below(3) {
            Server::kill_soon(dir.path(), plan.stack(kill), Duration::from_micros(moments.below(OPENING_US)));
        }
        // The kernel may still be taking the dead server's ring down: the next one copes with that.
        let next = Server::start(dir.path(), plan.stack(kill), &[]);
        let lost = check_export(&next.uris[0], 0, &book).expect("the export can be read");
        let when = format!("seed {}, kill {kill} after {life} us", plan.seed);
        lost.first().inspect(|lost| panic!("{when}: {lost}"));
        assert!(!ended.success(), "fio lost its server");
        verified += u64::from(Fio { uri: next.uris[0].clone(), ..fio }.verify(kill));
        let promises = book.borrow().promises;
        if let Some(name) = kept {
            let (_, list) = volume(&["list", "--json"], &next.control);
            assert!(list.contains(&format!("\"name\":\"{name}\"")), "{name} was made and is gone: {list}");
            assert!(volume(&["delete", &name], &next.control).0, "a snapshot can be deleted");
            snapshots += 1;
        }
        println!("kill {kill} after {life} us: all {promises} promised writes are there, and fio's ({verified} times)");
        next.stop();
    }
    assert!(snapshots > 0 || !plan.is_named, "no snapshot was made before its server was killed");
    assert!(verified > 0, "fio never saved its state");
    assert!(enough(), "only {} writes were flushed: this shows little", book.borrow().promises);
}

/// Runs `esker volume WORDS`: whether it was done, and what it printed.
fn volume(words: &[&str], control: &str) -> (bool, String) {
    let output = esker(&[&["volume"], words, &["--control", control]].concat());
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Several writers on one connection, until it is lost. `connected` is called before the first of them begins.
fn write_until_killed<T: 'static>(
    uri: &str,
    seed: u64,
    book: &Rc<RefCell<Ledger>>,
    connected: impl FnOnce() -> T + 'static,
) -> T {
    let reactor = Reactor::new(RealConfig::seeded(seed)).unwrap();
    let (rt, uri, book) = (reactor.rt(), uri.to_string(), book.clone());
    reactor.block_on(async move {
        let load = Load::connect(&rt, &uri, 0, book, Rc::new(Met::default())).await;
        let told = connected();
        join_all((0..WRITERS).map(|number| load.write(Stream::named(seed, &format!("writer {number}"))))).await;
        told
    })
}

/// A second load beside ours, which notes by itself how far it came: fio's verification state.
struct Fio<'a> {
    dir: &'a Path,
    uri: String,
    at: u64,
    seed: u64,
}

impl Fio<'_> {
    fn command(&self, more: &[&str]) -> std::process::Command {
        let fixed = [
            "--name=kill",
            "--ioengine=nbd",
            "--rw=randwrite",
            "--bs=4k",
            // Its state holds the last writes in the order of their offsets: exact at this depth only.
            "--iodepth=1",
            "--fsync=1",
            "--verify=crc32c",
            "--verify_fatal=1",
        ];
        let own = [
            format!("--uri={}", self.uri),
            format!("--offset={}", self.at),
            format!("--size={}", self.at),
            format!("--randseed={}", self.seed),
            format!("--aux-path={}", self.dir.display()),
        ];
        let mut command = tool("fio", &fixed);
        command.args(own).args(more).current_dir(self.dir);
        command
    }

    /// Starts to write, and comes back when it has connected.
    fn write(&self) -> Child {
        let _of_the_last_kill = fs::remove_file(self.state());
        let path = self.dir.join("fio.log");
        let log = fs::File::create(&path).expect("its log can be made");
        let mut command = self.command(&["--do_verify=0", "--verify_state_save=1"]);
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("{}", missing("fio", &error)));
        let start = Instant::now();
        while !fs::read_to_string(&path).expect("its log is there").contains("connected") {
            assert!(start.elapsed() < FIO_START_MAX, "fio has not connected: see {}", path.display());
            sleep(Duration::from_millis(5));
        }
        child
    }

    fn state(&self) -> PathBuf {
        self.dir.join("local-kill-0-verify.state")
    }

    /// Whether it had come so far as to save its state; then all that it had written and flushed must be there.
    fn verify(&self, kill: u64) -> bool {
        if !self.state().exists() {
            return false;
        }
        let output = self.command(&["--verify_only", "--verify_state_load=1"]).output().expect("it ran before");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kill {kill}: fio does not find what it wrote: {out}{err}");
        true
    }
}

#[test]
fn the_verbs_of_a_dead_server_say_that_it_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("esker.ctl");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let error = check_esker(&["status", "--control", &path.display().to_string()], 1);
    assert!(error.contains("no server answers; it has died"), "{error}");
}
