//! A stack that goes over to another server, and one that stays because the other cannot serve.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use esker_rt::sync::join_all;

use super::*;
use crate::hand_over::{Offered, Sockets, Taken, take, taking};

const TEXT: &str = "d = file path=DIR/d.img size=1MiB direct=false | pass; export vol = d nbd=unix:DIR/sock";
const PATIENCE: Nanos = Nanos::secs(5);
/// Rounds of a load at least, some of them behind the last hand-over.
const ROUNDS: u64 = 20;

fn spec(dir: &Path, text: &str) -> Spec {
    Spec::parse("test", &text.replace("DIR", &dir.display().to_string())).unwrap()
}

fn config(dir: &Path) -> Config {
    Config { metrics: Some(Address::Unix(dir.join("metrics"))), ..Config::at(Address::Unix(dir.join("ctl")), "test") }
}

fn adopt(rt: &Rt, dir: &Path, text: &str, sockets: Sockets) -> Result<Served, ServeError> {
    Served::adopt(rt, &Pool::default(), esker_kinds::ALL, &spec(dir, text), config(dir), sockets)
}

/// Serves until the stack is another server's or the stop is asked for. Says how often it came back.
fn serve(rt: &Rt, dir: &Path, served: Served, stop: Rc<Notify>) -> JoinHandle<u32> {
    let (own, dir) = (rt.clone(), dir.to_path_buf());
    rt.spawn("server", async move {
        let (mut served, mut back) = (served, 0);
        while let Some(offer) = served.run_or_leave(stop.wait()).await.unwrap() {
            match offer.offer(|_| ()).await {
                Offered::Taken(pid) => {
                    assert_eq!(pid, 7);
                    return back;
                }
                Offered::Back(spec, sockets) => {
                    let adopted = Served::adopt(&own, &Pool::default(), esker_kinds::ALL, &spec, config(&dir), sockets);
                    served = adopted.unwrap();
                    back += 1;
                }
            }
        }
        back
    })
}

async fn ask(rt: &Rt, dir: &Path) -> Result<(Taken, Sockets), Refusal> {
    let stream = Stream::connect(rt, &Address::Unix(dir.join("ctl"))).unwrap();
    match take(rt, stream, taking::formats(esker_kinds::ALL), PATIENCE).await {
        Ok(taken) => Ok(taken),
        Err(crate::TakeError::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

/// Whether a socket has this name.
fn is_there(rt: &Rt, dir: &Path, name: &str) -> bool {
    let connected = Stream::connect(rt, &Address::Unix(dir.join(name)));
    connected.err().is_none_or(|error| error.kind() != std::io::ErrorKind::NotFound)
}

async fn client(rt: &Rt, dir: &Path) -> Rc<Client> {
    let stream = Stream::connect(rt, &Address::Unix(dir.join("sock"))).unwrap();
    Rc::new(Client::connect(rt, &Pool::default(), stream, "vol").await.unwrap())
}

/// A client that writes blocks, reads them back and compares, until it is told to end. Gives the number of rounds.
fn load(rt: &Rt, client: Rc<Client>, end: Rc<Cell<bool>>) -> JoinHandle<u64> {
    let own = rt.clone();
    rt.spawn("load", async move {
        let mut round = 0;
        while !end.get() || round < ROUNDS {
            round += 1;
            let at = round % 64 * 4096;
            client.write(at, Slice::heap(vec![round as u8; 4096]), false).await.unwrap();
            let slab = client.read(ByteRange::new(at, 4096).unwrap()).await.unwrap();
            assert!(slab[..4096].iter().all(|byte| *byte == round as u8), "round {round}");
            own.sleep(Nanos::micros(200)).await;
        }
        round
    })
}

#[test]
fn connections_counters_of_changes_and_sockets_go_over_to_the_next_server() {
    in_world(|rt, dir| async move {
        let first = adopt(&rt, &dir, TEXT, Sockets::default()).unwrap();
        let mut server = serve(&rt, &dir, first, Rc::default());
        let (early, end) = (client(&rt, &dir).await, Rc::new(Cell::new(false)));
        early.write(1 << 19, Slice::heap(vec![9; 4096]), false).await.unwrap();
        let loads: Vec<_> = [load(&rt, early.clone(), end.clone())].into();
        let mut stop = Rc::new(Notify::default());
        for round in 0..3 {
            rt.sleep(Nanos::millis(30)).await;
            let (taken, sockets) = ask(&rt, &dir).await.unwrap();
            assert_eq!(sockets.connections(), 1 + round);
            let next = adopt(&rt, &dir, TEXT, sockets).unwrap();
            next.opened().await;
            taken.confirm(7).await.unwrap();
            next.own_paths();
            stop = Rc::default();
            let old = std::mem::replace(&mut server, serve(&rt, &dir, next, stop.clone()));
            assert_eq!(old.await, 0, "the old server is done");
            // Late clients come to the new one, and stay.
            std::mem::forget(client(&rt, &dir).await);
            assert!(["metrics", "ctl"].iter().all(|name| is_there(&rt, &dir, name)));
        }
        rt.sleep(Nanos::millis(30)).await;
        end.set(true);
        let rounds = join_all(loads).await;
        assert!(rounds[0] >= ROUNDS, "{rounds:?}");
        let stream = Stream::connect(&rt, &Address::Unix(dir.join("sock"))).unwrap();
        let late = Client::connect(&rt, &Pool::default(), stream, "vol").await.unwrap();
        let changed = late.status(Context::Written, ByteRange::new(0, 1 << 20).unwrap(), false).await.unwrap();
        assert!(changed.iter().any(|extent| extent.flags == 1), "what was changed before is known: {changed:?}");
        stop.notify_one();
        assert_eq!(server.await, 0);
        assert!(!["sock", "metrics", "ctl"].iter().any(|name| is_there(&rt, &dir, name)));
    });
}

#[test]
fn a_server_goes_on_whenever_the_other_one_goes_away_before_it_serves() {
    in_world(|rt, dir| async move {
        let stop = Rc::new(Notify::default());
        let first = adopt(&rt, &dir, TEXT, Sockets::default()).unwrap();
        let server = serve(&rt, &dir, first, stop.clone());
        let (client, end) = (client(&rt, &dir).await, Rc::new(Cell::new(false)));
        let load = load(&rt, client, end.clone());
        // Before the answer.
        let stream = Stream::connect(&rt, &Address::Unix(dir.join("ctl"))).unwrap();
        let command = Command::HandOver { formats: taking::formats(esker_kinds::ALL), patience_ms: 1000 };
        stream.write_all(vec![Slice::heap(command.line().into_bytes())]).await.unwrap();
        stream.shutdown();
        rt.sleep(Nanos::millis(50)).await;
        // With all sockets, before the stack is opened.
        drop(ask(&rt, &dir).await.unwrap());
        rt.sleep(Nanos::millis(50)).await;
        // With an open stack, which is closed and given back.
        let (taken, sockets) = ask(&rt, &dir).await.unwrap();
        let next = adopt(&rt, &dir, TEXT, sockets).unwrap();
        next.opened().await;
        next.abandon().await;
        taken.give_back("a test").await;
        rt.sleep(Nanos::millis(50)).await;
        // With a stack that it cannot open.
        let (taken, sockets) = ask(&rt, &dir).await.unwrap();
        let wrong = TEXT.replace("size=1MiB", "size=2MiB");
        let error = adopt(&rt, &dir, &wrong, sockets).err().expect("the file has another size");
        taken.give_back(&error.to_string()).await;
        rt.sleep(Nanos::millis(50)).await;
        end.set(true);
        assert!(load.await >= ROUNDS);
        stop.notify_one();
        assert_eq!(server.await, 4, "it came back each time");
    });
}

#[test]
fn what_cannot_go_over_is_refused_before_anything_changes() {
    in_world(|rt, dir| async move {
        let refused = RefCell::new(Vec::new());
        let memory = "d = memory size=1MiB @ nbd=unix:DIR/sock";
        let mirror = "a = file path=DIR/a.img size=1MiB; b = file path=DIR/b.img size=1MiB; vol = mirror on a, b @ nbd=unix:DIR/sock";
        for (text, formats) in [
            (memory.replace("d = ", "vol = "), taking::formats(esker_kinds::ALL)),
            (mirror.to_string(), BTreeMap::from([("mirror".to_string(), 0)])),
            (mirror.to_string(), BTreeMap::new()),
        ] {
            let stop = Rc::new(Notify::default());
            let served = adopt(&rt, &dir, &text, Sockets::default()).unwrap();
            served.opened().await;
            let server = serve(&rt, &dir, served, stop.clone());
            let client = client(&rt, &dir).await;
            let stream = Stream::connect(&rt, &Address::Unix(dir.join("ctl"))).unwrap();
            let error = take(&rt, stream, formats, PATIENCE).await.err().expect("it is refused");
            refused.borrow_mut().push(error.to_string());
            client.write(0, Slice::heap(vec![1; 4096]), true).await.unwrap();
            stop.notify_one();
            assert_eq!(server.await, 0, "it never left");
        }
        let refused = refused.into_inner();
        assert!(refused[0].contains("vol: its content is in the memory of this process"), "{refused:?}");
        assert!(refused[1].contains("reads up to 0") && refused[2].contains("reads none"), "{refused:?}");
        // A server that ends with its program.
        let server = Running::new(&rt, &dir, TEXT);
        let refusal = ask(&rt, &dir).await.err().expect("it is refused");
        assert_eq!(refusal.code, "not_handed");
        server.stop.notify_one();
        server.end.await.unwrap();
    });
}
