//! How a collector is to behave.

use esker_cleaning::policy::{NAMED, named};
use esker_cleaning::{Pacing, PacingError, Policy};

/// Which copies share segments. Copies never share one with new data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Separation {
    /// All of them.
    Origin,
    /// Those that will probably live equally long ([`esker_cleaning::Separator`]).
    Lifetime,
}

/// Settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Name of the order among victims, of [`NAMED`].
    pub victims: &'static str,
    /// Each victim is the best of so many that are drawn at random; if not given, of all.
    pub choices: Option<u32>,
    /// Where copies go.
    pub separation: Separation,
    /// Share of used space at which cleaning begins.
    pub from: f64,
    /// How the device is shared with writers.
    pub pacing: Pacing,
    /// Bytes that reverse maps and tables of copies may take.
    pub memory: u64,
    /// Scanners of one pass.
    pub scanners: usize,
}

/// Share of used segments at which the cleaner has its share of the device; at 1 it has all of it.
pub(super) const FULL: f64 = 0.997;
/// Choices at most: a sample of so many is as good as all.
const CHOICES_MAX: u32 = 1024;
/// Scanners at most.
const SCANNERS_MAX: u64 = 64;
/// Bytes of memory at least.
const MEMORY_MIN: u64 = 64 << 10;

/// What makes no sense.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// No such policy.
    #[error("no order among victims is called {0}")]
    Policy(String),
    /// A sample of no segment, or of too many.
    #[error("victims are the best of {0} each; 1 to {CHOICES_MAX} are possible")]
    Sample(u64),
    /// A curve that does not rise.
    #[error(transparent)]
    Pace(#[from] PacingError),
    /// No worker, or too many.
    #[error("{0} scanners; 1 to {SCANNERS_MAX} are possible")]
    Scanners(u64),
    /// Too little memory.
    #[error("{0} bytes for reverse maps; at least {MEMORY_MIN} are needed")]
    Memory(u64),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::of(("adaptive", None), Separation::Lifetime, (0.9, 0.9), 64 << 20, 2).expect("they make sense")
    }
}

impl Settings {
    /// Victims are the best in the order `victims.0`, each of `victims.1` drawn ones or of all. The cleaner begins at
    /// `pace.0` of used space, and has `pace.1` of the device near the end.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn of(
        victims: (&str, Option<u64>),
        separation: Separation,
        pace: (f64, f64),
        memory: u64,
        scanners: u64,
    ) -> Result<Settings, SettingsError> {
        let (order, choices) = victims;
        let known = NAMED.iter().find(|(name, _)| *name == order);
        let (victims, _) = known.ok_or_else(|| SettingsError::Policy(order.to_string()))?;
        let choices_max = u64::from(CHOICES_MAX);
        if let Some(choices) = choices.filter(|choices| !(1..=choices_max).contains(choices)) {
            return Err(SettingsError::Sample(choices));
        }
        let pacing = Pacing::new(pace.0, FULL, 1.0, pace.1)?;
        if !(1..=SCANNERS_MAX).contains(&scanners) {
            return Err(SettingsError::Scanners(scanners));
        }
        if memory < MEMORY_MIN {
            return Err(SettingsError::Memory(memory));
        }
        let (choices, scanners) = (choices.map(|choices| choices as u32), scanners as usize);
        Ok(Settings { victims, choices, separation, from: pace.0, pacing, memory, scanners })
    }

    pub(super) fn policy(&self) -> &'static dyn Policy {
        named(self.victims).expect("looked up when it was set")
    }
}
