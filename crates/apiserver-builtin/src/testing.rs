//! What the tests of this module share.

use std::sync::LazyLock;

use apischema::FieldError;
use jiff::Timestamp;
use serde_json::Value;

use apiserver::authn::UserInfo;
use apiserver::registry::{Action, Resource};

static USER: LazyLock<UserInfo> = LazyLock::new(|| UserInfo::new("tester", ["testers".into()]));

/// An action of somebody, at no particular time.
pub(super) fn action(subresource: &str) -> Action<'_> {
    Action { user: &USER, subresource, now: Timestamp::UNIX_EPOCH }
}

/// Errors as clients read them.
pub(super) fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What is wrong with a new object.
pub(super) fn create(resource: &Resource, object: &Value) -> Vec<String> {
    texts(&resource.strategy.validate(object, action("")))
}

/// What is wrong with a changed object.
pub(super) fn update(resource: &Resource, object: &Value, old: &Value) -> Vec<String> {
    texts(&resource.strategy.validate_update(object, old, action("")))
}

/// An object as it is stored when it is new.
pub(super) fn prepared(resource: &Resource, object: Value) -> Value {
    let mut object = object;
    resource.strategy.set_defaults(&mut object);
    resource.strategy.prepare_for_create(&mut object, action(""));
    object
}

/// An object as it is stored when it replaces another.
pub(super) fn prepared_update(resource: &Resource, object: Value, old: &Value) -> Value {
    let mut object = object;
    resource.strategy.set_defaults(&mut object);
    resource.strategy.prepare_for_update(&mut object, old, action(""));
    object
}

/// What `kubectl get` shows at a time.
pub(super) fn cells(resource: &Resource, object: &Value, now: &str) -> Vec<Value> {
    let columns = &resource.versions[0].columns;
    let cells = columns.cells(object, now.parse().unwrap());
    assert_eq!(cells.len(), columns.columns.len(), "each column has its cell");
    cells
}
