//! What the server adds to objects of core kinds, and asks of them, where that takes more than the object.
//!
//! [`ServiceAddresses`](super::ServiceAddresses) is of these too, and lives with the services.

mod certificate_signers;
mod pod_priority;
mod tolerations;

pub use certificate_signers::CertificateSigners;
pub use pod_priority::PodPriority;
pub use tolerations::DefaultTolerations;

use apiserver::admission::Attributes;

/// Whether a write is to objects of a resource, and not to something that they have besides.
fn is_of(attributes: &Attributes<'_>, group: &str, plural: &str) -> bool {
    let endpoint = attributes.endpoint;
    endpoint.subresource.is_empty() && endpoint.resource.plural == plural && endpoint.resource.group == group
}

#[cfg(test)]
mod tests;
