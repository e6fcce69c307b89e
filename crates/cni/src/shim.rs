//! The plugin itself: checks what the runtime passed, calls the agent, prints its answer.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::{CniError, Code};
use crate::protocol::{self, Answer, LONGEST, PROTOCOL, Request, Verb};
use crate::version::Version;
use crate::{AddResult, DEFAULT_SOCKET, FURTHER, PLUGIN_TYPES, annotations};

/// The version in which an error is written when the call's own is not known.
const UNKNOWN_VERSION: &str = "1.0.0";

/// The environment variables of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `CNI_COMMAND`
    pub command: Option<String>,
    /// `CNI_CONTAINERID`
    pub container_id: Option<String>,
    /// `CNI_NETNS`
    pub netns: Option<String>,
    /// `CNI_IFNAME`
    pub ifname: Option<String>,
    /// `CNI_ARGS`
    pub args: Option<String>,
}

/// Paths on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The agent's socket, unless a configuration of the node names another.
    pub socket: PathBuf,
    /// The node's own network configurations.
    pub configurations: PathBuf,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// For standard output.
    pub stdout: Vec<u8>,
    /// The exit code.
    pub code: u8,
}

impl Environment {
    /// The variables of this process. One that is empty counts as absent.
    pub fn from_process() -> Self {
        let read = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            command: read("CNI_COMMAND"),
            container_id: read("CNI_CONTAINERID"),
            netns: read("CNI_NETNS"),
            ifname: read("CNI_IFNAME"),
            args: read("CNI_ARGS"),
        }
    }
}

impl Default for Places {
    fn default() -> Self {
        Self { socket: DEFAULT_SOCKET.into(), configurations: "/etc/cni/net.d".into() }
    }
}

/// Serves a call of a container runtime.
pub fn run(environment: &Environment, stdin: impl Read, places: &Places) -> Output {
    let mut version = UNKNOWN_VERSION.to_owned();
    match answer(environment, stdin, places, &mut version) {
        Ok(Answer::Result(value)) => Output { stdout: text(&value), code: 0 },
        Ok(Answer::Done) => Output { stdout: Vec::new(), code: 0 },
        Ok(Answer::Error(error)) | Err(error) => Output { stdout: text(&error.to_json(&version)), code: 1 },
    }
}

fn text(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

fn answer(
    environment: &Environment,
    stdin: impl Read,
    places: &Places,
    version_of_errors: &mut String,
) -> Result<Answer, CniError> {
    let command = environment.command.as_deref().ok_or_else(|| missing("CNI_COMMAND"))?;
    let verb = match command {
        "ADD" => Verb::Add,
        "DEL" => Verb::Del,
        "CHECK" => Verb::Check,
        "GC" => Verb::Gc,
        "STATUS" => Verb::Status,
        "VERSION" => return Ok(versions(stdin)),
        other => return Err(invalid("CNI_COMMAND", other, "is not a CNI command")),
    };
    let config = read_config(stdin)?;
    let version = version_of(&config)?;
    version.as_str().clone_into(version_of_errors);
    let since = match verb {
        Verb::Add | Verb::Del => Version::V0_3_1,
        Verb::Check => Version::V0_4_0,
        Verb::Gc | Verb::Status => Version::V1_1_0,
    };
    if version < since {
        let msg = format!("cniVersion {version} has no {command}");
        return Err(CniError::new(Code::IncompatibleVersion, msg, format!("use {since} or later")));
    }
    check_name(&config)?;
    let (container_id, ifname) = match verb {
        Verb::Gc | Verb::Status => Default::default(),
        Verb::Add | Verb::Del | Verb::Check => (container_id(environment)?, ifname(environment)?),
    };
    let netns = namespace(verb, environment)?;
    let request = Request {
        protocol: PROTOCOL,
        verb,
        container_id,
        ifname,
        netns: netns.is_some().then(|| environment.netns.clone()).flatten(),
        args: environment.args.clone().unwrap_or_default(),
        config,
    };
    call(&socket(&request.config, places)?, &request, version, netns.as_ref())
}

/// The version of the configuration, if it has one, and all supported versions.
fn versions(stdin: impl Read) -> Answer {
    let config = read_config(stdin).unwrap_or_default();
    let version = config["cniVersion"].as_str().and_then(Version::parse).unwrap_or(Version::V1_1_0);
    let supported = Version::ALL.map(Version::as_str);
    Answer::Result(json!({ "cniVersion": version.as_str(), "supportedVersions": supported }))
}

fn read_config(stdin: impl Read) -> Result<Value, CniError> {
    // The request holds the configuration, and something besides.
    let longest = LONGEST - 16 * 1024;
    let mut bytes = Vec::new();
    let limit = u64::try_from(longest).unwrap_or(u64::MAX) + 1;
    stdin.take(limit).read_to_end(&mut bytes).map_err(|error| {
        CniError::new(Code::Io, "cannot read the network configuration", error.to_string())
    })?;
    if bytes.len() > longest {
        let details = format!("more than {longest} bytes");
        return Err(CniError::new(Code::Decoding, "the network configuration is too long", details));
    }
    let config: Value = serde_json::from_slice(&bytes).map_err(|error| {
        CniError::new(Code::Decoding, "the network configuration is not JSON", error.to_string())
    })?;
    if config.is_object() {
        Ok(config)
    } else {
        Err(CniError::new(Code::Decoding, "the network configuration is not a JSON object", ""))
    }
}

fn version_of(config: &Value) -> Result<Version, CniError> {
    let supported = Version::ALL.map(Version::as_str).join(", ");
    let Some(text) = config["cniVersion"].as_str() else {
        let details = format!("cniVersion is missing; supported: {supported}");
        return Err(CniError::new(Code::InvalidConfig, "the network configuration has no version", details));
    };
    Version::parse(text).ok_or_else(|| {
        let details = format!("cniVersion is {text:?}; supported: {supported}");
        CniError::new(Code::IncompatibleVersion, "unsupported cniVersion", details)
    })
}

/// The network's name: required, and a word. Everything that a call makes is noted with it.
fn check_name(config: &Value) -> Result<(), CniError> {
    let wrong =
        |details| CniError::new(Code::InvalidConfig, "the network configuration has no valid name", details);
    let allowed = "begin with a letter or digit, then letters, digits, '_', '.' and '-'";
    match config.get("name") {
        None => Err(wrong(format!("name is missing; {allowed}"))),
        Some(Value::String(name)) if is_word(name) => Ok(()),
        Some(other) => {
            let shown: String = other.to_string().chars().take(300).collect();
            Err(wrong(format!("name is {shown}; {allowed}")))
        }
    }
}

/// `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, as the specification has it.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// A limit on the length is ours.
fn container_id(environment: &Environment) -> Result<String, CniError> {
    let id = environment.container_id.as_deref().ok_or_else(|| missing("CNI_CONTAINERID"))?;
    let fits = id.len() <= 128 && is_word(id);
    if fits { Ok(id.to_owned()) } else { Err(invalid("CNI_CONTAINERID", id, "is not a container id")) }
}

/// What the kernel allows as the name of a link.
fn ifname(environment: &Environment) -> Result<String, CniError> {
    let name = environment.ifname.as_deref().ok_or_else(|| missing("CNI_IFNAME"))?;
    let fits = (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(|b| b.is_ascii_graphic() && !b"/:".contains(&b));
    if fits {
        Ok(name.to_owned())
    } else {
        Err(invalid("CNI_IFNAME", name, "is not a name for an interface"))
    }
}

/// The container's namespace, opened. For DEL it need not exist any more.
fn namespace(verb: Verb, environment: &Environment) -> Result<Option<File>, CniError> {
    let needed = match verb {
        Verb::Add | Verb::Check => true,
        Verb::Del => false,
        Verb::Gc | Verb::Status => return Ok(None),
    };
    let Some(path) = environment.netns.as_deref() else {
        return if needed { Err(missing("CNI_NETNS")) } else { Ok(None) };
    };
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(_) if !needed => Ok(None),
        Err(error) => Err(invalid("CNI_NETNS", path, &format!("cannot be opened: {error}"))),
    }
}

/// The agent's socket. The configuration may name another than the default only if one of the node's own files does too: a
/// configuration may also come from a NetworkAttachmentDefinition, whose author must not choose the socket.
fn socket(config: &Value, places: &Places) -> Result<PathBuf, CniError> {
    let Some(wanted) = config.get("socket") else { return Ok(places.socket.clone()) };
    let refused = |details: String| CniError::new(Code::InvalidConfig, "socket is not allowed", details);
    let Some(wanted) = wanted.as_str() else { return Err(refused("socket is not a string".into())) };
    if Path::new(wanted) == places.socket
        || sockets_of_node(&places.configurations).iter().any(|own| own == wanted)
    {
        return Ok(wanted.into());
    }
    let directory = places.configurations.display();
    let types = PLUGIN_TYPES.join(", ");
    Err(refused(format!("{wanted:?} is in no configuration of type {types} in {directory}")))
}

fn sockets_of_node(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| ["conf", "conflist", "json"].iter().any(|one| extension == *one))
    });
    let configs = named
        .filter_map(|path| std::fs::read(path).ok())
        .filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
    let plugins = configs.flat_map(|config| match config.get("plugins") {
        Some(Value::Array(plugins)) => plugins.clone(),
        _ => vec![config],
    });
    let ours = plugins.filter(|plugin| PLUGIN_TYPES.iter().any(|ours| plugin["type"] == *ours));
    ours.filter_map(|plugin| plugin["socket"].as_str().map(str::to_owned)).collect()
}

fn call(
    socket: &Path,
    request: &Request,
    version: Version,
    netns: Option<&File>,
) -> Result<Answer, CniError> {
    let failed = |what: &str, error: &io::Error| {
        let details = format!("{}: {error}", socket.display());
        CniError::new(Code::TryAgainLater, what, details)
    };
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) => {
            let down = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            let answer = without_agent(request, version).filter(|_| down);
            return answer.ok_or_else(|| failed("the node's Portolan agent cannot be reached", &error));
        }
    };
    protocol::send(&mut stream, request, netns.map(AsFd::as_fd))
        .map_err(|error| failed("the node's Portolan agent does not accept calls", &error))?;
    match protocol::receive(&mut stream) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(failed(
            "the node's Portolan agent ended during the call",
            &io::Error::other("the connection was closed without an answer"),
        )),
        Err(error) => Err(failed("the node's Portolan agent gave no answer", &error)),
    }
}

/// The answer to a call that needs no agent: chained after another plugin, for a pod that asks Portolan for nothing. So an agent that
/// is down does not keep such pods from starting and ending.
fn without_agent(request: &Request, version: Version) -> Option<Answer> {
    let config = &request.config;
    if config["interfaces"] != FURTHER {
        return None;
    }
    let asks_for_nothing = annotations::ask_for_nothing(config);
    match request.verb {
        Verb::Add => asks_for_nothing
            .then(|| Answer::Result(AddResult::default().to_json(version, config.get("prevResult")))),
        Verb::Del | Verb::Check => asks_for_nothing.then_some(Answer::Done),
        // Whether the node is ready for pods is the first plugin's to say; those that need Portolan are tried again.
        Verb::Status => annotations::declared(config).then_some(Answer::Done),
        Verb::Gc => None,
    }
}

fn missing(variable: &str) -> CniError {
    CniError::new(Code::InvalidEnvironment, format!("{variable} is not set"), "")
}

fn invalid(variable: &str, value: &str, why: &str) -> CniError {
    let value: String = value.chars().take(300).collect();
    CniError::new(Code::InvalidEnvironment, format!("{variable} {why}"), format!("{value:?}"))
}
