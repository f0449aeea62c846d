//! Processes that are killed: the file system is opened again on what the process left in the device's cache, and the
//! power is cut then.
//!
//! A kill loses nothing that the device was given. But nothing of it is durable for that reason, and what is opened
//! cannot see the difference. So an opening that builds on it needs a flush first.

use std::rc::Rc;

use esker_dev::{Defer, Media};
use esker_fs_posix::script::{Durable, Outcome, Player, ScriptOp};
use esker_vfs::tree_digest;

use super::breach::{Breach, actor};
use super::search::{Reach, Searched};
use super::stage::{BLOCK, Enacted, Stage, in_world, own_call};
use crate::crash::{self, Bound};
use crate::power::kill_points;
use crate::recorder::{Journal, Recorder};

impl Stage {
    /// Plays a script. Kills the process at `kills_max` events of it, opens the file system again, and judges every
    /// state that a power cut can leave from the kill on. Behind the first sync the state is the one that was opened.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn search_killed(&self, script: &[ScriptOp], kills_max: u64, reach: Reach) -> Result<Searched, Breach> {
        let enacted = self.play(script)?;
        let mut searched = Searched { scripts: 1, calls: script.len() as u64, ..Searched::default() };
        if !self.survives() {
            return Ok(searched);
        }
        for kill in kill_points(enacted.journal.points(), kills_max, reach.seed) {
            searched.add(self.kill(&enacted, kill, reach)?);
        }
        Ok(searched)
    }

    /// One kill, before event `kill`.
    fn kill(&self, enacted: &Enacted, kill: u64, reach: Reach) -> Result<Searched, Breach> {
        let journal = enacted.journal.killed(kill);
        let left = crash::newest(&journal).swap_remove(0);
        let told = |when: &str, what| {
            self.breach(
                &enacted.script,
                format!("killed before event {kill} of {}: {when}", enacted.journal.points()),
                what,
            )
        };
        let reopened = self.reopened(Media::of(self.subject.size(), left.over(&self.store)), journal.clone());
        let (synced_at, digest) = reopened.map_err(|why| told("opening it again", vec![why]))?;
        let bound = Bound { states_max: reach.states_max, seed: reach.seed ^ kill };
        let mut opened = 0;
        let count = crash::for_each_state_at(&journal, kill..=journal.points(), bound, |point, images| {
            let shown = self.shown(images[0].over(&self.store));
            opened += 1;
            let when = format!("power cut before event {point} of {}", journal.points());
            let judged = self.judge(enacted, kill, self.subject.promise(), &images[0], &shown);
            judged.map_err(|breach| told(&when, breach.what))?;
            if point >= synced_at && shown != Ok(digest) {
                return Err(told(&when, vec!["a sync had made another state durable".to_string()]));
            }
            Ok(())
        })?;
        let (points, points_drawn) = (count.points, count.points - count.exhaustive);
        Ok(Searched { points, points_drawn, states: count.states, opened, ..Searched::default() })
    }

    /// Opens a medium, reads its tree and syncs it. Answers the tree's number, and the event behind the sync.
    fn reopened(&self, media: Rc<Media>, journal: Journal) -> Result<(u64, u64), String> {
        let subject = self.subject.clone();
        let done = in_world(move |rt| async move {
            let device = Recorder::again(&journal, 0, &rt, &media, BLOCK, Defer::Never);
            let files = subject.open(rt, device).await?;
            let digest = tree_digest(&*files, own_call()).await;
            let digest = digest.map_err(|errno| format!("its tree cannot be read: {errno:?}"))?;
            match actor(files).call(&ScriptOp::Sync(Durable::All)).await {
                Outcome::Done => Ok((journal.points(), digest)),
                other => Err(format!("a sync answers {other}")),
            }
        });
        done.and_then(|done| done)
    }
}
