//! `thin`: named thin volumes in the logical space of one volume.

use std::cell::OnceCell;
use std::rc::Rc;

use esker_block::{
    Below, Bio, BioError, Build, Kind, KindError, Layer, Limits, Make, OrderInfo, Orders, Param, ParamType, Sizing,
    Stat, Step, Upper,
};
use esker_layer_thin::ports::{self, Port};
use esker_layer_thin::{ManageError, Manager, order};

use crate::statistics;
use crate::volume::Volume;
use crate::{LogvolLayer, Setup};

const PORTS: Param = Param::required(
    "ports",
    ParamType::Text,
    "Upper ports, as NAME=SIZE separated by commas; a missing volume is made, a smaller one grows.",
);

const SECTOR: Param = Param::with_default(
    "sector",
    ParamType::Size,
    "512",
    "Logical block of the ports, 512 or 4096 bytes, at most `block`.",
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
    // That of `logvol` reads the catalogue too.
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
    manager: Rc<OnceCell<Manager<Volume>>>,
}

impl Named {
    /// Opens the manager: before the first request.
    pub(crate) async fn open(&self, volume: &Rc<Volume>, below: &Below) -> Result<(), ManageError> {
        let manager = Manager::open(volume.clone(), below, self.ports.clone(), self.ranges_max).await?;
        let is_first = self.manager.set(manager).is_ok();
        debug_assert!(is_first, "a layer is opened once");
        Ok(())
    }

    /// Leads a request that came in by a port to where its volume lies.
    pub(crate) fn redirect(&self, port: u16, bio: &mut Bio) -> Result<(), BioError> {
        self.ports[usize::from(port)].redirect(bio)
    }

    /// How many volumes there are.
    pub(crate) fn stat(&self) -> Stat {
        let volumes = self.manager.get().map_or(0, |manager| manager.len());
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
