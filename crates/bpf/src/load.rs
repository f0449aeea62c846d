//! From an object file to programs that run at tracepoints.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{self, MapData, RingBuf};
use aya::programs::raw_trace_point::RawTracePointLinkId;
use aya::programs::{RawTracePoint, SocketFilter};
use aya::{Ebpf, EbpfLoader};

use crate::object::{Map, Program, write};

/// A program or map that the kernel does not take.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel refuses.
    #[error("{what}: {why}; programs in the kernel need root (CAP_BPF and CAP_PERFMON) and Linux 5.8")]
    Refused {
        /// What was refused.
        what: String,
        /// The kernel's or the loader's words.
        why: String,
    },
    /// No program or map of that name is in the object.
    #[error("{0}: the object has no such program or map")]
    Absent(String),
}

/// Programs and maps in the kernel, until this is dropped.
#[derive(Debug)]
pub struct Loaded {
    ebpf: Ebpf,
    /// Programs that run.
    links: BTreeMap<String, RawTracePointLinkId>,
}

/// Records that programs put out, in their order.
pub struct Ring(RingBuf<MapData>);

/// Numbers or bytes that programs and this process share.
pub use aya::Pod;

/// A map with keys.
pub struct HashMap<K, V>(maps::HashMap<MapData, K, V>);

/// A map with numbers as keys.
pub struct ArrayMap<V: Pod>(maps::Array<MapData, V>);

impl Loaded {
    /// Gives maps and programs to the kernel, which checks them; nothing runs yet.
    ///
    /// # Errors
    /// What the kernel refuses, with the words of its verifier.
    pub fn new(programs: &[Program], maps: &[Map]) -> Result<Loaded, BpfError> {
        // Programs here carry no type information; without this the kernel's own is parsed, in vain.
        let ebpf = EbpfLoader::new().btf(None).load(&write(programs, maps)).map_err(refused("object"))?;
        Ok(Loaded { ebpf, links: BTreeMap::new() })
    }

    /// Runs a program of type `raw_tp` at a tracepoint: the quickest way, with the tracepoint's own arguments.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn attach_raw(&mut self, program: &str, tracepoint: &str) -> Result<(), BpfError> {
        let found = self.program(program)?;
        if found.fd().is_err() {
            found.load().map_err(refused(program))?;
        }
        let link = found.attach(tracepoint).map_err(refused(program))?;
        self.links.insert(program.to_string(), link);
        Ok(())
    }

    /// Has a program that runs run no longer; it may be attached again.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn detach(&mut self, program: &str) -> Result<(), BpfError> {
        let link = self.links.remove(program).ok_or_else(|| BpfError::Absent(program.to_string()))?;
        self.program(program)?.detach(link).map_err(refused(program))
    }

    fn program(&mut self, name: &str) -> Result<&mut RawTracePoint, BpfError> {
        let found = self.ebpf.program_mut(name).ok_or_else(|| BpfError::Absent(name.to_string()))?;
        found.try_into().map_err(refused(name))
    }

    /// Runs a program of type `socket` on each message that a socket is sent, until the socket is closed.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn attach_socket(&mut self, program: &str, socket: impl AsFd) -> Result<(), BpfError> {
        let found = self.ebpf.program_mut(program).ok_or_else(|| BpfError::Absent(program.to_string()))?;
        let found: &mut SocketFilter = found.try_into().map_err(refused(program))?;
        found.load().map_err(refused(program))?;
        found.attach(socket).map_err(refused(program))
    }

    /// A ring, taken out for one reader.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn ring(&mut self, name: &str) -> Result<Ring, BpfError> {
        Ok(Ring(RingBuf::try_from(self.take(name)?).map_err(refused(name))?))
    }

    /// A map with keys, taken out.
    ///
    /// # Errors
    /// If there is none of that name and these sizes.
    pub fn hash<K: Pod, V: Pod>(&mut self, name: &str) -> Result<HashMap<K, V>, BpfError> {
        maps::HashMap::try_from(self.take(name)?).map(HashMap).map_err(refused(name))
    }

    /// A map with numbers as keys, taken out.
    ///
    /// # Errors
    /// If there is none of that name and this size.
    pub fn array<V: Pod>(&mut self, name: &str) -> Result<ArrayMap<V>, BpfError> {
        maps::Array::try_from(self.take(name)?).map(ArrayMap).map_err(refused(name))
    }

    fn take(&mut self, name: &str) -> Result<aya::maps::Map, BpfError> {
        self.ebpf.take_map(name).ok_or_else(|| BpfError::Absent(name.to_string()))
    }
}

impl<K: Pod, V: Pod> HashMap<K, V> {
    /// Sets what is kept under a key.
    ///
    /// # Errors
    /// If the map is full.
    pub fn insert(&mut self, key: K, value: V) -> Result<(), BpfError> {
        self.0.insert(key, value, 0).map_err(refused("map"))
    }

    /// Forgets a key, if it is there.
    pub fn remove(&mut self, key: &K) {
        // Absent is as good as removed.
        let _ = self.0.remove(key);
    }

    /// What is kept under a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.get(key, 0).ok()
    }

    /// All keys; those that come or go meanwhile may be missing.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.0.keys().map_while(Result::ok)
    }
}

impl<V: Pod> ArrayMap<V> {
    /// What is kept at an index; `None` behind the end.
    pub fn get(&self, index: u32) -> Option<V> {
        self.0.get(&index, 0).ok()
    }

    /// Sets it.
    ///
    /// # Errors
    /// Behind the end.
    pub fn set(&mut self, index: u32, value: V) -> Result<(), BpfError> {
        self.0.set(index, value, 0).map_err(refused("map"))
    }
}

impl Ring {
    /// Records that are handed over in one go, at most.
    pub const BATCH: usize = 4096;

    /// A descriptor that has something to read while the ring holds records.
    ///
    /// # Errors
    /// The kernel's, if this process has too many.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Hands the records that are there to `each`, oldest first, and tells how many there were: at most
    /// [`Ring::BATCH`], so that a reader that is slower than the kernel can do something else between.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < Ring::BATCH
            && let Some(record) = self.0.next()
        {
            each(&record);
            count += 1;
        }
        count
    }
}

fn refused<E: Error>(what: &str) -> impl Fn(E) -> BpfError + '_ {
    move |error| BpfError::Refused { what: what.to_string(), why: chain(&error) }
}

/// An error with its causes, which the loader hides in its sources.
fn chain(error: &dyn Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut at = error.source();
    while let Some(cause) = at {
        texts.push(cause.to_string());
        at = cause.source();
    }
    texts.dedup();
    texts.join(": ")
}
