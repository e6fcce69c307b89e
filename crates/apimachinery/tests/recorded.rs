//! What Kubernetes' own libraries made of the same inputs. `recorder/` made the files, `recorded/` holds them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
#![allow(clippy::needless_pass_by_value, reason = "what is compared is not needed any more")]

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::LazyLock;

use apimachinery::apply::{self, FieldSet, Force, Path, PathElement, Versions, Write};
use apimachinery::fieldvalidation::{self, StrictError};
use apimachinery::group::GroupVersion;
use apimachinery::jsonpath::JsonPath;
use apimachinery::meta::{self, NameRule, Scope};
use apimachinery::normal_form::NormalForm;
use apimachinery::selector::{FieldSelector, LabelSelector};
use apimachinery::status::Status;
use apimachinery::{format, patch};
use apischema::Schema;
use serde_json::{Value, json};

fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/recorded/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() > 10, "{path} has next to nothing");
    cases
}

/// Runs every case and tells of all that differ, not of the first alone.
fn replay(name: &str, run: impl Fn(&Value) -> Result<(), String>) {
    let cases = cases(name);
    let failures: Vec<_> =
        cases.iter().filter_map(|case| run(case).err().map(|why| format!("{why}\n  in {case}"))).collect();
    let shown: Vec<_> = failures.iter().take(5).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), shown.join("\n"));
}

fn same<T: PartialEq + Debug>(ours: T, theirs: T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("ours:   {ours:?}\ntheirs: {theirs:?}")) }
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_default()
}

fn texts(case: &Value, field: &str) -> Vec<String> {
    let list = case[field].as_array().into_iter().flatten();
    list.map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// What was recorded of something that succeeds with a text or fails with one.
fn outcome(case: &Value, success: &str) -> Result<String, String> {
    if text(case, "error").is_empty() {
        Ok(text(case, success).to_owned())
    } else {
        Err(text(case, "error").to_owned())
    }
}

#[test]
fn label_selectors_are_read_as_kubernetes_reads_them() {
    replay("label_selectors", |case| {
        let ours = LabelSelector::parse(text(case, "text"));
        same(ours.map(|it| it.to_string()).map_err(|it| it.to_string()), outcome(case, "written"))
    });
}

#[test]
fn field_selectors_are_read_as_kubernetes_reads_them() {
    replay("field_selectors", |case| {
        let ours = FieldSelector::parse(text(case, "text"));
        same(ours.map(|it| it.to_string()).map_err(|it| it.to_string()), outcome(case, "written"))
    });
}

#[test]
fn names_are_judged_as_kubernetes_judges_them() {
    replay("names", |case| {
        let name = text(case, "text");
        same(format::dns1123_label(name), texts(case, "label"))?;
        same(format::dns1123_subdomain(name), texts(case, "subdomain"))?;
        same(format::dns1035_label(name), texts(case, "dns1035"))?;
        same(format::qualified_name(name), texts(case, "qualified"))?;
        same(format::label_value(name), texts(case, "value"))?;
        same(format::path_segment(name), texts(case, "segment"))?;
        same(NameRule::Dns1123Subdomain.check_prefix(name), texts(case, "prefix"))
    });
}

#[test]
fn metadata_is_judged_as_kubernetes_judges_it() {
    replay("metadata", |case| {
        let new = json!({"metadata": case["new"]});
        let errors = match case.get("old") {
            Some(old) => meta::validate_update(&new, &json!({"metadata": old})),
            None => meta::validate_create(&new, Scope::Namespaced, NameRule::Dns1123Subdomain),
        };
        // Kubernetes looks at labels and annotations in no order.
        let mut ours: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let mut theirs = texts(case, "errors");
        ours.sort();
        theirs.sort();
        same(ours, theirs)
    });
}

#[test]
fn json_is_read_as_kubernetes_reads_it() {
    replay("json_syntax", |case| {
        let ours = fieldvalidation::decode_json(text(case, "text").as_bytes());
        let told = |errors: Vec<StrictError>| errors.iter().map(ToString::to_string).collect();
        let theirs = match text(case, "error") {
            "" => Ok((case["value"].clone(), texts(case, "strict"))),
            error => Err(error.to_owned()),
        };
        same(ours.map(|it| (it.value, told(it.strict_errors))), theirs)
    });
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    replay("yaml", |case| {
        let ours = fieldvalidation::decode_yaml(text(case, "text").as_bytes());
        let Ok(ours) = ours else { return same(true, !text(case, "error").is_empty()) };
        same(String::new(), text(case, "error").to_owned())?;
        same(ours.value, case["value"].clone())?;
        same(ours.strict_errors.iter().map(ToString::to_string).collect(), texts(case, "strict"))
    });
}

#[test]
fn json_paths_lead_where_kubernetes_is_led() {
    replay("json_paths", |case| {
        let value = &case["value"];
        let found = JsonPath::parse(text(case, "path")).and_then(|path| {
            path.find(value).map(|found| found.into_iter().map(Cow::into_owned).collect::<Vec<_>>())
        });
        same(found.is_err(), case["fails"] == true)?;
        let mut ours = found.unwrap_or_default();
        let mut theirs = case["found"].as_array().unwrap().clone();
        // A wildcard has no order for Kubernetes.
        ours.sort_by_key(ToString::to_string);
        theirs.sort_by_key(ToString::to_string);
        same(ours, theirs)
    });
}

#[test]
fn json_patches_do_what_they_do_to_kubernetes() {
    replay("json_patches", |case| {
        // What its library cannot stand has no outcome to compare with.
        if text(case, "error") == "panic" {
            return Ok(());
        }
        let ours = patch::json(&case["document"], case["patch"].to_string().as_bytes());
        same(ours.ok(), case.get("result").cloned())
    });
}

#[test]
fn merge_patches_do_what_they_do_to_kubernetes() {
    replay("merge_patches", |case| {
        same(patch::merge(&case["document"], case["patch"].clone()).ok(), case.get("result").cloned())
    });
}

#[test]
fn strategic_patches_do_what_they_do_to_kubernetes() {
    replay("strategic_patches", |case| {
        let group = if text(case, "kind") == "Deployment" { "apps" } else { "" };
        let schema = apischema::core::schema(group, "v1", text(case, "kind")).unwrap();
        let ours = patch::strategic(&case["document"], case["patch"].clone(), &schema);
        let theirs = match text(case, "error") {
            "" => Ok(case["result"].clone()),
            error => Err(error.to_owned()),
        };
        same(ours.map_err(|error| error.to_string()), theirs)
    });
}

/// Versions that differ in nothing but their name.
struct Relabelled<'a>(&'a Schema);

impl Versions for Relabelled<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        matches!(api_version, "example.com/v1" | "example.com/v2").then_some(self.0)
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Some(Cow::Owned(object))
    }
}

static CUSTOM: LazyLock<Schema> = LazyLock::new(|| {
    let path = format!("{}/tests/recorded/custom_schema.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    Schema::from_json(&serde_json::from_str(&text).unwrap()).unwrap()
});

fn reset_fields(case: &Value) -> Option<FieldSet<'static>> {
    let names = texts(case, "reset").into_iter();
    let set = FieldSet::of(names.map(|name| Path(vec![PathElement::Field(Cow::Owned(name))])));
    (!set.is_empty()).then_some(set)
}

fn written(
    case: &Value,
    live: Option<&Value>,
    object: &Value,
    schema: &Schema,
    write: &Write<'_>,
) -> Result<Value, Status> {
    if case["operation"] == "apply" {
        let force = if case["force"] == true { Force::Yes } else { Force::No };
        apply::apply(live, object, schema, text(case, "kind"), write, force).map_err(Status::from)
    } else {
        let mut new = object.clone();
        apply::track_update(live, &mut new, schema, write);
        Ok(new)
    }
}

fn compare_write(case: &Value, ours: Result<Value, Status>) -> Result<(), String> {
    match ours {
        Ok(object) => {
            same("", text(case, "error"))?;
            same(&object["metadata"]["managedFields"], &case["result"]["metadata"]["managedFields"])?;
            same(&object, &case["result"])
        }
        Err(status) => {
            same(status.message.as_str(), text(case, "error"))?;
            // What a client did wrong is 400, where Kubernetes answers 500.
            let theirs = case["code"].as_u64().map(|code| if code == 500 { 400 } else { code });
            same(u64::from(status.code), theirs.unwrap_or_default())?;
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            let mut ours: Vec<_> = causes
                .iter()
                .map(|cause| format!("{}|{}|{}", cause.reason, cause.message, cause.field))
                .collect();
            ours.sort();
            same(ours, texts(case, "causes"))
        }
    }
}

#[test]
fn custom_resources_are_owned_as_kubernetes_has_it() {
    let versions = Relabelled(&CUSTOM);
    replay("custom_apply", |case| {
        let api_version = format!("example.com/{}", text(case, "version"));
        let reset = reset_fields(case);
        let write = Write {
            manager: text(case, "manager"),
            api_version: &api_version,
            subresource: text(case, "subresource"),
            now: text(case, "now"),
            reset_fields: reset.as_ref(),
            versions: Some(&versions),
            empty: None,
        };
        let live = case.get("live").filter(|live| !live.is_null());
        compare_write(case, written(case, live, &case["object"], &CUSTOM, &write))
    });
}

#[test]
fn kinds_of_kubernetes_are_owned_as_kubernetes_has_it() {
    replay("core_apply", |case| {
        let version = GroupVersion::new(text(case, "group"), text(case, "version"));
        let schema = apischema::core::schema(&version.group, &version.version, text(case, "kind")).unwrap();
        let form = NormalForm::of(&schema);
        let reset = reset_fields(case);
        let api_version = version.to_string();
        let write = Write {
            manager: text(case, "manager"),
            api_version: &api_version,
            subresource: text(case, "subresource"),
            now: text(case, "now"),
            reset_fields: reset.as_ref(),
            versions: None,
            empty: Some(form.empty()),
        };
        let normal = |value: &Value| {
            let mut value = value.clone();
            form.complete(&mut value);
            value
        };
        let live = case.get("live").filter(|live| !live.is_null()).map(normal);
        let object =
            if case["operation"] == "apply" { case["object"].clone() } else { normal(&case["object"]) };
        let ours = written(case, live.as_ref(), &object, &schema, &write);
        compare_write(case, ours.map(|object| normal(&object)))
    });
}

#[test]
fn objects_are_written_as_kubernetes_writes_them() {
    replay("normal_forms", |case| {
        let schema =
            apischema::core::schema(text(case, "group"), text(case, "version"), text(case, "kind")).unwrap();
        let mut ours = case["object"].clone();
        NormalForm::of(&schema).complete(&mut ours);
        same(&ours, &case["written"])
    });
}
