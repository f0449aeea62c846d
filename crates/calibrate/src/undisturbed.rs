//! Samples of a machine that others use as well.

use crate::TRIES;

/// One round of a calibration.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Decides all that is drawn in it.
    pub seed: u64,
    /// Counts what of the CPU others got, in any unit.
    pub taken_away: fn() -> u64,
}

impl Round {
    /// A sample, taken as [`undisturbed`] does.
    ///
    /// # Errors
    /// The first one of `take`.
    pub(crate) fn sample<T, E>(&self, take: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        undisturbed(TRIES, self.taken_away, take)
    }
}

/// Takes a sample anew while the counter `taken_away` grew meanwhile, at most `tries` times in all, and keeps the one
/// during which it grew least. Hosts of virtual machines and other programs take the CPU in bursts of tens of
/// milliseconds, which a few tries mostly miss.
///
/// # Errors
/// The first one of `take`.
pub fn undisturbed<T, E>(
    tries: u32,
    taken_away: impl Fn() -> u64,
    mut take: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut once = || {
        let before = taken_away();
        let sample = take()?;
        Ok((taken_away().saturating_sub(before), sample))
    };
    let mut best = once()?;
    for _ in 1..tries {
        if best.0 == 0 {
            break;
        }
        let next = once()?;
        if next.0 < best.0 {
            best = next;
        }
    }
    Ok(best.1)
}
