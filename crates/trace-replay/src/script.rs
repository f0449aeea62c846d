//! A compiled trace, cast for a replay: which player plays which call, in which order, how fast.

use std::str::FromStr;

use esker_trace_calls::words::FileKind;
use esker_trace_calls::{Call, EntryKind, Errno, Outcome, ThreadId};
use esker_trace_order::compiled::{LeftOut, Notes, Program, Step};
use esker_trace_order::rules::{Order, Schedule};

use crate::kernel::Pipes;

/// How much of the traced computation is slept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// None: as fast as possible.
    Afap,
    /// This multiple; 1 is natural.
    Scaled(f64),
}

/// A word that is no speed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no speed: say afap, natural, or a multiple of the traced computation such as x0.5")]
pub struct SpeedError(String);

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Speed, SpeedError> {
        let factor = text.strip_prefix('x').and_then(|factor| factor.parse::<f64>().ok());
        match (text, factor) {
            ("afap", _) => Ok(Speed::Afap),
            ("natural", _) => Ok(Speed::Scaled(1.0)),
            (_, Some(factor)) if factor.is_finite() && factor >= 0.0 => Ok(Speed::Scaled(factor)),
            _ => Err(SpeedError(text.to_string())),
        }
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Speed::Afap => f.write_str("afap"),
            Speed::Scaled(1.0) => f.write_str("natural"),
            Speed::Scaled(factor) => write!(f, "x{factor}"),
        }
    }
}

impl Speed {
    /// How long a traced span is slept; `None` if no span is.
    pub fn span_ns(self, traced_ns: u64) -> Option<u64> {
        match self {
            Speed::Afap => None,
            Speed::Scaled(factor) => Some((traced_ns as f64 * factor) as u64),
        }
    }
}

/// The longest transfers of a thread in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Of its reads.
    pub read: u64,
    /// Of its writes.
    pub write: u64,
}

/// The immutable state that players share.
pub struct Script {
    program: Program,
    schedule: Schedule,
    speed: Speed,
    order: Order,
    /// What each player plays.
    parts: Vec<Vec<u32>>,
    rooms: Vec<Room>,
    pipes: Pipes,
    left_out: LeftOut,
}

/// The issuer of an action: its traced thread, and how many of that thread came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPosition {
    /// The traced thread.
    pub thread: u32,
    /// Number within it.
    pub local: u32,
}

impl Script {
    /// Casts `program`.
    pub fn new(program: Program, order: Order, speed: Speed) -> Script {
        let mut schedule = program.schedule(order);
        let parts = match order {
            Order::Single => {
                let row = in_a_row(&program);
                schedule = schedule.in_a_row(program.outline(), &row);
                vec![row]
            }
            _ => (0..program.players().len() as u32).map(|thread| program.actions(ThreadId(thread)).to_vec()).collect(),
        };
        let entries = &program.snapshot().entries;
        let fifos = entries.values().any(|entry| entry.kind == EntryKind::Fifo);
        let mut script = Script {
            rooms: vec![Room::default(); parts.len()],
            left_out: LeftOut::of(&program),
            program,
            schedule,
            speed,
            order,
            parts,
            pipes: Pipes { named: fifos, early: 0 },
        };
        script.measure();
        script
    }

    /// Finds out what players need for their actions.
    fn measure(&mut self) {
        for (step, instant) in self.program.steps().iter().zip(self.program.outline().instants()) {
            let player = if self.order == Order::Single { 0 } else { instant.thread };
            let room = &mut self.rooms[player as usize];
            match &step.call {
                Call::Write { len, .. } | Call::Pwrite { len, .. } => room.write = room.write.max(*len),
                Call::Mknod { kind: FileKind::Fifo, .. } => self.pipes.named = true,
                _ => room.read = room.read.max(step.transfer()),
            }
            if self.order == Order::Single && fills_pipes(step) {
                self.pipes.early = self.pipes.early.max(step.transfer() as usize);
            }
        }
    }

    /// The trace.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What each action waits for.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// How fast.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// In which order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Actions of each player.
    pub fn parts(&self) -> &[Vec<u32>] {
        &self.parts
    }

    /// Room that a player needs.
    pub fn room(&self, player: u32) -> Room {
        self.rooms[player as usize]
    }

    /// What it does with pipes.
    pub fn pipes(&self) -> Pipes {
        self.pipes
    }

    /// I/O of the program that no action makes.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Whether others wait for calls to be issued, not only for their ends.
    pub fn tells_issue(&self) -> bool {
        self.order == Order::Temporal
    }

    /// Whether one thread made all calls, and none that waits for others.
    pub fn is_alone(&self) -> bool {
        self.program.players().len() == 1 && !self.program.outline().instants().iter().any(|instant| instant.waits)
    }

    /// Whose an action is.
    pub fn place(&self, action: u32) -> ScriptPosition {
        ScriptPosition { thread: self.program.instant(action).thread, local: self.program.outline().local(action) }
    }

    /// One action.
    pub fn step(&self, action: u32) -> &Step {
        self.program.step(action)
    }
}

/// Writes that may wait until a pipe has room, and got it: not until its last reader closed it.
fn fills_pipes(step: &Step) -> bool {
    let given_up = step.outcome == Outcome::Failed(Errno::EPIPE);
    step.notes.contains(Notes::WAITS) && matches!(step.call, Call::Write { .. }) && !given_up
}

/// All actions for one thread: by number, but each that waits for others only where it returned, behind what it waited
/// for. Writes to pipes come where they began: what others read meanwhile is of them, and here the pipe has room for
/// all of it.
fn in_a_row(program: &Program) -> Vec<u32> {
    let mut latest = 0;
    let mut keys = Vec::with_capacity(program.len());
    for action in 0..program.len() as u32 {
        let instant = program.instant(action);
        latest = instant.enter.max(latest);
        let step = program.step(action);
        let waits = step.notes.contains(Notes::WAITS) && !fills_pipes(step);
        keys.push((if waits { instant.leave.max(latest) } else { latest }, action));
    }
    keys.sort_unstable();
    keys.into_iter().map(|(_, action)| action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_words() {
        let check = |text: &str, speed| assert_eq!(text.parse::<Speed>().ok(), speed, "{text}");
        check("afap", Some(Speed::Afap));
        check("natural", Some(Speed::Scaled(1.0)));
        check("x0.5", Some(Speed::Scaled(0.5)));
        for bad in ["", "x", "x-1", "xinf", "fast", "2"] {
            check(bad, None);
        }
        assert_eq!(Speed::Scaled(2.0).span_ns(10), Some(20));
        assert_eq!(
            ["afap", "natural", "x2"].map(|text| text.parse::<Speed>().unwrap().to_string()),
            ["afap", "natural", "x2"]
        );
    }
}
