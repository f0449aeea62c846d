//! `data-path`: instructions and allocations of one request of an NBD client, on three stacks.
//!
//! This program serves a stack under callgrind, once with N and once with 3 N requests of fio's `nbd` engine, 4 KiB
//! each at depth 1. The difference by 2 N is the cost of a request: start and end drop out. The instructions are
//! those of the server in user space. The allocations are calls to `malloc` and `realloc` in the same profile.

pub(crate) mod profile;

use std::path::Path;

use esker_lab_kit::{Figure, Lab, LabError, peer, serve_process::ServeProcess};
use profile::Profile;

/// The name of a device behind an export, and the device.
type Case = (&'static str, &'static str);

const CASES: [Case; 3] = [
    ("memory", "kind = \"memory\"\nsize = \"64MiB\"\n"),
    ("null", "kind = \"null\"\nsize = \"64MiB\"\nlatency = \"10us\"\n"),
    ("file", "kind = \"file\"\npath = \"FOLDER/d.img\"\nsize = \"64MiB\"\n"),
];

/// Sites with fewer allocations in a request are not told.
const TOLD_MIN: f64 = 0.1;

/// Requests of 4 KiB that fill the part of the device that is used.
const WRITTEN: u64 = 256;

/// How a program is run under callgrind. Of the allocator, callers are told apart.
const CALLGRIND: [&str; 5] = [
    "valgrind",
    "--tool=callgrind",
    "--callgrind-out-file=FOLDER/profile",
    "--separate-callers12=malloc",
    "--separate-callers12=realloc",
];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    demand_optimised(cfg!(debug_assertions))?;
    let counter = Counter { lab, requests: lab.scale(1_000, 10_000) };
    let mut figures = Vec::new();
    for case in &CASES {
        for way in ["write", "read"] {
            let cost = counter.cost(case, way)?;
            lab.say(cost.told(&format!("{way} to {}", case.0)));
            let figure = |what, value, unit| Figure::alone(format!("{way}_{what}_{}", case.0), value, unit);
            figures.push(figure("instructions", cost.instructions, "instructions a request"));
            figures.push(figure("allocations", cost.allocations(), "allocations a request"));
        }
    }
    Ok(figures)
}

/// Refuses a program for debugging, whose instructions say nothing.
fn demand_optimised(is_debug: bool) -> Result<(), LabError> {
    let why = "data-path counts the instructions of this program, which is built without optimisation; build it with \
               `cargo build --release` and run that one";
    if is_debug { Err(LabError::Data(why.to_string())) } else { Ok(()) }
}

/// The cost of one request.
struct Cost {
    instructions: f64,
    /// Allocations by the function that causes them.
    sites: Vec<(String, f64)>,
}

impl Cost {
    /// The difference of two profiles, by the requests that one has more.
    fn between(few: &Profile, many: &Profile, more: u64) -> Cost {
        let each = |few: u64, many: u64| (many as f64 - few as f64) / more as f64;
        let site = |(site, count): (&String, &u64)| {
            let few = few.allocations.get(site).copied().unwrap_or_default();
            (site.clone(), each(few, *count))
        };
        let mut sites: Vec<_> = many.allocations.iter().map(site).collect();
        sites.sort_by(|a, b| b.1.total_cmp(&a.1));
        Cost { instructions: each(few.instructions, many.instructions), sites }
    }

    fn allocations(&self) -> f64 {
        self.sites.iter().map(|(_, count)| count).sum()
    }

    /// One line for each function that allocates.
    fn told(&self, what: &str) -> String {
        let (instructions, allocations) = (self.instructions, self.allocations());
        let sites = self.sites.iter().filter(|(_, count)| *count >= TOLD_MIN);
        let lines: String = sites.map(|(site, count)| format!("\n  {count:5.2} {site}")).collect();
        format!("a {what}: {instructions:.0} instructions, {allocations:.2} allocations{lines}")
    }
}

/// Counts requests of servers of its own.
struct Counter<'a, 'b> {
    lab: &'a Lab<'b>,
    requests: u64,
}

impl Counter<'_, '_> {
    /// The cost of one request of this way to a device.
    fn cost(&self, case: &Case, way: &str) -> Result<Cost, LabError> {
        let [few, many] = [self.requests, 3 * self.requests];
        Ok(Cost::between(&self.profile(case, way, few)?, &self.profile(case, way, many)?, many - few))
    }

    /// The whole profile of a server that answers so many requests.
    fn profile(&self, case: &Case, way: &str, requests: u64) -> Result<Profile, LabError> {
        let export = "[[export]]\nname = \"vol\"\ndevice = \"vol\"\nnbd = \"unix:FOLDER/nbd\"\n";
        let text = format!("[device.vol]\n{}{export}", case.1);
        let mut server = ServeProcess::start_under(self.lab.scratch, &CALLGRIND, &text)?;
        load(&server.at("nbd"), way, requests, self.lab.seed)?;
        server.stop()?;
        let fault = |what: String| peer::fault("callgrind", what);
        let told = std::fs::read_to_string(server.at("profile")).map_err(|error| fault(error.to_string()))?;
        Profile::parse(&told).map_err(fault)
    }
}

/// Sends so many requests of 4 KiB to random places of the first MiB, each after the answer to the one before. That
/// part is written first, so that no request meets blocks without bytes.
fn load(socket: &Path, way: &str, requests: u64, seed: u64) -> Result<(), LabError> {
    for (mode, way, requests) in [("write", "write", WRITTEN), (&*format!("rand{way}"), way, requests)] {
        let place = ["--ioengine=nbd".to_string(), format!("--uri=nbd+unix:///vol?socket={}", socket.display())];
        let bytes = requests * 4096;
        let options =
            format!("--rw={mode} --bs=4k --iodepth=1 --size=1m --norandommap --randseed={seed} --io_size={bytes}");
        match peer::fio(&place, &options)?["jobs"][0][way]["total_ios"].as_u64() {
            Some(sent) if sent == requests => {}
            sent => return Err(peer::fault("fio", format!("it sent {sent:?} of {requests} requests"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use esker_stack::Spec;

    use super::*;

    fn profile(instructions: u64, allocations: &[(&str, u64)]) -> Profile {
        let allocations = allocations.iter().map(|(site, count)| (site.to_string(), *count)).collect();
        Profile { instructions, allocations }
    }

    #[test]
    fn the_cost_of_a_request_is_what_more_requests_cost_more() {
        let few = profile(1_000_000, &[("start", 900), ("a", 1_000)]);
        let many = profile(5_000_000, &[("start", 900), ("a", 3_000), ("b", 4_000)]);
        let cost = Cost::between(&few, &many, 2_000);
        assert_eq!((cost.instructions, cost.allocations()), (2_000.0, 3.0));
        assert_eq!(cost.told("write"), "a write: 2000 instructions, 3.00 allocations\n   2.00 b\n   1.00 a");
    }

    #[test]
    fn a_program_for_debugging_is_refused() {
        assert!(demand_optimised(true).unwrap_err().to_string().contains("--release"));
        assert!(demand_optimised(false).is_ok());
    }

    #[test]
    fn the_stacks_are_sound() {
        for case in &CASES {
            let spec = Spec::parse("test", &format!("[device.vol]\n{}", case.1)).unwrap();
            assert!(spec.check(esker_kinds::ALL).is_ok(), "{}", case.0);
        }
    }
}
