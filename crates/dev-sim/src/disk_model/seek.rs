//! How long the arm takes to cross a number of cylinders.

use esker_base::Nanos;

/// Time of a seek by distance. Crossing none takes none.
#[derive(Clone, PartialEq, Debug)]
pub enum SeekCurve {
    /// `a + b·√(d − 1) + c·(d − 1)` nanoseconds over `d` cylinders.
    Formula {
        /// Time of a single cylinder.
        a: f64,
        /// Weight of the square root: the arm accelerates.
        b: f64,
        /// Weight of the distance: the arm coasts.
        c: f64,
    },
    /// Points (cylinders, time), ascending from 1 cylinder on; linear in between and constant outside.
    Table(Vec<(u32, Nanos)>),
    /// A root and then a line, after some points by distance from 1 cylinder on (C. Ruemmler and J. Wilkes, *An
    /// Introduction to Disk Drive Modeling*, IEEE Computer 27(3), 1994).
    RootLine {
        /// The first distances.
        first: Vec<Nanos>,
        /// Distance at which the line begins.
        split: u32,
        /// Constant and weight of √d before it, in nanoseconds.
        root: (f64, f64),
        /// Constant and weight of d from it on.
        line: (f64, f64),
    },
}

/// Why a curve cannot be made.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SeekError {
    /// The three points bend the wrong way.
    #[error(
        "seek times {single} (one cylinder), {average} (average) and {full} (full stroke) give a curve that falls \
         somewhere; the average must lie between single + (full - single) / 3 and single + (full - single) * 8 / 15"
    )]
    Falling {
        /// One cylinder.
        single: Nanos,
        /// Average.
        average: Nanos,
        /// All cylinders.
        full: Nanos,
    },
    /// A table that cannot be read.
    #[error("seek table, line {line}: expected {want}")]
    Table {
        /// Line, from 1.
        line: usize,
        /// What would be right.
        want: &'static str,
    },
}

impl SeekCurve {
    /// The curve through a data sheet's three numbers for a disk of `cylinders`. Solved for seeks between two evenly
    /// drawn cylinders, where √distance averages 8/15 and distance 1/3 of a full stroke (E. K. Lee and R. H. Katz, *An
    /// Analytic Performance Model of Disk Arrays*, SIGMETRICS 1993).
    ///
    /// # Errors
    /// [`SeekError::Falling`] if a longer seek would take less time.
    pub fn three_points(single: Nanos, average: Nanos, full: Nanos, cylinders: u32) -> Result<SeekCurve, SeekError> {
        let [min, avg, max] = [single, average, full].map(|n| n.0 as f64);
        let stroke = f64::from(cylinders.saturating_sub(2).max(1));
        let b = (15.0 * avg - 10.0 * min - 5.0 * max) / (3.0 * stroke.sqrt());
        let c = (7.0 * min - 15.0 * avg + 8.0 * max) / (3.0 * stroke);
        if b < 0.0 || c < 0.0 {
            return Err(SeekError::Falling { single, average, full });
        }
        Ok(SeekCurve::Formula { a: min, b, c })
    }

    /// Reads a measured curve: one `cylinders, milliseconds` a line, ascending; a first line that ends in a count of
    /// the measured distances (DiskSim's form) is checked against the number of points.
    ///
    /// # Errors
    /// [`SeekError::Table`] names the line.
    pub fn parse_table(text: &str) -> Result<SeekCurve, SeekError> {
        let mut points: Vec<(u32, Nanos)> = Vec::new();
        let mut promised = None;
        for (at, row) in text.lines().enumerate().filter(|(_, row)| !row.trim().is_empty()) {
            let wrong = |want| SeekError::Table { line: at + 1, want };
            if let Some((_, count)) = row.split_once(':').filter(|_| at == 0) {
                promised = Some(count.trim().parse::<usize>().map_err(|_| wrong("a count after the colon"))?);
                continue;
            }
            let (distance, span) = row.split_once(',').ok_or_else(|| wrong("cylinders, milliseconds"))?;
            let distance = distance.trim().parse().map_err(|_| wrong("a whole number of cylinders"))?;
            let span = span.trim().parse::<f64>().ok().filter(|ms| ms.is_finite() && *ms > 0.0);
            let span = span.ok_or_else(|| wrong("a positive number of milliseconds"))?;
            if distance == 0 || points.last().is_some_and(|(last, _)| *last >= distance) {
                return Err(wrong("distances that ascend from 1 on"));
            }
            points.push((distance, Nanos::from_secs_f64(span / 1e3)));
        }
        let line = text.lines().count();
        if points.is_empty() || promised.is_some_and(|n| n != points.len()) {
            return Err(SeekError::Table { line, want: "as many points as the first line says, and at least one" });
        }
        Ok(SeekCurve::Table(points))
    }

    /// Time to cross `distance` cylinders.
    #[inline]
    pub fn time(&self, distance: u32) -> Nanos {
        if distance == 0 {
            return Nanos::ZERO;
        }
        match self {
            SeekCurve::Formula { a, b, c } => {
                let d = f64::from(distance - 1);
                Nanos((a + b * d.sqrt() + c * d) as u64)
            }
            SeekCurve::Table(points) => interpolate(points, distance),
            SeekCurve::RootLine { first, .. } if distance as usize <= first.len() => first[distance as usize - 1],
            SeekCurve::RootLine { split, root: (a, b), .. } if distance < *split => {
                Nanos((a + b * f64::from(distance).sqrt()) as u64)
            }
            SeekCurve::RootLine { line: (a, b), .. } => Nanos((a + b * f64::from(distance)) as u64),
        }
    }
}

fn interpolate(points: &[(u32, Nanos)], distance: u32) -> Nanos {
    let above = points.partition_point(|(d, _)| *d < distance);
    let (Some(right), left) = (points.get(above), above.checked_sub(1).map(|i| points[i])) else {
        return points.last().map_or(Nanos::ZERO, |(_, time)| *time);
    };
    let Some(left) = left else { return right.1 };
    let share = f64::from(distance - left.0) / f64::from(right.0 - left.0);
    let (from, to) = (left.1.0 as f64, right.1.0 as f64);
    Nanos((from + share * (to - from)).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(x: f64) -> Nanos {
        Nanos::from_secs_f64(x / 1e3)
    }

    #[test]
    fn the_formula_meets_its_three_points() {
        let cylinders = 10_000;
        let curve = SeekCurve::three_points(ms(0.6), ms(8.0), ms(17.0), cylinders).unwrap();
        assert_eq!(curve.time(0), Nanos::ZERO);
        assert_eq!(curve.time(1), ms(0.6));
        assert!(curve.time(cylinders - 1).0.abs_diff(ms(17.0).0) <= 1);
        let n = u64::from(cylinders);
        let pairs: u64 = (1..cylinders).map(|d| 2 * (n - u64::from(d)) * curve.time(d).0).sum();
        let mean = pairs as f64 / (n * n) as f64 / 1e6;
        assert!((mean - 8.0).abs() < 0.008, "{mean}: the mean over all pairs is the data sheet's average");
    }

    #[test]
    fn a_curve_that_would_fall_is_refused() {
        assert!(SeekCurve::three_points(ms(1.0), ms(9.0), ms(10.0), 1000).is_err());
        assert!(SeekCurve::three_points(ms(1.0), ms(2.0), ms(10.0), 1000).is_err());
    }

    #[test]
    fn tables_interpolate_between_points_and_are_constant_outside() {
        let curve = SeekCurve::parse_table("Seek distances measured: 2\n10,\t2.0\n20, 4.0\n").unwrap();
        let times = [1, 10, 15, 20, 30].map(|d| curve.time(d).0 / 1000);
        assert_eq!(times, [2000, 2000, 3000, 4000, 4000]);
    }

    #[test]
    fn a_root_and_a_line_follow_the_first_points() {
        let first = vec![ms(2.0), ms(3.0)];
        let curve = SeekCurve::RootLine { first, split: 100, root: (3e6, 1e5), line: (5e6, 2e3) };
        let times = [0, 1, 2, 9, 99, 100, 200].map(|d| curve.time(d).0 / 1000);
        assert_eq!(times, [0, 2000, 3000, 3300, 3994, 5200, 5400]);
    }

    #[test]
    fn bad_tables_name_the_line() {
        for (text, line) in [("1, 2\n1, 3", 2), ("1 2", 1), ("1, x", 1), ("n: 2\n1, 1", 2), ("", 0), ("0, 1", 1)] {
            let SeekError::Table { line: at, .. } = SeekCurve::parse_table(text).unwrap_err() else { panic!("{text}") };
            assert_eq!(at, line, "{text:?}");
        }
    }
}
