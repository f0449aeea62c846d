//! A served stack on a real reactor: commands, live changes under load, and a stop that loses nothing.

use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_front_nbd::listen::Access;
use esker_front_nbd::proto::Context;
use esker_front_nbd::{Client, server as nbd};
use esker_rt::mem::{Pool, Slice};
use esker_rt::net::{Address, Stream};
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::{Either, Notify, race};
use esker_rt::{JoinHandle, Rt};
use esker_stack::{Measure, Spec};
use serde_json::Value;

use crate::command::{Measured, RangeCommand, parse_answer};
use crate::lines::LINE_MAX;
use crate::status::{Load, Status};
use crate::{Command, Config, Refusal, ServeError, Served, StopError};

mod changed;
mod handing;
mod mounts;
mod pages;
mod quiescence;
mod starting;

fn start(rt: &Rt, dir: &Path, text: &str) -> Result<Served, ServeError> {
    let text = text.replace("DIR", &dir.display().to_string());
    let spec = Spec::parse("test", &text).unwrap();
    let config = Config {
        access: Access { mode: Some(0o600), owner: None },
        nbd: nbd::Config { stop_time_max: Nanos::secs(5), ..nbd::Config::production() },
        measure: Measure::Devices,
        metrics: Some(Address::Unix(dir.join("metrics"))),
        ..Config::at(Address::Unix(dir.join("ctl")), "test")
    };
    Served::start(rt, &Pool::default(), esker_kinds::ALL, &spec, config)
}

/// A running server, and what asks it to stop.
struct Running {
    rt: Rt,
    control: Address,
    door: Address,
    stop: Rc<Notify>,
    end: JoinHandle<Result<(), StopError>>,
}

impl Running {
    fn new(rt: &Rt, dir: &Path, text: &str) -> Running {
        Running::of(rt, start(rt, dir, text).unwrap())
    }

    fn of(rt: &Rt, served: Served) -> Running {
        let (control, door) = (served.control().clone(), served.ready()[0].uri.address.clone());
        let stop = Rc::new(Notify::default());
        let asked = stop.clone();
        let end = rt.spawn("served", served.run(async move { asked.wait().await }));
        Running { rt: rt.clone(), control, door, stop, end }
    }

    async fn client(&self, export: &str) -> Client {
        let stream = Stream::connect(&self.rt, &self.door).unwrap();
        Client::connect(&self.rt, &Pool::default(), stream, export).await.unwrap()
    }

    async fn ask(&self, command: Command) -> Result<Value, String> {
        self.try_ask(command).await.map_err(|refusal| refusal.to_string())
    }

    async fn try_ask(&self, command: Command) -> Result<Value, Refusal> {
        let stream = Stream::connect(&self.rt, &self.control).unwrap();
        say(&stream, command.line().as_bytes()).await
    }

    async fn status(&self) -> Status {
        serde_json::from_value(self.ask(Command::Status {}).await.unwrap()).unwrap()
    }
}

async fn say(stream: &Stream, line: &[u8]) -> Result<Value, Refusal> {
    stream.write_all(vec![Slice::heap(line.to_vec())]).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        let (parts, count) = stream.read(vec![Slice::heap(vec![0; 4096])]).await;
        match count.unwrap() {
            0 => panic!("closed after {:?}", String::from_utf8_lossy(&answer)),
            count => answer.extend_from_slice(&parts[0].bytes()[..count]),
        }
    }
    parse_answer(&answer)
}

fn in_world<F: Future<Output = ()> + 'static>(scenario: impl FnOnce(Rt, std::path::PathBuf) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let reactor = Reactor::new(RealConfig::seeded(4)).unwrap();
    reactor.block_on(scenario(reactor.rt(), dir.path().to_path_buf()));
}

const SLOW: &str = "vol = memory size=1MiB | delay read=200ms @ nbd=unix:DIR/sock";

#[test]
fn a_stop_answers_what_is_under_way_and_removes_the_sockets() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, SLOW);
        let client = Rc::new(server.client("vol").await);
        let reader = client.clone();
        let read = rt.spawn("read", async move { reader.read(ByteRange::new(0, 4096).unwrap()).await });
        rt.sleep(Nanos::millis(50)).await;
        let began = rt.now();
        server.stop.notify_one();
        server.end.await.unwrap();
        assert!(rt.now().since(began) >= Nanos::millis(100), "it waited for the read");
        let slab = read.await.expect("a request under way is answered");
        assert!(slab.iter().all(|byte| *byte == 0));
        rt.sleep(Nanos::millis(1)).await;
        for address in [&server.door, &server.control] {
            let error = Stream::connect(&rt, address).err().expect("nothing listens after the end");
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "no socket stays");
        }
    });
}

#[test]
fn commands_change_and_describe_the_stack() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, "vol = memory size=1MiB @ nbd=unix:DIR/sock");
        let insert = Command::Insert { device: "st = stats".into(), above: "vol".into(), patience_ms: 1000 };
        assert_eq!(server.ask(insert.clone()).await, Ok(Value::Null));
        assert!(server.ask(insert).await.unwrap_err().contains("of this name already"));
        let client = server.client("vol").await;
        client.write(4096, Slice::heap(vec![7; 4096]), true).await.unwrap();
        let status = server.ask(Command::Status {}).await.unwrap();
        assert_eq!((status["connections"].as_u64(), status["changes"].as_u64()), (Some(1), Some(1)));
        let stats = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "st").unwrap();
        assert_eq!(stats["stats"]["writes"].as_f64(), Some(1.0), "{stats}");
        let dump = server.ask(Command::Dump {}).await.unwrap();
        assert!(
            dump["line"].as_str().unwrap().starts_with("vol = memory size=1MiB; st = stats on vol; export vol = st")
        );
        assert_eq!(server.ask(Command::Remove { name: "st".into(), patience_ms: 1000 }).await, Ok(Value::Null));
        let unknown = server.ask(Command::Remove { name: "st".into(), patience_ms: 1000 }).await.unwrap_err();
        assert!(unknown.contains("no \"st\""), "{unknown}");
        assert_eq!(server.ask(Command::Stop { patience_ms: None }).await, Ok(Value::Null));
        server.end.await.unwrap();
    });
}

#[test]
fn ranges_are_changed_all_or_none_and_clients_are_told() {
    in_world(|rt, dir| async move {
        let text = "m = memory size=1MiB; d = emulate on m; export vol = d nbd=unix:DIR/sock; export ro = d nbd=unix:DIR/sock read_only=true; export bare = m nbd=unix:DIR/sock";
        let server = Running::new(&rt, &dir, text);
        let client = server.client("vol").await;
        client.write(0, Slice::heap(vec![7; 65536]), false).await.unwrap();
        let ranges = |export: &str, ops| Command::Remap { export: export.into(), ops };
        let clone = |from, to| RangeCommand::Clone { from, len: 65536, to };
        let done = server.ask(ranges("vol", vec![clone(0, 131_072), RangeCommand::Delete { at: 0, len: 4096 }])).await;
        assert_eq!(done.unwrap()["done"].as_u64(), Some(2));
        let whole = ByteRange::new(0, 1 << 20).unwrap();
        let written = client.status(Context::Written, whole, false).await.unwrap();
        let seen: Vec<_> = written.iter().map(|e| (e.len, e.flags)).collect();
        assert_eq!(seen[..3], [(65536, 1), (65536, 0), (65536, 1)]);
        let read = |at| client.read(ByteRange::new(at, 4096).unwrap());
        assert!(read(131_072).await.unwrap()[..4096].iter().all(|byte| *byte == 7));
        assert!(read(0).await.unwrap()[..4096].iter().all(|byte| *byte == 0));
        for (export, ops, why) in [
            ("vol", vec![clone(0, 262_144), clone(0, 1 << 20)], "nothing was changed"),
            ("vol", vec![clone(0, u64::MAX)], "last byte"),
            ("vol", vec![], "give 1 to"),
            ("ro", vec![clone(0, 262_144)], "read-only"),
            ("none", vec![clone(0, 262_144)], "no export is named"),
            ("bare", vec![clone(0, 262_144)], "clone is not supported here"),
        ] {
            let error = server.ask(ranges(export, ops)).await.unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(
            read(262_144).await.unwrap()[..4096].iter().all(|byte| *byte == 0),
            "nothing of a refused vector is done"
        );
    });
}

#[test]
fn reads_are_announced_only_to_what_keeps_them() {
    in_world(|rt, dir| async move {
        let text = "a = file path=DIR/a size=1MiB direct=false | stats @ nbd=unix:DIR/sock; b = memory size=1MiB @ nbd=unix:DIR/sock";
        let server = Running::new(&rt, &dir, text);
        let range = ByteRange::new(0, 4096).unwrap();
        assert!(server.client("a").await.cache(range).await.is_ok());
        let refused = server.client("b").await.cache(range).await.unwrap_err().to_string();
        assert!(refused.contains("nothing here would make a later read faster"), "{refused}");
    });
}

#[test]
fn nonsense_is_answered_and_an_endless_line_ends_the_connection() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, "vol = memory size=1MiB @ nbd=unix:DIR/sock");
        let stream = Stream::connect(&rt, &server.control).unwrap();
        let error = say(&stream, b"GET / HTTP/1.1\r\n").await.unwrap_err().to_string();
        assert!(error.contains("this is no command"), "{error}");
        assert!(say(&stream, b"{\"do\":\"status\"}\n").await.is_ok(), "the connection goes on");
        let error = say(&stream, &vec![b'x'; LINE_MAX + 1]).await.unwrap_err().to_string();
        assert!(error.contains(&format!("a line of more than {LINE_MAX} bytes")), "{error}");
        let (_, count) = stream.read(vec![Slice::heap(vec![0; 1])]).await;
        assert!(!matches!(count, Ok(1..)), "closed");
        assert!(server.ask(Command::Status {}).await.is_ok(), "others are served");
    });
}

#[test]
fn exports_of_one_address_share_a_server_and_one_without_address_is_not_offered() {
    in_world(|rt, dir| async move {
        let text = "d = memory size=1MiB; export a = d nbd=unix:DIR/sock; export b = d nbd=unix:DIR/sock read_only=true; \
                    export c = d nbd=unix:DIR/other; export d = d";
        let served = start(&rt, &dir, text).unwrap();
        let ready = served.ready();
        let ready: Vec<_> = ready.iter().map(|r| (r.export.as_str(), r.size, r.read_only)).collect();
        assert_eq!(ready, [("a", 1 << 20, false), ("b", 1 << 20, true), ("c", 1 << 20, false)]);
        drop(served);
        let error = start(&rt, &dir, "d = memory size=1MiB @").err().unwrap();
        assert!(matches!(error, ServeError::Nothing), "{error}");
    });
}

#[test]
fn a_resize_is_seen_by_clients_that_are_there_and_by_those_that_come() {
    in_world(|rt, dir| async move {
        let text = "d = memory size=8MiB; vm = thin segment=64KiB ports=\"db=64KiB\" on d; \
                    top = stats on vm.db; export vol = top nbd=unix:DIR/sock; export raw = d nbd=unix:DIR/sock";
        let server = Running::new(&rt, &dir, text);
        let client = server.client("vol").await;
        let resize = |export: &str, bytes| Command::Resize { export: export.into(), bytes, patience_ms: 1000 };
        let told = server.ask(resize("vol", 1 << 20)).await.unwrap();
        assert_eq!((&told["before_bytes"], &told["bytes"]), (&Value::from(64 << 10), &Value::from(1 << 20)));
        client.write((1 << 20) - 4096, Slice::heap(vec![7; 4096]), false).await.unwrap();
        assert_eq!(server.client("vol").await.remote().size, 1 << 20);
        let words = ["resize", "db", "2MiB"].map(String::from).to_vec();
        server.ask(Command::Order { device: "vm".into(), words }).await.unwrap();
        assert_eq!(server.client("vol").await.remote().size, 2 << 20);
        server.ask(resize("vol", 64 << 10)).await.unwrap();
        let behind = client.read(ByteRange::new(64 << 10, 4096).unwrap()).await;
        assert!(behind.unwrap_err().to_string().contains("EINVAL"));
        let status = server.status().await;
        let top = status.parts.iter().find(|part| part.name == "top").unwrap();
        assert_eq!((status.exports[0].size, top.ends[0].size), (64 << 10, 64 << 10));
        for (export, bytes, words) in
            [("raw", 16 << 20, "fixed"), ("vol", 100, "multiple of 512"), ("no", 1, "no export")]
        {
            let refused = server.ask(resize(export, bytes)).await.unwrap_err().to_string();
            assert!(refused.contains(words), "{export}: {refused}");
        }
        server.stop.notify_one();
        server.end.await.unwrap();
    });
}

/// What status a command has, and what it answered.
fn code(refused: Result<Value, Refusal>) -> String {
    refused.expect_err("it is refused").code
}

const FLUSHED: &str = "vol = memory size=1MiB | stats @ nbd=unix:DIR/sock";

fn freeze(limit_ms: u64) -> Command {
    Command::Freeze { limit_ms, patience_ms: 1000 }
}

#[test]
fn a_freeze_flushes_and_holds_requests_until_the_thaw() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSHED);
        let client = Rc::new(server.client("vol").await);
        client.write(0, Slice::heap(vec![7; 4096]), false).await.unwrap();
        let frozen = server.ask(freeze(60_000)).await.unwrap();
        let number = frozen["freeze"].as_u64();
        let status = server.status().await;
        assert_eq!(status.frozen.as_ref().map(|frozen| frozen.freeze), number);
        assert!(status.parts[1].stats["flushes"] >= 1.0 && status.inflight == 0, "{status:?}");
        let writer = client.clone();
        let write = rt.spawn("w", async move { writer.write(4096, Slice::heap(vec![8; 4096]), false).await });
        rt.sleep(Nanos::millis(30)).await;
        assert_eq!(server.status().await.parts[1].stats["writes"], 1.0, "the second one waits");
        assert_eq!(code(server.try_ask(freeze(1000)).await), "frozen");
        let insert = Command::Insert { device: "p = pass".into(), above: "vol-1".into(), patience_ms: 1000 };
        assert_eq!(code(server.try_ask(insert).await), "busy");
        assert_eq!(code(server.try_ask(Command::Sync { patience_ms: 10 }).await), "busy");
        assert_eq!(code(server.try_ask(Command::Thaw { freeze: Some(99) }).await), "not_frozen");
        let thawed = server.ask(Command::Thaw { freeze: number }).await.unwrap();
        assert!(thawed["held_ms"].as_f64() >= Some(30.0), "{thawed}");
        write.await.unwrap();
        assert_eq!(server.status().await.parts[1].stats["writes"], 2.0);
        assert_eq!(code(server.try_ask(Command::Thaw { freeze: number }).await), "not_frozen");
    });
}

#[test]
fn a_forgotten_freeze_ends_by_itself_and_says_so() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSHED);
        let client = server.client("vol").await;
        let frozen = server.ask(freeze(50)).await.unwrap();
        let began = rt.now();
        let write = client.write(0, Slice::heap(vec![7; 4096]), false);
        let Either::Left(written) = race(write, rt.sleep(Nanos::secs(20))).await else { panic!("it is held for ever") };
        written.unwrap();
        assert!(rt.now().since(began) >= Nanos::millis(30), "it was held");
        let late = server.try_ask(Command::Thaw { freeze: frozen["freeze"].as_u64() }).await.unwrap_err();
        assert!(late.code == "not_frozen" && late.to_string().contains("may not be consistent"), "{late}");
        assert!(server.ask(freeze(50)).await.is_ok(), "it can be frozen again");
    });
}

#[test]
fn a_stop_ends_a_freeze_and_answers_what_it_held() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSHED);
        let client = Rc::new(server.client("vol").await);
        server.ask(freeze(600_000)).await.unwrap();
        let writer = client.clone();
        let write = rt.spawn("w", async move { writer.write(0, Slice::heap(vec![8; 4096]), false).await });
        rt.sleep(Nanos::millis(20)).await;
        let began = rt.now();
        server.stop.notify_one();
        server.end.await.unwrap();
        write.await.expect("a request that was held is answered");
        assert!(rt.now().since(began) < Nanos::secs(3));
    });
}

#[test]
fn a_sync_ends_with_everything_flushed_or_changes_nothing() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, "vol = memory size=1MiB | stats | delay read=300ms @ nbd=unix:DIR/sock");
        let client = Rc::new(server.client("vol").await);
        assert!(server.ask(Command::Sync { patience_ms: 1000 }).await.is_ok());
        assert!(server.status().await.parts[1].stats["flushes"] >= 1.0);
        let reader = client.clone();
        let read = rt.spawn("r", async move { reader.read(ByteRange::new(0, 4096).unwrap()).await });
        rt.sleep(Nanos::millis(20)).await;
        assert_eq!(code(server.try_ask(Command::Sync { patience_ms: 10 }).await), "timed_out");
        client.write(0, Slice::heap(vec![7; 4096]), false).await.expect("requests go on");
        read.await.unwrap();
    });
}

#[test]
fn what_is_measured_can_be_chosen_and_counts_go_on() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, "vol = memory size=1MiB | pass @ nbd=unix:DIR/sock");
        let client = server.client("vol").await;
        let write = |at| client.write(at, Slice::heap(vec![7; 4096]), false);
        let counts = |status: &Status| {
            let writes = |load: Option<&Load>| load.map(|load| load.op("write").map_or(0, |op| op.count));
            let [memory, pass] = [0, 1].map(|part| writes(status.parts[part].ends[0].load.as_ref()));
            (writes(Some(&status.exports[0].load)).unwrap(), memory, pass)
        };
        write(0).await.unwrap();
        assert_eq!(counts(&server.status().await), (1, Some(1), None), "devices, from the start");
        for (what, wanted) in [
            (Measured::All, (2, Some(2), Some(1))),
            (Measured::Off, (3, None, None)),
            (Measured::All, (4, Some(3), Some(2))),
        ] {
            server.ask(Command::Meters { what, patience_ms: 1000 }).await.unwrap();
            write(4096).await.unwrap();
            assert_eq!(counts(&server.status().await), wanted, "{what:?}");
        }
        let status = server.status().await;
        let load = status.parts[0].ends[0].load.clone().unwrap();
        let writes = load.op("write").unwrap();
        assert_eq!((load.in_flight, writes.bytes, writes.failed), (0, 3 * 4096, 0));
        assert!(writes.p50_ns > 0 && writes.p50_ns <= writes.p99_ns && writes.time_ns > 0, "{writes:?}");
        let seen = &status.clients[0];
        assert_eq!((seen.requests, seen.in_flight, seen.written_bytes), (4, 0, 4 * 4096));
        assert!(seen.export.as_deref() == Some("vol") && seen.peer.starts_with("pid "), "{seen:?}");
    });
}

#[test]
fn refusals_say_what_where_and_what_to_do() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSHED);
        let hello = server.ask(Command::Hello {}).await.unwrap();
        assert_eq!(hello["protocol"].as_u64(), Some(1));
        assert!(hello["commands"].as_array().unwrap().iter().any(|name| name == "freeze"));
        let unknown = server.try_ask(Command::Remove { name: "x".into(), patience_ms: 5 }).await.unwrap_err();
        assert_eq!((unknown.code.as_str(), unknown.advice.is_some()), ("unknown_name", true), "{unknown:?}");
        let ops = vec![RangeCommand::Delete { at: 0, len: 1 << 30 }];
        let beyond = server.try_ask(Command::Remap { export: "vol".into(), ops }).await.unwrap_err();
        assert_eq!((beyond.code.as_str(), beyond.place.as_deref()), ("bad_range", Some("vol")), "{beyond:?}");
        let bad = Command::Insert { device: "a = nosuch".into(), above: "vol-1".into(), patience_ms: 5 };
        assert_eq!(code(server.try_ask(bad).await), "bad_layer");
    });
}

#[test]
fn idle_connections_to_the_control_socket_do_not_hold_up_a_stop() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSHED);
        let idle: Vec<_> = (0..12).map(|_| Stream::connect(&rt, &server.control).unwrap()).collect();
        rt.sleep(Nanos::millis(20)).await;
        let began = rt.now();
        server.stop.notify_one();
        server.end.await.unwrap();
        assert!(rt.now().since(began) < Nanos::secs(3), "{} connections were idle", idle.len());
    });
}
