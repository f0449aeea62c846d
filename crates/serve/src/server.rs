//! Start, run and stop of a served stack.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::{Rc, Weak};

use esker_base::{Nanos, Time};
use esker_block::{Created, Device, Kind};
use esker_front_nbd::listen::Access;
use esker_front_nbd::proto::TlsMode;
use esker_front_nbd::{Handed, Uri, server as nbd};
use esker_rt::mem::Pool;
use esker_rt::net::{Address, Listener};
use esker_rt::sync::{Either, join_all, race};
use esker_rt::{JoinHandle, Level, Rt};
use esker_stack::text::{address, split_reference};
use esker_stack::{Export, ExportSpec, Measure, MountSpec, Spec, Stack};

use crate::config::Config;
use crate::console;
use crate::dispatch::Operator;
use crate::error::{ServeError, UnusableOutlet};
use crate::freeze::Freezer;
use crate::front::{Front, Offer};
use crate::hand_over::{self, HandOver, Leaving, Sockets};
use crate::http;
use crate::inherited::Inherited;
use crate::keeping::keeping_reads;
use crate::metrics;
use crate::mounts::{self, FileSystems, HeldMount};
use crate::sizes;
use crate::status::Status;
use crate::stop::{self, Stop, StopError};

/// A start that is given up has no clients.
const ABANDON_PATIENCE: Nanos = Nanos::secs(1);

/// An export that clients can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its name.
    pub export: String,
    /// Where.
    pub uri: Uri,
    /// Bytes.
    pub size: u64,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl From<Ready> for Offer {
    fn from(Ready { export, uri, size, read_only }: Ready) -> Offer {
        Offer { export, at: uri.to_string(), size, read_only }
    }
}

/// One address: a listener and the server behind it.
pub(crate) struct ListeningServer {
    pub server: nbd::Server,
    pub listener: Rc<Listener>,
    /// The address as the text has it.
    pub text: String,
    /// Connections that another process began.
    begun: Cell<Vec<Handed>>,
}

pub(crate) struct Shared {
    pub rt: Rt,
    pub stack: Rc<Stack>,
    /// What the start has created: it goes again unless clients are served.
    created: Created,
    pub doors: Vec<ListeningServer>,
    pub ready: Vec<Ready>,
    fronts: RefCell<Vec<Rc<dyn Front>>>,
    pub mounts: RefCell<Vec<Rc<HeldMount>>>,
    pub file_systems: FileSystems,
    pub io: String,
    pub pid: Option<u32>,
    pub started: Time,
    /// Live changes made.
    pub changes: Cell<u64>,
    pub freezer: Freezer,
    measure: Measure,
    pub control: Rc<Listener>,
    /// With the address as the configuration has it.
    pub metrics: Option<(String, Rc<Listener>)>,
    pub stop: Stop,
    pub leaving: Leaving,
    /// Tasks that end with the server.
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl Shared {
    fn build(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        config: &Config,
        sockets: &mut Sockets,
    ) -> Result<Shared, ServeError> {
        // First of all: devices lock their media, and a second server must fail there before it touches a socket.
        let created = Created::default();
        let stack = Stack::build_served(rt, pool, kinds, spec, &created)?;
        label_models(&stack, spec);
        Ok(Shared {
            rt: rt.clone(),
            stack,
            created,
            doors: Vec::new(),
            ready: Vec::new(),
            fronts: RefCell::default(),
            mounts: RefCell::default(),
            file_systems: config.file_systems,
            io: config.io.clone(),
            pid: config.pid,
            started: rt.now(),
            changes: Cell::new(0),
            freezer: Freezer::default(),
            measure: config.measure,
            control: match sockets.take_control() {
                Some(listener) => listener,
                None => {
                    let listener = config.inherited.or_listen(rt, &config.control, only_mode(config.control_mode));
                    Rc::new(listener.map_err(ServeError::Control)?)
                }
            },
            metrics: config
                .metrics
                .as_ref()
                .map(|address| sockets.metrics_at(rt, address, &config.inherited))
                .transpose()?,
            stop: Stop::within(config.stop_patience),
            leaving: Leaving::default(),
            tasks: RefCell::default(),
        })
    }

    /// Whether the server was asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_asked()
    }

    /// All that the server listens on.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Rc<Listener>> {
        let metrics = self.metrics.iter().map(|(_, listener)| listener);
        self.doors.iter().map(|door| &door.listener).chain(metrics).chain([&self.control])
    }

    /// The ways beside NBD.
    pub(crate) fn fronts(&self) -> Vec<Rc<dyn Front>> {
        self.fronts.borrow().clone()
    }

    /// The mount of a name.
    pub(crate) fn mount(&self, name: &str) -> Option<Rc<HeldMount>> {
        self.mounts.borrow().iter().find(|mount| mount.spec.name == name).cloned()
    }

    /// The mounts of the text, once they were tried.
    pub(crate) fn mounts(&self) -> Vec<Rc<HeldMount>> {
        self.mounts.borrow().clone()
    }

    /// What NBD clients can reach, with the sizes of now.
    fn ready(&self) -> Vec<Ready> {
        let fixed = self.stack.read_only();
        let now = |ready: &Ready| {
            let export = self.stack.export(&ready.export);
            let (size, read_only) =
                export.map_or((ready.size, ready.read_only), |export| (export.size(), fixed.has(&export)));
            Ready { size, read_only, ..ready.clone() }
        };
        self.ready.iter().map(now).collect()
    }

    /// What clients can reach, on every way.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        self.ready().into_iter().map(Offer::from).chain(self.fronts().iter().flat_map(|front| front.offers())).collect()
    }

    /// Waits until the server is asked to stop.
    pub(crate) async fn stopping(&self) {
        self.stop.asked().await;
    }
}

/// Hands out the metrics until the server is asked to stop.
async fn hand_out(shared: Rc<Shared>, listener: Rc<Listener>) {
    let pages = Rc::new(MetricsPages(Rc::downgrade(&shared)));
    match race(http::serve(shared.rt.clone(), listener, pages), shared.stopping()).await {
        Either::Left(()) | Either::Right(()) => {}
    }
}

/// The pages of a server for as long as it is there.
struct MetricsPages(Weak<Shared>);

impl http::Pages for MetricsPages {
    fn paths(&self) -> &'static [&'static str] {
        &["/metrics"]
    }

    fn page(&self, _: &str) -> (&'static str, String) {
        let page = self.0.upgrade().map(|shared| metrics::page(Status::of(&shared)));
        (esker_metrics::CONTENT_TYPE, page.unwrap_or_default())
    }
}

/// A stack that clients can reach. Its sockets are removed when it is dropped.
pub struct Served(Rc<Shared>);

impl Served {
    /// Builds the stack and listens at every address. Clients that connect are served from [`Served::run`] on, mounts
    /// are there from [`Served::mount`] on.
    ///
    /// # Errors
    /// [`ServeError`]; sockets made so far are removed again.
    pub fn start(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        config: Config,
    ) -> Result<Served, ServeError> {
        Served::adopt(rt, pool, kinds, spec, config, Sockets::default())
    }

    /// The same with the sockets and connections of the process that has served this stack before. Their paths stay
    /// that process's until [`Served::own_paths`], and their connections are read from [`Served::run`] on.
    ///
    /// # Errors
    /// As for [`Served::start`].
    pub fn adopt(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        config: Config,
        mut sockets: Sockets,
    ) -> Result<Served, ServeError> {
        if spec.exports.iter().all(|export| export.nbd.is_none()) && spec.mounts.is_empty() {
            return Err(ServeError::Nothing);
        }
        let mut shared = Shared::build(rt, pool, kinds, spec, &config, &mut sockets)?;
        let offered = spec.exports.iter().filter(|export| export.nbd.is_some());
        let offered: Vec<Export> = offered.filter_map(|export| shared.stack.export(&export.name)).collect();
        shared.stack.track_changes(&offered);
        let keeping = keeping_reads(spec);
        for exports in by_address(rt, spec) {
            let (door, mut opened) = open(&shared, &exports, &keeping, &config, &mut sockets)?;
            shared.doors.push(door);
            shared.ready.append(&mut opened);
        }
        Ok(Served(Rc::new(shared)))
    }

    /// Builds the stack and its control socket, without NBD: clients come through the fronts that [`Served::add`] gets.
    ///
    /// # Errors
    /// [`ServeError::Build`] and [`ServeError::Control`].
    pub fn over(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        config: &Config,
    ) -> Result<Served, ServeError> {
        Ok(Served(Rc::new(Shared::build(rt, pool, kinds, spec, config, &mut Sockets::default())?)))
    }

    /// From now on clients come through this front too; it is ended with the server.
    pub fn add(&self, front: Rc<dyn Front>) {
        self.0.fronts.borrow_mut().push(front);
    }

    /// The stack.
    pub fn stack(&self) -> &Rc<Stack> {
        &self.0.stack
    }

    /// An export whose requests count in the status and in the metrics: what a front should hand on to.
    pub fn export(&self, name: &str) -> Option<Export> {
        self.0.stack.export(name)
    }

    /// Where metrics are handed out, with the port that the kernel chose.
    pub fn metrics(&self) -> Option<&Address> {
        self.0.metrics.as_ref().map(|(_, listener)| listener.address())
    }

    /// What clients can reach, in the order of the addresses in the text.
    pub fn ready(&self) -> Vec<Ready> {
        self.0.ready()
    }

    /// Waits until the layers of the stack are open: until then sizes may be other ones.
    pub async fn opened(&self) {
        self.0.stack.opened().await;
    }

    /// Opens the file systems of the text's mounts and mounts them, in its order; to be called once layers are open.
    /// Programs are served from then on, as far as the world turns. What cannot be mounted is
    /// [unusable](Served::unusable).
    pub async fn mount(&self) {
        mounts::start(&self.0).await;
    }

    /// What is mounted, in the order of the text, with absolute paths.
    pub fn mounted(&self) -> Vec<MountSpec> {
        self.0.mounts().iter().filter(|mount| mount.fs.is_ok()).map(|mount| mount.spec.clone()).collect()
    }

    /// The exports and mounts that cannot be used, each with the reason in whole sentences; to be asked once layers are
    /// open and mounts were tried.
    pub fn unusable(&self) -> Vec<UnusableOutlet> {
        let stack = &self.0.stack;
        let export = |export: &ExportSpec| {
            let unusable = stack.unusable(&export.name)?;
            Some(UnusableOutlet { what: "export", name: export.name.clone(), unusable })
        };
        let mount = |mount: &Rc<HeldMount>| {
            let unusable = mount.unusable()?;
            Some(UnusableOutlet { what: "mount", name: mount.spec.name.clone(), unusable })
        };
        let mounts = self.0.mounts();
        stack.spec().exports.iter().filter_map(export).chain(mounts.iter().filter_map(mount)).collect()
    }

    /// Ends a start that is not to go on: nothing was served, layers are closed, and media that were made are removed.
    pub async fn abandon(self) {
        let shared = &self.0;
        if let Either::Left(Err(error)) = race(mounts::stop(shared), shared.rt.sleep(ABANDON_PATIENCE)).await {
            shared.rt.log(Level::Error, format_args!("{error}"));
        }
        join_all(shared.fronts().iter().map(|front| front.stop(ABANDON_PATIENCE))).await;
        shared.stack.close().await;
    }

    /// Ends a start whose layers are still being opened. Their media are left as after a crash, which is what they open
    /// from next time; media that were made are removed.
    pub async fn give_up(self) {
        join_all(self.0.fronts().iter().map(|front| front.stop(ABANDON_PATIENCE))).await;
    }

    /// Where commands are taken.
    pub fn control(&self) -> &Address {
        self.0.control.address()
    }

    /// From now on the paths of all sockets are this process's, and removed with them.
    pub fn own_paths(&self) {
        self.0.listeners().for_each(|listener| listener.own_path(true));
    }

    /// Serves until `stop` is ready or a command asks to stop. Then, within the patience of the stop: no new
    /// connections; requests under way are answered; everything is flushed; layers are closed. Mounts go first, and
    /// what is in use of them is waited for, however long that takes.
    ///
    /// # Errors
    /// [`StopError`] for what was not answered or flushed in time, and for the first file system that could not be
    /// closed or device that could not be flushed.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), StopError> {
        self.serve(stop).await;
        let stopped = stop::stop(&self.0).await;
        self.ended().await;
        stopped
    }

    /// The same; it may also leave the stack to another process that asks for it. Layers are closed then too.
    ///
    /// # Errors
    /// As for [`Served::run`].
    pub async fn run_or_leave(self, stop: impl Future<Output = ()>) -> Result<Option<HandOver>, StopError> {
        self.0.leaving.permit();
        self.serve(stop).await;
        match self.0.leaving.to() {
            Some(successor) => Ok(Some(hand_over::leave(self, successor).await)),
            None => {
                let stopped = stop::stop(&self.0).await;
                self.ended().await;
                stopped.map(|()| None)
            }
        }
    }

    /// Serves until the server is asked to stop.
    async fn serve(&self, stop: impl Future<Output = ()>) {
        let shared = &self.0;
        shared.created.keep();
        let own = shared.clone();
        shared.rt.spawn("measure", async move { start_measuring(&own).await }).detach();
        for door in &shared.doors {
            let (server, listener, stack) = (door.server.clone(), door.listener.clone(), shared.stack.clone());
            let begun = door.begun.take();
            let serve = async move {
                // Volumes tell their size when they are open.
                stack.opened().await;
                for handed in begun {
                    server.adopt(handed).await;
                }
                server.serve(&listener).await;
            };
            shared.rt.spawn("nbd-accept", serve).detach();
        }
        let operator = Rc::new(Operator(Rc::downgrade(shared)));
        let mut tasks = vec![
            shared.rt.spawn("sizes", sizes::follow(shared.clone())),
            shared.rt.spawn("control-accept", console::serve(shared.rt.clone(), operator, shared.control.clone())),
        ];
        let metrics = shared.metrics.iter().map(|(_, listener)| hand_out(shared.clone(), listener.clone()));
        tasks.extend(metrics.map(|task| shared.rt.spawn("metrics-accept", task)));
        *shared.tasks.borrow_mut() = tasks;
        if let Either::Left(()) = race(stop, shared.stopping()).await {
            shared.stop.ask(None);
        }
    }

    /// Waits for the tasks that end with the server.
    pub(crate) async fn ended(&self) {
        let tasks = self.0.tasks.take();
        join_all(tasks).await;
    }

    /// What is left to another process.
    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.0
    }
}

/// Listens where metrics are handed out.
///
/// # Errors
/// An address that more than this machine could reach, and the kernel's.
pub fn listen_for_metrics(rt: &Rt, address: &Address, inherited: &Inherited) -> Result<Rc<Listener>, ServeError> {
    if let Address::Tcp(host) = address
        && !is_local(host)
    {
        return Err(ServeError::MetricsOpen(host.clone()));
    }
    inherited.or_listen(rt, address, Access::default()).map(Rc::new).map_err(ServeError::Metrics)
}

/// Whether an address with a port can be reached from this machine only.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || host.parse().is_ok_and(|address: std::net::SocketAddr| address.ip().is_loopback())
}

pub(crate) fn only_mode(mode: u32) -> Access {
    Access { mode: Some(mode), owner: None }
}

/// Exports that other machines can reach without encryption are no error, but mostly a mistake.
fn warn_of_an_open_door(rt: &Rt, address: &Address) {
    let Address::Tcp(host) = address else { return };
    if !is_local(host) {
        let text = format_args!(
            "NOT ENCRYPTED: other machines that reach {host} read and change its exports without a certificate; use \
             --tls require with --tls-client-ca, or listen at 127.0.0.1"
        );
        rt.log_event(Level::Warn, "not_encrypted", &[("address", host)], text);
    }
}

/// A stack that cannot be measured is served all the same.
async fn start_measuring(shared: &Shared) {
    let patience = Nanos::secs(10);
    shared.stack.opened().await;
    if let Err(error) = shared.stack.measure(shared.measure, patience).await {
        shared.rt.log_event(Level::Warn, "not_measured", &[("error", &error)], format_args!("not measured: {error}"));
    }
}

/// Says which devices are modelled, so that their speed is not taken for that of this machine, and which exports keep
/// nothing. Only models know what they use.
fn label_models(stack: &Rc<Stack>, spec: &Spec) {
    let rt = stack.rt();
    for part in stack.stats().iter().filter(|part| part.usage.is_some()) {
        let what = "answers are paced in real time, to about a microsecond while this machine is idle";
        rt.log(Level::Warn, format_args!("\"{}\" is modelled ({}): its {what}", part.name, part.kind));
    }
    for export in &spec.exports {
        if stack.export(&export.name).is_some_and(|end| end.limits().described) {
            let what = "keeps no bytes: what is written reads as zeroes";
            rt.log(Level::Warn, format_args!("export \"{}\" {what} (content = \"memory\" keeps them)", export.name));
        }
    }
}

/// Why new clients of an export are refused now.
fn refusal(stack: &Rc<Stack>, export: &str) -> nbd::RefusalReason {
    let (stack, export) = (Rc::downgrade(stack), export.to_string());
    Rc::new(move || Some(stack.upgrade()?.unusable(&export)?.why))
}

/// Exports with an address, those of one address together, in the order of the text.
fn by_address<'a>(rt: &Rt, spec: &'a Spec) -> Vec<Vec<&'a ExportSpec>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&ExportSpec>> = Vec::new();
    for export in &spec.exports {
        let Some(nbd) = &export.nbd else {
            let what =
                format_args!("{}: export \"{}\" has no nbd address: no client can reach it", export.at, export.name);
            rt.log(Level::Warn, what);
            continue;
        };
        let place = *places.entry(nbd).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(export),
            None => groups.push(vec![export]),
        }
    }
    groups
}

/// Listens for the exports of one address, of which there is at least one. `keeping` are the parts that keep reads.
fn open(
    shared: &Shared,
    specs: &[&ExportSpec],
    keeping: &BTreeSet<&str>,
    config: &Config,
    sockets: &mut Sockets,
) -> Result<(ListeningServer, Vec<Ready>), ServeError> {
    let stack = &shared.stack;
    let first = specs[0];
    let (at, name) = (first.at.clone(), first.name.clone());
    let text = first.nbd.clone().unwrap_or_default();
    let address = address::parse(&text);
    let address = address.map_err(|why| ServeError::Address { at: at.clone(), export: name.clone(), why })?;
    let exports: Vec<(&ExportSpec, Export)> =
        specs.iter().filter_map(|spec| Some((*spec, stack.export(&spec.name)?))).collect();
    let offered = exports.iter().map(|(spec, export)| {
        let changes = export.track_changes().expect("a served stack tracks the changes of its exports");
        sockets.mark_changes(&spec.name, &changes);
        nbd::Export::tracked(&spec.name, Rc::new(export.clone()), changes)
            .cached(keeping.contains(split_reference(&spec.device).0))
            .refused_by(refusal(stack, &spec.name))
    });
    let server = nbd::Server::with_tls(stack.rt(), stack.pool(), offered.collect(), config.nbd, config.tls.clone());
    let server = server.map_err(|source| ServeError::Export { at: at.clone(), source })?;
    let (listener, begun) = match sockets.take_door(&text) {
        Some(door) => (door.listener, door.begun),
        None => {
            let listener = config.inherited.or_listen(stack.rt(), &address, config.access);
            (Rc::new(listener.map_err(|source| ServeError::Listen { at, export: name, source })?), Vec::new())
        }
    };
    let tls = config.tls.as_ref().is_some_and(|tls| tls.mode() == TlsMode::Require);
    if !tls {
        warn_of_an_open_door(stack.rt(), listener.address());
    }
    let fixed = stack.read_only();
    let ready = exports.iter().map(|(spec, export)| Ready {
        export: spec.name.clone(),
        uri: Uri { address: listener.address().clone(), export: spec.name.clone(), tls },
        size: export.size(),
        read_only: fixed.has(export),
    });
    let ready = ready.collect();
    Ok((ListeningServer { server, listener, text, begun: Cell::new(begun) }, ready))
}
