//! The plugin itself: checks what the runtime gave, asks the agent, says what it answered.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::{CniError, Code};
use crate::protocol::{self, Answer, LONGEST, PROTOCOL, Request, Verb};
use crate::version::Version;
use crate::{DEFAULT_SOCKET, PLUGIN_TYPE};

/// The version in which an error is written when the call's own is not known.
const UNKNOWN_VERSION: &str = "1.0.0";

/// What the runtime said by environment variables.
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

/// Where things are on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The agent's socket, unless a configuration of the node names another.
    pub socket: PathBuf,
    /// The node's own network configurations.
    pub configurations: PathBuf,
}

/// What the runtime gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// For standard output.
    pub stdout: Vec<u8>,
    /// The exit code.
    pub code: u8,
}

impl Environment {
    /// That of this process. A variable that is empty counts as absent.
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

/// Does what a runtime asked for.
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
    said_version: &mut String,
) -> Result<Answer, CniError> {
    let command = environment.command.as_deref().ok_or_else(|| missing("CNI_COMMAND"))?;
    let verb = match command {
        "ADD" => Verb::Add,
        "DEL" => Verb::Del,
        "CHECK" => Verb::Check,
        "GC" => Verb::Gc,
        "STATUS" => Verb::Status,
        "VERSION" => return Ok(versions(stdin)),
        other => return Err(invalid("CNI_COMMAND", other, "is no command of CNI")),
    };
    let config = read_config(stdin)?;
    let version = version_of(&config)?;
    version.as_str().clone_into(said_version);
    let since = match verb {
        Verb::Add | Verb::Del => Version::V0_3_1,
        Verb::Check => Version::V0_4_0,
        Verb::Gc | Verb::Status => Version::V1_1_0,
    };
    if version < since {
        let details = format!("{command} came with {since}");
        return Err(CniError::new(
            Code::IncompatibleVersion,
            format!("CNI {version} has no {command}"),
            details,
        ));
    }
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
    ask(&socket(&request.config, places)?, &request, netns.as_ref())
}

/// The version of the call, if what is on standard input says one, and all that there are.
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
    let spoken = Version::ALL.map(Version::as_str).join(", ");
    let Some(text) = config["cniVersion"].as_str() else {
        let details = format!("cniVersion is missing; it may be {spoken}");
        return Err(CniError::new(Code::InvalidConfig, "the network configuration has no version", details));
    };
    Version::parse(text).ok_or_else(|| {
        let details = format!("cniVersion is {text:?}; it may be {spoken}");
        CniError::new(Code::IncompatibleVersion, "incompatible CNI version", details)
    })
}

/// `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, as the specification has it; a limit on the length is ours.
fn container_id(environment: &Environment) -> Result<String, CniError> {
    let id = environment.container_id.as_deref().ok_or_else(|| missing("CNI_CONTAINERID"))?;
    let fits = id.len() <= 128
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if fits { Ok(id.to_owned()) } else { Err(invalid("CNI_CONTAINERID", id, "is no container id")) }
}

/// What the kernel allows as the name of a link.
fn ifname(environment: &Environment) -> Result<String, CniError> {
    let name = environment.ifname.as_deref().ok_or_else(|| missing("CNI_IFNAME"))?;
    let fits = (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(|b| b.is_ascii_graphic() && !b"/:".contains(&b));
    if fits { Ok(name.to_owned()) } else { Err(invalid("CNI_IFNAME", name, "is no name for an interface")) }
}

/// The container's namespace, opened. For DEL it may be gone.
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

/// The agent's socket. The configuration may name another than the default only if one of the node's own does too: a
/// configuration may also come from a network attachment definition, and whoever wrote that is not trusted with this.
fn socket(config: &Value, places: &Places) -> Result<PathBuf, CniError> {
    let Some(wanted) = config.get("socket") else { return Ok(places.socket.clone()) };
    let refused = |details: String| CniError::new(Code::InvalidConfig, "the socket may not be used", details);
    let Some(wanted) = wanted.as_str() else { return Err(refused("socket is not a string".into())) };
    if Path::new(wanted) == places.socket
        || sockets_of_node(&places.configurations).iter().any(|own| own == wanted)
    {
        return Ok(wanted.into());
    }
    let directory = places.configurations.display();
    Err(refused(format!("{wanted:?} is in no configuration in {directory} for {PLUGIN_TYPE}")))
}

fn sockets_of_node(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = files.filter(|path| {
        path.extension().is_some_and(|extension| extension == "conf" || extension == "conflist")
    });
    let configs = named
        .filter_map(|path| std::fs::read(path).ok())
        .filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
    let plugins = configs.flat_map(|config| match config.get("plugins") {
        Some(Value::Array(plugins)) => plugins.clone(),
        _ => vec![config],
    });
    let ours = plugins.filter(|plugin| plugin["type"] == PLUGIN_TYPE);
    ours.filter_map(|plugin| plugin["socket"].as_str().map(str::to_owned)).collect()
}

fn ask(socket: &Path, request: &Request, netns: Option<&File>) -> Result<Answer, CniError> {
    let failed = |what: &str, error: &io::Error| {
        let details = format!("{}: {error}", socket.display());
        CniError::new(Code::TryAgainLater, what, details)
    };
    let mut stream = UnixStream::connect(socket)
        .map_err(|error| failed("the node's Portolan agent cannot be reached", &error))?;
    protocol::send(&mut stream, request, netns.map(AsFd::as_fd))
        .map_err(|error| failed("the node's Portolan agent does not listen", &error))?;
    match protocol::receive(&mut stream) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(failed(
            "the node's Portolan agent went away",
            &io::Error::other("the connection was closed without an answer"),
        )),
        Err(error) => Err(failed("the node's Portolan agent gave no answer", &error)),
    }
}

fn missing(variable: &str) -> CniError {
    CniError::new(Code::InvalidEnvironment, format!("{variable} is not set"), "")
}

fn invalid(variable: &str, value: &str, why: &str) -> CniError {
    let value: String = value.chars().take(300).collect();
    CniError::new(Code::InvalidEnvironment, format!("{variable} {why}"), format!("{value:?}"))
}
