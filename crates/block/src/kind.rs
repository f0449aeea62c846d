//! How a kind of device or layer describes itself: parameters, ends, promises, and how to build one.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use esker_base::renamed::{self, Scope};
use esker_base::units::{parse_size, parse_span, size_text, span_text};
use esker_base::{ByteRange, Nanos};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::check::MediaCheck;
use crate::created::Created;
use crate::device::{Device, StatInfo};
use crate::env::Env;
use crate::ext::{Extension, OrderInfo};
use crate::limits::{Limits, OpSet};

/// What a parameter's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamType {
    /// A number of bytes.
    Size,
    /// A span of time.
    Span,
    /// A whole number.
    Count,
    /// A number from 0 to 1.
    Ratio,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text, such as a path.
    Text,
    /// Where a secret is: `file:PATH` or `env:NAME`. No text, message or log shows another value: it may be the secret
    /// itself.
    Secret,
}

/// What stands in place of a value that is not shown.
pub const NOT_SHOWN: &str = "(not shown)";
/// So many hexadecimal digits and nothing else are a key and name none.
const KEY_DIGITS_MIN: usize = 32;

/// Whether `text` names a place of a secret and is not the secret itself.
fn names_secret(text: &str) -> bool {
    let place = text.strip_prefix("file:").or_else(|| text.strip_prefix("env:")).unwrap_or_default();
    let is_key = place.len() >= KEY_DIGITS_MIN && place.bytes().all(|digit| digit.is_ascii_hexdigit());
    !place.is_empty() && !is_key
}

/// One parameter of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// Name in stack files.
    pub name: &'static str,
    /// Type.
    pub ty: ParamType,
    /// Default as it would be written; `None` if the parameter must be given or may be left out (`optional`).
    pub default: Option<&'static str>,
    /// May be absent although it has no default.
    pub optional: bool,
    /// One sentence.
    pub doc: &'static str,
}

impl Param {
    /// A parameter that must be given.
    pub const fn required(name: &'static str, ty: ParamType, doc: &'static str) -> Param {
        Param { name, ty, default: None, optional: false, doc }
    }

    /// A parameter that may be left out.
    pub const fn optional(name: &'static str, ty: ParamType, doc: &'static str) -> Param {
        Param { name, ty, default: None, optional: true, doc }
    }

    /// A parameter with a default.
    pub const fn with_default(name: &'static str, ty: ParamType, default: &'static str, doc: &'static str) -> Param {
        Param { name, ty, default: Some(default), optional: false, doc }
    }

    /// Reads a value of this parameter from text.
    ///
    /// # Errors
    /// A [`KindError`] that names the parameter and says what would be right.
    pub fn read(&self, text: &str) -> Result<Value, KindError> {
        let number = || text.replace('_', "").parse::<f64>().ok().filter(|x| x.is_finite());
        let value = match self.ty {
            ParamType::Size => parse_size(text).map(Value::Int).map_err(|e| e.wanted()),
            ParamType::Span => parse_span(text).map(|n| Value::Int(n.0)).map_err(|e| e.wanted()),
            ParamType::Count => text.replace('_', "").parse().map(Value::Int).map_err(|_| "a whole number".to_string()),
            ParamType::Ratio => {
                let ratio = number().filter(|x| (0.0..=1.0).contains(x));
                ratio.map(Value::Float).ok_or_else(|| "a number from 0 to 1".to_string())
            }
            ParamType::Number => number().map(Value::Float).ok_or_else(|| "a number".to_string()),
            ParamType::Flag => text.parse().map(Value::Flag).map_err(|_| "true or false".to_string()),
            ParamType::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_string())),
            ParamType::Choice(words) => Err(format!("one of {}", words.join(", "))),
            ParamType::Text => Ok(Value::Text(text.to_string())),
            ParamType::Secret if names_secret(text) => Ok(Value::Text(text.to_string())),
            ParamType::Secret => {
                Err("file:PATH or env:NAME; a stack text names the place of a key and does not hold the key"
                    .to_string())
            }
        };
        let text = self.shown(text).to_string();
        value.map_err(|want| KindError::BadValue { param: self.name.to_string(), text: excerpt(&text), want })
    }

    /// `text` as messages and logs may show it: what can be the secret itself is replaced by [`NOT_SHOWN`].
    pub fn shown<'a>(&self, text: &'a str) -> &'a str {
        if matches!(self.ty, ParamType::Secret) && !names_secret(text) { NOT_SHOWN } else { text }
    }

    /// Writes a value so that [`Param::read`] reads back an equal one.
    pub fn write(&self, value: &Value) -> String {
        match (self.ty, value) {
            (ParamType::Size, Value::Int(n)) => size_text(*n),
            (ParamType::Span, Value::Int(n)) => span_text(Nanos(*n)),
            (_, Value::Int(n)) => n.to_string(),
            (_, Value::Float(x)) => x.to_string(),
            (_, Value::Flag(b)) => b.to_string(),
            (_, Value::Text(s)) => s.clone(),
        }
    }
}

/// A parameter's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Bytes, nanoseconds or a count.
    Int(u64),
    /// A number.
    Float(f64),
    /// A flag.
    Flag(bool),
    /// A word or text.
    Text(String),
}

/// Characters of a wrong value that a message quotes.
const QUOTED_MAX: usize = 200;

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Why a device or layer could not be built.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum KindError {
    /// A value cannot be read.
    #[error("{param} = \"{text}\": expected {want}")]
    BadValue {
        /// Parameter.
        param: String,
        /// What was written.
        text: String,
        /// What would be right.
        want: String,
    },
    /// A parameter that the kind does not have.
    #[error("unknown parameter \"{param}\"; {kind} has: {known}")]
    UnknownParam {
        /// Parameter.
        param: String,
        /// Kind.
        kind: &'static str,
        /// The parameters that exist.
        known: String,
    },
    /// A parameter that must be given.
    #[error("{kind} needs the parameter \"{param}\" ({doc})")]
    MissingParam {
        /// Parameter.
        param: &'static str,
        /// Kind.
        kind: &'static str,
        /// What it means.
        doc: &'static str,
    },
    /// Values that do not fit together or with what is below; the text says how and what to do.
    #[error("{0}")]
    Unfit(String),
    /// The outside world refused: a path, a size, a permission.
    #[error("{0}")]
    Outside(String),
    /// What was durable on a medium is damaged, and nothing older can serve.
    #[error("{0}")]
    Damaged(String),
}

impl KindError {
    /// What an open medium says: damage, or something else of the outside world.
    pub fn of_medium(is_damage: bool, text: String) -> KindError {
        if is_damage { KindError::Damaged(text) } else { KindError::Outside(text) }
    }
}

/// Checked arguments: every parameter of the kind is there, unless it is optional.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Args(BTreeMap<&'static str, Value>);

impl Args {
    /// Reads the arguments of `kind` from texts.
    ///
    /// # Errors
    /// Unknown, missing and unreadable parameters.
    pub fn read(kind: &Kind, given: &BTreeMap<String, String>) -> Result<Args, KindError> {
        if let Some(param) = given.keys().find(|name| kind.param(name).is_none()) {
            let new = renamed::now(Scope::Param(kind.name), param);
            let name =
                |name: &str| if new == Some(name) { format!("{name} (before: {param})") } else { name.to_string() };
            let known = kind.params.iter().map(|p| name(p.name)).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".to_string() } else { known };
            return Err(KindError::UnknownParam { param: param.clone(), kind: kind.name, known });
        }
        let mut args = Args::default();
        for param in kind.params {
            match given.get(param.name).map(String::as_str).or(param.default) {
                Some(text) => drop(args.0.insert(param.name, param.read(text)?)),
                None if param.optional => {}
                None => {
                    return Err(KindError::MissingParam { param: param.name, kind: kind.name, doc: param.doc });
                }
            }
        }
        Ok(args)
    }

    /// The value of a parameter, if it was given or has a default.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn required<T>(&self, name: &str, what: fn(&Value) -> Option<T>) -> T {
        let value = self.0.get(name).and_then(what);
        value.unwrap_or_else(|| panic!("the manifest has no such parameter: {name}"))
    }

    /// A size, span in nanoseconds, or count.
    ///
    /// # Panics
    /// If the manifest declares no such parameter, or an optional one that is absent; so do all typed getters.
    pub fn int(&self, name: &str) -> u64 {
        self.required(name, |v| if let Value::Int(n) = v { Some(*n) } else { None })
    }

    /// A span.
    pub fn span(&self, name: &str) -> Nanos {
        Nanos(self.int(name))
    }

    /// A ratio or number.
    pub fn float(&self, name: &str) -> f64 {
        self.required(name, |v| if let Value::Float(x) = v { Some(*x) } else { None })
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        self.required(name, |v| if let Value::Flag(b) = v { Some(*b) } else { None })
    }

    /// A word or text.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Text(text)) => text,
            _ => panic!("the manifest has no such text parameter: {name}"),
        }
    }

    /// An optional size, span or count.
    pub fn int_opt(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|_| self.int(name))
    }

    /// The range of bytes given by two parameters, or an error that names them.
    pub fn range(&self, start: &str, len: &str) -> Result<ByteRange, KindError> {
        ByteRange::new(self.int(start), self.int(len))
            .ok_or_else(|| KindError::Unfit(format!("{start} + {len} does not fit in 64 bits; make one smaller")))
    }
}

/// How many lower devices a kind has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// A leaf.
    None,
    /// Exactly one.
    One,
    /// At least this many.
    AtLeast(usize),
}

/// Whether a layer changes what passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Looks, waits or counts, and passes everything unchanged (ABLE: accessor).
    Accessor,
    /// Changes requests, answers or data (ABLE: modifier).
    Modifier,
}

/// Some of a layer's lower devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// None.
    Nowhere,
    /// All.
    All,
    /// The one with the number of the upper port that a request came in by.
    Same,
    /// Those with these numbers, as far as they are there.
    These(&'static [usize]),
}

impl Ends {
    /// Whether lower device `lower` is among them for a request that came in by upper port `port`.
    pub fn has(self, port: usize, lower: usize) -> bool {
        match self {
            Ends::Nowhere => false,
            Ends::All => true,
            Ends::Same => port == lower,
            Ends::These(ends) => ends.contains(&lower),
        }
    }
}

/// Where a layer leads requests: what the theory of stacking needs to know of it (ABLE, definitions 5.3.2 to 5.3.5),
/// and what the loop holds it to. An accessor forwards as declared and creates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routes {
    /// Lower devices to which a request, or a part of it, may go on.
    pub forward: Ends,
    /// Lower devices to which requests go that it creates.
    pub generate: Ends,
    /// Whether it also creates some without being given any: on timers, failures, changes of the system.
    pub spontaneous: bool,
}

impl Routes {
    /// What is assumed of a kind that declares nothing.
    pub const WORST: Routes = Routes { forward: Ends::All, generate: Ends::All, spontaneous: false };
    /// Passes requests, or parts of them, to any lower device and creates none.
    pub const FORWARD: Routes = Routes { generate: Ends::Nowhere, ..Routes::WORST };
}

/// What a kind does to the durability that it finds below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// A write is durable exactly when it would be below.
    Keeps,
    /// Durable earlier than below.
    Strengthens,
    /// Durable later than below, or never.
    Weakens,
}

/// How data lies on the devices below a layer, which ties the layer to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// As it was written, at the same offsets: without the layer it reads the same.
    Plain,
    /// In an arrangement of the layer.
    Arranged,
    /// At the same offsets in an encoding of the layer: zeroes below are no zeroes above, so that a blank medium is not
    /// seen as one.
    Encoded,
    /// Beside tables of the layer's own.
    Tables,
}

/// Which lower devices may grow under a layer that is not transparent: the stack builds the layer again over the sizes
/// that these have once they are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follows {
    /// All of them.
    All,
    /// The last one: behind any other, data would lie elsewhere.
    Last,
    /// None: the layer records its own size on the medium, and is built for the sizes of the stack text.
    None,
}

impl Follows {
    /// Whether the layer takes a new size of lower device `lower` of `lowers`.
    pub fn takes(self, lower: usize, lowers: usize) -> bool {
        match self {
            Follows::All => true,
            Follows::Last => lower + 1 == lowers,
            Follows::None => false,
        }
    }
}

/// Where a kind can be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Worlds {
    /// In both.
    Both,
    /// Only where there is a kernel.
    RealOnly,
}

/// An upper port of a layer.
#[derive(Clone, Debug)]
pub struct Upper {
    /// Port name for kinds with several upper ports (`vm.vol1`); empty for the single one.
    pub port: String,
    /// What requests to it must keep to.
    pub limits: Limits,
}

/// A built layer.
pub struct Layer {
    /// Its code and state.
    pub ext: Rc<dyn Extension>,
    /// Its upper ports; `Ctx::port` is an index into this.
    pub uppers: Vec<Upper>,
}

impl Layer {
    /// A layer with one upper port.
    pub fn single(ext: impl Extension + 'static, limits: Limits) -> Layer {
        Layer { ext: Rc::new(ext), uppers: vec![Upper { port: String::new(), limits }] }
    }
}

/// What building one device or layer may use.
pub struct Make<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// The device's name in the stack file; streams of random numbers are named after it.
    pub name: &'a str,
    /// Its arguments.
    pub args: &'a Args,
    /// Limits of its lower devices.
    pub lowers: &'a [Limits],
    /// Where it notes what it creates outside, such as a file.
    pub created: &'a Created,
    /// What the program hands to its kinds.
    pub env: &'a Env,
}

/// Builds one device.
pub type BuildDevice = fn(&Make<'_>) -> Result<Rc<dyn Device>, KindError>;
/// Builds one layer.
pub type BuildLayer = fn(&Make<'_>) -> Result<Layer, KindError>;

/// How to build one.
#[derive(Clone, Copy)]
pub enum Build {
    /// A leaf.
    Device(BuildDevice),
    /// A layer.
    Layer(BuildLayer),
}

/// The manifest of a kind.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Name in stack files.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Parameters, in the order of the documentation.
    pub params: &'static [Param],
    /// Statistics, in the order of the documentation. Those of `stats` follow from operations and are not listed.
    pub stats: &'static [StatInfo],
    /// Orders that it takes from operators.
    pub orders: &'static [OrderInfo],
    /// Lower devices.
    pub lowers: Arity,
    /// Operations that it lets through or does itself. Everything else is refused above it.
    pub passes: OpSet,
    /// Accessor or modifier.
    pub role: Role,
    /// Where it leads requests. Means nothing for a device.
    pub routes: Routes,
    /// Effect on durability.
    pub durability: Durability,
    /// How data lies below it. Means nothing for a device.
    pub medium: Medium,
    /// Whose new sizes it takes. Means nothing for a device and for a transparent layer.
    pub follows: Follows,
    /// Whether payload bytes must be there (a described payload is refused).
    pub needs_bytes: bool,
    /// Whether its upper port has the limits of its lower device, so that it can be inserted, removed and reordered
    /// live.
    pub transparent: bool,
    /// Where it can be built.
    pub worlds: Worlds,
    /// CPU time per request, charged in virtual time.
    pub cost: Nanos,
    /// Checks media of this kind while no stack uses them.
    pub check: Option<MediaCheck>,
    /// How to build one.
    pub build: Build,
}

impl Kind {
    /// A layer with one lower device that passes everything unchanged, exists in both worlds and may be inserted live.
    /// What differs is said by struct update: `Kind { role: Role::Modifier, ..Kind::layer(..) }`.
    pub const fn layer(name: &'static str, summary: &'static str, params: &'static [Param], build: BuildLayer) -> Kind {
        Kind::passing(name, summary, params, Build::Layer(build))
    }

    /// A device without range vectors, which exists in both worlds.
    pub const fn device(
        name: &'static str,
        summary: &'static str,
        params: &'static [Param],
        build: BuildDevice,
    ) -> Kind {
        Kind {
            lowers: Arity::None,
            passes: OpSet::WITHOUT_REMAP,
            role: Role::Modifier,
            transparent: false,
            cost: Nanos::ZERO,
            ..Kind::passing(name, summary, params, Build::Device(build))
        }
    }

    const fn passing(name: &'static str, summary: &'static str, params: &'static [Param], build: Build) -> Kind {
        Kind {
            name,
            summary,
            params,
            stats: &[],
            orders: &[],
            lowers: Arity::One,
            passes: OpSet::ALL,
            role: Role::Accessor,
            routes: Routes::WORST,
            durability: Durability::Keeps,
            medium: Medium::Plain,
            follows: Follows::All,
            needs_bytes: false,
            transparent: true,
            worlds: Worlds::Both,
            cost: Nanos(10),
            check: None,
            build,
        }
    }

    /// A layer with one lower device, which has tables on it that record its size: it changes what passes, and may not
    /// be inserted live.
    pub const fn stateful(
        name: &'static str,
        summary: &'static str,
        params: &'static [Param],
        build: BuildLayer,
    ) -> Kind {
        Kind {
            role: Role::Modifier,
            medium: Medium::Tables,
            follows: Follows::None,
            transparent: false,
            ..Kind::layer(name, summary, params, build)
        }
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|p| p.name == name)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.name)
    }
}
