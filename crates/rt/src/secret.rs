//! Bytes that no text may show, and where a world gets them from.

use std::fmt;
use std::io;
use std::rc::Rc;

use esker_base::Stream;
use esker_sys::key_memory::KeyBytes;

/// Gives the secret that a reference such as `file:PATH` or `env:NAME` names, or says why not, without any of its
/// bytes.
pub type SecretSource = Box<dyn Fn(&str) -> io::Result<Secret>>;

/// A key. It cannot be printed, no core dump holds it, and its memory is wiped when the last handle goes.
#[derive(Clone)]
pub struct Secret(Rc<KeyBytes>);

/// Bytes of a simulated secret.
const SIMULATED_BYTES: usize = 64;

impl Secret {
    /// Takes `bytes`, and wipes them where they were.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Rc::new(KeyBytes::new(bytes)))
    }

    pub(crate) fn simulated(rng: &mut Stream) -> Secret {
        Secret::new((0..SIMULATED_BYTES).map(|_| rng.below(256) as u8).collect())
    }

    /// Its bytes, for encryption.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sim, SimConfig};

    #[test]
    fn a_secret_is_not_shown_and_a_source_is_asked_by_reference() {
        let sim = Sim::new(SimConfig::seeded(1));
        let rt = sim.rt();
        let one = rt.secret("file:a").unwrap();
        assert_eq!(one.bytes(), rt.secret("file:a").unwrap().bytes(), "one reference, one secret");
        assert_ne!(one.bytes(), rt.secret("file:b").unwrap().bytes());
        assert_eq!(format!("{one:?}"), "Secret(..)");
        rt.set_secrets(Box::new(|reference| match reference {
            "env:KEY" => Ok(Secret::new(vec![7; 3])),
            other => Err(io::Error::other(format!("no {other}"))),
        }));
        assert_eq!(rt.secret("env:KEY").unwrap().bytes(), [7; 3]);
        assert_eq!(rt.secret("file:a").unwrap_err().to_string(), "no file:a");
    }
}
