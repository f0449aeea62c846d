//! A server that is killed under load: the next one takes over its sockets and files, and what was flushed is there.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_nbd::{Client, Uri};
use esker_rt::Rt;
use esker_rt::mem::{Part, Pool};
use esker_rt::net::Stream;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::join_all;

use crate::harness::{Server, check_esker};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 4096;
/// Blocks written between two flushes.
const BATCH: u64 = 16;

fn content(round: u64, block: u64) -> Vec<u8> {
    (0..BLOCK / 8).flat_map(|word| (round << 48 | block << 16 | word).to_le_bytes()).collect()
}

async fn connect(rt: &Rt, uri: &str) -> Client {
    let uri: Uri = uri.parse().unwrap();
    let stream = Stream::connect(rt, &uri.address).unwrap();
    Client::connect(rt, &Pool::default(), stream, &uri.export).await.unwrap()
}

/// Writes batches of blocks and flushes each, until the server is gone. Counts the blocks that were flushed.
async fn write_until_killed(client: Rc<Client>, round: u64, flushed: Rc<Cell<u64>>) {
    for first in (0..BLOCKS).step_by(BATCH as usize) {
        let write = |block: u64| client.write(block * BLOCK, Part::heap(content(round, block)), false);
        let results = join_all((first..first + BATCH).map(write)).await;
        if results.iter().any(Result::is_err) || client.flush().await.is_err() {
            return;
        }
        flushed.set(first + BATCH);
    }
}

/// Kills the server in the middle of a load and returns how many blocks were flushed.
fn kill_under_load(server: &Server, round: u64) -> u64 {
    let reactor = Reactor::new(RealConfig::seeded(round)).unwrap();
    let (rt, uri, id) = (reactor.rt(), server.uris[0].clone(), round);
    let flushed = Rc::new(Cell::new(0));
    let count = flushed.clone();
    reactor.block_on(async move {
        let client = Rc::new(connect(&rt, &uri).await);
        rt.spawn("load", write_until_killed(client, id, count.clone())).detach();
        while count.get() < BATCH * (3 + 5 * id) {
            rt.sleep(Nanos::micros(200)).await;
        }
    });
    server.signal("KILL");
    flushed.get()
}

fn check_blocks(uri: &str, round: u64, blocks: u64) {
    let reactor = Reactor::new(RealConfig::seeded(round)).unwrap();
    let (rt, uri) = (reactor.rt(), uri.to_string());
    reactor.block_on(async move {
        let client = connect(&rt, &uri).await;
        for block in 0..blocks {
            let slab = client.read(ByteRange::new(block * BLOCK, BLOCK).unwrap()).await.unwrap();
            assert!(
                slab[..BLOCK as usize] == content(round, block),
                "round {round}: block {block} of {blocks} is lost"
            );
        }
    });
}

fn start(dir: &Path) -> Server {
    Server::start(dir, "d = file path=DIR/d.img size=16MiB direct=false @ nbd=unix:DIR/sock", &[])
}

#[test]
fn what_was_flushed_survives_five_kills_and_stale_sockets_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let server = start(dir.path());
        let flushed = kill_under_load(&server, round);
        assert!(flushed >= 3 * BATCH, "round {round}: {flushed} blocks");
        let control = server.control.clone();
        assert_eq!(server.wait(), None, "a signal ended it");
        assert!(dir.path().join("sock").exists() && Path::new(&control).exists(), "a killed server leaves its sockets");
        // The kernel may still be taking the dead server's ring down: the next one copes with that.
        let next = start(dir.path());
        check_blocks(&next.uris[0], round, flushed);
        next.stop();
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
