//! The filter that lets only recorded calls of a program stop under ptrace.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use crate::calls;

/// Binds this process and what it becomes: each recorded call stops for its tracer. Without a tracer it fails with
/// `ENOSYS`.
///
/// # Errors
/// If the kernel has no filters, or forbids them.
pub(crate) fn install() -> Result<(), seccompiler::Error> {
    let rules: BTreeMap<i64, Vec<_>> = calls::all().map(|spec| (i64::from(spec.number), Vec::new())).collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), TargetArch::x86_64)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter(&program)
}
