//! The templates with the usual values are the usual objects. What Helm does with an expression is played for the few that there are.

use serde_json::Value;

use super::*;
use crate::installation::AgentAdmission;

/// Values, as far as the templates ask for them.
struct Values<'a> {
    installation: &'a Installation,
}

impl Values<'_> {
    fn holds(&self, condition: &str) -> bool {
        match condition {
            "if .Values.openVswitch.deploy" => self.installation.open_vswitch != OpenVswitch::Hosts,
            "if .Values.agentAdmission" => self.installation.agent_admission == AgentAdmission::OwnNode,
            "if eq .Values.mode \"primary\"" => self.installation.mode == Mode::Primary,
            "if .Values.apiServer.host" => self.installation.api_server.is_some(),
            other => panic!("no condition of the templates: {other}"),
        }
    }

    fn put_into(&self, line: &str) -> String {
        let one = self.installation;
        let ovs = match &one.open_vswitch {
            OpenVswitch::Ours { image } => image.as_str(),
            OpenVswitch::Hosts => "",
        };
        let plugin = if one.mode == Mode::Primary { "alone" } else { "chained" };
        let (host, port) =
            one.api_server.as_ref().map(|api| (api.host.clone(), api.port.to_string())).unwrap_or_default();
        line.replace("{{ .Release.Namespace }}", &one.namespace)
            .replace("{{ .Values.image }}", &one.image)
            .replace("{{ .Values.openVswitch.image }}", ovs)
            .replace("{{ .Values.controllers }}", &one.controllers.to_string())
            .replace("{{ .Values.ovnMembers }}", &one.members.number().to_string())
            .replace("{{ .Values.cni.configurations }}", &one.directories.configurations)
            .replace("{{ .Values.cni.programs }}", &one.directories.programs)
            .replace("{{ .Values.apiServer.host | quote }}", &format!("{host:?}"))
            .replace("{{ .Values.apiServer.port | quote }}", &format!("{port:?}"))
            .replace("{{ ternary \"alone\" \"chained\" (eq .Values.mode \"primary\") }}", plugin)
    }

    fn render(&self, template: &str) -> String {
        let mut text = String::new();
        let mut conditions = Vec::new();
        let mut range: Option<&[ipnet::IpNet]> = None;
        for line in template.lines().skip(7) {
            if let Some(expression) = line.strip_prefix("{{- ").and_then(|line| line.strip_suffix(" }}")) {
                match expression {
                    "end" if range.is_some() => range = None,
                    "end" => drop(conditions.pop()),
                    "range .Values.clusterNetworks" => range = Some(&self.installation.cluster_networks),
                    "range .Values.serviceNetworks" => range = Some(&self.installation.service_networks),
                    condition => conditions.push(self.holds(condition)),
                }
            } else if let Some(networks) = range {
                for network in networks {
                    text += &format!("{}\n", line.replace("{{ . }}", &network.to_string()));
                }
            } else if conditions.iter().all(|holds| *holds) {
                text += &format!("{}\n", self.put_into(line));
            }
        }
        assert!(!text.contains("{{"), "an expression is not known: {text}");
        text
    }
}

fn templates_are(installation: &Installation) {
    let text = Values { installation }.render(&templates().expect("it is a valid installation"));
    let rendered: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
    let rendered: Vec<&Value> = rendered.iter().filter(|value| !value.is_null()).collect();
    let all = objects(installation).expect("it is a valid installation");
    let expected: Vec<&Object> = all.iter().filter(|object| !is_helms(object)).collect();
    assert_eq!(rendered.len(), expected.len());
    for (rendered, expected) in rendered.iter().zip(expected) {
        let mut rendered = (*rendered).clone();
        for container in rendered
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            // An empty list is as good as none.
            if container["env"].is_null() && container.get("env").is_some() {
                container["env"] = serde_json::json!([]);
            }
        }
        assert_eq!(&rendered, expected.value(), "{}", expected.description());
    }
}

#[test]
fn the_templates_are_the_objects_of_every_installation() {
    templates_are(&Installation::new(Mode::Secondary));
    let mut other = Installation::new(Mode::Primary);
    other.namespace = "networks".into();
    other.image = "registry.example/p:2".into();
    other.open_vswitch = OpenVswitch::Hosts;
    other.controllers = 3;
    other.members = Members::Three;
    other.agent_admission = AgentAdmission::Off;
    other.cluster_networks = ["10.0.0.0/8", "fd00::/8"].iter().filter_map(|one| one.parse().ok()).collect();
    other.service_networks = ["10.96.0.0/16"].iter().filter_map(|one| one.parse().ok()).collect();
    other.directories.programs = "/usr/libexec/cni".into();
    let port = NonZeroU16::new(6443).expect("it is not 0");
    other.api_server = Some(ApiServer { host: "192.0.2.1".into(), port });
    templates_are(&other);
}

#[test]
fn values_and_metadata_are_yaml() {
    for (path, text) in chart().expect("it is a valid installation") {
        if !path.starts_with("templates/") {
            let read: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
            assert!(read.is_ok(), "{path}: {read:?}");
        }
    }
    let addon: Vec<Value> = serde_saphyr::from_multiple(&harvester_addon()).expect("it is YAML");
    let values: Value =
        serde_saphyr::from_str(addon[1]["spec"]["valuesContent"].as_str().unwrap_or_default())
            .expect("it is YAML");
    assert_eq!(values["mode"], "secondary");
}
