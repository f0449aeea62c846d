//! Files, sockets, timers, threads: on the ring and on the fallback alike.

use std::path::PathBuf;

use esker_base::Nanos;

use super::super::cross;
use super::super::fuse_entry::FuseEntry;
use super::super::reactor::{Backend, Reactor, RealConfig};
use super::*;
use crate::mem::{Mem, Pool, Slice};
use crate::net::{Address, Listener, Stream};

const BACKENDS: [Backend; 2] = [Backend::Uring, Backend::Threads];

fn reactor(backend: Backend, commands: bool) -> Reactor {
    Reactor::new(RealConfig { backend, commands, ..RealConfig::seeded(1) }).unwrap()
}

/// Runs one scenario on each backend.
fn check<T, Fut>(expected: T, scenario: impl Fn(Rt) -> Fut)
where
    T: PartialEq + std::fmt::Debug + 'static,
    Fut: Future<Output = T> + 'static,
{
    for backend in BACKENDS {
        // With entries for commands all else goes on as without them.
        for commands in [false, true] {
            let reactor = reactor(backend, commands);
            assert_eq!(reactor.block_on(scenario(reactor.rt())), expected, "{backend:?} {commands}");
        }
    }
}

fn slab_of(byte: u8) -> Slice {
    let mut slab = Pool::default().slab(4096);
    slab.fill(byte);
    Slice { mem: Mem::Unique(slab), start: 0, len: 4096 }
}

async fn write_then_read(rt: Rt, path: PathBuf) -> (u32, u8, u64) {
    let mode = OpenMode { read_only: false, direct: true, create_new: true, exclusive: false };
    let file = File::open(&rt.kernel().unwrap(), &path, mode).unwrap();
    file.set_size(1 << 20).unwrap();
    file.write(8192, vec![slab_of(5)]).await.unwrap().result.unwrap();
    file.sync().await.unwrap().result.unwrap();
    let written = file.write_durably(8192, vec![slab_of(7)]).await.unwrap().result.unwrap();
    let read = file.read(8192, vec![slab_of(0)]).await.unwrap();
    let byte = read.op.into_parts()[0].bytes()[4095];
    file.fallocate(FallocateMode::PunchHole, 8192, 4096).await.unwrap().result.unwrap();
    let first_data = file.data_after(0).unwrap().map_or(u64::MAX, |(start, _)| start);
    (written, byte, first_data)
}

#[test]
fn direct_files_write_read_sync_and_punch() {
    check((4096, 7, u64::MAX), |rt| async move {
        let dir = tempfile::tempdir_in(".").unwrap();
        write_then_read(rt, dir.path().join("f")).await
    });
}

#[test]
fn a_locked_file_refuses_a_second_server() {
    check(true, |rt| async move {
        let dir = tempfile::tempdir().unwrap();
        let kernel = rt.kernel().unwrap();
        let mode = OpenMode { read_only: false, direct: false, create_new: true, exclusive: false };
        let first = File::open(&kernel, &dir.path().join("f"), mode).unwrap();
        first.lock(true).unwrap();
        let second = File::open(&kernel, &dir.path().join("f"), OpenMode { create_new: false, ..mode }).unwrap();
        second.lock(true).is_err()
    });
}

async fn echo(rt: Rt, address: Address) -> Vec<u8> {
    let listener = Listener::bind(&rt, &address).unwrap();
    let client = Stream::connect(&rt, listener.address()).unwrap();
    let server = listener.accept().await.unwrap();
    let echo = rt.spawn("echo", async move {
        let parts = server.read_exact(vec![Slice::heap(vec![0; 3]), Slice::heap(vec![0; 5])]).await.unwrap();
        server.write_all(parts).await.unwrap();
        server.shutdown();
    });
    client.write_all(vec![Slice::heap(b"ab".to_vec()), Slice::heap(b"cdefgh".to_vec())]).await.unwrap();
    let back = client.read_exact(vec![Slice::heap(vec![0; 8])]).await.unwrap();
    echo.await;
    let (_, end) = client.read(vec![Slice::heap(vec![0; 1])]).await;
    assert_eq!(end.unwrap(), 0, "the server shut the stream down");
    back[0].bytes().to_vec()
}

#[test]
fn sockets_carry_vectors_both_ways() {
    check(b"abcdefgh".to_vec(), |rt| echo(rt, Address::Tcp("127.0.0.1:0".into())));
    check(b"abcdefgh".to_vec(), |rt| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let echoed = echo(rt, Address::Unix(path.clone())).await;
        assert!(!path.exists(), "a dropped listener removes its socket");
        echoed
    });
}

#[test]
fn a_descriptor_is_waited_for_without_being_read() {
    check((1, 7), |rt| async move {
        let flags = rustix::event::EventfdFlags::NONBLOCK;
        let event = Arc::new(rustix::event::eventfd(0, flags).unwrap());
        let kernel = rt.kernel().unwrap();
        // A dropped wait ends, and disturbs no other one.
        drop(kernel.readable(event.clone()));
        let wait = kernel.readable(event.clone());
        rustix::io::write(&*event, &7u64.to_ne_bytes()).unwrap();
        let ready = wait.await.unwrap().result.unwrap();
        let mut count = [0; 8];
        rustix::io::read(&*event, &mut count).unwrap();
        (ready, u64::from_ne_bytes(count))
    });
}

#[test]
fn timers_fire_in_order_and_not_early() {
    check(vec![1, 2, 3], |rt| async move {
        let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let tasks = [(3, 900), (1, 20), (2, 300)].map(|(name, micros)| {
            let (rt, order) = (rt.clone(), order.clone());
            rt.clone().spawn("timer", async move {
                let due = rt.now() + Nanos::micros(micros);
                rt.sleep_until(due).await;
                assert!(rt.now() >= due);
                order.borrow_mut().push(name);
            })
        });
        crate::sync::join_all(tasks).await;
        order.take()
    });
}

#[test]
fn other_threads_wake_a_parked_reactor() {
    check(Some(5), |_| async {
        let (sender, receiver) = cross::oneshot();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            sender.send(5);
        });
        receiver.await
    });
}

#[test]
fn workers_and_agents_run_elsewhere() {
    check((42, true), |rt| async move {
        let here = std::thread::current().id();
        let answer = rt.worker(Nanos::ZERO, || 40).await + rt.worker_idle(Nanos::ZERO, || 2).await;
        let elsewhere = rt.agent("agent", move |rt| async move {
            rt.sleep(Nanos::micros(10)).await;
            std::thread::current().id() != here
        });
        (answer, elsewhere.await.unwrap())
    });
}

#[test]
fn a_dropped_operation_leaves_its_buffer_to_the_kernel() {
    check(4096, |rt| async move {
        let dir = tempfile::tempdir_in(".").unwrap();
        let mode = OpenMode { read_only: false, direct: true, create_new: true, exclusive: false };
        let file = File::open(&rt.kernel().unwrap(), &dir.path().join("f"), mode).unwrap();
        for _ in 0..64 {
            drop(file.write(0, vec![slab_of(1)]));
        }
        file.write(4096, vec![slab_of(2)]).await.unwrap().result.unwrap()
    });
}

#[test]
fn virtual_time_has_no_kernel() {
    let sim = crate::Sim::new(crate::SimConfig::seeded(1));
    assert!(sim.rt().kernel().unwrap_err().to_string().contains("virtual time"));
}

/// What becomes of an entry that is handed to a file of another kind.
async fn refused_entry(rt: Rt) -> Option<i32> {
    let file = Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap());
    let entry = FuseEntry::new(file, 0, Pool::default().slab(8192));
    let outcome = rt.kernel().unwrap().start(Op::Fetch { entry }).await;
    outcome.and_then(|outcome| outcome.result).unwrap_err().raw_os_error()
}

#[test]
fn only_a_reactor_that_was_made_for_commands_hands_them_on() {
    for (backend, commands) in [(Backend::Uring, true), (Backend::Uring, false), (Backend::Threads, true)] {
        let reactor = reactor(backend, commands);
        let (takes, rt) = (reactor.rt().kernel().unwrap().takes_commands(), reactor.rt());
        assert_eq!(takes, backend == Backend::Uring && commands);
        // Refused by the kernel for the file, by the ring for its entries, by the threads.
        let expected = if backend == Backend::Uring && !commands { None } else { Some(libc::EOPNOTSUPP) };
        assert_eq!(reactor.block_on(refused_entry(rt)), expected, "{backend:?} {commands}");
    }
}
