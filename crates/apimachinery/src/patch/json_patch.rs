//! JSON patch (RFC 6902), with the habits of the library that kube-apiserver uses: `replace` adds what is missing, an index may
//! count from the end, a test for `null` holds for what is not there, and a document is not replaced by a plain value.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, PatchError};
use crate::fieldvalidation;

/// The most operations that one patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that all `copy` operations of one patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// A JSON patch that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
}

/// Applies the bytes of a JSON patch to an object.
pub fn json(document: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    JsonPatch::parse(patch)?.apply(document.clone())
}

impl JsonPatch {
    /// Reads the bytes of a patch.
    pub fn parse(patch: &[u8]) -> Result<Self, PatchError> {
        let value: Value = serde_json::from_slice(patch)
            .map_err(|_| PatchError::Malformed(fieldvalidation::syntax_error(patch)))?;
        Self::from_value(value)
    }

    /// Takes a patch from a value.
    pub fn from_value(patch: Value) -> Result<Self, PatchError> {
        let items = match patch {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(mismatch(&other, "jsonpatch.Patch")),
        };
        if items.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            )));
        }
        let operations = items.into_iter().map(|item| match item {
            Value::Object(operation) => Ok(operation),
            Value::Null => Ok(Map::new()),
            other => Err(mismatch(&other, "jsonpatch.Operation")),
        });
        Ok(JsonPatch { operations: operations.collect::<Result<_, _>>()? })
    }

    /// Applies it to a document, which is lost if that fails.
    pub fn apply(self, mut document: Value) -> Result<Value, PatchError> {
        let mut copied = 0;
        for operation in self.operations {
            let outcome = apply(&mut document, operation, &mut copied);
            outcome.map_err(PatchError::Inapplicable)?;
        }
        if exceeds(&document, MAX_DEPTH) {
            return Err(PatchError::Inapplicable(format!("the result nests deeper than {MAX_DEPTH}")));
        }
        Ok(document)
    }
}

fn mismatch(value: &Value, wanted: &str) -> PatchError {
    PatchError::Malformed(super::body::mismatch(value, &format!("Go value of type {wanted}")))
}

fn apply(document: &mut Value, mut operation: Map<String, Value>, copied: &mut usize) -> Result<(), String> {
    let value = operation.remove("value");
    let text = |field: &str| operation.get(field).and_then(Value::as_str);
    let path = || text("path").ok_or_else(|| "operation missing path field: missing value".to_owned());
    let from = || text("from").ok_or_else(|| "operation, missing from field: missing value".to_owned());
    match text("op").unwrap_or("unknown") {
        "add" => add(document, path()?, value.unwrap_or_default()),
        "remove" => remove(document, path()?).map(|_| ()),
        "replace" => replace(document, path()?, value.unwrap_or_default()),
        "test" => test(document, path()?, &value.unwrap_or_default()),
        "move" => {
            let (from, path) = (from()?, path()?);
            let moved = remove(document, from)?;
            add(document, path, moved)
        }
        "copy" => {
            let (from, path) = (from()?, path()?);
            let found = Target::find(document, from)?.get()?.cloned().unwrap_or_default();
            *copied += size(&found);
            if *copied > MAX_COPIED {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the \
                     limit {MAX_COPIED}"
                ));
            }
            add(document, path, found)
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match Target::find(document, path)? {
        Target::Field(fields, name) => {
            fields.insert(name, value);
        }
        Target::Element(items, token) if token == "-" => items.push(value),
        Target::Element(items, token) => {
            // An index may be one past the last element, and counts from there if it counts from the end.
            let at = index(&token, items.len() + 1)?;
            items.insert(at, value);
        }
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    match Target::find(document, path)? {
        Target::Field(fields, name) => fields
            .remove(&name)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {name}: missing value")),
        Target::Element(items, token) => {
            let at = index(&token, items.len())?;
            Ok(items.remove(at))
        }
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        // What no document can be changes nothing.
        if value.is_object() || value.is_array() {
            *document = value;
        }
        return Ok(());
    }
    match Target::find(document, path)? {
        Target::Field(fields, name) => {
            fields.insert(name, value);
        }
        Target::Element(items, token) => {
            let at = index(&token, items.len())?;
            items[at] = value;
        }
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, expected: &Value) -> Result<(), String> {
    let equal = if path.is_empty() {
        &*document == expected
    } else {
        Target::find(document, path)?.get()?.unwrap_or(&Value::Null) == expected
    };
    if equal { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
}

/// A place in a document, by what contains it.
enum Target<'a> {
    Field(&'a mut Map<String, Value>, String),
    Element(&'a mut Vec<Value>, String),
}

impl<'a> Target<'a> {
    fn find(document: &'a mut Value, path: &str) -> Result<Self, String> {
        let missing = || format!("doc is missing path: {path}: missing value");
        let mut tokens = path.split('/');
        // What stands before the first slash does not count.
        tokens.next();
        let mut token = decode(tokens.next().ok_or_else(missing)?);
        let mut place = document;
        for next in tokens {
            place = match place {
                Value::Object(fields) => fields.get_mut(&token).ok_or_else(missing)?,
                Value::Array(items) => {
                    let at = index(&token, items.len())?;
                    &mut items[at]
                }
                _ => return Err(missing()),
            };
            token = decode(next);
        }
        match place {
            Value::Object(fields) => Ok(Target::Field(fields, token)),
            Value::Array(items) => Ok(Target::Element(items, token)),
            _ => Err(missing()),
        }
    }

    /// What is there; nothing if it is a field that is absent.
    fn get(self) -> Result<Option<&'a Value>, String> {
        match self {
            Target::Field(fields, name) => Ok(fields.get(&name)),
            Target::Element(items, token) => {
                let at = index(&token, items.len())?;
                Ok(Some(&items[at]))
            }
        }
    }
}

/// The escapes of JSON pointers (RFC 6901).
fn decode(token: &str) -> String {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~") } else { token.to_owned() }
}

/// The index that a token names among so many elements. A negative one counts from the end.
fn index(token: &str, length: usize) -> Result<usize, String> {
    let number: i64 = token.parse().map_err(|_| format!("value was not a proper array index: '{token}'"))?;
    let at = if number < 0 { number + i64::try_from(length).unwrap_or(i64::MAX) } else { number };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < length)
        .ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

/// The bytes that a value takes when it is written.
fn size(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(truth) => 5 - usize::from(*truth),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 1 + items.iter().map(|item| size(item) + 1).sum::<usize>().max(1),
        Value::Object(fields) => {
            1 + fields.iter().map(|(name, field)| name.len() + size(field) + 4).sum::<usize>().max(1)
        }
    }
}

fn exceeds(value: &Value, depth: usize) -> bool {
    let within = |value: &Value| value.is_array() || value.is_object();
    match value {
        Value::Array(items) => {
            depth == 0 || items.iter().any(|item| within(item) && exceeds(item, depth - 1))
        }
        Value::Object(fields) => {
            depth == 0 || fields.values().any(|field| within(field) && exceeds(field, depth - 1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
