//! Looks ahead: a call that makes or removes a name takes effect behind overlapping calls whose results tell that it
//! had not yet.
//!
//! Calls that were entered later and contradict the model are put off until they fit. The other way round it is too
//! late: once a name is made, a failed look-up that overlapped the making has no place any more. So the makers and
//! removers of names are put off, behind those that overlap them, that agree with the trace now, and that would not do
//! so afterwards.

use esker_base::Errno;
use esker_trace_calls::action::{Action, Outcome};
use esker_trace_calls::call::Call;
use esker_trace_calls::words::{OpenFlags, RenameFlags};

use super::World;
use super::act::Intent;
use super::compile::contradicts;
use super::resource::{ResourceKind, Role};
use super::tree::{NodeId, TOP};
use super::walk::Last;
use super::world::Answer;

/// Actions at which one call looks at most.
const AHEAD_MAX: usize = 256;

/// What a call does to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    node: NodeId,
    /// Whether names below it come or go with it.
    below: bool,
}

impl World {
    /// How many of the actions behind `action` take effect before it: all up to the last one that needs the names as
    /// they are.
    pub(super) fn behind(&mut self, action: &Action, later: &[Action]) -> Option<usize> {
        let overlaps = |other: &&Action| other.enter < action.leave;
        if !matches!(action.outcome, Outcome::Done(_)) || later.first().filter(overlaps).is_none() {
            return None;
        }
        let changes = self.changes(action);
        if changes.is_empty() {
            return None;
        }
        let mut behind = None;
        for (at, other) in later.iter().take_while(overlaps).take(AHEAD_MAX).enumerate() {
            let mut call = other.call.clone();
            self.resolve_aliases(other.thread, &mut call);
            let answer = self.act(other.thread, &call, Intent::Try);
            if !self.concerns(other, &changes) {
                continue;
            }
            if contradicts(other.outcome, answer) {
                break;
            }
            if needs_it(other, answer) {
                behind = Some(at + 1);
            }
        }
        behind
    }

    /// Names that a successful call is about to make or to take away.
    fn changes(&mut self, action: &Action) -> Vec<Change> {
        let (makes, removes) = match &action.call {
            Call::Open { flags, .. } | Call::ShmOpen { flags, .. } => (flags.contains(OpenFlags::O_CREAT), false),
            Call::Mkdir { .. }
            | Call::Mknod { .. }
            | Call::Bind { .. }
            | Call::Symlink { .. }
            | Call::Link { .. }
            | Call::CloneFile { .. } => (true, false),
            Call::Unlink { .. } | Call::ShmUnlink { .. } | Call::Rmdir { .. } => (false, true),
            Call::Rename { flags, .. } if !flags.contains(RenameFlags::RENAME_EXCHANGE) => (true, true),
            _ => return Vec::new(),
        };
        let mut changes = Vec::new();
        if let Call::Rename { from, .. } = &action.call
            && let Ok(end) = self.find_end(action.thread, from)
            && end.last == Last::Name
            && let Ok(found) = self.look_up_end(&end)
        {
            changes.push(Change { node: found.node, below: true });
        }
        if self.act(action.thread, &action.call, Intent::Try).is_err() {
            return Vec::new();
        }
        let below = matches!(action.call, Call::Rename { .. });
        if let Some((node, true)) = self.looked {
            // What a rename replaces is there before and after.
            let changed = if self.tree.node(node).inode.is_some() { removes && !below } else { makes };
            if changed {
                changes.push(Change { node, below });
            }
        }
        changes
    }

    /// Whether the action that was just tried came upon one of these names.
    fn concerns(&self, other: &Action, changes: &[Change]) -> bool {
        let made = |node| makes_anyway(&other.call) && self.looked == Some((node, true));
        let touched = self.ledger.touches().iter().filter(|touch| touch.role != Role::Traverse);
        let resources = touched.map(|touch| self.ledger.resources()[touch.resource as usize]);
        resources.filter(|resource| matches!(resource.kind, ResourceKind::Path | ResourceKind::Absence)).any(
            |resource| {
                let node = resource.key as NodeId;
                // In a directory that is made, a name could be made.
                let last = self.looked == Some((node, true)) || makes_a_name(&other.call);
                changes.iter().any(|change| {
                    let same = node == change.node && (last || change.below || resource.kind == ResourceKind::Path);
                    (same || (change.below && self.is_name_below(node, change.node))) && !made(node)
                })
            },
        )
    }

    fn is_name_below(&self, mut low: NodeId, high: NodeId) -> bool {
        while low != TOP {
            low = self.tree.node(low).parent;
            if low == high {
                return true;
            }
        }
        false
    }
}

/// Calls that succeed only with a new name, whose directory must be there.
fn makes_a_name(call: &Call) -> bool {
    match call {
        Call::Open { flags, .. } => flags.contains(OpenFlags::O_CREAT),
        Call::Mkdir { .. }
        | Call::Mknod { .. }
        | Call::Bind { .. }
        | Call::Symlink { .. }
        | Call::Link { .. }
        | Call::Rename { .. } => true,
        _ => false,
    }
}

/// Calls that succeed whether something is at their last name or not.
fn makes_anyway(call: &Call) -> bool {
    match call {
        Call::Open { flags, .. } | Call::ShmOpen { flags, .. } => {
            flags.contains(OpenFlags::O_CREAT) && !flags.contains(OpenFlags::O_EXCL)
        }
        Call::Rename { .. } => true,
        _ => false,
    }
}

/// Whether the trace tells a result that the present names explain.
fn needs_it(other: &Action, answer: Answer<i64>) -> bool {
    match other.outcome {
        Outcome::Done(_) => answer.is_ok(),
        Outcome::Failed(errno) => answer == Err(errno) && errno != Errno::EBADF,
        Outcome::Unknown => false,
    }
}
