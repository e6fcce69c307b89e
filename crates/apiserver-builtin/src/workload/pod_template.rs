//! PodTemplates.

use super::super::behaviour::Behaviour;
use super::super::kind::{KindExt as _, core};
use super::super::pod::settle_spec;
use super::super::pod::spec::check_template;
use super::super::pod::warnings::spec_warnings;
use super::super::table::{columns, containers, labels, name};
use super::super::value::field_mut;
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

pub(super) fn resource() -> Resource {
    core("podtemplates", "PodTemplate", Scope::Namespaced)
        .behaving(Behaviour {
            generation: Generation::Content,
            settle: |template| settle_spec(field_mut(template, "template")),
            validate: |template, errors| {
                check_template(errors, Path::root("template"), &template["template"]);
            },
            warnings: |template, old| match old {
                Some(old) if old["template"] == template["template"] => Vec::new(),
                _ => spec_warnings(Path::root("template").field("spec"), &template["template"]["spec"]),
            },
            answers_with_deleted: true,
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Containers", "Images", "Pod Labels"], |template, _| {
            let [names, images] = containers(&template["template"]["spec"]);
            vec![name(template), names, images, labels(&template["template"]["metadata"]["labels"]).into()]
        }))
}
