//! Scripts on a file system and on its oracle side by side, over a device that records.

use std::cell::OnceCell;
use std::rc::Rc;

use esker_block::Device;
use esker_block::store::SparseStore;
use esker_dev::{Defer, Media, MemoryDevice};
use esker_fs_posix::script::{Durable, Outcome, Player, ScriptOp};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use esker_vfs::{Call, FileSystem, Promise, Ram, Stamp, tree_digest};

use super::breach::{Breach, actor, differences, told, tree};
use super::subject::Subject;
use crate::recorder::{Journal, Recorder};

/// Blocks that a power cut leaves whole.
pub(super) const BLOCK: u32 = 512;

/// A file system that is made and filled, and the oracle's state then. Each script begins with it.
#[derive(Clone)]
pub struct Stage {
    pub(super) subject: Rc<dyn Subject>,
    /// What the medium holds, durably.
    pub(super) store: SparseStore,
    pub(super) ram: Ram,
    /// The calls that made it, for reports and for what does not survive.
    before: Vec<ScriptOp>,
}

/// The oracle's state behind a call, and when the call was made.
#[derive(Clone)]
pub struct Moment {
    /// The state.
    pub ram: Ram,
    digest: OnceCell<u64>,
    /// Events of the device before the call.
    pub from: u64,
    /// Events of the device when the call was answered.
    pub until: u64,
    /// Whether the call makes all before it durable.
    pub is_barrier: bool,
}

impl Moment {
    pub(super) fn of(ram: &Ram, from: u64, until: u64, is_barrier: bool) -> Moment {
        Moment { ram: ram.fork(), digest: OnceCell::new(), from, until, is_barrier }
    }

    /// The [`tree_digest`] of the state.
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| self.ram.digest().expect("the oracle is open"))
    }
}

/// A script that was played: a moment before it, and one behind each call.
pub struct Enacted {
    /// The calls.
    pub script: Vec<ScriptOp>,
    /// What the device did.
    pub journal: Journal,
    /// Moments.
    pub moments: Vec<Moment>,
    /// What the medium holds if nothing is lost.
    pub store: SparseStore,
}

/// What a medium shows when it is opened: a number for the tree, or why it is refused.
pub type Shown = Result<u64, String>;

/// A call that the harness makes by itself.
pub(super) fn own_call() -> Call {
    Call::at(Stamp(2_000_000_000_000_000_000))
}

/// Does something in a world of its own.
pub(super) fn in_world<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce(Rt) -> F) -> Result<T, String> {
    let sim = Sim::new(SimConfig::seeded(1));
    let done = sim.try_block_on(body(sim.rt())).map_err(|halt| halt.to_string());
    sim.kill();
    done
}

/// A memory device over bytes.
pub(super) fn memory(rt: &Rt, media: &Rc<Media>) -> Rc<dyn Device> {
    Rc::new(MemoryDevice::over(rt, media.clone(), BLOCK, Defer::Never))
}

/// A device over bytes that keeps a journal.
pub(super) fn recorded(rt: &Rt, media: &Rc<Media>, journal: &Journal) -> Rc<dyn Device> {
    Recorder::leaf(journal, rt, media, BLOCK, Defer::Never)
}

/// Whether a call makes all before it durable, if it succeeds.
fn is_sync(op: &ScriptOp) -> bool {
    matches!(op, ScriptOp::Sync(Durable::Data(_) | Durable::File(_) | Durable::All))
}

/// The oracle behind a restart: what has no name is gone.
pub(super) fn restarted(subject: &dyn Subject, ram: &Ram) -> Ram {
    Ram::from_image(subject.limits(), Pool::default(), &ram.to_image()).expect("the oracle's own image")
}

impl Stage {
    /// A new file system on which `before` was played.
    ///
    /// # Errors
    /// It cannot be made, or answers otherwise than the oracle.
    pub fn new(subject: Rc<dyn Subject>, before: &[ScriptOp]) -> Result<Stage, Breach> {
        let media = Media::new(subject.size());
        let made = in_world({
            let (subject, media) = (subject.clone(), media.clone());
            move |rt| async move { subject.make(rt.clone(), memory(&rt, &media)).await }
        });
        let ram = Ram::new(subject.limits(), Pool::default());
        let stage = Stage { subject, store: media.image(), ram, before: Vec::new() };
        made.and_then(|made| made).map_err(|why| stage.breach(&[], "making one", vec![why]))?;
        let enacted = stage.play(before)?;
        let ram = enacted.moments.last().expect("there is one before the first call").ram.clone();
        Ok(Stage { store: enacted.store, ram, before: before.to_vec(), ..stage })
    }

    /// The same over another medium, which shows this state of the oracle.
    pub(super) fn over(&self, store: SparseStore, ram: Ram) -> Stage {
        Stage { store, ram, ..self.clone() }
    }

    /// A report.
    pub(super) fn breach(&self, script: &[ScriptOp], when: impl Into<String>, what: Vec<String>) -> Breach {
        let script = [&self.before[..], script].concat();
        Breach { subject: self.subject.name(), script, when: when.into(), what }
    }

    /// Whether the file system outlives its process.
    pub(super) fn survives(&self) -> bool {
        self.subject.promise() != Promise::None
    }

    /// Plays a script on the file system and on the oracle, and compares each answer and the tree behind it.
    ///
    /// # Errors
    /// The first difference.
    pub fn play(&self, script: &[ScriptOp]) -> Result<Enacted, Breach> {
        let can = self.subject.can();
        let script: &Vec<ScriptOp> = &script.iter().filter(|op| op.is_possible(&can)).cloned().collect();
        let (journal, media) = (Journal::default(), Media::of(self.subject.size(), self.store.clone()));
        // What does not survive is made anew.
        let (ram, calls) = match self.survives() {
            true => (restarted(&*self.subject, &self.ram), script.clone()),
            false => (Ram::new(self.subject.limits(), Pool::default()), [&self.before[..], script].concat()),
        };
        let played = in_world({
            let (stage, journal, media) = (self.clone(), journal.clone(), media.clone());
            move |rt| async move {
                let device = recorded(&rt, &media, &journal);
                if !stage.survives() {
                    stage
                        .subject
                        .make(rt.clone(), device.clone())
                        .await
                        .map_err(|why| ("making it".to_string(), vec![why]))?;
                }
                let opened = stage.subject.open(rt, device).await;
                let files = opened.map_err(|why| ("opening it".to_string(), vec![why]))?;
                compare(&files, ram, &calls, &journal).await
            }
        });
        let told = |(when, what)| self.breach(script, when, what);
        let moments = played.map_err(|why| told(("playing it".to_string(), vec![why])))?.map_err(told)?;
        Ok(Enacted { script: script.clone(), journal, moments, store: media.image() })
    }

    /// What a medium shows.
    pub(super) fn shown(&self, store: SparseStore) -> Shown {
        let (subject, media) = (self.subject.clone(), Media::of(self.subject.size(), store));
        let shown = in_world(move |rt| async move {
            let files = subject.open(rt.clone(), memory(&rt, &media)).await?;
            let digest = tree_digest(&*files, own_call()).await;
            digest.map_err(|errno| format!("its tree cannot be read: {errno:?}"))
        });
        shown.and_then(|shown| shown)
    }

    /// What distinguishes the tree on a medium from the nearest of these states, in words.
    pub(super) fn nearest(&self, store: SparseStore, moments: &[Moment]) -> Vec<String> {
        let (subject, media) = (self.subject.clone(), Media::of(self.subject.size(), store));
        let found = in_world(move |rt| async move {
            let files = subject.open(rt.clone(), memory(&rt, &media)).await?;
            Ok::<_, String>(tree(files).await)
        });
        let found = match found.and_then(|found| found) {
            Ok(found) => found,
            Err(why) => return vec![format!("it does not open: {why}")],
        };
        let of_moment = |(number, moment): (usize, &Moment)| {
            let ram: Rc<dyn FileSystem> = Rc::new(restarted(&*self.subject, &moment.ram));
            let wanted = in_world(move |_| tree(ram)).expect("the oracle never waits");
            (number, differences(&found, &wanted))
        };
        let nearest = moments.iter().enumerate().map(of_moment).min_by_key(|(_, differences)| differences.len());
        let Some((number, differences)) = nearest else { return vec!["no state is allowed".to_string()] };
        let mut lines = vec![format!("of {} allowed states, the nearest is number {}", moments.len(), number + 1)];
        lines.extend(told(differences));
        lines
    }
}

/// Plays a script on both sides. Answers the moments, or when and how they differ.
async fn compare(
    files: &Rc<dyn FileSystem>,
    ram: Ram,
    script: &[ScriptOp],
    journal: &Journal,
) -> Result<Vec<Moment>, (String, Vec<String>)> {
    let (mut ours, mut theirs) = (actor(Rc::new(ram.clone())), actor(files.clone()));
    let mut moments = vec![Moment::of(&ram, 0, journal.points(), true)];
    for (number, op) in script.iter().enumerate() {
        let from = journal.points();
        let (wanted, found) = (ours.call(op).await, theirs.call(op).await);
        if wanted.to_string() != found.to_string() {
            let what = vec![format!("it answers {found}"), format!("the oracle answers {wanted}")];
            return Err((format!("call {}: {op}", number + 1), what));
        }
        let is_barrier = is_sync(op) && found == Outcome::Done;
        let until = journal.points();
        moments.push(Moment::of(&ram, from, until, is_barrier));
    }
    let last = moments.last().expect("there is one before the first call");
    let found = tree_digest(&**files, own_call()).await;
    if found != Ok(last.digest()) {
        let (found, wanted) = (tree(files.clone()).await, tree(Rc::new(ram.fork())).await);
        return Err(("behind the last call".to_string(), told(differences(&found, &wanted))));
    }
    Ok(moments)
}
