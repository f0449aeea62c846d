//! A layer of one's own: it refuses every write to the first megabyte of what lies below.
//!
//! `cargo run -p esker --example own_layer`

use esker::OpenOptions;
use esker::block::{Bio, BioError, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Step};

const LOCKED_BYTES: u64 = 1 << 20;

struct Guard;

impl Extension for Guard {
    fn issue(&self, _: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if bio.changes_data() && bio.offset() < LOCKED_BYTES {
            return Step::Now(Flow::Done(bio.take().fail(BioError::ReadOnly("the first megabyte".into()))));
        }
        Step::Now(Flow::Down)
    }
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Guard, make.lowers[0].clone()))
}

static GUARD: Kind = Kind::layer("guard", "Refuses writes to the first megabyte.", &[], build);

fn main() -> Result<(), esker::Error> {
    let kinds: Vec<&Kind> = esker::kinds::ALL.iter().copied().chain([&GUARD]).collect();
    let stack = OpenOptions::default().kinds(kinds.leak()).open("vol = memory size=16MiB | guard @")?;
    let vol = stack.export("vol")?;

    let refused = vol.write_at(&[1; 4096], 0).unwrap_err();
    println!("at 0: {refused}");
    vol.write_at(&[1; 4096], LOCKED_BYTES)?;
    println!("at {LOCKED_BYTES}: written");
    stack.close()
}
