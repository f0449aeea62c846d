//! An analysis as text, as JSON and as a drawing.

pub mod json;
pub mod svg;
pub mod text;

use crate::exact::Handlers;
use crate::grid::Claim;
use crate::setting::Setting;

/// Last handlers in words.
pub fn handlers_text(setting: &Setting, handlers: Handlers) -> String {
    let names = handlers.extensions.iter().map(|id| setting.extension(id).name());
    let names: Vec<&str> = names.chain(handlers.unhandled.then_some("nobody")).collect();
    match names[..] {
        [] => "-".to_string(),
        [only] => only.to_string(),
        _ => format!("split: {}", names.join(", ")),
    }
}

/// A claim of the grid in words.
pub fn claim_text(setting: &Setting, claim: Claim) -> String {
    match claim {
        Claim::Dominant(id) => setting.extension(id).name().to_string(),
        Claim::Nobody => "nobody".to_string(),
        Claim::Mixed => "mixed".to_string(),
        Claim::Silent => "silent".to_string(),
    }
}
