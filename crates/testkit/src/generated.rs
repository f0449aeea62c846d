//! Marked blocks of documents: text between `<!-- generated: NAME -->` and `<!-- end -->` that records say, not people.
//!
//! A test hands each block to [`check`]. `cargo xtask docs` runs these tests so that they write instead.

#![allow(clippy::disallowed_methods, reason = "it reads and writes the documents of the tree")]

use std::fs;
use std::path::Path;

/// Environment variable: if it is set, blocks that differ are written.
pub const VARIABLE: &str = "ESKER_DOCS";
const BEGIN: &str = "<!-- generated: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end -->";

/// What a block holds, and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The document, from the root of the tree.
    pub page: String,
    /// Its name in the mark; no other block of the page has it.
    pub name: String,
    /// Markdown.
    pub text: String,
}

/// Whether a file of the tree, named from its root, holds this text; writes it there if [`VARIABLE`] is set.
///
/// # Errors
/// The file, and how to mend it.
pub fn check_file(name: &str, text: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        Ok(())
    } else if std::env::var_os(VARIABLE).is_some() {
        fs::write(&path, text).map_err(|error| format!("{name}: {error}"))
    } else {
        Err(format!("{name} is not what its records say; run its test with {VARIABLE}=1"))
    }
}

/// Checks or writes, as [`check_file`] does, a file with this JSON.
///
/// # Panics
/// With the file, and how to mend it.
pub fn check_json(name: &str, value: &serde_json::Value) {
    let text = serde_json::to_string_pretty(value).expect("a value is JSON") + "\n";
    check_file(name, &text).unwrap_or_else(|error| panic!("{error}"));
}

/// Whether the block stands in its page as it is; writes it there if [`VARIABLE`] is set.
///
/// # Errors
/// The block, and how to mend its page.
pub fn check(block: &Block) -> Result<(), String> {
    let Block { page, name, text } = block;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let old = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}; write the page"))?;
    let new = replace(&old, name, text)
        .ok_or_else(|| format!("{page} has no block \"{name}\"; add `{BEGIN}{name}{BEGIN_END}` and `{END}`"))?;
    if new == old {
        Ok(())
    } else if std::env::var_os(VARIABLE).is_some() {
        fs::write(&path, new).map_err(|error| format!("{page}: {error}"))
    } else {
        Err(format!("{page}: the block \"{name}\" is not what its records say; run `cargo xtask docs`"))
    }
}

/// The names of the blocks of a page, in order.
pub fn names(page: &str) -> Vec<&str> {
    page.lines().filter_map(name_of).collect()
}

fn name_of(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix(BEGIN_END)
}

/// The page with other text in the block of that name; `None` without such a block.
fn replace(page: &str, name: &str, text: &str) -> Option<String> {
    let lines: Vec<&str> = page.lines().collect();
    let begin = lines.iter().position(|line| name_of(line) == Some(name))?;
    let end = begin + lines[begin..].iter().position(|line| *line == END)?;
    let before = lines[..=begin].iter().map(|line| format!("{line}\n"));
    let after = lines[end..].iter().map(|line| format!("{line}\n"));
    Some(before.chain([format!("\n{}\n\n", text.trim_end())]).chain(after).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A\n\n<!-- generated: b -->\n\nold\n\n<!-- end -->\n\ntext\n\n<!-- generated: c -->\n<!-- end -->\n";

    #[test]
    fn a_block_is_replaced_and_nothing_else() {
        let new = PAGE.replace("old", "| new |");
        assert_eq!(replace(PAGE, "b", "| new |\n"), Some(new.clone()));
        assert_eq!(replace(&new, "b", "| new |"), Some(new.clone()));
        assert_eq!(replace(PAGE, "c", "x").map(|page| page.ends_with("-->\n\nx\n\n<!-- end -->\n")), Some(true));
    }

    #[test]
    fn blocks_are_named() {
        assert_eq!(names(PAGE), ["b", "c"]);
        assert_eq!(replace(PAGE, "d", "x"), None);
        assert_eq!(replace("<!-- generated: b -->\n", "b", "x"), None, "it does not end");
    }

    #[test]
    fn a_missing_page_and_a_missing_block_are_told() {
        let of = |page: &str| Block { page: page.into(), name: "no such block".into(), text: String::new() };
        assert!(check(&of("docs/none.md")).unwrap_err().contains("write the page"));
        assert!(check(&of("README.md")).unwrap_err().contains("has no block"));
    }
}
