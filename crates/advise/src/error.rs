//! Why there is no advice.

use esker_predict::PredictError;
use esker_report::PlotError;
use esker_stack::BuildError;
use esker_stack::text::TextErrors;

use crate::catalogue::CatalogueError;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// Traces that cannot be played, or a proposal that cannot.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// A catalogue that is none.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A model that cannot be built.
    #[error("a device of the catalogue cannot be measured: {0}")]
    Device(#[from] BuildError),
    /// Traces without a read or write.
    #[error(
        "the traces hold no read and no write, so there is nothing to advise; look at them with `esker blktrace stat`"
    )]
    Idle,
    /// Traces without times.
    #[error("the requests have no times, so nothing says how fast a device must be; give --rate N")]
    Untimed,
    /// A stack of ours that does not read back.
    #[error(transparent)]
    Text(#[from] TextErrors),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
}
