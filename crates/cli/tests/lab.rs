//! Files and output of `esker lab run`, of an experiment that computes and plays nothing.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
    assert!(all.iter().all(|one| one["paper"]["authors"].is_null()), "no extract names authors");
}

#[test]
fn a_list_fits_into_100_columns() {
    let list = lab(Path::new("."), &["list"]);
    let text = String::from_utf8(list.stdout).unwrap();
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(list.status.success() && widest.chars().count() <= 100, "{widest}");
}
