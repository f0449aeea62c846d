//! A served stack on a real reactor: commands, live changes under load, and a stop that loses nothing.

use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_nbd::listen::Access;
use esker_nbd::proto::Context;
use esker_nbd::{Client, server as nbd};
use esker_rt::mem::{Part, Pool};
use esker_rt::net::{Address, Stream};
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::Notify;
use esker_rt::{JoinHandle, Rt};
use esker_stack::{Measure, Spec};
use serde_json::Value;

use crate::command::RangeCommand;
use crate::command::parse_answer;
use crate::lines::LINE_MAX;
use crate::{Command, Config, ServeError, Served, StopError};

fn start(rt: &Rt, dir: &Path, text: &str) -> Result<Served, ServeError> {
    let text = text.replace("DIR", &dir.display().to_string());
    let spec = Spec::parse("test", &text).unwrap();
    let config = Config {
        control: Address::Unix(dir.join("ctl")),
        tls: None,
        access: Access { mode: Some(0o600), owner: None },
        nbd: nbd::Config { stop_time_max: Nanos::secs(5), ..nbd::Config::production() },
        io: "test".to_string(),
        measure: Measure::Devices,
        metrics: Some(Address::Unix(dir.join("metrics"))),
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
        let served = start(rt, dir, text).unwrap();
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
        let stream = Stream::connect(&self.rt, &self.control).unwrap();
        say(&stream, command.line().as_bytes()).await
    }
}

async fn say(stream: &Stream, line: &[u8]) -> Result<Value, String> {
    stream.write_all(vec![Part::heap(line.to_vec())]).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        let (parts, count) = stream.read(vec![Part::heap(vec![0; 4096])]).await;
        match count.unwrap() {
            0 => return Err(format!("closed after {:?}", String::from_utf8_lossy(&answer))),
            count => answer.extend_from_slice(&parts[0].bytes()[..count]),
        }
    }
    parse_answer(&answer).map_err(|refusal| refusal.to_string())
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
            let error = Stream::connect(&rt, address).err().expect("nobody listens after the end");
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
        client.write(4096, Part::heap(vec![7; 4096]), true).await.unwrap();
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
        assert_eq!(server.ask(Command::Stop {}).await, Ok(Value::Null));
        server.end.await.unwrap();
    });
}

#[test]
fn ranges_are_changed_all_or_none_and_clients_are_told() {
    in_world(|rt, dir| async move {
        let text = "m = memory size=1MiB; d = emulate on m; export vol = d nbd=unix:DIR/sock; export ro = d nbd=unix:DIR/sock read_only=true; export bare = m nbd=unix:DIR/sock";
        let server = Running::new(&rt, &dir, text);
        let client = server.client("vol").await;
        client.write(0, Part::heap(vec![7; 65536]), false).await.unwrap();
        let ranges = |export: &str, ops| Command::Ranges { export: export.into(), ops };
        let clone = |from, to| RangeCommand::Clone { from, len: 65536, to };
        let done = server.ask(ranges("vol", vec![clone(0, 131_072), RangeCommand::Delete { at: 0, len: 4096 }])).await;
        assert_eq!(done.unwrap()["done"].as_u64(), Some(2));
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
        let whole = ByteRange::new(0, 1 << 20).unwrap();
        let written = client.status(Context::Written, whole, false).await.unwrap();
        let seen: Vec<_> = written.iter().map(|e| (e.len, e.flags)).collect();
        assert_eq!(seen[..3], [(65536, 1), (65536, 0), (65536, 1)]);
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
        let error = say(&stream, b"GET / HTTP/1.1\r\n").await.unwrap_err();
        assert!(error.contains("this is no command"), "{error}");
        assert!(say(&stream, b"{\"do\":\"status\"}\n").await.is_ok(), "the connection goes on");
        let error = say(&stream, &vec![b'x'; LINE_MAX + 1]).await.unwrap_err();
        assert!(error.contains("a line of more than 65536 bytes"), "{error}");
        let (_, count) = stream.read(vec![Part::heap(vec![0; 1])]).await;
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
        let ready: Vec<_> = served.ready().iter().map(|r| (r.export.as_str(), r.size, r.read_only)).collect();
        assert_eq!(ready, [("a", 1 << 20, false), ("b", 1 << 20, true), ("c", 1 << 20, false)]);
        drop(served);
        let error = start(&rt, &dir, "d = memory size=1MiB @").err().unwrap();
        assert!(matches!(error, ServeError::Nothing), "{error}");
    });
}
