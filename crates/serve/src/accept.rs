//! Takes connections: those of the control socket and of whoever asks for pages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::Credits;
use esker_rt::{Level, Rt};

/// A connection, and whether an answer of it is on its way.
type Open = (Stream, Rc<Cell<bool>>);

/// Accepts connections without end, `most` at a time, and runs `converse` with each, which says in its cell while it works on
/// an answer. When one more comes, the oldest that asks nothing ends; if all are at work, it waits. `door` names them in the log.
pub(crate) async fn serve(
    rt: &Rt,
    listener: &Listener,
    door: &'static str,
    most: u64,
    converse: impl AsyncFn(&Stream, &Cell<bool>) + 'static,
) {
    let (slots, converse) = (Rc::new(Credits::new(most)), Rc::new(converse));
    let open: Rc<RefCell<BTreeMap<u64, Open>>> = Rc::default();
    for number in 0.. {
        match listener.accept().await {
            Ok(stream) => {
                if open.borrow().len() as u64 >= most {
                    let idle = open.borrow().values().find(|(_, works)| !works.get()).cloned();
                    if let Some((idle, _)) = idle {
                        idle.shutdown();
                    }
                }
                slots.take(1).await;
                let works = Rc::new(Cell::new(false));
                open.borrow_mut().insert(number, (stream.clone(), works.clone()));
                let (slots, converse, open) = (slots.clone(), converse.clone(), open.clone());
                let task = async move {
                    converse(&stream, &works).await;
                    stream.shutdown();
                    open.borrow_mut().remove(&number);
                    slots.give(1);
                };
                rt.spawn(door, task).detach();
            }
            Err(error) => {
                let text = format_args!("{door}: cannot accept: {error}; trying again in 100 ms");
                rt.tell(Level::Warn, "accept_failed", &[("error", &error)], text);
                rt.sleep(Nanos::millis(100)).await;
            }
        }
    }
}
