//! What can go wrong.

use std::io;

use esker_block::BioError;
use esker_predict::PredictError;
use esker_rt::real::StartError;
use esker_serve::{ServeError, StopError};
use esker_stack::text::TextErrors;
use esker_stack::{BuildError, LayerOrderError};
use esker_trace_block::TraceError;

/// Why a call failed. The text says what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stack text has mistakes: a line for each.
    #[error("{0}")]
    Text(String),
    /// The stack cannot be built: a file, a size, a medium, the kernel.
    #[error("{0}")]
    Build(String),
    /// There is no export of this name.
    #[error("the stack has no export \"{name}\"; it has {}", list(.exports))]
    NoExport {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        exports: Vec<String>,
    },
    /// An export, or a layer below it, could not be opened, or stopped after a failed write.
    #[error("{0}")]
    Unusable(String),
    /// The request is not within the export, or no multiple of its blocks.
    #[error("{0}")]
    Invalid(String),
    /// No space is left below.
    #[error("{0}")]
    NoSpace(String),
    /// The export takes no changes.
    #[error("{0}")]
    ReadOnly(String),
    /// The medium failed, or holds something else than what was written.
    #[error("{0}")]
    Device(String),
    /// The stack cannot be served, or did not stop as it should.
    #[error("{0}")]
    Serve(String),
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(String),
    /// The prediction cannot be made: a trace, a candidate.
    #[error("{0}")]
    Predict(String),
    /// A layer refused an order.
    #[error("{0}")]
    Order(String),
}

fn list(exports: &[String]) -> String {
    match exports {
        [] => "none: mark one with @ in the stack text".to_string(),
        exports => exports.join(", "),
    }
}

impl From<TextErrors> for Error {
    fn from(error: TextErrors) -> Error {
        Error::Text(error.to_string())
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Error {
        Error::Build(error.to_string())
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Error {
        Error::Build(error.to_string())
    }
}

impl From<ServeError> for Error {
    fn from(error: ServeError) -> Error {
        if let ServeError::Build(error) = error {
            return error.into();
        }
        Error::Serve(error.to_string())
    }
}

impl From<StopError> for Error {
    fn from(error: StopError) -> Error {
        Error::Serve(error.to_string())
    }
}

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Error {
        Error::Trace(error.to_string())
    }
}

impl From<PredictError> for Error {
    fn from(error: PredictError) -> Error {
        Error::Predict(error.to_string())
    }
}

impl From<LayerOrderError> for Error {
    fn from(error: LayerOrderError) -> Error {
        Error::Order(error.to_string())
    }
}

impl From<BioError> for Error {
    fn from(error: BioError) -> Error {
        let text = error.to_string();
        match error {
            BioError::Invalid(_) | BioError::Unsupported(_) => Error::Invalid(text),
            BioError::NoSpace(_) => Error::NoSpace(text),
            BioError::ReadOnly(_) => Error::ReadOnly(text),
            BioError::Latched(_) | BioError::Gone(_) => Error::Unusable(text),
            BioError::Io(_) | BioError::Corrupt(_) => Error::Device(text),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error {
            Error::Text(_) | Error::Invalid(_) | Error::Order(_) | Error::Trace(_) | Error::Predict(_) => {
                io::ErrorKind::InvalidInput
            }
            Error::NoExport { .. } => io::ErrorKind::NotFound,
            Error::NoSpace(_) => io::ErrorKind::StorageFull,
            Error::ReadOnly(_) => io::ErrorKind::ReadOnlyFilesystem,
            Error::Build(_) | Error::Serve(_) | Error::Unusable(_) | Error::Device(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
