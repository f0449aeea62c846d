//! How extensions open, work by themselves and settle: their place in a running stack, beside the requests of clients.

use std::rc::{Rc, Weak};

use esker_block::step::LocalFuture;
use esker_block::{
    Below, Bio, Ctx, Done, Enter, Extension, Flow, KindError, LayerHandle, OpenContext, Step, WorkPermit,
};
use esker_rt::Level;

use crate::build::arrange;
use crate::health::Unusable;
use crate::snapshot::{Instance, Shared};
use crate::stack::Stack;

/// The place of one layer. Holds neither the stack nor the layer, which holds this.
struct LayerPosition {
    shared: Rc<Shared>,
    stack: Weak<Stack>,
    instance: Weak<Instance>,
}

impl Enter for LayerPosition {
    fn enter(self: Rc<Self>) -> LocalFuture<Option<WorkPermit>> {
        Box::pin(async move {
            if !self.shared.admission.enter_job().await {
                return None;
            }
            // From here on, dropping the job is what leaves.
            let shared = self.shared.clone();
            let leave = move || shared.admission.leave_job();
            match self.below() {
                Some(below) => Some(WorkPermit::new(below, leave)),
                None => {
                    leave();
                    None
                }
            }
        })
    }
}

impl LayerPosition {
    fn below(&self) -> Option<Below> {
        self.stack.upgrade()?.below(&self.instance.upgrade()?)
    }
}

/// Stands for a layer that could not be opened.
pub(crate) struct Refusing(pub String);

impl Extension for Refusing {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, _: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let error = esker_block::BioError::Latched(self.0.as_str().into());
        Step::Now(Flow::Done(Done { ..bio.take().fail(error) }))
    }
}

impl Stack {
    /// What is below `instance` in the present arrangement, if it stands there.
    pub(crate) fn below(&self, instance: &Rc<Instance>) -> Option<Below> {
        let snapshot = self.snapshot.borrow();
        let slot = snapshot.slot_of(instance)?;
        Some(esker_block::Route::below(&*snapshot, slot))
    }

    /// Opens the layers of these names, lowest first. No request is let in until all have answered: layers recover from
    /// what those below have recovered.
    pub(crate) fn open_all(self: &Rc<Self>, names: Vec<String>) {
        let mut names = names.into_iter();
        while let Some(name) = names.next() {
            match self.refit_and_open(&name) {
                Step::Now(result) => self.note_opened(&name, result),
                step @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                    self.shared.admission.begin_opening();
                    let stack = self.clone();
                    let rest = names.collect::<Vec<_>>();
                    drop(self.rt().spawn("open", async move {
                        stack.note_opened(&name, step.await);
                        for name in rest {
                            let result = stack.refit_and_open(&name).await;
                            stack.note_opened(&name, result);
                        }
                        stack.note_sizes();
                        stack.shared.admission.end_opening();
                    }));
                    return;
                }
            }
        }
        self.note_sizes();
    }

    /// Opens one layer over what is below it now that all of that is open.
    fn refit_and_open(&self, name: &str) -> Step<Result<(), KindError>> {
        match self.refit(name) {
            Ok(()) => self.open_part(name),
            Err(error) => Step::Now(Err(KindError::Unfit(error.to_string()))),
        }
    }

    /// Opens one layer in the present arrangement.
    pub(crate) fn open_part(&self, name: &str) -> Step<Result<(), KindError>> {
        let instance = self.parts.borrow().instances.get(name).cloned();
        let Some((instance, below)) = instance.and_then(|i| self.below(&i).map(|below| (i, below))) else {
            return Step::Now(Ok(()));
        };
        let place =
            LayerPosition { shared: self.shared.clone(), stack: self.me.clone(), instance: Rc::downgrade(&instance) };
        let opening = OpenContext {
            rt: self.rt().clone(),
            pool: self.pool().clone(),
            below,
            handle: LayerHandle::new(Rc::new(place)),
        };
        instance.ext.open(opening)
    }

    /// The layers above are opened over the size that it has now. A layer that could not be opened refuses everything
    /// and says why; the rest of the stack goes on.
    fn note_opened(&self, name: &str, result: Result<(), KindError>) {
        let Some(instance) = self.parts.borrow().instances.get(name).cloned() else { return };
        let Err(why) = result else { return self.note_sizes_of(&instance) };
        let is_damage = matches!(why, KindError::Damaged(_));
        // Kinds begin their texts with the layer's name.
        let why = why.to_string();
        let why = why.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&why);
        let what = format!("{name} cannot be used: {why}.");
        self.rt().log(Level::Error, format_args!("{what}"));
        *instance.unusable.borrow_mut() = Some(Unusable { why: what, is_damage });
        let snapshot = arrange(&self.shared, &self.parts.borrow(), &self.spec.borrow(), self.measured());
        self.adopt(snapshot.expect("this arrangement stood before"));
    }

    /// Brings home what the layers of these names hold back, in this order. The stack is drained.
    ///
    /// # Errors
    /// The first that cannot, and why.
    pub(crate) async fn quiesce_layers(&self, names: &[String]) -> Result<(), String> {
        for name in names {
            let instance = self.parts.borrow().instances.get(name).cloned();
            let Some((instance, below)) = instance.and_then(|i| self.below(&i).map(|below| (i, below))) else {
                continue;
            };
            if instance.unusable.borrow().is_none() {
                instance
                    .ext
                    .quiesce(below)
                    .await
                    .map_err(|e| format!("{name} holds back what it cannot store: {e}"))?;
            }
        }
        Ok(())
    }

    /// Waits until every layer has been opened.
    pub async fn opened(&self) {
        self.shared.admission.opened().await;
    }
}
