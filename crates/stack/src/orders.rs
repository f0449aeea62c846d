//! Words of an operator to one layer of a running stack.

use esker_block::KindError;

use crate::stack::Stack;

/// Why a layer was not asked, or did not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LayerOrderError {
    /// No layer of that name.
    #[error("there is no layer \"{0}\" in this stack; `esker stack dump` shows its names")]
    Unknown(String),
    /// It could not be opened.
    #[error("{0}")]
    Unusable(String),
    /// The stack has ended.
    #[error("the stack is closing")]
    Ended,
    /// Its own words.
    #[error("\"{0}\": {1}")]
    Refused(String, KindError),
}

impl Stack {
    /// Asks the layer `name` for what `words` say, in words of its kind, and waits for the answer, which is JSON. As
    /// long as a change of the stack or a freeze lasts, it waits for that first.
    ///
    /// # Errors
    /// [`LayerOrderError`].
    pub async fn order(&self, name: &str, words: &[String]) -> Result<String, LayerOrderError> {
        let _inside = Inside::enter(self).await.ok_or(LayerOrderError::Ended)?;
        let unknown = || LayerOrderError::Unknown(name.to_string());
        let instance = self.parts.borrow().instances.get(name).cloned().ok_or_else(unknown)?;
        if let Some(unusable) = instance.unusable.borrow().clone() {
            return Err(LayerOrderError::Unusable(unusable.why));
        }
        let below = self.below(&instance).ok_or_else(unknown)?;
        let none = || LayerOrderError::Refused(name.to_string(), KindError::Unfit("this kind takes no orders".into()));
        let answer = instance.ext.orders().ok_or_else(none)?.order(below, words).await;
        self.note_sizes();
        answer.map_err(|why| LayerOrderError::Refused(name.to_string(), why))
    }
}

/// Keeps changes of the stack away until it is dropped.
pub(crate) struct Inside<'a>(&'a Stack);

impl<'a> Inside<'a> {
    pub(crate) async fn enter(stack: &'a Stack) -> Option<Inside<'a>> {
        // Made only for work that was let in: the end of one counts it out.
        stack.shared.admission.enter_job().await.then(|| Inside(stack))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.shared.admission.leave_job();
    }
}
