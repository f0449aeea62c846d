//! Values of options, in fio's units.

use super::flaw::{JobError, JobFlaw};
use super::lines::{Setting, shown};
use esker_base::Nanos;

/// A value for each of reads, writes and trims.
pub(super) type Each<T> = [T; 3];

impl Setting<'_> {
    /// That the option does not take this value.
    pub(super) fn refuse(&self, wanted: &'static str) -> JobError {
        JobFlaw::Value { option: self.key.to_string(), value: shown(self.value), wanted }.at(self.line)
    }

    /// A number of bytes.
    pub(super) fn bytes(&self) -> Result<u64, JobError> {
        bytes(self.value).ok_or_else(|| self.refuse("a number of bytes is needed, such as 4096, 4k or 1g"))
    }

    /// A number.
    pub(super) fn number(&self) -> Result<u64, JobError> {
        self.value.parse().map_err(|_| self.refuse("a whole number is needed"))
    }

    /// Whether a switch is on; without a value it is.
    pub(super) fn switch(&self) -> Result<bool, JobError> {
        match self.value {
            "" | "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(self.refuse("0 or 1 is needed")),
        }
    }

    /// A time that is in `unit` if it has none of its own.
    pub(super) fn span(&self, unit: Nanos) -> Result<Nanos, JobError> {
        let wanted = "a time is needed, such as 10, 500ms or 2m; ranges of times are not supported";
        span(self.value, unit).ok_or_else(|| self.refuse(wanted))
    }

    /// A share in percent, as a part of 1.
    pub(super) fn percent(&self) -> Result<f64, JobError> {
        let part = self.value.parse::<u32>().ok().filter(|percent| *percent <= 100);
        part.map(|percent| f64::from(percent) / 100.0)
            .ok_or_else(|| self.refuse("a percentage from 0 to 100 is needed"))
    }

    /// Values for reads, writes and trims, separated by commas. The last one stands for those that are missing; an
    /// empty one leaves what was there.
    pub(super) fn each<T: Clone>(
        &self,
        into: &mut Each<T>,
        wanted: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<(), JobError> {
        let parts: Vec<&str> = self.value.split(',').map(str::trim).collect();
        if parts.len() > into.len() {
            return Err(self.refuse(wanted));
        }
        for (at, place) in into.iter_mut().enumerate() {
            match parts[at.min(parts.len() - 1)] {
                "" if parts.len() > 1 => {}
                part => *place = read(part).ok_or_else(|| self.refuse(wanted))?,
            }
        }
        Ok(())
    }
}

/// A number and its unit in small letters.
fn cut(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim().to_ascii_lowercase()))
}

/// Bytes as fio reads them: `k`, `kb` and `ki` are 1024, and `kib` is 1000 (its `kb_base` of 1024).
pub(super) fn bytes(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    let (number, unit) = cut(text)?;
    let (letter, rest) = unit.split_at_checked(1).unwrap_or(("", ""));
    let power = match letter {
        "" | "b" => 0,
        letter => "kmgtp".find(letter)? as i32 + 1,
    };
    let base: f64 = match rest {
        "" | "b" | "i" if letter != "b" => 1024.0,
        "ib" if letter != "b" => 1000.0,
        "" => 1.0,
        _ => return None,
    };
    whole(number * base.powi(power))
}

fn whole(value: f64) -> Option<u64> {
    // Beyond 2^63 no offset is left.
    (0.0..=9.2e18).contains(&value).then_some(value as u64)
}

fn span(text: &str, unit: Nanos) -> Option<Nanos> {
    let (number, word) = cut(text)?;
    let factor = match word.as_str() {
        "" => unit.0,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    whole(number * factor as f64).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_fio() {
        let cases = [
            ("4096", Some(4096)),
            ("4k", Some(4096)),
            ("4kb", Some(4096)),
            ("4Ki", Some(4096)),
            ("4KiB", Some(4000)),
            ("1.5m", Some(3 << 19)),
            ("2G", Some(2 << 30)),
            ("512b", Some(512)),
            ("0x1000", Some(4096)),
            ("50%", None),
            ("4x", None),
            ("", None),
            ("99999p", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_of_their_option_if_they_name_none() {
        let cases = [("10", Some(10_000)), ("2ms", Some(2_000_000)), ("1m", Some(60_000_000_000)), ("1-2", None)];
        for (text, expected) in cases {
            assert_eq!(span(text, Nanos(1_000)), expected.map(Nanos), "{text}");
        }
    }

    #[test]
    fn the_last_of_several_values_stands_for_the_rest() {
        let each = |value: &str| {
            let (mut into, setting) = ([1; 3], Setting { line: 1, key: "bs", value });
            setting.each(&mut into, "sizes", bytes).map(|()| into).map_err(|error| error.to_string())
        };
        assert_eq!(each("4k"), Ok([4096; 3]));
        assert_eq!(each("4k,8k"), Ok([4096, 8192, 8192]));
        assert_eq!(each(",8k,"), Ok([1, 8192, 1]));
        assert_eq!(each("1,2,3,4"), Err("line 1: `bs=1,2,3,4`: sizes".to_string()));
        assert_eq!(each(""), Err("line 1: `bs=`: sizes".to_string()));
    }
}
