//! Bytes as parts: several inputs in one.

/// What is left to be taken.
pub struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    /// The next byte; 0 behind the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// The next part, which its length in two bytes stands before; None at the end.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (part, rest) = rest.split_at(len);
        self.0 = rest;
        Some(part)
    }

    /// Appends a part, as [`Parts::next`] reads it. Longer ones are cut.
    pub fn push(into: &mut Vec<u8>, part: &[u8]) {
        let len = u16::try_from(part.len()).unwrap_or(u16::MAX);
        into.extend(len.to_le_bytes());
        into.extend(&part[..usize::from(len)]);
    }
}
