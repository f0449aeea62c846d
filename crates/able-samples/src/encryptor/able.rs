//! ENCRYPTOR on the primitives.

use std::rc::Rc;

use esker_block::{Bio, BioError, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, Step};
use esker_layer_kit::Io;
use esker_layers::cipher::Cipher;

use super::{PARAMS, SECTOR, cipher, limits, manifest, number};

/// The manifest.
pub static KIND: Kind = manifest(Kind::layer("encryptor-able", "Encrypts on the primitives.", PARAMS, build));

struct Encryptor {
    cipher: Rc<Cipher>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Encryptor { cipher: cipher(make)? }, limits(make)))
}

impl Extension for Encryptor {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Flush => Step::Now(Flow::Down),
            Op::Read => {
                ctx.scratch = bio.offset() + 1;
                Step::Now(Flow::Down)
            }
            Op::Write => self.write(Io::of(ctx), bio.take()),
            Op::Zero | Op::Discard | Op::Extents | Op::Ranges(_) => {
                Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Zero))))
            }
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        let Some(offset) = ctx.scratch.checked_sub(1).filter(|_| done.result.is_ok()) else { return };
        let mut buf = std::mem::take(&mut done.buf).into_unique(ctx.pool);
        self.cipher.decrypt(buf.bytes_mut().expect("just made unique"), SECTOR, number(offset));
        done.buf = buf;
    }
}

impl Encryptor {
    fn write(&self, io: Io, mut bio: Bio) -> Step<Flow> {
        let mut copy = io.clone_deep(&mut bio);
        self.cipher.encrypt(copy.buf.bytes_mut().expect("a copy of its own"), SECTOR, number(bio.offset()));
        io.submit(copy).map(move |done| Flow::Done(Done { buf: bio.buf, ..done }))
    }
}
