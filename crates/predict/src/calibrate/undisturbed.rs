//! Samples of a machine that others use as well.

/// How often a sample is taken until nobody took the CPU meanwhile. Hosts of virtual machines take it in bursts of tens of
/// milliseconds, which a few tries mostly miss.
const TRIES: usize = 6;

/// Takes a sample anew while the counter `taken_away` grew meanwhile, and keeps the one during which it grew least.
///
/// # Errors
/// The first one of `take`.
pub fn undisturbed<T, E>(taken_away: fn() -> u64, mut take: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let mut once = || {
        let before = taken_away();
        let sample = take()?;
        Ok((taken_away().saturating_sub(before), sample))
    };
    let mut best = once()?;
    for _ in 1..TRIES {
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
