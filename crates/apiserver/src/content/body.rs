//! What a client sends.

use std::fmt::Display;

use apimachinery::fieldvalidation::{self, Decoded};
use apimachinery::protobuf::{self, ProtobufError, TypeMeta};
use apimachinery::{GroupVersion, Status, meta};
use apischema::Schema;
use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use serde_json::Value;

use crate::verbs::{PatchType, Submitted, missing_kind};

/// The largest body that is read, as in Kubernetes.
pub const MOST_BYTES: usize = 3 << 20;

/// Reads a body, unless it is too large.
pub async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: Body + Unpin,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    let too_large = || Status::request_entity_too_large(format_args!("limit is {MOST_BYTES}"));
    let mut body = body;
    // What the client says is enough to refuse it; what it sends is counted nevertheless.
    if body.size_hint().lower() > MOST_BYTES as u64 {
        discard(&mut body).await;
        return Err(too_large());
    }
    let mut read = BytesMut::new();
    let mut whole: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Status::bad_request(format!("the body cannot be read: {error}")))?;
        let Ok(mut data) = frame.into_data() else { continue };
        if read.len() + whole.as_ref().map_or(0, Bytes::len) + data.remaining() > MOST_BYTES {
            discard(&mut body).await;
            return Err(too_large());
        }
        // Most bodies are one frame, and are not copied.
        let data = data.copy_to_bytes(data.remaining());
        match whole.take() {
            None if read.is_empty() => whole = Some(data),
            None => read.extend_from_slice(&data),
            Some(first) => {
                read.extend_from_slice(&first);
                read.extend_from_slice(&data);
            }
        }
    }
    Ok(whole.unwrap_or_else(|| read.freeze()))
}

/// Reads on, within bounds: a client that is still sending when the connection closes never sees why.
async fn discard<B: Body + Unpin>(body: &mut B) {
    let mut left = 4 * MOST_BYTES;
    while left > 0
        && let Some(Ok(frame)) = body.frame().await
    {
        left = left.saturating_sub(frame.data_ref().map_or(0, bytes::Buf::remaining));
    }
}

/// The media type of a body, without parameters; empty if there is none.
fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How a body is written.
enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

fn body_format(headers: &HeaderMap) -> Result<BodyFormat, Status> {
    match media_type(headers) {
        "" | JSON => Ok(BodyFormat::Json),
        YAML => Ok(BodyFormat::Yaml),
        PROTOBUF => Ok(BodyFormat::Protobuf),
        _ => Err(Status::unsupported_media_type(&[JSON, YAML, PROTOBUF])),
    }
}

/// Reads an object from a body. `kind` is what it should be, for the error; fields that the schema does not have are left out.
/// Objects of Kubernetes' own kinds may be written as protobuf.
pub fn read_object(
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
    schema: Option<&Schema>,
) -> Result<Submitted, Status> {
    let format = body_format(headers)?;
    if matches!(format, BodyFormat::Protobuf) {
        return protobuf::decode(body).map(Submitted::from).map_err(|error| no_protobuf(&error, body, kind));
    }
    decode(&format, body, schema).map_err(|error| unrecognized(&error, body, kind))
}

/// The same of a custom resource, which says what it is.
pub fn read_custom(headers: &HeaderMap, body: &[u8], kind: &str) -> Result<Submitted, Status> {
    let submitted = read_object(headers, body, kind, None)?;
    if meta::kind(&submitted.object).is_empty() {
        let why = missing_kind(&String::from_utf8_lossy(body));
        return Err(unrecognized(&why, body, kind));
    }
    Ok(submitted)
}

/// Reads the options of a deletion from a body; absent if that is empty.
pub fn read_delete_options(headers: &HeaderMap, body: &[u8]) -> Result<Option<Value>, Status> {
    if body.is_empty() {
        return Ok(None);
    }
    let format = body_format(headers)?;
    if matches!(format, BodyFormat::Protobuf) {
        return read_object(headers, body, "DeleteOptions", None).map(|submitted| Some(submitted.object));
    }
    match decode(&format, body, None) {
        Ok(submitted) => Ok(Some(submitted.object)),
        Err(error) => Err(Status::unexpected(error)),
    }
}

fn decode(format: &BodyFormat, body: &[u8], schema: Option<&Schema>) -> Result<Submitted, String> {
    let json_error = |error: String| format!("couldn't get version/kind; json parse error: {error}");
    let Decoded { value, strict_errors } = match (format, schema) {
        (BodyFormat::Yaml, _) => fieldvalidation::decode_yaml(body)?,
        (_, Some(schema)) => fieldvalidation::decode_json_as(body, schema).map_err(json_error)?,
        (_, None) => fieldvalidation::decode_json(body).map_err(json_error)?,
    };
    if let Some(error) = type_meta_error(&value) {
        return Err(json_error(error));
    }
    GroupVersion::parse(meta::api_version(&value)).map_err(|error| error.to_string())?;
    Ok(Submitted { object: value, strict_errors })
}

/// Why the type of an object cannot be read, as Go says it. Nothing at all is read as an object without a type.
fn type_meta_error(value: &Value) -> Option<String> {
    let go_kind = |value: &Value| match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => "null",
    };
    let Value::Object(fields) = value else {
        return (!value.is_null()).then(|| {
            format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                go_kind(value)
            )
        });
    };
    ["apiVersion", "kind"].into_iter().find_map(|name| {
        let value = fields.get(name).filter(|value| !value.is_string() && !value.is_null())?;
        Some(format!("json: cannot unmarshal {} into Go struct field .{name} of type string", go_kind(value)))
    })
}

fn unrecognized(error: &dyn Display, body: &[u8], kind: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {error} ({})",
        summary(body)
    ))
}

/// As kube-apiserver refuses a body. Of custom resources in protobuf it knows nothing: it drops the connection.
fn no_protobuf(error: &ProtobufError, body: &[u8], kind: &str) -> Status {
    let Some(TypeMeta { api_version, kind: given }) = error.type_meta() else {
        return unrecognized(error, body, kind);
    };
    let GroupVersion { group, version } = GroupVersion::parse(api_version).unwrap_or_default();
    let is_custom = !apischema::core::kinds().iter().any(|known| known.group == group);
    if is_custom && given == kind {
        return Status::unsupported_media_type(&[JSON, YAML]);
    }
    Status::bad_request(format!("{given} in version {version:?} cannot be handled as a {kind}: {error}"))
}

/// How the patch in a body is written.
pub fn read_patch_type(headers: &HeaderMap, supported: &[&str]) -> Result<PatchType, Status> {
    let media_type = media_type(headers);
    PatchType::of_media_type(media_type)
        .filter(|_| supported.contains(&media_type))
        .ok_or_else(|| Status::unsupported_media_type(supported))
}

const SUMMARY: usize = 30;

fn summary(body: &[u8]) -> String {
    let shown = &body[..body.len().min(SUMMARY)];
    let more = if body.len() > SUMMARY { " ..." } else { "" };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    #[tokio::test]
    async fn bodies_up_to_the_limit_are_read() {
        assert_eq!(read_body(Full::new(Bytes::from_static(b"{}"))).await.unwrap(), "{}");
        let large = Bytes::from(vec![b' '; MOST_BYTES + 1]);
        assert_eq!(read_body(Full::new(large)).await.unwrap_err().code, 413);
    }

    #[test]
    fn what_is_no_object_is_shown_in_the_error() {
        let error = read_object(&HeaderMap::new(), b"nonsense", "Pod", None).unwrap_err();
        assert!(error.message.ends_with("(6e6f6e73656e7365)"), "{}", error.message);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
        assert_eq!(read_object(&headers, b"", "Pod", None).unwrap_err().code, 415);
        headers.insert(CONTENT_TYPE, "application/yaml; charset=utf-8".parse().unwrap());
        assert_eq!(read_object(&headers, b"a: 1", "Pod", None).unwrap().object, serde_json::json!({"a": 1}));
    }

    #[test]
    fn objects_of_kubernetes_own_kinds_may_be_protobuf() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, PROTOBUF.parse().unwrap());
        let read = |body: &[u8], kind| read_object(&headers, body, kind, None);
        let chart = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x09\x0a\x07\x0a\x05chart";
        let expected =
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "chart"}});
        assert_eq!(read(chart, "ConfigMap").unwrap().object, expected);

        let refused = |body: &[u8], kind| {
            let status = read(body, kind).unwrap_err();
            (status.code, status.message)
        };
        let message =
            "the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)";
        assert_eq!(refused(b"k8s\0", "ConfigMap"), (400, message.into()));
        let cut = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x01\x0a";
        let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF";
        assert_eq!(refused(cut, "ConfigMap"), (400, message.into()));
        // Custom resources are not.
        let ship = b"k8s\0\x0a\x16\x0a\x0eexample.com/v1\x12\x04Ship\x12\0";
        assert_eq!(refused(ship, "Ship").0, 415);
        assert_eq!(refused(ship, "ConfigMap").0, 400);
    }
}
