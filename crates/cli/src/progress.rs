//! How a verb shows how far it is: what, how much of how much, and how long to go.
//!
//! On a terminal each part of the work is a bar. Where standard error is no terminal, a line tells of the part that was
//! heard of last, about every ten seconds; a verb that ends sooner prints none. Libraries count, and report to a
//! [`Watcher`]. The clock is here alone: the bars of indicatif reckon the rest, also those that nothing shows.

use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use esker_base::Nanos;
use esker_base::progress::{Progress, Unit, Watch};
use esker_base::units::{parse_span, size_human};
use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a verb declares of its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// It answers at once: what it reads is small, or a server answers it from memory.
    AtOnce,
    /// It may take long, and shows these parts.
    Shows(&'static str),
    /// It waits for a server, a program or an event, at most as long as its arguments say; this is what for.
    Waits(&'static str),
    /// It works until it is told to stop, or until its program ends. A start of a stack shows what layers recover.
    Serves,
}

/// Time between two lines, where standard error is no terminal.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time between two pictures of a bar of which nothing new is heard.
const TICK: Duration = Duration::from_millis(200);
/// The variable that changes [`INTERVAL`], or turns progress off.
const VARIABLE: &str = "ESKER_PROGRESS";

/// What the clock counts.
const SECONDS: &str = "s";

/// When lines come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lines {
    /// Nothing is shown, on a terminal neither.
    Off,
    /// One for each report.
    Each,
    /// One after each such time.
    Every(Duration),
}

impl Lines {
    /// As the variable says; what it cannot mean is as if it were not there.
    fn of(text: Option<&str>) -> Lines {
        match text.map(|text| (text, parse_span(text))) {
            Some(("off", _)) => Lines::Off,
            Some((_, Ok(Nanos::ZERO))) => Lines::Each,
            Some((_, Ok(span))) => Lines::Every(Duration::from_nanos(span.0)),
            Some((_, Err(_))) | None => Lines::Every(INTERVAL),
        }
    }
}

/// Takes a line.
type Say = Box<dyn Fn(&str) + Send + Sync>;

/// Shows all parts of the work of one verb. Clones show the same.
#[derive(Clone)]
pub struct Watcher(Arc<Shown>);

struct Shown {
    bars: MultiProgress,
    lines: Lines,
    say: Say,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The words of the verb, which begin each line.
    verb: String,
    /// Parts under way; the last one was heard of last.
    parts: Vec<(String, Bar)>,
    /// Ends the thread of lines when it goes.
    ticks: Option<Sender<()>>,
}

/// A part, and its unit.
#[derive(Clone)]
struct Bar {
    bar: ProgressBar,
    unit: Unit,
}

impl Watcher {
    /// Shows progress on standard error, of which a process has one.
    pub fn standard() -> Watcher {
        static STANDARD: OnceLock<Watcher> = OnceLock::new();
        STANDARD.get_or_init(Watcher::of_process).clone()
    }

    fn of_process() -> Watcher {
        let lines = Lines::of(std::env::var(VARIABLE).ok().as_deref());
        let target = if lines == Lines::Off { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        // A reader that has closed standard error has seen enough.
        Watcher::on(target, lines, Box::new(|line| drop(writeln!(io::stderr(), "{line}"))))
    }

    fn on(target: ProgressDrawTarget, lines: Lines, say: Say) -> Watcher {
        let bars = MultiProgress::with_draw_target(target);
        Watcher(Arc::new(Shown { bars, lines, say, state: Mutex::default() }))
    }

    /// From now on the lines are those of this verb.
    pub fn begin(&self, words: &[&str]) {
        self.0.state().verb = words.join(" ");
    }

    /// Takes a report.
    pub fn tell(&self, told: Progress<'_>) {
        let bar = self.0.bar(&told);
        if bar.length() != told.total {
            told.total.map_or_else(|| bar.unset_length(), |total| bar.set_length(total));
        }
        bar.set_position(told.done);
        self.0.each();
        if told.total.is_some_and(|total| told.done >= total) {
            self.0.end(told.part);
        }
    }

    /// What libraries tell on one thread.
    pub fn watch(&self) -> Rc<Watch> {
        let own = self.clone();
        Rc::new(move |told| own.tell(told))
    }

    /// Begins a part that the verb itself counts. It ends when it is dropped.
    pub fn part(&self, part: &str, unit: Unit, total: Option<u64>) -> Part {
        let bar = self.0.bar(&Progress { part, unit, done: 0, total });
        self.0.each();
        Part { watcher: self.clone(), name: part.to_string(), bar }
    }

    /// Does something that writes to the terminal beside the bars.
    pub fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.bars.suspend(write)
    }

    /// Takes lines of the work itself, which come on standard error as they are told.
    pub fn lines(&self) -> impl FnMut(&str) + use<> {
        let own = self.clone();
        // A reader that has closed standard error has seen enough.
        move |line| own.beside(|| drop(writeln!(io::stderr(), "{line}")))
    }

    /// Something that takes about so many seconds, as far as that is known. It ends when it is dropped.
    pub fn takes(&self, what: &str, seconds: Option<u64>) -> Part {
        self.part(what, Unit::Of(SECONDS), seconds)
    }

    /// Ends all parts, also of work that failed.
    pub fn clear(&self) {
        for (_, part) in self.0.state().parts.drain(..) {
            part.bar.finish_and_clear();
        }
    }

    /// Ends all parts, and says no line any more.
    pub fn end(&self) {
        self.clear();
        self.0.state().ticks = None;
    }
}

/// Standard error beside bars, for lines of a log.
pub struct BesideBars;

impl Write for BesideBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Watcher::standard().beside(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A part of a verb's work, which the verb counts.
pub struct Part {
    watcher: Watcher,
    name: String,
    bar: ProgressBar,
}

impl Part {
    /// So much is done.
    pub fn done(&self, done: u64) {
        self.bar.set_position(done);
        self.watcher.0.each();
    }

    /// So much more is done.
    pub fn more(&self, more: u64) {
        self.bar.inc(more);
        self.watcher.0.each();
    }

    /// How far it is, and what is at hand: the words stand in the place of the part's name.
    pub fn at(&self, words: &str) {
        self.bar.set_message(words.to_string());
        self.watcher.0.each();
    }

    /// A reader whose bytes count.
    pub fn reading<R: Read>(&self, from: R) -> Counted<R> {
        Counted { from, bar: self.bar.clone(), watcher: self.watcher.clone() }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.watcher.0.end(&self.name);
    }
}

/// A reader whose bytes count.
pub struct Counted<R> {
    from: R,
    bar: ProgressBar,
    watcher: Watcher,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(out)?;
        self.bar.inc(read as u64);
        self.watcher.0.each();
        Ok(read)
    }
}

impl<R: io::Seek> io::Seek for Counted<R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let at = self.from.seek(to)?;
        self.bar.set_position(at);
        Ok(at)
    }
}

impl Shown {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bar of a part, which is now the one that was heard of last. A part that was not heard of begins.
    fn bar(self: &Arc<Shown>, told: &Progress<'_>) -> ProgressBar {
        let mut state = self.state();
        let known = state.parts.iter().position(|(part, _)| part == told.part);
        if let Some(at) = known {
            if at + 1 < state.parts.len() {
                let last = state.parts.remove(at);
                state.parts.push(last);
            }
        } else {
            let bar = self.bars.add(told.total.map_or_else(ProgressBar::no_length, ProgressBar::new));
            bar.set_style(style(told));
            bar.set_message(told.part.to_string());
            self.begin_ticks(&mut state, told.unit);
            if !self.bars.is_hidden() {
                bar.enable_steady_tick(TICK);
            }
            state.parts.push((told.part.to_string(), Bar { bar, unit: told.unit }));
        }
        state.parts.last().expect("it was found or added").1.bar.clone()
    }

    fn end(&self, part: &str) {
        let mut state = self.state();
        if let Some(at) = state.parts.iter().position(|(name, _)| name == part) {
            state.parts.remove(at).1.bar.finish_and_clear();
        }
    }

    /// A thread says lines until the verb ends: a step of the work may take longer than the interval. On a terminal it
    /// moves bars of seconds.
    fn begin_ticks(self: &Arc<Shown>, state: &mut State, unit: Unit) {
        let interval = match (self.bars.is_hidden(), self.lines, unit) {
            _ if state.ticks.is_some() => return,
            (true, Lines::Every(interval), _) => interval,
            (false, _, Unit::Of(SECONDS)) => Duration::from_secs(1),
            _ => return,
        };
        let (ends, ended) = mpsc::channel::<()>();
        let shown = Arc::downgrade(self);
        let ticks = move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
                let Some(shown) = shown.upgrade() else { return };
                shown.tick();
            }
        };
        // Without the thread nothing is missing but the lines.
        if thread::Builder::new().name("progress".to_string()).spawn(ticks).is_ok() {
            state.ticks = Some(ends);
        }
    }

    fn tick(&self) {
        self.state().parts.iter().for_each(|(_, part)| part.follow_clock());
        if self.bars.is_hidden() {
            self.line();
        }
    }

    fn each(&self) {
        if self.lines == Lines::Each && self.bars.is_hidden() {
            self.line();
        }
    }

    /// Says how far the part is that was heard of last.
    fn line(&self) {
        let state = self.state();
        if let Some((_, part)) = state.parts.last() {
            part.follow_clock();
            (self.say)(&format!("esker {}: {}", state.verb, part.text()));
        }
    }
}

impl Bar {
    /// What counts seconds is as far as the clock.
    fn follow_clock(&self) {
        if self.unit == Unit::Of(SECONDS) {
            self.bar.set_position(self.bar.elapsed().as_secs());
        }
    }

    /// What, how much of how much, and how long to go.
    fn text(&self) -> String {
        let (done, total) = (self.bar.position(), self.bar.length());
        let done = total.map_or(done, |total| done.min(total));
        let far = match (self.unit, total) {
            (Unit::Bytes, Some(total)) => format!("{} of {}", size_human(done), size_human(total)),
            (Unit::Bytes, None) => format!("{} so far", size_human(done)),
            (Unit::Of(unit), Some(total)) => format!("{} of {} {unit}", HumanCount(done), HumanCount(total)),
            (Unit::Of(unit), None) => format!("{} {unit} so far", HumanCount(done)),
        };
        let rest = match (self.unit, total) {
            (Unit::Of(SECONDS), Some(total)) => Duration::from_secs(total - done),
            (Unit::Of(_) | Unit::Bytes, _) => self.bar.eta(),
        };
        format!("{}, {far}{}", self.bar.message(), to_go(rest))
    }
}

/// How long to go, in words; nothing while nothing tells it.
fn to_go(rest: Duration) -> String {
    match rest.as_secs() {
        0 => String::new(),
        s @ ..120 => format!(", about {s} s to go"),
        s @ ..7200 => format!(", about {} min to go", s / 60),
        s => format!(", about {} h to go", s / 3600),
    }
}

fn style(told: &Progress<'_>) -> ProgressStyle {
    let template = match (told.unit, told.total) {
        (Unit::Bytes, Some(_)) => "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} to go".to_string(),
        (Unit::Bytes, None) => "{spinner} {msg} {bytes} in {elapsed}".to_string(),
        (Unit::Of(SECONDS), None) => "{spinner} {msg} {elapsed}".to_string(),
        (Unit::Of(unit), Some(_)) => format!("{{msg}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}, {{eta}} to go"),
        (Unit::Of(unit), None) => format!("{{spinner}} {{msg}} {{human_pos}} {unit} in {{elapsed}}"),
    };
    ProgressStyle::with_template(&template).expect("the template is well formed")
}

#[cfg(test)]
mod tests;
