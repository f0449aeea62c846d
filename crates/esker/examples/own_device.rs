//! A device of one's own: each block reads as its own number, and takes no writes.
//!
//! `cargo run -p esker --example own_device`

use std::rc::Rc;

use esker::OpenOptions;
use esker::block::{Bio, BioError, Device, Done, Kind, KindError, Limits, Make, Op, Param, ParamType, Step};

const BLOCK: u32 = 4096;

struct Numbers(Limits);

impl Device for Numbers {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn submit(&self, mut bio: Bio) -> Step<Done> {
        Step::Now(match bio.op {
            Op::Read => {
                let first = bio.offset() / u64::from(BLOCK);
                for at in 0..bio.buf.len() / BLOCK as usize {
                    let block = (first + at as u64).to_le_bytes().repeat(BLOCK as usize / 8);
                    bio.buf.fill(at * BLOCK as usize, &block);
                }
                bio.ok()
            }
            Op::Flush => bio.ok(),
            _ => bio.fail(BioError::ReadOnly("numbers".into())),
        })
    }
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    Ok(Rc::new(Numbers(Limits::plain(make.args.int("size"), BLOCK))))
}

const PARAMS: &[Param] = &[Param::required("size", ParamType::Size, "Size of the device.")];
static NUMBERS: Kind = Kind::device("numbers", "Reads as numbers.", PARAMS, build);

fn main() -> Result<(), esker::Error> {
    let kinds: Vec<&Kind> = esker::kinds::ALL.iter().copied().chain([&NUMBERS]).collect();
    let stack = OpenOptions::default().kinds(kinds.leak()).open("n = numbers size=1GiB; vol = align block=1 on n @")?;
    let mut number = [0; 8];
    stack.export("vol")?.read_at(&mut number, 42 * u64::from(BLOCK))?;
    println!("block 42 reads as {}", u64::from_le_bytes(number));
    stack.close()
}
