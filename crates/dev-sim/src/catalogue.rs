//! The catalogue of devices: for each one the numbers of its kind's parameters, each with its source.
//!
//! An entry is a set of arguments: what a stack file could say is what the catalogue says, and the manifest of the kind
//! checks both alike. The files are `catalogue/*.toml` beside the sources; a device is added there and to the list of
//! names.

use std::collections::BTreeMap;

use esker_base::Nanos;
use esker_base::units::parse_size;
use esker_block::{Args, Kind, KindError, Value};
use toml::Table;

use crate::array_model;

const FILES: [(&str, &str); 3] = [
    ("disks.toml", include_str!("../catalogue/disks.toml")),
    ("ssds.toml", include_str!("../catalogue/ssds.toml")),
    ("nvm.toml", include_str!("../catalogue/nvm.toml")),
];

/// What `profile` of `disk-model` may say: the names in `disks.toml`.
pub(crate) const DISKS: &[&str] = &[
    "hdd-10k-1999",
    "hdd-10k-2016",
    "hdd-15k-2008",
    "hdd-5400-2008",
    "hdd-7200-2008",
    "hdd-7200-2016",
    "hdd-7200-2021",
    "hdd-7200-2022",
];
/// The names in `ssds.toml`.
pub(crate) const SSDS: &[&str] =
    &["flash-cf-2007", "flash-usb-2008", "ssd-nvme-2022", "ssd-qlc-2020", "ssd-sata-2010", "ssd-sata-2021"];
/// The names in `nvm.toml`.
pub(crate) const NVM: &[&str] = &["nvdimm-n-2016", "nvm-optane-2019", "nvm-optane-2019-six"];
/// What the members of an array may be.
pub(crate) const MEMBERS: &[&str] = &join::<{ DISKS.len() + SSDS.len() }>(DISKS, SSDS);

/// `first`, and `second` behind it; `N` is the length of both.
const fn join<const N: usize>(first: &[&'static str], second: &[&'static str]) -> [&'static str; N] {
    let (mut all, mut at) = ([""; N], 0);
    while at < N {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}

/// A device of the catalogue.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// What `profile` says to have it.
    pub name: String,
    /// The kind that models it.
    pub kind: String,
    /// The product: maker, model and capacity.
    pub what: String,
    /// What else there is to know of it, if anything.
    pub note: Option<String>,
    /// Year in which it was sold. The price is of that time.
    pub year: u32,
    /// Numbers by parameter.
    pub numbers: BTreeMap<String, Number>,
    /// Bytes that the maker's warranty lets the host write, if it says so. No model reads it.
    pub rated_writes: Option<u64>,
    capacity: u64,
    price_usd: f64,
}

impl Entry {
    /// Bytes that the host sees. A model rounds them down to whole blocks.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The capacity for people, with units of powers of ten, as makers write it.
    pub fn capacity_text(&self) -> String {
        let (unit, factor) = if self.capacity >= 1_000_000_000_000 { ("TB", 1e12) } else { ("GB", 1e9) };
        let value = self.capacity as f64 / factor;
        let digits = usize::from(value < 100.0);
        let text = format!("{value:.digits$}");
        format!("{} {unit}", text.trim_end_matches(".0"))
    }

    /// Price in US dollars, of the [`year`](Entry::year) in which the device was sold.
    pub fn price_usd(&self) -> f64 {
        self.price_usd
    }

    /// The price with its year, for people.
    pub fn price_text(&self) -> String {
        let estimate = if self.is_estimated("price_usd") { ", an estimate" } else { "" };
        format!("${} in {}{estimate}", self.price_usd, self.year)
    }

    /// Whether `kind` takes it by default, and what else there is to know.
    pub fn notes(&self, kind: &Kind) -> String {
        let default = self.is_default(kind).then_some("default");
        default.into_iter().chain(self.note.as_deref()).collect::<Vec<_>>().join("; ")
    }

    /// Whether `kind` takes it if its text names no profile.
    pub fn is_default(&self, kind: &Kind) -> bool {
        kind.param(PROFILE).is_some_and(|param| param.default == Some(&self.name))
    }

    /// Whether the number of this parameter is an estimate; `false` for a parameter that the entry is silent about.
    pub fn is_estimated(&self, param: &str) -> bool {
        self.numbers.get(param).is_some_and(Number::is_estimated)
    }

    /// Whether a power that the device may draw, in whatever state, is an estimate: an energy that is computed from it
    /// is one, too.
    pub fn power_is_estimated(&self) -> bool {
        self.numbers.iter().any(|(param, number)| param.ends_with(POWER) && number.is_estimated())
    }
}

/// The parameter of a kind that chooses an entry.
pub const PROFILE: &str = "profile";
/// A number of an entry that no kind has a parameter for.
const RATED_WRITES: &str = "rated_writes";
/// Parameters in watts end so.
const POWER: &str = "_w";
/// Sources of estimates begin so.
const ESTIMATE: &str = "estimate";

/// A number of the catalogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// As a stack file would write it.
    pub text: String,
    /// Where it comes from.
    pub source: String,
}

impl Number {
    /// Whether it is an estimate, whose reason the source says.
    pub fn is_estimated(&self) -> bool {
        self.source.starts_with(ESTIMATE)
    }
}

/// All devices, file by file and by name.
///
/// # Panics
/// Never on a released build: the files are compiled in, and a test reads them all.
pub fn all() -> Vec<Entry> {
    FILES.iter().flat_map(|(file, text)| read(text).unwrap_or_else(|error| panic!("{file}: {error}"))).collect()
}

/// What is wrong with the text of a catalogue file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum CatalogueError {
    /// It is no TOML.
    #[error(transparent)]
    Text(#[from] toml::de::Error),
    /// A device is something else than a table.
    #[error("{device}: expected a table for a device")]
    NoTable { device: String },
    /// A device lacks one of its words.
    #[error("{device}: expected {key} = \"text\"")]
    NoWord { device: String, key: &'static str },
    /// A device lacks its year.
    #[error("{device}: expected year = a year")]
    NoYear { device: String },
    /// A device lacks its capacity.
    #[error("{device}: expected capacity = [\"a size\", \"source\"]")]
    NoCapacity { device: String },
    /// A device lacks its price.
    #[error("{device}: expected price_usd = [\"a number\", \"source\"]")]
    NoPrice { device: String },
    /// A number without its source.
    #[error("{device}: {key}: expected [\"value\", \"source\"]")]
    NoPair { device: String, key: String },
    /// The writes of the warranty are no size.
    #[error("{device}: expected rated_writes = [\"a size\", \"source\"]")]
    NoRating { device: String },
    /// A source that the device does not list.
    #[error("{device}: {key}: source \"{source_name}\" is neither in sources nor an estimate")]
    NoSource { device: String, key: String, source_name: String },
}

/// Reads the text of a catalogue file.
///
/// # Errors
/// [`CatalogueError`].
pub fn read(text: &str) -> Result<Vec<Entry>, CatalogueError> {
    let file: Table = text.parse()?;
    let mut entries: Vec<Entry> = Vec::new();
    for (name, value) in &file {
        let table = value.as_table().ok_or_else(|| CatalogueError::NoTable { device: name.clone() })?;
        entries.push(entry(name, table)?);
    }
    Ok(entries)
}

fn entry(name: &str, table: &Table) -> Result<Entry, CatalogueError> {
    let device = || name.to_string();
    let word = |key: &'static str| {
        let found = table.get(key).and_then(|value| value.as_str());
        found.map(str::to_string).ok_or_else(|| CatalogueError::NoWord { device: device(), key })
    };
    let year = table.get("year").and_then(|value| value.as_integer()).and_then(|year| u32::try_from(year).ok());
    let empty = Table::new();
    let sources = table.get("sources").and_then(|value| value.as_table()).unwrap_or(&empty);
    let mut numbers = BTreeMap::new();
    for (key, value) in table {
        if !["kind", "what", "note", "year", "sources", RATED_WRITES].contains(&key.as_str()) {
            numbers.insert(key.clone(), number((name, key), value, sources)?);
        }
    }
    let year = year.ok_or_else(|| CatalogueError::NoYear { device: device() })?;
    let (kind, what, note) = (word("kind")?, word("what")?, word("note").ok());
    let text = |param: &str| numbers.get(param).map(|number: &Number| number.text.as_str());
    let rated_writes = match table.get(RATED_WRITES) {
        None => None,
        Some(value) => {
            let rating = number((name, RATED_WRITES), value, sources)?;
            Some(parse_size(&rating.text).map_err(|_| CatalogueError::NoRating { device: device() })?)
        }
    };
    let capacity = text("capacity").and_then(|text| parse_size(text).ok());
    let price_usd = text("price_usd").and_then(|text| text.parse().ok());
    let capacity = capacity.ok_or_else(|| CatalogueError::NoCapacity { device: device() })?;
    let price_usd = price_usd.ok_or_else(|| CatalogueError::NoPrice { device: device() })?;
    Ok(Entry { name: name.to_string(), kind, what, note, year, numbers, rated_writes, capacity, price_usd })
}

/// `["value", "source"]`, where the source is a key of the device's `sources` or begins with `estimate`; `place` is the
/// device and the number's key.
fn number(place: (&str, &str), value: &toml::Value, sources: &Table) -> Result<Number, CatalogueError> {
    let (device, key) = (place.0.to_string(), place.1.to_string());
    let pair: Option<Vec<&str>> = value.as_array().and_then(|both| both.iter().map(|part| part.as_str()).collect());
    let Some([text, source]) = pair.as_deref() else {
        return Err(CatalogueError::NoPair { device, key });
    };
    let source = match sources.get(*source).and_then(|found| found.as_str()) {
        Some(found) => found,
        None if source.starts_with(ESTIMATE) => source,
        None => return Err(CatalogueError::NoSource { device, key, source_name: source.to_string() }),
    };
    Ok(Number { text: text.to_string(), source: source.to_string() })
}

/// The devices that `profile` of `kind` may name: those that the kind models, and for an array what its members may be.
/// Capacity, price and power of such an entry are those of one member.
pub fn profiles(kind: &str) -> Vec<Entry> {
    let fits = |entry: &Entry| {
        let is_member = || array_model::MEMBERS.iter().any(|member| member.name == entry.kind);
        entry.kind == kind || (kind == array_model::KIND.name && is_member())
    };
    all().into_iter().filter(fits).collect()
}

/// The device of that name which `profile` of `kind` may name.
///
/// # Errors
/// [`KindError::BadValue`] with the names that exist.
pub fn find(kind: &str, name: &str) -> Result<Entry, KindError> {
    let profiles = profiles(kind);
    let names = || profiles.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = profiles.iter().find(|entry| entry.name == name).cloned();
    found.ok_or_else(|| KindError::BadValue {
        param: PROFILE.to_string(),
        text: name.to_string(),
        want: format!("one of {}", names()),
    })
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
        let mut numbers = Numbers::of_entry(kind, &find(kind.name, args.text(PROFILE))?)?;
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
    use esker_block::ParamType;

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
    fn the_choices_of_each_kind_are_the_names_of_the_catalogue() {
        let kinds = [&crate::disk_model::KIND, &crate::ssd_model::KIND, &crate::nvm_model::KIND, &array_model::KIND];
        for kind in kinds {
            let names: Vec<String> = profiles(kind.name).into_iter().map(|entry| entry.name).collect();
            let param = kind.param(PROFILE).unwrap();
            let ParamType::Choice(choices) = param.ty else { panic!("{}: profile is a choice", kind.name) };
            assert_eq!(names, choices, "{}: list new devices in the catalogue's names", kind.name);
            assert!(choices.contains(&param.default.unwrap()), "{}", kind.name);
        }
    }

    #[test]
    fn an_entry_tells_its_size_price_and_what_of_it_is_estimated() {
        let disk = find("disk-model", "hdd-7200-2021").unwrap();
        assert_eq!((disk.capacity(), disk.price_usd(), disk.year), (4_000_787_030_016, 150.0, 2021));
        assert_eq!((disk.what.as_str(), disk.capacity_text().as_str()), ("WD Ultrastar DC HC310, 4 TB", "4 TB"));
        assert!(disk.is_estimated("price_usd") && disk.is_estimated("active_w") && disk.power_is_estimated());
        assert!(!disk.is_estimated("seek_average") && !disk.is_estimated("no such number"));
        let ssd = find("ssd-model", "ssd-sata-2021").unwrap();
        assert_eq!((ssd.rated_writes, disk.rated_writes), (Some(600_000_000_000_000), None));
        assert!(!ssd.is_estimated("active_w") && ssd.is_estimated("die_w") && ssd.power_is_estimated());
        let texts = ["hdd-10k-1999", "hdd-10k-2016", "hdd-15k-2008"].map(|name| find("array-model", name).unwrap());
        assert_eq!(texts.map(|entry| entry.capacity_text()), ["9.2 GB", "2.4 TB", "450 GB"], "members of an array");
        let known = Entry {
            numbers: BTreeMap::from([("idle_w".into(), Number { text: "1".into(), source: "a sheet".into() })]),
            ..disk
        };
        assert!(!known.power_is_estimated());
    }

    #[test]
    fn damaged_entries_say_what_is_wrong() {
        for (text, words) in [
            ("x = 1", "x: expected a table"),
            ("[x]\nkind = \"k\"\nwhat = \"w\"", "x: expected year"),
            ("[x]\nyear = 1\nwhat = \"w\"", "x: expected kind"),
            ("[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1\na = 5", "x: a: expected [\"value\""),
            ("[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1\na = [\"5\", \"s\"]", "source \"s\" is neither"),
            ("[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1", "x: expected capacity"),
            (
                "[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1\ncapacity = [\"1GB\", \"estimate\"]\nprice_usd = [\"a\", \"estimate\"]",
                "x: expected price_usd",
            ),
            (
                "[x]\nkind = \"k\"\nwhat = \"w\"\nyear = 1\nrated_writes = [\"much\", \"estimate\"]",
                "x: expected rated_writes",
            ),
            ("[x", "TOML parse error"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn an_unknown_device_is_refused_with_those_that_exist() {
        let error = find("disk-model", "floppy").unwrap_err().to_string();
        assert!(error.contains("profile = \"floppy\": expected one of hdd-"), "{error}");
    }
}
