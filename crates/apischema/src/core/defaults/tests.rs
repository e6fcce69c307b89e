use serde_json::{Value, json};

use crate::core::default;

#[track_caller]
fn check(group: &str, kind: &str, before: Value, after: &Value) {
    let mut object = before;
    default(group, kind, &mut object);
    assert_eq!(object, *after);
    default(group, kind, &mut object);
    assert_eq!(object, *after);
}

#[test]
fn a_pod_gets_what_kube_apiserver_gives_it() {
    check(
        "",
        "Pod",
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {}},
            "spec": {
                "hostNetwork": false, "nodeName": "", "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
                "containers": [{
                    "name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1000m", "memory": 1024}},
                    "livenessProbe": {"httpGet": {"port": 80}},
                    "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "F"}],
                }],
            },
        }),
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {
                "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}],
                "containers": [{
                    "name": "c", "image": "nginx", "imagePullPolicy": "Always",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {
                        "limits": {"cpu": "1", "memory": "1024"}, "requests": {"cpu": "1", "memory": "1024"},
                    },
                    "livenessProbe": {
                        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
                        "successThreshold": 1, "failureThreshold": 3,
                    },
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "env": [
                        {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
                        {"name": "F"},
                    ],
                }],
            },
            "status": {},
        }),
    );
}

#[test]
fn images_are_pulled_always_only_if_they_may_change() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/a/b", "Always"),
        ("host:5000/a/b:v1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "Always"),
        ("UPPER", "IfNotPresent"),
        ("", "IfNotPresent"),
    ] {
        let mut pod = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
        default("", "Pod", &mut pod);
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn a_service_gets_what_kube_apiserver_gives_it() {
    check(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "http", "protocol": "UDP"}]}}),
        &json!({
            "metadata": {},
            "spec": {
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [
                    {"port": 80, "protocol": "TCP", "targetPort": 80},
                    {"port": 81, "protocol": "UDP", "targetPort": "http"},
                ],
            },
            "status": {"loadBalancer": {}},
        }),
    );
    let mut balancer = json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}});
    default("", "Service", &mut balancer);
    assert_eq!(
        balancer["spec"],
        json!({
            "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
            "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        })
    );
}

#[test]
fn what_is_zero_goes_and_what_is_always_written_comes() {
    check(
        "",
        "Event",
        json!({"count": 0, "involvedObject": {"name": ""}, "firstTimestamp": "2024-01-01T02:00:00.123+01:00"}),
        &json!({
            "metadata": {}, "involvedObject": {}, "source": {}, "eventTime": null, "lastTimestamp": null,
            "firstTimestamp": "2024-01-01T01:00:00Z", "reportingComponent": "", "reportingInstance": "",
        }),
    );
    check(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ]}),
        &json!({
            "metadata": {},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ],
        }),
    );
    check("rbac.authorization.k8s.io", "Role", json!({}), &json!({"metadata": {}, "rules": null}));
    check(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"leaseTransitions": 0, "renewTime": "2024-01-01T01:00:00.500000+01:00", "holderIdentity": null}}),
        &json!({"metadata": {}, "spec": {"leaseTransitions": 0, "renewTime": "2024-01-01T00:00:00.500000Z"}}),
    );
}

#[test]
fn a_deployment_gets_what_kube_apiserver_gives_it() {
    check(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 0, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {
                "limits": {"cpu": "0.5"},
            }}]},
        }}}),
        &json!({
            "metadata": {},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}}, "replicas": 0, "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                        "securityContext": {}, "terminationGracePeriodSeconds": 30,
                        "containers": [{
                            "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent",
                            "resources": {"limits": {"cpu": "500m"}},
                            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        }],
                    },
                },
            },
            "status": {},
        }),
    );
}

#[test]
fn a_crd_gets_what_kube_apiserver_gives_it() {
    check(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        json!({"spec": {
            "group": "g", "scope": "Cluster", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"a": {"type": "string", "default": "", "nullable": false}},
            }}}],
        }}),
        &json!({
            "metadata": {},
            "spec": {
                "group": "g", "scope": "Cluster", "conversion": {"strategy": "None"},
                "names": {"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"a": {"type": "string", "default": ""}},
                }}}],
            },
            "status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": ["v1"]},
        }),
    );
}

#[test]
fn other_kinds_get_theirs() {
    let part = |group: &str, kind: &str, mut object: Value, pointer: &str| {
        default(group, kind, &mut object);
        let again = object.clone();
        default(group, kind, &mut object);
        assert_eq!(object, again, "{kind}");
        object.pointer(pointer).cloned().unwrap_or_default()
    };
    assert_eq!(
        part("", "Namespace", json!({"metadata": {"name": "n"}}), ""),
        json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}, "spec": {},
            "status": {"phase": "Active"},
        })
    );
    assert_eq!(
        part("", "Secret", json!({"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eQ=="}}), ""),
        json!({"metadata": {}, "type": "Opaque", "data": {"a": "Yg==", "c": "eQ=="}})
    );
    assert_eq!(
        part("", "Node", json!({"status": {"capacity": {"cpu": 2}}}), "/status"),
        json!({
            "capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}, "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            },
        })
    );
    assert_eq!(
        part(
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}}),
            "/spec"
        ),
        json!({
            "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
            "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
        })
    );
    assert_eq!(
        part("discovery.k8s.io", "EndpointSlice", json!({"addressType": "IPv4", "ports": [{"port": 1}]}), ""),
        json!({
            "metadata": {}, "addressType": "IPv4", "endpoints": null,
            "ports": [{"name": "", "port": 1, "protocol": "TCP"}],
        })
    );
    let webhook =
        json!({"webhooks": [{"name": "w", "rules": [{}], "clientConfig": {"service": {"name": "s"}}}]});
    let webhook =
        part("admissionregistration.k8s.io", "MutatingWebhookConfiguration", webhook, "/webhooks/0");
    assert_eq!(
        webhook,
        json!({
            "name": "w", "rules": [{"scope": "*"}], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
            "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10, "reinvocationPolicy": "Never",
            "admissionReviewVersions": null, "sideEffects": null,
            "clientConfig": {"service": {"name": "s", "namespace": "", "port": 443}},
        })
    );
    assert_eq!(part("batch", "Job", json!({"spec": {}}), "/spec/completionMode"), json!("NonIndexed"));
    assert_eq!(
        part("apps", "StatefulSet", json!({}), "/spec/updateStrategy"),
        json!({
            "type": "RollingUpdate", "rollingUpdate": {"partition": 0},
        })
    );
    assert_eq!(
        part("apps", "DaemonSet", json!({}), "/spec/updateStrategy"),
        json!({
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        })
    );
}

#[test]
fn no_kind_minds_odd_objects() {
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!({"spec": [], "status": 1, "metadata": "x"}),
        json!({
            "spec": {"containers": "x", "ports": [1, null], "template": [], "names": 3, "versions": {}, "limits": [null]},
            "webhooks": [null, {}], "subjects": [[]], "roleRef": null, "stringData": {"a": 1},
        }),
    ];
    for kind in crate::core::kinds() {
        for object in &odd {
            let mut object = object.clone();
            default(&kind.group, &kind.kind, &mut object);
            let again = object.clone();
            default(&kind.group, &kind.kind, &mut object);
            assert_eq!(object, again, "{}", kind.kind);
            let _ = crate::core::decode_error(&kind.group, &kind.version, &kind.kind, &object);
        }
    }
}

#[test]
fn what_cannot_be_read_is_told_as_go_tells_it() {
    let error = |object: Value| crate::core::decode_error("", "v1", "Pod", &object);
    let lease = |time: &str| {
        crate::core::decode_error("coordination.k8s.io", "v1", "Lease", &json!({"spec": {"renewTime": time}}))
    };
    assert_eq!(lease("2024-01-01T00:00:00.000000Z"), None);
    assert_eq!(
        lease("2024-01-01T00:00:00Z").unwrap(),
        "parsing time \"2024-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
    );
    assert_eq!(error(json!({"spec": {"containers": [{"name": "c", "args": null}]}})), None);
    for (object, message) in [
        (
            json!({"spec": {"containers": "x"}}),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            json!({"spec": {"containers": [{"name": 1}]}}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            json!({"metadata": {"labels": {"a": true}}}),
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            json!({"spec": {"restartPolicy": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            json!({"spec": {"containers": [{"args": [1]}]}}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.args of type string",
        ),
        (
            json!({"spec": {"terminationGracePeriodSeconds": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(error(object).as_deref(), Some(message));
    }
}
