//! Takes connections: those of the control socket and of programs that ask for pages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::Notify;
use esker_rt::{Level, Rt};

/// A connection, and whether an answer of it is on its way.
type Open = (Stream, Rc<Cell<bool>>);

/// The connections that have a place.
#[derive(Default)]
struct Places {
    /// By age.
    taken: RefCell<BTreeMap<u64, Open>>,
    left: Notify,
}

impl Places {
    /// Waits for a free place, of `most`. The oldest connection that asks nothing gives way: it has lost its place at
    /// once, and ends soon.
    async fn free(&self, most: usize) {
        if self.taken.borrow().len() >= most {
            let mut taken = self.taken.borrow_mut();
            let idle = taken.iter().find(|(_, (_, works))| !works.get()).map(|(number, _)| *number);
            if let Some((idle, _)) = idle.and_then(|number| taken.remove(&number)) {
                idle.shutdown();
            }
        }
        self.left.wait_until(|| self.taken.borrow().len() < most).await;
    }

    fn take(&self, number: u64, stream: &Stream) -> Rc<Cell<bool>> {
        let works = Rc::new(Cell::new(false));
        self.taken.borrow_mut().insert(number, (stream.clone(), works.clone()));
        works
    }

    fn leave(&self, number: u64) {
        self.taken.borrow_mut().remove(&number);
        self.left.notify_all();
    }
}

/// Accepts connections without end, `most` at a time, and runs `converse` with each, which says in its cell while it
/// works on an answer, and ends the stream. When one more comes, the oldest that asks nothing ends; if all are at work,
/// it waits. `door` names them in the log.
pub(crate) async fn serve(
    rt: &Rt,
    listener: &Listener,
    door: &'static str,
    most: usize,
    converse: impl AsyncFn(&Stream, &Cell<bool>) + 'static,
) {
    let (places, converse) = (Rc::new(Places::default()), Rc::new(converse));
    for number in 0.. {
        match listener.accept().await {
            Ok(stream) => {
                places.free(most).await;
                let works = places.take(number, &stream);
                let (places, converse) = (places.clone(), converse.clone());
                let task = async move {
                    converse(&stream, &works).await;
                    places.leave(number);
                };
                rt.spawn(door, task).detach();
            }
            Err(error) => {
                let text = format_args!("{door}: cannot accept: {error}; trying again in 100 ms");
                rt.log_event(Level::Warn, "accept_failed", &[("error", &error)], text);
                rt.sleep(Nanos::millis(100)).await;
            }
        }
    }
}
