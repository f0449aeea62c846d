//! `volumes`: named thin volumes in the logical space of one volume, with snapshots and writable clones.
//!
//! Each volume has room of its own in the logical space, far more than it needs; a snapshot is a clone of a range, a
//! deletion is a deletion of one. Which volume lies where is in the [`catalogue`], which changes in the same range vector as
//! the volumes themselves: there is no state in between. Upper ends ([`ports`]) are named in the stack text.
//!
//! One order of an operator is carried out at a time; requests go on meanwhile, and see a vector as a whole.

mod carry;
pub mod catalogue;
mod change;
mod edit;
mod gaps;
pub mod order;
pub mod ports;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{
    Below, Bio, BioError, Buf, Build, Kind, KindError, Layer, Limits, Make, OrderInfo, Orders, Param, ParamType,
    RangeOp, Sizing, Stat, Step, Upper,
};
use esker_layer_kit::Turn;
use esker_rt::Level;

use crate::format::Geometry;
use crate::map::{LOGICAL_BLOCKS, Snapshot};
use crate::statistics;
use crate::store::METADATA;
use crate::volume::Volume;
use crate::{LogvolLayer, Setup};
use catalogue::{CATALOGUE, Catalogue, CatalogueError, Entry, STAGING};
use change::Cut;
use order::OrderError;
use ports::{Port, Window};

const PORTS: Param = Param::required(
    "ports",
    ParamType::Text,
    "Upper ends, as NAME=SIZE separated by commas; a volume that is not there yet is made.",
);

const SECTOR: Param = Param::with_default(
    "sector",
    ParamType::Size,
    "512",
    "Logical block of the ports, 512 or 4096 bytes, no larger than `block`.",
);

/// Those of a volume, with `ports` and `sector` in the place of `size`.
const PARAMS: [Param; crate::PARAMS.len() + 1] = {
    let mut all = [PORTS; crate::PARAMS.len() + 1];
    all[1] = SECTOR;
    let mut at = 2;
    while at < all.len() {
        all[at] = crate::PARAMS[at - 1];
        at += 1;
    }
    all
};

/// The manifest.
pub static KIND: Kind = Kind {
    name: "thin",
    summary: "Named thin volumes with snapshots and clones, in one log-structured volume.",
    params: &PARAMS,
    stats: statistics::NAMED,
    orders: order::ALL,
    build: Build::Layer(build),
    // That of `volume` reads the catalogue too.
    check: None,
    ..crate::KIND
};

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let unfit = |what: String| KindError::Unfit(format!("{}: {what}", make.name));
    let sector = make.args.int("sector");
    let (config, limits) = crate::open::configure(make, u32::try_from(sector).unwrap_or(u32::MAX))?;
    if !matches!(sector, 512 | 4096) || sector > u64::from(config.block) {
        return Err(unfit(format!("sector={sector}; it is 512 or 4096, and at most block={}", config.block)));
    }
    let ports = ports::parse(make.args.text("ports"), u64::from(config.block)).map_err(unfit)?;
    let upper =
        |port: &Port| Upper { port: port.name.clone(), limits: Limits { size: port.bytes.get(), ..limits.clone() } };
    let uppers = ports.iter().map(upper).collect();
    let ranges_max = limits.ranges_max as usize;
    let named = Named { ports: Rc::new(ports), ranges_max, manager: Rc::default() };
    Ok(Layer { ext: Rc::new(LogvolLayer::new(Setup { config, named: Some(named) })), uppers })
}

/// What a volume with named ones in it has beside the volume.
#[derive(Clone)]
pub(crate) struct Named {
    ports: Rc<Vec<Port>>,
    ranges_max: usize,
    manager: Rc<OnceCell<Manager>>,
}

impl Named {
    /// Opens the manager: before the first request.
    pub async fn open(&self, volume: &Rc<Volume>, below: &Below) -> Result<(), ManageError> {
        let manager = Manager::open(volume.clone(), below, self.ports.clone(), self.ranges_max).await?;
        let is_first = self.manager.set(manager).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(())
    }

    /// Leads a request that came in by a port to where its volume lies.
    pub fn redirect(&self, port: u16, bio: &mut Bio) -> Result<(), BioError> {
        self.ports[usize::from(port)].redirect(bio)
    }

    /// How many volumes there are.
    pub fn stat(&self) -> Stat {
        let volumes = self.manager.get().map_or(0, |manager| manager.catalogue.borrow().len());
        Stat { name: "volumes", value: volumes as f64 }
    }
}

impl Sizing for Named {
    fn size(&self, port: u16) -> u64 {
        self.ports[usize::from(port)].bytes.get()
    }

    fn is_read_only(&self, port: u16) -> bool {
        self.ports[usize::from(port)].window.borrow().as_ref().is_ok_and(|window| window.read_only)
    }

    fn kept(&self, port: u16, by: Option<&str>) {
        *self.ports[usize::from(port)].kept.borrow_mut() = by.map(str::to_string);
    }

    fn resize(&self, below: Below, port: u16, bytes: u64) -> Step<Result<(), BioError>> {
        let named = self.clone();
        Step::later(async move {
            let manager = named.manager.get().expect("the stack opens a layer before it is resized");
            let resized = manager.resize_port(&below, &named.ports[usize::from(port)].name, bytes).await;
            resized.map_err(ManageError::answer)
        })
    }
}

impl Orders for Named {
    fn list(&self) -> &'static [OrderInfo] {
        order::ALL
    }

    fn order(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>> {
        let (named, words) = (self.clone(), words.to_vec());
        Step::later(async move {
            let manager = named.manager.get().expect("the stack opens a layer before it is asked");
            Ok(manager.ask(&below, &words).await?)
        })
    }
}

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
    /// Not enough room where it is.
    #[error("\"{0}\" has room for {1} bytes where it lies; make a clone of \"{2}\" instead")]
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
    fn from(error: ManageError) -> KindError {
        match &error {
            ManageError::Device(_) => KindError::Outside(error.to_string()),
            _ => KindError::Unfit(error.to_string()),
        }
    }
}

impl ManageError {
    /// As the answer of a device.
    fn answer(self) -> BioError {
        match self {
            ManageError::Device(error) => error,
            ManageError::ReadOnly(name) => BioError::ReadOnly(format!("snapshot \"{name}\"").into()),
            ManageError::Full(_) => BioError::NoSpace(self.to_string().into()),
            _ => BioError::invalid(self.to_string()),
        }
    }
}

/// The volumes of one volume.
pub struct Manager {
    volume: Rc<Volume>,
    /// While an order is carried out, as it will be then.
    catalogue: RefCell<Catalogue>,
    ports: Rc<Vec<Port>>,
    /// Where each port stands, by its name.
    port_places: BTreeMap<String, usize>,
    ranges_max: usize,
    /// One order is carried out at a time.
    turn: Turn,
}

impl Manager {
    /// Reads the catalogue, or makes one if the volume is empty, and opens the ports. A port that cannot be opened refuses
    /// everything; the others work.
    ///
    /// # Errors
    /// A damaged or foreign catalogue, and what the device below answers.
    pub async fn open(
        volume: Rc<Volume>,
        below: &Below,
        ports: Rc<Vec<Port>>,
        ranges_max: usize,
    ) -> Result<Manager, ManageError> {
        let port_places = ports.iter().enumerate().map(|(at, port)| (port.name.clone(), at)).collect();
        let catalogue = RefCell::default();
        let manager = Manager { volume, catalogue, ports, port_places, ranges_max, turn: Turn::default() };
        manager.load(below).await?;
        for port in manager.ports.iter() {
            let window = manager.connect(below, port).await.map_err(|e| format!("port \"{}\": {e}", port.name));
            if let Err(why) = &window {
                manager.volume.rt().log(Level::Error, format_args!("{}: {why}", manager.volume.config.name));
            }
            *port.window.borrow_mut() = window;
            manager.catalogue.borrow().get(&port.name).inspect(|(_, entry)| manager.fit_port(entry));
        }
        Ok(manager)
    }

    async fn load(&self, below: &Below) -> Result<(), ManageError> {
        let map = self.volume.snapshot();
        let read = async |block| Ok(self.volume.read_blocks(below, block..block + 1, METADATA).await?.to_vec());
        match catalogue_in(&map, self.volume.identity, read).await? {
            Some(catalogue) => *self.catalogue.borrow_mut() = catalogue,
            None if map.mappings() > 0 => return Err(CatalogueError::Absent.into()),
            None => {
                let head = catalogue::head(self.geometry().block as usize, self.volume.identity);
                self.write(below, CATALOGUE, &head, true).await?;
            }
        }
        if map.pieces(STAGING..LOGICAL_BLOCKS).next().is_none() {
            return Ok(());
        }
        // What a power cut left before its vector.
        self.vector(below, vec![delete(STAGING..LOGICAL_BLOCKS, self.geometry())]).await
    }

    /// Finds or makes the volume of a port.
    async fn connect(&self, below: &Below, port: &Port) -> Result<Window, ManageError> {
        let found = self.catalogue.borrow().get(&port.name).map(|(_, entry)| entry.clone());
        match found {
            None => self.create(below, &port.name, port.bytes.get()).await?,
            Some(entry) if entry.blocks * self.block() < port.bytes.get() => {
                self.resize(below, &port.name, port.bytes.get(), Cut::Refused).await?;
            }
            Some(_) => {}
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

    fn geometry(&self) -> &Geometry {
        &self.volume.geometry
    }

    fn block(&self) -> u64 {
        u64::from(self.volume.geometry.block)
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

/// Reads the catalogue of a volume; none if nothing is where it would begin. `read` gives the bytes of a logical block.
///
/// # Errors
/// [`ManageError::Catalogue`], and what `read` answers.
pub async fn catalogue_in(
    map: &Snapshot,
    volume: u128,
    read: impl AsyncFn(u64) -> Result<Vec<u8>, BioError>,
) -> Result<Option<Catalogue>, ManageError> {
    if map.pieces(CATALOGUE..CATALOGUE + 1).next().is_none() {
        return Ok(None);
    }
    catalogue::check_head(&read(CATALOGUE).await?, volume)?;
    let mut catalogue = Catalogue::default();
    for block in map.pieces(CATALOGUE + 1..STAGING).flat_map(|piece| piece.range()) {
        let place = block - CATALOGUE;
        catalogue.put(place, Entry::decode(&read(block).await?, volume, place)?)?;
    }
    Ok(Some(catalogue))
}

/// The bytes of the first block of the catalogue, if something is there.
async fn head_of(volume: &Rc<Volume>, below: &Below) -> Result<Option<Vec<u8>>, BioError> {
    if volume.pieces(CATALOGUE..CATALOGUE + 1).is_empty() {
        return Ok(None);
    }
    let head = volume.read_blocks(below, CATALOGUE..CATALOGUE + 1, METADATA).await?;
    Ok(Some(head.to_vec()))
}

/// Whether a volume holds named ones: nobody may use it who does not know their names.
///
/// # Errors
/// [`CatalogueError::Present`], and what the device below answers.
pub(crate) async fn demand_none(volume: &Rc<Volume>, below: &Below) -> Result<(), ManageError> {
    match head_of(volume, below).await? {
        Some(head) if catalogue::is_head(&head) => Err(CatalogueError::Present.into()),
        _ => Ok(()),
    }
}

fn delete(blocks: Range<u64>, g: &Geometry) -> RangeOp {
    RangeOp::Delete { at: bytes_of(blocks, g) }
}

fn bytes_of(blocks: Range<u64>, g: &Geometry) -> ByteRange {
    let block = u64::from(g.block);
    let range = ByteRange::new(blocks.start * block, (blocks.end - blocks.start) * block);
    range.expect("inside the logical space")
}
