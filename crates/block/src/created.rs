//! What a start has created outside: undone again, last first, unless the start succeeds.

use std::cell::RefCell;

/// Files and the like that kinds create while a stack is built. Dropped without [`Created::keep`], it takes them away
/// in reverse order, so that a failed start leaves nothing and the next one is not stopped by what the last one left.
#[derive(Default)]
pub struct Created(RefCell<Vec<Box<dyn FnOnce()>>>);

impl Created {
    /// Notes that something was created; `undo` takes it away.
    pub fn note(&self, undo: impl FnOnce() + 'static) {
        self.0.borrow_mut().push(Box::new(undo));
    }

    /// What was created so far stays.
    pub fn keep(&self) {
        self.0.take();
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        self.0.take().into_iter().rev().for_each(|undo| undo());
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_is_not_kept_is_taken_away_last_first() {
        let gone = Rc::new(RefCell::new(Vec::new()));
        let note = |created: &Created, what: u8| {
            let gone = gone.clone();
            created.note(move || gone.borrow_mut().push(what));
        };
        let created = Created::default();
        note(&created, 1);
        created.keep();
        note(&created, 2);
        note(&created, 3);
        drop(created);
        assert_eq!(*gone.borrow(), [3, 2]);
    }
}
