//! A stack that is served to others while this process uses it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use esker_block::Kind;
use esker_rt::mem::Pool;
use esker_rt::net::Address;
use esker_rt::sync::{Sender, oneshot};
use esker_rt::{JoinHandle, Rt};
use esker_serve::{Config, Served, StopError};
use esker_stack::Spec;

use crate::error::Error;

/// How a stack is served.
#[derive(Clone, Debug)]
pub struct Serving {
    control: PathBuf,
    metrics: Option<String>,
}

impl Serving {
    /// Commands are taken at a Unix socket with this path, which is made, and removed at the end.
    pub fn at(control: impl AsRef<Path>) -> Serving {
        Serving { control: control.as_ref().to_path_buf(), metrics: None }
    }

    /// Hands out metrics over HTTP, such as at `127.0.0.1:9090`.
    pub fn metrics(mut self, address: &str) -> Serving {
        self.metrics = Some(address.to_string());
        self
    }

    pub(crate) fn start(
        &self,
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
    ) -> Result<Running, Error> {
        let config = Config {
            metrics: self.metrics.clone().map(Address::Tcp),
            ..Config::at(Address::Unix(self.control.clone()), "library")
        };
        let has_nbd = spec.exports.iter().any(|export| export.nbd.is_some());
        let served = match has_nbd {
            true => Served::start(rt, pool, kinds, spec, config)?,
            false => Served::over(rt, pool, kinds, spec, &config)?,
        };
        let metrics = served.metrics().map(|address| match address {
            Address::Tcp(address) => address.clone(),
            Address::Unix(path) => path.display().to_string(),
        });
        let (stack, (stop, asked)) = (served.stack().clone(), oneshot());
        let asked = async move {
            // A dropped sender asks for it as well.
            let _asked = asked.await;
        };
        let stopped = rt.spawn("serve", async move { served.run(asked).await });
        Ok(Running { stack, metrics, stop, stopped })
    }
}

/// A server that runs.
pub(crate) struct Running {
    stack: Rc<esker_stack::Stack>,
    metrics: Option<String>,
    stop: Sender<()>,
    stopped: JoinHandle<Result<(), StopError>>,
}

impl Running {
    pub(crate) fn stack(&self) -> &Rc<esker_stack::Stack> {
        &self.stack
    }

    pub(crate) fn metrics(&self) -> Option<&str> {
        self.metrics.as_deref()
    }

    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.stop.send(());
        Ok(self.stopped.await?)
    }
}
