//! Thin volumes, their snapshots and clones.

use serde_json::Value;

use crate::error::Error;
use crate::stack::Stack;

/// Kind of the layer that has thin volumes.
const KIND: &str = "thin";

/// The thin volumes of one layer.
#[derive(Clone)]
pub struct Volumes {
    stack: Stack,
    layer: String,
}

/// A thin volume or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Whether it takes no changes.
    pub is_snapshot: bool,
    /// What it was made of, if it is a snapshot or a clone.
    pub of: Option<String>,
}

impl Volumes {
    pub(crate) fn of(stack: Stack, layer: &str) -> Result<Volumes, Error> {
        match stack.text().device(layer) {
            Some(device) if device.kind == KIND => Ok(Volumes { stack, layer: layer.to_string() }),
            Some(device) => {
                Err(Error::Order(format!("\"{layer}\" is of kind {}, and not of kind {KIND}", device.kind)))
            }
            None => Err(Error::Order(format!("there is no layer \"{layer}\" in this stack"))),
        }
    }

    fn order(&self, words: &[&str]) -> Result<Value, Error> {
        let answer = self.stack.order(&self.layer, words)?;
        serde_json::from_str(&answer).map_err(|error| Error::Order(format!("{answer}: {error}")))
    }

    /// All of them.
    ///
    /// # Errors
    /// [`Error::Order`].
    pub fn list(&self) -> Result<Vec<Volume>, Error> {
        let answer = self.order(&["list"])?;
        let volume = |volume: &Value| {
            Some(Volume {
                name: volume["name"].as_str()?.to_string(),
                bytes: volume["bytes"].as_u64()?,
                is_snapshot: volume["snapshot"] == true,
                of: volume["of"].as_str().map(str::to_string),
            })
        };
        let volumes: Option<Vec<Volume>> = answer.as_array().and_then(|all| all.iter().map(volume).collect());
        volumes.ok_or_else(|| Error::Order(format!("the layer's answer is no list: {answer}")))
    }

    /// Makes an empty volume of so many bytes.
    ///
    /// # Errors
    /// [`Error::Order`]: the name is taken, or the size cannot be had.
    pub fn create(&self, name: &str, bytes: u64) -> Result<(), Error> {
        self.order(&["create", name, &bytes.to_string()]).map(drop)
    }

    /// Keeps the state of a volume under a name. Takes no time that depends on its size.
    ///
    /// # Errors
    /// [`Error::Order`].
    pub fn snapshot(&self, of: &str, name: &str) -> Result<(), Error> {
        self.order(&["snapshot", of, name]).map(drop)
    }

    /// Makes a volume that begins with the content of another one, or of a snapshot.
    ///
    /// # Errors
    /// [`Error::Order`].
    pub fn clone_of(&self, of: &str, name: &str) -> Result<(), Error> {
        self.order(&["clone", of, name]).map(drop)
    }

    /// Gives a volume the content of a snapshot again. The layer refuses where newer snapshots would be lost.
    ///
    /// # Errors
    /// [`Error::Order`].
    pub fn roll_back(&self, name: &str, to: &str) -> Result<(), Error> {
        self.order(&["rollback", name, to]).map(drop)
    }

    /// Deletes a volume or snapshot.
    ///
    /// # Errors
    /// [`Error::Order`].
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        self.order(&["delete", name]).map(drop)
    }
}
