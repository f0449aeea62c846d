//! Fixed-width integers on media (little-endian) and on the wire (big-endian), read without panics.

/// A reader ran past the end of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{needed} bytes needed at offset {at}, {left} left")]
pub struct Short {
    /// Offset of the read.
    pub at: usize,
    /// Bytes that the read needed.
    pub needed: usize,
    /// Bytes that were left.
    pub left: usize,
}

/// Reads integers and slices from the front of a byte slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! int_readers {
    ($($name:ident, $ty:ty, $from:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub fn $name(&mut self) -> Result<$ty, Short> {
                Ok(<$ty>::$from(self.array()?))
            }
        )*
    };
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes that remain.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Short> {
        let rest = &self.bytes[self.at..];
        let (head, _) = rest.split_at_checked(n).ok_or(Short { at: self.at, needed: n, left: rest.len() })?;
        self.at += n;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    int_readers! {
        u8, u8, from_le_bytes, "The next byte.";
        le_u16, u16, from_le_bytes, "A little-endian 16-bit integer.";
        le_u32, u32, from_le_bytes, "A little-endian 32-bit integer.";
        le_u64, u64, from_le_bytes, "A little-endian 64-bit integer.";
        be_u16, u16, from_be_bytes, "A big-endian 16-bit integer.";
        be_u32, u32, from_be_bytes, "A big-endian 32-bit integer.";
        be_u64, u64, from_be_bytes, "A big-endian 64-bit integer.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_endians_and_says_where_it_ran_short() {
        let mut r = Reader::new(&[1, 0, 0, 0, 0, 2, 9]);
        assert_eq!(r.le_u32(), Ok(1));
        assert_eq!(r.be_u16(), Ok(2));
        assert_eq!(r.be_u16(), Err(Short { at: 6, needed: 2, left: 1 }));
        assert_eq!(r.u8(), Ok(9));
        assert_eq!(r.left(), 0);
    }
}
