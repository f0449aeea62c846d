//! Exports whose size changes while clients use them.

use super::*;
use crate::proto::wire::state;
use crate::proto::{Context, Extent};
use esker_block::{Device, Kind};
use esker_rt::sim::{Sim, SimConfig};
use esker_stack::{Spec, Stack};

static KINDS: [&Kind; 2] = [&esker_dev::memory::KIND, &esker_layer_logvol::thin::KIND];
const KIB: u64 = 1 << 10;

const TEXT: &str = "m = memory size=8MiB; vm = thin block=512 page=512 segment=64KiB ports=\"db=64KiB\" on m; \
                    export rw = vm.db; export ro = vm.db read_only=true; export fixed = m";

/// A server of `TEXT`, and its stack.
struct House {
    rt: Rt,
    pool: Pool,
    stack: Rc<Stack>,
    server: Server,
}

impl House {
    async fn new(rt: Rt, resize: bool) -> House {
        let (pool, config) = (Pool::default(), Config { resize, ..Config::production() });
        let spec = Spec::parse("test", TEXT).unwrap_or_else(|e| panic!("{e}"));
        let stack = Stack::build(&rt, &pool, &KINDS, &spec).unwrap();
        stack.opened().await;
        let export = |name: &str| Export::new(name, Rc::new(stack.export(name).unwrap()));
        let server = Server::new(&rt, &pool, ["rw", "ro", "fixed"].map(export).into(), config).unwrap();
        House { rt, pool, stack, server }
    }

    async fn client(&self, export: &str) -> Client {
        let (near, far) = pipe(1 << 20);
        self.server.attach(far).await.detach();
        Client::connect(&self.rt, &self.pool, near, export).await.unwrap()
    }

    async fn write(&self, client: &Client, at: u64) -> Result<(), Errno> {
        client.write(at, bytes(&self.pool, 4096, 1), false).await.map_err(|fault| refusal(fault).0)
    }
}

fn on_house(resize: bool, body: impl AsyncFnOnce(House) + 'static) {
    let sim = Sim::new(SimConfig::seeded(3));
    let rt = sim.rt();
    sim.block_on(async move { body(House::new(rt, resize).await).await });
}

async fn read(client: &Client, at: u64) -> Result<u8, Errno> {
    client.read(r(at, 4096)).await.map(|slab| slab[0]).map_err(|fault| refusal(fault).0)
}

#[test]
fn who_is_connected_uses_what_an_export_gains_and_is_held_off_what_it_loses() {
    on_house(false, async |house| {
        let old = house.client("rw").await;
        assert_eq!(house.write(&old, 64 * KIB).await, Err(Errno::NoSpc));
        house.stack.resize("vm.db", 1 << 20, Nanos::secs(1)).await.unwrap();
        let new = house.client("rw").await;
        assert_eq!((new.remote().size, house.client("ro").await.remote().size), (1 << 20, 1 << 20));
        assert_eq!((house.write(&old, 64 * KIB).await, read(&new, 64 * KIB).await), (Ok(()), Ok(1)));
        house.stack.resize("vm.db", 64 * KIB, Nanos::secs(1)).await.unwrap();
        assert_eq!(
            (house.write(&new, 64 * KIB).await, read(&old, 64 * KIB).await),
            (Err(Errno::NoSpc), Err(Errno::Inval))
        );
        assert_eq!((house.write(&new, 60 * KIB).await, house.client("rw").await.remote().size), (Ok(()), 64 * KIB));
    });
}

#[test]
fn a_client_resizes_where_it_may_and_what_it_cut_off_and_gained_counts_as_written() {
    on_house(true, async |house| {
        let client = house.client("rw").await;
        client.resize(1 << 20).await.unwrap();
        assert_eq!(house.write(&client, 1020 * KIB).await, Ok(()));
        client.resize(128 * KIB).await.unwrap();
        client.resize(2 << 20).await.unwrap();
        assert_eq!(read(&client, 1020 * KIB).await, Ok(0), "what was cut off does not come back");
        let status = client.status(Context::Written, r(0, 2 << 20), false).await.unwrap();
        let flag = state::WRITTEN;
        let expected = [(64 * KIB, 0), (2048 * KIB - 64 * KIB, flag)].map(|(len, flags)| Extent { len, flags });
        assert_eq!(status, expected);
    });
}

#[test]
fn a_client_that_may_not_resize_or_asks_for_nonsense_changes_nothing() {
    on_house(true, async |house| {
        let refused =
            async |export: &str, bytes| refusal(house.client(export).await.resize(bytes).await.unwrap_err()).0;
        assert_eq!((refused("ro", 1 << 20).await, refused("fixed", 16 << 20).await), (Errno::Perm, Errno::Perm));
        for bytes in [0, 100, u64::MAX, 9 << 40] {
            assert_eq!(refused("rw", bytes).await, Errno::Inval, "{bytes}");
        }
        assert_eq!(house.stack.export("rw").unwrap().size(), 64 * KIB);
    });
    on_house(false, async |house| {
        let client = house.client("rw").await;
        assert_eq!(refusal(client.resize(1 << 20).await.unwrap_err()).0, Errno::Perm, "the server does not allow it");
        assert_eq!(house.stack.export("rw").unwrap().size(), 64 * KIB);
    });
}
