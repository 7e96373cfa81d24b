//! The encoding of values: LEB128 numbers, zigzag for signed ones, and strings, stored once and then referenced.

use std::collections::HashMap;

use crate::error::Problem;

/// A value with an encoding.
pub(crate) trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Sink);

    /// Reads a value.
    fn get(from: &mut Source<'_>) -> Result<Self, Problem>;
}

/// The bytes of a frame that is being written, and the strings in it.
#[derive(Default)]
pub(crate) struct Sink {
    pub bytes: Vec<u8>,
    texts: HashMap<Box<[u8]>, u64>,
    /// The time of the previous event, in nanoseconds: the next event stores the difference.
    pub time: u64,
}

impl Sink {
    /// Begins a new frame.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.texts.clear();
        self.time = 0;
    }

    pub fn put_number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends a string: its number within this frame, or, if it is new, 0, its length and its bytes.
    pub fn put_text(&mut self, text: &[u8]) {
        if let Some(number) = self.texts.get(text) {
            self.put_number(*number);
            return;
        }
        self.put_number(0);
        self.put_number(text.len() as u64);
        self.bytes.extend_from_slice(text);
        self.texts.insert(text.into(), self.texts.len() as u64 + 1);
    }
}

/// The bytes of a frame that is being read, and the strings so far.
pub(crate) struct Source<'b> {
    pub bytes: &'b [u8],
    pub state: &'b mut State,
}

/// The progress made in reading a frame.
#[derive(Default)]
pub(crate) struct State {
    /// The position of the next item.
    pub at: usize,
    texts: Vec<(u32, u32)>,
    /// The time of the previous event, in nanoseconds.
    pub time: u64,
}

impl<'b> Source<'b> {
    pub fn byte(&mut self) -> Result<u8, Problem> {
        let byte = *self.bytes.get(self.state.at).ok_or(Problem::Short)?;
        self.state.at += 1;
        Ok(byte)
    }

    pub fn number(&mut self) -> Result<u64, Problem> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Problem::Number)
    }

    /// Reads a string of at most `limit` bytes.
    pub fn text(&mut self, limit: usize) -> Result<&'b [u8], Problem> {
        let number = self.number()?;
        let (from, to) = if number == 0 {
            let length = self.number()?;
            let length = usize::try_from(length).ok().filter(|length| *length <= limit);
            let length = length.ok_or(Problem::Name("it is longer than its field allows"))?;
            let from = self.state.at;
            let to = from.checked_add(length).filter(|to| *to <= self.bytes.len());
            let to = to.ok_or(Problem::Short)?;
            self.state.at = to;
            // A frame has fewer than 2^32 bytes.
            self.state.texts.push((from as u32, to as u32));
            (from, to)
        } else {
            let known = usize::try_from(number - 1).ok().and_then(|at| self.state.texts.get(at));
            let (from, to) = *known.ok_or(Problem::Code("text", number))?;
            (from as usize, to as usize)
        };
        if to - from > limit {
            return Err(Problem::Name("it is longer than its field allows"));
        }
        Ok(&self.bytes[from..to])
    }
}

impl Wire for u64 {
    fn put(&self, out: &mut Sink) {
        out.put_number(*self);
    }

    fn get(from: &mut Source<'_>) -> Result<u64, Problem> {
        from.number()
    }
}

impl Wire for i64 {
    fn put(&self, out: &mut Sink) {
        out.put_number(((self << 1) ^ (self >> 63)) as u64);
    }

    fn get(from: &mut Source<'_>) -> Result<i64, Problem> {
        let value = from.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

macro_rules! narrow {
    ($($type:ty),+) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Sink) {
                out.put_number(u64::from(*self));
            }

            fn get(from: &mut Source<'_>) -> Result<$type, Problem> {
                <$type>::try_from(from.number()?).map_err(|_| Problem::Number)
            }
        }
    )+};
}

narrow!(u8, u32);

impl Wire for bool {
    fn put(&self, out: &mut Sink) {
        out.bytes.push(u8::from(*self));
    }

    fn get(from: &mut Source<'_>) -> Result<bool, Problem> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Problem::Code("boolean", u64::from(other))),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Sink) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(from: &mut Source<'_>) -> Result<Option<T>, Problem> {
        Ok(if bool::get(from)? { Some(T::get(from)?) } else { None })
    }
}

/// Implements [`Wire`] for an enum of plain variants with these codes.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$item:meta])* $variant:ident = $code:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$item])* $variant),+ }

        impl $name {
            /// All values, by code.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut $crate::wire::Sink) {
                out.bytes.push(match self { $($name::$variant => $code),+ });
            }

            fn get(from: &mut $crate::wire::Source<'_>) -> Result<$name, $crate::error::Problem> {
                match from.byte()? {
                    $($code => Ok($name::$variant),)+
                    other => Err($crate::error::Problem::Code($what, u64::from(other))),
                }
            }
        }
    };
}
pub(crate) use codes;

/// Declares a struct whose encoding is that of its fields in order.
macro_rules! fields {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$item])* pub $field: $type),+ }

        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut $crate::wire::Sink) {
                $(self.$field.put(out);)+
            }

            fn get(from: &mut $crate::wire::Source<'_>) -> Result<$name, $crate::error::Problem> {
                Ok($name { $($field: $crate::wire::Wire::get(from)?),+ })
            }
        }
    };
}
pub(crate) use fields;
