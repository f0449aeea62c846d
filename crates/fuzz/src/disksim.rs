//! DiskSim's files of a disk: what is taken for one is a disk that answers at its first, middle and last block.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::{Args, Bio, Buf, Build, Device, Make};
use esker_dev_sim::disk_model::{KIND, disksim};
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};

macro_rules! files {
    ($folder:literal: $($name:literal),+) => {
        [$((
            $name.to_string(),
            include_str!(concat!("../../../data/disksim/", $folder, "/", $name)).to_string(),
        )),+]
    };
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let disks: [&[disksim::File]; 3] = [
        &files!("atlas10k": "atlas10k.diskspecs", "atlas10k.model", "atlas10k.seek"),
        &files!("cheetah9LP": "cheetah9LP.diskspecs", "cheetah9LP.model", "cheetah9LP.seek"),
        &files!("hp_c2247a": "hp_c2247a.diskspecs", "hp_c2247a_validate.model", "hp_c2247a.parv"),
    ];
    disks.map(|files| disksim::join(files).into_bytes()).to_vec()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(false) };
    let given = BTreeMap::from([("measured".to_string(), text.to_string())]);
    let Ok(args) = Args::read(&KIND, &given) else { return Ok(false) };
    let Build::Device(build) = KIND.build else { return Err("disk-model is no device".to_string()) };
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, pool) = (sim.rt(), Pool::new(0));
    match build(&Make {
        rt: &rt,
        pool: &pool,
        name: "disk",
        args: &args,
        lowers: &[],
        created: &esker_block::Created::default(),
        env: &esker_block::Env::default(),
    }) {
        Ok(disk) => answers(&sim, disk).map(|()| true),
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
    }
}

fn answers(sim: &Sim, disk: Rc<dyn Device>) -> Result<(), String> {
    let (size, block) = (disk.limits().size, u64::from(disk.limits().block));
    sim.block_on(async move {
        for offset in [size - block, 0, size / block / 2 * block] {
            let payload = || Buf::described(block as usize, 1);
            for bio in [Bio::read(offset, payload()), Bio::write(offset, payload()).fua()] {
                let done = disk.submit(bio).await;
                done.result.map_err(|error| format!("a disk of {size} bytes refuses offset {offset}: {error}"))?;
            }
        }
        Ok(())
    })
}
