//! The Go types behind Kubernetes' components: what kube-apiserver reads an object into, and so what it writes out again.
//!
//! A field is written as its type, after `*` if it is a pointer, and after `!` if it is written out even if it is zero.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

/// Fields of Go structs by the component's name and the field's name in JSON.
pub(super) type GoTypes = BTreeMap<String, BTreeMap<String, String>>;

/// The types behind components.
pub(super) fn of_components(source: &Path, components: &BTreeMap<&str, &Value>) -> anyhow::Result<GoTypes> {
    let mut packages = BTreeMap::new();
    let mut types = GoTypes::new();
    for (name, schema) in components {
        let Some(properties) = schema["properties"].as_object() else { continue };
        let (package, kind) = name.rsplit_once('.').context("a component's name has a package")?;
        if !packages.contains_key(package) {
            packages.insert(package.to_owned(), Package::read(source, package)?);
        }
        let fields = flatten(&mut packages, source, package, kind)?;
        let mut found = BTreeMap::new();
        for (json_name, property) in properties {
            let field = fields
                .iter()
                .find(|field| field.json_name == *json_name)
                .with_context(|| format!("{name} has no field for {json_name}"))?;
            found.insert(
                json_name.clone(),
                field.written(package_name(package), is_struct(property, components)),
            );
        }
        types.insert((*name).to_owned(), found);
    }
    Ok(types)
}

/// Whether a property is a struct, which is written out even where a field that is empty would not be.
fn is_struct(property: &Value, components: &BTreeMap<&str, &Value>) -> bool {
    let target = property["$ref"].as_str().or_else(|| property["allOf"][0]["$ref"].as_str());
    let target = target.and_then(|target| target.rsplit('/').next());
    // A few named types are none: raw JSON is bytes.
    target.is_some_and(|name| components.contains_key(name) && !name.ends_with(".v1.JSON"))
}

pub(super) struct Package {
    pub(super) structs: BTreeMap<String, Vec<Field>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// Empty if the fields of the type are taken for fields of this one.
    pub(super) json_name: String,
    pub(super) go_type: String,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// Its number in protobuf.
    pub(super) number: Option<u32>,
}

impl Field {
    fn written(&self, package: &str, is_struct: bool) -> String {
        let (pointer, base) =
            self.go_type.strip_prefix('*').map_or((false, &*self.go_type), |base| (true, base));
        let collection = base.starts_with('[') || base.starts_with("map[");
        let kept = !self.omit_empty && !self.omit_zero;
        let always = kept || is_struct && !pointer && !collection && !self.omit_zero;
        let marks = format!("{}{}", if always { "!" } else { "" }, if pointer { "*" } else { "" });
        format!("{marks}{}", qualified(base, package))
    }
}

impl Package {
    pub(super) fn read(source: &Path, component_package: &str) -> anyhow::Result<Package> {
        let folder = folder(source, component_package)?;
        let mut structs = BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(".go") && !name.ends_with("_test.go") && !name.starts_with("zz_") {
                structs.extend(parse(&fs::read_to_string(&path)?));
            }
        }
        Ok(Package { structs })
    }
}

/// Where the source of a component's package is: in a checkout of Kubernetes, or beside it in Go's module cache.
pub(super) fn folder(source: &Path, component_package: &str) -> anyhow::Result<PathBuf> {
    let path = component_package.strip_prefix("io.k8s.").context("components are of k8s.io")?;
    let (module, rest) = path.split_once('.').context("a package is in a module")?;
    // Group names have dots nowhere in packages, but modules have dashes.
    let rest = rest.replace('.', "/");
    let version = super::VERSION.replacen("v1", "v0", 1);
    let staged = source.join("staging/src/k8s.io").join(module).join(&rest);
    let cached = source.parent().map(|beside| beside.join(format!("{module}@{version}")).join(&rest));
    [Some(staged), cached]
        .into_iter()
        .flatten()
        .find(|folder| folder.is_dir())
        .with_context(|| format!("no source of {component_package} near {}", source.display()))
}

/// The last part of a Go package's path, which is what its types are called by.
fn package_name(component_package: &str) -> &str {
    component_package.rsplit('.').next().unwrap_or(component_package)
}

/// The fields of a struct, with those of the structs in it that have no name in JSON.
fn flatten(
    packages: &mut BTreeMap<String, Package>,
    source: &Path,
    package: &str,
    kind: &str,
) -> anyhow::Result<Vec<Field>> {
    let Some(fields) = packages[package].structs.get(kind).cloned() else {
        bail!("no struct {package}.{kind}")
    };
    let mut flat = Vec::new();
    for field in fields {
        if !field.json_name.is_empty() {
            flat.push(field);
            continue;
        }
        let (inner_package, inner) = match field.go_type.rsplit_once('.') {
            // The metadata of all kinds, and what apps and batch take from the core.
            Some(("metav1", inner)) => ("io.k8s.apimachinery.pkg.apis.meta.v1", inner),
            Some((_, inner)) => ("io.k8s.api.core.v1", inner),
            None => (package, &*field.go_type),
        };
        if !packages.contains_key(inner_package) {
            packages.insert(inner_package.to_owned(), Package::read(source, inner_package)?);
        }
        flat.extend(flatten(packages, source, inner_package, inner)?);
    }
    Ok(flat)
}

/// The structs of a Go file by name.
pub(super) fn parse(text: &str) -> BTreeMap<String, Vec<Field>> {
    let mut structs = BTreeMap::new();
    let mut current: Option<(String, Vec<Field>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            current = Some((name.to_owned(), Vec::new()));
        } else if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct{}"))
        {
            structs.insert(name.to_owned(), Vec::new());
        } else if line == "}" {
            structs.extend(current.take());
        } else if let Some((_, fields)) = &mut current {
            fields.extend(parse_field(line));
        }
    }
    structs
}

fn parse_field(line: &str) -> Option<Field> {
    let line = line.strip_prefix('\t').filter(|line| !line.starts_with(['\t', '/']))?;
    let (declaration, tags) = line.split_once('`')?;
    let tag = tags.split_once("json:\"")?.1.split('"').next()?;
    let mut parts = tag.split(',');
    let json_name = parts.next()?.to_owned();
    let options: Vec<&str> = parts.collect();
    if json_name == "-" {
        return None;
    }
    let go_type = declaration.split_whitespace().last()?.to_owned();
    let has = |option| options.contains(&option);
    let number = tags.split_once("protobuf:\"").and_then(|(_, tag)| tag.split(',').nth(1)?.parse().ok());
    Some(Field { json_name, go_type, omit_empty: has("omitempty"), omit_zero: has("omitzero"), number })
}

/// A type as Go's own error messages name it.
fn qualified(go_type: &str, package: &str) -> String {
    if let Some(element) = go_type.strip_prefix("[]") {
        return format!("[]{}", qualified(element, package));
    }
    if let Some((key, value)) = go_type.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{}]{}", qualified(key, package), qualified(value, package));
    }
    if let Some(pointee) = go_type.strip_prefix('*') {
        return format!("*{}", qualified(pointee, package));
    }
    match go_type.split_once('.') {
        Some((qualifier, name)) if qualifier.ends_with("v1") => format!("v1.{name}"),
        Some(_) => go_type.to_owned(),
        None if go_type == "byte" => "uint8".to_owned(),
        None if go_type.starts_with(|first: char| first.is_ascii_uppercase()) => {
            format!("{package}.{go_type}")
        }
        None => go_type.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_what_their_tags_say() {
        let structs = parse(
            "type A struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\t// words\n\tB *int32 `json:\"b,omitempty\" x:\"y\"`\n\
             \tC   map[string][]byte `json:\"c\"`\n\tD Time `json:\"d,omitempty,omitzero\"`\n\te string\n}\n",
        );
        let shown: Vec<_> = structs["A"]
            .iter()
            .map(|field| (&*field.json_name, field.written("v1", field.json_name == "d")))
            .collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(
            shown,
            [
                ("", text("!v1.TypeMeta")),
                ("b", text("*int32")),
                ("c", text("!map[string][]uint8")),
                ("d", text("v1.Time")),
            ]
        );
    }

    #[test]
    fn a_struct_is_written_out_although_its_tag_says_otherwise() {
        let field = parse_field("\tResources ResourceRequirements `json:\"resources,omitempty\"`").unwrap();
        assert_eq!(field.written("v1", true), "!v1.ResourceRequirements");
        let pointer = parse_field("\tAffinity *Affinity `json:\"affinity,omitempty\"`").unwrap();
        assert_eq!(pointer.written("v1", true), "*v1.Affinity");
    }
}
