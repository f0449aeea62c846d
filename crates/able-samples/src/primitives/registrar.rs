//! The registrar: where in a running stack a new extension should stand, what each place would bring, and how to put it
//! there. The theory decides (`esker-compose`); this is how it sees a real stack.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::Kind;
use esker_compose::Declaration;
use esker_compose::goals::Score;
use esker_compose::text::TextErrors;
use esker_stack::theory::built;
use esker_stack::{DeviceSpec, LiveError, Spec, Stack};

/// Why a question about a stack has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RegistrarError {
    /// The stack with the extension in it would be no sound text.
    #[error(transparent)]
    Stack(#[from] esker_stack::text::TextErrors),
    /// The declarations do not fit the stack.
    #[error(transparent)]
    Declaration(#[from] TextErrors),
    /// The change was not made.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Constraints forbid every place.
    #[error("the constraints forbid every place for \"{0}\"; loosen them")]
    Forbidden(String),
}

/// What one place would bring.
#[derive(Clone, PartialEq, Debug)]
pub struct Position {
    /// The device or layer directly below.
    pub above: String,
    /// Names of all extensions in the order that the stack would have, top first.
    pub order: Vec<String>,
    /// How good that would be; none if a constraint forbids it.
    pub score: Option<Score>,
    /// Goals that would be met.
    pub goals: Vec<String>,
    /// Each volume with the extension that would be dominant on it.
    pub dominant: Vec<(String, Option<String>)>,
    /// Extensions that would see no request.
    pub starved: Vec<String>,
}

/// Puts extensions into one stack.
pub struct Registrar {
    stack: Rc<Stack>,
    kinds: &'static [&'static Kind],
    /// Goals, priorities and constraints, as `docs/guide/compose.md` describes them.
    declarations: String,
}

impl Registrar {
    /// For `stack`, which was built from `kinds`. `declarations` says what extensions are good for and what is wanted,
    /// in the form of `docs/guide/compose.md`, without the stack's own text.
    pub fn new(stack: &Rc<Stack>, kinds: &'static [&'static Kind], declarations: &str) -> Registrar {
        Registrar { stack: stack.clone(), kinds, declarations: declarations.to_string() }
    }

    /// What every place for `new` would bring, changing nothing (`query_register_extension`). Places at which the stack
    /// would be no sound text are left out.
    ///
    /// # Errors
    /// [`RegistrarError`]: a new extension that fits nowhere, or declarations that do not fit.
    pub fn query(&self, new: &DeviceSpec) -> Result<Vec<Position>, RegistrarError> {
        let spec = self.stack.spec();
        let lowers: Vec<String> = spec.devices.iter().map(|device| device.name.clone()).collect();
        lowers.iter().map(|above| self.position(spec.clone().with_layer(new.clone(), above)?, above)).collect()
    }

    fn position(&self, spec: Spec, above: &str) -> Result<Position, RegistrarError> {
        let plan = spec.check(self.kinds)?;
        let declared = Declaration::parse("the stack", &self.declarations, &built(&spec, &plan, self.kinds))?;
        let analysis = declared.analysis(&declared.order);
        let name = |id| declared.setting.extension(id).name().to_string();
        let volume = |view: &esker_compose::explain::VolumeView| {
            (declared.setting.volume(view.volume).name.clone(), view.handlers.dominant().map(name))
        };
        Ok(Position {
            above: above.to_string(),
            order: declared.order.iter().map(|id| name(*id)).collect(),
            score: declared.problem().judge(&declared.order),
            goals: analysis.goals.iter().filter(|goal| goal.is_met()).map(|goal| goal.goal.clone()).collect(),
            dominant: analysis.volumes.iter().map(volume).collect(),
            starved: analysis.run.starved().iter().map(name).collect(),
        })
    }

    /// Puts `new` where it serves the goals best: the first of equally good places in the order of the text.
    ///
    /// # Errors
    /// [`RegistrarError`]; the stack is then as before.
    pub async fn register(&self, new: DeviceSpec, patience: Nanos) -> Result<Position, RegistrarError> {
        let mut best: Option<Position> = None;
        for position in self.query(&new)?.into_iter().filter(|position| position.score.is_some()) {
            if best.as_ref().is_none_or(|best| position.score > best.score) {
                best = Some(position);
            }
        }
        let best = best.ok_or_else(|| RegistrarError::Forbidden(new.name.clone()))?;
        self.stack.insert(new, &best.above, patience).await?;
        Ok(best)
    }

    /// Puts `new` directly above `above`, and says what that brings.
    ///
    /// # Errors
    /// [`RegistrarError`]; the stack is then as before.
    pub async fn register_at(&self, new: DeviceSpec, above: &str, patience: Nanos) -> Result<Position, RegistrarError> {
        let position = self.position(self.stack.spec().with_layer(new.clone(), above)?, above)?;
        self.stack.insert(new, above, patience).await?;
        Ok(position)
    }

    /// Takes an extension out: waits for its requests, has it store what it holds back, and closes it.
    ///
    /// # Errors
    /// [`RegistrarError::Live`]; the stack is then as before.
    pub async fn unregister(&self, name: &str, patience: Nanos) -> Result<(), RegistrarError> {
        Ok(self.stack.remove(name, patience).await?)
    }
}

#[cfg(test)]
mod tests;
