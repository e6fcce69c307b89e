package main

import kjson "sigs.k8s.io/json"

func parse(text string) any {
	if text == "" {
		return nil
	}
	var out any
	check(kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &out))
	return out
}

// foo is a custom resource with this spec.
func foo(spec string) any {
	return parse(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"n","namespace":"ns"},"spec":` + spec + `}`)
}

// owned is a stored custom resource with this spec and these managers.
func owned(spec, managers string) any {
	out := foo(spec).(object)
	meta := out["metadata"].(object)
	meta["uid"] = "u"
	if managers != "" {
		meta["managedFields"] = parse(managers)
	}
	return out
}

func entry(manager, operation, fields, more string) string {
	return `{"manager":"` + manager + `","operation":"` + operation + `","apiVersion":"example.com/v1","time":"2024-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":` + fields + more + `}`
}

// handmade are cases that chance would seldom find.
func handmade() []applyCase {
	const now = "2024-01-01T00:00:01Z"
	apply := func(name, manager string, live, object any) applyCase {
		return applyCase{Name: name, Operation: "apply", Manager: manager, Live: live, Object: object, Now: now}
	}
	update := func(name, manager string, live, object any) applyCase {
		return applyCase{Name: name, Operation: "update", Manager: manager, Live: live, Object: object, Now: now}
	}
	forced := func(c applyCase) applyCase { c.Force = true; return c }

	var many string
	for i := range 12 {
		if i > 0 {
			many += ","
		}
		many += `{"manager":"u` + string(rune('a'+i)) + `","operation":"Update","apiVersion":"example.com/v1","time":"2023-01-01T00:00:` + string(rune('0'+i/10)) + string(rune('0'+i%10)) + `Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:labels":{"f:` + string(rune('a'+i)) + `":{}}}}}`
	}
	manyLabels := `{"labels":{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1","j":"1","k":"1","l":"1"}}`
	annotated := func(spec, last string) any {
		out := owned(spec, `[`+entry("kubectl-client-side-apply", "Update", `{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}},"f:spec":{".":{},"f:name":{},"f:replicas":{}}}`, "")+`]`).(object)
		out["metadata"].(object)["annotations"] = object{"kubectl.kubernetes.io/last-applied-configuration": last}
		return out
	}
	last := string(encode(foo(`{"name":"a","replicas":1}`))) + "\n"

	withManaged := foo(`{}`).(object)
	withManaged["metadata"].(object)["managedFields"] = []any{}
	otherKind := foo(`{}`).(object)
	otherKind["kind"] = "Bar"
	otherVersion := foo(`{}`).(object)
	otherVersion["apiVersion"] = "example.com/v2"
	oddVersion := `{"manager":"old","operation":"Update","apiVersion":"example.com/v9","time":"2024-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:name":{}}}}`

	return []applyCase{
		apply("applies to nothing", "m", nil, foo(`{"name":"a","labels":{"x":"1"}}`)),
		update("creates", "m", nil, foo(`{"name":"a","labels":{"x":"1"},"nested":{"b":{"c":"1"}},"ports":[{"port":80}],"raw":{"a":{"b":1}},"plain":[{"a":"1"}],"whole":{"a":"1"},"hosts":["h"]}`)),
		update("creates without a manager", "", nil, foo(`{"name":"a"}`)),
		update("creates with nothing to own", "m", nil, parse(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"n"}}`)),
		apply("has no manager", "", nil, foo(`{"name":"a"}`)),
		apply("applies to what nobody manages", "m", owned(`{"name":"a","replicas":1}`, ""), foo(`{"replicas":1}`)),
		apply("changes what nobody manages", "m", owned(`{"name":"a","replicas":1}`, ""), foo(`{"replicas":2}`)),
		forced(apply("takes what nobody manages", "m", owned(`{"name":"a","replicas":1}`, ""), foo(`{"replicas":2}`))),
		update("updates what nobody manages", "m", owned(`{"name":"a"}`, ""), owned(`{"name":"b"}`, "")),
		apply("conflicts once", "m", owned(`{"name":"a"}`, `[`+entry("other", "Update", `{"f:spec":{"f:name":{}}}`, "")+`]`), foo(`{"name":"b"}`)),
		apply("conflicts with an applier", "m", owned(`{"name":"a"}`, `[`+entry("other", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), foo(`{"name":"b"}`)),
		apply("conflicts on a subresource", "m", owned(`{"name":"a"}`, `[`+entry("other", "Update", `{"f:spec":{"f:name":{}}}`, `,"subresource":"status"`)+`]`), foo(`{"name":"b"}`)),
		apply("conflicts with several", "m", owned(`{"name":"a","replicas":1,"flag":true}`, `[`+entry("b", "Update", `{"f:spec":{"f:name":{},"f:flag":{}}}`, "")+`,`+entry("a", "Apply", `{"f:spec":{"f:replicas":{}}}`, "")+`]`), foo(`{"name":"b","replicas":2,"flag":false}`)),
		apply("shares an equal value", "m", owned(`{"name":"a"}`, `[`+entry("other", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), foo(`{"name":"a"}`)),
		apply("removes what it applied", "m", owned(`{"name":"a","replicas":1,"nested":{"b":{"c":"1"}}}`, `[`+entry("m", "Apply", `{"f:spec":{"f:name":{},"f:replicas":{},"f:nested":{"f:b":{"f:c":{}}}}}`, "")+`]`), foo(`{"name":"a"}`)),
		apply("keeps what others own", "m", owned(`{"name":"a","replicas":1}`, `[`+entry("m", "Apply", `{"f:spec":{"f:name":{},"f:replicas":{}}}`, "")+`,`+entry("o", "Update", `{"f:spec":{"f:replicas":{}}}`, "")+`]`), foo(`{"name":"a"}`)),
		apply("removes list elements", "m", owned(`{"ports":[{"port":80,"protocol":"TCP"},{"port":81,"protocol":"TCP","name":"x"}],"hosts":["a","b"]}`, `[`+entry("m", "Apply", `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:hosts":{"v:\"a\"":{},"v:\"b\"":{}}}}`, "")+`]`), foo(`{"ports":[{"port":80}],"hosts":["b"]}`)),
		apply("owns nothing any more", "m", owned(`{"name":"a"}`, `[`+entry("m", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), parse(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"n","namespace":"ns"}}`)),
		apply("applies an empty struct", "m", owned(`{"labels":{"x":"1"}}`, `[`+entry("m", "Apply", `{"f:spec":{"f:labels":{"f:x":{}}}}`, "")+`]`), foo(`{}`)),
		apply("leaves something beside", "m", owned(`{"labels":{"x":"1","dangling":"2"},"name":"dangling"}`, `[`+entry("m", "Apply", `{"f:spec":{"f:labels":{"f:x":{}}}}`, "")+`]`), foo(`{}`)),
		apply("applies the same again", "m", owned(`{"name":"a"}`, `[`+entry("m", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), foo(`{"name":"a"}`)),
		apply("orders a merged list", "m", owned(`{"containers":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]}`, `[`+entry("o", "Update", `{"f:spec":{"f:containers":{".":{}}}}`, "")+`]`), foo(`{"containers":[{"name":"d"},{"name":"x"},{"name":"b"}]}`)),
		apply("applies a duplicate", "m", nil, foo(`{"ports":[{"port":80},{"port":80,"protocol":"TCP"}]}`)),
		apply("applies a duplicate value", "m", nil, foo(`{"hosts":["a","a"]}`)),
		apply("applies an element without a key", "m", nil, foo(`{"containers":[{"image":"x"}]}`)),
		apply("applies a null element", "m", nil, foo(`{"containers":[null]}`)),
		apply("applies a plain element", "m", nil, foo(`{"containers":["x"]}`)),
		apply("applies an object to a set", "m", nil, foo(`{"hosts":[{"a":1}]}`)),
		apply("applies null to a set", "m", nil, foo(`{"hosts":[null]}`)),
		apply("applies a list to a set", "m", nil, foo(`{"hosts":[["a"]]}`)),
		apply("applies an unknown field", "m", nil, foo(`{"oops":1}`)),
		apply("applies a nested unknown field", "m", nil, foo(`{"nested":{"b":{"oops":1}}}`)),
		apply("applies a text for a boolean", "m", nil, foo(`{"flag":"x"}`)),
		apply("applies a number for a text", "m", nil, foo(`{"name":5}`)),
		apply("applies a text for a number", "m", nil, foo(`{"replicas":"many"}`)),
		apply("applies a list for a map", "m", nil, foo(`{"labels":[1]}`)),
		apply("applies a map for a list", "m", nil, foo(`{"hosts":{"a":1}}`)),
		apply("applies wrong elements", "m", nil, foo(`{"hosts":[5,true]}`)),
		apply("applies a wrong field of an element", "m", nil, foo(`{"plain":[{"a":true}]}`)),
		apply("applies a wrong scalar", "m", nil, foo(`{"name":{"a":[1,"x",null,1.5]}}`)),
		apply("applies a float for a string", "m", nil, foo(`{"name":1.5}`)),
		apply("applies an object for a date", "m", nil, foo(`{"when":{}}`)),
		apply("applies nulls", "m", nil, foo(`{"name":null,"labels":null,"hosts":null,"nested":{"b":null}}`)),
		apply("applies nulls over values", "m", owned(`{"name":"a","labels":{"x":"1"},"hosts":["h"],"nested":{"a":"1","b":{"c":"1"}},"whole":{"a":"1"},"plain":[{"a":"1"}]}`, `[`+entry("m", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), foo(`{"name":null,"labels":null,"hosts":null,"nested":{"b":null},"whole":null,"plain":null}`)),
		apply("applies empty things", "m", nil, foo(`{"labels":{},"hosts":[],"nested":{"b":{}},"raw":{},"plain":[]}`)),
		apply("deduces the form of untyped values", "m", owned(`{"raw":{"a":"text","b":{"c":1},"d":[1]}}`, `[`+entry("o", "Update", `{"f:spec":{"f:raw":{".":{},"f:a":{},"f:b":{".":{},"f:c":{}},"f:d":{}}}}`, "")+`]`), foo(`{"raw":{"a":{"x":1},"b":"text","d":{"e":2}}}`)),
		forced(apply("forces another form on untyped values", "m", owned(`{"raw":{"a":"text","b":{"c":1},"d":[1]}}`, `[`+entry("o", "Update", `{"f:spec":{"f:raw":{".":{},"f:a":{},"f:b":{".":{},"f:c":{}},"f:d":{}}}}`, "")+`]`), foo(`{"raw":{"a":{"x":1},"b":"text","d":{"e":2}}}`))),
		apply("has managed fields", "m", nil, withManaged),
		apply("is of another kind", "m", nil, otherKind),
		apply("is of another version", "m", nil, otherVersion),
		apply("meets a version that is gone", "m", owned(`{"name":"a"}`, `[`+oddVersion+`]`), foo(`{"name":"b"}`)),
		update("meets a version that is gone by update", "m", owned(`{"name":"a"}`, `[`+oddVersion+`]`), owned(`{"name":"a","replicas":1}`, "")),
		apply("meets fields that became one", "m", owned(`{"selector":{"a":"1"},"whole":{"a":"1"},"plain":[{"a":"1"}]}`, `[`+entry("o", "Update", `{"f:spec":{"f:selector":{".":{},"f:a":{}},"f:whole":{"f:a":{}},"f:plain":{"i:0":{}}}}`, "")+`]`), foo(`{"selector":{"b":"1"}}`)),
		update("updates fields that became one", "m", owned(`{"selector":{"a":"1"},"whole":{"a":"1"}}`, `[`+entry("o", "Update", `{"f:spec":{"f:selector":{".":{},"f:a":{}},"f:whole":{"f:a":{}}}}`, "")+`]`), owned(`{"selector":{"a":"1"},"whole":{"a":"1"},"name":"x"}`, "")),
		apply("cannot read managed fields", "m", owned(`{"name":"a"}`, `[{"manager":"x","operation":"Update","apiVersion":"v1"}]`), foo(`{"name":"b"}`)),
		apply("cannot read an operation", "m", owned(`{"name":"a"}`, `[{"manager":"x","operation":"Oops","apiVersion":"v1","fieldsType":"FieldsV1"}]`), foo(`{"name":"b"}`)),
		apply("cannot read a version", "m", owned(`{"name":"a"}`, `[{"manager":"x","operation":"Update","fieldsType":"FieldsV1"}]`), foo(`{"name":"b"}`)),
		apply("cannot read a type", "m", owned(`{"name":"a"}`, `[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"V2"}]`), foo(`{"name":"b"}`)),
		update("cannot read managed fields by update", "m", owned(`{"name":"a"}`, `[{"manager":"x","operation":"Update","apiVersion":"v1"}]`), owned(`{"name":"b"}`, "")),
		update("changes nothing", "m", owned(`{"name":"a"}`, `[`+entry("m", "Update", `{"f:spec":{"f:name":{}}}`, "")+`]`), owned(`{"name":"a"}`, "")),
		update("takes from another", "m", owned(`{"name":"a","replicas":1}`, `[`+entry("o", "Apply", `{"f:spec":{"f:name":{},"f:replicas":{}}}`, "")+`]`), owned(`{"name":"b","replicas":1}`, "")),
		update("takes all from another", "m", owned(`{"name":"a"}`, `[`+entry("o", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), owned(`{"name":"b"}`, "")),
		update("removes fields of others", "m", owned(`{"name":"a","labels":{"x":"1"}}`, `[`+entry("o", "Apply", `{"f:spec":{"f:name":{},"f:labels":{"f:x":{}}}}`, "")+`]`), owned(`{"name":"a"}`, "")),
		update("brings its own managers", "m", owned(`{"name":"a"}`, `[`+entry("o", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), owned(`{"name":"a","replicas":1}`, `[`+entry("p", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`)),
		update("resets managers", "m", owned(`{"name":"a"}`, `[`+entry("o", "Apply", `{"f:spec":{"f:name":{}}}`, "")+`]`), owned(`{"name":"b"}`, `[{}]`)),
		update("makes duplicates", "m", owned(`{"containers":[{"name":"a","image":"1"}]}`, `[`+entry("o", "Apply", `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{}}}}}`, "")+`]`), owned(`{"containers":[{"name":"a","image":"1"},{"name":"a","image":"2"}]}`, "")),
		update("changes duplicates", "m", owned(`{"containers":[{"name":"a","image":"1"},{"name":"a","image":"2"}]}`, `[`+entry("o", "Update", `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{}}}}`, "")+`]`), owned(`{"containers":[{"name":"a","image":"1"},{"name":"a","image":"3"}]}`, "")),
		update("resolves duplicates", "m", owned(`{"containers":[{"name":"a","image":"1"},{"name":"a","image":"2"}]}`, `[`+entry("o", "Update", `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{}}}}`, "")+`]`), owned(`{"containers":[{"name":"a","image":"1"}]}`, "")),
		apply("applies over duplicates", "m", owned(`{"containers":[{"name":"a","image":"1"},{"name":"b"},{"name":"a","image":"2"}]}`, `[`+entry("o", "Update", `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{}}}}`, "")+`]`), foo(`{"containers":[{"name":"b"}]}`)),
		forced(apply("replaces duplicates", "m", owned(`{"containers":[{"name":"a","image":"1"},{"name":"b"},{"name":"a","image":"2"}]}`, `[`+entry("o", "Update", `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{}}}}`, "")+`]`), foo(`{"containers":[{"name":"a","image":"3"}]}`))),
		update("is one too many", "m", owned(manyLabels, `[`+many+`]`), owned(`{"name":"x","labels":{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1","j":"1","k":"1","l":"1"}}`, "")),
		apply("follows client-side apply", "kubectl", annotated(`{"name":"a","replicas":1}`, last), foo(`{"name":"b","replicas":1}`)),
		apply("follows client-side apply that was changed", "kubectl", annotated(`{"name":"z","replicas":1}`, last), foo(`{"name":"b","replicas":2}`)),
		apply("follows client-side apply as someone else", "m", annotated(`{"name":"a","replicas":1}`, last), foo(`{"name":"b","replicas":1}`)),
		apply("follows nonsense", "kubectl", annotated(`{"name":"a","replicas":1}`, "nonsense"), foo(`{"name":"b","replicas":1}`)),
		apply("escapes what it applied", "kubectl", annotated(`{"name":"a","replicas":1}`, last), foo(`{"name":"<b>&","ratio":1.0}`)),
		{Name: "ignores reset fields", Operation: "update", Manager: "m", Object: foo(`{"name":"a"}`), Now: now, Reset: []string{"spec"}},
		{Name: "applies reset fields", Operation: "apply", Manager: "m", Object: foo(`{"name":"a"}`), Now: now, Reset: []string{"spec"}, Subresource: "status"},
		{Name: "writes another version", Operation: "update", Version: "v2", Manager: "m", Live: reversion(owned(`{"name":"a"}`, `[`+entry("o", "Update", `{"f:spec":{"f:name":{}}}`, "")+`]`)), Object: reversion(owned(`{"name":"b"}`, "")), Now: now},
		{Name: "conflicts at another version", Operation: "apply", Version: "v2", Manager: "m", Live: reversion(owned(`{"name":"a"}`, `[`+entry("o", "Update", `{"f:spec":{"f:name":{}}}`, "")+`]`)), Object: reversion(foo(`{"name":"b"}`)), Now: now},
		{Name: "moves an applier to another version", Operation: "apply", Version: "v2", Manager: "m", Live: reversion(owned(`{"name":"a","replicas":1}`, `[`+entry("m", "Apply", `{"f:spec":{"f:name":{},"f:replicas":{}}}`, "")+`]`)), Object: reversion(foo(`{"name":"b"}`)), Now: now},
	}
}

func reversion(value any) any {
	value.(object)["apiVersion"] = "example.com/v2"
	return value
}

// coreSequences are writes to objects of Kubernetes' own kinds, one after the other.
func coreSequences() [][]applyCase {
	write := func(operation, group, version, kind, manager, subresource string, resets []string, text string) applyCase {
		out := parse(text).(object)
		out["apiVersion"] = version
		if group != "" {
			out["apiVersion"] = group + "/" + version
		}
		out["kind"] = kind
		return applyCase{Operation: operation, Group: group, Version: version, Kind: kind, Manager: manager, Subresource: subresource, Reset: resets, Object: out}
	}
	main, status := []string{"status"}, []string{"spec", "metadata"}
	deployment := func(operation, manager, text string) applyCase {
		return write(operation, "apps", "v1", "Deployment", manager, "", main, text)
	}
	pod := func(operation, manager, subresource string, resets []string, text string) applyCase {
		return write(operation, "", "v1", "Pod", manager, subresource, resets, text)
	}
	base := `{"metadata":{"name":"d","namespace":"ns","labels":{"app":"d"}},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"env":[{"name":"E","value":"1"}],"resources":{"limits":{"cpu":"1"}}}]}}}}`
	return [][]applyCase{
		{
			deployment("update", "creator", base),
			deployment("apply", "applier", `{"metadata":{"name":"d","namespace":"ns"},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"c","image":"i"},{"name":"side","image":"s"}]}}}}`),
			deployment("apply", "applier", `{"metadata":{"name":"d","namespace":"ns"},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}`),
			deployment("apply", "applier", `{"metadata":{"name":"d","namespace":"ns"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i2","ports":[{"containerPort":80,"name":"http"}]}]}}}}`),
			write("update", "apps", "v1", "Deployment", "status-writer", "status", status, `{"metadata":{"name":"d","namespace":"ns","uid":"u"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}},"status":{"replicas":2,"conditions":[{"type":"Available","status":"True"}]}}`),
		},
		{
			deployment("apply", "applier", base),
			deployment("update", "updater", `{"metadata":{"name":"d","namespace":"ns","labels":{"app":"d","new":"1"}},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"d"}},"strategy":{"type":"Recreate"},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"hostNetwork":false,"nodeName":"","containers":[{"name":"c","image":"other"}]}}}}`),
			deployment("apply", "applier", base),
		},
		{
			pod("update", "kubelet", "", main, `{"metadata":{"name":"p","namespace":"ns"},"spec":{"containers":[{"name":"a","image":"i","livenessProbe":{"httpGet":{"path":"/","port":"http"}}}],"volumes":[{"name":"v","emptyDir":{}}],"tolerations":[{"key":"k","operator":"Exists"}],"dnsPolicy":"Default"}}`),
			pod("update", "kubelet", "status", status, `{"metadata":{"name":"p","namespace":"ns"},"spec":{"containers":[{"name":"a","image":"i"}]},"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2024-01-01T00:00:00Z"}],"containerStatuses":[{"name":"a","ready":true,"restartCount":0,"image":"i","imageID":"","state":{"running":{"startedAt":"2024-01-01T00:00:00Z"}}}]}}`),
		},
		{
			write("update", "", "v1", "Service", "kubectl-create", "", main, `{"metadata":{"name":"s","namespace":"ns"},"spec":{"selector":{"app":"d"},"ports":[{"port":80,"targetPort":"http"},{"port":81,"protocol":"UDP","targetPort":81}],"type":"ClusterIP"}}`),
			write("apply", "", "v1", "Service", "applier", "", main, `{"metadata":{"name":"s","namespace":"ns"},"spec":{"ports":[{"port":80,"name":"web"}],"externalIPs":["1.2.3.4"]}}`),
			write("apply", "", "v1", "Service", "applier", "", main, `{"metadata":{"name":"s","namespace":"ns"},"spec":{"ports":[{"port":443,"name":"tls"}]}}`),
		},
		{
			write("update", "", "v1", "ConfigMap", "kubectl-create", "", nil, `{"metadata":{"name":"c","namespace":"ns"},"data":{"a":"1","b":"2"},"binaryData":{"x":"AA=="}}`),
			write("apply", "", "v1", "ConfigMap", "applier", "", nil, `{"metadata":{"name":"c","namespace":"ns","annotations":{"n":"1"}},"data":{"a":"1","c":"3"}}`),
			write("update", "", "v1", "ConfigMap", "editor", "", nil, `{"metadata":{"name":"c","namespace":"ns"},"data":{"a":"9"}}`),
		},
		{
			write("update", "", "v1", "Namespace", "kubectl-create", "", main, `{"metadata":{"name":"n","labels":{"kubernetes.io/metadata.name":"n"}}}`),
			write("update", "rbac.authorization.k8s.io", "v1", "Role", "kubectl-create", "", nil, `{"metadata":{"name":"r","namespace":"ns"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`),
		},
		{
			write("update", "coordination.k8s.io", "v1", "Lease", "elector", "", nil, `{"metadata":{"name":"l","namespace":"ns","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"x"}]},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"2024-01-01T00:00:00.000000Z"}}`),
			write("update", "coordination.k8s.io", "v1", "Lease", "elector", "", nil, `{"metadata":{"name":"l","namespace":"ns"},"spec":{"holderIdentity":"b","leaseDurationSeconds":15,"renewTime":"2024-01-01T00:00:05.000000Z"}}`),
		},
		{
			write("update", "discovery.k8s.io", "v1", "EndpointSlice", "slicer", "", nil, `{"metadata":{"name":"e","namespace":"ns"},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}],"ports":[{"port":80}]}`),
		},
		{
			write("update", "", "v1", "Node", "kubelet", "", main, `{"metadata":{"name":"n"},"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"taints":[{"key":"k","effect":"NoSchedule"}]}}`),
			write("update", "", "v1", "Node", "kubelet", "status", status, `{"metadata":{"name":"n"},"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"1.1.1.1"}],"capacity":{"cpu":"4","memory":"8Gi"},"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1"}}}`),
		},
	}
}
