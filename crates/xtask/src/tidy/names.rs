//! What documents name exists: project paths, packages, links, and the packages and verbs in commands.

use super::Report;
use super::markdown::{Piece, pieces};
use super::tree::Tree;

/// A code span that begins so is a path of this project.
const PATH_STARTS: &[&str] = &["crates/", "docs/", "data/", "it/", "examples/", ".ci/", ".cargo/"];
/// Folders whose names look like those of packages.
const FOLDERS: &[&str] = &["esker-try"];
/// A path component that holds one of these stands for any name; what comes before it must exist.
const WILDCARDS: &[&str] = &["NAME", "*", "<", "{", "…"];

pub fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.documents() {
        for (line, piece) in pieces(text) {
            match piece {
                Piece::Code(code) => {
                    check_word(tree, path, line, &code, report);
                    check_command(tree, path, line, &code, report);
                }
                Piece::Block(block) => {
                    let lines = block.lines().enumerate();
                    lines.for_each(|(at, command)| check_command(tree, path, line + at, command, report));
                }
                Piece::Link(target) => check_link(tree, path, line, &target, report),
                Piece::Heading(_) | Piece::Content => {}
            }
        }
    }
}

fn check_word(tree: &Tree, file: &str, line: usize, code: &str, report: &mut Report) {
    let is_path = !code.contains(' ') && PATH_STARTS.iter().any(|start| code.starts_with(start));
    if is_path && !tree.exists(fixed_part(code)) {
        report.find(file, line, format!("`{code}` does not exist"), "name the path that does, or drop the mention");
    }
    let is_package_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if code.starts_with("esker-") && code.chars().all(is_package_word) && !FOLDERS.contains(&code) {
        check_package(tree, file, line, code, report);
    }
}

/// The part of a path before its first wildcard component, without a `:line` suffix.
fn fixed_part(path: &str) -> &str {
    let path = path.split(':').next().unwrap_or(path);
    let mut end = 0;
    for part in path.split_inclusive('/') {
        if WILDCARDS.iter().any(|mark| part.contains(mark)) {
            break;
        }
        end += part.len();
    }
    &path[..end]
}

fn check_package(tree: &Tree, file: &str, line: usize, package: &str, report: &mut Report) {
    let known = package.strip_prefix("esker-").is_some_and(|name| tree.has_crate(name));
    if !known && !WILDCARDS.iter().any(|mark| package.contains(mark)) {
        report.find(file, line, format!("there is no package `{package}`"), "name one of the workspace's packages");
    }
}

fn check_command(tree: &Tree, file: &str, line: usize, command: &str, report: &mut Report) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let Some(cargo) = words.iter().position(|word| *word == "cargo") else { return };
    for pair in words[cargo..].windows(2) {
        match pair {
            ["cargo", "xtask"] => {}
            ["xtask", verb] if !crate::VERBS.iter().any(|known| known.name == *verb) => {
                report.find(
                    file,
                    line,
                    format!("`cargo xtask` has no verb `{verb}`"),
                    "run `cargo xtask` for the list",
                );
            }
            ["-p" | "--package", package] => check_package(tree, file, line, package, report),
            _ => {}
        }
    }
}

fn check_link(tree: &Tree, file: &str, line: usize, target: &str, report: &mut Report) {
    let path = target.split(['#', '?']).next().unwrap_or("");
    if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return;
    }
    let resolved = resolve(file, path);
    if !resolved.as_deref().is_some_and(|resolved| resolved.is_empty() || tree.exists(resolved)) {
        report.find(file, line, format!("link to `{target}` leads nowhere"), "links are relative to their document");
    }
}

/// `target` seen from the folder of `file`; `None` if it leaves the tree.
fn resolve(file: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_fires, assert_silent};
    use super::*;

    fn with(doc: &str) -> [(&str, &str); 3] {
        [("docs/page.md", doc), ("crates/base/src/lib.rs", ""), ("docs/reference/kinds/delay.md", "")]
    }

    #[test]
    fn what_exists_may_be_named() {
        let doc = "`crates/base/src/lib.rs:7` `docs/reference/kinds/` `docs/reference/kinds/NAME.md` `esker-base` `a/b` [x](reference/kinds/delay.md#top)\n\
                   [y](https://example.org/z) `cargo test -p esker-base`\n\n```sh\ncargo xtask tidy && cargo test\n```\n";
        assert_silent(check, &with(doc));
    }

    #[test]
    fn what_does_not_exist_may_not() {
        assert_fires(check, &with("`crates/base/src/gone.rs`"), "does not exist");
        assert_fires(check, &with("`docs/nowhere/NAME.md`"), "does not exist");
        assert_fires(check, &with("`esker-gone`"), "no package");
        assert_fires(check, &with("[x](delay.md)"), "leads nowhere");
        assert_fires(check, &with("[x](../../up.md)"), "leads nowhere");
    }

    #[test]
    fn commands_name_packages_and_verbs_that_exist() {
        assert_fires(check, &with("```sh\nls\ncargo run --release -p esker-gone -- try\n```\n"), "docs/page.md:3 ");
        assert_fires(check, &with("run `cargo xtask polish`"), "no verb `polish`");
    }
}
