//! Structures of fixed fields in little-endian, read and written from one description.

/// An integer or array of bytes on a medium.
pub(super) trait OnMedium: Sized {
    const BYTES: usize;

    /// Reads it from exactly [`OnMedium::BYTES`] bytes.
    fn get(bytes: &[u8]) -> Self;

    fn put(&self, out: &mut [u8]);
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        impl OnMedium for $type {
            const BYTES: usize = size_of::<$type>();

            fn get(bytes: &[u8]) -> $type {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                <$type>::from_le_bytes(array)
            }

            fn put(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

integers! { u8 u16 u32 u64 }

impl<const N: usize> OnMedium for [u8; N] {
    const BYTES: usize = N;

    fn get(bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        array
    }

    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(self);
    }
}

/// A structure whose fields lie one behind the other, in so many bytes.
macro_rules! layout {
    (
        $(#[$about:meta])*
        pub struct $name:ident: $size:literal { $( $(#[$doc:meta])* $field:ident: $type:ty, )* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name { $( $(#[$doc])* pub $field: $type, )* }

        impl $name {
            /// Bytes of it.
            pub const BYTES: usize = $size;

            /// Reads it from the front of `bytes`.
            ///
            /// # Errors
            /// They are too few.
            pub fn read(bytes: &[u8]) -> Result<$name, esker_base::codec::Short> {
                let mut reader = esker_base::codec::Reader::new(bytes);
                Ok($name { $( $field: {
                    let taken = reader.take(<$type as $crate::format::layout::OnMedium>::BYTES)?;
                    <$type as $crate::format::layout::OnMedium>::get(taken)
                }, )* })
            }

            /// Writes it to the front of `out`.
            ///
            /// # Panics
            /// If that is too short.
            pub fn write(&self, out: &mut [u8]) {
                let mut rest = out;
                $(
                    let bytes = <$type as $crate::format::layout::OnMedium>::BYTES;
                    let (head, tail) = rest.split_at_mut(bytes);
                    $crate::format::layout::OnMedium::put(&self.$field, head);
                    rest = tail;
                )*
                let _behind = rest;
            }
        }

        const _: () = assert!($( <$type as $crate::format::layout::OnMedium>::BYTES + )* 0 == $size);
    };
}

pub(super) use layout;
