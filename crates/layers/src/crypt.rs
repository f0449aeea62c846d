//! `crypt`: data is encrypted on the device below (AES-XTS). What is stored is what Linux' dm-crypt stores for
//! `aes-xts-plain64` without a header, so either reads the other's volumes.
//!
//! Nothing is kept on the medium but data. Each sector is encrypted under its own number, so equal blocks differ below.
//! The medium does not show whether a key is right: `fingerprint` in the stack text can.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Bio, BioError, Buf, Ctx, Done, Extension, Extent, ExtentState, Flow, Kind, KindError, Layer, Limits, Make, Op,
    OpKind, OpSet, OpenContext, Param, ParamType, Reply, Role, Routes, Stat, StatInfo, Step,
};
use esker_keyslots::luks2::Luks2;
use esker_keyslots::{KeySlots, KeySlotsError, first_line, is_key_slots};
use esker_rt::{Level, Rt, Secret};
use esker_sys::key_memory::wipe_stack;

use crate::cipher::Cipher;

const PARAMS: &[Param] = &[
    Param::required("key", ParamType::Secret, "Place of the key: `file:PATH` or `env:NAME`."),
    Param::optional("passphrase", ParamType::Secret, "Place of the passphrase, if `key` names a file of key slots."),
    Param::optional("fingerprint", ParamType::Text, "Fingerprint of the right key; another key is refused."),
    Param::with_default("sector", ParamType::Size, "512", "Bytes encrypted under one number, at most the block below."),
];

/// Zeroes, holes and copies below would not be zeroes and copies above: `emulate`, above this layer, makes them.
const PASSES: OpSet = OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Extents]);

const STATS: &[StatInfo] = &[
    StatInfo::of("encrypted_bytes", "Bytes that were encrypted."),
    StatInfo::of("decrypted_bytes", "Bytes that were decrypted."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    passes: PASSES,
    role: Role::Modifier,
    routes: Routes::FORWARD,
    needs_bytes: true,
    medium: esker_block::Medium::Encoded,
    transparent: false,
    cost: Nanos(50),
    stats: STATS,
    ..Kind::layer("crypt", "Encrypts the data below (AES-XTS).", PARAMS, build)
};

/// CPU time that virtual time charges for each KiB: AES-256 was measured at 0.8 to 1.3 GB/s on a server processor.
const COST_OF_KIB: Nanos = Nanos(1000);

/// Sectors are numbered in units of 512 bytes, whatever their size (dm-crypt: without `iv_large_sectors`).
const NUMBERED: u64 = 512;

/// Why a device with such a header is not used, and what to do.
const HAS_LUKS: &str = "the device below begins with a LUKS header, where no data is; `esker key make FILE --from \
                        luks:DEVICE` takes its key and prints the layers for its data";

struct Crypt {
    name: Rc<str>,
    /// Bytes of a block below.
    block: usize,
    cipher: Rc<Cipher>,
    sector: usize,
    encrypted: Rc<Cell<u64>>,
    decrypted: Cell<u64>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let (name, reference, lower) = (make.name, make.args.text("key"), &make.lowers[0]);
    let sector = make.args.int("sector");
    if !sector.is_power_of_two() || !(NUMBERED..=4096).contains(&sector) || sector > u64::from(lower.block) {
        let most = lower.block.min(4096);
        let what = format!("sector = {sector} is not a power of two from 512 to {most}, the block below");
        return Err(KindError::Unfit(format!("{name}: {what}")));
    }
    let outside = |place: &str, why: &dyn std::fmt::Display| KindError::Outside(format!("{name}: {place}: {why}"));
    let secret = make.rt.secret(reference).map_err(|why| outside(reference, &why))?;
    let key = match make.args.get("passphrase").map(|_| make.args.text("passphrase")) {
        // In virtual time, a key is made from the seed: there is no file.
        Some(place) if is_key_slots(secret.bytes()) || !make.rt.is_sim() => {
            let passphrase = make.rt.secret(place).map_err(|why| outside(place, &why))?;
            opened(&secret, &passphrase).map_err(|why| outside(reference, &why))?
        }
        None if is_key_slots(secret.bytes()) => {
            return Err(outside(
                reference,
                &"it holds key slots; name the place of a passphrase with passphrase=PLACE",
            ));
        }
        Some(_) | None => secret,
    };
    let cipher = Cipher::read(&key).map_err(|why| outside(reference, &why))?;
    check_key(make, &cipher)?;
    let crypt = Crypt {
        name: name.into(),
        block: lower.block as usize,
        cipher: Rc::new(cipher),
        sector: sector as usize,
        encrypted: Rc::default(),
        decrypted: Cell::default(),
    };
    Ok(Layer::single(crypt, Limits { described: false, ..lower.clone().only(PASSES) }))
}

/// The key in a file of key slots. A passphrase ends before a line feed.
fn opened(slots: &Secret, passphrase: &Secret) -> Result<Secret, KeySlotsError> {
    let slots = KeySlots::decode(slots.bytes())?;
    let (_, key) = slots.open(first_line(passphrase.bytes()))?;
    Ok(Secret::new(key.to_vec()))
}

fn check_key(make: &Make<'_>, cipher: &Cipher) -> Result<(), KindError> {
    let (name, value) = (make.name, cipher.fingerprint());
    match make.args.get("fingerprint") {
        None => {
            let advice = format!("write fingerprint={value} in the stack text to have any other key refused");
            make.rt.log(Level::Info, format_args!("{name}: {advice}"));
            Ok(())
        }
        Some(_) if make.args.text("fingerprint").eq_ignore_ascii_case(&value) => Ok(()),
        Some(_) => Err(KindError::Outside(format!(
            "{name}: this is another key than the stack text's: its fingerprint is {value}, not {}",
            make.args.text("fingerprint")
        ))),
    }
}

/// The tweak of the sector that begins at `offset`.
fn number(offset: u64) -> u128 {
    u128::from(offset / NUMBERED)
}

impl Crypt {
    /// Sends an encrypted copy, because the client gets its own bytes back.
    fn write(&self, ctx: &Ctx<'_>, bio: Bio) -> Step<Flow> {
        let mut buf = Buf::unique(ctx.pool, bio.buf.len());
        let bytes = buf.bytes_mut().expect("just made unique");
        bio.buf.copy_to(bytes);
        self.crypt(ctx.rt, bio.offset(), bytes, Cipher::encrypt);
        self.encrypted.set(self.encrypted.get() + bio.len());
        let plain = bio.buf;
        let below = Bio { buf: Buf::empty(), ..bio }.part(Op::Write, bio.range, buf);
        ctx.below().submit(below).map(move |done| Flow::Done(Done { buf: plain, ..done }))
    }

    /// Works on whole sectors of one size; 4 KiB sectors are numbered by their first 512 bytes.
    fn crypt(&self, rt: &Rt, offset: u64, bytes: &mut [u8], way: fn(&Cipher, &mut [u8], usize, u128)) {
        rt.charge(Nanos(bytes.len() as u64 * COST_OF_KIB.0 / 1024));
        self.crypt_sectors(offset, bytes, way);
        // The cipher spills round keys where its registers do not suffice.
        wipe_stack();
    }

    #[inline(never)]
    fn crypt_sectors(&self, offset: u64, bytes: &mut [u8], way: fn(&Cipher, &mut [u8], usize, u128)) {
        if self.sector as u64 == NUMBERED {
            return way(&self.cipher, bytes, self.sector, number(offset));
        }
        for (sector, at) in bytes.chunks_exact_mut(self.sector).zip((offset..).step_by(self.sector)) {
            way(&self.cipher, sector, self.sector, number(at));
        }
    }
}

impl Extension for Crypt {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match &bio.op {
            Op::Read => {
                ctx.scratch = bio.offset() + 1;
                Step::Now(Flow::Down)
            }
            Op::Write => self.write(ctx, bio.take()),
            Op::Flush => Step::Now(Flow::Down),
            // Zeroes below are not zeroes here.
            Op::Extents => {
                let all = Extent { len: bio.len(), state: ExtentState::Data };
                let reply = Reply::Extents(Box::new([all]));
                Step::Now(Flow::Done(Done { result: Ok(reply), buf: bio.take().buf }))
            }
            Op::Zero => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Zero)))),
            Op::Discard => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Discard)))),
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        let Some(offset) = ctx.scratch.checked_sub(1).filter(|_| done.result.is_ok()) else { return };
        let mut buf = std::mem::take(&mut done.buf).into_unique(ctx.pool);
        self.decrypted.set(self.decrypted.get() + buf.len() as u64);
        self.crypt(ctx.rt, offset, buf.bytes_mut().expect("just made unique"), Cipher::decrypt);
        done.buf = buf;
    }

    /// What is read through a header of another format would be noise, and what is written would destroy it. A
    /// simulated device has no such header.
    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        if opening.rt.is_sim() {
            return Step::Now(Ok(()));
        }
        let (name, block) = (self.name.clone(), self.block);
        Step::later(async move {
            let below = opening.below;
            let first = Bio::read(0, Buf::unique(&opening.pool, block)).to(below.lower(0));
            let done = below.submit(first).await;
            match done.result.is_ok() && Luks2::is_marked(&done.buf.to_vec()) {
                true => Err(KindError::Outside(format!("{name}: {HAS_LUKS}"))),
                false => Ok(()),
            }
        })
    }

    fn stats(&self) -> Vec<Stat> {
        vec![
            Stat { name: "encrypted_bytes", value: self.encrypted.get() as f64 },
            Stat { name: "decrypted_bytes", value: self.decrypted.get() as f64 },
        ]
    }
}

#[cfg(test)]
mod tests;
