//! What the rules see: the files that git would list, the parsed Rust sources and the crates that cargo knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use ignore::WalkBuilder;

/// Larger files are data, not text that rules could judge.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Why the tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot list {root}: {source}; run xtask from a complete checkout")]
    Walk { root: PathBuf, source: ignore::Error },
    #[error("cannot read {path}: {source}; check its permissions")]
    File { path: PathBuf, source: std::io::Error },
    #[error("cargo metadata failed: {0}; make `cargo metadata --no-deps` work first")]
    Metadata(#[from] cargo_metadata::Error),
}

/// A workspace member. Names come without the `esker-` prefix.
#[derive(Debug, Clone)]
pub struct Crate {
    pub name: String,
    /// Root source files of its library and binaries, from the root of the tree.
    pub roots: Vec<String>,
    pub deps: Vec<Dep>,
}

/// A dependency on another workspace member.
#[derive(Debug, Clone)]
pub struct Dep {
    pub name: String,
    pub dev: bool,
}

/// A package that cargo resolves for a platform that is supported, members of the workspace included.
#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: Option<String>,
    pub origin: Origin,
}

/// Where a package comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Tree,
    /// A folder that is not in the tree.
    Outside(String),
    /// A registry or repository, as cargo writes it.
    Source(String),
}

/// A Rust source file; `ast` is `Err` where it does not parse.
pub struct Source {
    pub path: String,
    pub text: String,
    pub ast: syn::Result<syn::File>,
}

/// The tree under judgement.
pub struct Tree {
    /// Every file, from the root, with `/`.
    pub paths: BTreeSet<String>,
    /// Those that are text.
    pub texts: BTreeMap<String, String>,
    pub sources: Vec<Source>,
    pub crates: Vec<Crate>,
    pub packages: Vec<Package>,
}

/// The platforms whose dependencies are judged, as in `deny.toml`.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

impl Tree {
    pub fn read(root: &Path) -> Result<Tree, ReadError> {
        let (paths, texts) = read_files(root)?;
        let manifest = root.join("Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(&manifest).no_deps().exec()?;
        let platforms = PLATFORMS.map(|platform| format!("--filter-platform={platform}"));
        let resolved = MetadataCommand::new().manifest_path(&manifest).other_options(platforms).exec()?;
        let crates = metadata.packages.iter().map(|package| Crate::from_package(package, root)).collect();
        let packages = Package::all(&resolved, root);
        Ok(Tree { sources: parse_sources(&texts), paths, texts, crates, packages })
    }

    /// A tree in memory, for the tests of rules. Each `crates/NAME/src/lib.rs` makes a crate without dependencies.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let texts: BTreeMap<String, String> = files.iter().map(|(p, t)| (p.to_string(), t.to_string())).collect();
        let crates = files.iter().filter_map(|(path, _)| {
            let name = path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs")?;
            Some(Crate { name: name.into(), roots: vec![path.to_string()], deps: Vec::new() })
        });
        let crates = crates.collect();
        Tree {
            paths: texts.keys().cloned().collect(),
            sources: parse_sources(&texts),
            texts,
            crates,
            packages: Vec::new(),
        }
    }

    pub fn has_crate(&self, name: &str) -> bool {
        self.crates.iter().any(|krate| krate.name == name)
    }

    /// Whether a file or a folder of this name exists.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.paths.contains(path) || self.paths.range(folder.clone()..).next().is_some_and(|p| p.starts_with(&folder))
    }

    /// Markdown documents as (path, text).
    pub fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().filter(|(path, _)| path.ends_with(".md")).map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

impl Package {
    fn all(metadata: &Metadata, root: &Path) -> Vec<Package> {
        let origin = |package: &cargo_metadata::Package| match &package.source {
            Some(source) => Origin::Source(source.repr.clone()),
            None if package.manifest_path.starts_with(root) => Origin::Tree,
            None => Origin::Outside(package.manifest_path.to_string()),
        };
        let packages = metadata.packages.iter().map(|package| Package {
            name: package.name.to_string(),
            version: package.version.to_string(),
            licence: package.license.clone(),
            origin: origin(package),
        });
        packages.collect()
    }
}

impl Crate {
    fn from_package(package: &cargo_metadata::Package, root: &Path) -> Crate {
        let short = |name: &str| name.strip_prefix("esker-").map(str::to_string);
        let is_root = |target: &&cargo_metadata::Target| target.is_lib() || target.is_bin() || target.is_proc_macro();
        let roots = package.targets.iter().filter(is_root);
        Crate {
            name: short(&package.name).unwrap_or_else(|| package.name.to_string()),
            roots: roots.map(|target| relative(root, target.src_path.as_std_path())).collect(),
            deps: package
                .dependencies
                .iter()
                .filter_map(|dep| Some(Dep { name: short(&dep.name)?, dev: dep.kind == DependencyKind::Development }))
                .collect(),
        }
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// The paths below `root` that git would list, sorted, from the root.
pub fn list_files(root: &Path) -> Result<BTreeSet<String>, ReadError> {
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .parents(false)
        .require_git(false)
        .git_global(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let mut paths = BTreeSet::new();
    for entry in walk {
        let entry = entry.map_err(|source| ReadError::Walk { root: root.into(), source })?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            paths.insert(relative(root, entry.path()));
        }
    }
    Ok(paths)
}

fn read_files(root: &Path) -> Result<(BTreeSet<String>, BTreeMap<String, String>), ReadError> {
    let paths = list_files(root)?;
    let mut texts = BTreeMap::new();
    for path in &paths {
        let full = root.join(path);
        let fail = |source| ReadError::File { path: full.clone(), source };
        if std::fs::metadata(&full).map_err(fail)?.len() > TEXT_BYTES_MAX {
            continue;
        }
        if let Ok(text) = String::from_utf8(std::fs::read(&full).map_err(fail)?) {
            texts.insert(path.clone(), text);
        }
    }
    Ok((paths, texts))
}

fn parse_sources(texts: &BTreeMap<String, String>) -> Vec<Source> {
    let rust = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
    let parse = |(path, text): (&String, &String)| Source {
        path: path.clone(),
        text: text.clone(),
        ast: syn::parse_file(text),
    };
    rust.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_when_a_file_lies_in_it() {
        let tree = Tree::of(&[("docs/reference/kinds/delay.md", "")]);
        assert!(
            tree.exists("docs/reference/kinds/") && tree.exists("docs") && tree.exists("docs/reference/kinds/delay.md")
        );
        assert!(!tree.exists("doc") && !tree.exists("docs/reference/kinds/del"));
    }

    #[test]
    fn listing_leaves_out_what_git_ignores() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [(".gitignore", "/target\n"), ("a.rs", ""), ("target/b.rs", ""), (".ci/run", "")] {
            let full = dir.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        let listed: Vec<String> = list_files(dir.path()).unwrap().into_iter().collect();
        assert_eq!(listed, [".ci/run", ".gitignore", "a.rs"]);
    }
}
