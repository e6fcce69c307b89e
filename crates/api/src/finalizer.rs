//! The finalizer of objects that others use.

/// A VPC or Subnet with this finalizer stays, when it is deleted, until nothing uses it any more. The controller adds and
/// removes it.
pub const IN_USE: &str = "portolan.dev/in-use";
