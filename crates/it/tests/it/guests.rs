//! A guest's kernel uses one export over NBD and one over vhost-user: one boot, with what `it --guest` is made of.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use esker_front_nbd::listen::Access;
use esker_guest::image::Image;
use esker_guest::machine::{Guest, Power, nbd_disk, vhost_disk};
use esker_it::guest::{IMAGE, LIBRARY, MEMORY_MIB};
use esker_rt::mem::Pool;
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};
use esker_serve::{Config, Served, VhostDoor, VhostFront};

use esker_stack::Spec;

const STACK: &str = "vol = file path=DIR/vol.img size=64MiB @ nbd=unix:DIR/sock
    disk = memory size=64MiB | stats @ nbd=unix:DIR/sock";

const JOB: &str = "raw nbd /dev/vda 8 60\nraw vhost /dev/vdb 8 60\nfilesystem vhost ext4 /dev/vdb 20\n";

/// Whether a program of this name lies in a folder where programs lie.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Serves on a thread until the sender is dropped.
fn serve(dir: PathBuf) -> (mpsc::Sender<()>, std::thread::JoinHandle<u64>) {
    let (ready, is_ready) = mpsc::channel();
    let (keep, kept) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        let rt = reactor.rt();
        let spec = Spec::parse("guest", &STACK.replace("DIR", &dir.display().to_string())).unwrap();
        let config = Config::at(Address::Unix(dir.join("ctl")), "test");
        let pool = Pool::default();
        reactor.block_on(async move {
            let served = Served::start(&rt, &pool, esker_kinds::ALL, &spec, config).unwrap();
            let door = VhostDoor { export: "disk".to_string(), socket: dir.join("disk.vhost") };
            served.add(VhostFront::open(&served, &door, Access::default()).unwrap());
            let stack = Rc::clone(served.stack());
            ready.send(()).unwrap();
            let asking = rt.clone();
            let stop = async move {
                // Blocks a thread of the pool, not the reactor.
                asking.worker(esker_base::Nanos::ZERO, move || kept.recv().unwrap_or_default()).await;
            };
            served.run(stop).await.unwrap();
            stack.pool().bounced()
        })
    });
    is_ready.recv().expect("the server comes up");
    (keep, thread)
}

fn boot(image: &Image, dir: &Path) {
    let (keep, server) = serve(dir.to_path_buf());
    let devices = [nbd_disk(0, &dir.join("sock"), "vol", 0), vhost_disk(1, &dir.join("disk.vhost"), 1)].concat();
    let load = Path::new(env!("CARGO_BIN_EXE_it"));
    let limit = Duration::from_secs(300);
    let (programs, job) = (vec![("it", load)], JOB.to_string());
    let guest = Guest { image, programs, library: LIBRARY, job, devices, cpus: 1, memory_mib: MEMORY_MIB, limit };
    let log = guest.run(dir, &mut |_| Ok(Power::On)).unwrap();
    println!("kernel {}, {:.1} s\n{}", log.kernel, log.seconds, log.table());
    assert!(log.is_good(), "{}\n{}", log.table(), log.text);
    for step in ["nbd-raw-verify", "nbd-raw-zeroes", "vhost-raw-verify", "vhost-raw-zeroes", "vhost-ext4-verify2"] {
        assert!(log.has(step), "{step} is missing:\n{}", log.table());
    }
    drop(keep);
    let copied = server.join().expect("the server ended well");
    assert!(copied > 16 << 20, "what a guest's memory and buffers exchange is counted: {copied}");
}

/// The guests' image, and the folder in which it is kept. `None`: this machine cannot run guests, and the test is
/// skipped.
pub fn image() -> Option<(Image, PathBuf)> {
    let needed = ["qemu-system-x86_64", "apt-get", "apt-cache", "dpkg-deb"];
    if let Some(missing) = needed.iter().find(|program| !is_installed(program)) {
        esker_testkit::skip(
            esker_testkit::Ability::Program,
            format_args!("guests need {missing}: run `cargo xtask peers`"),
        );
        return None;
    }
    let cache = Path::new(env!("CARGO_BIN_EXE_it")).parent().unwrap().join("../guest");
    std::fs::create_dir_all(&cache).unwrap();
    match Image::prepare(&cache, &IMAGE) {
        Ok(image) => Some((image, cache)),
        Err(why) => {
            esker_testkit::skip(esker_testkit::Ability::GuestPackages, &why);
            // Where the lists of packages are there, the rest must be too.
            assert!(why.contains("lists of packages") || why.contains("apt-get download"), "{why}");
            None
        }
    }
}

#[test]
fn a_guest_uses_exports_over_nbd_and_vhost_user() {
    let Some((image, cache)) = image() else { return };
    boot(&image, tempfile::tempdir_in(&cache).unwrap().path());
}
