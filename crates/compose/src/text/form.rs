//! What TOML says, before names mean anything.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::error::{Problem, TextErrors};

/// Tables by name.
pub(super) type Named<T> = BTreeMap<Spanned<String>, T>;

/// The whole text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub stack: Option<Spanned<Names>>,
    pub goals: Option<Spanned<Names>>,
    #[serde(default)]
    pub volume: Named<VolumeForm>,
    #[serde(default)]
    pub extension: Named<ExtensionForm>,
    #[serde(default)]
    pub constraints: ConstraintsForm,
    /// The stack's text, which has a reader of its own.
    #[serde(rename = "device")]
    _device: Option<IgnoredAny>,
    #[serde(rename = "export")]
    _export: Option<IgnoredAny>,
    #[serde(rename = "mount")]
    _mount: Option<IgnoredAny>,
}

/// `[volume.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeForm {
    pub visible: Option<bool>,
    pub weight: Option<std::num::NonZeroU32>,
    pub goals: Option<Spanned<Names>>,
}

/// `[extension.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtensionForm {
    pub goal: Option<Spanned<Names>>,
    pub input: Option<Spanned<Names>>,
    pub output: Option<Spanned<Names>>,
    pub properties: Option<Spanned<Names>>,
    pub forward: Option<Spanned<Routes>>,
    pub generate: Option<Spanned<Routes>>,
    #[serde(default)]
    pub spontaneous: bool,
}

/// `[constraints]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ConstraintsForm {
    #[serde(default)]
    pub above: Vec<Spanned<Names>>,
    #[serde(default)]
    pub forbidden: Vec<Spanned<Names>>,
    #[serde(default)]
    pub pinned: Named<usize>,
    pub starved_max: Option<usize>,
}

/// One name, or a list of them.
pub(super) struct Names(pub Vec<String>);

/// Where requests go: to the same volumes from all inputs, or to others from each.
pub(super) enum Routes {
    All(Names),
    Each(BTreeMap<String, Names>),
}

/// Reads the form.
pub(super) fn read(file: &str, text: &str) -> Result<Document, TextErrors> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let message = error.message().trim().replace('\n', ", ");
        TextErrors::one(file, line_of(text, at), Problem::Form(message))
    })
}

/// The line of an offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or a list of names")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Names, E> {
        Ok(Names(vec![name.to_string()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(Names(names))
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Names, D::Error> {
        from.deserialize_any(NamesVisitor)
    }
}

struct RoutesVisitor;

impl<'de> Visitor<'de> for RoutesVisitor {
    type Value = Routes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a volume, a list of volumes, or a table of them by input volume")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Routes, E> {
        NamesVisitor.visit_str(name).map(Routes::All)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Routes, A::Error> {
        NamesVisitor.visit_seq(list).map(Routes::All)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Routes, A::Error> {
        let mut routes = BTreeMap::new();
        while let Some((volume, names)) = map.next_entry()? {
            routes.insert(volume, names);
        }
        Ok(Routes::Each(routes))
    }
}

impl<'de> Deserialize<'de> for Routes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Routes, D::Error> {
        from.deserialize_any(RoutesVisitor)
    }
}
