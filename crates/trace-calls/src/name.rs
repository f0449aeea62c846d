//! Paths and words: bytes as the kernel sees them, which need not be UTF-8. Copies share their bytes.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

macro_rules! bytes_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<[u8]>);

        impl $name {
            /// The bytes.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// Whether two copies share one allocation: a quick, one-sided test of equality.
            pub fn is_same(&self, other: &$name) -> bool {
                Arc::ptr_eq(&self.0, &other.0)
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name(Arc::from(&[][..]))
            }
        }

        impl Deref for $name {
            type Target = [u8];
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }

        impl Borrow<[u8]> for $name {
            fn borrow(&self) -> &[u8] {
                &self.0
            }
        }

        impl<B: AsRef<[u8]> + ?Sized> From<&B> for $name {
            fn from(bytes: &B) -> $name {
                $name(Arc::from(bytes.as_ref()))
            }
        }

        impl From<Vec<u8>> for $name {
            fn from(bytes: Vec<u8>) -> $name {
                $name(Arc::from(bytes))
            }
        }

        /// As text: bytes that are no printable ASCII are escaped.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.escape_ascii())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

bytes_type! {
    /// A path, or the target of a symbolic link: what anonymisation changes.
    PathBytes
}

bytes_type! {
    /// Any other name: of an extended attribute, a request, a call, a thread.
    Word
}

/// Shares the bytes.
impl From<Word> for PathBytes {
    fn from(word: Word) -> PathBytes {
        PathBytes(word.0)
    }
}

/// Shares the bytes.
impl From<PathBytes> for Word {
    fn from(path: PathBytes) -> Word {
        Word(path.0)
    }
}
