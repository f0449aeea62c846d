//! The catalogue of devices: for each one the numbers of its kind's parameters, each with its source.
//!
//! An entry is a set of arguments: what a stack file could say is what the catalogue says, and the manifest of the kind
//! checks both alike. The files are `catalogue/*.toml` beside the sources.

use std::collections::BTreeMap;

use esker_base::Nanos;
use esker_block::{Args, Kind, KindError, Value};
use toml::Table;

const FILES: [(&str, &str); 3] = [
    ("disks.toml", include_str!("../catalogue/disks.toml")),
    ("ssds.toml", include_str!("../catalogue/ssds.toml")),
    ("nvm.toml", include_str!("../catalogue/nvm.toml")),
];

/// A device of the catalogue.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// What `profile` says to have it.
    pub name: String,
    /// The kind that models it.
    pub kind: String,
    /// Maker and model.
    pub what: String,
    /// Year in which it was sold.
    pub year: u32,
    /// Numbers by parameter.
    pub numbers: BTreeMap<String, Number>,
}

/// A number of the catalogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// As a stack file would write it.
    pub text: String,
    /// Where it comes from.
    pub source: String,
}

/// All devices, in the order of the files.
///
/// # Panics
/// Never on a released build: the files are compiled in, and a test reads them all.
pub fn all() -> Vec<Entry> {
    FILES.iter().flat_map(|(file, text)| read(text).unwrap_or_else(|error| panic!("{file}: {error}"))).collect()
}

/// Reads the text of a catalogue file.
///
/// # Errors
/// What is wrong and where, in words.
pub fn read(text: &str) -> Result<Vec<Entry>, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut entries: Vec<Entry> = Vec::new();
    for (name, value) in &file {
        let table = value.as_table().ok_or_else(|| format!("{name}: expected a table for a device"))?;
        entries.push(entry(name, table).map_err(|error| format!("{name}: {error}"))?);
    }
    Ok(entries)
}

fn entry(name: &str, table: &Table) -> Result<Entry, String> {
    let word = |key: &str| {
        let found = table.get(key).and_then(|value| value.as_str());
        found.map(str::to_string).ok_or_else(|| format!("expected {key} = \"text\""))
    };
    let year = table.get("year").and_then(|value| value.as_integer()).and_then(|year| u32::try_from(year).ok());
    let empty = Table::new();
    let sources = table.get("sources").and_then(|value| value.as_table()).unwrap_or(&empty);
    let mut numbers = BTreeMap::new();
    for (key, value) in table {
        if !["kind", "what", "year", "sources"].contains(&key.as_str()) {
            numbers.insert(key.clone(), number(value, sources).map_err(|error| format!("{key}: {error}"))?);
        }
    }
    let year = year.ok_or("expected year = a year")?;
    Ok(Entry { name: name.to_string(), kind: word("kind")?, what: word("what")?, year, numbers })
}

/// `["value", "source"]`, where the source is a key of the device's `sources` or begins with `estimate`.
fn number(value: &toml::Value, sources: &Table) -> Result<Number, String> {
    let pair: Option<Vec<&str>> = value.as_array().and_then(|both| both.iter().map(|part| part.as_str()).collect());
    let Some([text, source]) = pair.as_deref() else {
        return Err("expected [\"value\", \"source\"]".to_string());
    };
    let source = match sources.get(*source).and_then(|found| found.as_str()) {
        Some(found) => found,
        None if source.starts_with("estimate") => source,
        None => return Err(format!("source \"{source}\" is neither in sources nor an estimate")),
    };
    Ok(Number { text: text.to_string(), source: source.to_string() })
}

/// The device of that name which `kind` models.
///
/// # Errors
/// [`KindError::BadValue`] with the names that exist.
pub fn find(kind: &str, name: &str) -> Result<Entry, KindError> {
    let found = all().into_iter().find(|entry| entry.kind == kind && entry.name == name);
    found.ok_or_else(|| unknown(name, |entry| entry.kind == kind))
}

/// The error for a name that is none of the devices that would fit.
pub(crate) fn unknown(name: &str, fits: impl Fn(&Entry) -> bool) -> KindError {
    let names: Vec<String> = all().into_iter().filter(|entry| fits(entry)).map(|entry| entry.name).collect();
    let want = format!("one of {}", names.join(", "));
    KindError::BadValue { param: "profile".to_string(), text: name.to_string(), want }
}

/// The numbers of one device: those of its arguments, and of its catalogue entry where the arguments are silent.
#[derive(Clone, Debug)]
pub struct Numbers {
    values: BTreeMap<String, Value>,
    whose: String,
}

impl Numbers {
    /// The numbers that `args` of `kind` give: of the entry that `profile` names, and what is said instead of them.
    ///
    /// # Errors
    /// An unknown name, and what [`Numbers::of_entry`] refuses.
    pub fn of_args(kind: &Kind, args: &Args) -> Result<Numbers, KindError> {
        let mut numbers = Numbers::of_entry(kind, &find(kind.name, args.text("profile"))?)?;
        let given =
            kind.params.iter().filter_map(|param| Some((param.name.to_string(), args.get(param.name)?.clone())));
        numbers.values.extend(given);
        Ok(numbers)
    }

    /// The numbers of an entry.
    ///
    /// # Errors
    /// A number that `kind` has no parameter for, or cannot read.
    pub fn of_entry(kind: &Kind, entry: &Entry) -> Result<Numbers, KindError> {
        let mut values = BTreeMap::new();
        for (name, number) in &entry.numbers {
            let param = kind.param(name).ok_or_else(|| {
                KindError::Unfit(format!("{}: {} has no parameter \"{name}\"", entry.name, kind.name))
            })?;
            values.insert(name.clone(), param.read(&number.text)?);
        }
        Ok(Numbers { values, whose: entry.name.clone() })
    }

    fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T, KindError> {
        value.ok_or_else(|| KindError::Unfit(format!("{}: its {name} is not known; give {name} = ...", self.whose)))
    }

    /// A size or count, or a span in nanoseconds, that may be unknown.
    pub fn int_opt(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// A size or count.
    ///
    /// # Errors
    /// Unknown, here and in the other getters.
    pub fn int(&self, name: &str) -> Result<u64, KindError> {
        self.needed(name, self.int_opt(name))
    }

    /// A count that fits 32 bits; larger ones become the largest.
    pub fn count(&self, name: &str) -> Result<u32, KindError> {
        self.int(name).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// A span.
    pub fn span(&self, name: &str) -> Result<Nanos, KindError> {
        self.int(name).map(Nanos)
    }

    /// A number that may be unknown.
    pub fn float_opt(&self, name: &str) -> Option<f64> {
        match self.values.get(name) {
            Some(Value::Float(x)) => Some(*x),
            _ => None,
        }
    }

    /// A number.
    pub fn float(&self, name: &str) -> Result<f64, KindError> {
        self.needed(name, self.float_opt(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_parameter_of_its_kind_and_has_a_source() {
        let kinds = [&crate::disk_model::KIND, &crate::ssd_model::KIND];
        let entries = all();
        assert!(entries.len() >= 10, "{}", entries.len());
        for entry in &entries {
            let Some(kind) = kinds.iter().find(|kind| kind.name == entry.kind) else { continue };
            let numbers = Numbers::of_entry(kind, entry).unwrap();
            assert!(numbers.int("capacity").unwrap() > 0, "{}", entry.name);
            assert!(entry.numbers.values().all(|number| number.source.len() > 8), "{}: sources say where", entry.name);
            let defaults = entry.numbers.keys().find(|name| kind.param(name).is_some_and(|p| p.default.is_some()));
            assert_eq!(defaults, None, "{}: a default would hide it", entry.name);
        }
    }

    #[test]
    fn damaged_entries_say_what_is_wrong() {
        for (text, words) in [
            ("x = 1", "x: expected a table"),
            ("[x]\nkind = \"k\"\nwhat = \"w\"", "x: expected year"),
            ("[x]\nyear = 1\nwhat = \"w\"", "x: expected kind"),
            ("[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1\na = 5", "x: a: expected [\"value\""),
            ("[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1\na = [\"5\", \"s\"]", "source \"s\" is neither"),
            ("[x", "TOML parse error"),
        ] {
            assert!(read(text).unwrap_err().contains(words), "{text}: {}", read(text).unwrap_err());
        }
    }

    #[test]
    fn an_unknown_device_is_refused_with_those_that_exist() {
        let error = find("disk-model", "floppy").unwrap_err().to_string();
        assert!(error.contains("profile = \"floppy\": expected one of hdd-"), "{error}");
    }
}
