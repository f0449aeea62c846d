//! How long a soak is, as `cargo xtask soak` tells its test.

/// Length and seed of a soak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoakLength {
    /// Rounds, kills or states.
    pub times: u64,
    /// Seed of all draws.
    pub seed: u64,
}

impl SoakLength {
    /// What the environment says, or so many times with seed 1.
    ///
    /// # Panics
    /// If it says what is no number.
    pub fn told(times: u64) -> SoakLength {
        SoakLength { times: number("ESKER_KILL_TIMES", times), seed: number("ESKER_KILL_SEED", 1) }
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask tells the length by the environment")]
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}
