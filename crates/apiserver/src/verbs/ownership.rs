//! Who owns which fields of an object.

use std::borrow::Cow;
use std::sync::LazyLock;

use apimachinery::apply::{self, FieldSet, Force, Versions, Write};
use apimachinery::{Status, options};
use apischema::Schema;
use serde_json::Value;

use super::metadata::time;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::registry::Resource;

impl Endpoint {
    /// Notes in a changed object that whoever made the change owns what changed.
    pub(crate) fn own_fields(
        &self,
        context: &Context,
        old: Option<&Value>,
        object: &mut Value,
        options: &WriteOptions,
    ) {
        self.with_write(context, options, |schema, write| apply::track_update(old, object, schema, write));
    }

    /// What becomes of an object, or of nothing, when a configuration is applied.
    pub(super) fn apply(
        &self,
        context: &Context,
        old: Option<&Value>,
        configuration: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let force = if options.force == Some(true) { Force::Yes } else { Force::No };
        let kind = &self.resource.kind;
        let applied = self.with_write(context, options, |schema, write| {
            apply::apply(old, configuration, schema, kind, write, force)
        });
        Ok(applied?)
    }

    fn with_write<T>(
        &self,
        context: &Context,
        options: &WriteOptions,
        then: impl FnOnce(&Schema, &Write<'_>) -> T,
    ) -> T {
        let (strategy, version) = (&self.resource.strategy, self.version());
        let manager = options::field_manager(&options.field_manager, &context.user_agent);
        let api_version = self.api_version();
        let now = time(context.now);
        let versions = OtherVersions(&self.resource);
        let write = Write {
            manager: &manager,
            api_version: &api_version,
            subresource: &self.subresource,
            now: &now,
            reset_fields: strategy.reset_fields(&self.subresource),
            versions: (self.resource.versions.len() > 1).then_some(&versions),
            empty: strategy.empty(),
        };
        then(version.schema.as_deref().unwrap_or(&ANYTHING), &write)
    }
}

/// What objects of kinds without a schema look like.
static ANYTHING: LazyLock<Schema> =
    LazyLock::new(|| Schema { preserve_unknown_fields: true, ..Schema::default() });

/// All versions of a resource.
struct OtherVersions<'a>(&'a Resource);

impl Versions for OtherVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        let version =
            self.0.versions.iter().find(|version| self.0.api_version(&version.name) == api_version)?;
        version.schema.as_deref()
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        self.schema(api_version)?;
        let mut converted = object.clone();
        self.0.strategy.convert(&mut converted, api_version).ok()?;
        Some(Cow::Owned(converted))
    }
}

/// `status`, which a write of the object itself does not touch.
pub fn status_field() -> &'static FieldSet<'static> {
    static STATUS: LazyLock<FieldSet<'static>> =
        LazyLock::new(|| FieldSet::of([apply::Path::of_fields(&["status"])]));
    &STATUS
}

/// `spec`, which a write of the status does not touch.
pub fn spec_field() -> &'static FieldSet<'static> {
    static SPEC: LazyLock<FieldSet<'static>> =
        LazyLock::new(|| FieldSet::of([apply::Path::of_fields(&["spec"])]));
    &SPEC
}
