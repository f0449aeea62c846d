//! What a start leaves behind, and what it tells of ports.

#![allow(clippy::disallowed_methods, reason = "tests look at the files that a start leaves")]

use super::*;

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn a_start_that_fails_leaves_nothing_and_the_next_one_works() {
    in_world(|rt, dir| async move {
        let text = "a = file path=DIR/a.img size=1MiB direct=false; b = file path=DIR/b.img size=1MiB direct=false; \
                    t = tap path=DIR/t.ebt on a; v = stripe chunk=1000 on t,b; export v = v nbd=unix:DIR/sock";
        assert!(start(&rt, &dir, text).is_err());
        assert_eq!(files(&dir), [""; 0], "the stripe does not fit");
        // The stack can be built, but not reached.
        let right = text.replace("chunk=1000", "chunk=64KiB");
        assert!(start(&rt, &dir, &right.replace("DIR/sock", "DIR/none/sock")).is_err());
        assert_eq!(files(&dir), [""; 0], "no socket can be made there");
        let server = Running::new(&rt, &dir, &right);
        server.client("v").await.write(0, Slice::heap(vec![7; 4096]), true).await.unwrap();
        server.stop.notify_one();
        server.end.await.unwrap();
        assert_eq!(files(&dir), ["a.img", "b.img", "t.ebt"], "what served stays");
        let again = right.replace("t = tap path=DIR/t.ebt on a; ", "").replace("on t,b", "on a,b");
        drop(start(&rt, &dir, &again.replace("chunk=64KiB", "chunk=1000")).err().expect("it fails"));
        assert_eq!(files(&dir), ["a.img", "b.img", "t.ebt"], "what was there before stays");
    });
}

#[test]
fn a_live_insertion_that_fails_leaves_nothing() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, SLOW);
        let client = Rc::new(server.client("vol").await);
        let read = rt.spawn("r", async move { client.read(ByteRange::new(0, 4096).unwrap()).await });
        while server.status().await.inflight == 0 {
            rt.sleep(Nanos::millis(1)).await;
        }
        let device = format!("t = tap path={}", dir.join("t.ebt").display());
        let insert = |patience_ms| Command::Insert { device: device.clone(), above: "vol".into(), patience_ms };
        assert_eq!(code(server.try_ask(insert(1)).await), "timed_out");
        assert!(!dir.join("t.ebt").exists());
        read.await.unwrap();
        assert_eq!(server.ask(insert(10_000)).await, Ok(Value::Null));
        assert!(dir.join("t.ebt").exists());
    });
}

#[test]
fn the_port_of_a_snapshot_is_offered_read_only() {
    in_world(|rt, dir| async move {
        let text = "d = file path=DIR/d size=16MiB direct=false; vm = thin segment=64KiB ports=\"PORTS\" on d; \
                    export v = vm.v nbd=unix:DIR/sock";
        let server = Running::new(&rt, &dir, &text.replace("PORTS", "v=1MiB"));
        assert!(!server.client("v").await.remote().read_only());
        let words = ["snapshot", "v", "s"].map(String::from).to_vec();
        server.ask(Command::Order { device: "vm".into(), words }).await.unwrap();
        server.stop.notify_one();
        server.end.await.unwrap();
        rt.sleep(Nanos::millis(5)).await;
        let both = text.replace("PORTS", "v=1MiB,s=1MiB")
            + "; x = stats on vm.s; export s = x nbd=unix:DIR/sock; export again = vm.s nbd=unix:DIR/other";
        let server = Running::new(&rt, &dir, &both);
        let client = server.client("s").await;
        let status = server.status().await;
        let told = status.exports.iter().map(|export| (export.name.as_str(), export.read_only));
        assert_eq!(told.collect::<Vec<_>>(), [("v", false), ("s", true), ("again", true)]);
        assert!(client.remote().read_only());
        let offers_written = |client: &Client| client.remote().contexts.iter().any(|(_, c)| *c == Context::Written);
        assert!(!offers_written(&client) && offers_written(&server.client("v").await));
        let refused = client.write(0, Slice::heap(vec![7; 4096]), false).await.unwrap_err().to_string();
        assert!(refused.contains("EPERM") || refused.contains("read-only"), "{refused}");
    });
}
