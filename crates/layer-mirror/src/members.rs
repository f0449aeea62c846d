//! The members of a running mirror: which is read, which are written, where the heads stand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

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
    /// Its number in the set; none for one that held something else, that joins or that was detached.
    pub(crate) number: Cell<Option<u16>>,
    state: Cell<State>,
    /// Where its last read or write ended: the estimate of its head.
    head: Cell<u64>,
    /// Whether an operator took it out of use: it is not looked for.
    pub(crate) withdrawn: Cell<bool>,
    /// Whether it has come to be a member, and has no number yet.
    pub(crate) joins: Cell<bool>,
    /// Why the last look did not bring it back.
    pub(crate) trouble: RefCell<Option<String>>,
}

impl Member {
    fn new(number: Option<u16>, state: State) -> Member {
        Member {
            number: Cell::new(number),
            state: Cell::new(state),
            head: Cell::new(0),
            withdrawn: Cell::new(false),
            joins: Cell::new(false),
            trouble: RefCell::default(),
        }
    }
}

/// All members, by lower device.
pub struct Members(RefCell<Vec<Rc<Member>>>);

impl Members {
    /// From numbers and states.
    pub fn new(members: impl IntoIterator<Item = (Option<u16>, State)>) -> Members {
        let members = members.into_iter().map(|(number, state)| Rc::new(Member::new(number, state)));
        Members(RefCell::new(members.collect()))
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.0.borrow().len()
    }

    /// Member at lower device `lower`.
    pub fn get(&self, lower: usize) -> Rc<Member> {
        self.0.borrow()[lower].clone()
    }

    /// A member comes behind the others. It is looked for.
    pub(crate) fn join(&self) {
        let member = Member::new(None, State::Out);
        member.joins.set(true);
        self.0.borrow_mut().push(Rc::new(member));
    }

    /// The member at a lower device has left.
    pub(crate) fn leave(&self, lower: usize) {
        self.0.borrow_mut().remove(lower);
    }

    /// The numbers that members have.
    pub(crate) fn numbers(&self) -> u16 {
        self.0.borrow().iter().filter_map(|member| member.number.get()).fold(0, |set, number| set | 1 << number)
    }

    /// Lower devices in these states.
    pub fn which(&self, is_meant: impl Fn(State) -> bool) -> Vec<usize> {
        (0..self.total()).filter(|lower| is_meant(self.state(*lower))).collect()
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
        self.get(lower).state.get()
    }

    /// Changes it.
    pub fn set_state(&self, lower: usize, state: State) {
        self.get(lower).state.set(state);
    }

    /// Of some lower devices, that whose head is nearest to `offset`; of equal ones the first.
    pub fn nearest(&self, lowers: &[usize], offset: u64) -> Option<usize> {
        lowers.iter().copied().min_by_key(|lower| self.get(*lower).head.get().abs_diff(offset))
    }

    /// A request that ends at `end` was sent there.
    pub fn moved(&self, lower: usize, end: u64) {
        self.get(lower).head.set(end);
    }
}
