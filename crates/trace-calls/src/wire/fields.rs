//! Values of the language itself: numbers, text, options and lists.

use super::{Decoder, Encoder, Field, Malformed, Part, PartMut};
use crate::name::{PathBytes, Word};

impl Field for u64 {
    fn put(&self, to: &mut Encoder<'_>) {
        to.unsigned(*self);
    }

    fn get(from: &mut Decoder<'_>) -> Result<u64, Malformed> {
        from.unsigned()
    }

    fn render(&self, to: &mut String) {
        to.push_str(&self.to_string());
    }
}

impl Field for i64 {
    fn put(&self, to: &mut Encoder<'_>) {
        to.signed(*self);
    }

    fn get(from: &mut Decoder<'_>) -> Result<i64, Malformed> {
        from.signed()
    }

    fn render(&self, to: &mut String) {
        to.push_str(&self.to_string());
    }
}

/// Integers that fit in a varint of the next larger kind.
macro_rules! narrow_fields {
    ($($ty:ty as $wide:ty),*) => { $(
        impl Field for $ty {
            fn put(&self, to: &mut Encoder<'_>) {
                <$wide>::from(*self).put(to);
            }

            fn get(from: &mut Decoder<'_>) -> Result<$ty, Malformed> {
                let wide = <$wide as Field>::get(from)?;
                <$ty>::try_from(wide).map_err(|_| from.malformed("a number out of its range"))
            }

            fn render(&self, to: &mut String) {
                to.push_str(&self.to_string());
            }
        }
    )* };
}

narrow_fields!(u8 as u64, u16 as u64, u32 as u64, i32 as i64);

/// Longest text of a message, in bytes.
const TEXT_MAX: usize = 4096;

impl Field for String {
    fn put(&self, to: &mut Encoder<'_>) {
        let bytes = &self.as_bytes()[..self.len().min(TEXT_MAX)];
        to.unsigned(bytes.len() as u64);
        bytes.iter().for_each(|byte| to.byte(*byte));
    }

    fn get(from: &mut Decoder<'_>) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(from.bytes(TEXT_MAX)?).into_owned())
    }

    fn render(&self, to: &mut String) {
        to.push_str(self);
    }
}

impl Field for bool {
    fn put(&self, to: &mut Encoder<'_>) {
        to.byte(u8::from(*self));
    }

    fn get(from: &mut Decoder<'_>) -> Result<bool, Malformed> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(from.malformed("neither yes nor no")),
        }
    }

    fn render(&self, to: &mut String) {
        to.push_str(if *self { "yes" } else { "no" });
    }
}

impl Field for PathBytes {
    fn put(&self, to: &mut Encoder<'_>) {
        to.path(self);
    }

    fn get(from: &mut Decoder<'_>) -> Result<PathBytes, Malformed> {
        from.path()
    }

    fn render(&self, to: &mut String) {
        to.push_str(&format!("{self:?}"));
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        see(Part::Path(self));
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        change(PartMut::Path(self));
    }
}

impl Field for Word {
    fn put(&self, to: &mut Encoder<'_>) {
        to.path(&self.clone().into());
    }

    fn get(from: &mut Decoder<'_>) -> Result<Word, Malformed> {
        from.path().map(Word::from)
    }

    fn render(&self, to: &mut String) {
        to.push_str(&self.to_string());
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        see(Part::Word(self));
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        change(PartMut::Word(self));
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, to: &mut Encoder<'_>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Option<T>, Malformed> {
        if bool::get(from)? { T::get(from).map(Some) } else { Ok(None) }
    }

    fn render(&self, to: &mut String) {
        match self {
            Some(value) => value.render(to),
            None => to.push('-'),
        }
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        self.iter().for_each(|value| value.parts(see));
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        self.iter_mut().for_each(|value| value.parts_mut(change));
    }
}

impl<T: Field> Field for Box<T> {
    fn put(&self, to: &mut Encoder<'_>) {
        self.as_ref().put(to);
    }

    fn get(from: &mut Decoder<'_>) -> Result<Box<T>, Malformed> {
        T::get(from).map(Box::new)
    }

    fn render(&self, to: &mut String) {
        self.as_ref().render(to);
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        self.as_ref().parts(see);
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        self.as_mut().parts_mut(change);
    }
}

/// Most elements of a list: more than any call's arguments hold.
const LIST_MAX: u64 = 1 << 20;

impl<T: Field> Field for Vec<T> {
    fn put(&self, to: &mut Encoder<'_>) {
        to.unsigned(self.len() as u64);
        for value in self {
            value.put(to);
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Vec<T>, Malformed> {
        let len = from.unsigned()?;
        if len > LIST_MAX {
            return Err(from.malformed("a list of more than 2^20 elements"));
        }
        (0..len).map(|_| T::get(from)).collect()
    }

    fn render(&self, to: &mut String) {
        to.push('[');
        for (number, value) in self.iter().enumerate() {
            to.push_str(if number == 0 { "" } else { ", " });
            value.render(to);
        }
        to.push(']');
    }

    fn parts<'a>(&'a self, see: &mut dyn FnMut(Part<'a>)) {
        self.iter().for_each(|value| value.parts(see));
    }

    fn parts_mut(&mut self, change: &mut dyn FnMut(PartMut<'_>)) {
        self.iter_mut().for_each(|value| value.parts_mut(change));
    }
}
