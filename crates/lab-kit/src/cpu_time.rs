//! CPU time of this process and of its children.

/// CPU time of this process and of its children that have ended, in seconds.
pub struct CpuTime {
    /// Of this process.
    pub own: f64,
    /// Of its children that have ended.
    pub children: f64,
}

impl CpuTime {
    /// What was taken so far, in steps of 10 ms.
    pub fn now() -> CpuTime {
        CpuTime::of(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default())
    }

    /// Reads the four times after the program's name, which may hold blanks: user and system, own and children's.
    fn of(stat: &str) -> CpuTime {
        const TICKS_PER_SECOND: f64 = 100.0;
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(4).filter_map(|word| word.parse().ok()).collect();
        let [user, system, child_user, child_system] = ticks[..] else {
            return CpuTime { own: f64::NAN, children: f64::NAN };
        };
        CpuTime { own: (user + system) / TICKS_PER_SECOND, children: (child_user + child_system) / TICKS_PER_SECOND }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_found_behind_any_program_name() {
        let stat = "123 (a b) c) R 1 2 3 4 5 6 7 8 9 10 250 50 30 70 20 0 1 0 99";
        let time = CpuTime::of(stat);
        assert_eq!((time.own, time.children), (3.0, 1.0));
        assert!(CpuTime::of("").own.is_nan());
    }
}
