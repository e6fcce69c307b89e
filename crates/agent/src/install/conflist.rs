//! Which network configuration of Portolan's a directory should have. Pure: files in, changes out.
//!
//! A container runtime takes the first file by name. Alone, that is Portolan's own list. Chained, it is a copy of the list that would be
//! first without Portolan, the primary's, with the plugin after all others; so it changes with the primary's, and goes with it.

use portolan_cni::{FURTHER, PLUGIN_TYPE, Version, annotations};
use serde_json::{Map, Value, json};

/// The names of our file, in the order of liking: the first that sorts before all other files is taken.
const NAMES: [&str; 3] = ["00-portolan.conflist", "0-portolan.conflist", "!portolan.conflist"];

/// The key by which our file is known. Runtimes do not look at it.
const MARK: &str = "portolan.dev/generated";

/// The plugin's types that are nobody else's.
const OWN_TYPES: [&str; 2] = [PLUGIN_TYPE, "portolan"];

/// The types of Multus, which calls plugins by the pod's networks itself.
const MULTUS: [&str; 2] = ["multus", "multus-shim"];

/// The reference plugin that serves `hostPort`. It speaks up to version 1.0.0 for sure.
pub(super) const PORTMAP: &str = "portmap";

/// Reference plugins whose CHECK takes every address of the result for one of their own interface: it fails for pods with others.
const CHECK_ALL_ADDRESSES: [&str; 6] = ["bridge", "host-device", "ipvlan", "macvlan", "ptp", "vlan"];

/// Tells runtimes not to call CHECK for a list.
const DISABLE_CHECK: &str = "disableCheck";

/// How the plugin is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By the runtime, as the only plugin.
    Alone,
    /// By the runtime, after the plugins of the primary network.
    Chained,
    /// By another plugin, such as Multus: there is no configuration of ours.
    Delegate,
}

/// A file of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) text: Vec<u8>,
}

/// What a list depends on besides those files.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The agent's socket, if it is not the default.
    pub(super) socket: Option<String>,
    /// Whether the node has [`PORTMAP`].
    pub(super) has_portmap: bool,
}

/// What is to be done, in this order: at no moment is there nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    /// Why the plugin is not chained, or not by its newest configuration.
    pub(super) problem: Option<Problem>,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Write { file: String, text: String },
    Remove { file: String },
}

impl Change {
    pub(super) fn file(&self) -> &str {
        match self {
            Change::Write { file, .. } | Change::Remove { file } => file,
        }
    }
}

/// Why there is no configuration of ours, or not the newest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing to be chained after.
    #[error(
        "there is no network configuration of another plugin to be chained after: install the cluster's primary network, or use --mode alone"
    )]
    NoPrimary,
    /// The primary's file makes no sense: it is being written, perhaps.
    #[error(
        "{file} is not a network configuration: {reason}. Portolan's stays as it is until {file} is repaired or removed"
    )]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// Plugins of this version have no chains, or it is not spoken here.
    #[error("no plugin can be chained after {file}: its cniVersion is {version}, and the plugin speaks {}", Version::ALL.map(Version::as_str).join(", "))]
    OtherVersion {
        /// The file.
        file: String,
        /// Its version.
        version: String,
    },
    /// Multus comes first.
    #[error(
        "{file} is of Multus, which calls Portolan for the networks of pods itself: there is nothing to chain (--mode delegate says the same)"
    )]
    Multus {
        /// The file.
        file: String,
    },
    /// Somebody wrote a chain with Portolan by hand.
    #[error(
        "{file} calls Portolan already, and was not written by `portolan agent install`: there is nothing to chain"
    )]
    ChainedAlready {
        /// The file.
        file: String,
    },
    /// No name of ours sorts before it.
    #[error(
        "no configuration of Portolan's can come before {file}: rename that file so that its name begins with a digit"
    )]
    SortsFirst {
        /// The file.
        file: String,
    },
}

impl Problem {
    /// True if pods do not get from Portolan what they ask for.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Problem::Multus { .. } | Problem::ChainedAlready { .. })
    }
}

/// True for the names that runtimes look at.
pub(super) fn is_configuration(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| ["conf", "conflist", "json"].contains(&extension))
}

/// Our files among those of a directory.
pub(super) fn ours(directory: &[File]) -> Vec<String> {
    directory.iter().filter(|file| is_ours(file)).map(|file| file.name.clone()).collect()
}

/// What a configuration calls: its name, and the types of its plugins.
pub(super) fn called(file: &File) -> Result<(String, Vec<String>), String> {
    let list = read_list(file)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let plugins = list.get("plugins").and_then(Value::as_array).into_iter().flatten();
    let types = plugins.map(|plugin| text(&plugin["type"])).collect();
    Ok((list.get("name").map(text).unwrap_or_default(), types))
}

/// What to change in a directory.
pub(super) fn plan(directory: &[File], mode: Mode, node: &Node) -> Plan {
    let first = directory.iter().filter(|file| !is_ours(file)).min_by(|a, b| a.name.cmp(&b.name));
    match list(first, mode, node) {
        Ok(None) => Plan { changes: remove_ours(directory, None), problem: None },
        Ok(Some(list)) => {
            let Some(name) = name_before(first) else {
                let problem = first.map(|file| Problem::SortsFirst { file: file.name.clone() });
                return Plan { changes: remove_ours(directory, None), problem };
            };
            let text = format!("{list:#}\n");
            let is_there = directory.iter().any(|file| file.name == name && file.text == text.as_bytes());
            let write = (!is_there).then(|| Change::Write { file: name.into(), text });
            let changes = write.into_iter().chain(remove_ours(directory, Some(name))).collect();
            Plan { changes, problem: None }
        }
        Err(problem @ Problem::Unreadable { .. }) => Plan { changes: Vec::new(), problem: Some(problem) },
        Err(problem) => Plan { changes: remove_ours(directory, None), problem: Some(problem) },
    }
}

/// A file under one of our names with our mark. One that nothing can be read from is ours too: a runtime cannot use it either.
fn is_ours(file: &File) -> bool {
    let is_marked = || match serde_json::from_slice::<Value>(&file.text) {
        Ok(value) => value.get(MARK).is_some(),
        Err(_) => true,
    };
    NAMES.contains(&file.name.as_str()) && is_marked()
}

fn remove_ours(directory: &[File], except: Option<&str>) -> Vec<Change> {
    let removed = ours(directory).into_iter().filter(|name| Some(name.as_str()) != except);
    removed.map(|file| Change::Remove { file }).collect()
}

fn name_before(first: Option<&File>) -> Option<&'static str> {
    NAMES.into_iter().find(|name| first.is_none_or(|first| **name < *first.name))
}

/// Our list; none if there is to be none.
fn list(first: Option<&File>, mode: Mode, node: &Node) -> Result<Option<Value>, Problem> {
    let socket = node.socket.as_deref();
    match mode {
        Mode::Delegate => Ok(None),
        Mode::Alone => {
            let (mut plugins, mut versions) = (vec![plugin("all", socket)], vec![Version::V1_0_0.as_str()]);
            if node.has_portmap {
                plugins.push(json!({"type": PORTMAP, "capabilities": {"portMappings": true}}));
            } else {
                versions.push(Version::V1_1_0.as_str());
            }
            Ok(Some(json!({
                // Runtimes that know `cniVersions` take the newest that they speak.
                "cniVersion": Version::V1_0_0.as_str(),
                "cniVersions": versions,
                "name": "portolan",
                "plugins": plugins,
                MARK: "by portolan agent install",
            })))
        }
        Mode::Chained => chain(first.ok_or(Problem::NoPrimary)?, socket).map(Some),
    }
}

fn plugin(interfaces: &str, socket: Option<&str>) -> Value {
    let mut plugin = json!({
        "type": PLUGIN_TYPE,
        "interfaces": interfaces,
        "capabilities": {annotations::CAPABILITY: true},
    });
    if let Some(socket) = socket {
        plugin["socket"] = socket.into();
    }
    plugin
}

/// The primary's list with our plugin after all others. Whatever else the list says stays; CHECK is left out if it would fail.
fn chain(primary: &File, socket: Option<&str>) -> Result<Value, Problem> {
    let file = || primary.name.clone();
    let mut list = read_list(primary).map_err(|reason| Problem::Unreadable { file: file(), reason })?;
    let mut plugins = list.get("plugins").and_then(Value::as_array).cloned().unwrap_or_default();
    let has = |types: &[&str]| plugins.iter().any(|one| types.iter().any(|kind| one["type"] == *kind));
    if has(&MULTUS) {
        return Err(Problem::Multus { file: file() });
    }
    if has(&OWN_TYPES) {
        return Err(Problem::ChainedAlready { file: file() });
    }
    let spoken = |value: &Value| value.as_str().and_then(Version::parse).is_some();
    if !list.get("cniVersion").is_some_and(spoken) {
        let version = list.get("cniVersion").and_then(Value::as_str).unwrap_or("not given");
        return Err(Problem::OtherVersion { file: file(), version: version.into() });
    }
    // A runtime takes the newest of these: all plugins must speak it.
    if let Some(versions) = list.get_mut("cniVersions").and_then(Value::as_array_mut) {
        versions.retain(spoken);
    }
    if has(&CHECK_ALL_ADDRESSES) && !list.contains_key(DISABLE_CHECK) {
        list.insert(DISABLE_CHECK.into(), true.into());
    }
    plugins.push(plugin(FURTHER, socket));
    list.insert("plugins".into(), plugins.into());
    list.insert(MARK.into(), format!("by portolan agent install, from {}", primary.name).into());
    Ok(list.into())
}

/// A configuration as a list, as runtimes read it: only a file with the extension `conflist` is one already.
fn read_list(file: &File) -> Result<Map<String, Value>, String> {
    let value: Value = serde_json::from_slice(&file.text).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else { return Err("it is not a JSON object".into()) };
    let list = if file.name.ends_with(".conflist") {
        object
    } else {
        let mut list = Map::new();
        for key in ["cniVersion", "name"] {
            list.extend(object.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        list.insert("plugins".into(), json!([object]));
        list
    };
    let is_text = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !is_text(list.get("name")) {
        return Err("name is missing".into());
    }
    match list.get("plugins").and_then(Value::as_array) {
        None => Err("plugins is missing".into()),
        Some(plugins) if plugins.is_empty() => Err("plugins is empty".into()),
        Some(plugins) if file.name.ends_with(".conflist") => {
            match plugins.iter().position(|one| !is_text(one.get("type"))) {
                Some(at) => Err(format!("plugins[{at}].type is missing")),
                None => Ok(list),
            }
        }
        Some(plugins) if is_text(plugins[0].get("type")) => Ok(list),
        Some(_) => Err("type is missing".into()),
    }
}

#[cfg(test)]
mod tests;
