//! Servers that tests start and kill: this program again, as the child that serves or attaches a stack. Where
//! [`PROGRAM`] names `esker`, the child is `esker serve` or `esker attach` itself.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use esker_base::{Nanos, Stream as Random};
use esker_front_fuse::registry::{Record, RecordedDisk};
use esker_front_fuse::{Registry, Setup};
use esker_front_nbd::Client;
use esker_rt::mem::Pool;
use esker_rt::net::{Address, Stream};
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::{Rt, Secret};
use esker_serve::{AttachFront, Config, Served};
use esker_stack::Spec;
use serde_json::Value;

/// Tells the child where its stack is.
const FOLDER: &str = "ESKER_IT_SERVED";
/// Tells the child to attach its export.
const ATTACHES: &str = "ESKER_IT_ATTACHES";
/// Names the program `esker`; without it the tests serve by themselves.
const PROGRAM: &str = "ESKER_IT_PROGRAM";
/// The export of each stack, which clients use, and the name of its attachment.
const VOL: &str = "vol";
/// By then a child is ready.
const BEGUN_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);
/// A server that is killed while it opens its stack lives no longer than this, in microseconds.
const OPENING_US: u64 = 60_000;

/// What a test starts and kills.
#[test]
#[ignore = "the child of other tests"]
fn the_child_serves() {
    let dir = PathBuf::from(std::env::var_os(FOLDER).expect("the parent names a folder"));
    let spec = Spec::parse("stack", &std::fs::read_to_string(dir.join("stack")).unwrap()).unwrap();
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    rt.set_secrets(Box::new(|_| Ok(Secret::new((0..64).collect()))));
    match std::env::var_os(ATTACHES) {
        Some(_) => attach(&reactor, &spec, &dir),
        None => {
            let config = config(dir.join("ctl"));
            let served = Served::start(&rt, &Pool::default(), esker_kinds::ALL, &spec, config).unwrap();
            reactor.block_on(async move { served.run(std::future::pending()).await }).unwrap();
        }
    }
}

fn config(control: PathBuf) -> Config {
    Config { stop_patience: Nanos::secs(60), ..Config::at(Address::Unix(control), "test") }
}

/// What `esker attach` does, until the device is gone or a client of the control socket stops it.
fn attach(reactor: &Reactor, spec: &Spec, dir: &Path) {
    let claim = registry(dir).claim(VOL).unwrap();
    let config = config(claim.control());
    let served = Served::over(&reactor.rt(), &Pool::default(), esker_kinds::ALL, spec, &config).unwrap();
    let setup = Setup { mount: claim.mount(), partitions: false };
    reactor.block_on(async move {
        let front = AttachFront::open(&served, &[VOL.to_string()], &setup).await.unwrap();
        served.add(front.clone());
        let disks = front.disks().into_iter().map(RecordedDisk::from).collect();
        let record = Record { pid: std::process::id(), stack: "stack".to_string(), control: claim.control(), disks };
        claim.record(&record).unwrap();
        served.run(async move { front.ended().await }).await.unwrap();
        drop(claim);
    });
}

fn registry(dir: &Path) -> Registry {
    Registry::new(dir.join("run"))
}

/// A server in a process of its own; killed when dropped.
pub struct Server {
    child: Child,
    dir: PathBuf,
    pub control: PathBuf,
}

impl Server {
    /// Serves a stack of the folder `dir`, over NBD at `sock` there. Clients that connect wait until it is ready.
    pub fn serve(dir: &Path, stack: &str) -> Server {
        for socket in ["sock", "ctl"] {
            // The one that was killed left its sockets.
            let _absent_at_first = std::fs::remove_file(dir.join(socket));
        }
        Server::start(dir, stack, false)
    }

    /// Attaches the export, and waits until its device is there. Gives the device, too.
    pub fn attach(dir: &Path, stack: &str) -> (Server, String) {
        let mut server = Server::start(dir, stack, true);
        let begun = Instant::now();
        loop {
            let record = registry(dir).find(VOL).ok().and_then(|entry| entry.record);
            if let Some(record) = record {
                server.control = record.control;
                return (server, record.disks[0].device.display().to_string());
            }
            assert!(begun.elapsed() < BEGUN_WITHIN, "the child attaches nothing");
            sleep(PAUSE);
        }
    }

    fn start(dir: &Path, stack: &str, is_attached: bool) -> Server {
        std::fs::write(dir.join("stack"), stack).unwrap();
        let mut command = match std::env::var_os(PROGRAM) {
            Some(program) => of_program(Command::new(program), dir, is_attached),
            None => of_tests(dir, is_attached),
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Server { child, dir: dir.to_path_buf(), control: dir.join("ctl") }
    }

    /// Kills some servers of a stack while they open what the last kill left, or a moment later.
    pub fn kill_openings(dir: &Path, stack: &str, random: &mut Random) {
        for _ in 0..random.below(3) {
            let mut server = Server::serve(dir, stack);
            sleep(Duration::from_micros(random.below(OPENING_US)));
            server.kill();
        }
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks over the control socket; none where no server answers.
    pub fn ask(&self, command: &esker_serve::Command) -> Option<Value> {
        ask(&self.control, command)
    }

    /// A number that parts of the stack tell.
    pub fn told(&self, name: &str) -> f64 {
        let answer = self.ask(&esker_serve::Command::Status {}).expect("the server answers");
        stat(&answer, name)
    }

    /// Asks it to stop; it must end well.
    pub fn stop(mut self) {
        self.ask(&esker_serve::Command::Stop { patience_ms: None }).expect("the server answers");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already is fine, and only attachments leave something.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        if let Ok(entry) = registry(&self.dir).find(VOL) {
            let _cleaned = entry.clean();
        }
    }
}

/// This program as the child.
fn of_tests(dir: &Path, is_attached: bool) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "children::the_child_serves", "--ignored", "--nocapture"]).env(FOLDER, dir);
    command.envs(is_attached.then_some((ATTACHES, "1")));
    command
}

/// `esker` as the child.
fn of_program(mut command: Command, dir: &Path, is_attached: bool) -> Command {
    match is_attached {
        true => command.arg("attach").arg(dir.join("stack")).args(["--name", VOL, "--run-dir"]).arg(dir.join("run")),
        false => command.arg("serve").arg(dir.join("stack")).arg("--control").arg(dir.join("ctl")),
    };
    command.args(["--log", "error"]);
    command
}

/// Asks a server over its control socket; none where no server answers.
pub fn ask(control: &Path, command: &esker_serve::Command) -> Option<Value> {
    let mut stream = BufReader::new(UnixStream::connect(control).ok()?);
    stream.get_mut().write_all(command.line().as_bytes()).ok()?;
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// A number in an answered status, summed over parts.
pub fn stat(answer: &Value, name: &str) -> f64 {
    let parts = answer["result"]["parts"].as_array().expect("a status has parts");
    parts.iter().filter_map(|part| part["stats"][name].as_f64()).sum()
}

/// A client of the server in this folder, once it serves.
pub async fn connect(rt: &Rt, dir: &Path) -> Client {
    let begun = Instant::now();
    while begun.elapsed() < BEGUN_WITHIN {
        if let Ok(stream) = Stream::connect(rt, &Address::Unix(dir.join("sock")))
            && let Ok(client) = Client::connect(rt, &Pool::default(), stream, VOL).await
        {
            return client;
        }
        rt.sleep(Nanos::millis(5)).await;
    }
    panic!("the child does not serve");
}
