//! The members of a running mirror: which is read, which are written, where the heads stand.

use std::cell::{Cell, RefCell};

/// What a member is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Reads and writes.
    InSync,
    /// Writes: it lacks what was written while it was out.
    Catching,
    /// Nothing.
    Out,
}

/// One member.
pub struct Member {
    /// Its number in the set; none for one that held something else.
    pub number: Option<u16>,
    state: Cell<State>,
    /// Where its last read or write ended: the estimate of its head.
    head: Cell<u64>,
    /// Whether an operator took it out of use: it is not looked for.
    pub(crate) withdrawn: Cell<bool>,
    /// Why the last look did not bring it back.
    pub(crate) trouble: RefCell<Option<String>>,
}

/// All members, by lower device.
pub struct Members(Vec<Member>);

impl Members {
    /// From numbers and states.
    pub fn new(members: impl IntoIterator<Item = (Option<u16>, State)>) -> Members {
        let member = |(number, state)| Member {
            number,
            state: Cell::new(state),
            head: Cell::new(0),
            withdrawn: Cell::new(false),
            trouble: RefCell::default(),
        };
        Members(members.into_iter().map(member).collect())
    }

    /// Member at lower device `lower`.
    pub fn get(&self, lower: usize) -> &Member {
        &self.0[lower]
    }

    /// Lower devices in these states.
    pub fn which(&self, is_meant: impl Fn(State) -> bool) -> Vec<usize> {
        (0..self.0.len()).filter(|lower| is_meant(self.state(*lower))).collect()
    }

    /// Lower devices that take writes.
    pub fn written(&self) -> Vec<usize> {
        self.which(|state| state != State::Out)
    }

    /// Lower devices that are out, and that no operator took out of use.
    pub(crate) fn sought(&self) -> Vec<usize> {
        let out = self.which(|state| state == State::Out).into_iter();
        out.filter(|lower| !self.get(*lower).withdrawn.get()).collect()
    }

    /// Whether there is one.
    pub(crate) fn is_one_sought(&self) -> bool {
        !self.sought().is_empty()
    }

    /// How many are in this state.
    pub fn count(&self, state: State) -> usize {
        self.which(|other| other == state).len()
    }

    /// The member that decides where members may differ: the first one in sync.
    pub fn source(&self) -> Option<usize> {
        self.which(|state| state == State::InSync).first().copied()
    }

    /// State of a member.
    pub fn state(&self, lower: usize) -> State {
        self.0[lower].state.get()
    }

    /// Changes it.
    pub fn set_state(&self, lower: usize, state: State) {
        self.0[lower].state.set(state);
    }

    /// Of some lower devices, that whose head is nearest to `offset`; of equal ones the first.
    pub fn nearest(&self, lowers: &[usize], offset: u64) -> Option<usize> {
        lowers.iter().copied().min_by_key(|lower| self.0[*lower].head.get().abs_diff(offset))
    }

    /// A request that ends at `end` was sent there.
    pub fn moved(&self, lower: usize, end: u64) {
        self.0[lower].head.set(end);
    }
}
