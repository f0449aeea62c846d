//! A real file system on a modelled device: the model serves the kernel at its own pace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};

use esker_fuse::{Attached, Export, Setup};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_stack::{Spec, Stack};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::experiment::LabError;
use crate::peer;
use crate::serving::{Serving, Stop};

/// Of an ext4 on a model; all is undone when dropped.
pub struct Mounted {
    at: PathBuf,
    _serving: Serving,
}

impl Mounted {
    /// Serves the volume `vol` of a stack text as a block device, makes an ext4 on it and mounts it in a folder of `scratch`.
    ///
    /// # Errors
    /// What the kernel or `mkfs` refuses; all of this takes root.
    pub fn new(name: &str, text: &str, scratch: &Path, seed: u64) -> Result<Mounted, LabError> {
        let (files, at) = (scratch.join(format!("{name}-files")), scratch.join(name));
        for dir in [&files, &at] {
            std::fs::create_dir(dir).map_err(|source| LabError::Scratch { dir: dir.clone(), source })?;
        }
        let setup = Setup { mount: files, partitions: false };
        let (tell, told) = channel();
        let text = text.to_string();
        let serving = Serving::start(seed, move |rt, stop| serve(rt, text, setup, tell, stop));
        let fault = |what: String| peer::fault("the model's device", what);
        let device = told.recv().map_err(|error| fault(error.to_string()))?.map_err(fault)?;
        let made = Command::new("mkfs.ext4").args(["-q", "-E", "nodiscard"]).arg(&device).output();
        let made = made.map_err(|error| peer::fault("mkfs.ext4", error.to_string()))?;
        if !made.status.success() {
            return Err(peer::fault("mkfs.ext4", String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        let mounted = rustix::mount::mount(&device, &at, "ext4", MountFlags::NOATIME, c"");
        mounted.map_err(|error| peer::fault("mount", error.to_string()))?;
        Ok(Mounted { at, _serving: serving })
    }

    /// A run directory on it.
    pub fn run_dir(&self) -> PathBuf {
        self.at.join("run")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What is still in use goes when it is not; the model's server is stopped afterwards.
        let _unmounted = rustix::mount::unmount(&self.at, UnmountFlags::empty())
            .or_else(|_| rustix::mount::unmount(&self.at, UnmountFlags::DETACH));
    }
}

/// Attaches the stack's volume until asked to stop.
async fn serve(rt: Rt, text: String, setup: Setup, tell: Sender<Result<PathBuf, String>>, stop: Stop) {
    let pool = Pool::default();
    let spec = match Spec::parse("the experiment's stack", &text) {
        Ok(spec) => spec,
        Err(error) => return drop(tell.send(Err(error.to_string()))),
    };
    let stack = match Stack::build(&rt, &pool, esker_kinds::ALL, &spec) {
        Ok(stack) => stack,
        Err(error) => return drop(tell.send(Err(error.to_string()))),
    };
    let device = Rc::new(stack.device("vol").expect("the experiment's own name"));
    let exports = vec![Export { name: "vol".to_string(), device }];
    match Attached::start(&rt, &pool, exports, &setup).await {
        Err(error) => drop(tell.send(Err(error.to_string()))),
        Ok(attached) => {
            // Whoever does not wait for the device any more has stopped us too.
            let _heard = tell.send(Ok(attached.disks()[0].path.clone()));
            stop.asked(&rt).await;
            attached.stop().await;
        }
    }
    stack.close().await;
}
