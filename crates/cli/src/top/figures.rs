//! Numbers in few characters.

/// Three digits, with a letter for thousands, millions and so on.
pub fn rate(value: f64) -> String {
    let (value, letter) = match value {
        v if v >= 999.5e6 => (v / 1e9, "G"),
        v if v >= 999_500.0 => (v / 1e6, "M"),
        v if v >= 999.5 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{}{letter}", digits(value))
}

/// Three digits of a number below a thousand; more before the point if need be.
pub fn digits(value: f64) -> String {
    match value {
        v if v < 0.0005 => "0".to_string(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A latency with its unit.
pub fn latency(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        0.0 => "-".to_string(),
        v if v < 999.5 => format!("{v:.0} ns"),
        v if v < 999_500.0 => format!("{} us", digits(v / 1e3)),
        v if v < 999.5e6 => format!("{} ms", digits(v / 1e6)),
        v => format!("{} s", digits(v / 1e9)),
    }
}

/// A span in its two largest units.
pub fn span(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let seen = [0.0, 0.25, 9.99, 10.0, 999.4, 999.9, 12_345.0, 999_900.0, 2.5e9].map(rate);
        assert_eq!(seen, ["0", "0.25", "9.99", "10.0", "999", "1.00k", "12.3k", "1.00M", "2.50G"]);
        let seen = [0, 850, 1_000, 123_456, 999_900, 4_500_000, 2_000_000_000].map(latency);
        assert_eq!(seen, ["-", "850 ns", "1.00 us", "123 us", "1.00 ms", "4.50 ms", "2.00 s"]);
        let seen = [-1.0, 59.9, 60.0, 3_661.0, 90_000.0].map(span);
        assert_eq!(seen, ["0 s", "59 s", "1 min 0 s", "1 h 1 min", "1 d 1 h"]);
    }
}
