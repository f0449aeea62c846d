//! The horizontal scale of a panel of a chart.

/// Values that differ by this factor stand on a logarithmic scale.
const WIDE: f64 = 50.0;
/// Ticks of a linear scale are at least this many steps apart from its ends.
const STEPS: f64 = 4.0;
/// Decades of a logarithmic scale that each have a tick.
const DECADES_MAX: i32 = 6;

/// From where to where values are shown, and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    /// Values that are named.
    pub(crate) ticks: Vec<f64>,
}

impl Scale {
    /// A scale that shows all finite values: logarithmic if they are positive and far apart, else one that shows 0.
    pub(crate) fn over(values: impl Iterator<Item = f64>) -> Scale {
        let finite = values.filter(|value| value.is_finite());
        let ends = finite.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let (low, high) = ends.unwrap_or((0.0, 1.0));
        if low > 0.0 && high / low >= WIDE { Scale::logarithmic(low, high) } else { Scale::linear(low, high) }
    }

    /// A linear scale from 0 to the largest finite value.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        Scale::linear(0.0, values.filter(|value| value.is_finite()).fold(0.0, f64::max))
    }

    fn linear(low: f64, high: f64) -> Scale {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let span = if high > low { high - low } else { 1.0 };
        let step = round_step(span / STEPS);
        let (first, last) = ((low / step).floor(), ((low + span) / step).ceil());
        let ticks = (first as i64..=last as i64).map(|at| at as f64 * step).collect();
        Scale { low: first * step, high: last * step, is_logarithmic: false, ticks }
    }

    fn logarithmic(low: f64, high: f64) -> Scale {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = (last - first).div_euclid(DECADES_MAX) + 1;
        let ticks = (first..=last).step_by(every as usize).map(|decade| 10f64.powi(decade)).collect();
        Scale { low: 10f64.powi(first), high: 10f64.powi(last), is_logarithmic: true, ticks }
    }

    /// Where a value stands, from 0 at the left end to 1 at the right one; none for a value that has no place.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.is_logarithmic {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        (0.0..=1.0).contains(&share).then_some(share)
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * decade);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], ticks: &[f64]) {
        let scale = Scale::over(values.iter().copied());
        let near = scale.ticks.iter().zip(ticks).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-9 + 1e-12);
        assert!(near && scale.ticks.len() == ticks.len(), "{values:?}: {:?}", scale.ticks);
        let placed = values.iter().filter(|value| value.is_finite()).all(|value| scale.place(*value).is_some());
        assert!(placed, "{values:?}: {scale:?}");
    }

    #[test]
    fn near_values_stand_on_a_linear_scale_with_zero() {
        check(&[1.0, 0.3], &[0.0, 0.5, 1.0]);
        check(&[-18.0, 0.07], &[-20.0, -15.0, -10.0, -5.0, 0.0, 5.0]);
    }

    #[test]
    fn values_far_apart_stand_on_a_logarithmic_scale() {
        check(&[0.002, 3.0], &[0.001, 0.01, 0.1, 1.0, 10.0]);
        check(&[1.0, 1e12], &[1.0, 1e3, 1e6, 1e9, 1e12]);
    }

    #[test]
    fn nothing_zero_and_nonsense_have_a_scale() {
        check(&[], &[0.0, 0.5, 1.0]);
        check(&[0.0], &[0.0, 0.5, 1.0]);
        check(&[f64::NAN, 2.0], &[0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(Scale::over([1.0].into_iter()).place(f64::NAN), None);
    }
}
