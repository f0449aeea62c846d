//! Thin volumes: named volumes in the logical space of one device, with snapshots and writable clones.
//!
//! Each volume has room of its own in the logical space, far more than it needs; a snapshot is a clone of a range, a
//! deletion is a deletion of one. Which volume lies where is in the [`catalogue`], which changes in the same range
//! vector as the volumes themselves: there is no state in between. The device below is whatever can [`Remap`]. Upper
//! ports ([`ports`]) are named in the stack text.
//!
//! One order of an operator is carried out at a time; requests go on meanwhile, and see a vector as a whole.
//!
//! Invariant: has no state between two vectors.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test panics in such an arm"))]

pub mod areas;
mod carry;
pub mod catalogue;
mod change;
mod edit;
mod gaps;
pub mod images;
pub mod order;
pub mod ports;
mod receive;
pub mod remap;
pub mod retention;
mod send;
pub mod stream;
pub mod transfer;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Below, Bio, BioError, Buf, KindError, RangeOp};
use esker_rt::Level;
use esker_rt::sync::Credits;

use catalogue::{CATALOGUE, Catalogue, CatalogueError, Entry, STAGING};
use change::Cut;
use order::OrderError;
use ports::{Port, Window};
use remap::METADATA;
pub use remap::{Changed, Compared, LOGICAL_BLOCKS, Remap, Space, Spaces};

/// Why an order was not carried out. Nothing was changed then.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ManageError {
    /// Words that are no order.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// What the catalogue does not take, or no longer holds.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// No volume of that name.
    #[error("there is no volume \"{0}\"; `esker volume list` shows them")]
    Unknown(String),
    /// A name that is taken.
    #[error("there is a volume \"{0}\" already; choose another name")]
    Exists(String),
    /// A name that cannot stand in a stack text.
    #[error("\"{0}\" cannot be a name; it has up to 64 letters, digits, `_` and `-`, no `-` first")]
    Name(String),
    /// A size that cannot be.
    #[error("{0} bytes cannot be a size; it is a multiple of {1}, and not 0")]
    Size(u64, u32),
    /// Clients use it.
    #[error("\"{0}\" has a port, and a client of it would not notice the change; {1}")]
    Served(String, &'static str),
    /// It would become smaller than its port says.
    #[error(
        "\"{0}\" has a port of {1} bytes, and {2} bytes are fewer; on a served stack, `esker resize` cuts it, otherwise make its \
         port in the stack text smaller first"
    )]
    Ported(String, u64, u64),
    /// More than it has room for where it lies, and it cannot be moved now.
    #[error("\"{0}\" has room for {1} bytes where it lies, and it is not moved while it has a port; {2}")]
    Placed(String, u64, &'static str),
    /// A layer above was built for its size.
    #[error(
        "\"{0}\" keeps its size while it is served, because \"{1}\" stands on it and was built for that; stop the server, \
         and resize it then (`--stack`)"
    )]
    Kept(String, String),
    /// A snapshot.
    #[error("\"{0}\" is a snapshot and never changes; make a clone of it that may")]
    ReadOnly(String),
    /// A snapshot that must stay.
    #[error("\"{0}\" is held, so that no order deletes it; `esker volume release {0}` lets it go")]
    Held(String),
    /// No snapshot.
    #[error("\"{0}\" is a volume that changes; make a snapshot of it with `esker volume snapshot {0} NAME`")]
    Changes(String),
    /// Content that is still coming.
    #[error("\"{0}\" is received and not complete; receive the rest, or delete it")]
    Partial(String),
    /// A name that is taken by something else than what is received.
    #[error("there is no \"{0}\", where a snapshot is received; begin with the first byte")]
    NotReceiving(String),
    /// A stream that goes on where nothing ends.
    #[error(
        "the stream goes on at byte {1}, and \"{0}\" has {2} bytes of that snapshot; send it from byte {2} on (--start)"
    )]
    Gap(String, u64, u64),
    /// A snapshot that is not there.
    #[error("no snapshot here is the one from which the stream differs; send the whole snapshot, or from another one")]
    NoBase,
    /// A volume that is not what the stream differs from.
    #[error(
        "\"{0}\" is not as \"{1}\", from which the stream differs; roll it back with `esker volume rollback {0} {1}`, or \
         overwrite it (force)"
    )]
    Diverged(String, String),
    /// A snapshot that is there already.
    #[error("\"{0}\" has this content already")]
    Received(String),
    /// A snapshot of an earlier esker.
    #[error(
        "\"{0}\" has no number for its content, because an earlier esker made it; make a snapshot of it, and send that"
    )]
    Unnumbered(String),
    /// Another snapshot of that name.
    #[error("\"{0}\" is not the snapshot that was there; begin again")]
    Replaced(String),
    /// Bytes that cannot be meant.
    #[error("{0} bytes from byte {1} on are not inside \"{2}\", or no multiples of its blocks")]
    Outside(u64, u64, String),
    /// Not Base64.
    #[error("the data is no Base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Not enough room where it is, and what to do.
    #[error("\"{0}\" has room for {1} bytes where it lies; {2}")]
    Narrow(String, u64, String),
    /// The logical space is given out.
    #[error("there is no room in the logical space for {0} more bytes; delete volumes")]
    Full(u64),
    /// Too much for one vector.
    #[error("{0} changes at once are too many; {1} fit")]
    Long(usize, usize),
    /// A volume and itself.
    #[error("\"{0}\" is named twice; name each volume once")]
    Same(String),
    /// The volume or the device below it.
    #[error("{0}")]
    Device(#[from] BioError),
}

impl From<ManageError> for KindError {
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other refusal is one of the order")]
    fn from(error: ManageError) -> KindError {
        match &error {
            ManageError::Device(_) => KindError::Outside(error.to_string()),
            _ => KindError::Unfit(error.to_string()),
        }
    }
}

impl ManageError {
    /// As the answer of a device.
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other refusal is one of the order")]
    pub fn answer(self) -> BioError {
        match self {
            ManageError::Device(error) => error,
            ManageError::ReadOnly(name) => BioError::ReadOnly(format!("snapshot \"{name}\"").into()),
            ManageError::Full(_) => BioError::NoSpace(self.to_string().into()),
            _ => BioError::invalid(self.to_string()),
        }
    }
}

/// The volumes of one volume.
pub struct Manager<V> {
    volume: Rc<V>,
    /// While an order is carried out, as it will be then.
    catalogue: RefCell<Catalogue>,
    ports: Rc<Vec<Port>>,
    /// Where each port stands, by its name.
    port_places: BTreeMap<String, usize>,
    ranges_max: usize,
    /// One order is carried out at a time.
    turn: Credits,
}

impl<V: Remap> Manager<V> {
    /// Reads the catalogue, or makes one if the volume is empty, and opens the ports. A port that cannot be opened
    /// refuses everything; the others work.
    ///
    /// # Errors
    /// A damaged or foreign catalogue, and what the device below answers.
    pub async fn open(
        volume: Rc<V>,
        below: &Below,
        ports: Rc<Vec<Port>>,
        ranges_max: usize,
    ) -> Result<Manager<V>, ManageError> {
        let port_places = ports.iter().enumerate().map(|(at, port)| (port.name.clone(), at)).collect();
        let catalogue = RefCell::default();
        let manager = Manager { volume, catalogue, ports, port_places, ranges_max, turn: Credits::new(1) };
        manager.load(below).await?;
        for port in manager.ports.iter() {
            let window = manager.connect(below, port).await.map_err(|e| format!("port \"{}\": {e}", port.name));
            if let Err(why) = &window {
                manager.volume.rt().log(Level::Error, format_args!("{}: {why}", manager.volume.name()));
            }
            *port.window.borrow_mut() = window;
            manager.catalogue.borrow().get(&port.name).inspect(|(_, entry)| manager.fit_port(entry));
        }
        Ok(manager)
    }

    /// How many volumes there are.
    pub fn len(&self) -> usize {
        self.catalogue.borrow().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    async fn load(&self, below: &Below) -> Result<(), ManageError> {
        let first_mapped = |blocks| self.volume.first_mapped(blocks);
        let read = async |block| Ok(self.volume.read_blocks(below, block..block + 1, METADATA).await?.to_vec());
        match catalogue_in(first_mapped, self.volume.identity(), read).await? {
            Some(catalogue) => *self.catalogue.borrow_mut() = catalogue,
            None if first_mapped(0..LOGICAL_BLOCKS).is_some() => return Err(CatalogueError::Absent.into()),
            None => {
                let head = catalogue::head(self.block() as usize, self.volume.identity());
                self.write(below, CATALOGUE, &head, true).await?;
            }
        }
        if first_mapped(STAGING..LOGICAL_BLOCKS).is_none() {
            return Ok(());
        }
        // What a power cut left before its vector.
        self.vector(below, vec![delete(STAGING..LOGICAL_BLOCKS, self.block())]).await
    }

    /// Finds or makes the volume of a port.
    async fn connect(&self, below: &Below, port: &Port) -> Result<Window, ManageError> {
        let found = self.catalogue.borrow().get(&port.name).map(|(_, entry)| entry.clone());
        match found {
            None => self.create(below, &port.name, port.bytes.get()).await?,
            Some(entry) if entry.blocks * self.block() < port.bytes.get() => {
                self.resize(below, &port.name, port.bytes.get(), Cut::Refused).await?;
            }
            Some(_) => drop(self.whole(&port.name)?),
        }
        Ok(self.window(&port.name).expect("it is there now"))
    }

    /// Where a volume lies now.
    fn window(&self, name: &str) -> Option<Window> {
        let catalogue = self.catalogue.borrow();
        let (_, entry) = catalogue.get(name)?;
        Some(Window { start: entry.start * self.block(), read_only: entry.read_only })
    }

    /// The port of that name.
    fn port(&self, name: &str) -> Option<&Port> {
        Some(&self.ports[*self.port_places.get(name)?])
    }

    /// The port of a volume offers all of it, if it is open.
    fn fit_port(&self, entry: &Entry) {
        let port = self.port(&entry.name).filter(|port| port.window.borrow().is_ok());
        port.into_iter().for_each(|port| port.bytes.set(entry.blocks * self.block()));
    }

    fn block(&self) -> u64 {
        u64::from(self.volume.block())
    }

    async fn write(&self, below: &Below, block: u64, bytes: &[u8], durably: bool) -> Result<(), ManageError> {
        let bio = Bio::write(block * self.block(), Buf::from_bytes(self.volume.pool(), bytes));
        let bio = if durably { bio.fua() } else { bio };
        self.submit(below, bio).await
    }

    async fn submit(&self, below: &Below, bio: Bio) -> Result<(), ManageError> {
        Ok(self.volume.clone().change(below.clone(), bio.tagged(METADATA)).await.result.map(drop)?)
    }
}

/// Reads the catalogue of a volume; none if nothing is where it would begin. `first_mapped` gives the first
/// run of mapped blocks in a range, `read` the bytes of one block.
///
/// # Errors
/// [`ManageError::Catalogue`], and what `read` answers.
pub async fn catalogue_in(
    first_mapped: impl Fn(Range<u64>) -> Option<Range<u64>>,
    volume: u128,
    read: impl AsyncFn(u64) -> Result<Vec<u8>, BioError>,
) -> Result<Option<Catalogue>, ManageError> {
    if first_mapped(CATALOGUE..CATALOGUE + 1).is_none() {
        return Ok(None);
    }
    catalogue::check_head(&read(CATALOGUE).await?, volume)?;
    let mut catalogue = Catalogue::default();
    let mut left = CATALOGUE + 1..STAGING;
    while let Some(run) = first_mapped(left.clone()) {
        left.start = run.end;
        for block in run {
            let place = block - CATALOGUE;
            catalogue.put(place, Entry::decode(&read(block).await?, volume, place)?)?;
        }
    }
    Ok(Some(catalogue))
}

/// The bytes of the first block of the catalogue, if something is there.
async fn head_of(volume: &Rc<impl Remap>, below: &Below) -> Result<Option<Vec<u8>>, BioError> {
    if volume.first_mapped(CATALOGUE..CATALOGUE + 1).is_none() {
        return Ok(None);
    }
    let head = volume.read_blocks(below, CATALOGUE..CATALOGUE + 1, METADATA).await?;
    Ok(Some(head.to_vec()))
}

/// Whether a volume holds named ones: only a layer that knows their names may use it.
///
/// # Errors
/// [`CatalogueError::Present`], and what the device below answers.
pub async fn demand_none(volume: &Rc<impl Remap>, below: &Below) -> Result<(), ManageError> {
    match head_of(volume, below).await? {
        Some(head) if catalogue::is_head(&head) => Err(CatalogueError::Present.into()),
        _ => Ok(()),
    }
}

fn delete(blocks: Range<u64>, block: u64) -> RangeOp {
    RangeOp::Delete { at: bytes_of(blocks, block) }
}

fn bytes_of(blocks: Range<u64>, block: u64) -> ByteRange {
    let range = ByteRange::new(blocks.start * block, (blocks.end - blocks.start) * block);
    range.expect("inside the logical space")
}
