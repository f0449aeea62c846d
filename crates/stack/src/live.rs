//! Changes of a running stack. Each change is prepared first, then the stack is drained, the new arrangement takes
//! effect, and requests go on. A change that cannot be done leaves the stack as it was.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf, Created, OpKind, Support, VolumeId};

use crate::build::{BuildError, Building, arrange, build_part, check, users};
use crate::snapshot::Handle;
use crate::stack::Stack;
use crate::text::{DeviceSpec, Spec, split_reference};

/// Why a live change was not made. The stack runs on as before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LiveError {
    /// No device or layer of that name.
    #[error("there is no \"{0}\" in this stack; `esker stack dump` shows its names")]
    Unknown(String),
    /// The new layer cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The change would alter what clients above see.
    #[error("\"{name}\" ({kind}) cannot be changed live: {why}; stop the server and change the stack file")]
    NotTransparent {
        /// Layer.
        name: String,
        /// Its kind.
        kind: String,
        /// What would change.
        why: String,
    },
    /// The names of a reordering are not one chain of this stack.
    #[error("{0}")]
    NotAChain(String),
    /// A device that cannot be replaced.
    #[error("\"{0}\" cannot be replaced now: {1}")]
    NotSpared(String, String),
    /// A layer that takes no further lower device, or does not let one go.
    #[error("\"{0}\" {1}")]
    NotMember(String, String),
    /// Another operation holds the stack.
    #[error("the stack is held by another change, a sync or a freeze; try again when that is over")]
    Busy,
    /// The layer holds back what it cannot store.
    #[error("{0}; nothing was changed")]
    Unsettled(String),
    /// Requests did not end in time.
    #[error("{inflight} requests were still in flight after {waited}; nothing was changed, try again under less load")]
    TimedOut {
        /// Requests in flight.
        inflight: u64,
        /// How long was waited.
        waited: Nanos,
    },
}

/// What a change does to layers themselves, by name.
#[derive(Clone, Copy)]
enum Change<'a> {
    Insert(&'a str),
    Remove(&'a str),
    Replace(&'a str),
    /// A device comes below this layer.
    Attach(&'a str),
    /// This device leaves the layer above it.
    Detach(&'a str),
    Order,
}

impl Spec {
    /// The text with `new` (whose `on` is ignored) directly above `above`, a device, a layer or a port of one
    /// (`vm.web`): what stood on that one stands on the new layer.
    ///
    /// # Errors
    /// No such device, or a name that is taken.
    pub fn with_layer(mut self, mut new: DeviceSpec, above: &str) -> Result<Spec, LiveError> {
        let at = self.devices.iter().position(|d| d.name == split_reference(above).0);
        let at = at.ok_or_else(|| LiveError::Unknown(above.to_string()))?;
        if self.devices.iter().any(|d| d.name == new.name) {
            let what = "there is a device of this name already; choose another";
            return Err(BuildError::of(&new, what).into());
        }
        replace_references(&mut self, above, &new.name);
        new.on = vec![above.to_string()];
        self.devices.insert(at + 1, new);
        Ok(self)
    }

    /// The text with the device `new` in the place of the device `old`.
    ///
    /// # Errors
    /// No such device, or a name that is taken.
    fn with_device(mut self, new: DeviceSpec, old: &str) -> Result<Spec, LiveError> {
        let at = self.devices.iter().position(|device| device.name == old);
        let at = at.ok_or_else(|| LiveError::Unknown(old.to_string()))?;
        if self.devices.iter().any(|device| device.name == new.name) {
            let what = "there is a device of this name already; choose another";
            return Err(BuildError::of(&new, what).into());
        }
        replace_references(&mut self, old, &new.name);
        self.devices[at] = new;
        Ok(self)
    }

    /// The text with the device `new` below `layer`, behind its other lower devices.
    ///
    /// # Errors
    /// No such layer, or a name that is taken.
    fn with_lower(mut self, new: DeviceSpec, layer: &str) -> Result<Spec, LiveError> {
        let at = self.devices.iter().position(|device| device.name == layer);
        let at = at.ok_or_else(|| LiveError::Unknown(layer.to_string()))?;
        if self.devices.iter().any(|device| device.name == new.name) {
            let what = "there is a device of this name already; choose another";
            return Err(BuildError::of(&new, what).into());
        }
        self.devices[at].on.push(new.name.clone());
        self.devices.insert(at, new);
        Ok(self)
    }

    /// The text with the layers of one chain in another order, top first. They stand directly on each other.
    ///
    /// # Errors
    /// Names that are not one chain of layers of this stack.
    pub fn with_order(mut self, names: &[String]) -> Result<Spec, LiveError> {
        for name in names {
            let device = self.device(name).ok_or_else(|| LiveError::Unknown(name.clone()))?;
            if device.on.len() != 1 {
                return Err(LiveError::NotAChain(format!("\"{name}\" does not stand on one device")));
            }
        }
        let chain = chain_of(&self, names)?;
        let bottom = lower_of(&self, chain.last().expect("a chain has layers"));
        replace_references(&mut self, &chain[0], &names[0]);
        for (i, name) in names.iter().enumerate() {
            let lower = names.get(i + 1).unwrap_or(&bottom).clone();
            named(&mut self, name).on = vec![lower];
        }
        Ok(self)
    }
}

impl Stack {
    /// Builds `new` (whose `on` is ignored) and puts it directly above the device, layer or port `above`: everything
    /// that stood on that one now stands on the new layer.
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn insert(&self, mut new: DeviceSpec, above: &str, patience: Nanos) -> Result<(), LiveError> {
        let spec = self.spec().with_layer(new.clone(), above)?;
        new.on = vec![above.to_string()];
        check(&spec, self.kinds)?;
        let result = self.build_and_switch(&new, spec, patience).await;
        if result.is_err() {
            self.drop_part(&new.name);
        }
        result
    }

    async fn build_and_switch(&self, new: &DeviceSpec, spec: Spec, patience: Nanos) -> Result<(), LiveError> {
        let created = Created::default();
        let building = Building { shared: &self.shared, kinds: self.kinds, created: &created };
        build_part(&building, &mut self.parts.borrow_mut(), new, Some(&self.snapshot.borrow()))?;
        self.check_transparent(&new.name)?;
        self.switch(spec, patience, Change::Insert(&new.name)).await?;
        created.keep();
        Ok(())
    }

    /// Takes a layer out: what stood on it now stands on what it stood on.
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn remove(&self, name: &str, patience: Nanos) -> Result<(), LiveError> {
        let mut spec = self.spec();
        let at = spec.devices.iter().position(|d| d.name == name);
        let at = at.ok_or_else(|| LiveError::Unknown(name.to_string()))?;
        self.check_transparent(name)?;
        let gone = spec.devices.remove(at);
        replace_references(&mut spec, name, &gone.on[0]);
        self.switch(spec, patience, Change::Remove(name)).await?;
        self.drop_part(name);
        Ok(())
    }

    /// Puts `new` in the place of a device that the layer above it [spares](esker_block::Extension::spares).
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn replace(&self, old: &str, new: DeviceSpec, patience: Nanos) -> Result<(), LiveError> {
        let spec = self.spec().with_device(new.clone(), old)?;
        check(&spec, self.kinds)?;
        let place = self.check_spared(old)?;
        let created = Created::default();
        let building = Building { shared: &self.shared, kinds: self.kinds, created: &created };
        build_part(&building, &mut self.parts.borrow_mut(), &new, Some(&self.snapshot.borrow()))?;
        let change = async || {
            self.check_fits(old, &new.name)?;
            self.check_blank(old, &new.name, &place).await?;
            self.switch(spec, patience, Change::Replace(old)).await
        };
        let result = change().await;
        self.drop_part(if result.is_ok() { old } else { &new.name });
        if result.is_ok() {
            created.keep();
        }
        result
    }

    /// Builds `new` and puts it below `layer`, which must [grow](esker_block::Extension::grows), behind its other lower
    /// devices.
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn attach(&self, layer: &str, new: DeviceSpec, patience: Nanos) -> Result<(), LiveError> {
        let spec = self.spec().with_lower(new.clone(), layer)?;
        check(&spec, self.kinds)?;
        self.check_grows(layer)?;
        let others = self.spec().device(layer).map_or_else(Vec::new, |layer| layer.on.clone());
        let created = Created::default();
        let building = Building { shared: &self.shared, kinds: self.kinds, created: &created };
        build_part(&building, &mut self.parts.borrow_mut(), &new, Some(&self.snapshot.borrow()))?;
        let change = async || {
            let unfit = |error| {
                let LiveError::NotSpared(_, why) = error else { return error };
                LiveError::NotMember(new.name.clone(), format!("cannot come: {why}"))
            };
            // The layer is content with the weakest of the others: as much is enough.
            let fits = others.iter().map(|other| self.check_fits(other, &new.name)).reduce(Result::or);
            fits.unwrap_or(Ok(())).map_err(unfit)?;
            self.check_blank(&new.name, &new.name, &(layer.to_string(), 0)).await.map_err(unfit)?;
            self.switch(spec, patience, Change::Attach(layer)).await
        };
        let result = change().await;
        match result.is_ok() {
            true => created.keep(),
            false => self.drop_part(&new.name),
        }
        result
    }

    /// Takes a device out that the layer above it [releases](esker_block::Extension::releases).
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn detach(&self, name: &str, patience: Nanos) -> Result<(), LiveError> {
        let mut spec = self.spec();
        let at = spec.devices.iter().position(|device| device.name == name);
        let at = at.ok_or_else(|| LiveError::Unknown(name.to_string()))?;
        let (layer, lower) = self.check_released(name)?;
        spec.devices.remove(at);
        named(&mut spec, &layer).on.remove(lower);
        check(&spec, self.kinds)?;
        self.switch(spec, patience, Change::Detach(name)).await?;
        self.drop_part(name);
        Ok(())
    }

    fn check_grows(&self, layer: &str) -> Result<(), LiveError> {
        let no = |why: String| LiveError::NotMember(layer.to_string(), why);
        let instance = self.parts.borrow().instances.get(layer).cloned();
        instance.ok_or_else(|| no("is a device".to_string()))?.ext.grows().map_err(no)
    }

    /// The layer above a device that may leave it, and the number of the device below it.
    fn check_released(&self, name: &str) -> Result<(String, usize), LiveError> {
        let (layer, lower) = self.check_spared(name)?;
        let instance = self.parts.borrow().instances.get(&layer).cloned();
        match instance.is_some_and(|instance| instance.ext.releases(lower)) {
            true => Ok((layer, lower)),
            false => Err(LiveError::NotMember(name.to_string(), format!("is still a member of \"{layer}\""))),
        }
    }

    /// A device may go if one layer stands on it, which does without it. That layer and the
    /// number of the device below it are the answer.
    fn check_spared(&self, name: &str) -> Result<(String, usize), LiveError> {
        let fault = |why: String| Err(LiveError::NotSpared(name.to_string(), why));
        let (spec, parts) = (self.spec(), self.parts.borrow());
        if !parts.leaves.contains_key(name) {
            return fault("it is a layer; name the device below it".to_string());
        }
        let users = users(&spec);
        let Some([user]) = users.get(name).map(Vec::as_slice) else {
            return fault("not exactly one layer stands on it".to_string());
        };
        let lower = spec.device(user).and_then(|layer| layer.on.iter().position(|lower| lower == name));
        let instance = parts.instances.get(*user);
        match lower.filter(|lower| instance.is_some_and(|instance| instance.ext.spares(*lower))) {
            Some(lower) => Ok((user.to_string(), lower)),
            None => fault(format!(
                "\"{user}\" stands on it and uses it; only an offline member of a mirror can be replaced"
            )),
        }
    }

    /// What the new device holds must be of no use to anything: where the layer above keeps its own marks, it is zero.
    async fn check_blank(&self, old: &str, new: &str, (layer, lower): &(String, usize)) -> Result<(), LiveError> {
        let leaf = self.parts.borrow().leaves.get(new).cloned().expect("it was built");
        let marks = self.parts.borrow().instances.get(layer).map_or_else(Vec::new, |user| user.ext.marks());
        for range in marks.into_iter().filter(|mark| mark.lower == *lower).map(|mark| mark.range) {
            let buf = Buf::unique(&self.shared.pool, range.len() as usize);
            let done = leaf.device.submit(Bio::read(range.start(), buf)).await;
            let fault = |why: String| Err(LiveError::NotSpared(old.to_string(), why));
            match done.result {
                Err(error) => return fault(format!("\"{new}\" cannot be read: {error}")),
                Ok(_) if done.buf.to_vec().iter().any(|byte| *byte != 0) => {
                    return fault(format!(
                        "\"{new}\" is not blank; if it holds nothing of use, zero bytes {range} of it"
                    ));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// The layer above was built over the old device: the new one must be able to do as much.
    fn check_fits(&self, old: &str, new: &str) -> Result<(), LiveError> {
        let (parts, fault) = (self.parts.borrow(), |why: String| Err(LiveError::NotSpared(old.to_string(), why)));
        let (Some(before), Some(after)) = (parts.limits(old), parts.leaves.get(new).map(|leaf| leaf.device.limits()))
        else {
            return fault(format!("\"{new}\" is a layer; name a device"));
        };
        let lacking = OpKind::ALL
            .into_iter()
            .find(|kind| before.support(*kind) != Support::No && after.support(*kind) == Support::No);
        match () {
            () if after.size < before.size => {
                fault(format!("\"{new}\" has {} bytes, and {} are needed", after.size, before.size))
            }
            () if after.block > before.block => fault(format!(
                "\"{new}\" has blocks of {} bytes, and those of {} are needed",
                after.block, before.block
            )),
            () if after.transfer_max < before.transfer_max || after.atomic < before.atomic => {
                fault(format!("\"{new}\" takes smaller requests than the old device"))
            }
            () if after.volatile_cache && !before.volatile_cache => {
                fault(format!("\"{new}\" has a volatile cache, and the old device has none"))
            }
            () => {
                lacking.map_or(Ok(()), |kind| fault(format!("\"{new}\" cannot do what the old device can: {kind:?}")))
            }
        }
    }

    /// Gives the layers of one chain a new order, top first. They must stand directly on each other now.
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn reorder(&self, names: &[String], patience: Nanos) -> Result<(), LiveError> {
        names.iter().try_for_each(|name| self.check_transparent(name))?;
        let spec = self.spec().with_order(names)?;
        self.switch(spec, patience, Change::Order).await
    }

    /// A layer may come, go or move under load only if the volume above it is like the one below it.
    fn check_transparent(&self, name: &str) -> Result<(), LiveError> {
        let parts = self.parts.borrow();
        let fault = |kind: &str, why: String| {
            Err(LiveError::NotTransparent { name: name.to_string(), kind: kind.to_string(), why })
        };
        let Some(instance) = parts.instances.get(name) else {
            return match parts.leaves.get(name) {
                Some(leaf) => fault(leaf.kind.name, "it is a device, not a layer".to_string()),
                None => Err(LiveError::Unknown(name.to_string())),
            };
        };
        if !instance.kind.transparent {
            return fault(instance.kind.name, "its upper port differs from its lower device".to_string());
        }
        Ok(())
    }

    /// Drains the stack, makes `spec` its arrangement, and lets requests in again.
    async fn switch(&self, spec: Spec, patience: Nanos, change: Change<'_>) -> Result<(), LiveError> {
        let snapshot: Handle = arrange(&self.shared, &self.parts.borrow(), &spec, self.measured())?;
        self.drain(patience).await?;
        let result = self.rearrange(snapshot, spec, change).await;
        self.shared.admission.open();
        result
    }

    /// Nothing is in flight. A layer that leaves stores what it holds back; one that comes is opened, and if it cannot
    /// be, the old arrangement comes back.
    async fn rearrange(&self, snapshot: Handle, spec: Spec, change: Change<'_>) -> Result<(), LiveError> {
        if let Change::Remove(name) = change {
            self.quiesce_layers(&[name.to_string()]).await.map_err(LiveError::Unsettled)?;
        }
        if let Change::Replace(name) = change {
            self.check_spared(name)?;
        }
        if let Change::Attach(layer) = change {
            self.check_grows(layer)?;
        }
        let leaves = if let Change::Detach(name) = change { Some(self.check_released(name)?) } else { None };
        let before = self.adopt(snapshot);
        if let Change::Insert(name) = change
            && let Err(error) = self.open_part(name).await
        {
            self.adopt(before);
            let new = spec.devices.iter().find(|device| device.name == name).expect("it was inserted");
            return Err(BuildError::of(new, error).into());
        }
        *self.spec.borrow_mut() = spec;
        self.retarget();
        if let Change::Attach(layer) = change {
            self.relowered(layer, None);
        }
        if let Some((layer, lower)) = leaves {
            self.relowered(&layer, Some(lower));
        }
        Ok(())
    }

    fn relowered(&self, layer: &str, gone: Option<usize>) {
        let instance = self.parts.borrow().instances.get(layer).cloned();
        instance.iter().for_each(|instance| instance.ext.relowered(gone));
    }

    /// Nothing is kept of a part that has left, or that could not come.
    fn drop_part(&self, name: &str) {
        let instance = self.parts.borrow().instances.get(name).map(Rc::clone);
        instance.iter().for_each(|i| i.ext.close());
        let ends = self.parts.borrow().ends(name);
        let volumes: Vec<VolumeId> = ends.iter().filter_map(|end| self.parts.borrow().volume(end)).collect();
        self.shared.watch.forget(name, &volumes);
        self.forget_ends(&ends);
        self.parts.borrow_mut().forget(name);
    }
}

/// The device of a name that the caller has checked to exist.
fn named<'a>(spec: &'a mut Spec, name: &str) -> &'a mut DeviceSpec {
    spec.devices.iter_mut().find(|d| d.name == name).expect("checked by the caller")
}

/// What the one-ended layer `name` stands on; it was checked to exist.
fn lower_of(spec: &Spec, name: &str) -> String {
    let layer = spec.devices.iter().find(|d| d.name == name).expect("checked by the caller");
    layer.on[0].clone()
}

/// Everything that refers to `old` refers to `new` instead.
fn replace_references(spec: &mut Spec, old: &str, new: &str) {
    let lowers = spec.devices.iter_mut().flat_map(|d| d.on.iter_mut());
    lowers.filter(|r| *r == old).for_each(|r| *r = new.to_string());
    spec.outlet_devices_mut().filter(|r| *r == old).for_each(|r| *r = new.to_string());
}

/// The named layers in their present order, top first.
fn chain_of(spec: &Spec, names: &[String]) -> Result<Vec<String>, LiveError> {
    let fault = |what: String| Err(LiveError::NotAChain(what));
    let mut sorted = names.to_vec();
    sorted.sort();
    sorted.dedup();
    if names.len() < 2 || sorted.len() != names.len() {
        return fault("name at least two different layers, top first".to_string());
    }
    let is_named = |name: &str| names.iter().any(|n| n == name);
    let tops: Vec<&String> =
        names.iter().filter(|n| !spec.devices.iter().any(|d| is_named(&d.name) && d.on.contains(n))).collect();
    let [top] = tops.as_slice() else {
        return fault(format!("{} do not stand on each other in one chain", names.join(", ")));
    };
    let mut chain = vec![(*top).clone()];
    while chain.len() < names.len() {
        let lower = lower_of(spec, chain.last().expect("never empty"));
        if !is_named(&lower) {
            return fault(format!("\"{lower}\" stands between the named layers; name it too"));
        }
        chain.push(lower);
    }
    let users = users(spec);
    match chain[1..].iter().find(|name| users.get(name.as_str()).is_none_or(|u| u.len() != 1)) {
        Some(name) => fault(format!("\"{name}\" is used by more than one device or export; it cannot move")),
        None => Ok(chain),
    }
}
