//! The rules for names, and names that the server makes up.

use crate::format;

/// What a name of a kind must look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Most kinds.
    #[default]
    Dns1123Subdomain,
    /// Namespaces.
    Dns1123Label,
    /// Services.
    Dns1035Label,
    /// Whatever fits into a URL: roles and their bindings.
    PathSegment,
}

impl NameRule {
    /// What is wrong with a name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            NameRule::Dns1123Subdomain => format::dns1123_subdomain(name),
            NameRule::Dns1123Label => format::dns1123_label(name),
            NameRule::Dns1035Label => format::dns1035_label(name),
            NameRule::PathSegment => format::path_segment(name),
        }
    }

    /// What is wrong with a text that a name starts with. It may end with a dash.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        if self == NameRule::PathSegment {
            return format::path_segment_prefix(prefix);
        }
        match prefix.strip_suffix('-') {
            // Kubernetes drops the byte before the dash too, so what stands there is not checked if it is one character.
            Some(start) if !start.is_empty() => {
                let kept = start.len() - usize::from(start.ends_with(|last: char| last.is_ascii()));
                self.check(&format!("{}a", &start[..kept]))
            }
            _ => self.check(prefix),
        }
    }
}

/// A name from `metadata.generateName` and a random suffix of five characters that the caller made. A long base is cut so that
/// the name fits a DNS label.
pub fn generate_name(base: &str, suffix: &str) -> String {
    const MAX_BASE: usize = format::MAX_LABEL - 5;
    let base = &base[..base.floor_char_boundary(MAX_BASE)];
    format!("{base}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        for rule in [
            NameRule::Dns1123Subdomain,
            NameRule::Dns1123Label,
            NameRule::Dns1035Label,
            NameRule::PathSegment,
        ] {
            assert_eq!(rule.check_prefix("web-"), Vec::<String>::new());
            assert_eq!(rule.check_prefix("web"), Vec::<String>::new());
        }
        assert!(!NameRule::Dns1123Label.check("web-").is_empty());
        assert!(!NameRule::Dns1123Label.check_prefix("-").is_empty());
        assert!(NameRule::Dns1123Subdomain.check_prefix("web.-").is_empty(), "as Kubernetes has it");
        assert!(!NameRule::Dns1123Subdomain.check_prefix("Web-").is_empty());
        assert_eq!(NameRule::PathSegment.check("."), ["may not be '.'"]);
        assert!(NameRule::PathSegment.check_prefix(".").is_empty());
        assert!(!NameRule::Dns1123Subdomain.check_prefix("é-").is_empty());
    }

    #[test]
    fn generated_names_fit_a_dns_label() {
        assert_eq!(generate_name("web-", "x2b4c"), "web-x2b4c");
        let long = generate_name(&"a".repeat(100), "x2b4c");
        assert_eq!(long.len(), 63);
        assert!(long.ends_with("ax2b4c"));
        assert_eq!(generate_name(&"é".repeat(40), "x2b4c").len(), 63, "58 bytes end between characters");
        assert_eq!(generate_name(&format!("a{}", "é".repeat(40)), "x2b4c").len(), 62);
    }
}
