//! Metadata contexts: kinds of status that a client may ask for, and sets of them.

use std::fmt;

/// One kind of status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// Where holes and zeroes are; the protocol's own.
    Allocation,
    /// What was changed through this server since it began; flag 1 means changed.
    Written,
}

impl Context {
    /// All of them, in the order of their numbers.
    pub const ALL: [Context; 2] = [Context::Allocation, Context::Written];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Context::Allocation => "base:allocation",
            Context::Written => "esker:written",
        }
    }

    /// The namespace with its colon: a query that lists all of it.
    pub fn namespace(self) -> &'static str {
        let name = self.name();
        &name[..=name.find(':').unwrap_or(name.len() - 1)]
    }

    /// The number under which this server selects it.
    pub fn id(self) -> u32 {
        self as u32 + 1
    }

    /// The context of a name.
    pub fn named(name: &str) -> Option<Context> {
        Context::ALL.into_iter().find(|context| context.name() == name)
    }
}

/// A set of contexts.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Contexts(u8);

impl Contexts {
    /// The set with this one too.
    pub fn with(self, context: Context) -> Contexts {
        Contexts(self.0 | 1 << context as u8)
    }

    /// Whether it is in.
    pub fn contains(self, context: Context) -> bool {
        self.0 & 1 << context as u8 != 0
    }

    /// Whether nothing is in.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in it, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Context> {
        Context::ALL.into_iter().filter(move |context| self.contains(*context))
    }

    /// The set of these numbers. None for a number that is not in `offered` or given twice, and for no number.
    pub fn of_ids(ids: impl Iterator<Item = u32>, offered: Contexts) -> Option<Contexts> {
        let mut set = Contexts::default();
        for id in ids {
            let context = offered.iter().find(|context| context.id() == id && !set.contains(*context))?;
            set = set.with(context);
        }
        (!set.is_empty()).then_some(set)
    }
}

impl FromIterator<Context> for Contexts {
    fn from_iter<I: IntoIterator<Item = Context>>(contexts: I) -> Contexts {
        contexts.into_iter().fold(Contexts::default(), Contexts::with)
    }
}

impl fmt::Debug for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Context::name)).finish()
    }
}
