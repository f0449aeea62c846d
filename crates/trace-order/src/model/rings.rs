//! Threads that submit requests to rings of an io_uring. The requests are actions of threads that a recording makes up
//! for them, by this name, as children of the thread that submits.
//!
//! A request comes behind what its thread did before, and an action of the thread behind the requests that had ended
//! when it began. Among each other, requests have no order but that of the threads that were made up. A call that only
//! submits and waits is an action of its thread in this sense only if no request was under way when it began: then the
//! thread had waited for all of them. Else it may have waited for any of them.

use std::collections::BTreeMap;

use esker_trace_calls::action::{Action, ThreadId};
use esker_trace_calls::call::Call;
use esker_trace_calls::trace::Thread;

use super::resource::{Ledger, Resource, ResourceId, ResourceKind, Role};

/// The name of such threads.
const LANE: &[u8] = b"io_uring";

/// Of each thread that submits.
#[derive(Debug)]
struct Submitter {
    resource: ResourceId,
    /// When the last request so far ended.
    busy_until: u64,
}

/// Who submits requests, and for whom threads were made up.
#[derive(Debug, Default)]
pub(super) struct Submitters {
    submitters: BTreeMap<ThreadId, Submitter>,
    lanes: BTreeMap<ThreadId, ThreadId>,
}

impl Submitters {
    pub(super) fn of(threads: &[Thread], ledger: &mut Ledger) -> Submitters {
        let mut found = Submitters::default();
        for (number, thread) in (0..).zip(threads) {
            let Some(parent) = thread.parent.filter(|_| thread.name.as_bytes() == LANE) else { continue };
            found.lanes.insert(ThreadId(number), parent);
            found.submitters.entry(parent).or_insert_with(|| {
                let (kind, key) = (ResourceKind::Sync, u64::from(parent.0));
                let resource = ledger.add(Resource { kind, key, generation: 1, previous: None });
                Submitter { resource, busy_until: 0 }
            });
        }
        found
    }

    /// Notes what an action has to do with requests.
    pub(super) fn touch(&mut self, action: &Action, ledger: &mut Ledger) {
        let own = self.lanes.get(&action.thread);
        let Some(submitter) = self.submitters.get_mut(own.unwrap_or(&action.thread)) else { return };
        if own.is_some() {
            submitter.busy_until = submitter.busy_until.max(action.leave.0);
            return ledger.touch(submitter.resource, Role::Use);
        }
        let in_order = match action.call {
            Call::UringEnter { .. } => action.enter.0 >= submitter.busy_until,
            // The first makes a thread for requests; a fault may come at any time.
            Call::Clone { .. } | Call::PageFault { .. } | Call::PageWrite { .. } => false,
            _ => true,
        };
        if in_order {
            ledger.touch(submitter.resource, Role::Create);
        }
    }
}
