//! Monitors on a real socket: the messages of a real front end, one that comes again, and one that sends nonsense.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the monitor on a thread of their own"
)]

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use esker_base::Nanos;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::net::{Address, Listener};
use esker_rt::real::{Backend, Reactor, RealConfig};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::driver::{DATA, Driver, MEMORY_BYTES, RING_LEN, spy};
use crate::disk::feature;
use crate::request::kind;
use crate::{Config, Memory, Server};

/// A guest with its monitor, in one thread.
struct Machine {
    link: Frontend,
    kick: EventFd,
    call: EventFd,
}

fn shared_memory() -> Memory {
    let file = tempfile::tempfile().unwrap();
    file.set_len(MEMORY_BYTES as u64).unwrap();
    Memory::from_ranges_with_files([(GuestAddress(0), MEMORY_BYTES, Some(FileOffset::new(file, 0)))]).unwrap()
}

impl Machine {
    /// Sets everything up as a monitor does.
    fn connect(path: &Path, memory: &Memory, driver: &Driver<'_>, base: u16) -> Machine {
        let mut link = Frontend::connect(path, 2).unwrap();
        link.set_owner().unwrap();
        let offered = link.get_features().unwrap();
        assert_ne!(offered & feature::WRITE_ZEROES, 0);
        link.set_features(feature::VERSION_1 | feature::PROTOCOL | feature::FLUSH).unwrap();
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD;
        assert!(link.get_protocol_features().unwrap().contains(wanted));
        link.set_protocol_features(wanted).unwrap();
        assert_eq!(link.get_queue_num().unwrap(), 2);
        let region = memory.iter().next().unwrap();
        link.set_mem_table(&[VhostUserMemoryRegionInfo::from_guest_region(region).unwrap()]).unwrap();
        let (inflight, area) = link.get_inflight_fd(&VhostUserInflight::new(0, 0, 2, RING_LEN)).unwrap();
        link.set_inflight_fd(&inflight, area.as_raw_fd()).unwrap();
        link.set_vring_num(0, RING_LEN).unwrap();
        link.set_vring_base(0, base).unwrap();
        let (at, host) =
            (driver.addresses(), region.get_host_address(vm_memory::MemoryRegionAddress(0)).unwrap() as u64);
        let place = VringConfigData {
            queue_max_size: RING_LEN,
            queue_size: RING_LEN,
            flags: 0,
            desc_table_addr: host + at.table,
            used_ring_addr: host + at.used,
            avail_ring_addr: host + at.available,
            log_addr: None,
        };
        link.set_vring_addr(0, &place).unwrap();
        let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
        link.set_vring_call(0, &call).unwrap();
        link.set_vring_kick(0, &kick).unwrap();
        link.set_vring_enable(0, true).unwrap();
        Machine { link, kick, call }
    }

    /// Rings, and waits until the guest is told.
    fn wait(&self, driver: &Driver<'_>, used: usize) {
        self.kick.write(1).unwrap();
        let started = Instant::now();
        while driver.used().len() < used || self.call.read().is_err() {
            assert!(started.elapsed() < Duration::from_secs(20), "{} of {used} are answered", driver.used().len());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Serves a disk while `monitor` works on another thread.
fn check(backend: Backend, monitor: impl FnOnce(PathBuf) + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.vhost");
    let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
    let rt = reactor.rt();
    reactor.block_on(serve(rt, path, monitor));
}

async fn serve(rt: Rt, path: PathBuf, monitor: impl FnOnce(PathBuf) + Send + 'static) {
    let listener = Rc::new(Listener::bind(&rt, &Address::Unix(path.clone())).unwrap());
    let server = Server::new(&rt, &Pool::default(), "vol", spy(&rt, 512), Config::tiny());
    let (second, door) = (server.clone(), listener.clone());
    let serving = rt.spawn("serve", async move { second.serve(&door).await });
    rt.worker(Nanos::ZERO, move || monitor(path)).await;
    server.stop_within(Nanos::secs(10)).await;
    serving.await;
    assert!(!server.is_connected());
}

#[test]
fn a_monitor_sets_a_ring_up_and_its_guest_uses_the_disk_on_both_backends() {
    for backend in [Backend::Uring, Backend::Threads] {
        check(backend, |path| {
            let memory = shared_memory();
            let mut driver = Driver::new(&memory);
            let mut machine = Machine::connect(&path, &memory, &driver, 0);
            let (_, space) = machine.link.get_config(0, 8, VhostUserConfigFlags::empty(), &[0; 8]).unwrap();
            assert_eq!(space, 2048u64.to_le_bytes(), "sectors");
            driver.put(DATA, &[7; 4096]);
            driver.request(0, kind::OUT, 8, &[(DATA, 4096, false)]);
            machine.wait(&driver, 1);
            driver.request(3, kind::IN, 8, &[(DATA + 8192, 4096, true)]);
            machine.wait(&driver, 2);
            assert_eq!((driver.status(0), driver.status(3)), (0, 0));
            assert_eq!(driver.get(DATA + 8192, 4096), [7; 4096]);
            assert_eq!(machine.link.get_vring_base(0).unwrap(), 2);
            drop(machine);
            // It comes again, as after a restart of either side.
            let machine = Machine::connect(&path, &memory, &driver, 2);
            driver.request(6, kind::FLUSH, 0, &[]);
            machine.wait(&driver, 3);
            assert_eq!(driver.status(6), 0);
        });
    }
}

#[test]
fn a_monitor_that_sends_nonsense_is_dropped_and_the_next_one_is_served() {
    check(Backend::Auto, |path| {
        for nonsense in [&[0xff; 64][..], b"GET / HTTP/1.1\r\n\r\n", &[0; 12], &[1, 0, 0, 0]] {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(nonsense).unwrap();
        }
        let memory = shared_memory();
        let mut driver = Driver::new(&memory);
        let machine = Machine::connect(&path, &memory, &driver, 0);
        driver.request(0, kind::FLUSH, 0, &[]);
        machine.wait(&driver, 1);
        // Rings that do not exist, and lengths and addresses that cannot be.
        let far = VringConfigData {
            queue_max_size: RING_LEN,
            queue_size: RING_LEN,
            flags: 0,
            desc_table_addr: 1 << 60,
            used_ring_addr: 1 << 60,
            avail_ring_addr: 1 << 60,
            log_addr: None,
        };
        let sent = machine.link.set_vring_addr(0, &far);
        let after = machine.link.get_vring_base(0);
        assert!(sent.is_err() || after.is_err(), "the monitor was dropped");
        drop(machine);
        let machine = Machine::connect(&path, &memory, &driver, 1);
        driver.request(3, kind::FLUSH, 0, &[]);
        machine.wait(&driver, 2);
        assert_eq!((driver.status(0), driver.status(3)), (0, 0));
    });
}

#[test]
fn memory_that_is_shorter_than_its_region_is_refused_and_the_next_monitor_is_served() {
    check(Backend::Auto, |path| {
        for short in [0, 4096, MEMORY_BYTES as u64 - 1] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(short).unwrap();
            let link = Frontend::connect(&path, 2).unwrap();
            link.set_owner().unwrap();
            let region = VhostUserMemoryRegionInfo {
                guest_phys_addr: 0,
                memory_size: MEMORY_BYTES as u64,
                userspace_addr: 1 << 40,
                mmap_offset: 0,
                mmap_handle: file.as_raw_fd(),
            };
            let sent = link.set_mem_table(&[region]);
            assert!(sent.is_err() || link.get_features().is_err(), "{short} bytes: the monitor was dropped");
            let mut link = Frontend::connect(&path, 2).unwrap();
            link.set_owner().unwrap();
            link.set_features(link.get_features().unwrap()).unwrap();
            link.set_protocol_features(VhostUserProtocolFeatures::INFLIGHT_SHMFD).unwrap();
            let inflight = VhostUserInflight::new(MEMORY_BYTES as u64, 0, 2, RING_LEN);
            let sent = link.set_inflight_fd(&inflight, file.as_raw_fd());
            assert!(sent.is_err() || link.get_features().is_err(), "{short} bytes: the monitor was dropped");
        }
        let memory = shared_memory();
        let mut driver = Driver::new(&memory);
        let machine = Machine::connect(&path, &memory, &driver, 0);
        driver.request(0, kind::FLUSH, 0, &[]);
        machine.wait(&driver, 1);
    });
}

#[test]
fn memory_that_can_be_sealed_cannot_shrink_afterwards() {
    check(Backend::Auto, |path| {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = std::fs::File::from(rustix::fs::memfd_create("guest", flags).unwrap());
        file.set_len(MEMORY_BYTES as u64).unwrap();
        let own = file.try_clone().unwrap();
        let range = (GuestAddress(0), MEMORY_BYTES, Some(FileOffset::new(file, 0)));
        let memory = Memory::from_ranges_with_files([range]).unwrap();
        let mut driver = Driver::new(&memory);
        let machine = Machine::connect(&path, &memory, &driver, 0);
        driver.request(0, kind::FLUSH, 0, &[]);
        machine.wait(&driver, 1);
        assert!(own.set_len(4096).is_err(), "the memory could be taken away");
    });
}

#[test]
fn memory_that_is_taken_away_ends_its_monitor_and_the_next_one_is_served() {
    check(Backend::Auto, |path| {
        for left in [0, DATA] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(MEMORY_BYTES as u64).unwrap();
            let own = file.try_clone().unwrap();
            let range = (GuestAddress(0), MEMORY_BYTES, Some(FileOffset::new(file, 0)));
            let memory = Memory::from_ranges_with_files([range]).unwrap();
            let mut driver = Driver::new(&memory);
            let machine = Machine::connect(&path, &memory, &driver, 0);
            driver.request(0, kind::OUT, 0, &[(DATA, 4096, false)]);
            machine.wait(&driver, 1);
            driver.request(3, kind::OUT, 8, &[(DATA, 4096, false)]);
            // From here on, the guest's own memory cannot be touched in this process either.
            own.set_len(left).unwrap();
            machine.kick.write(1).unwrap();
            let started = Instant::now();
            while machine.link.get_features().is_ok() {
                assert!(started.elapsed() < Duration::from_secs(20), "the monitor of {left} bytes is still connected");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let memory = shared_memory();
        let mut driver = Driver::new(&memory);
        let machine = Machine::connect(&path, &memory, &driver, 0);
        driver.request(0, kind::FLUSH, 0, &[]);
        machine.wait(&driver, 1);
        assert_eq!(driver.status(0), 0);
    });
}
