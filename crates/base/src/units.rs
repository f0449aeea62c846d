//! Sizes in bytes and times in nanoseconds, with the text forms that stack files and the command line use.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// One kibibyte in bytes.
pub const KIB: u64 = 1 << 10;
/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One exbibyte in bytes.
const EIB: u64 = 1 << 60;
/// One pebibyte in bytes.
const PIB: u64 = 1 << 50;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// The sector of block traces and of the block interface's text forms, in bytes.
pub const SECTOR: u64 = 512;

/// A span of time in nanoseconds (at most about 584 years).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A point on a world's clock, in nanoseconds since that world began.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// A span of `n` microseconds.
    pub const fn micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// A span of `n` milliseconds.
    pub const fn millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// A span of `n` seconds.
    pub const fn secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// The nearest span to `s` seconds; negative and NaN values give zero.
    pub fn from_secs_f64(s: f64) -> Nanos {
        Nanos((s * 1e9).round().max(0.0) as u64)
    }

    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span less `other`, or zero.
    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// The time that `bytes` take at `bytes_per_sec`, rounded up; zero for an unlimited rate of 0.
    pub fn transfer(bytes: u64, bytes_per_sec: u64) -> Nanos {
        if bytes_per_sec == 0 {
            return Nanos::ZERO;
        }
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_sec));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Time {
    /// The instant a world begins.
    pub const ZERO: Time = Time(0);

    /// The span from `earlier` to this instant, or zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Time {
    type Output = Time;
    fn add(self, d: Nanos) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, d: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(d.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, d: Nanos) -> Nanos {
        Nanos(self.0 - d.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, d: Nanos) {
        *self = *self + d;
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Nanos {
    type Output = Nanos;
    fn div(self, n: u64) -> Nanos {
        Nanos(self.0 / n)
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(iter: I) -> Nanos {
        iter.fold(Nanos::ZERO, Add::add)
    }
}

/// The text of a quantity that could not be read, and what would have been right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {what}; write {example}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl UnitError {
    /// What would have been right, to stand after "expected".
    pub fn wanted(&self) -> String {
        format!("{}: {}", self.what, self.example)
    }
}

const SIZE_UNITS: [(&str, u64); 21] = [
    ("EiB", EIB),
    ("PiB", PIB),
    ("TiB", 1 << 40),
    ("GiB", GIB),
    ("MiB", MIB),
    ("KiB", KIB),
    ("EB", 1_000_000_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("E", EIB),
    ("P", PIB),
    ("T", 1 << 40),
    ("G", GIB),
    ("M", MIB),
    ("K", KIB),
    ("k", KIB),
    ("B", 1),
];

const TIME_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Splits `text` at its unit and returns number × factor, exactly where the number is whole.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')?;
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok()? * factor as f64;
    (value.fract() == 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

/// Reads a size such as `64GiB`, `1.5MiB`, `4K` or `512` (bytes). Powers of ten need the `kB` spelling.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let plain = text.trim().replace('_', "").parse::<u64>().ok();
    plain.or_else(|| quantity(text, &SIZE_UNITS)).ok_or_else(|| UnitError {
        text: text.to_string(),
        what: "a size",
        example: "a whole number of bytes, or one with a unit such as 4KiB, 512MiB, 64GiB, 2TiB or 1PiB",
    })
}

/// Reads a span such as `2ms`, `150us`, `1.5s` or `0` (a unit is required except for zero).
pub fn parse_span(text: &str) -> Result<Nanos, UnitError> {
    let zero = (text.trim() == "0").then_some(0);
    zero.or_else(|| quantity(text, &TIME_UNITS)).map(Nanos).ok_or_else(|| UnitError {
        text: text.to_string(),
        what: "a time span",
        example: "a number with a unit, such as 150us, 2ms or 1.5s",
    })
}

/// Writes a size so that [`parse_size`] reads back the same number.
pub fn size_text(bytes: u64) -> String {
    let exact = [("EiB", EIB), ("PiB", PIB), ("TiB", 1u64 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];
    match exact.iter().find(|(_, f)| bytes >= *f && bytes.is_multiple_of(*f)) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// Writes a size for people: at most one decimal, not exact.
pub fn size_human(bytes: u64) -> String {
    let units = [("EiB", EIB), ("PiB", PIB), ("TiB", 1u64 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];
    match units.iter().find(|(_, f)| bytes >= *f) {
        Some((unit, factor)) => format!("{:.1} {unit}", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

/// Writes a span so that [`parse_span`] reads back the same number.
pub fn span_text(span: Nanos) -> String {
    let exact = [("s", 1_000_000_000u64), ("ms", 1_000_000), ("us", 1_000)];
    match exact.iter().find(|(_, f)| span.0 >= *f && span.0.is_multiple_of(*f)) {
        Some((unit, factor)) => format!("{}{unit}", span.0 / factor),
        None if span.0 == 0 => "0".to_string(),
        None => format!("{}ns", span.0),
    }
}

impl fmt::Display for Nanos {
    /// For people: three significant digits and a unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 as f64 {
            ns if ns < 999.5 => format!("{} ns", self.0),
            ns if ns < 999_500.0 => format!("{} us", digits(ns / 1e3)),
            ns if ns < 999.5e6 => format!("{} ms", digits(ns / 1e6)),
            ns => format!("{} s", digits(ns / 1e9)),
        };
        f.pad(&text)
    }
}

/// Writes a number for people: three significant digits, with a letter for thousands, millions and so on.
pub fn count_human(value: f64) -> String {
    let (value, letter) = match value {
        v if v >= 999.5e6 => (v / 1e9, "G"),
        v if v >= 999_500.0 => (v / 1e6, "M"),
        v if v >= 999.5 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{}{letter}", digits(value))
}

/// Writes a number below a thousand for people: three significant digits, and more before the point if need be.
pub fn digits(value: f64) -> String {
    match value {
        v if v < 0.0005 => "0".to_string(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Writes a share, of which 1 is all, for people: three significant digits.
pub fn percent_human(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Writes an age or a rest of time for people, in its two largest units: whole seconds at least.
pub fn age_human(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

/// Writes a number for people by its name, which ends in its unit: `used_bytes`, `idle_s`, `wait_ns`, `energy_j`. Other
/// numbers are counts and ratios.
pub fn named_human(name: &str, value: f64) -> String {
    let unit = name.rsplit('_').next().unwrap_or_default();
    match unit {
        _ if !value.is_finite() || value < 0.0 => value.to_string(),
        "bytes" => size_human(value as u64),
        "ns" => Nanos(value as u64).to_string(),
        "us" => Nanos((value * 1e3) as u64).to_string(),
        "ms" => Nanos((value * 1e6) as u64).to_string(),
        "s" if value >= 60.0 => age_human(value),
        "s" => Nanos::from_secs_f64(value).to_string(),
        "j" => format!("{} J", count_human(value)),
        "w" => format!("{} W", count_human(value)),
        "usd" => format!("${value}"),
        _ if value.fract() == 0.0 => value.to_string(),
        _ => digits(value),
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}ns", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_with_binary_and_decimal_units() {
        for (text, bytes) in [("512", 512), ("4K", 4096), ("4 KiB", 4096), ("1.5MiB", 1_572_864), ("64GiB", 64 * GIB)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_size("1kB"), Ok(1000));
        for (text, bytes) in [("128PiB", 1 << 57), ("2EiB", 1 << 61), ("1.5E", 3 << 59), ("1PB", 1_000_000_000_000_000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!((size_text(1 << 61), size_human(3 << 49)), ("2EiB".to_string(), "1.5 PiB".to_string()));
        for bad in ["", "KiB", "4x", "-1", "1.0001B", "99999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn spans_need_a_unit() {
        assert_eq!(parse_span("2ms"), Ok(Nanos::millis(2)));
        assert_eq!(parse_span("1.5s"), Ok(Nanos::millis(1500)));
        assert_eq!(parse_span("0"), Ok(Nanos::ZERO));
        assert!(parse_span("2").unwrap_err().to_string().contains("150us"));
    }

    #[test]
    fn an_error_says_what_would_have_been_right() {
        let error = parse_span("2").unwrap_err();
        assert_eq!(error.wanted(), "a time span: a number with a unit, such as 150us, 2ms or 1.5s");
    }

    #[test]
    fn transfer_time_rounds_up_and_never_overflows() {
        assert_eq!(Nanos::transfer(1, 3), Nanos(333_333_334));
        assert_eq!(Nanos::transfer(u64::MAX, 1), Nanos(u64::MAX));
        assert_eq!(Nanos::transfer(4096, 0), Nanos::ZERO);
    }

    #[test]
    fn people_see_three_digits() {
        let shown = [1, 1_234, 12_345, 123_456, 1_500_000, 61_000_000_000].map(|n| Nanos(n).to_string());
        assert_eq!(shown, ["1 ns", "1.23 us", "12.3 us", "123 us", "1.50 ms", "61.0 s"]);
        assert_eq!([0, 850, 999_900].map(|n| Nanos(n).to_string()), ["0 ns", "850 ns", "1.00 ms"]);
        let counts = [0.0, 0.25, 9.99, 10.0, 999.4, 999.9, 12_345.0, 999_900.0, 2.5e9].map(count_human);
        assert_eq!(counts, ["0", "0.25", "9.99", "10.0", "999", "1.00k", "12.3k", "1.00M", "2.50G"]);
        let ages = [-1.0, 59.9, 60.0, 3_661.0, 90_000.0].map(age_human);
        assert_eq!(ages, ["0 s", "59 s", "1 min 0 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn numbers_with_a_name_have_its_unit() {
        for (name, value, text) in [
            ("used_bytes", 1_572_864.0, "1.5 MiB"),
            ("wait_ns", 1_500.0, "1.50 us"),
            ("busy_s", 0.25, "250 ms"),
            ("idle_s", 3_700.0, "1 h 1 min"),
            ("energy_j", 6_280.0, "6.28k J"),
            ("clean_segments", 24.0, "24"),
            ("hit_ratio", 0.512_3, "0.51"),
            ("left", f64::NAN, "NaN"),
        ] {
            assert_eq!(named_human(name, value), text, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn text_forms_read_back(n: u64) {
            assert_eq!(parse_size(&size_text(n)), Ok(n));
            assert_eq!(parse_span(&span_text(Nanos(n))), Ok(Nanos(n)));
        }
    }
}
