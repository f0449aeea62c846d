//! DiskSim's validation traces: what a measured disk was asked, when, and how long it took.
//!
//! One request a line: `R|W Hit|Miss|Doub|Trip block length service_us think_us`. The think time lies *before* the
//! request of its line: only so are completions and sectors in phase with the rotation.

use esker_base::Nanos;

/// A measured request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Measured {
    /// Whether it wrote.
    pub write: bool,
    /// Whether the trace calls it a hit.
    pub hit: bool,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub count: u64,
    /// What the disk took.
    pub service: Nanos,
    /// Idle time before it.
    pub think: Nanos,
}

/// Reads a trace.
///
/// # Errors
/// The line, from 1, and what was expected.
pub(crate) fn read(text: &str) -> Result<Vec<Measured>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| request(line).map_err(|want| format!("line {}: expected {want}", at + 1))).collect()
}

fn request(line: &str) -> Result<Measured, &'static str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [operation, class, sector, count, service, think] = fields[..] else { return Err("six fields") };
    let micros = |text: &str| text.parse::<f64>().ok().filter(|us| us.is_finite() && *us >= 0.0);
    let span = |text: &str| micros(text).map(|us| Nanos::from_secs_f64(us / 1e6)).ok_or("microseconds");
    Ok(Measured {
        write: match operation {
            "R" => false,
            "W" => true,
            _ => return Err("R or W"),
        },
        hit: match class {
            "Hit" => true,
            "Miss" | "Doub" | "Trip" => false,
            _ => return Err("Hit, Miss, Doub or Trip"),
        },
        sector: sector.parse().map_err(|_| "a sector")?,
        count: count.parse().ok().filter(|count| *count > 0).ok_or("a number of sectors")?,
        service: span(service)?,
        think: span(think)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_damage_names_its_line() {
        let first = read("W Doub 20 15 17221.5 21894.38\n\nR Hit 1 2 3 4\n").unwrap()[0];
        let (service, think) = (Nanos(17_221_500), Nanos(21_894_380));
        assert_eq!(first, Measured { write: true, hit: false, sector: 20, count: 15, service, think });
        for (line, want) in [
            ("R Hit 1 2 3", "six fields"),
            ("X Hit 1 2 3 4", "R or W"),
            ("R hit 1 2 3 4", "Hit, Miss"),
            ("R Hit -1 2 3 4", "a sector"),
            ("R Hit 1 0 3 4", "a number of sectors"),
            ("R Hit 1 2 inf 4", "microseconds"),
        ] {
            let error = read(&format!("R Hit 1 2 3 4\n{line}")).unwrap_err();
            assert!(error.starts_with("line 2: expected ") && error.contains(want), "{error}");
        }
    }
}
