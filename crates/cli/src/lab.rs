//! What the verbs of the lab share.

use std::path::PathBuf;

use esker_lab_kit::{LabError, Options, scratch};

/// How experiments are run, and how their figures are told.
#[derive(clap::Args)]
pub struct LabArgs {
    /// A stated subset that ends in minutes
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for scratch files, which are removed afterwards
    #[arg(long, value_name = "DIR", default_value = ".")]
    scratch: PathBuf,
}

impl LabArgs {
    /// As experiments take them, with a folder for scratch files that is there.
    ///
    /// # Errors
    /// What is wrong with that folder.
    pub fn options(&self) -> Result<Options, LabError> {
        scratch::demand(&self.scratch)?;
        Ok(Options { quick: self.quick, seed: self.seed, scratch: self.scratch.clone() })
    }
}

/// The world of an experiment, in words.
pub fn world(simulated: bool) -> &'static str {
    if simulated { "virtual time (simulated)" } else { "real time" }
}
