//! What a resource is.

use std::collections::BTreeSet;
use std::sync::Arc;

pub use apimachinery::meta::{NameRule, Scope};
use apimachinery::{FieldSelector, SelectorError};
use apischema::Schema;

use super::column::Columns;
use super::strategy::{GenericStrategy, Strategy, SubresourceHandler};
use crate::request::Verb;
use crate::selection::SelectableField;
use crate::storage::ResourceKey;

/// One resource that the server serves: how it is called, in which versions, and how it behaves.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// `configmaps`
    pub plural: String,
    /// `configmap`
    pub singular: String,
    /// `ConfigMap`
    pub kind: String,
    /// `ConfigMapList`
    pub list_kind: String,
    /// `cm`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// Whether objects are in namespaces.
    pub scope: Scope,
    /// Where the kind comes from.
    pub origin: Origin,
    /// The versions, the preferred one first.
    pub versions: Vec<Version>,
    /// Which of them is stored.
    pub storage_version: usize,
    /// What can be done with objects.
    pub verbs: Vec<Verb>,
    /// The fields that objects can be selected by, besides name and namespace.
    pub selectable_fields: Vec<SelectableField>,
    /// What names are allowed.
    pub name_rule: NameRule,
    /// How the kind behaves.
    pub strategy: Arc<dyn Strategy>,
    /// Where objects are stored.
    pub key: ResourceKey,
    /// What answers in place of the store.
    pub handler: Option<Arc<dyn SubresourceHandler>>,
}

/// Where a kind comes from. Kubernetes serves the two by different code, and clients see in places by which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The server has it.
    #[default]
    BuiltIn,
    /// A definition made it while the server ran.
    Custom,
}

/// One version of a resource.
#[derive(Clone, Debug)]
pub struct Version {
    /// `v1`
    pub name: String,
    /// Whether clients can use it.
    pub served: bool,
    /// What is said to those who use it, if they should not.
    pub deprecation_warning: Option<String>,
    /// What objects look like; absent where anything goes.
    pub schema: Option<Arc<Schema>>,
    /// What marks objects as stored by this version as it is now; empty for its apiVersion. One that is not marked so is
    /// converted when it is read.
    pub mark: String,
    /// What `kubectl get` shows.
    pub columns: Columns,
    /// What objects have besides themselves.
    pub subresources: Vec<Subresource>,
}

/// Something that objects have besides themselves.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`
    pub name: String,
    /// What it is.
    pub kind: SubresourceKind,
    /// What can be done with it.
    pub verbs: Vec<Verb>,
}

/// What a subresource is.
#[derive(Clone, Debug)]
pub enum SubresourceKind {
    /// The object, of which only the status is written.
    Status,
    /// The number of replicas, found at these paths of the object.
    Scale(ScalePaths),
    /// Something of the kind's own.
    Custom {
        /// Empty for the core group.
        group: String,
        /// `v1`
        version: String,
        /// `Binding`
        kind: String,
        /// What answers.
        handler: Arc<dyn SubresourceHandler>,
    },
}

/// Where a scale's numbers are in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `.spec.replicas`
    pub spec_replicas: String,
    /// `.status.replicas`
    pub status_replicas: String,
    /// `.status.selector`; absent if there is none.
    pub label_selector: Option<String>,
}

impl Resource {
    /// A resource with one version, all verbs and no behaviour of its own. `list_kind` and `singular` follow from `kind`.
    pub fn new(group: &str, version: &str, plural: &str, kind: &str, scope: Scope) -> Resource {
        Resource {
            group: group.into(),
            plural: plural.into(),
            singular: kind.to_ascii_lowercase(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            origin: Origin::default(),
            versions: vec![Version::new(version)],
            storage_version: 0,
            verbs: ALL_VERBS.into(),
            selectable_fields: Vec::new(),
            name_rule: NameRule::default(),
            strategy: Arc::new(GenericStrategy::default()),
            key: ResourceKey::new(group, plural),
            handler: None,
        }
    }

    /// With these short names.
    pub fn short_names(mut self, names: &[&str]) -> Resource {
        self.short_names = names.iter().copied().map(String::from).collect();
        self
    }

    /// In these categories.
    pub fn categories(mut self, names: &[&str]) -> Resource {
        self.categories = names.iter().copied().map(String::from).collect();
        self
    }

    /// With this behaviour.
    pub fn strategy(mut self, strategy: impl Strategy + 'static) -> Resource {
        self.strategy = Arc::new(strategy);
        self
    }

    /// With these names allowed.
    pub fn name_rule(mut self, rule: NameRule) -> Resource {
        self.name_rule = rule;
        self
    }

    /// Selectable by these fields too.
    pub fn selectable(mut self, fields: impl IntoIterator<Item = SelectableField>) -> Resource {
        self.selectable_fields.extend(fields);
        self
    }

    /// With the only version made so.
    pub fn version(mut self, change: impl FnOnce(Version) -> Version) -> Resource {
        if let Some(version) = self.versions.pop() {
            self.versions.push(change(version));
        }
        self
    }

    /// `configmaps` or `deployments.apps`
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `v1` or `apps/v1`
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.into() } else { format!("{}/{version}", self.group) }
    }

    /// The place of a served version among the versions.
    pub fn served_version(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|version| version.served && version.name == name)
    }

    /// Whether objects are in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether a definition made it.
    pub fn is_custom(&self) -> bool {
        self.origin == Origin::Custom
    }

    /// The media types of patches that objects take.
    pub fn patch_types(&self) -> &'static [&'static str] {
        self.strategy.patch_types()
    }

    /// A field that objects can be selected by.
    pub fn selectable_field(&self, name: &str) -> Option<SelectableField> {
        let known = |name: &str| matches!(name, "metadata.name" | "metadata.namespace");
        self.selectable_fields
            .iter()
            .find(|field| &*field.name == name)
            .cloned()
            .or_else(|| known(name).then(|| SelectableField::at(name)))
    }

    /// How Kubernetes' code calls the type of the objects, which some errors show: `core.Pod`.
    pub fn go_type(&self) -> String {
        if self.is_custom() {
            return "unstructured.Unstructured".into();
        }
        let package = match self.group.split('.').next().unwrap_or_default() {
            "" | "events" => "core",
            package => package,
        };
        format!("{package}.{}", self.kind)
    }

    /// Refuses what objects cannot be selected by. A kind that declares no fields says that there are only two; another,
    /// that this is none of them.
    pub(crate) fn check_fields(&self, fields: &FieldSelector) -> Result<(), SelectorError> {
        if self.selectable_fields.is_empty() && !self.is_custom() {
            return fields.check_metadata_only();
        }
        let in_no_namespace = |path: &str| path == "metadata.namespace" && !self.is_namespaced();
        let checked = fields.check(|path| self.selectable_field(path).is_some() && !in_no_namespace(path));
        checked.map_err(|error| match error {
            SelectorError::UnsupportedField(field) => self
                .strategy
                .unsupported_field(&field)
                .map_or(SelectorError::UnsupportedField(field), SelectorError::Malformed),
            error => error,
        })
    }

    /// The verbs in the order in which discovery shows them.
    pub fn verb_names(&self) -> Vec<&'static str> {
        let verbs = self.verbs.iter().map(|verb| verb.as_str());
        if self.is_custom() { verbs.collect() } else { verbs.collect::<BTreeSet<_>>().into_iter().collect() }
    }
}

/// What can be done with most resources.
pub const ALL_VERBS: [Verb; 8] = [
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

impl Version {
    /// A served version without schema or subresources.
    pub fn new(name: &str) -> Version {
        Version {
            name: name.into(),
            served: true,
            deprecation_warning: None,
            schema: None,
            mark: String::new(),
            columns: Columns::default(),
            subresources: Vec::new(),
        }
    }

    /// With this schema.
    pub fn schema(mut self, schema: Arc<Schema>) -> Version {
        self.schema = Some(schema);
        self
    }

    /// With these columns.
    pub fn columns(mut self, columns: Columns) -> Version {
        self.columns = columns;
        self
    }

    /// With this subresource.
    pub fn subresource(mut self, subresource: Subresource) -> Version {
        self.subresources.push(subresource);
        self
    }

    /// The subresource of a name.
    pub fn find_subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether the status is written by itself.
    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(|subresource| matches!(subresource.kind, SubresourceKind::Status))
    }
}

impl Subresource {
    /// The verbs in the order in which discovery shows them.
    pub fn verb_names(&self) -> Vec<&'static str> {
        self.verbs.iter().map(|verb| verb.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// `status`
    pub fn status() -> Subresource {
        Subresource {
            name: "status".into(),
            kind: SubresourceKind::Status,
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
        }
    }

    /// `scale`
    pub fn scale(paths: ScalePaths) -> Subresource {
        Subresource {
            name: "scale".into(),
            kind: SubresourceKind::Scale(paths),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
        }
    }
}
