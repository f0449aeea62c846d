//! Generated traces, played through the model.

use esker_trace_calls::generate::{Shape, apple_desktop, hostile};

use super::super::compile;
use crate::compiled::RepairKind;

#[test]
fn made_traces_contradict_nothing() {
    for seed in 1..6 {
        let trace = apple_desktop(Shape { seed, threads: 6, scripts: 120 });
        let actions = trace.actions.len();
        let program = compile(trace, &mut |_| {}).expect("it is sound");
        assert_eq!(program.len(), actions);
        let repairs = &program.about.repairs;
        assert_eq!(repairs.contradictions(), 0, "seed {seed}: {repairs:#?}");
    }
}

#[test]
fn hostile_traces_compile_whole_and_plan_no_impossible_name() {
    for seed in 0..500 {
        let trace = hostile(seed, "/tmp/outside");
        assert_eq!(trace, hostile(seed, "/tmp/outside"), "seed {seed}");
        let actions = trace.actions.len();
        let program = compile(trace, &mut |_| {}).unwrap();
        assert_eq!(program.len(), actions, "seed {seed}");
        let mut paths = program.snapshot().entries.keys();
        assert!(paths.all(|path| !path.contains(&0)), "seed {seed}: shared memory is in no tree");
    }
}

/// The model of files and the scripts, which were written apart, agree on every answer.
#[test]
fn what_calls_answer_is_what_the_model_of_files_foretells() {
    for seed in 0..20 {
        let trace = apple_desktop(Shape { seed, threads: 2 + seed as u32 % 5, scripts: 60 });
        let program = compile(trace, &mut |_| {}).expect("a sound trace");
        let repairs = &program.about().repairs;
        let implied = [RepairKind::EntryImplied, RepairKind::DescriptorInferred, RepairKind::SizeGrown];
        let implied: u64 = implied.into_iter().map(|kind| repairs.count(kind)).sum();
        assert_eq!((repairs.contradictions(), implied), (0, 0), "seed {seed}: {repairs:?}");
    }
}
