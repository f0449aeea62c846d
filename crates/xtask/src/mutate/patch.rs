//! The header of a mutant: which test must notice it, and which guard it takes away.

use std::path::{Path, PathBuf};

/// A patch that removes one guard.
#[derive(Debug)]
pub struct Mutant {
    pub name: String,
    pub path: PathBuf,
    /// Arguments of `cargo test`.
    pub test: Vec<String>,
    pub guard: String,
}

impl Mutant {
    /// What `cargo test` is told beside [`Mutant::test`]: test programs alone where the header chooses no targets,
    /// because examples in comments are slow to build and guard nothing.
    pub fn targets(&self) -> &'static [&'static str] {
        let chooses = |word: &String| matches!(word.as_str(), "--lib" | "--test" | "--bin" | "--tests" | "--doc");
        if self.test.iter().any(chooses) { &[] } else { &["--tests"] }
    }
}

/// All mutants of a folder, by name.
pub fn read_all(folder: &Path) -> Result<Vec<Mutant>, String> {
    let fail = |error| format!("cannot read {}: {error}", folder.display());
    let mut mutants = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            mutants.push(parse(&path, &text)?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn parse(path: &Path, text: &str) -> Result<Mutant, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let header: Vec<&str> = text.lines().take_while(|line| !line.starts_with("--- ")).collect();
    let field = |key: &str| {
        let value =
            header.iter().find_map(|line| line.strip_prefix(key)).map(str::trim).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("{}: no `{key}` line before the diff; add one", path.display()))
    };
    let test = field("test:")?.split_whitespace().map(str::to_string).collect();
    Ok(Mutant { test, guard: field("guard:")?.to_string(), name, path: path.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_ends_where_the_diff_begins() {
        let text = "test: -p esker-it flush\nguard: the barrier\n\n--- a/x\n+++ b/x\n";
        let mutant = parse(Path::new("m/no-barrier.patch"), text).unwrap();
        assert_eq!((mutant.name.as_str(), mutant.guard.as_str()), ("no-barrier", "the barrier"));
        assert_eq!(mutant.test, ["-p", "esker-it", "flush"]);
    }

    #[test]
    fn test_programs_are_built_where_the_header_chooses_no_targets() {
        let targets =
            |test: &str| parse(Path::new("m/a.patch"), &format!("test: {test}\nguard: g\n")).unwrap().targets();
        assert_eq!(targets("-p esker-a name"), ["--tests"]);
        assert!(targets("-p esker-a --lib name").is_empty() && targets("-p esker-it --test it name").is_empty());
    }

    #[test]
    fn a_missing_line_is_named() {
        let error = parse(Path::new("m/a.patch"), "test: -p a\n--- a/x\nguard: late\n").unwrap_err();
        assert!(error.contains("`guard:`"), "{error}");
        assert!(parse(Path::new("m/a.patch"), "test:\nguard: b\n").unwrap_err().contains("`test:`"));
    }
}
