//! A thin volume, a snapshot of it, and a clone of the snapshot.
//!
//! `cargo run -p esker --example snapshots`

fn main() -> Result<(), esker::Error> {
    let stack = esker::open("disk = memory size=256MiB; vm = thin ports=\"db=64MiB\" on disk; export db = vm.db")?;
    let (db, volumes) = (stack.export("db")?, stack.volumes("vm")?);

    db.write_at(&[1; 4096], 0)?;
    volumes.snapshot("db", "monday")?;
    db.write_at(&[2; 4096], 0)?;
    volumes.clone_of("monday", "test")?;

    for volume in volumes.list()? {
        let of = volume.of.map(|of| format!(", made of {of}")).unwrap_or_default();
        let kind = if volume.is_snapshot { "snapshot" } else { "volume" };
        println!("{}: {kind} of {} bytes{of}", volume.name, volume.bytes);
    }
    stack.close()
}
