//! Exports of a real stack: the loop with its contract check, over a memory device that answers later.

use super::*;
use esker_block::Kind;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sim::{SimConfig, twice};
use esker_stack::{Spec, Stack};

static KINDS: [&Kind; 1] = [&esker_dev::memory::KIND];

const TEXT: &str = r#"
[device.d]
kind = "memory"
size = "8MiB"
defer = "always"
latency = "100us"

[[export]]
name = "rw"
device = "d"

[[export]]
name = "ro"
device = "d"
read_only = true
"#;

/// A load on both exports; bytes copied, and what was left under way.
async fn serve_stack(rt: Rt) -> (u64, u64) {
    let pool = Pool::default();
    let stack = Stack::build(&rt, &pool, &KINDS, &Spec::parse("test.toml", TEXT).unwrap()).unwrap();
    let export = |name: &str| Export::new(name, Rc::new(stack.export(name).unwrap()));
    let server = Server::new(&rt, &pool, vec![export("rw"), export("ro")], Config::production()).unwrap();
    let connect = async |name: &str| {
        let (near, far) = pipe(1 << 20);
        server.attach(far).await.detach();
        Client::connect(&rt, &pool, near, name).await.unwrap()
    };
    let writer = loads(&rt, &pool, connect("rw").await, 8, 512).await;
    writer.write(0, bytes(&pool, 4096, 1), false).await.unwrap();

    let reader = connect("ro").await;
    assert!(reader.remote().read_only());
    let refused = reader.write(0, bytes(&pool, 512, 2), false).await.unwrap_err();
    assert_eq!(refusal(refused).0, Errno::Perm);
    assert!(reader.read(r(0, 4096)).await.unwrap()[..4096].iter().all(|byte| *byte == 1));
    server.stop().await;
    assert_eq!(stack.dead(), None, "no request was dropped");
    (pool.bounced(), stack.inflight())
}

#[test]
fn a_stack_is_served_without_copies_and_the_same_way_twice() {
    assert_eq!(twice(SimConfig::seeded(5), serve_stack), (0, 0));
}

#[test]
fn the_same_server_serves_it_in_the_real_world() {
    let reactor = Reactor::new(RealConfig::seeded(5)).unwrap();
    assert_eq!(reactor.block_on(serve_stack(reactor.rt())), (0, 0));
}
