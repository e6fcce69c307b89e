//! The words of Kubernetes' extensions to OpenAPI.

pub(crate) const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
pub(crate) const EMBEDDED_RESOURCE: &str = "x-kubernetes-embedded-resource";
pub(crate) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub(crate) const LIST_TYPE: &str = "x-kubernetes-list-type";
pub(crate) const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
pub(crate) const MAP_TYPE: &str = "x-kubernetes-map-type";
pub(crate) const PATCH_STRATEGY: &str = "x-kubernetes-patch-strategy";
pub(crate) const PATCH_MERGE_KEY: &str = "x-kubernetes-patch-merge-key";
pub(crate) const VALIDATIONS: &str = "x-kubernetes-validations";
