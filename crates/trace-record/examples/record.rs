//! Records a program and prints what was seen: `cargo run --example record -- METHOD FILE PROGRAM ARGUMENTS...`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of its own")]

use std::fs::File;
use std::process::ExitCode;

use esker_trace_calls::etrace::{Limits, read};
use esker_trace_calls::wire::Field;
use esker_trace_record::{Gate, Method, Settings, Target, gate, record};

fn main() -> ExitCode {
    if let Some(status) = gate::pass(std::env::args_os()) {
        return ExitCode::from(status);
    }
    let mut words = std::env::args_os().skip(1);
    let method = match words.next().unwrap_or_default().to_str() {
        Some("bpf") => Method::Kernel,
        Some("ptrace") => Method::Ptrace,
        _ => Method::Any,
    };
    let path = words.next().unwrap_or_default();
    let settings = Settings {
        method,
        roots: Vec::new(),
        anonymise: None,
        ring_bytes: 64 << 20,
        gate: Gate::Own(std::env::current_exe().expect("this program lies somewhere")),
        stop: Default::default(),
        ready: Default::default(),
    };
    let file = File::create(&path).expect("the recording can be written");
    match record(&Target::Program(words.collect()), &settings, file) {
        Ok(recorded) => eprintln!("{recorded:#?}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    let file = File::open(&path).expect("the recording is there");
    let trace = read(file, Limits::GENEROUS).expect("the recording is whole");
    for action in &trace.actions {
        let mut call = String::new();
        action.call.render(&mut call);
        println!("{} T{} {call} = {:?}", action.enter.0, action.thread.0, action.outcome);
    }
    ExitCode::SUCCESS
}
