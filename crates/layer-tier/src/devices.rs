//! The parameter `devices`: a sheet for each end, in their order.

use esker_base::units::{parse_size, parse_span};
use esker_tiering::Sheet;
use esker_tiering::sheet::{SAS, SATA, SSD};

/// The devices of one end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Devices {
    /// What each of them is.
    pub(crate) sheet: Sheet,
    /// How many there are: an end may be an array.
    pub(crate) count: u32,
}

impl Devices {
    /// Sequential MB (10^6 bytes) per second of all of them.
    pub(crate) fn mb_per_s(&self) -> f64 {
        self.sheet.mb_per_s * f64::from(self.count)
    }
}

/// Devices whose sheet is known, with their places in the table of the thesis.
const KNOWN: [(&str, usize); 6] = [
    ("ssd-sata-2010", SSD),
    ("hdd-15k-2008", SAS),
    ("hdd-7200-2008", SATA),
    ("ssd", SSD),
    ("sas", SAS),
    ("sata", SATA),
];

/// Keys without which an unknown device has no sheet.
const NEEDED: [&str; 4] = ["usd", "bytes", "rtime", "xtime"];

/// Reads sheets such as `ssd-sata-2010; hdd-15k-2008 x4; hdd-7200-2008(usd=110) x4`.
///
/// # Errors
/// The part that cannot be read, and what would be right.
pub(crate) fn parse(text: &str) -> Result<Vec<Devices>, String> {
    text.split(';')
        .map(|part| parse_one(part.trim()).map_err(|why| format!("devices: \"{}\": {why}", part.trim())))
        .collect()
}

fn parse_one(part: &str) -> Result<Devices, String> {
    let (head, rest) = match part.split_once('(') {
        Some((name, rest)) => {
            let (keys, rest) = rest.split_once(')').ok_or("a bracket is not closed; write NAME(KEY=VALUE) xCOUNT")?;
            ((name.trim(), keys), rest.trim())
        }
        None => {
            let (name, rest) = part.split_once(' ').unwrap_or((part, ""));
            ((name, ""), rest.trim())
        }
    };
    let (name, keys) = head;
    if name.is_empty() {
        return Err("there is no name; write NAME, NAME xCOUNT or NAME(KEY=VALUE, ...)".to_string());
    }
    Ok(Devices { sheet: sheet(name, keys)?, count: count(rest)? })
}

fn count(text: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Ok(1);
    }
    let count = text.strip_prefix('x').and_then(|count| count.trim().parse().ok()).filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{text}` is no number of devices; write x4 for four"))
}

fn sheet(name: &str, keys: &str) -> Result<Sheet, String> {
    let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, at)| Sheet::thesis()[*at].clone());
    let is_known = known.is_some();
    let mut sheet = Sheet { name: name.to_string(), ..known.unwrap_or_else(blank) };
    let mut given = Vec::new();
    for pair in keys.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is no KEY=VALUE"))?;
        set(&mut sheet, key.trim(), value.trim())?;
        given.push(key.trim());
    }
    let is_given = |key: &str| given.contains(&key);
    if let Some(missing) = NEEDED.iter().find(|key| !is_known && !is_given(key)) {
        let known = KNOWN.map(|(name, _)| name).join(", ");
        return Err(format!("no sheet of `{name}` is known, so it needs `{missing}`; known are {known}"));
    }
    if is_given("rtime") {
        if !is_given("rtime_write") {
            sheet.rtime_write_s = sheet.rtime_s;
        }
        if !is_given("iops") {
            sheet.iops = 1.0 / sheet.rtime_s;
        }
    }
    if is_given("xtime") && !is_given("mb_per_s") {
        sheet.mb_per_s = 1.0 / sheet.xtime_s_per_mb;
    }
    if sheet.is_sound() { Ok(sheet) } else { Err("a number is zero, negative or none at all".to_string()) }
}

/// A sheet of which nothing is known.
fn blank() -> Sheet {
    Sheet {
        name: String::new(),
        usd: 0.0,
        bytes: 0.0,
        idle_w: 0.0,
        active_w: 0.0,
        standby_w: 0.0,
        rtime_s: 0.0,
        rtime_write_s: 0.0,
        xtime_s_per_mb: 0.0,
        iops: 0.0,
        mb_per_s: 0.0,
        spin_up_s: 0.0,
    }
}

fn set(sheet: &mut Sheet, key: &str, value: &str) -> Result<(), String> {
    let number = || value.parse::<f64>().map_err(|_| format!("`{key}={value}`: expected a number"));
    let span = || parse_span(value).map(|span| span.as_secs_f64()).map_err(|error| format!("`{key}`: {error}"));
    let size = || parse_size(value).map(|bytes| bytes as f64).map_err(|error| format!("`{key}`: {error}"));
    match key {
        "usd" => sheet.usd = number()?,
        "bytes" => sheet.bytes = size()?,
        "idle_w" => sheet.idle_w = number()?,
        "active_w" => sheet.active_w = number()?,
        "standby_w" => sheet.standby_w = number()?,
        "rtime" => sheet.rtime_s = span()?,
        "rtime_write" => sheet.rtime_write_s = span()?,
        "xtime" => sheet.xtime_s_per_mb = span()?,
        "iops" => sheet.iops = number()?,
        "mb_per_s" => sheet.mb_per_s = number()?,
        "spin_up" => sheet.spin_up_s = span()?,
        _ => {
            return Err(format!(
                "there is no key `{key}`; there are usd, bytes, idle_w, active_w, standby_w, rtime, rtime_write, xtime, iops, \
                 mb_per_s and spin_up"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheets_come_from_the_table_and_from_keys() {
        let found = parse("ssd-sata-2010; hdd-15k-2008 x4; hdd-7200-2008(usd=110) x4").unwrap();
        assert_eq!(found.iter().map(|one| one.count).collect::<Vec<_>>(), [1, 4, 4]);
        assert_eq!(found.iter().map(|one| one.sheet.usd).collect::<Vec<_>>(), [430.0, 325.0, 110.0]);
        assert_eq!((found[1].sheet.rtime_s, found[1].mb_per_s()), (0.00375, 800.0));
        let own = parse("mine(usd=20, bytes=1000000, rtime=2ms, xtime=10ms)").unwrap();
        let sheet = &own[0].sheet;
        assert_eq!((sheet.bytes, sheet.iops, sheet.mb_per_s, sheet.rtime_write_s), (1e6, 500.0, 100.0, 0.002));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("ssd; ", "there is no name"),
            ("sas 4", "write x4 for four"),
            ("sas x0", "write x4 for four"),
            ("tape", "so it needs `usd`"),
            ("tape(usd=1, bytes=1GiB, rtime=1ms)", "so it needs `xtime`"),
            ("sas(rtime=0)", "a number is zero"),
            ("sas(price=1)", "there is no key `price`"),
            ("sas(usd=1", "a bracket is not closed"),
            ("sas(usd)", "is no KEY=VALUE"),
            ("sas(usd=much)", "expected a number"),
        ];
        for (text, why) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("devices: \"") && error.contains(why), "{text}: {error}");
        }
    }
}
