//! Clients and moves at random: what no script foresees.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::step::LocalFuture;
use esker_layer_kit::mover::Outcome;

use super::Race;
use super::stage::Stage;
use super::valve::{CLIENT_READS, CLIENT_WRITES, COPY_WRITES};

pub(super) static RACES: &[Race] = &[
    Race { name: "random", rule: "clients find what they wrote while everything moves", script: everything_moves },
    Race { name: "short random", rule: "the same, with all crashes of a short run", script: a_little_moves },
];

/// Clients, each with a part of the bytes that crosses the borders of extents.
const CLIENTS: u64 = 4;

fn everything_moves(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(run(on, 2000))
}

fn a_little_moves(on: Rc<Stage>) -> LocalFuture<()> {
    Box::pin(run(on, 6))
}

async fn run(on: Rc<Stage>, rounds: u64) {
    on.lowers[0].slow(CLIENT_WRITES, Nanos::micros(70));
    on.lowers[1].slow(CLIENT_READS, Nanos::micros(90));
    on.lowers[1].slow(COPY_WRITES, Nanos::micros(30));
    let left = Rc::new(Cell::new(CLIENTS));
    let client = |number| {
        let (on, left) = (on.clone(), left.clone());
        on.clone().rt().spawn("client", async move {
            serve(&on, number, rounds).await;
            left.set(left.get() - 1);
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let (mut rng, extents, mut moved) = (on.rng("moves"), on.size() / on.extent(), 0);
    while left.get() > 0 {
        let moves = [(); 2].map(|()| on.start(rng.below(extents)));
        on.rt().sleep(Nanos::micros(rng.below(2000))).await;
        if rng.below(4) == 0 {
            on.mobile.cancel();
        }
        for moving in moves {
            moved += u64::from(matches!(on.ended("a move", moving).await, Outcome::Moved { .. }));
        }
    }
    for client in clients {
        client.await;
    }
    assert!(moved > rounds / 20, "{moved} extents moved beside {rounds} rounds of clients");
}

/// Writes, zeroes, reads and flushes in its own part.
async fn serve(on: &Stage, number: u64, rounds: u64) {
    let mut rng = on.rng(&format!("client {number}"));
    let blocks = on.size() / 512 / CLIENTS;
    for round in 0..rounds {
        let first = rng.below(blocks);
        let (at, len) = ((number * blocks + first) * 512, (1 + rng.below(blocks - first)) * 512);
        let byte = (round * CLIENTS + number) as u8;
        match rng.below(12) {
            0..=3 => {
                let bytes = on.done("a read", on.read(at, len)).await;
                assert!(bytes == on.expected(at, len), "client {number}, round {round}: stale bytes at {at}");
            }
            4..=7 => drop(on.done("a write", on.write(at, len, byte)).await),
            8 | 9 => drop(on.done("a write", on.write_durably(at, len, byte)).await),
            10 => drop(on.done("a zero", on.zero(at, len)).await),
            _ => on.flush().await,
        }
    }
}
