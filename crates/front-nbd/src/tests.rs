//! The server and the client on streams, in both worlds.

mod disk;
mod handed;
mod hostile;
mod on_stack;
mod persistent;
mod real;
mod resized;
mod stopping;
mod tls;
mod virtual_time;

use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Stream as Random};
use esker_rt::mem::{Mem, Pool, Slice};
use esker_rt::net::{Stream, pipe};
use esker_rt::sync::join_all;
use esker_rt::{JoinHandle, Rt};

use crate::client::{Client, Fault};
use crate::proto::wire::Errno;
use crate::server::{Config, Export, Server};
use crate::session::Closing;
use disk::Disk;

const BLOCK: u64 = 512;

fn r(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

/// A server of one disk, named `disk`.
struct Site {
    rt: Rt,
    pool: Pool,
    disk: Rc<Disk>,
    server: Server,
}

impl Site {
    fn new(rt: &Rt, disk: Disk, config: Config) -> Site {
        let (pool, disk) = (Pool::default(), Rc::new(disk));
        let server = Server::new(rt, &pool, vec![Export::new("disk", disk.clone())], config).unwrap();
        Site { rt: rt.clone(), pool, disk, server }
    }

    /// The client's end of a new connection, and how the server's end will end.
    async fn wire(&self) -> (Stream, JoinHandle<Closing>) {
        let (near, far) = pipe(1 << 20);
        let closing = self.server.attach(far).await;
        (near, closing)
    }

    async fn client(&self) -> (Client, JoinHandle<Closing>) {
        let (near, closing) = self.wire().await;
        (Client::connect(&self.rt, &self.pool, near, "disk").await.unwrap(), closing)
    }
}

/// `len` bytes in a slab of `pool`.
fn payload(pool: &Pool, len: usize, fill: impl FnOnce(&mut [u8])) -> Slice {
    let mut slab = pool.slab(len);
    fill(&mut slab[..len]);
    Slice { mem: Mem::Unique(slab), start: 0, len }
}

fn bytes(pool: &Pool, len: usize, byte: u8) -> Slice {
    payload(pool, len, |out| out.fill(byte))
}

/// A seeded load of one task on the blocks `[from, from + blocks)`, checked against a model.
async fn load(client: &Client, pool: &Pool, mut random: Random, from: u64, blocks: u64) {
    let mut model = vec![0u8; (blocks * BLOCK) as usize];
    for _ in 0..60 {
        let start = random.below(blocks);
        let len = 1 + random.below((blocks - start).min(16));
        let place = (start * BLOCK) as usize..((start + len) * BLOCK) as usize;
        let range = r((from + start) * BLOCK, len * BLOCK);
        match random.below(8) {
            0..3 => {
                let fua = random.chance(0.2);
                random.fill(&mut model[place.clone()]);
                let part = payload(pool, place.len(), |out| out.copy_from_slice(&model[place.clone()]));
                client.write(range.start(), part, fua).await.unwrap();
            }
            3 => {
                model[place].fill(0);
                client.write_zeroes(range, false, random.chance(0.5)).await.unwrap();
            }
            4 => client.flush().await.unwrap(),
            5 => {
                model[place].fill(0);
                client.trim(range, random.chance(0.5)).await.unwrap();
            }
            6 => {
                let first = client.block_status(range, false).await.unwrap()[0];
                let zero = model[place.start..][..first.len.min(range.len()) as usize].iter().all(|b| *b == 0);
                assert!(zero || !first.zero(), "{range} is said to be zero");
            }
            _ => {
                let slab = client.read(range).await.unwrap();
                assert_eq!(slab[..place.len()], model[place]);
            }
        }
    }
    let all = client.read(r(from * BLOCK, blocks * BLOCK)).await.unwrap();
    assert_eq!(all[..model.len()], model);
}

/// Several tasks with loads of their own on one connection.
async fn loads(rt: &Rt, pool: &Pool, client: Client, tasks: u64, blocks: u64) -> Client {
    let client = Rc::new(client);
    let one = |i: u64| {
        let (client, pool, random) = (client.clone(), pool.clone(), rt.rng(&format!("load {i}")));
        rt.spawn("load", async move { load(&client, &pool, random, i * blocks, blocks).await })
    };
    let all: Vec<_> = (0..tasks).map(one).collect();
    join_all(all).await;
    Rc::into_inner(client).expect("the loads are over")
}

fn refusal(fault: Fault) -> (Errno, String) {
    match fault {
        Fault::Server(failure) => (failure.errno, failure.message),
        other => panic!("{other}"),
    }
}
