//! ENCRYPTOR: encrypts what is written and decrypts what is read, sector by sector. Cipher and keys are those of
//! `crypt`.

pub mod able;
pub mod vanilla;

use std::rc::Rc;

use esker_block::{Kind, KindError, Limits, Make, OpKind, OpSet, Param, ParamType, Role};
use esker_layers::cipher::Cipher;

/// Bytes under one number.
const SECTOR: usize = 512;

const PARAMS: &[Param] = &[Param::required("key", ParamType::Text, "Where the key is.")];

const PASSES: OpSet = OpSet::of(&[OpKind::Read, OpKind::Write, OpKind::Flush]);

/// What both manifests have in common.
const fn manifest(kind: Kind) -> Kind {
    Kind { passes: PASSES, role: Role::Modifier, needs_bytes: true, transparent: false, ..kind }
}

fn cipher(make: &Make<'_>) -> Result<Rc<Cipher>, KindError> {
    let secret = make.rt.secret(make.args.text("key")).map_err(|why| KindError::Outside(why.to_string()))?;
    Cipher::read(&secret).map(Rc::new).map_err(|error| KindError::Outside(error.to_string()))
}

fn limits(make: &Make<'_>) -> Limits {
    Limits { described: false, ..make.lowers[0].clone().only(PASSES) }
}

/// The number of the sector at `offset`.
fn number(offset: u64) -> u128 {
    u128::from(offset / SECTOR as u64)
}
