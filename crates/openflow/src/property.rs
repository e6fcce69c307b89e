//! Properties: a type, a length and a value, padded to a multiple of eight bytes.

use crate::message::MessageError;

const HEADER_LENGTH: usize = 4;
const ALIGNMENT: usize = 8;

/// Appends a property whose value `write` appends. The length counts the header and the value, and not the padding.
pub(crate) fn write_property(out: &mut Vec<u8>, kind: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    write(&mut value);
    let length = HEADER_LENGTH + value.len();
    let end = out.len() + length.next_multiple_of(ALIGNMENT);
    out.extend(kind.to_be_bytes());
    // Invariant: values are addresses, numbers and tuples of these, far below what the length can say.
    out.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(value);
    out.resize(end, 0);
}

/// The properties in `bytes`, which is nothing but these.
pub(crate) fn properties(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), MessageError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(&[kind_high, kind_low, length_high, length_low]) = rest.get(..HEADER_LENGTH) else {
            rest = &[];
            return Some(Err(MessageError::Property));
        };
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let value = rest.get(HEADER_LENGTH..length);
        let behind = rest.get(length.next_multiple_of(ALIGNMENT)..);
        let (Some(value), Some(behind)) = (value, behind) else {
            rest = &[];
            return Some(Err(MessageError::Property));
        };
        rest = behind;
        Some(Ok((u16::from_be_bytes([kind_high, kind_low]), value)))
    })
}
