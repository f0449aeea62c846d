//! One life of a server: a load, an operator at its control socket, and its end.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use esker_base::Stream;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::join_all;
use serde_json::{Value, json};

use super::text::Sample;
use crate::harness::Server;
use crate::ledger::Ledger;
use crate::load::{Load, Met};

/// Tasks of the load.
const TASKS: u64 = 8;
/// A command or a stop that takes longer hangs: `esker stop` promises ten seconds for each of its phases.
const PATIENCE: Duration = Duration::from_secs(45);
const STEP: Duration = Duration::from_millis(30);
const STEPS: u64 = 8;

/// How a life ended.
#[derive(Debug)]
pub enum End {
    Killed,
    Stopped,
    Hung(String),
}

pub struct Life<'a> {
    pub sample: &'a Sample,
    pub base: u64,
    pub book: Rc<RefCell<Ledger>>,
    pub met: Rc<Met>,
    /// Whether a device at the bottom fails requests for a while.
    pub has_faults: bool,
}

impl Life<'_> {
    /// Loads the server until it ends; how it ended, and how many commands it was given.
    pub fn run(&self, server: Server, uri: &str, random: &mut Stream) -> (End, u64) {
        let operator = Operator {
            random: Stream::named(random.next_u64(), "operator"),
            below: self.sample.below.clone(),
            faulty: self.has_faults.then(|| pick(random, &self.sample.files)),
            commands: 0,
        };
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        let (rt, uri, seed) = (reactor.rt(), uri.to_string(), random.next_u64());
        let (base, book, met) = (self.base, self.book.clone(), self.met.clone());
        let operator = reactor.block_on(async move {
            let load = Load::connect(&rt, &uri, base, book, met).await;
            let operator = spawn(move || operator.work(server));
            join_all((0..TASKS).map(|task| load.mix(Stream::named(seed, &format!("task {task}"))))).await;
            operator
        });
        operator.join().expect("the operator is done")
    }
}

fn pick(random: &mut Stream, names: &[String]) -> String {
    names[random.below(names.len() as u64) as usize].clone()
}

/// Changes the stack while it is loaded, and ends it.
struct Operator {
    random: Stream,
    below: Vec<String>,
    /// The file that fails requests.
    faulty: Option<String>,
    commands: u64,
}

impl Operator {
    fn work(mut self, server: Server) -> (End, u64) {
        let end = match self.change(&server) {
            Ok(()) => self.end(server),
            Err(hung) => End::Hung(hung),
        };
        (end, self.commands)
    }

    fn change(&mut self, server: &Server) -> Result<(), String> {
        let mut control = Control::connect(&server.control);
        let begin = self.random.below(STEPS);
        for step in 0..STEPS {
            sleep(STEP);
            let faulty = self.faulty.clone().filter(|_| step == begin);
            let commands = match faulty {
                Some(file) => {
                    vec![json!({ "do": "insert", "device": "fault = error probability=0.3", "above": file })]
                }
                None => self.choose(step),
            };
            for command in commands {
                self.commands += 1;
                control.ask(&command)?;
            }
        }
        Ok(())
    }

    fn choose(&mut self, step: u64) -> Vec<Value> {
        let above = pick(&mut self.random, &self.below);
        let name = format!("new{step}");
        let insert = |text: &str| json!({ "do": "insert", "device": format!("{name} = {text}"), "above": above });
        let remove = json!({ "do": "remove", "name": name });
        match self.random.below(6) {
            0 => vec![insert("stats"), remove],
            1 => vec![insert("delay write=200us read=50us")],
            2 => vec![insert("pass"), json!({ "do": "status" }), remove],
            3 => vec![json!({ "do": "sync" })],
            4 => vec![json!({ "do": "freeze", "limit_ms": 200 }), json!({ "do": "thaw" })],
            _ => vec![json!({ "do": "status" }), json!({ "do": "dump" })],
        }
    }

    fn end(&mut self, mut server: Server) -> End {
        let end = match self.random.below(2) {
            0 => {
                server.kill();
                End::Killed
            }
            _ => {
                server.signal("TERM");
                End::Stopped
            }
        };
        let begun = Instant::now();
        while server.is_running() {
            if begun.elapsed() > PATIENCE {
                server.kill();
                return End::Hung(format!("no end {PATIENCE:?} after it was told to stop"));
            }
            sleep(Duration::from_millis(5));
        }
        match (end, server.wait()) {
            // Writes that were not flushed may be lost where a device failed.
            (End::Stopped, Some(status)) if status != 0 && self.faulty.is_none() => {
                End::Hung(format!("it stopped with status {status}"))
            }
            (end, _) => end,
        }
    }
}

struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(path: &str) -> Control {
        let stream = UnixStream::connect(path).expect("the control socket is there");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a limit");
        Control(BufReader::new(stream))
    }

    /// Waits for an answer, whatever it is: a command may be refused.
    fn ask(&mut self, command: &Value) -> Result<(), String> {
        let mut answer = String::new();
        self.0.get_mut().write_all(format!("{command}\n").as_bytes()).expect("the server reads commands");
        match self.0.read_line(&mut answer) {
            Ok(1..) => Ok(()),
            Ok(0) => Err(format!("the server hung up on {command}")),
            Err(_) => Err(format!("no answer to {command} in {PATIENCE:?}")),
        }
    }
}
