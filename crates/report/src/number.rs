//! Numbers as tables and charts print them, and text in lines of a width.

/// A value as it is printed: whole numbers in full, others in four significant digits.
pub fn rounded(value: f64) -> String {
    if !value.is_finite() || (value.fract() == 0.0 && value.abs() < 1e15) {
        // No zero has a sign.
        return (value + 0.0).to_string();
    }
    let scientific = format!("{value:.3e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()).unwrap_or(0);
    if !(-4..15).contains(&exponent) {
        return scientific;
    }
    let value: f64 = scientific.parse().expect("it was written as a number");
    let decimals = usize::try_from(3 - exponent).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Text in lines of at most `width` characters, broken at blanks. A longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_printed_and_whole_numbers_in_full() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1_714_819.0, "1714819"),
            (0.465_384_615, "0.4654"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.3333"),
            (99.996, "100"),
            (12_345.6, "12350"),
            (-18.3456, "-18.35"),
            (0.000_512_34, "0.0005123"),
            (0.000_012_345, "1.234e-5"),
            (1.5e20, "1.500e20"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(rounded(value), text, "{value:?}");
        }
    }

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible no", 5), ["incomprehensible", "no"]);
        assert!(wrapped(" ", 5).is_empty());
    }
}
