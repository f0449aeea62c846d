//! The documents say what the code does.

mod formats;
mod kinds;
mod metrics;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use esker_stack::Spec;
use esker_testkit::generated::{self, Block};

/// Blocks that a test of another crate hands in.
const ELSEWHERE: &[(&str, &str)] =
    &[("docs/reference/commands.md", "commands"), ("docs/reference/commands.md", "progress")];

/// A table of Markdown.
fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}", head.join(" | "), "---|".repeat(N));
    for row in rows {
        text += &format!("\n| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | ").trim_end());
    }
    text
}

/// Every block is in its page as its records say, and pages have no other blocks.
#[test]
fn marked_blocks_say_what_records_say() {
    let mut blocks = kinds::blocks();
    blocks.push(formats::block());
    blocks.extend(metrics::blocks());
    let wrong: Vec<String> = blocks.iter().filter_map(|block| generated::check(block).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known = blocks.iter().map(|Block { page, name, .. }| (page.as_str(), name.as_str()));
    let known: BTreeSet<(&str, &str)> = known.chain(ELSEWHERE.iter().copied()).collect();
    let root = root();
    let mut pages = Vec::new();
    documents(&root.join("docs"), &mut pages);
    for path in pages {
        let (text, page) = (fs::read_to_string(&path).unwrap(), path.strip_prefix(&root).unwrap().to_str().unwrap());
        for name in generated::names(&text) {
            assert!(known.contains(&(page, name)), "{page}: nothing generates \"{name}\"; remove its marks");
        }
    }
}

#[test]
fn each_kind_has_its_page() {
    for kind in esker_kinds::ALL {
        let path = root().join(format!("docs/reference/kinds/{}.md", kind.name));
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(page.starts_with(&format!("# {}\n", kind.name)), "{}: the title is the kind's name", kind.name);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Markdown files of the project's documents.
fn documents(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            out.push(path);
        }
    }
}

/// The blocks of TOML in a page, each with its first line.
fn toml_blocks(page: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut inside) = (Vec::new(), false);
    for (at, line) in page.lines().enumerate() {
        match (inside, line.trim()) {
            (false, "```toml") => {
                inside = true;
                blocks.push((at + 2, String::new()));
            }
            (true, "```") => inside = false,
            (true, _) => blocks.last_mut().expect("one was begun").1 += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// What `esker stack check` does, but for keys and media, which only their machine has.
fn check_stack(text: &str) -> Result<(), String> {
    let spec = Spec::parse("page", text).map_err(|error| error.to_string())?;
    spec.check(esker_kinds::ALL).map(drop).map_err(|error| error.to_string())
}

/// Tables that a stack has, at the beginning of a line. Other blocks of TOML configure something else: catalogues of
/// devices have `[[device]]`.
fn is_stack(text: &str) -> bool {
    let begins = |line: &str| ["[device.", "[export.", "[[export"].iter().any(|start| line.starts_with(start));
    text.lines().any(begins)
}

#[test]
fn stacks_in_the_documents_pass_the_check() {
    let root = root();
    let mut pages = vec![root.join("README.md")];
    documents(&root.join("docs"), &mut pages);
    let mut checked = 0;
    for page in pages {
        for (line, text) in toml_blocks(&fs::read_to_string(&page).unwrap()) {
            if is_stack(&text) {
                check_stack(&text).unwrap_or_else(|error| panic!("{}:{line}: {error}\n{text}", page.display()));
                checked += 1;
            }
        }
    }
    assert!(checked >= 6, "only {checked} blocks of TOML describe a stack");
    assert!(check_stack("[device.d]\nkind = \"memory\"\nsize = \"1GiB\"\nsized = 1\n").is_err(), "a wrong key is told");
}
