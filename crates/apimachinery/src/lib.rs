//! What every Kubernetes API does with objects, whatever their kind: selectors, patches, server-side apply, the rules of
//! metadata, and the Status that answers a request gone wrong.
//!
//! Pure: no IO, no clock, no randomness; whoever calls says what time it is.
