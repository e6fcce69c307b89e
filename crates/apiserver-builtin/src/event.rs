//! Events, which two groups serve: the core group as they always were, and `events.k8s.io` with other names for the same fields.
//! They are stored in whichever form they were written, under one key.

use apimachinery::Status;
use apischema::FieldError;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::errors::Errors;
use super::format::{dns1123_subdomain, qualified_name};
use super::kind::{KindExt as _, core, kind_of, metadata_errors, set_defaults};
use super::table::{columns as columns_of, or, since};
use super::value::{fields_mut, is_set, number, same, text};
use apischema::Path;
use apiserver::registry::{Action, Columns, GarbageCollection, Resource, Scope, Strategy};
use apiserver::selection::SelectableField;
use apiserver::storage::ResourceKey;

const GROUP_VERSION: &str = "events.k8s.io/v1";

pub(super) fn resources() -> [Resource; 2] {
    let mut of_group = kind_of("events.k8s.io", "events", "Event", Scope::Namespaced);
    of_group.key = ResourceKey::new("", "events");
    let with = |resource: Resource, form: Form| {
        resource
            .short_names(&["ev"])
            .selectable(selectable(form))
            .strategy_with(|empty| EventStrategy { form, empty })
            .shown(columns())
    };
    [with(core("events", "Event", Scope::Namespaced), Form::Core), with(of_group, Form::Group)]
}

/// In which words an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Those of the core group.
    Core,
    /// Those of `events.k8s.io`.
    Group,
}

/// The fields that have a name in each form.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn selectable(form: Form) -> Vec<SelectableField> {
    let parts = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    let objects = parts.map(|part| {
        let (old, new) = (format!("involvedObject.{part}"), format!("regarding.{part}"));
        let name = if form == Form::Core { &old } else { &new };
        SelectableField::named(name, &[&old, &new], "")
    });
    let reporter = ["reportingComponent", "reportingController"];
    let mut fields = Vec::from(objects);
    fields.extend([SelectableField::at("reason"), SelectableField::at("type")]);
    match form {
        Form::Core => fields.extend([
            SelectableField::named("reportingComponent", &reporter, ""),
            SelectableField::named(
                "source",
                &["source.component", "deprecatedSource.component", reporter[0], reporter[1]],
                "",
            ),
        ]),
        Form::Group => fields.push(SelectableField::named("reportingController", &reporter, "")),
    }
    fields
}

/// How events behave.
#[derive(Clone, Debug)]
struct EventStrategy {
    form: Form,
    empty: Value,
}

impl Strategy for EventStrategy {
    fn prepare_for_create(&self, event: &mut Value, _action: Action<'_>) {
        settle(fields_mut(event), self.form);
    }

    fn prepare_for_update(&self, event: &mut Value, _old: &Value, _action: Action<'_>) {
        settle(fields_mut(event), self.form);
    }

    fn validate(&self, event: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(event);
        let event = in_core_words(event);
        check_always(&mut errors, &event, self.form);
        if self.form == Form::Group {
            check_new(&mut errors, &event);
        }
        errors.into_vec()
    }

    fn validate_update(&self, event: &Value, old: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(event);
        let (event, old) = (in_core_words(event), in_core_words(old));
        check_always(&mut errors, &event, self.form);
        if self.form == Form::Group {
            check_changed(&mut errors, &event, &old);
        }
        errors.into_vec()
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn garbage_collection(&self) -> GarbageCollection {
        GarbageCollection::Unsupported
    }

    fn convert(&self, event: &mut Value, api_version: &str) -> Result<(), Status> {
        let form = if api_version == GROUP_VERSION { Form::Group } else { Form::Core };
        translate(event, form);
        fields_mut(event).insert("apiVersion".into(), api_version.into());
        Ok(())
    }

    fn empty(&self) -> Option<&Value> {
        Some(&self.empty)
    }

    fn set_defaults(&self, event: &mut Value) {
        set_defaults(event);
    }
}

fn form_of(event: &Value) -> Form {
    if text(&event["apiVersion"]) == GROUP_VERSION { Form::Group } else { Form::Core }
}

fn translate(event: &mut Value, form: Form) {
    let fields = fields_mut(event);
    for (old, new) in NAMES {
        let (from, to) = if form == Form::Core { (new, old) } else { (old, new) };
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
    settle(fields, form);
}

/// Some fields are always there, even if they say nothing; others are not, if they say nothing.
fn settle(fields: &mut Map<String, Value>, form: Form) {
    let (source, first, last, reporter) = match form {
        Form::Core => ("source", "firstTimestamp", "lastTimestamp", "reportingComponent"),
        Form::Group => {
            ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "reportingController")
        }
    };
    fields.entry(source).or_insert_with(|| json!({}));
    for time in ["eventTime", first, last] {
        fields.entry(time).or_insert(Value::Null);
    }
    for name in [reporter, "reportingInstance"] {
        match form {
            Form::Core => {
                fields.entry(name).or_insert_with(|| "".into());
            }
            Form::Group => {
                if fields.get(name).is_some_and(|value| text(value).is_empty()) {
                    fields.remove(name);
                }
            }
        }
    }
}

fn in_core_words(event: &Value) -> Value {
    let mut event = event.clone();
    if form_of(&event) == Form::Group {
        translate(&mut event, Form::Core);
    }
    event
}

fn columns() -> Columns {
    let headings = [
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "Subobject*",
        "Source*",
        "Message",
        "First Seen*",
        "Count*",
        "Name*",
    ];
    columns_of(&headings, |event, now| cells(&in_core_words(event), now))
}

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let first = if is_set(&event["firstTimestamp"]) { &event["firstTimestamp"] } else { &event["eventTime"] };
    let series = &event["series"];
    let (last, count) = if is_set(series) {
        (&series["lastObservedTime"], number(&series["count"]))
    } else {
        let last = if is_set(&event["lastTimestamp"]) { &event["lastTimestamp"] } else { first };
        (last, number(&event["count"]).max(1))
    };
    let object = &event["involvedObject"];
    let target = match (text(&object["kind"]).to_lowercase(), text(&object["name"])) {
        (kind, "") => kind,
        (kind, name) => format!("{kind}/{name}"),
    };
    let source = or(&event["source"]["component"], text(&event["reportingComponent"]));
    let host = or(&event["source"]["host"], text(&event["reportingInstance"]));
    vec![
        since(last, now).into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        target.into(),
        text(&object["fieldPath"]).into(),
        if host.is_empty() { source.to_owned() } else { format!("{source}, {host}") }.into(),
        text(&event["message"]).trim().into(),
        since(first, now).into(),
        count.into(),
        text(&event["metadata"]["name"]).into(),
    ]
}

/// What has always been asked of events.
fn check_always(errors: &mut Errors, event: &Value, form: Form) {
    let (namespace, of_object) =
        (text(&event["metadata"]["namespace"]), text(&event["involvedObject"]["namespace"]));
    let object = Path::root("involvedObject");
    let timed = is_set(&event["eventTime"]);
    let fits = match (timed, of_object) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, of_object) => of_object == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        errors.invalid(object.field("namespace"), of_object, "does not match event.namespace");
    }
    if timed {
        let reporter = if form == Form::Core { "reportingComponent" } else { "reportingController" };
        let controller = text(&event["reportingComponent"]);
        if controller.is_empty() {
            errors.required(Path::root(reporter), "");
        }
        errors.messages(Path::root(reporter), controller, qualified_name(controller));
        for field in ["reportingInstance", "action", "reason"] {
            if text(&event[field]).is_empty() {
                errors.required(Path::root(field), "");
            }
        }
        for (field, longest) in
            [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)]
        {
            if text(&event[field]).len() > longest {
                errors.invalid(Path::root(field), "", format!("can have at most {longest} characters"));
            }
        }
    }
    errors.messages(Path::root("namespace"), namespace, dns1123_subdomain(namespace));
}

/// What is asked of new events in new words.
fn check_new(errors: &mut Errors, event: &Value) {
    check_series(errors, event);
    if !is_set(&event["eventTime"]) {
        errors.required(Path::root("eventTime"), "");
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(Path::root("type"), "", format!("has invalid value: {kind}"));
    }
    let source = &event["source"];
    for (field, set) in [
        ("firstTimestamp", is_set(&event["firstTimestamp"])),
        ("lastTimestamp", is_set(&event["lastTimestamp"])),
        ("count", number(&event["count"]) != 0),
        ("source", !text(&source["component"]).is_empty() || !text(&source["host"]).is_empty()),
    ] {
        if set {
            errors.invalid(Path::root(field), "", "needs to be unset");
        }
    }
}

fn check_series(errors: &mut Errors, event: &Value) {
    let series = &event["series"];
    if !is_set(series) {
        return;
    }
    if number(&series["count"]) < 2 {
        errors.invalid(Path::root("series.count"), "", "should be at least 2");
    }
    if !is_set(&series["lastObservedTime"]) {
        errors.required(Path::root("series.lastObservedTime"), "");
    }
}

/// Of an event in new words, only its series changes.
fn check_changed(errors: &mut Errors, event: &Value, old: &Value) {
    if !same(&event["series"], &old["series"]) {
        check_series(errors, event);
    }
    for (field, shown) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if !same(&event[field], &old[field]) {
            errors.invalid(Path::root(shown), event[field].clone(), "field is immutable");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, create, prepared, update};
    use super::*;

    fn old_form() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p1"}, "reason": "R", "message": "m",
            "source": {"component": "c"}, "firstTimestamp": "2026-11-15T19:00:00Z",
            "lastTimestamp": "2026-11-15T19:00:00Z", "count": 1, "type": "Normal", "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        })
    }

    fn new_form() -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e2", "namespace": "default"},
            "eventTime": "2026-11-15T19:00:00.000000Z", "reportingController": "x.y/z", "reportingInstance": "i",
            "action": "A", "reason": "R", "regarding": {"kind": "Pod", "namespace": "default", "name": "p1"},
            "note": "m", "type": "Normal", "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null,
        })
    }

    #[test]
    fn an_event_reads_in_both_forms() {
        let [core, group] = resources();
        let mut event = old_form();
        core.strategy.convert(&mut event, "events.k8s.io/v1").unwrap();
        assert_eq!(
            event,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e1", "namespace": "default"},
                "eventTime": null, "reason": "R", "note": "m", "type": "Normal",
                "regarding": {"kind": "Pod", "namespace": "default", "name": "p1"},
                "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "2026-11-15T19:00:00Z",
                "deprecatedLastTimestamp": "2026-11-15T19:00:00Z", "deprecatedCount": 1,
            })
        );
        group.strategy.convert(&mut event, "v1").unwrap();
        assert_eq!(event, old_form());
        let mut event = new_form();
        group.strategy.convert(&mut event, "v1").unwrap();
        assert_eq!(event["involvedObject"]["name"], "p1");
        assert_eq!(event["reportingComponent"], "x.y/z");
        assert_eq!(event["firstTimestamp"], Value::Null);
        core.strategy.convert(&mut event, "events.k8s.io/v1").unwrap();
        assert_eq!(event, new_form());
    }

    #[test]
    fn both_forms_are_kept_under_one_key_and_selected_alike() {
        let [core, group] = resources();
        assert_eq!(core.key.object("default", "a"), group.key.object("default", "a"));
        let field = core.selectable_field("involvedObject.name").unwrap();
        assert_eq!(field.value(&old_form()), "p1");
        assert_eq!(field.value(&new_form()), "p1");
        assert_eq!(core.selectable_field("source").unwrap().value(&new_form()), "x.y/z");
        assert_eq!(group.selectable_field("regarding.kind").unwrap().value(&old_form()), "Pod");
    }

    #[test]
    fn the_table_is_the_same_in_both_forms() {
        let [core, group] = resources();
        let now = "2026-11-15T19:26:00Z";
        assert_eq!(
            testing::cells(&core, &old_form(), now),
            [
                json!("26m"),
                json!("Normal"),
                json!("R"),
                json!("pod/p1"),
                json!(""),
                json!("c"),
                json!("m"),
                json!("26m"),
                json!(1),
                json!("e1")
            ]
        );
        assert_eq!(testing::cells(&group, &new_form(), now)[5], "x.y/z, i");
    }

    #[test]
    fn new_words_are_checked_more_strictly() {
        let [core, group] = resources();
        assert_eq!(create(&core, &old_form()), Vec::<String>::new());
        assert_eq!(create(&group, &new_form()), Vec::<String>::new());
        let mut event = new_form();
        event["eventTime"] = Value::Null;
        event["type"] = json!("Odd");
        event["deprecatedCount"] = json!(3);
        assert_eq!(
            create(&group, &event),
            [
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "count: Invalid value: \"\": needs to be unset"
            ]
        );
        let mut changed = new_form();
        changed["note"] = json!("other");
        assert_eq!(
            update(&group, &changed, &new_form()),
            ["message: Invalid value: \"other\": field is immutable"]
        );
        let mut elsewhere = old_form();
        elsewhere["involvedObject"]["namespace"] = json!("other");
        assert_eq!(
            create(&core, &elsewhere),
            ["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"]
        );
    }

    #[test]
    fn a_new_event_has_the_fields_that_are_always_there() {
        let [core, _] = resources();
        let event = prepared(&core, json!({"reason": "R"}));
        assert_eq!(
            event,
            json!({
                "reason": "R", "source": {}, "eventTime": null, "firstTimestamp": null, "lastTimestamp": null,
                "reportingComponent": "", "reportingInstance": "",
            })
        );
    }
}
