//! What may be wrong with a job file.

/// A job file from which no trace can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {flaw}")]
pub struct JobError {
    /// Where, counted from 1.
    pub line: u32,
    /// What.
    pub flaw: JobFlaw,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JobFlaw {
    /// A line that is neither a section nor an option.
    #[error("`{0}` is neither [SECTION] nor OPTION=VALUE")]
    NotSetting(String),
    /// An option that stands before all sections.
    #[error("`{0}` stands in no section; put it below [global] or a job's name in brackets")]
    NoSection(String),
    /// A file without jobs.
    #[error("the file has no job: a section that is not [global]")]
    NoJob,
    /// More than a job file has.
    #[error("there are more than {0} {1}; divide the file")]
    TooMany(usize, &'static str),
    /// An option that changes requests in a way that is not known here.
    #[error("`{option}` is not supported: {advice}")]
    Unsupported {
        /// The option.
        option: String,
        /// What to do.
        advice: &'static str,
    },
    /// A value that its option does not take.
    #[error("`{option}={value}`: {wanted}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// What it takes.
        wanted: &'static str,
    },
    /// A job without bytes to access.
    #[error("job {0} has no size; add size=BYTES, which is also how many bytes it moves")]
    NoSize(String),
    /// A job whose region holds no block.
    #[error("job {job}: size={size} is smaller than a block of {block} bytes; raise size or lower bs")]
    SmallSize {
        /// The job.
        job: String,
        /// Bytes that it has.
        size: u64,
        /// The smallest block.
        block: u64,
    },
    /// A region that ends behind the last byte that there may be.
    #[error("job {0}: offset and size end beyond 2^62 bytes; lower them")]
    FarEnd(String),
    /// A map of blocks that would not fit into memory.
    #[error("job {0}: blocks of several sizes are drawn without repetition among too many; add norandommap=1")]
    LargeMap(String),
    /// A job that runs for a time without saying for how long.
    #[error("job {0} has time_based without runtime; add runtime=SECONDS")]
    NoRuntime(String),
    /// A job without end at one moment.
    #[error(
        "job {0} is time_based, and nothing says when its requests come; add rate_iops=N for each direction, or thinktime=MICROSECONDS"
    )]
    Endless(String),
}

impl JobFlaw {
    pub(super) fn at(self, line: u32) -> JobError {
        JobError { line, flaw: self }
    }
}
