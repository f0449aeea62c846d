//! What is tested in guests.

use std::path::Path;
use std::time::Duration;

use esker_guest::image::Image;
use esker_guest::log::{Log, Row};
use esker_guest::machine::{Guest, Power, nbd_disk, network, vhost_disk};

use super::server::Server;
use super::{LIBRARY, MEMORY_MIB};

/// What a scenario has at hand.
pub struct Bench<'a> {
    /// Kernel and programs.
    pub image: &'a Image,
    /// The program under test.
    pub esker: &'a Path,
    /// The program of the loads.
    pub load: &'a Path,
    /// Its folder, which vanishes.
    pub dir: &'a Path,
}

/// One thing that is tested.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub what: &'static str,
    /// Runs it and gives the log of each boot.
    pub run: fn(&Bench<'_>) -> Result<Vec<Log>, String>,
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "kernel-client",
        what: "the kernel's NBD client over TCP: ext4, xfs, nilfs2, f2fs and btrfs on five exports",
        run: kernel_client,
    },
    Scenario { name: "nbd-disk", what: "qemu's NBD client: exports as disks of the guest", run: nbd_disks },
    Scenario { name: "vhost-disk", what: "vhost-user-blk: exports as disks of the guest", run: vhost_disks },
    Scenario {
        name: "nbd-kill",
        what: "the server is killed under load and comes back; qemu's NBD client goes on",
        run: |bench| kills(bench, &nbd_disk(0, &bench.dir.join("sock"), "vol", 60), &[]),
    },
    Scenario {
        name: "vhost-kill",
        what: "the server is killed under load and comes back; the guest's virtio disk goes on",
        run: |bench| kills(bench, &vhost_disk(0, &bench.dir.join("vol.vhost"), 1), &["vol"]),
    },
    Scenario {
        name: "power-cut",
        what: "server and machine are killed under load; after a second boot all that was synced is there",
        run: power_cut,
    },
];

/// Steps of the loads on file systems.
const STEPS: u32 = 120;
/// Boots that take longer are hung.
const LIMIT: Duration = Duration::from_secs(600);

impl Bench<'_> {
    /// A guest with `devices` that does `job`.
    pub fn guest(&self, devices: Vec<String>, job: String) -> Guest<'_> {
        let programs = vec![("it", self.load)];
        let (image, library) = (self.image, LIBRARY);
        Guest { image, programs, library, job, devices, cpus: 1, memory_mib: MEMORY_MIB, limit: LIMIT }
    }

    fn serve(&self, stack: &str, disks: &[&str]) -> Result<Server, String> {
        Server::start(self.esker, self.dir, stack, disks)
    }

    fn run(&self, guest: &Guest<'_>) -> Result<Log, String> {
        guest.run(self.dir, &mut |_| Ok(Power::On))
    }
}

/// Adds what the server says to a guest's steps.
fn note(log: &mut Log, name: &str, ok: bool, told: String) {
    log.rows.push(Row { name: name.to_string(), ok, told });
}

/// Notes that requests of a kind reached the devices.
fn note_stat(log: &mut Log, server: &Server, stat: &str) -> Result<(), String> {
    let count = server.stat(stat)?;
    note(log, &format!("server-{stat}"), count > 0.0, format!("{count}"));
    Ok(())
}

fn note_served(log: &mut Log, server: Server, stats: &[&str]) -> Result<(), String> {
    for stat in stats {
        note_stat(log, &server, stat)?;
    }
    server.stop()?;
    note(log, "server-stop", true, String::new());
    Ok(())
}

fn kernel_client(bench: &Bench<'_>) -> Result<Vec<Log>, String> {
    let stack = "ext4 = file path=DIR/ext4.img size=256MiB | stats @ nbd=tcp:127.0.0.1:0
        xfs = file path=DIR/xfs.img size=384MiB | stats @ nbd=tcp:127.0.0.1:0
        n0 = file path=DIR/n0.img size=128MiB; n1 = file path=DIR/n1.img size=128MiB
        nilfs2 = stripe chunk=64KiB on n0, n1 | stats @ nbd=tcp:127.0.0.1:0
        f2fs = memory size=256MiB block=4096 | stats @ nbd=tcp:127.0.0.1:0
        btrfs = file path=DIR/btrfs.img size=256MiB direct=false | stats @ nbd=tcp:127.0.0.1:0";
    let server = bench.serve(stack, &[])?;
    let port = server.port.ok_or("the server names no port")?;
    let mut job = String::new();
    for (number, kind) in ["ext4", "xfs", "nilfs2", "f2fs", "btrfs"].iter().enumerate() {
        job += &format!(
            "step nbd-{kind}-connect /bin/nbd-client -N {kind} 10.0.2.2 {port} /dev/nbd{number} -C 2\n\
             filesystem nbd {kind} /dev/nbd{number} {STEPS}\n\
             step nbd-{kind}-disconnect /bin/nbd-client -d /dev/nbd{number}\n"
        );
    }
    let mut log = bench.run(&bench.guest(network(), job))?;
    note_served(&mut log, server, &["writes", "reads", "flushes", "discards"])?;
    Ok(vec![log])
}

/// Two disks: one of small and one of large blocks.
const DISKS: &str = "vol = file path=DIR/vol.img size=384MiB | stats @ nbd=unix:DIR/sock
    large = memory size=320MiB block=4096 | stats @ nbd=unix:DIR/sock
    export fixed = vol read_only=true nbd=unix:DIR/sock";

fn nbd_disks(bench: &Bench<'_>) -> Result<Vec<Log>, String> {
    let server = bench.serve(DISKS, &[])?;
    let socket = bench.dir.join("sock");
    let devices = [nbd_disk(0, &socket, "vol", 0), nbd_disk(1, &socket, "large", 0)].concat();
    let job = format!(
        "raw nbd /dev/vda 64 400\n\
         filesystem nbd ext4 /dev/vda {STEPS}\n\
         filesystem nbd xfs /dev/vda {STEPS}\n\
         raw nbd-4k /dev/vdb 32 200\n\
         filesystem nbd-4k f2fs /dev/vdb {STEPS}\n"
    );
    let mut log = bench.run(&bench.guest(devices, job))?;
    note_served(&mut log, server, &["writes", "reads", "flushes", "discards", "zeroes"])?;
    Ok(vec![log])
}

fn vhost_disks(bench: &Bench<'_>) -> Result<Vec<Log>, String> {
    let server = bench.serve(DISKS, &["vol", "large", "fixed"])?;
    let disk = |number, name: &str, queues| vhost_disk(number, &bench.dir.join(format!("{name}.vhost")), queues);
    let devices = [disk(0, "vol", 2), disk(1, "large", 1), disk(2, "fixed", 1)].concat();
    let job = format!(
        "step vhost-size equal {} /sys/block/vda/size\n\
         step vhost-serial equal vol /sys/block/vda/serial\n\
         step vhost-queues test -d /sys/block/vda/mq/1\n\
         step vhost-block equal 4096 /sys/block/vdb/queue/logical_block_size\n\
         step vhost-cache equal 'write back' /sys/block/vda/queue/write_cache\n\
         step vhost-read-only equal 1 /sys/block/vdc/ro\n\
         step vhost-read-only-write refused dd if=/dev/zero of=/dev/vdc bs=4096 count=1\n\
         raw vhost /dev/vda 64 400\n\
         for kind in ext4 xfs nilfs2 f2fs btrfs; do filesystem vhost $kind /dev/vda {STEPS}; done\n\
         raw vhost-4k /dev/vdb 32 200\n\
         filesystem vhost-4k xfs /dev/vdb {STEPS}\n",
        (384 << 20) / 512
    );
    let guest = Guest { cpus: 2, ..bench.guest(devices, job) };
    let mut log = bench.run(&guest)?;
    note_served(&mut log, server, &["writes", "reads", "flushes", "discards", "zeroes"])?;
    Ok(vec![log])
}

/// Loads that are interrupted, each followed by its verification and a check.
fn kills(bench: &Bench<'_>, disk: &[String], sockets: &[&str]) -> Result<Vec<Log>, String> {
    let stack = "vol = file path=DIR/vol.img size=384MiB | stats @ nbd=unix:DIR/sock";
    let mut server = bench.serve(stack, sockets)?;
    let mut job = String::new();
    for kind in ["ext4", "xfs"] {
        job += &format!(
            "step kill-{kind}-mkfs make {kind} /dev/vda\n\
             step kill-{kind}-mount attach {kind} /dev/vda\n\
             for round in 1 2 3; do\n\
             watch vda /tmp/flight\n\
             it load tree-write /mnt/r$round --seed $round --steps 400 --event-at 40\n\
             step kill-{kind}-load$round test $? -eq 0\n\
             step kill-{kind}-flight$round stuck /tmp/flight\n\
             step kill-{kind}-sync$round sync\n\
             done\n\
             umount /mnt; cold\n\
             step kill-{kind}-remount attach {kind} /dev/vda\n\
             for round in 1 2 3; do\n\
             step kill-{kind}-verify$round it load tree-verify /mnt/r$round --seed $round --steps 400\n\
             done\n\
             step kill-{kind}-umount umount /mnt\n\
             step kill-{kind}-check check {kind} /dev/vda\n"
        );
    }
    job += "watch vda /tmp/flight\n\
            it load raw-write /dev/vda --seed 3 --bytes 67108864 --writes 1200 --event-at 300\n\
            step kill-raw-write test $? -eq 0\n\
            step kill-raw-flight stuck /tmp/flight\n\
            cold\n\
            step kill-raw-verify it load raw-verify /dev/vda --seed 3 --bytes 67108864 --writes 1200\n";
    let mut crashes = 0;
    let mut log = bench.guest(disk.to_vec(), job).run(bench.dir, &mut |_| {
        crashes += 1;
        server.crash().map(|()| Power::On)
    })?;
    note(&mut log, "server-kills", crashes == 7, crashes.to_string());
    note_served(&mut log, server, &["writes"])?;
    Ok(vec![log])
}

fn power_cut(bench: &Bench<'_>) -> Result<Vec<Log>, String> {
    const KINDS: [&str; 5] = ["ext4", "xfs", "nilfs2", "f2fs", "btrfs"];
    let stack: String = KINDS
        .iter()
        .map(|kind| format!("{kind} = file path=DIR/{kind}.img size=384MiB | stats @ nbd=unix:DIR/sock\n"))
        .collect();
    let mut server = bench.serve(&stack, &[])?;
    let disks: Vec<String> =
        (0..).zip(KINDS).flat_map(|(number, kind)| nbd_disk(number, &bench.dir.join("sock"), kind, 0)).collect();
    let letters = KINDS.iter().zip('a'..);
    let (mut before, mut after) = (String::new(), String::new());
    for (kind, letter) in letters {
        let (dir, device) = (format!("/mnt/{kind}"), format!("/dev/vd{letter}"));
        before += &format!(
            "mkdir -p /tmp{dir}\n\
             step cut-{kind}-mkfs make {kind} {device}\n\
             step cut-{kind}-mount mount -t {kind} {device} /tmp{dir}\n\
             step cut-{kind}-load it load tree-write /tmp{dir}/a --seed 1 --steps 100\n"
        );
        after += &format!(
            "step cut-{kind}-mount attach {kind} {device}\n\
             step cut-{kind}-verify it load tree-verify /mnt/a --seed 1 --steps 100\n\
             step cut-{kind}-umount umount /mnt\n\
             step cut-{kind}-check check {kind} {device}\n"
        );
    }
    before += "step cut-sync sync\n\
               for dir in /tmp/mnt/*; do it load tree-write $dir/b --seed 2 --steps 100000 & done\n\
               sleep 4\n\
               echo EVENT loaded\n\
               sleep 600\n";
    let mut first = bench.guest(disks.clone(), before).run(bench.dir, &mut |_| {
        server.kill()?;
        Ok(Power::Off)
    })?;
    // It was cut off on purpose.
    first.done = first.rows.iter().any(|row| row.name == "cut-sync");
    server.again()?;
    let mut second = bench.run(&bench.guest(disks, after))?;
    note_served(&mut second, server, &["reads"])?;
    Ok(vec![first, second])
}
