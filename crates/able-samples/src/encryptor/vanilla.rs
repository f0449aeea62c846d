//! ENCRYPTOR by hand: it makes the request for the encrypted copy itself.

use std::rc::Rc;

use esker_block::{Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, Step};
use esker_layers::cipher::Cipher;

use super::{PARAMS, SECTOR, cipher, limits, manifest, number};

/// The manifest.
pub static KIND: Kind = manifest(Kind::layer("encryptor-vanilla", "Encrypts by hand.", PARAMS, build));

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
            Op::Write => self.write(ctx, bio.take()),
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
    fn write(&self, ctx: &Ctx<'_>, bio: Bio) -> Step<Flow> {
        let mut buf = Buf::unique(ctx.pool, bio.buf.len());
        buf.bounce(0, &bio.buf);
        self.cipher.encrypt(buf.bytes_mut().expect("just made unique"), SECTOR, number(bio.offset()));
        let copy = Bio { op: Op::Write, range: bio.range, flags: bio.flags, dest: bio.dest, buf, tag: bio.tag };
        let plain = bio.buf;
        ctx.below().submit(copy).map(move |done| Flow::Done(Done { buf: plain, ..done }))
    }
}
