//! From touches to edges, one action at a time, in the order of the trace.

use crate::model::resource::{Resource, ResourceId, ResourceKind, Role, Touch};

use super::Rules;
use super::outline::{Instant, Looks};

/// Number of an action that does not exist.
const NO_ACTION: u32 = u32::MAX;

/// End of a chain.
const END: u32 = u32::MAX;

/// An action that must be complete before another one is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Number of the action that comes first.
    pub from: u32,
    /// The rules that ask for it.
    pub rules: Rules,
}

/// What is remembered of a resource.
#[derive(Debug, Clone, Copy)]
struct Cell {
    create: u32,
    delete: u32,
    /// Chain of the last uses, one link for each thread.
    uses: u32,
    /// Chain of those actions that no later one is known to follow.
    front: u32,
    /// The same of those that change it.
    changes: u32,
    /// Chain of the last looks, one link for each thread.
    looks: u32,
}

const EMPTY: Cell = Cell { create: NO_ACTION, delete: NO_ACTION, uses: END, front: END, changes: END, looks: END };

/// A thread's last use of a resource, and the one before.
#[derive(Debug, Clone, Copy)]
struct Use {
    thread: u32,
    last: u32,
    before: u32,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Front {
    action: u32,
    next: u32,
}

/// The rules of a kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KindRules {
    stage: Rules,
    sequential: Rules,
    name: Rules,
    /// What uses it comes before what ends it or moves it away, and after it what still uses it.
    end: Rules,
    shared: Rules,
    /// Actions that only look, for the shared rule.
    looks: Looks,
}

impl KindRules {
    fn of(kind: ResourceKind, chosen: Rules) -> KindRules {
        let none = Rules::empty();
        let (stage, sequential, name) = match kind {
            ResourceKind::File => (Rules::FILE_STAGE, Rules::FILE_SEQ, none),
            ResourceKind::Directory => (none, Rules::DIR_SEQ, none),
            ResourceKind::Path => (Rules::PATH_STAGE, Rules::PATH_SEQ, Rules::PATH_NAME),
            ResourceKind::Absence => (Rules::PATH_NEGATIVE, none, none),
            ResourceKind::Descriptor => (Rules::FD_STAGE, Rules::FD_SEQ, none),
            ResourceKind::Aio => (Rules::AIO_STAGE, Rules::AIO_SEQ, Rules::AIO_NAME),
            ResourceKind::Sync => (Rules::THREAD_SEQ, Rules::SYNC_SEQ, none),
            ResourceKind::Thread => (Rules::THREAD_STAGE, none, none),
            ResourceKind::Map => (Rules::FD_STAGE, none, none),
            ResourceKind::Wake => (Rules::WAKE_STAGE, none, none),
        };
        let end = match kind {
            ResourceKind::Directory => Rules::PATH_STAGE,
            ResourceKind::Sync => Rules::FD_STAGE,
            _ => none,
        };
        let (shared, looks) = match kind {
            ResourceKind::File => (Rules::FILE_RW, Looks::FILES),
            ResourceKind::Descriptor => (Rules::FD_RW, Looks::DESCRIPTORS),
            // Requests that a thread submitted are as little ordered among each other as calls that only look.
            ResourceKind::Sync => (Rules::THREAD_SEQ, Looks::empty()),
            _ => (none, Looks::empty()),
        };
        let (stage, sequential) = (stage & chosen, sequential & chosen);
        KindRules { stage, sequential, name: name & chosen, end: end & chosen, shared: shared & chosen, looks }
    }

    fn keeps_uses(&self) -> bool {
        !(self.stage | self.name | self.end).is_empty()
    }
}

/// Derives the edges of a rule set.
#[derive(Debug)]
pub struct Deriver<'a> {
    instants: &'a [Instant],
    resources: &'a [Resource],
    kinds: [KindRules; ResourceKind::ALL.len()],
    program: Rules,
    cells: Vec<Cell>,
    uses: Vec<Use>,
    fronts: Vec<Front>,
    /// Free links of `fronts`.
    free: u32,
    /// Chain of the whole program, for `program_seq`.
    program_front: u32,
    edges: Vec<Edge>,
}

impl<'a> Deriver<'a> {
    /// Derives what `rules` ask for. Actions are told by [`Deriver::action`], in order.
    pub fn new(rules: Rules, instants: &'a [Instant], resources: &'a [Resource]) -> Deriver<'a> {
        Deriver {
            instants,
            resources,
            kinds: ResourceKind::ALL.map(|kind| KindRules::of(kind, rules)),
            program: rules & Rules::PROGRAM_SEQ,
            cells: vec![EMPTY; resources.len()],
            uses: Vec::new(),
            fronts: Vec::new(),
            free: END,
            program_front: END,
            edges: Vec::new(),
        }
    }

    /// The edges to action number `id`, which touches `touches`: ascending, each action once.
    pub fn action(&mut self, id: u32, touches: &[Touch]) -> &[Edge] {
        self.edges.clear();
        // What an action ends comes before what it begins: its edges see the state that it met.
        for touch in touches {
            self.order(id, *touch);
        }
        for touch in touches {
            self.note(id, *touch);
        }
        if !self.program.is_empty() {
            self.program_front = self.follow(id, self.program_front, self.program);
        }
        self.edges.sort_unstable();
        self.edges.dedup_by(|later, kept| {
            let same = later.from == kept.from;
            if same {
                kept.rules |= later.rules;
            }
            same
        });
        &self.edges
    }

    fn rules_of(&self, resource: ResourceId) -> KindRules {
        self.kinds[self.resources[resource as usize].kind as usize]
    }

    /// The edges that one touch asks for.
    fn order(&mut self, id: u32, Touch { resource, role }: Touch) {
        let rules = self.rules_of(resource);
        let cell = self.cells[resource as usize];
        if !rules.stage.is_empty() && role != Role::Create {
            self.need(cell.create, id, rules.stage);
            if role == Role::Delete {
                self.follow_uses(cell.uses, id, rules.stage);
            }
        }
        if !rules.end.is_empty() {
            match role {
                Role::Delete => self.follow_uses(cell.uses, id, rules.end),
                _ => self.need(cell.delete, id, rules.end),
            }
        }
        let previous = self.resources[resource as usize].previous;
        if let Some(previous) = previous.filter(|_| role == Role::Create && !rules.name.is_empty()) {
            let before = self.cells[previous as usize];
            match before.delete {
                NO_ACTION => self.follow_uses(before.uses, id, rules.name),
                delete => self.need(delete, id, rules.name),
            }
        }
        if !rules.sequential.is_empty() && role != Role::Traverse {
            self.cells[resource as usize].front = self.follow(id, cell.front, rules.sequential);
        }
        if !rules.shared.is_empty() && role != Role::Traverse {
            let looks = role == Role::Use && self.instants[id as usize].looks.contains(rules.looks);
            self.share(id, resource, looks, rules.shared);
        }
    }

    /// Readers and writers: an action that changes comes after the changes and looks before, one that looks after the
    /// changes.
    fn share(&mut self, id: u32, resource: ResourceId, looks: bool, rules: Rules) {
        let Cell { changes, looks: lookers, .. } = self.cells[resource as usize];
        let newest = self.newest_enter(changes, &self.instants[id as usize]);
        let changes = self.follow_only(id, changes, newest, rules);
        if looks {
            self.cells[resource as usize].changes = changes;
            self.cells[resource as usize].looks = self.used(id, lookers);
            return;
        }
        self.follow_looks(id, lookers, newest, rules);
        self.cells[resource as usize].changes = self.link(id, changes);
    }

    /// Edges from every thread's last look that returned before `id` was entered, but for those that came before the
    /// newest change that did so: that change implies them.
    fn follow_looks(&mut self, id: u32, mut at: u32, newest: Option<(u32, u64)>, rules: Rules) {
        let then = self.instants[id as usize];
        while at != END {
            let Use { last, before, next, .. } = self.uses[at as usize];
            at = next;
            let looks = [last, before].into_iter().filter(|look| *look != NO_ACTION);
            let mut apart =
                looks.map(|look| (look, self.instants[look as usize])).filter(|(_, one)| one.is_before(&then));
            let Some((look, first)) = apart.next() else { continue };
            let implied = newest.is_some_and(|(who, enter)| look < who && first.leave <= enter);
            if first.thread != then.thread && !implied {
                self.edges.push(Edge { from: look, rules });
            }
        }
    }

    /// Remembers one touch for later actions.
    fn note(&mut self, id: u32, Touch { resource, role }: Touch) {
        let keeps_uses = self.rules_of(resource).keeps_uses();
        let cell = &mut self.cells[resource as usize];
        match role {
            Role::Traverse => return,
            Role::Create => cell.create = id,
            Role::Delete => cell.delete = id,
            Role::Use => (),
        }
        if !keeps_uses {
            return;
        }
        let chain = cell.uses;
        self.cells[resource as usize].uses = self.used(id, chain);
    }

    /// A chain of last uses after one more use.
    fn used(&mut self, id: u32, chain: u32) -> u32 {
        let thread = self.instants[id as usize].thread;
        let mut at = chain;
        while at != END {
            let known = &mut self.uses[at as usize];
            if known.thread == thread {
                (known.before, known.last) = (known.last, id);
                return chain;
            }
            at = known.next;
        }
        self.uses.push(Use { thread, last: id, before: NO_ACTION, next: chain });
        (self.uses.len() - 1) as u32
    }

    /// An edge from an action on which the result of `id` depends, though they may overlap.
    fn need(&mut self, from: u32, id: u32, rules: Rules) {
        if from == NO_ACTION {
            return;
        }
        let (first, then) = (self.instants[from as usize], self.instants[id as usize]);
        if first.thread != then.thread && (first.is_before(&then) || !first.waits) {
            self.edges.push(Edge { from, rules });
        }
    }

    /// Edges from every thread's last use.
    fn follow_uses(&mut self, mut at: u32, id: u32, rules: Rules) {
        while at != END {
            let Use { last, before, next, .. } = self.uses[at as usize];
            let (first, then) = (self.instants[last as usize], self.instants[id as usize]);
            let overlaps = first.waits && !first.is_before(&then);
            self.need(if overlaps { before } else { last }, id, rules);
            at = next;
        }
    }

    /// Edges from all earlier actions of a series that returned before `id` was entered, without those that others of
    /// them imply. `id` joins the chain; what is implied leaves it for good, since a later action is entered later.
    fn follow(&mut self, id: u32, chain: u32, rules: Rules) -> u32 {
        let newest = self.newest_enter(chain, &self.instants[id as usize]);
        let kept = self.follow_only(id, chain, newest, rules);
        self.link(id, kept)
    }

    /// The same without joining; `newest` is the chain's newest action before `id`. Returns what is left of the chain.
    fn follow_only(&mut self, id: u32, chain: u32, newest: Option<(u32, u64)>, rules: Rules) -> u32 {
        let then = self.instants[id as usize];
        let mut kept = END;
        let mut at = chain;
        while at != END {
            let Front { action, next } = self.fronts[at as usize];
            let first = self.instants[action as usize];
            // One of them is newest itself: an action is not before its own beginning unless it took no time at all.
            let implied = newest.is_some_and(|(who, enter)| action != who && first.leave <= enter);
            if implied {
                self.fronts[at as usize].next = self.free;
                self.free = at;
            } else {
                if first.is_before(&then) && first.thread != then.thread {
                    self.edges.push(Edge { from: action, rules });
                }
                self.fronts[at as usize].next = kept;
                kept = at;
            }
            at = next;
        }
        kept
    }

    /// Of the actions in a chain that returned before `then` was entered, the one that was entered last.
    fn newest_enter(&self, mut at: u32, then: &Instant) -> Option<(u32, u64)> {
        let mut newest: Option<(u32, u64)> = None;
        while at != END {
            let Front { action, next } = self.fronts[at as usize];
            let first = self.instants[action as usize];
            let later = newest.is_none_or(|(who, enter)| (first.enter, action) > (enter, who));
            if first.is_before(then) && later {
                newest = Some((action, first.enter));
            }
            at = next;
        }
        newest
    }

    fn link(&mut self, action: u32, next: u32) -> u32 {
        let link = Front { action, next };
        if self.free == END {
            self.fronts.push(link);
            return (self.fronts.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.fronts[at as usize].next;
        self.fronts[at as usize] = link;
        at
    }
}
