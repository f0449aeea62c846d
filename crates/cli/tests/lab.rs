//! Files and output of `esker lab run`, of an experiment that computes and plays nothing.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use esker_testkit::{Ability, skip};
use serde_json::Value;

fn lab(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker")).arg("lab").args(args).current_dir(dir).output().unwrap()
}

fn printed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("standard output holds JSON and nothing else")
}

#[test]
fn a_run_prints_its_report_alone_and_writes_a_chart_a_table_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["--csv", "a.csv", "--plot", "a.svg", "--plots", "a.html"];
    let run = [&["run", "edt-table", "--quick", "--json"][..], &files].concat();
    let report = printed(&lab(dir.path(), &run));
    let figures = report["figures"].as_array().unwrap();
    let [csv, svg, page] = ["a.csv", "a.svg", "a.html"].map(|file| fs::read_to_string(dir.path().join(file)).unwrap());
    assert_eq!(csv.lines().count(), figures.len() + 1, "{csv}");
    assert!(svg.starts_with("<!-- esker lab run -->\n<svg ") && page.contains("<svg "), "{svg}");
    for figure in figures {
        let (id, value) = (figure["id"].as_str().unwrap(), figure["value"].as_f64().unwrap());
        assert!(csv.contains(&format!("\n{id},{value},")) && svg.contains(id), "{id}: {csv}");
    }
    let again = lab(dir.path(), &run);
    let told = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(1) && told.contains("a.csv: exists"), "{told}");
    assert!(again.stdout.is_empty(), "the run is refused before it begins");
    printed(&lab(dir.path(), &[&run[..], &["--force"]].concat()));
}

#[test]
fn a_png_is_drawn_by_a_program_that_is_looked_for_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["run", "edt-table", "--quick", "--plot", "a.png"];
    let command = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        command.arg("lab").args(run).current_dir(dir.path()).env("PATH", path).output().unwrap()
    };
    let without = command("/nonexistent");
    let told = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(without.status.code() == Some(1) && without.stdout.is_empty(), "{told}");
    assert!(told.contains("rsvg-convert draws PNG files, and it cannot be run") && told.contains(".svg"), "{told}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    if Command::new("rsvg-convert").arg("--version").output().is_err() {
        return skip(Ability::Program, "rsvg-convert is not installed");
    }
    let output = command(&std::env::var("PATH").unwrap());
    assert!(output.status.success(), "{output:?}");
    let png = fs::read(dir.path().join("a.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 10_000, "{} bytes", png.len());
}

#[test]
fn a_missing_folder_for_scratch_files_is_told_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    for verb in ["run", "repeat"] {
        let output = lab(dir.path(), &[verb, "edt-table", "--quick", "--scratch", "gone"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{told}");
        let expected = "error: gone: is not there, so there is no place for scratch files; make this folder, or name another one with \
                        --scratch\n";
        assert_eq!(told, expected);
    }
}

#[test]
fn each_experiment_is_listed_once_with_its_paper_time_and_needs() {
    let all = printed(&lab(Path::new("."), &["list", "--json"]));
    let all = all.as_array().unwrap();
    let of = |name: &str| all.iter().find(|one| one["name"] == name).unwrap();
    let names: std::collections::BTreeSet<&str> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), all.len()), (esker_lab::ALL.len(), esker_lab::ALL.len()));
    let overhead = of("able-overhead");
    assert_eq!((&overhead["paper"]["key"], &overhead["place"]), (&Value::from("able"), &Value::from("figure 5.9")));
    assert_eq!(overhead["needs"], serde_json::json!(["cargo", "valgrind"]));
    assert_eq!((&of("file-vs-fio")["paper"], &of("file-vs-fio")["time"]), (&Value::Null, &Value::from("real")));
    assert_eq!(of("lfs-hotcold")["full_seconds"], 85);
    let published = &of("exces")["paper"]["published"];
    assert_eq!((&published["venue"], &published["year"]), (&Value::from("IEEE HPCA"), &Value::from(2008)));
}

#[test]
fn a_list_fits_into_100_columns() {
    let list = lab(Path::new("."), &["list"]);
    let text = String::from_utf8(list.stdout).unwrap();
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(list.status.success() && widest.chars().count() <= 100, "{widest}");
}
