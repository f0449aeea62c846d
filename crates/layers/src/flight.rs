//! Many requests on behalf of one: started in order, bounded in number, answered in order.

use std::collections::VecDeque;

use esker_block::Step;
use esker_rt::{JoinHandle, Rt};

enum Part<T> {
    Here(T),
    Coming(JoinHandle<T>),
}

/// Takes steps from `steps` and gives their results to `each`, in order, with at most `width` steps under way. Starts no
/// more of them once `each` says `false`, but waits for all that were started.
///
/// A step that waits becomes a task of its own, so that one wake-up costs one poll however many parts there are.
pub async fn windowed<T: 'static>(
    rt: &Rt,
    width: usize,
    mut steps: impl Iterator<Item = Step<T>>,
    mut each: impl FnMut(T) -> bool,
) {
    let mut window = VecDeque::new();
    let mut go_on = true;
    loop {
        while go_on && window.len() < width {
            match steps.next() {
                Some(Step::Now(value)) => window.push_back(Part::Here(value)),
                Some(Step::Later(future)) => window.push_back(Part::Coming(rt.spawn("part", future))),
                None => break,
            }
        }
        let value = match window.pop_front() {
            Some(Part::Here(value)) => value,
            Some(Part::Coming(task)) => task.await,
            None => return,
        };
        go_on &= each(value);
    }
}
