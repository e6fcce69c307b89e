//! UIDs in little memory.

use std::fmt;

use smol_str::SmolStr;
use uuid::Uuid;

/// The UID of an object. One that is a UUID, as those that Kubernetes gives are, takes no memory besides its own sixteen bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// Invariant: written as Kubernetes writes it, it is the UID.
    Uuid(Uuid),
    Other(SmolStr),
}

impl Uid {
    /// Lets its text be read.
    pub fn with_text<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Form::Uuid(uuid) => read(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            Form::Other(text) => read(text),
        }
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).map(|uuid| Uid(Form::Uuid(uuid)));
        match uuid {
            Ok(uid) if uid == *text => uid,
            _ => Uid(Form::Other(text.into())),
        }
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        self.with_text(|text| text == other)
    }
}

impl PartialEq<&str> for Uid {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialEq<SmolStr> for Uid {
    fn eq(&self, other: &SmolStr) -> bool {
        *self == *other.as_str()
    }
}

impl PartialEq<Uid> for String {
    fn eq(&self, other: &Uid) -> bool {
        *other == **self
    }
}

impl Default for Uid {
    /// An empty text, which no object has.
    fn default() -> Self {
        Uid(Form::Other(SmolStr::default()))
    }
}

impl From<&Uid> for SmolStr {
    fn from(uid: &Uid) -> Self {
        uid.with_text(|text| SmolStr::new(text))
    }
}

impl PartialEq<String> for Uid {
    fn eq(&self, other: &String) -> bool {
        *self == **other
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| fmt::Debug::fmt(text, f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_the_text_that_it_was_made_of() {
        for text in [
            "2f6c1a9e-1d5e-4b0a-9c3e-0123456789ab",
            "2F6C1A9E-1D5E-4B0A-9C3E-0123456789AB",
            "2f6c1a9e1d5e4b0a9c3e0123456789ab",
            "{2f6c1a9e-1d5e-4b0a-9c3e-0123456789ab}",
            "urn:uuid:2f6c1a9e-1d5e-4b0a-9c3e-0123456789ab",
            "lock-1",
            "",
        ] {
            let uid = Uid::from(text);
            assert_eq!(uid.to_string(), text);
            assert!(uid == *text);
            assert_eq!(format!("{uid:?}"), format!("{text:?}"));
        }
        let upper = "2F6C1A9E-1D5E-4B0A-9C3E-0123456789AB";
        assert_ne!(Uid::from(upper), Uid::from(upper.to_lowercase().as_str()));
        assert_eq!(size_of::<Uid>(), size_of::<SmolStr>());
    }
}
