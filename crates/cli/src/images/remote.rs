//! An export of an NBD server.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_front_nbd::client::Fault;
use esker_front_nbd::{Client, Uri};
use esker_layer_thin::images::Source;
use esker_rt::mem::{Pool, Slice};
use esker_rt::net::Stream;
use esker_rt::real::{Reactor, RealConfig};

/// Bytes of an export whose allocation is asked at once: the wire has 32 bits for them.
const LOOK: u64 = 1 << 30;

/// A connection in a world of its own, in which nothing goes on between two calls.
pub struct Remote {
    reactor: Reactor,
    client: Rc<Client>,
    bytes: u64,
}

impl Remote {
    /// Connects without TLS.
    pub fn connect(uri: &Uri) -> Result<Remote, String> {
        let reactor = Reactor::new(RealConfig::seeded(1)).map_err(|error| error.to_string())?;
        let (rt, address, export) = (reactor.rt(), uri.address.clone(), uri.export.clone());
        let client = reactor.block_on(async move {
            let stream = Stream::connect(&rt, &address).map_err(|error| error.to_string())?;
            let client = Client::connect(&rt, &Pool::default(), stream, &export).await;
            client.map_err(|fault| fault.to_string())
        })?;
        let bytes = client.remote().size;
        Ok(Remote { reactor, client: Rc::new(client), bytes })
    }

    /// Stores bytes.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let bytes = Slice::heap(bytes.to_vec());
        self.ask(async move |client| client.write(at, bytes, false).await)
    }

    /// Makes durable what was stored.
    pub fn flush(&mut self) -> io::Result<()> {
        self.ask(async |client| client.flush().await)
    }

    /// Waits until the server has closed the connection.
    pub fn close(self) -> io::Result<()> {
        let Remote { reactor, client, .. } = self;
        let client = Rc::into_inner(client).expect("no request is under way");
        reactor.block_on(async move { client.disconnect().await }).map_err(io::Error::other)
    }

    fn ask<T: 'static>(&self, ask: impl AsyncFnOnce(&Client) -> Result<T, Fault> + 'static) -> io::Result<T> {
        let client = self.client.clone();
        self.reactor.block_on(async move { ask(&client).await }).map_err(io::Error::other)
    }
}

impl Source for Remote {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn next_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        let (mut at, mut found) = (from, None::<Range<u64>>);
        while at < self.bytes {
            let range = ByteRange::new(at, LOOK.min(self.bytes - at)).expect("inside the export");
            let extents = self.ask(async move |client| client.block_status(range, false).await)?;
            if extents.is_empty() {
                // The server does not tell holes.
                return Ok(Some(from..self.bytes));
            }
            for extent in extents {
                let end = self.bytes.min(at.saturating_add(extent.len));
                match &mut found {
                    Some(found) if extent.zero() => return Ok(Some(found.clone())),
                    Some(found) => found.end = end,
                    None if extent.zero() => {}
                    None => found = Some(at..end),
                }
                at = end;
            }
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let range = ByteRange::new(at, bytes.len() as u64).expect("inside the export");
        let slab = self.ask(async move |client| client.read(range).await)?;
        bytes.copy_from_slice(&slab[..bytes.len()]);
        Ok(())
    }
}
