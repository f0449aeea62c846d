//! Another order in a TOML text: only references that change and the key `stack` are written, so that comments and
//! layout stay as they are.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A reference that leads elsewhere from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Link {
    /// A lower device of a device.
    On {
        /// The device.
        device: String,
        /// Which of its lower devices.
        at: usize,
        /// What it stands on now.
        to: String,
    },
    /// The device behind an export.
    Export {
        /// Which export, in the order of the text.
        at: usize,
        /// What it offers now.
        to: String,
    },
    /// The device under a mount.
    Mount {
        /// Which mount, in the order of the text.
        at: usize,
        /// What it lies on now.
        to: String,
    },
}

/// Why an order cannot be written into a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unwritable {
    /// It is no TOML.
    #[error("the text is no TOML")]
    NotToml,
    /// What should change is not there.
    #[error("the text has no {0}")]
    Missing(String),
}

type Item<'i> = Spanned<DeValue<'i>>;

/// The text with other references.
///
/// # Errors
/// [`Unwritable`]
pub fn relinked(text: &str, links: &[Link]) -> Result<String, Unwritable> {
    let table = DeTable::parse(text).map_err(|_| Unwritable::NotToml)?;
    let mut edits = Vec::new();
    for link in links {
        let (found, to) = match link {
            Link::On { device, at, to } => (lower_end(table.get_ref(), device, *at), to),
            Link::Export { at, to } => (listed(table.get_ref(), "export", *at), to),
            Link::Mount { at, to } => (listed(table.get_ref(), "mount", *at), to),
        };
        let span = found.ok_or_else(|| Unwritable::Missing(format!("place for {link:?}")))?;
        edits.push((span, quoted(to)));
    }
    Ok(edited(text, edits))
}

/// The text with this value of the key `stack`; and whether comments inside the old value are lost.
///
/// # Errors
/// [`Unwritable`]
pub fn with_stack(text: &str, names: &[&str]) -> Result<(String, bool), Unwritable> {
    let table = DeTable::parse(text).map_err(|_| Unwritable::NotToml)?;
    let list = format!("[{}]", names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "));
    match table.get_ref().get("stack") {
        Some(old) => {
            let is_lossy = text[old.span()].contains('#');
            Ok((edited(text, vec![(old.span(), list)]), is_lossy))
        }
        // Keys of the document itself come before its first table.
        None => Ok((format!("stack = {list}\n{}{text}", if text.starts_with('[') { "\n" } else { "" }), false)),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a value of TOML is foreign")]
fn lower_end(table: &DeTable<'_>, device: &str, at: usize) -> Option<Range<usize>> {
    let devices = table.get("device")?.get_ref().as_table()?;
    let on = devices.get(device)?.get_ref().as_table()?.get("on")?;
    match on.get_ref() {
        DeValue::Array(list) => list.get(at).map(Spanned::span),
        _ if at == 0 => Some(on.span()),
        _ => None,
    }
}

/// The device of an element of a list.
fn listed(table: &DeTable<'_>, list: &str, at: usize) -> Option<Range<usize>> {
    let DeValue::Array(elements) = table.get(list)?.get_ref() else { return None };
    let element: &Item<'_> = elements.get(at)?;
    element.get_ref().as_table()?.get("device").map(Spanned::span)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// The text with other words at some places, which do not overlap.
fn edited(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    edits.into_iter().fold(text.to_string(), |mut text, (span, new)| {
        text.replace_range(span, &new);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# head\ngoals = [\"space\"] # wanted\n[device.top]\nkind = \"tap\"\non = 'low'  # the lower one\n\
                        [device.pair]\nkind = \"mirror\"\non = [\n  \"a.x\", # first\n  \"b\",\n]\n\n\
                        [[export]]\nname = \"one\"\ndevice = \"pair\"\n[[export]]\nname = \"top\"\ndevice = \"top\" # main\n";

    fn on(device: &str, at: usize, to: &str) -> Link {
        Link::On { device: device.to_string(), at, to: to.to_string() }
    }

    #[test]
    fn only_the_references_change() {
        let links = [on("top", 0, "new"), on("pair", 0, "c.y"), Link::Export { at: 1, to: "pair".to_string() }];
        let wanted = TEXT
            .replace("'low'", "\"new\"")
            .replace("\"a.x\"", "\"c.y\"")
            .replace("device = \"top\" #", "device = \"pair\" #");
        assert_eq!(relinked(TEXT, &links).as_deref(), Ok(wanted.as_str()));
        assert_eq!(relinked(TEXT, &[]).as_deref(), Ok(TEXT));
    }

    #[test]
    fn every_way_to_write_a_table_is_found() {
        let text = "device = { a = { kind = \"x\", on = [\"b\"] }, c.on = \"d\" }\nexport = [{ device = \"a\" }]\n\
                    [[mount]]\nfs = \"ram\"\n[[mount]]\ndevice = \"a\"\n";
        let (export, mount) = (Link::Export { at: 0, to: "3".to_string() }, Link::Mount { at: 1, to: "4".to_string() });
        let links = [on("a", 0, "1"), on("c", 0, "2"), export, mount];
        let wanted = "device = { a = { kind = \"x\", on = [\"1\"] }, c.on = \"2\" }\nexport = [{ device = \"3\" }]\n\
                      [[mount]]\nfs = \"ram\"\n[[mount]]\ndevice = \"4\"\n";
        assert_eq!(relinked(text, &links).as_deref(), Ok(wanted));
        assert!(relinked(text, &[Link::Mount { at: 0, to: "x".to_string() }]).is_err(), "it lies on no device");
    }

    #[test]
    fn a_place_that_is_not_there_and_another_form_are_refused() {
        for link in [on("none", 0, "x"), on("top", 1, "x"), on("pair", 2, "x")] {
            assert!(matches!(relinked(TEXT, &[link]), Err(Unwritable::Missing(_))));
        }
        assert_eq!(relinked("vol = memory size=1MiB @", &[]), Err(Unwritable::NotToml));
        assert_eq!(with_stack("vol = memory size=1MiB @", &["a"]), Err(Unwritable::NotToml));
    }

    #[test]
    fn the_key_stack_is_replaced_or_comes_first() {
        let (text, is_lossy) = with_stack(TEXT, &["top", "pair"]).unwrap();
        assert_eq!((text, is_lossy), (format!("stack = [\"top\", \"pair\"]\n{TEXT}"), false));
        let (text, _) = with_stack("[volume.D]\n", &["a"]).unwrap();
        assert_eq!(text, "stack = [\"a\"]\n\n[volume.D]\n");
        let old = format!("stack = [\"pair\", # why\n\"top\"] # kept\n{TEXT}");
        let (text, is_lossy) = with_stack(&old, &["top", "pair"]).unwrap();
        assert_eq!((text, is_lossy), (format!("stack = [\"top\", \"pair\"] # kept\n{TEXT}"), true));
    }
}
