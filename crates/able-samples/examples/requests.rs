//! Runs a number of requests through a stack in virtual time, for counting what they cost: `requests STACK COUNT
//! [again]`. Half of them are writes of 4 KiB, half reads. With `again`, each read is of what was just written. The
//! stack's volume is `vol`.

#![allow(clippy::disallowed_methods, reason = "a program: it reads its arguments")]

use std::process::ExitCode;

use esker_block::{Bio, Buf, Device, Kind};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_stack::{Spec, Stack};

const LEN: usize = 4096;
const BLOCKS: u64 = 64;

/// The samples, what stands below them, and other layers whose requests are counted.
fn kinds() -> &'static [&'static Kind] {
    let base: [&'static Kind; 5] = [
        &esker_dev::memory::KIND,
        &esker_dev::null::KIND,
        &esker_layers::pass::KIND,
        &esker_layers::stats::KIND,
        &esker_layer_cache::KIND,
    ];
    let samples = esker_able_samples::ALL.iter().flat_map(|pair| [pair.vanilla, pair.able]);
    base.into_iter().chain(samples).collect::<Vec<_>>().leak()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let (text, count, step) = match args.as_slice() {
        [_, text, count] => (text, count, 1),
        [_, text, count, again] if again == "again" => (text, count, 2),
        _ => {
            eprintln!("usage: requests STACK COUNT [again]");
            return ExitCode::from(2);
        }
    };
    let count: u64 = count.parse().unwrap_or(0);
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    let spec = Spec::parse("argument", text).unwrap_or_else(|error| panic!("{error}"));
    let stack = Stack::build(&rt, &Pool::default(), kinds(), &spec).unwrap_or_else(|error| panic!("{error}"));
    let vol = stack.device("vol").expect("a volume called vol");
    let answered = sim.block_on(async move {
        let mut answered = 0;
        for i in 0..count {
            let (at, buf) = (i / step * 7 % BLOCKS * LEN as u64, Buf::unique(vol.stack().pool(), LEN));
            let bio = if i % 2 == 0 { Bio::write(at, buf) } else { Bio::read(at, buf) };
            answered += u64::from(vol.submit(bio).await.result.is_ok());
        }
        answered
    });
    println!("{answered} of {count} answered");
    ExitCode::from(u8::from(answered != count))
}
