//! The options of requests: what a server refuses in them, and who a request that does not say so is from.

use apischema::FieldError;

use apischema::go_text;

/// The longest name of a field manager, in bytes.
pub const MAX_FIELD_MANAGER: usize = 128;

/// What a server does about fields that it does not know and fields that are there twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing.
    Ignore,
    /// Tells the client in `Warning` headers.
    #[default]
    Warn,
    /// Refuses the request.
    Strict,
}

impl FieldValidation {
    /// Reads the `fieldValidation` query parameter.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        match text {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                Err(FieldError::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]))
            }
        }
    }
}

/// Whether a request is only tried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// It is for real.
    #[default]
    No,
    /// Everything is done but the write.
    All,
}

impl DryRun {
    /// Reads the `dryRun` query parameters.
    pub fn parse<S: AsRef<str>>(values: &[S]) -> Result<Self, FieldError> {
        if values.iter().any(|value| value.as_ref() != "All") {
            let values: Vec<_> = values.iter().map(|value| value.as_ref().to_owned()).collect();
            return Err(FieldError::not_supported("dryRun", values, &["All"]));
        }
        Ok(if values.is_empty() { DryRun::No } else { DryRun::All })
    }
}

/// What is wrong with the name of a field manager.
pub fn validate_field_manager(manager: &str, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MAX_FIELD_MANAGER {
        errors.push(FieldError::too_long(path, MAX_FIELD_MANAGER as u64));
    }
    for (at, character) in manager.char_indices().filter(|(_, character)| !go_text::is_print(*character)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        errors.push(FieldError::invalid(path, manager, detail));
    }
    errors
}

/// The field manager of a request: the one it names, or the first word of its user agent.
pub fn field_manager(named: &str, user_agent: &str) -> String {
    if !named.is_empty() {
        return named.to_owned();
    }
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for character in product.chars().filter(|character| go_text::is_print(*character)) {
        if manager.len() + character.len_utf8() > MAX_FIELD_MANAGER {
            break;
        }
        manager.push(character);
    }
    manager
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_managers_are_short_and_printable() {
        assert_eq!(validate_field_manager("my controller é", "fieldManager"), []);
        assert_eq!(validate_field_manager("", "fieldManager"), []);
        let messages = |manager: &str| {
            let errors = validate_field_manager(manager, "fieldManager");
            errors.iter().map(FieldError::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            messages("é\u{200b}"),
            ["fieldManager: Invalid value: \"é\\u200b\": invalid character U+200B (at position 2)"]
        );
        assert_eq!(messages(&"a".repeat(129)), ["fieldManager: Too long: may not be more than 128 bytes"]);
    }

    #[test]
    fn a_request_without_a_manager_is_from_its_user_agent() {
        assert_eq!(field_manager("me", "curl/8"), "me");
        assert_eq!(field_manager("", "kubectl/v1.34.4 (linux/amd64)"), "kubectl");
        assert_eq!(field_manager("", "a\u{7}b\u{200b}c"), "abc");
        assert_eq!(field_manager("", &"é".repeat(100)).len(), 128);
        assert_eq!(field_manager("", ""), "");
    }

    #[test]
    fn other_options_have_few_values() {
        assert_eq!(FieldValidation::parse(""), Ok(FieldValidation::Warn));
        assert_eq!(FieldValidation::parse("Strict"), Ok(FieldValidation::Strict));
        assert_eq!(
            FieldValidation::parse("strict").unwrap_err().to_string(),
            "fieldValidation: Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        );
        assert_eq!(DryRun::parse::<&str>(&[]), Ok(DryRun::No));
        assert_eq!(DryRun::parse(&["All"]), Ok(DryRun::All));
        assert_eq!(
            DryRun::parse(&["All", "x"]).unwrap_err().to_string(),
            "dryRun: Unsupported value: [\"All\",\"x\"]: supported values: \"All\""
        );
    }
}
