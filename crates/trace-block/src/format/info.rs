//! What is to be known of a format besides its layout. Each format's module holds one [`FormatInfo`].

use super::blk::{FirstStage, Stage};
use super::encoder::Encoder;
use super::parser::Parser;
use crate::input::Unit;
use esker_base::Nanos;

/// What holds for all traces in a format, how they are recognised, and what reads and writes them.
pub(crate) struct FormatInfo {
    /// The word for the format on the command line.
    pub name: &'static str,
    /// What pages say of it.
    pub about: About,
    /// How the bytes are cut.
    pub unit: Unit,
    /// The step of recorded times.
    pub resolution: Nanos,
    /// Makes the parser of one trace or part; events of that stage are the requests, if the format records several
    /// stages.
    pub parser: fn(Stage) -> Box<dyn Parser>,
    /// Makes the encoder of one trace; `None` if Esker only reads the format.
    pub encoder: Option<fn() -> Box<dyn Encoder>>,
    /// The encoder corrects bytes that it has written.
    pub needs_seek: bool,
    /// How files in the format are called, for files to be written.
    pub endings: &'static [&'static str],
    /// A file that is called so is in this format, whatever its ending.
    pub is_called: Option<fn(&str) -> bool>,
    /// How a trace is told from those in other formats.
    pub signs: Signs,
    /// The first stage of requests in the beginning of a trace, if the format records several stages.
    pub first_stage: Option<FirstStage>,
    pub has_times: bool,
    pub has_operations: bool,
    pub has_volumes: bool,
    pub has_parts: bool,
    /// Times count from an instant unrelated to the trace.
    pub is_absolute: bool,
    /// What to do about a trace that is not in order of time, where traces come slightly out of order because several
    /// CPUs or machines recorded them: those are sorted within a window.
    pub sorting_advice: Option<&'static str>,
}

impl FormatInfo {
    /// A format with times in steps of `step` ns and with operations, which Esker only reads; nothing else.
    pub(crate) const fn of(
        name: &'static str,
        unit: Unit,
        step: u64,
        parser: fn(Stage) -> Box<dyn Parser>,
    ) -> FormatInfo {
        FormatInfo {
            name,
            about: About::NONE,
            unit,
            resolution: Nanos(step),
            parser,
            encoder: None,
            needs_seek: false,
            endings: &[],
            is_called: None,
            signs: Signs::NONE,
            first_stage: None,
            has_times: true,
            has_operations: true,
            has_volumes: false,
            has_parts: false,
            is_absolute: false,
            sorting_advice: None,
        }
    }
}

/// What pages say of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Files in it, and the program or archive that they come from.
    pub file: &'static str,
    /// Text, or records of so many bytes.
    pub form: &'static str,
    /// Unit of times.
    pub times: &'static str,
    /// Operations that it tells apart.
    pub operations: &'static str,
    /// How it names volumes.
    pub volumes: &'static str,
    /// Unit of offsets and lengths.
    pub addresses: &'static str,
}

impl About {
    /// Nothing: each format replaces it.
    pub(crate) const NONE: About = About { file: "", form: "", times: "", operations: "", volumes: "", addresses: "" };
}

/// Whether bytes bear a sign of a format.
pub(crate) type Fits = fn(&[u8]) -> bool;

/// How a trace in a format is recognised. A sign of any format counts before all signs below it.
pub(crate) struct Signs {
    /// The first bytes of the trace.
    pub mark: Option<Fits>,
    /// The first line.
    pub first_line: Option<&'static str>,
    /// A line that names columns, which differ between traces of the format.
    pub header: Option<Fits>,
    /// The first line that is no remark.
    pub line: Option<Fits>,
    /// A line below a free comment.
    pub below_comment: Option<Fits>,
    /// The name of the file without its packing, together with the first bytes.
    pub name: Option<fn(&str, &[u8]) -> bool>,
    /// A name that fits this format alone.
    pub by_ending: bool,
    /// The first records. Where several formats fit, the last one in the list of formats counts: it asks for more.
    pub records: Option<Fits>,
}

impl Signs {
    /// Nothing tells the format.
    pub(crate) const NONE: Signs = Signs {
        mark: None,
        first_line: None,
        header: None,
        line: None,
        below_comment: None,
        name: None,
        by_ending: false,
        records: None,
    };
}

/// Nanoseconds of the steps in which formats count.
pub(crate) const US: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
