//! A client that behaves well: it comes, reads and leaves.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use esker_base::{ByteRange, Nanos};
use esker_front_nbd::Client;
use esker_front_nbd::tls::ClientTls;
use esker_rt::mem::Pool;
use esker_rt::net::Stream;
use esker_rt::real::{Reactor, RealConfig};
use esker_rt::sync::{Either, race};

use super::crowd::Target;
use esker_lab_kit::LabError;

/// A newcomer that is not done by then has been locked out.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const READ_BYTES: u64 = 4096;

/// One that may come again and again.
pub(crate) struct Newcomer {
    reactor: Reactor,
    target: Target,
    tls: Option<ClientTls>,
}

impl Newcomer {
    /// At this server, inside TLS if that is given.
    ///
    /// # Errors
    /// A reactor that does not start.
    pub(crate) fn new(seed: u64, target: Target, tls: Option<ClientTls>) -> Result<Newcomer, LabError> {
        Ok(Newcomer { reactor: Reactor::new(RealConfig::seeded(seed))?, target, tls })
    }

    /// One visit, and how long it took.
    ///
    /// # Errors
    /// Why it was locked out.
    pub(crate) fn visit(&self) -> Result<Duration, String> {
        let start = Instant::now();
        match &self.target {
            Target::Nbd(address) => self.read(address)?,
            Target::Control(path) => ask(path).map_err(|error| error.to_string())?,
        }
        Ok(start.elapsed())
    }

    fn read(&self, address: &str) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let address = address.to_socket_addrs().map_err(failed)?.next().ok_or("there is no such address")?;
        let socket = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let (rt, tls) = (self.reactor.rt(), self.tls.clone());
        self.reactor.block_on(async move {
            let stream = Stream::from_socket(&rt, socket.into()).map_err(failed)?;
            let visit = async {
                let pool = Pool::default();
                let client = match &tls {
                    Some(tls) => Client::connect_tls(&rt, &pool, stream, "vol", tls).await?,
                    None => Client::connect(&rt, &pool, stream, "vol").await?,
                };
                client.read(ByteRange::new(0, READ_BYTES).expect("it is short")).await?;
                client.disconnect().await
            };
            match race(visit, rt.sleep(Nanos(PATIENCE.as_nanos() as u64))).await {
                Either::Left(done) => done.map_err(|fault| fault.to_string()),
                Either::Right(()) => Err("it was not done in time".to_string()),
            }
        })
    }
}

/// Asks for the status.
fn ask(control: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"{\"do\":\"status\"}\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.starts_with("{\"ok\":true") { Ok(()) } else { Err(io::Error::other("there is no status")) }
}
