//! Groups of the Kubernetes community take only definitions that say that they are approved, or that they are not.

use apischema::FieldError;

use crate::crd::definition::Definition;

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(PartialEq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

pub(super) fn errors(definition: &Definition, old: Option<&Definition>) -> Option<FieldError> {
    let group = &definition.spec.group;
    let protected =
        |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !protected("k8s.io") && !protected("kubernetes.io") {
        return None;
    }
    let annotation = annotation(definition);
    let approval = approval(annotation);
    // Whoever does not touch it is not asked about it.
    if old.is_some_and(|old| self::approval(self::annotation(old)) == approval) {
        return None;
    }
    let path = format!("metadata.annotations[{ANNOTATION}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Bypassed | Approval::Approved => None,
        Approval::Missing => {
            let detail = format!("protected groups must have approval annotation {ANNOTATION:?}, {see}");
            Some(FieldError::required(path, detail))
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            );
            Some(FieldError::invalid(path, annotation, detail))
        }
    }
}

fn annotation(definition: &Definition) -> &str {
    definition.metadata.annotations.get(ANNOTATION).map(String::as_str).unwrap_or_default()
}

fn approval(annotation: &str) -> Approval {
    let is_url = || {
        let url = annotation.parse::<http::Uri>().ok();
        url.is_some_and(|url| url.scheme().is_some() && url.host().is_some_and(|host| !host.is_empty()))
    };
    match annotation {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        _ if is_url() => Approval::Approved,
        _ => Approval::Invalid,
    }
}
