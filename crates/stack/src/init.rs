//! Making the media of a stack, from the bottom up, through the layers that stand below them.
//!
//! A layer says where it tells its medium ([`Extension::marks`]). Where that is blank, opening the layer makes a new
//! medium; so making one anew is: zero the marks, then open. What the marks hold decides whether that may be done:
//!
//! | below the layer | marks | what happens |
//! |---|---|---|
//! | blank devices, media that were just made | whatever they read as (behind `crypt`: noise) | made |
//! | media that were there before | blank, or blank below a layer that hides it | made |
//! | anything | a medium that the layer can open | kept |
//! | anything else | | refused, or made anew if forced |
//!
//! A rehearsal does the same without making anything: what would be made is not opened. It runs on devices that keep
//! what is written in memory, because a layer that is kept may write while it is opened.
//!
//! [`Extension::marks`]: esker_block::Extension::marks

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Below, Bio, BioError, Buf, Class, Created, Env, Kind, Mark, OpKind, Support, Tag};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::build::{BuildError, arrange};
use crate::health::Unusable;
use crate::snapshot::{Instance, Shared};
use crate::stack::Stack;
use crate::text::check::lowers_first;
use crate::text::{DeviceSpec, Spec, split_reference};

/// Marks are read and zeroed in pieces of this many bytes: no layer with marks stands on larger blocks.
const PIECE: u64 = 4096;

const TAG: Tag = Tag::of(Class::Metadata);

/// What is to be made.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What each device at the bottom holds, in words. One that does not stand here is blank.
    pub holds: BTreeMap<String, String>,
    /// The layers that are made anew whatever is there.
    pub forced: Vec<String>,
    /// Tell what would be done. The devices must be such that what is written to them is lost.
    pub rehearse: bool,
}

/// What was done with the medium of one layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Medium {
    /// The layer.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// What was done.
    pub done: Making,
}

/// What was done with a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Making {
    /// It was made where nothing was.
    Made,
    /// It was made, and what was there is lost: in words.
    Anew(Vec<String>),
    /// It was there already.
    Kept,
}

/// Why media were not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InitError {
    /// The stack cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Something is in the way.
    #[error("{}:{}: device \"{name}\": {what}; to destroy that, say --force", .at.file, .at.line)]
    Taken {
        /// The layer.
        name: String,
        /// Where it stands in the text.
        at: crate::text::Location,
        /// What is in the way.
        what: String,
    },
    /// A layer without a medium of its own cannot be opened, or a medium cannot be written.
    #[error("{}:{}: device \"{name}\": {what}", .at.file, .at.line)]
    Failed {
        /// The layer.
        name: String,
        /// Where it stands in the text.
        at: crate::text::Location,
        /// Why.
        what: String,
    },
}

/// What is known of the content of an end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ground {
    /// Nothing that is needed.
    Blank,
    /// Media that were there before.
    Kept,
    /// Something that no layer has claimed.
    Holds(String),
}

impl Spec {
    /// What the media of a text depend on: the layer `top` and all below it, or everything; without exports and
    /// mounts, and without layers of kinds that change nothing on what is below them.
    pub fn of_media(mut self, kinds: &[&Kind], top: Option<&str>) -> Spec {
        self = self.without_outlets();
        let is_transparent =
            |device: &DeviceSpec| kinds.iter().any(|kind| kind.name == device.kind && kind.transparent);
        while let Some(at) = self.devices.iter().position(|d| is_transparent(d) && d.on.len() == 1) {
            let gone = self.devices.remove(at);
            let lowers = self.devices.iter_mut().flat_map(|device| device.on.iter_mut());
            lowers.filter(|on| **on == gone.name).for_each(|on| on.clone_from(&gone.on[0]));
        }
        match top {
            Some(top) => self.up_to(top),
            None => self,
        }
    }
}

impl Stack {
    /// Makes the media of the layers of `spec`, a text [of media](Spec::of_media), and tells of each in the order in
    /// which they stand on each other. The stack is closed again.
    ///
    /// # Errors
    /// [`InitError`], with the first layer that is in the way. What was made below it stays.
    pub async fn init(
        rt: &Rt,
        pool: &Pool,
        kinds: &'static [&'static Kind],
        spec: &Spec,
        wanted: &Wanted,
    ) -> Result<Vec<Medium>, InitError> {
        let created = Created::default();
        let stack = Stack::build_closed(Shared::new(rt.clone(), pool.clone(), Env::default()), kinds, spec, &created)?;
        created.keep();
        stack.shared.admission.begin_opening();
        let result = Maker { stack: &stack, wanted, grounds: BTreeMap::new(), media: Vec::new() }.make_all(spec).await;
        stack.shared.admission.end_opening();
        stack.close().await;
        if !wanted.rehearse {
            let flushed = stack.flush_leaves().await;
            flushed.map_err(|(name, error)| failed(&named(spec, &name), format!("it cannot be flushed: {error}")))?;
        }
        result
    }

    async fn flush_leaves(&self) -> Result<(), (String, BioError)> {
        let leaves: Vec<_> = self.parts.borrow().leaves.values().cloned().collect();
        for leaf in leaves {
            let done = leaf.device.submit(Bio::flush().tagged(TAG)).await;
            done.result.map_err(|error| (leaf.name.clone(), error))?;
        }
        Ok(())
    }
}

struct Maker<'a> {
    stack: &'a Rc<Stack>,
    wanted: &'a Wanted,
    /// By device or layer.
    grounds: BTreeMap<String, Ground>,
    media: Vec<Medium>,
}

impl Maker<'_> {
    async fn make_all(mut self, spec: &Spec) -> Result<Vec<Medium>, InitError> {
        for at in lowers_first(spec) {
            let device = &spec.devices[at];
            let instance = self.stack.parts.borrow().instances.contains_key(&device.name);
            let ground = match instance {
                false => self.wanted.holds.get(&device.name).cloned().map_or(Ground::Blank, Ground::Holds),
                true => self.layer(device).await?,
            };
            self.grounds.insert(device.name.clone(), ground);
        }
        Ok(self.media)
    }

    /// Makes or opens one layer; tells what is known of what stands on it.
    async fn layer(&mut self, device: &DeviceSpec) -> Result<Ground, InitError> {
        self.stack.refit(&device.name)?;
        let instance = self.stack.parts.borrow().instances[&device.name].clone();
        let marks = instance.ext.marks();
        if marks.is_empty() {
            self.open(device).await.map_err(|why| failed(device, why))?;
            return Ok(self.worst(device, |_| true));
        }
        let is_marked = |lower| marks.iter().any(|mark| mark.lower == lower);
        let below = self.worst(device, is_marked);
        let making = match self.wanted.forced.contains(&device.name) {
            true => self.destroyed(device, &below, is_marked),
            false => self.judge(device, &instance, &marks, &below).await?,
        };
        if making != Making::Kept {
            self.check_writable(device, &marks)?;
            self.make(device, &instance, &marks).await?;
        }
        let ground = match making {
            Making::Kept => Ground::Kept,
            // What lies beside its medium is as before.
            Making::Made | Making::Anew(_) => self.worst(device, |lower| !is_marked(lower)),
        };
        self.media.push(Medium { name: device.name.clone(), kind: instance.kind.name, done: making });
        Ok(ground)
    }

    fn ground(&self, device: &DeviceSpec, lower: usize) -> Ground {
        self.grounds[split_reference(&device.on[lower]).0].clone()
    }

    fn worst(&self, device: &DeviceSpec, is_asked: impl Fn(usize) -> bool) -> Ground {
        let lowers = (0..device.on.len()).filter(|lower| is_asked(*lower));
        lowers.map(|lower| self.ground(device, lower)).max().unwrap_or(Ground::Blank)
    }

    fn destroyed(&self, device: &DeviceSpec, below: &Ground, is_marked: impl Fn(usize) -> bool) -> Making {
        if *below == Ground::Blank {
            return Making::Made;
        }
        let of = |lower: usize| match self.ground(device, lower) {
            Ground::Blank => None,
            Ground::Kept => Some(format!("what \"{}\" holds", device.on[lower])),
            Ground::Holds(what) => Some(what),
        };
        Making::Anew((0..device.on.len()).filter(|lower| is_marked(*lower)).filter_map(of).collect())
    }

    /// Whether a medium may be made; if there is one, it is open then.
    async fn judge(
        &self,
        device: &DeviceSpec,
        instance: &Rc<Instance>,
        marks: &[Mark],
        below: &Ground,
    ) -> Result<Making, InitError> {
        if *below == Ground::Blank {
            return Ok(Making::Made);
        }
        let unreadable = |error: BioError| failed(device, format!("what is below cannot be read: {error}"));
        // What a rehearsal has not made cannot be read, and would be blank.
        let read: Vec<Mark> =
            marks.iter().filter(|mark| self.ground(device, mark.lower) != Ground::Blank).copied().collect();
        if self.are_blank(device, instance, &read).await.map_err(unreadable)? {
            return match below {
                Ground::Holds(what) => Err(taken(device, what.clone())),
                Ground::Blank | Ground::Kept => Ok(Making::Made),
            };
        }
        match (self.open(device).await, below) {
            (Ok(()), _) => Ok(Making::Kept),
            (Err(_), Ground::Holds(what)) => Err(taken(device, what.clone())),
            (Err(why), _) => {
                Err(taken(device, format!("what is below it is neither blank nor a medium of this layer ({why})")))
            }
        }
    }

    /// Whether the marks read as zeroes, or would without the layers that hide it.
    async fn are_blank(&self, device: &DeviceSpec, instance: &Rc<Instance>, marks: &[Mark]) -> Result<bool, BioError> {
        for mark in marks {
            if self.is_blank(instance, *mark).await? {
                continue;
            }
            match self.hider(&device.on[mark.lower]) {
                Some(hider) if self.is_blank(&hider, Mark { lower: 0, ..*mark }).await? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The lowest layer that hides what is blank at the same offsets, going down from `top`.
    fn hider(&self, top: &str) -> Option<Rc<Instance>> {
        let (mut name, mut found) = (top.to_string(), None);
        loop {
            let Some(instance) = self.stack.parts.borrow().instances.get(&name).cloned() else { return found };
            if instance.kind.medium == esker_block::Medium::Encoded {
                found = Some(instance);
            } else if !instance.kind.transparent {
                return found;
            }
            let lower = self.stack.spec.borrow().device(&name)?.on.first()?.clone();
            name = lower;
        }
    }

    async fn is_blank(&self, instance: &Rc<Instance>, mark: Mark) -> Result<bool, BioError> {
        let below = self.below(instance);
        for piece in mark.range.split_at_multiples(PIECE) {
            let bio = Bio::read(piece.start(), Buf::unique(self.stack.pool(), piece.len() as usize));
            let done = below.submit(bio.tagged(TAG).to(below.lower(mark.lower))).await;
            done.result?;
            if !done.buf.is_zero() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn below(&self, instance: &Rc<Instance>) -> Below {
        self.stack.below(instance).expect("every layer of the text stands in the arrangement")
    }

    fn check_writable(&self, device: &DeviceSpec, marks: &[Mark]) -> Result<(), InitError> {
        let parts = self.stack.parts.borrow();
        let takes =
            |name: &String| parts.limits(name).is_some_and(|limits| limits.support(OpKind::Write) != Support::No);
        match marks.iter().map(|mark| &device.on[mark.lower]).find(|name| !takes(name)) {
            Some(name) => Err(failed(device, format!("\"{name}\" takes no writes, so no medium can be made on it"))),
            None => Ok(()),
        }
    }

    /// Zeroes the marks durably, and opens the layer over them.
    async fn make(&self, device: &DeviceSpec, instance: &Rc<Instance>, marks: &[Mark]) -> Result<(), InitError> {
        let is_passed_on = (0..device.on.len()).any(|lower| !marks.iter().any(|mark| mark.lower == lower));
        if self.wanted.rehearse && !is_passed_on {
            self.leave_out(instance);
            return Ok(());
        }
        let below = self.below(instance);
        for mark in marks {
            let erased = erase(self.stack, &below, mark.lower, mark.range).await;
            erased.map_err(|error| failed(device, format!("its medium cannot be made: {error}")))?;
        }
        self.open(device).await.map_err(|why| failed(device, format!("its medium cannot be made: {why}")))
    }

    /// A layer that would be made answers nothing in a rehearsal.
    fn leave_out(&self, instance: &Rc<Instance>) {
        let what = format!("{} is still to be made; make it alone first (`--device {0}`)", instance.name);
        *instance.unusable.borrow_mut() = Some(Unusable::undamaged(what));
        let stack = self.stack;
        let arranged = arrange(&stack.shared, &stack.parts.borrow(), &stack.spec.borrow(), stack.measured());
        stack.adopt(arranged.expect("this arrangement stood before"));
    }

    async fn open(&self, device: &DeviceSpec) -> Result<(), String> {
        self.stack.open_part(&device.name).await.map_err(|why| why.to_string())?;
        self.stack.note_sizes();
        Ok(())
    }
}

async fn erase(stack: &Stack, below: &Below, lower: usize, range: ByteRange) -> Result<(), BioError> {
    for piece in range.split_at_multiples(PIECE) {
        let bio = Bio::write(piece.start(), Buf::zeroed(stack.pool(), piece.len() as usize));
        below.submit(bio.tagged(TAG).to(below.lower(lower))).await.result?;
    }
    below.submit(Bio::flush().tagged(TAG).to(below.lower(lower))).await.result.map(drop)
}

fn named(spec: &Spec, name: &str) -> DeviceSpec {
    spec.device(name).expect("every part stands in the text").clone()
}

fn taken(device: &DeviceSpec, what: String) -> InitError {
    InitError::Taken { name: device.name.clone(), at: device.at.clone(), what }
}

fn failed(device: &DeviceSpec, what: String) -> InitError {
    InitError::Failed { name: device.name.clone(), at: device.at.clone(), what }
}
