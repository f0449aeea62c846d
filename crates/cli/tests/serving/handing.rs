//! A server under load whose place another process takes, also one that is killed meanwhile.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use esker_base::Stream;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::join_all;

use crate::harness::{ESKER, Server, check_esker, fio_verify, missing, tool};
use crate::ledger::Ledger;
use crate::load::{Load, Met, check_export, clear};

/// A mirror, and a volume with a log.
const STACK: &str = "a = file path=DIR/a.img size=33MiB; b = file path=DIR/b.img size=33MiB; vol = mirror on a, b; \
                     d = file path=DIR/d.img size=128MiB; log = logvol segment=1MiB on d; \
                     export vol = vol nbd=unix:DIR/vol; export log = log nbd=unix:DIR/log";
const BYTES: u64 = 32 << 20;
const WRITERS: u64 = 8;
const HAND_OVERS: u64 = 5;
const KILLS: u64 = 12;
/// A successor is killed within so many milliseconds: while it reads, waits, opens, or serves.
const LIFE_MS: u64 = 250;

/// Takes the place of `server`, which ends well.
fn take_over(server: Server, dir: &Path, stack: &str, args: &[&str]) -> Server {
    let next = Server::start(dir, stack, &[&["--take-over"], args].concat());
    assert_eq!(server.wait(), Some(0), "{}", next.log());
    next
}

/// What a load did until its connection was lost: how many requests, and what was wrong.
fn load(uri: String, mut book: Ledger, seed: u64) -> JoinHandle<(Ledger, u64, Vec<String>)> {
    spawn(move || {
        let reactor = Reactor::new(RealConfig::seeded(seed)).unwrap();
        let rt = reactor.rt();
        book.server_died();
        let (book, met) = (Rc::new(RefCell::new(book)), Rc::new(Met::default()));
        let (own, seen) = (book.clone(), met.clone());
        reactor.block_on(async move {
            let load = Load::connect(&rt, &uri, 0, own, seen).await;
            join_all((0..WRITERS).map(|number| load.mix(Stream::named(seed, &format!("writer {number}"))))).await;
        });
        drop(reactor);
        let mut wrong: Vec<String> = met.lost.borrow().iter().map(ToString::to_string).collect();
        wrong.extend((met.hangs.get() > 0).then(|| format!("{} requests hang", met.hangs.get())));
        let book = Rc::into_inner(book).expect("the load has ended").into_inner();
        (book, met.requests.get(), wrong)
    })
}

fn checked(uri: &str, book: Ledger) -> Ledger {
    let book = Rc::new(RefCell::new(book));
    let lost = check_export(uri, 0, &book).expect("the export can be read");
    lost.first().inspect(|lost| panic!("{lost}"));
    Rc::into_inner(book).expect("the check has ended").into_inner()
}

#[test]
fn clients_go_on_while_one_process_after_the_other_takes_the_place_of_their_server() {
    for io in ["uring", "threads"] {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = path(dir.path(), "pid");
        let options = ["--io", io, "--pid-file", &pid_file];
        let mut server = Server::start(dir.path(), STACK, &options);
        clear(&server.uris[0], 0, BYTES);
        let mix = load(server.uris[0].clone(), Ledger::new(BYTES), 1);
        let args = fio_verify(&server.uris[1], 5);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut fio = tool("fio", &args);
        let fio = fio.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let fio = fio.unwrap_or_else(|error| panic!("{}", missing("fio", &error)));
        let uri = server.uris[0].clone();
        for _ in 0..HAND_OVERS {
            sleep(Duration::from_millis(500));
            server = take_over(server, dir.path(), STACK, &options);
            assert_eq!(fs::read_to_string(&pid_file).unwrap().trim(), server.id().to_string());
        }
        let output = fio.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("verify"), "{said}{}", server.log());
        // The load has its first connection still.
        let clients = server.check_status()["clients"].clone();
        assert!(clients.as_array().unwrap().iter().any(|client| client["export"] == "vol"), "{clients}");
        server.kill();
        let (book, requests, wrong) = mix.join().expect("the load ends");
        assert!(wrong.is_empty() && requests > 500, "{requests} requests: {wrong:?}");
        drop(server);
        let server = Server::start(dir.path(), STACK, &options);
        checked(&uri, book);
        server.stop();
        check_esker(&["check", &path(dir.path(), "a.img"), &path(dir.path(), "b.img")], 0);
        check_esker(&["check", &path(dir.path(), "d.img")], 0);
    }
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// A process that is to take over, killed after a while.
fn take_over_and_die(dir: &Path, after: Duration) {
    let stack = STACK.replace("DIR", &dir.display().to_string());
    let mut command = Command::new(ESKER);
    command.args(["serve", &stack, "--take-over", "--control", &path(dir, "esker.ctl")]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    sleep(after);
    child.kill().expect("it is a child");
    child.wait().expect("it can be waited for");
}

#[test]
fn a_successor_that_is_killed_leaves_a_server_or_clean_media() {
    let dir = tempfile::tempdir().unwrap();
    let mut moments = Stream::named(3, "kills");
    let mut server = Server::start(dir.path(), STACK, &[]);
    let uri = server.uris[0].clone();
    clear(&uri, 0, BYTES);
    let mut running = Some(load(uri.clone(), Ledger::new(BYTES), 1));
    let (mut stayed, mut total) = (0, 0);
    for kill in 1..=KILLS {
        take_over_and_die(dir.path(), Duration::from_millis(moments.below(LIFE_MS)));
        // The old server goes on, or has ended because the other one served.
        let begun = Instant::now();
        while server.is_running() && !answers(&server.control) {
            assert!(begun.elapsed() < Duration::from_secs(20), "kill {kill}: {}", server.log());
            sleep(Duration::from_millis(10));
        }
        if server.is_running() {
            stayed += 1;
            continue;
        }
        assert_eq!(server.wait(), Some(0), "kill {kill}");
        let (book, requests, wrong) = running.take().expect("it runs").join().expect("the load ends");
        assert!(wrong.is_empty(), "kill {kill}: {wrong:?}");
        total += requests;
        server = Server::start(dir.path(), STACK, &[]);
        running = Some(load(uri.clone(), checked(&uri, book), kill));
    }
    println!("{stayed} of {KILLS} times the server went on; {total} requests before");
    assert!(stayed > 0, "each successor served before it was killed");
    sleep(Duration::from_millis(300));
    server.kill();
    drop(server);
    let (book, _, wrong) = running.take().expect("it runs").join().expect("the load ends");
    assert!(wrong.is_empty(), "{wrong:?}");
    let server = Server::start(dir.path(), STACK, &[]);
    checked(&uri, book);
    server.stop();
}

#[test]
fn a_server_that_is_killed_meanwhile_leaves_its_successor_or_clean_media() {
    let dir = tempfile::tempdir().unwrap();
    let mut moments = Stream::named(4, "kills");
    let mut server = Server::start(dir.path(), STACK, &[]);
    let uri = server.uris[0].clone();
    clear(&uri, 0, BYTES);
    let (mut book, mut taken) = (Ledger::new(BYTES), 0);
    for kill in 1..=6 {
        let running = load(uri.clone(), book, kill);
        let (place, life) = (dir.path().to_path_buf(), Duration::from_millis(20 + moments.below(200)));
        let successor = spawn(move || Server::try_start(&place, STACK, &["--take-over"]));
        sleep(life);
        server.kill();
        drop(server);
        let next = successor.join().expect("the thread ends");
        taken += u64::from(next.is_ok());
        // A client may go on with the successor.
        server = match next {
            Ok(mut successor) => {
                sleep(Duration::from_millis(100));
                successor.kill();
                drop(successor);
                Server::start(dir.path(), STACK, &[])
            }
            Err(_) => Server::start(dir.path(), STACK, &[]),
        };
        let (noted, _, wrong) = running.join().expect("the load ends");
        assert!(wrong.is_empty(), "kill {kill}: {wrong:?}");
        book = checked(&uri, noted);
    }
    println!("the successor served {taken} of 6 times");
    server.stop();
}

fn answers(control: &str) -> bool {
    tool(ESKER, &["status", "--control", control]).output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_successor_that_cannot_serve_says_why_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), STACK, &[]);
    let stack = STACK.replace("DIR", &dir.path().display().to_string());
    let refused = |stack: &str, more: &[&str]| {
        let args = ["serve", stack, "--take-over", "--control", &server.control];
        check_esker(&[&args[..], more].concat(), 1)
    };
    let other = refused(&stack.replace("segment=1MiB", "segment=2MiB"), &[]);
    assert!(other.contains("the server there has another stack than this text"), "{other}");
    // What stands at the address of the metrics is no socket: the stack is closed and comes back.
    fs::write(dir.path().join("taken"), "").unwrap();
    let metrics = refused(&stack, &["--metrics", &format!("unix:{}", path(dir.path(), "taken"))]);
    assert!(metrics.contains("is not a socket"), "{metrics}");
    let mut elsewhere = tool(ESKER, &["serve", &stack, "--take-over", "--control", &server.control]);
    let said = elsewhere.current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("start this one in the same directory"), "{said}");
    assert!(server.log().contains("this server goes on"), "{}", server.log());
    server.check_status();
    let server = take_over(server, dir.path(), STACK, &[]);
    server.stop();
}

#[test]
fn a_service_manager_is_told_the_process_of_the_successor() {
    use std::os::unix::net::UnixDatagram;
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("notify");
    let socket = UnixDatagram::bind(&at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let next = || {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).expect("a message comes");
        String::from_utf8_lossy(&message[..length]).trim().to_string()
    };
    let notify = at.display().to_string();
    let server = Server::start_with(dir.path(), STACK, &[], &[("NOTIFY_SOCKET", &notify)]);
    assert_eq!(next(), "READY=1");
    let successor = Server::start_with(dir.path(), STACK, &["--take-over"], &[("NOTIFY_SOCKET", &notify)]);
    assert_eq!(next(), format!("MAINPID={}", successor.id()), "by the process that was the service");
    assert_eq!(next(), "READY=1");
    assert_eq!(server.wait(), Some(0));
    successor.stop();
}
