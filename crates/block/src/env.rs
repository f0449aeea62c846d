//! What a program hands to the kinds that it builds from, beside their text.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Values by their type, at most one of each, such as the media of a test. They are looked up only, so that the order
/// of type numbers, which differs between builds, has no effect.
#[derive(Clone, Default)]
pub struct Env(BTreeMap<TypeId, Rc<dyn Any>>);

impl Env {
    /// Holds this value alone.
    pub fn of<T: 'static>(value: T) -> Env {
        Env::default().with(value)
    }

    /// The same with one value more, in place of another one of its type.
    pub fn with<T: 'static>(mut self, value: T) -> Env {
        self.0.insert(TypeId::of::<T>(), Rc::new(value));
        self
    }

    /// The value of a type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Env of {} values", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_type() {
        let env = Env::of(7_u32).with("seven").with(8_u32);
        assert_eq!((env.get::<u32>(), env.get::<&str>(), env.get::<u64>()), (Some(&8), Some(&"seven"), None));
        assert_eq!(format!("{env:?}"), "Env of 2 values");
    }
}
