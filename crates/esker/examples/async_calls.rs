//! Calls that are futures, of sixteen tasks on tokio's threads.
//!
//! `cargo run -p esker --example async_calls`

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stack = esker::open("vol = memory size=64MiB @")?;
    let vol = stack.export("vol")?;
    let write = |task: u64| {
        let vol = vol.clone();
        tokio::spawn(async move {
            for round in 0..100 {
                vol.write_at_async(&[task as u8; 4096], (task * 100 + round) * 4096).await?;
            }
            vol.flush_async().await
        })
    };
    let tasks: Vec<_> = (0..16).map(write).collect();
    for task in tasks {
        task.await??;
    }
    let mut block = [0; 4096];
    vol.read_at_async(&mut block, 1599 * 4096).await?;
    println!("the last block is {:?}", block[0]);
    // Closing blocks its thread, so it has one of its own.
    Ok(tokio::task::spawn_blocking(move || stack.close()).await??)
}
