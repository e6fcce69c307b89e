//! Names of Kubernetes objects and of Linux interfaces.

use crate::field_error::{FieldErrors, FieldPath, Problem, Reason};

/// Longest name of a Kubernetes object.
pub const MAX_OBJECT_NAME: usize = 253;
/// Longest name of a namespace.
pub const MAX_NAMESPACE: usize = 63;
/// Longest name of a Linux interface.
pub const MAX_INTERFACE: usize = 15;

/// True for a DNS-1123 label: what a namespace is called.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_NAMESPACE && is_label_of_any_length(text)
}

/// True for a DNS-1123 subdomain: what most objects are called.
pub fn is_dns_subdomain(text: &str) -> bool {
    // Kubernetes bounds the whole, not the single label.
    text.len() <= MAX_OBJECT_NAME && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    match text.as_bytes() {
        [] => false,
        [only] => inner(*only),
        [first, middle @ .., last] => {
            inner(*first) && inner(*last) && middle.iter().all(|&b| inner(b) || b == b'-')
        }
    }
}

/// Checks the name of an object that another one refers to.
pub fn check_object_name(text: &str) -> Result<(), Problem> {
    if is_dns_subdomain(text) {
        Ok(())
    } else {
        Err(Problem::invalid(
            "cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'",
        ))
    }
}

/// Checks the name of a namespace.
pub fn check_namespace(text: &str) -> Result<(), Problem> {
    if is_dns_label(text) {
        Ok(())
    } else {
        Err(Problem::invalid(
            "cannot be the name of a namespace; names have up to 63 lower-case letters, digits and '-'",
        ))
    }
}

/// Checks the name that a pod's interface is to have.
pub fn check_interface(text: &str) -> Result<(), Problem> {
    let allowed = |b: u8| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'%' | b'"' | b'\'' | b'\\');
    if text.is_empty()
        || text.len() > MAX_INTERFACE
        || !text.bytes().all(allowed)
        || matches!(text, "." | "..")
    {
        return Err(Problem::invalid(
            "cannot be the name of an interface; use 1 to 15 letters, digits, '-', '_' and '.'",
        ));
    }
    // `all` and `default` are directories beside the interfaces in /proc/sys/net.
    if matches!(text, "lo" | "all" | "default") {
        return Err(Problem::invalid("is a name that Linux keeps for itself; choose another, such as net1"));
    }
    Ok(())
}

/// Checks a list of namespaces, each of which may be named once.
pub(crate) fn check_namespaces(names: &[String], path: &FieldPath<'_>, errors: &mut FieldErrors) {
    for (i, name) in names.iter().enumerate() {
        if let Err(problem) = check_namespace(name) {
            errors.add_problem(&path.index(i), name, &problem);
        } else if names[..i].contains(name) {
            errors.add(&path.index(i), name, Reason::Duplicate, "is listed twice; remove one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_follow_kubernetes() {
        for good in ["a", "a-b", "a.b", "0", &"a".repeat(253)] {
            assert!(is_dns_subdomain(good), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", ".a", "a_b", "a/b", "ä", &"a".repeat(254)] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
        assert!(is_dns_label(&"a".repeat(63)) && !is_dns_label(&"a".repeat(64)) && !is_dns_label("a.b"));
    }

    #[test]
    fn interface_names_follow_linux() {
        for good in ["eth0", "net1", "a.b", "abcdefghijklmno"] {
            assert!(check_interface(good).is_ok(), "{good}");
        }
        for bad in ["", "abcdefghijklmnop", "a/b", "a b", "a:b", ".", "..", "lo", "all", "a%d", "é"] {
            assert!(check_interface(bad).is_err(), "{bad}");
        }
    }
}
