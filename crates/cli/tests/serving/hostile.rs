//! Clients that want harm, all at once, while a well-behaved one works: it is served, its bytes are what it wrote, and
//! the server's memory keeps to the bounds that its documentation names.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use esker_base::{ByteRange, Stream};
use esker_front_nbd::{Client, Uri};
use esker_rt::mem::{Pool, Slice};
use esker_rt::net;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::join_all;

use crate::attacks::{ATTACKS, Attack, HOLDERS};
use crate::harness::{Server, tool};
use crate::secured::{start_secured, write_papers};

const ATTACKED: Duration = Duration::from_secs(6);
/// Bytes of each of the good client's writes.
const PIECE: usize = 32 << 10;
/// The good client checks at least so many pieces in each quarter of the attack, and waits at most so long for one.
const PIECES_MIN: u64 = 10;
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Bytes of payload that a connection may have under way, and that the server keeps for reuse, as documented.
const PAYLOAD_MAX: u64 = 64 << 20;
const KEPT_MAX: u64 = 256 << 20;
/// All else that grows with connections: stacks of tasks, heads, texts.
const REST_MAX: u64 = 64 << 20;

#[test]
fn a_good_client_is_served_and_memory_stays_bounded_whatever_others_do() {
    let dir = tempfile::tempdir().unwrap();
    write_papers(dir.path());
    let server = start_secured(dir.path(), "on", &[]);
    let good = Good::start(&server.uris[0], Duration::from_secs(1));
    good.check();
    let before = peak_memory(&server);
    let deadline = Instant::now() + ATTACKED;
    let socket = dir.path().join("sock");
    let attackers: Vec<_> = (0..ATTACKS.len()).map(|number| Attacker::start(number, &socket, deadline)).collect();
    let good = Good::start(&server.uris[0], ATTACKED);
    attackers.into_iter().for_each(Attacker::check);
    good.check();
    let grown = peak_memory(&server) - before;
    println!("{} MiB more at the peak", grown >> 20);
    assert!(grown <= HOLDERS as u64 * PAYLOAD_MAX + KEPT_MAX + REST_MAX, "{} MiB", grown >> 20);
    wait_for_end_of_connections(&server);
    assert_eq!(server.check_status()["bounced_bytes"].as_u64(), Some(0));
    server.stop();
}

/// Most memory that the server ever had, in bytes.
fn peak_memory(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("in kB") << 10
}

/// Every hostile connection is over soon after its client went away.
fn wait_for_end_of_connections(server: &Server) {
    let start = Instant::now();
    while server.check_status()["connections"].as_u64() != Some(0) {
        assert!(start.elapsed() < Duration::from_secs(10), "connections stay: {}", server.check_status());
        sleep(Duration::from_millis(50));
    }
}

/// One kind of attack, over and over.
struct Attacker {
    name: &'static str,
    thread: JoinHandle<io::Result<Tally>>,
}

#[derive(Default)]
struct Tally {
    done: u32,
    wrong: u32,
}

impl Attacker {
    fn start(number: usize, socket: &Path, deadline: Instant) -> Attacker {
        let ((name, attack), socket) = (ATTACKS[number], socket.to_path_buf());
        Attacker { name, thread: spawn(move || attack_until(attack, number as u64, socket, deadline)) }
    }

    fn check(self) {
        let tally = self.thread.join().expect("an attacker keeps its head");
        let Tally { done, wrong } = tally.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        println!("{}: {done} times", self.name);
        assert!(done > 0, "{}: never came through", self.name);
        assert_eq!(wrong, 0, "{}: the server did not answer as it must", self.name);
    }
}

fn attack_until(attack: Attack, seed: u64, socket: PathBuf, deadline: Instant) -> io::Result<Tally> {
    let (mut random, mut tally) = (Stream::named(seed, "attack"), Tally::default());
    while Instant::now() < deadline {
        match attack(&socket, &mut random) {
            Ok(right) => {
                tally.done += 1;
                tally.wrong += u32::from(!right);
            }
            // The server has as many connections as it takes: a right of its own.
            Err(error) if is_rejected(&error) => sleep(Duration::from_millis(5)),
            Err(error) => return Err(error),
        }
    }
    Ok(tally)
}

fn is_rejected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)
}

/// A client that writes, flushes and reads back.
struct Good(JoinHandle<Checked>);

/// What it got done.
struct Checked {
    /// Pieces written and read back, by quarter of its time.
    pieces: [u64; 4],
    longest: Duration,
}

impl Good {
    fn start(uri: &str, span: Duration) -> Good {
        let uri: Uri = uri.parse().unwrap();
        Good(spawn(move || {
            let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
            let rt = reactor.rt();
            reactor.block_on(async move {
                let stream = net::Stream::connect(&rt, &uri.address).unwrap();
                let client = Client::connect(&rt, &Pool::default(), stream, &uri.export).await.unwrap();
                let checked = work(&client, span).await;
                client.disconnect().await.unwrap();
                checked
            })
        }))
    }

    /// Every quarter of its time brought something.
    fn check(self) {
        let Checked { pieces, longest } = self.0.join().expect("the good client had no error");
        println!("the good client checked {pieces:?} pieces and waited {longest:?} at most");
        assert!(pieces.iter().all(|count| *count >= PIECES_MIN), "starved: {pieces:?}");
        assert!(longest <= WAIT_MAX, "kept waiting for {longest:?}");
    }
}

/// Eight pieces at a time, until the time is over.
async fn work(client: &Client, span: Duration) -> Checked {
    let (start, mut random) = (Instant::now(), Stream::named(1, "good client"));
    let mut checked = Checked { pieces: [0; 4], longest: Duration::ZERO };
    while start.elapsed() < span {
        let quarter = (start.elapsed().as_secs_f64() / span.as_secs_f64() * 4.0) as usize;
        let first = random.below(client.remote().size / PIECE as u64 - 8);
        let begun = Instant::now();
        let pieces = (first..first + 8).map(|piece| write_and_read(client, piece, random.next_u64()));
        join_all(pieces.collect::<Vec<_>>()).await;
        checked.longest = checked.longest.max(begun.elapsed());
        checked.pieces[quarter.min(3)] += 8;
    }
    checked
}

async fn write_and_read(client: &Client, piece: u64, seed: u64) {
    let mut bytes = vec![0; PIECE];
    Stream::seeded(seed).fill(&mut bytes);
    let range = ByteRange::new(piece * PIECE as u64, PIECE as u64).unwrap();
    client.write(range.start(), Slice::heap(bytes.clone()), false).await.unwrap();
    client.flush().await.unwrap();
    let slab = client.read(range).await.unwrap();
    assert!(slab[..PIECE] == bytes, "piece {piece} is not what was written");
}

/// What a silent peer sends before it says nothing more, and how many of them come.
const SILENCES: [(&str, usize, &[u8]); 3] = [
    ("nothing", 200, b""),
    ("a choice of the export", 16, b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x03vol"),
    ("a choice and half a request", 16, b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x03vol\x25\x60"),
];

fn check_newcomer_beside(silence: (&str, usize, &[u8]), socket: &Path, uri: &str) {
    let (what, peers, said) = silence;
    let silent = |_| {
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        stream.write_all(said).unwrap();
        stream
    };
    let silent: Vec<_> = (0..peers).map(silent).collect();
    // From then on they count as idle.
    sleep(Duration::from_millis(1500));
    let newcomer = tool("timeout", &["8", "nbdinfo", "--size", uri]).output().unwrap();
    let told = String::from_utf8_lossy(&newcomer.stderr);
    assert!(newcomer.status.success(), "beside {peers} peers that said {what}: {told}");
    drop(silent);
}

#[test]
fn a_newcomer_gets_in_beside_silent_peers() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "vol = memory size=32MiB @ nbd=unix:DIR/sock", &[]);
    for silence in SILENCES {
        check_newcomer_beside(silence, &dir.path().join("sock"), &server.uris[0]);
    }
    let silent: Vec<_> = (0..20).map(|_| std::os::unix::net::UnixStream::connect(&server.control).unwrap()).collect();
    server.check_status();
    drop(silent);
    server.stop();
}

#[test]
fn a_newcomer_with_a_certificate_gets_in_beside_silent_peers() {
    let dir = tempfile::tempdir().unwrap();
    write_papers(dir.path());
    let ca = dir.path().join("ca-cert.pem").display().to_string();
    let server = start_secured(dir.path(), "require", &["--tls-client-ca", &ca]);
    let uri = format!("{}&tls-certificates={}", server.uris[0], dir.path().display());
    check_newcomer_beside(SILENCES[0], &dir.path().join("sock"), &uri);
    server.stop();
}
