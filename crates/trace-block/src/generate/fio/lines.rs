//! The lines of a job file: sections, and options that `[global]` gives to the jobs behind it.

use super::flaw::{JobError, JobFlaw};

/// More lines with options, or jobs, than this are no job file.
const SETTINGS_MAX: usize = 4096;
const JOBS_MAX: usize = 1024;

/// Longest part of a line that a message repeats.
const SHOWN_MAX: usize = 60;

/// An option as it stands in the file; without `=` its value is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    pub line: u32,
    pub key: &'a str,
    pub value: &'a str,
}

/// A job, with the options of the global sections before it in front of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    pub line: u32,
    pub name: &'a str,
    pub settings: Vec<Setting<'a>>,
}

/// A text for messages.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// The jobs of a file.
pub(super) fn sections(text: &str) -> Result<Vec<Section<'_>>, JobError> {
    let (mut jobs, mut global) = (Vec::<Section<'_>>::new(), Vec::new());
    let (mut in_global, mut count, mut line) = (None, 0, 0);
    for (number, row) in (1..).zip(text.lines()) {
        line = number;
        let row = row.trim();
        if row.is_empty() || row.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = row.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| JobFlaw::NotSetting(shown(row)).at(line))?;
            in_global = Some(name == "global");
            if name != "global" {
                jobs.push(Section { line, name, settings: global.clone() });
            }
            if jobs.len() > JOBS_MAX {
                return Err(JobFlaw::TooMany(JOBS_MAX, "jobs").at(line));
            }
            continue;
        }
        count += 1;
        if count > SETTINGS_MAX {
            return Err(JobFlaw::TooMany(SETTINGS_MAX, "options").at(line));
        }
        let (key, value) = row.split_once('=').map_or((row, ""), |(key, value)| (key.trim(), value.trim()));
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(JobFlaw::NotSetting(shown(row)).at(line));
        }
        let setting = Setting { line, key, value };
        match (in_global, jobs.last_mut()) {
            (Some(true), _) => global.push(setting),
            (Some(false), Some(job)) => job.settings.push(setting),
            _ => return Err(JobFlaw::NoSection(shown(row)).at(line)),
        }
    }
    if jobs.is_empty() { Err(JobFlaw::NoJob.at(line.max(1))) } else { Ok(jobs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_options_hold_for_the_jobs_behind_them() {
        let text = "; a remark\n[global]\nbs=4k\n[a]\nrw = read\n# more\n[global]\nsize=1m\n[b]\ndirect\n";
        let jobs = sections(text).expect("it is a job file");
        let keys = |at: usize| jobs[at].settings.iter().map(|one| (one.line, one.key, one.value)).collect::<Vec<_>>();
        assert_eq!((jobs.len(), jobs[1].name, jobs[1].line), (2, "b", 9));
        assert_eq!(keys(0), [(3, "bs", "4k"), (5, "rw", "read")]);
        assert_eq!(keys(1), [(3, "bs", "4k"), (8, "size", "1m"), (10, "direct", "")]);
    }

    #[test]
    fn lines_that_are_no_job_file_are_refused_by_number() {
        let refused = |text: &str| sections(text).expect_err("no job file").to_string();
        assert_eq!(
            refused("[a]\nrw=read\nrate iops=1\n"),
            "line 3: `rate iops=1` is neither [SECTION] nor OPTION=VALUE"
        );
        assert_eq!(
            refused("bs=4k\n"),
            "line 1: `bs=4k` stands in no section; put it below [global] or a job's name in brackets"
        );
        assert_eq!(refused("[global]\nbs=4k\n"), "line 2: the file has no job: a section that is not [global]");
        assert_eq!(refused("[a\n"), "line 1: `[a` is neither [SECTION] nor OPTION=VALUE");
        assert!(refused(&"[a]\n".repeat(1_025)).contains("more than 1024 jobs"));
        assert!(refused(&format!("[a]\n{}", "x\n".repeat(4_097))).contains("more than 4096 options"));
    }
}
