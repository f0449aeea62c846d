//! Exports that are resized while they are served: front ends that keep a size get the new one.

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::Device;
use esker_rt::Level;
use esker_rt::sync::{Either, join_all, race};
use serde_json::{Value, json};

use crate::dispatch::export_of;
use crate::refusal::Refusal;
use crate::server::Shared;

/// Resizes an export. What is cut off is first written down.
pub(crate) async fn resize(shared: &Rc<Shared>, name: &str, bytes: u64, patience: Nanos) -> Result<Value, Refusal> {
    let export = export_of(shared, name)?;
    let before = export.size();
    if let Some(cut) =
        before.checked_sub(bytes).and_then(|len| ByteRange::new(bytes, len)).filter(|cut| !cut.is_empty())
    {
        join_all(shared.fronts().iter().map(|front| front.before_change(name, &[cut]))).await;
    }
    export.set_size(bytes, patience).await.map_err(|error| Refusal::from(error).at(name))?;
    notify_fronts(shared).await;
    let text = format_args!("export {name:?} has {bytes} bytes now, and had {before}");
    shared.rt.log_event(Level::Info, "resized", &[("export", &name), ("bytes", &bytes)], text);
    Ok(json!({ "bytes": bytes, "before_bytes": before }))
}

/// Tells fronts of sizes that are not those of their offers.
pub(crate) async fn notify_fronts(shared: &Rc<Shared>) {
    for front in shared.fronts() {
        for offer in front.offers() {
            let is_new = shared.stack.export(&offer.export).is_some_and(|export| export.size() != offer.size);
            if is_new {
                front.resized(&offer.export).await;
            }
        }
    }
}

/// Does so whenever sizes change, until the server is asked to stop.
pub(crate) async fn follow(shared: Rc<Shared>) {
    loop {
        let since = shared.stack.size_changes();
        notify_fronts(&shared).await;
        if let Either::Right(()) = race(shared.stack.sizes_changed(since), shared.stopping()).await {
            return;
        }
    }
}
