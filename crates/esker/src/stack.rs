//! A stack in this process.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use esker_base::Nanos;
use esker_block::{BioError, Kind};
use esker_rt::mem::Pool;
use esker_rt::real::{RealConfig, StackCell};
use esker_rt::{Rt, Secret};
use esker_stack::Spec;

use crate::error::Error;
use crate::export::{Export, OpenExport};
use crate::serving::{Running, Serving};
use crate::volumes::Volumes;

/// How long threads stay awake for each other: longer than a call to memory, shorter than one to a drive.
const SPIN: Duration = Duration::from_micros(20);

/// What lives on the stack's own thread.
pub(crate) struct Opened {
    pub(crate) stack: Rc<esker_stack::Stack>,
    /// In the order of the text; empty once the stack is closed.
    exports: RefCell<Vec<Rc<OpenExport>>>,
    /// The server, if the stack has one and is not closed.
    running: RefCell<Option<Running>>,
    is_closed: Cell<bool>,
}

impl Opened {
    /// An export of an open stack.
    ///
    /// # Errors
    /// The stack is closed.
    pub(crate) fn export(&self, place: usize) -> Result<Rc<OpenExport>, Error> {
        let export = self.exports.borrow().get(place).cloned();
        export.ok_or_else(|| Error::Unusable("the stack is closed".to_string()))
    }

    async fn close(&self) -> Result<(), Error> {
        if self.is_closed.replace(true) {
            return Ok(());
        }
        let (exports, running) = (self.exports.take(), self.running.borrow_mut().take());
        let mut flushed: Result<(), BioError> = Ok(());
        for export in exports {
            flushed = flushed.and(export.flush().await);
        }
        match running {
            Some(running) => running.stop().await?,
            None => self.stack.close().await,
        }
        Ok(flushed?)
    }
}

/// What all handles of a stack share.
pub(crate) struct Shared {
    pub(crate) cell: StackCell<Rc<Opened>>,
    pub(crate) pool: Pool,
    pub(crate) spin: Nanos,
    pub(crate) text: Spec,
}

/// A stack of devices and layers. Dropping the last handle, with those of its exports, closes it as [`Stack::close`]
/// does, but tells no error.
#[derive(Clone)]
pub struct Stack(Arc<Shared>);

/// How a stack is opened.
#[derive(Clone)]
pub struct OpenOptions {
    seed: u64,
    name: String,
    spin: Duration,
    kinds: &'static [&'static Kind],
    secrets: Option<Arc<Secrets>>,
    serving: Option<Serving>,
}

/// Gives the key that a stack text names.
type Secrets = dyn Fn(&str) -> io::Result<Vec<u8>> + Send + Sync;

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        #[allow(clippy::disallowed_methods, reason = "a thread that stays awake needs a CPU of its own")]
        let can_spin = available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
        OpenOptions {
            seed: 1,
            name: "stack text".to_string(),
            spin: if can_spin { SPIN } else { Duration::ZERO },
            kinds: esker_kinds::ALL,
            secrets: None,
            serving: None,
        }
    }
}

/// A device or layer of a stack, with its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name in the stack text.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Why it cannot be used, if opening it failed.
    pub unusable: Option<String>,
    /// Its numbers by name, as `esker status` shows them.
    pub stats: Vec<(String, f64)>,
}

/// Opens a stack. The media of its devices are locked, so that no server uses them meanwhile.
///
/// # Errors
/// [`Error::Text`] and [`Error::Build`].
pub fn open(text: &str) -> Result<Stack, Error> {
    OpenOptions::default().open(text)
}

impl OpenOptions {
    /// Seed of the layers that act at random; 1 by default.
    pub fn seed(mut self, seed: u64) -> OpenOptions {
        self.seed = seed;
        self
    }

    /// What messages call the text, such as the file in which it is.
    pub fn name(mut self, name: &str) -> OpenOptions {
        self.name = name.to_string();
        self
    }

    /// How long the stack's thread stays awake for the next call, and a caller for its answer. A call that comes within
    /// this time costs no switch of threads; the price is CPU time. The default is 20 microseconds, and nothing where
    /// the process has one CPU.
    pub fn spin(mut self, spin: Duration) -> OpenOptions {
        self.spin = spin;
        self
    }

    /// The kinds that the text may name: those of [`kinds::ALL`](crate::kinds::ALL) by default. A list with a kind of
    /// your own beside them makes it a word of the text.
    pub fn kinds(mut self, kinds: &'static [&'static Kind]) -> OpenOptions {
        self.kinds = kinds;
        self
    }

    /// Where keys of encrypted volumes come from: `secrets` gets the name that the text has, such as `file:PATH`.
    /// Without it, a stack with keys cannot be opened.
    pub fn secrets(mut self, secrets: impl Fn(&str) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> OpenOptions {
        self.secrets = Some(Arc::new(secrets));
        self
    }

    /// Serves the stack while it is open, as `esker serve` does: exports of the text with `nbd=` take NBD clients, and
    /// `esker status`, `top` and all other verbs reach it by the control socket.
    pub fn serve(mut self, serving: Serving) -> OpenOptions {
        self.serving = Some(serving);
        self
    }

    /// Opens a stack with these options. Layers are open when it returns.
    ///
    /// # Errors
    /// As [`open`], and [`Error::Serve`].
    pub fn open(&self, text: &str) -> Result<Stack, Error> {
        let spec = Spec::parse(&self.name, text)?;
        spec.check(self.kinds)?;
        if let Some(mount) = spec.mounts.first() {
            return Err(Error::Text(format!("{}: mounts are made by esker serve, not by this library", mount.name)));
        }
        let spin = Nanos(u64::try_from(self.spin.as_nanos()).unwrap_or(u64::MAX));
        let config = RealConfig { spin, ..RealConfig::seeded(self.seed) };
        let (pool, options, built) = (Pool::default(), self.clone(), spec.clone());
        let on_thread = pool.clone();
        let cell = StackCell::new(config, move |rt| options.build(rt, &on_thread, &built))?;
        let stack = Stack(Arc::new(Shared { cell, pool, spin, text: spec }));
        stack.on(|opened| async move { opened.opened().await });
        Ok(stack)
    }

    fn build(&self, rt: &Rt, pool: &Pool, spec: &Spec) -> Result<Rc<Opened>, Error> {
        if let Some(secrets) = self.secrets.clone() {
            rt.set_secrets(Box::new(move |name| secrets(name).map(Secret::new)));
        }
        let (stack, running) = match &self.serving {
            None => (esker_stack::Stack::build(rt, pool, self.kinds, spec)?, None),
            Some(serving) => {
                let running = serving.start(rt, pool, self.kinds, spec)?;
                (running.stack().clone(), Some(running))
            }
        };
        let export = |export: &esker_stack::ExportSpec| {
            let export = stack.export(&export.name).expect("the stack has every export of its text");
            Rc::new(OpenExport::new(export))
        };
        let exports = RefCell::new(spec.exports.iter().map(export).collect());
        Ok(Rc::new(Opened { stack, exports, running: RefCell::new(running), is_closed: Cell::new(false) }))
    }
}

impl Stack {
    /// Does something on the stack's thread.
    pub(crate) fn on<R, Fut>(&self, call: impl FnOnce(Rc<esker_stack::Stack>) -> Fut + Send + 'static) -> R
    where
        R: Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        self.0.cell.block_on(move |_, opened| call(opened.stack.clone()))
    }

    pub(crate) fn text(&self) -> &Spec {
        &self.0.text
    }

    /// Names of the exports, in the order of the text.
    pub fn exports(&self) -> Vec<String> {
        self.text().exports.iter().map(|export| export.name.clone()).collect()
    }

    /// An export: a volume that any thread reads and writes.
    ///
    /// # Errors
    /// [`Error::NoExport`], and [`Error::Unusable`] with the reason.
    pub fn export(&self, name: &str) -> Result<Export, Error> {
        let Some(place) = self.text().exports.iter().position(|export| export.name == name) else {
            return Err(Error::NoExport { name: name.to_string(), exports: self.exports() });
        };
        let wanted = name.to_string();
        let facts = self.0.cell.block_on(move |_, opened| {
            let unusable = opened.stack.unusable(&wanted).map(|unusable| Error::Unusable(unusable.why));
            let facts = opened.export(place).map(|export| export.facts(&wanted, place));
            std::future::ready(unusable.map_or(facts, Err))
        })?;
        Ok(Export::of(self.0.clone(), facts))
    }

    /// The thin volumes of a layer of kind `thin`, by its name in the stack text.
    ///
    /// # Errors
    /// [`Error::Order`]: there is no such layer.
    pub fn volumes(&self, layer: &str) -> Result<Volumes, Error> {
        Volumes::of(self.clone(), layer)
    }

    /// Asks a layer for something in the words of its kind, as `esker ask` does. The answer is JSON.
    ///
    /// # Errors
    /// [`Error::Order`].
    pub fn order(&self, layer: &str, words: &[&str]) -> Result<String, Error> {
        let (layer, words) = (layer.to_string(), words.iter().map(ToString::to_string).collect::<Vec<_>>());
        Ok(self.on(|stack| async move { stack.order(&layer, &words).await })?)
    }

    /// What each device and layer tells about itself.
    pub fn parts(&self) -> Vec<Part> {
        self.on(|stack| async move {
            let part = |part: esker_stack::PartStats| Part {
                name: part.name,
                kind: part.kind,
                unusable: part.unusable,
                stats: part.stats.iter().map(|stat| (stat.name.to_string(), stat.value)).collect(),
            };
            stack.stats().into_iter().map(part).collect()
        })
    }

    /// Where metrics are handed out, with the port that the kernel chose; none if they are not, or behind the end.
    pub fn metrics_address(&self) -> Option<String> {
        self.0.cell.block_on(|_, opened| {
            let address = opened.running.borrow().as_ref().and_then(|running| running.metrics().map(str::to_string));
            std::future::ready(address)
        })
    }

    /// Makes all completed writes durable, has every layer write its buffers, and ends the stack. If it is
    /// served, requests of clients that are under way are answered first. Later calls on its exports fail.
    ///
    /// # Errors
    /// What could not be made durable. The stack is closed then, too.
    pub fn close(self) -> Result<(), Error> {
        self.0.close()
    }
}

impl Shared {
    fn close(&self) -> Result<(), Error> {
        self.cell.block_on(|_, opened| {
            let opened = opened.clone();
            async move { opened.close().await }
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A stack whose thread has panicked has no answer, and nothing left to close.
        let _closed = catch_unwind(AssertUnwindSafe(|| self.close()));
    }
}
