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
        let number = |name, usual| number(name).unwrap_or(usual);
        SoakLength { times: number("ESKER_KILL_TIMES", times), seed: number("ESKER_KILL_SEED", 1) }
    }

    /// Minutes, of a soak that goes on for so long and not for so many times.
    ///
    /// # Panics
    /// As [`SoakLength::told`].
    pub fn minutes() -> Option<u64> {
        number("ESKER_KILL_MINUTES")
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask tells the length by the environment")]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}
