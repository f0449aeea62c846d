//! Takes connections: those of the control socket and of whoever asks for pages.

use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::Credits;
use esker_rt::{Level, Rt};

/// Accepts connections without end, `most` at a time (more wait to be accepted), and runs `converse` with each. `door` names
/// them in the log.
pub(crate) async fn serve(
    rt: &Rt,
    listener: &Listener,
    door: &'static str,
    most: u64,
    converse: impl AsyncFn(&Stream) + 'static,
) {
    let (slots, converse) = (Rc::new(Credits::new(most)), Rc::new(converse));
    loop {
        slots.take(1).await;
        match listener.accept().await {
            Ok(stream) => {
                let (slots, converse) = (slots.clone(), converse.clone());
                let task = async move {
                    converse(&stream).await;
                    stream.shutdown();
                    slots.give(1);
                };
                rt.spawn(door, task).detach();
            }
            Err(error) => {
                slots.give(1);
                let text = format_args!("{door}: cannot accept: {error}; trying again in 100 ms");
                rt.tell(Level::Warn, "accept_failed", &[("error", &error)], text);
                rt.sleep(Nanos::millis(100)).await;
            }
        }
    }
}
