//! `artc-ground-truth`: whether the inferred order is the program's. Seeded programs of several threads hand files to
//! each other, meet at barriers, take turns at a lock, share directories and read the same files by chance. Which
//! actions come before which in *every* run follows from their signals and barriers alone; that is the truth. A
//! simulated run gives one trace, from which the rules infer an order.
//!
//! Precision is the share of inferred pairs of actions (of two threads, in the transitive closure) that are true;
//! recall the share of true pairs that are inferred. `…_with_sync` has the signals and barriers themselves in the
//! trace, as resources under `sync_seq`. Pairs by rule left out are the edge part of the sensitivity.

use std::collections::BTreeMap;

use esker_base::Stream;
use esker_trace_calls::words::{OpenFlags, ResolveFlags};
use esker_trace_calls::{At, Call, Entry, EntryKind, Fd, Object, PathBytes, Trace};
use esker_trace_order::model::compile;
use esker_trace_order::model::resource::{Resource, ResourceKind, Role, Touch};
use esker_trace_order::rules::schedule::for_each;
use esker_trace_order::rules::{Order, Outline, Rules};

use crate::artc::{action, begun};
use esker_lab_kit::{Figure, Lab, LabError};

const THREADS: usize = 6;
/// Rounds of a program: in each, every pair of neighbours does one thing together.
const ROUNDS: usize = 20;

/// One thing that a thread does.
enum Does {
    /// A call, with its result.
    Call(Call, i64),
    /// Tells the waiting experiment.
    Signal(u64),
    /// Waits until that is told.
    Await(u64),
}

/// A program: what each thread does, in order.
struct Program {
    threads: Vec<Vec<Does>>,
    files: Vec<(String, u64)>,
    numbers: Vec<i32>,
    signals: u64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let programs = lab.scale(5, 50);
    let usual = Rules::default();
    let plain = |rules| Counting { rules, sync: false };
    let cases = [
        ("", plain(usual)),
        ("_with_sync", Counting { rules: usual | Rules::SYNC_SEQ, sync: true }),
        ("_no_file_seq", plain(usual - Rules::FILE_SEQ)),
        ("_no_path", plain(usual - Rules::PATH_STAGE - Rules::PATH_NAME)),
        ("_no_path_negative", plain(usual - Rules::PATH_NEGATIVE)),
        ("_no_fd", plain(usual - Rules::FD_STAGE - Rules::FD_SEQ)),
        ("_program_seq", plain(usual | Rules::PROGRAM_SEQ)),
    ];
    let mut sums = [Pairs::default(); 7];
    for number in 0..programs {
        let mut stream = Stream::named(lab.seed + number, "ground truth");
        let made = played(&Program::random(&mut stream), &mut stream)?;
        for (sum, (_, counting)) in sums.iter_mut().zip(&cases) {
            sum.add(made.count(counting));
        }
    }
    lab.say(format!("{programs} programs, {} true pairs of actions", sums[0].real));
    let mut figures = Vec::new();
    for (sum, (case, counting)) in sums.iter().zip(&cases) {
        lab.say(format!("{}: precision {:.3}, recall {:.3}", counting.rules, sum.precision(), sum.recall()));
        figures.push(Figure::alone(format!("precision{case}"), sum.precision(), "of inferred pairs"));
        figures.push(Figure::alone(format!("recall{case}"), sum.recall(), "of true pairs"));
    }
    Ok(figures)
}

impl Program {
    fn random(stream: &mut Stream) -> Program {
        let mut program = Program {
            threads: (0..THREADS).map(|_| Vec::new()).collect(),
            files: (0..4).map(|number| (format!("/shared/{number}"), 1 << 20)).collect(),
            numbers: (0..THREADS as i32).map(|thread| 100 * (thread + 1)).collect(),
            signals: 0,
        };
        for round in 0..ROUNDS {
            for from in 0..THREADS {
                let to = (from + 1 + stream.below(THREADS as u64 - 1) as usize) % THREADS;
                program.act(stream, round, from, to);
            }
        }
        program
    }

    /// Two threads do one thing together, or beside each other.
    fn act(&mut self, stream: &mut Stream, round: usize, from: usize, to: usize) {
        let path = format!("/story/{round}-{from}");
        match stream.below(6) {
            0 | 1 => self.hand_over(from, to, &path),
            2 => self.signal_unseen(from, to, &path),
            3 => self.append_to_log(from),
            4 => self.read_shared(from, stream),
            _ => self.make_and_drop(from, &path),
        }
        if from == 0 && round % 7 == 6 {
            self.meet();
        }
    }

    fn call(&mut self, thread: usize, call: Call, result: i64) {
        self.threads[thread].push(Does::Call(call, result));
    }

    /// Opens a file; the number of its descriptor is never used again.
    fn open(&mut self, thread: usize, path: &str, flags: OpenFlags) -> Fd {
        let number = self.numbers[thread];
        self.numbers[thread] += 1000;
        let at = At::cwd(path);
        self.call(thread, Call::Open { at, flags, mode: 0o644, resolve: ResolveFlags::empty() }, number.into());
        Fd(number)
    }

    /// Opens a file, makes a call on it that moves so many bytes, and closes it.
    fn use_file(&mut self, thread: usize, path: &str, flags: OpenFlags, call: fn(Fd, u64) -> Call, bytes: u64) {
        let fd = self.open(thread, path, flags);
        self.call(thread, call(fd, bytes), bytes as i64);
        self.call(thread, Call::Close { fd }, 0);
    }

    fn write_file(&mut self, thread: usize, path: &str) {
        self.use_file(thread, path, OpenFlags::WRITE | OpenFlags::O_CREAT, write, 4096);
    }

    /// Waits for a signal of its own: the order of the two holds in every run.
    fn signal(&mut self, from: usize, to: usize) {
        self.signals += 1;
        self.threads[from].push(Does::Signal(self.signals));
        self.threads[to].push(Does::Await(self.signals));
    }

    /// One writes a file, the other waits for it, reads and removes it.
    fn hand_over(&mut self, from: usize, to: usize, path: &str) {
        self.write_file(from, path);
        self.signal(from, to);
        self.use_file(to, path, OpenFlags::READ, read, 4096);
        self.call(to, Call::Unlink { at: At::cwd(path) }, 0);
    }

    /// One tells the other to go on, which no file shows.
    fn signal_unseen(&mut self, from: usize, to: usize, path: &str) {
        self.write_file(from, &format!("{path}-told"));
        self.signal(from, to);
        self.write_file(to, &format!("{path}-heard"));
    }

    /// Lines of a log: a lock keeps them apart, in whichever order.
    fn append_to_log(&mut self, thread: usize) {
        let flags = OpenFlags::WRITE | OpenFlags::O_CREAT | OpenFlags::O_APPEND;
        self.use_file(thread, "/shared/log", flags, write, 80);
    }

    /// A file that others read too, by chance.
    fn read_shared(&mut self, thread: usize, stream: &mut Stream) {
        let (path, _) = self.files[stream.below(self.files.len() as u64) as usize].clone();
        self.call(thread, Call::Stat { file: Object::Path { at: At::cwd(&path), follow: true }, seen: None }, 0);
        self.use_file(thread, &path, OpenFlags::READ, read, 4096);
    }

    /// A temporary file of its own, in a folder of all.
    fn make_and_drop(&mut self, thread: usize, path: &str) {
        self.write_file(thread, path);
        self.call(thread, Call::Unlink { at: At::cwd(path) }, 0);
    }

    /// All threads meet: what each did before comes before what any does later.
    fn meet(&mut self) {
        for from in 0..THREADS {
            for to in (0..THREADS).filter(|to| *to != from) {
                self.signal(from, to);
            }
        }
        // Waiting must come behind all telling, or none could begin.
        for thread in &mut self.threads {
            let (mut waits, tail) = (Vec::new(), thread.len().saturating_sub(2 * (THREADS - 1)));
            let last: Vec<Does> = thread.drain(tail..).collect();
            for does in last {
                match does {
                    Does::Await(_) => waits.push(does),
                    other => thread.push(other),
                }
            }
            thread.extend(waits);
        }
    }
}

fn read(fd: Fd, len: u64) -> Call {
    Call::Read { fd, len, parts: 0 }
}

fn write(fd: Fd, len: u64) -> Call {
    Call::Write { fd, len, parts: 0 }
}

/// A run: its compiled form, and what is true.
struct Made {
    outline: Outline,
    run: SimulatedRun,
}

/// Plays a program on simulated threads whose calls take random times.
fn played(program: &Program, stream: &mut Stream) -> Result<Made, LabError> {
    let mut trace = begun(THREADS as u32, "");
    for folder in ["/story", "/shared"] {
        trace.snapshot.entries.insert(PathBytes::from(folder), Entry::plain(EntryKind::Directory));
    }
    for (path, size) in &program.files {
        trace.snapshot.entries.insert(PathBytes::from(path), Entry::plain(EntryKind::File { size: *size }));
    }
    let mut run = SimulatedRun::default();
    run.play(program, stream, &mut trace);
    let compiled = compile(trace, &mut |_| {}).map_err(LabError::data)?;
    if compiled.about().repairs.contradictions() > 0 {
        return Err(LabError::Data(format!("the made program contradicts itself: {:?}", compiled.about().repairs)));
    }
    Ok(Made { outline: compiled.outline().clone(), run })
}

#[derive(Default)]
struct SimulatedRun {
    /// True edges between actions: from the last one before a signal to the first one after its wait.
    real: Vec<(u32, u32)>,
    /// Signals beside actions: as records of synchronisation.
    sync: BTreeMap<u32, Vec<(u64, Role)>>,
    /// When each signal was told, and after which action.
    told: BTreeMap<u64, (u64, Option<u32>)>,
}

impl SimulatedRun {
    /// Each step is taken by the thread that is free first; actions are numbered in that order.
    fn play(&mut self, program: &Program, stream: &mut Stream, trace: &mut Trace) {
        let mut next = [0usize; THREADS];
        let mut free = [0u64; THREADS];
        let mut last: [Option<u32>; THREADS] = [None; THREADS];
        let mut heard: Vec<Vec<u64>> = vec![Vec::new(); THREADS];
        loop {
            let ready = (0..THREADS).filter(|thread| match program.threads[*thread].get(next[*thread]) {
                Some(Does::Await(signal)) => self.told.contains_key(signal),
                Some(_) => true,
                None => false,
            });
            let Some(thread) = ready.min_by_key(|thread| free[*thread]) else { return };
            match &program.threads[thread][next[thread]] {
                Does::Signal(signal) => {
                    self.told.insert(*signal, (free[thread], last[thread]));
                    if let Some(action) = last[thread] {
                        self.sync.entry(action).or_default().push((*signal, Role::Use));
                    }
                }
                Does::Await(signal) => {
                    free[thread] = free[thread].max(self.told[signal].0);
                    heard[thread].push(*signal);
                }
                Does::Call(call, result) => {
                    let id = trace.actions.len() as u32;
                    let enter = free[thread].max(trace.actions.last().map_or(0, |action| action.enter.0)) + 1;
                    free[thread] = enter + 1 + stream.below(2000);
                    for signal in heard[thread].drain(..) {
                        self.real.extend(self.told[&signal].1.map(|from| (from, id)));
                        self.sync.entry(id).or_default().push((signal, Role::Use));
                    }
                    trace.actions.push(action(thread as u32, [enter, free[thread]], call.clone(), *result));
                    last[thread] = Some(id);
                }
            }
            next[thread] += 1;
        }
    }
}

/// Which order is inferred.
struct Counting {
    rules: Rules,
    sync: bool,
}

/// Pairs of actions of two threads.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    real: u64,
    inferred: u64,
    both: u64,
}

impl Pairs {
    fn add(&mut self, other: Pairs) {
        self.real += other.real;
        self.inferred += other.inferred;
        self.both += other.both;
    }

    fn precision(&self) -> f64 {
        self.both as f64 / self.inferred.max(1) as f64
    }

    fn recall(&self) -> f64 {
        self.both as f64 / self.real.max(1) as f64
    }
}

impl Made {
    fn count(&self, counting: &Counting) -> Pairs {
        let outline = if counting.sync { self.with_sync() } else { self.outline.clone() };
        let mut inferred = Vec::new();
        for_each(&outline, Order::Root(counting.rules), |to, candidates| {
            inferred.extend(candidates.iter().filter(|one| one.kept).map(|one| (one.edge.from, to)));
        });
        let (real, inferred) = (closure(&outline, &self.run.real), closure(&outline, &inferred));
        let thread = |id: usize| outline.instants()[id].thread;
        let mut pairs = Pairs::default();
        for to in 0..outline.len() {
            for from in (0..to).filter(|from| thread(*from) != thread(to)) {
                let (is_real, is_inferred) = (bit(&real[to], from), bit(&inferred[to], from));
                pairs.real += u64::from(is_real);
                pairs.inferred += u64::from(is_inferred);
                pairs.both += u64::from(is_real && is_inferred);
            }
        }
        pairs
    }

    /// The same trace with signals as resources of their own.
    fn with_sync(&self) -> Outline {
        let mut resources = self.outline.resources().to_vec();
        let mut known: BTreeMap<u64, u32> = BTreeMap::new();
        for (signal, _) in self.run.sync.values().flatten() {
            known.entry(*signal).or_insert_with(|| {
                let kind = ResourceKind::Sync;
                resources.push(Resource { kind, key: *signal, generation: 1, previous: None });
                (resources.len() - 1) as u32
            });
        }
        let mut outline = Outline::new(self.outline.threads(), resources);
        let mut touches = Vec::new();
        for (id, instant) in self.outline.instants().iter().enumerate() {
            self.outline.touches(id as u32, &mut touches);
            let signals = self.run.sync.get(&(id as u32)).into_iter().flatten();
            touches.extend(signals.map(|(signal, role)| Touch { resource: known[signal], role: *role }));
            outline.push(*instant, &touches);
        }
        outline
    }
}

/// For each action, a set of bits of those before it.
fn closure(outline: &Outline, edges: &[(u32, u32)]) -> Vec<Vec<u64>> {
    let mut direct: Vec<Vec<u32>> = vec![Vec::new(); outline.len()];
    edges.iter().for_each(|(from, to)| direct[*to as usize].push(*from));
    let mut last = vec![None; outline.threads()];
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(outline.len());
    for (id, instant) in outline.instants().iter().enumerate() {
        direct[id].extend(last[instant.thread as usize].replace(id as u32));
        let mut bits = vec![0u64; outline.len().div_ceil(64)];
        for from in &direct[id] {
            bits.iter_mut().zip(&before[*from as usize]).for_each(|(mine, theirs)| *mine |= theirs);
            bits[*from as usize / 64] |= 1 << (from % 64);
        }
        before.push(bits);
    }
    before
}

fn bit(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 != 0
}
