//! Devices that fail, media that change, and no room.

use std::rc::Rc;

use esker_base::{Errno, Stream};
use esker_block::OpKind;
use esker_block::store::SparseStore;
use esker_dev::Media;
use esker_dev_sim::faulty::{Faulty, Injector};
use esker_fs_posix::OpenFlags;
use esker_fs_posix::script::{Bounded, Durable, Held, Outcome, Player, ScriptOp};
use esker_vfs::{FileSystem, Promise, Ram, tree_digest};

use super::breach::{Breach, actor};
use super::search::{Reach, Searched};
use super::stage::{Enacted, Moment, Stage, in_world, own_call, recorded, restarted};
use super::subject::Subject;
use crate::crash::{self, Bound};
use crate::recorder::Journal;
use crate::sweep::for_each_fault;

/// Bytes of a write that fills a file system.
const FILL_BYTES: u32 = 4096;

/// What a run with a fault came to.
struct Struck {
    moments: Vec<Moment>,
    /// The first rule that was broken.
    broken: Option<String>,
}

impl Stage {
    /// Plays a script with each request of the device failing once, or each of a kind. A failure is answered with an
    /// error; from then on no sync seems to succeed; reads go on; and behind a crash all that was synced is there. What
    /// was answered and not synced may be lost, whatever the promise: the fault may have struck behind the answer.
    /// Answers how many runs had a fault.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn strike(&self, script: &[ScriptOp], kind: Option<OpKind>) -> Result<u64, Breach> {
        let mut breach = None;
        let runs = for_each_fault(kind, |injector| {
            if breach.is_none() {
                breach = self.struck(script, &injector).err();
            }
        });
        breach.map_or(Ok(runs), Err)
    }

    fn struck(&self, script: &[ScriptOp], injector: &Rc<Injector>) -> Result<(), Breach> {
        let when = format!("with the fault {}", injector.plan());
        let told = |what: String| self.breach(script, when.clone(), vec![what]);
        let (journal, media) = (Journal::default(), Media::of(self.subject.size(), self.store.clone()));
        let ram = restarted(&*self.subject, &self.ram);
        let struck = in_world({
            let (subject, script, journal, injector) =
                (self.subject.clone(), script.to_vec(), journal.clone(), injector.clone());
            move |rt| async move {
                let device = Faulty::over(&rt, recorded(&rt, &media, &journal), &injector);
                let start = Moment::of(&ram, 0, 0, true);
                match subject.open(rt, device).await {
                    // A file system that cannot be read is refused, and stays as it is.
                    Err(_) => Struck { moments: vec![start], broken: None },
                    Ok(files) => suffer(&files, &ram, &script, &journal, start).await,
                }
            }
        });
        let Struck { moments, broken } = struck.map_err(told)?;
        broken.map_or(Ok(()), |what| Err(told(what)))?;
        let enacted = Enacted { script: script.to_vec(), journal, moments, store: SparseStore::default() };
        let (last, bound) = (enacted.journal.points(), Bound { states_max: 4, seed: 1 });
        let count = crash::for_each_state_at(&enacted.journal, [last], bound, |point, images| {
            let shown = self.shown(images[0].over(&self.store));
            let judged = self.judge(&enacted, point, Promise::Prefix, &images[0], &shown);
            judged.map(drop).map_err(|breach| Breach { when: format!("{when}: {}", breach.when), ..breach })
        });
        count.map(drop)
    }

    /// Flips a bit of what a script left on the medium, `flips` times: it is noticed, or changes nothing that is shown.
    /// Answers how often it was noticed.
    ///
    /// # Errors
    /// A tree that was never there.
    pub fn rot(&self, script: &[ScriptOp], flips: u64, seed: u64) -> Result<u64, Breach> {
        let enacted = self.play(script)?;
        let wanted =
            self.shown(enacted.store.clone()).map_err(|why| self.breach(script, "behind the script", vec![why]))?;
        let log = &enacted.journal.leaves()[0];
        let units: Vec<u64> = log.candidates(u64::MAX).into_keys().collect();
        let (mut rng, mut noticed) = (Stream::named(seed, "rot"), 0);
        for _ in 0..flips {
            let unit = log.range_of(units[rng.below(units.len() as u64) as usize]);
            let (at, bit) = (unit.start() + rng.below(unit.len()), rng.below(8));
            let mut store = enacted.store.clone();
            let mut byte = [0];
            store.read(at, &mut byte);
            store.write(at, &[byte[0] ^ (1 << bit)]);
            match self.shown(store.clone()) {
                Err(_) => noticed += 1,
                Ok(found) if found == wanted => {}
                Ok(_) => {
                    let when = format!("bit {bit} of byte {at} of the medium is changed, and the tree with it");
                    let moments: Vec<Moment> =
                        enacted.moments.iter().filter(|moment| moment.digest() == wanted).cloned().collect();
                    return Err(self.breach(script, when, self.nearest(store, &moments)));
                }
            }
        }
        Ok(noticed)
    }

    /// Searches scripts of one step on a file system with so many bytes left.
    ///
    /// # Errors
    /// The first broken promise: an answer or a tree that is not the oracle's.
    pub fn search_full(&self, left: u64, scripts_max: u64, reach: Reach) -> Result<Searched, Breach> {
        let before = filled(&*self.subject, &Bounded::before(), left);
        Stage::new(self.subject.clone(), &before)?.search_bounded(1, scripts_max, reach)
    }
}

/// Plays a script on a file system whose device fails once. The oracle makes the calls that succeed.
async fn suffer(
    files: &Rc<dyn FileSystem>,
    ram: &Ram,
    script: &[ScriptOp],
    journal: &Journal,
    start: Moment,
) -> Struck {
    let (mut ours, mut theirs) = (actor(Rc::new(ram.clone())), actor(files.clone()));
    let (mut moments, mut failed) = (vec![start], None::<String>);
    let broken = |moments, what: String| Struck { moments, broken: Some(what) };
    for op in script {
        let from = journal.points();
        let found = theirs.call(op).await;
        let until = journal.points();
        let is_sync = matches!(op, ScriptOp::Sync(_));
        if matches!(found, Outcome::Failed(Errno::EIO | Errno::EROFS)) {
            failed.get_or_insert_with(|| op.to_string());
        } else if let Some(first) = &failed {
            // The oracle is no longer asked: it would make calls on files that were not opened.
            if is_sync && found == Outcome::Done {
                return broken(moments, format!("\"{op}\" succeeds, though \"{first}\" has failed"));
            }
        } else {
            let wanted = ours.call(op).await;
            if wanted.to_string() != found.to_string() {
                return broken(moments, format!("\"{op}\" answers {found}, and the oracle {wanted}"));
            }
            moments.push(Moment::of(ram, from, until, is_sync && found == Outcome::Done));
        }
    }
    let last = moments.last().expect("there is one before the first call").digest();
    let found = tree_digest(&**files, own_call()).await;
    if found != Ok(last) {
        return broken(moments, "the tree behind the fault is not that of the calls that succeeded".to_string());
    }
    Struck { moments, broken: None }
}

/// Calls that leave so many bytes of a file system free, behind others.
fn filled(subject: &dyn Subject, before: &[ScriptOp], left: u64) -> Vec<ScriptOp> {
    let ram = Ram::new(subject.limits(), esker_rt::mem::Pool::default());
    let mut script = before.to_vec();
    script.pop();
    script.push(ScriptOp::Open(Held(3), "fill".into(), OpenFlags::WRONLY | OpenFlags::CREAT, 0o644));
    let played = ram.clone();
    let sizes = in_world(move |_| async move {
        let mut player = actor(Rc::new(played.clone()));
        for op in &script {
            player.call(op).await;
        }
        (script, free(&played))
    });
    let (mut script, free) = sizes.expect("the oracle never waits");
    let writes = free.saturating_sub(left) / u64::from(FILL_BYTES);
    script.extend((0..writes).map(|seed| ScriptOp::Write(Held(3), FILL_BYTES, seed, None)));
    script.extend([ScriptOp::Close(Held(3)), ScriptOp::Sync(Durable::All)]);
    script
}

fn free(ram: &Ram) -> u64 {
    match ram.space(own_call()) {
        esker_block::Step::Now(space) => space.expect("the oracle is open").bytes_free,
        _ => unreachable!("the oracle never waits"),
    }
}
