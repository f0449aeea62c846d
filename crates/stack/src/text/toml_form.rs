//! Reads the TOML form: `[device.NAME]`, `[[export]]` and `[[mount]]` tables.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

use super::error::{Problem, TextError, TextErrors};
use super::mount::{name_of, split_options};
use super::{DeviceSpec, ExportSpec, KernelCache, Location, MountSpec, Spec};

type Key<'i> = Spanned<toml::de::DeString<'i>>;
type Item<'i> = Spanned<DeValue<'i>>;

/// Reads a whole text and reports everything that is not of the form.
pub(super) fn parse(file: &str, text: &str) -> Result<Spec, TextErrors> {
    let mut reader = Reader { file: file.to_string(), starts: line_starts(text), found: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(text.len(), |span| span.start);
        reader.error(at, Problem::NotToml(error.message().to_string()));
    }
    // What the library recovered from a broken text would only raise errors about what it lost.
    TextErrors::none(std::mem::take(&mut reader.found))?;
    let spec = reader.document(table.get_ref());
    TextErrors::none(reader.found)?;
    Ok(spec)
}

/// Offsets at which lines start.
fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// A table's entries in the order of the text.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Key<'i>, &'a Item<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

struct Reader {
    file: String,
    starts: Vec<usize>,
    found: Vec<TextError>,
}

impl Reader {
    fn line(&self, offset: usize) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    fn place(&self, offset: usize) -> Location {
        Location { file: self.file.clone(), line: self.line(offset) }
    }

    fn error(&mut self, offset: usize, problem: Problem) {
        let place = self.place(offset);
        self.found.push(problem.at(place));
    }

    fn syntax(&mut self, offset: usize, what: impl Into<String>, fix: impl Into<String>) {
        self.error(offset, Problem::syntax(what, fix));
    }

    fn document(&mut self, table: &DeTable<'_>) -> Spec {
        let mut spec = Spec::default();
        for (key, item) in in_order(table) {
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("device", DeValue::Table(devices)) => {
                    spec.devices = in_order(devices).into_iter().filter_map(|(k, i)| self.device(k, i)).collect();
                }
                ("export", DeValue::Array(exports)) => {
                    spec.exports = exports.iter().filter_map(|item| self.export(item)).collect();
                }
                ("mount", DeValue::Array(mounts)) => {
                    spec.mounts = mounts.iter().filter_map(|item| self.mount(item)).collect();
                }
                ("device", _) => self.syntax(key.span().start, "`device` is no table", "write [device.NAME]"),
                ("mount", _) => self.syntax(key.span().start, "`mount` is no list", "write [[mount]]"),
                ("export", _) => self.syntax(key.span().start, "`export` is no list", "write [[export]]"),
                (other, _) => {
                    let what = format!("unknown key `{other}`");
                    let fix = "only [device.NAME], [[export]] and [[mount]] stand at the top";
                    self.syntax(key.span().start, what, fix);
                }
            }
        }
        spec
    }

    fn device(&mut self, name: &Key<'_>, item: &Item<'_>) -> Option<DeviceSpec> {
        let start = name.span().start;
        let name = name.get_ref().as_ref();
        let DeValue::Table(table) = item.get_ref() else {
            self.syntax(start, format!("device \"{name}\" is no table"), format!("write [device.{name}]"));
            return None;
        };
        let mut device = DeviceSpec::new(name, "", Vec::new(), BTreeMap::new(), self.place(start));
        for (key, item) in in_order(table) {
            let (at, key) = (key.span().start, key.get_ref().to_string());
            device.lines.insert(key.clone(), self.line(at));
            match key.as_str() {
                "kind" => device.kind = self.text(at, "kind", item).unwrap_or_default(),
                "on" => device.on = self.texts(at, "on", item),
                _ => {
                    let value = self.scalar(at, &key, item);
                    device.args.extend(value.map(|value| (key, value)));
                }
            }
        }
        if !device.lines.contains_key("kind") {
            let (what, example) = (format!("device \"{name}\""), "kind = \"file\", or another kind");
            self.error(start, Problem::NoKey { what, key: "kind", example });
        }
        Some(device)
    }

    fn export(&mut self, item: &Item<'_>) -> Option<ExportSpec> {
        let start = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            self.syntax(start, "an export is no table", "write [[export]] and its keys below");
            return None;
        };
        let (mut name, mut device, mut nbd, mut read_only) = (None, None, None, false);
        for (key, item) in in_order(table) {
            let (at, key) = (key.span().start, key.get_ref().as_ref());
            match (key, item.get_ref()) {
                ("name", _) => name = self.text(at, key, item),
                ("device", _) => device = self.text(at, key, item),
                ("nbd", _) => nbd = self.text(at, key, item),
                ("read_only", DeValue::Boolean(flag)) => read_only = *flag,
                ("read_only", _) => self.syntax(at, "`read_only` is no flag", "write true or false"),
                _ => {
                    let what = format!("an export has no key `{key}`");
                    self.syntax(at, what, "it has name, device, nbd and read_only");
                }
            }
        }
        let has = |key: &str| table.keys().any(|k| k.get_ref() == key);
        for (key, example) in [("name", "name = \"vol\""), ("device", "device = \"NAME\"")] {
            if !has(key) {
                self.error(start, Problem::NoKey { what: "an export".to_string(), key, example });
            }
        }
        Some(ExportSpec { name: name?, device: device?, nbd, read_only, at: self.place(start) })
    }

    fn mount(&mut self, item: &Item<'_>) -> Option<MountSpec> {
        let start = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            self.syntax(start, "a mount is no table", "write [[mount]] and its keys below");
            return None;
        };
        let (mut name, mut fs, mut dir, mut device) = (None, None, None, None);
        let (mut cache, mut options) = (KernelCache::default(), Vec::new());
        for (key, item) in in_order(table) {
            let (at, key) = (key.span().start, key.get_ref().as_ref());
            match key {
                "name" => name = self.text(at, key, item),
                "fs" => fs = self.text(at, key, item),
                "at" => dir = self.text(at, key, item),
                "device" => device = self.text(at, key, item),
                "cache" => cache = self.cache(at, item),
                "options" => options = self.texts(at, key, item).iter().flat_map(|text| split_options(text)).collect(),
                _ => {
                    let what = format!("a mount has no key `{key}`");
                    self.syntax(at, what, "it has name, fs, at, device, cache and options");
                }
            }
        }
        let has = |key: &str| table.keys().any(|k| k.get_ref() == key);
        for (key, example) in [("fs", "fs = \"ram\", or another kind"), ("at", "at = \"/mnt/x\", or another directory")]
        {
            if !has(key) {
                self.error(start, Problem::NoKey { what: "a mount".to_string(), key, example });
            }
        }
        let (fs, dir) = (fs?, dir?);
        let name = if has("name") { name } else { self.name_of(start, &dir) };
        Some(MountSpec { name: name?, fs, dir, device, cache, options, at: self.place(start) })
    }

    fn name_of(&mut self, start: usize, dir: &str) -> Option<String> {
        let name = name_of(dir);
        if name.is_none() {
            let what = format!("the mount at \"{dir}\"");
            self.error(start, Problem::NoKey { what, key: "name", example: "name = \"scratch\", or another name" });
        }
        name
    }

    fn cache(&mut self, at: usize, item: &Item<'_>) -> KernelCache {
        let Some(word) = self.text(at, "cache", item) else { return KernelCache::default() };
        KernelCache::of(&word).unwrap_or_else(|| {
            self.error(at, Problem::no_cache(&word));
            KernelCache::default()
        })
    }

    fn text(&mut self, at: usize, key: &str, item: &Item<'_>) -> Option<String> {
        let text = item.get_ref().as_str().map(str::to_string);
        if text.is_none() {
            self.syntax(at, format!("`{key}` is no text"), format!("write {key} = \"...\""));
        }
        text
    }

    /// One text, or a list of them.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a value of TOML is foreign")]
    fn texts(&mut self, at: usize, key: &str, item: &Item<'_>) -> Vec<String> {
        match item.get_ref() {
            DeValue::String(one) => vec![one.to_string()],
            DeValue::Array(list) => self.list(at, key, list),
            _ => {
                let what = format!("`{key}` is neither a text nor a list");
                self.syntax(at, what, format!("write {key} = \"A\" or {key} = [\"A\", \"B\"]"));
                Vec::new()
            }
        }
    }

    fn list(&mut self, at: usize, key: &str, list: &DeArray<'_>) -> Vec<String> {
        let texts: Vec<String> = list.iter().filter_map(|item| item.get_ref().as_str()).map(str::to_string).collect();
        if texts.len() < list.len() {
            let what = format!("the list `{key}` holds something else than texts");
            self.syntax(at, what, format!("write {key} = [\"A\", \"B\"]"));
        }
        texts
    }

    /// The text of a parameter's value, which its kind reads.
    fn scalar(&mut self, at: usize, key: &str, item: &Item<'_>) -> Option<String> {
        match item.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(decimal(number)),
            DeValue::Float(number) => Some(number.as_str().to_string()),
            DeValue::Boolean(flag) => Some(flag.to_string()),
            other @ (DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_)) => {
                let what = format!("parameter `{key}` is a {}", other.type_str());
                self.syntax(at, what, "a parameter is one text, number or flag");
                None
            }
        }
    }
}

/// A whole number in base ten; one beyond 128 bits stays as it is and is refused by its reader.
fn decimal(number: &DeInteger<'_>) -> String {
    match (number.radix(), u128::from_str_radix(number.as_str(), number.radix())) {
        (10, _) | (_, Err(_)) => number.to_string(),
        (_, Ok(value)) => value.to_string(),
    }
}
