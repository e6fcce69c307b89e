# Client-side apply: three-way merges of what was applied last, what is there and what is applied now.

deployment() {
  cat <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  replicas: $1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:$2", ports: [{containerPort: 80}], env: [{name: A, value: "1"}, {name: B, value: "2"}]}
$3
END
}

run kubectl apply -f- < <(deployment 1 1.0 '      - {name: side, image: envoy}')
run kubectl apply -f- < <(deployment 1 1.0 '      - {name: side, image: envoy}')
quietly kubectl label deployment web by=hand
quietly kubectl set env deployment/web -c main C=3
run kubectl apply -f- < <(deployment 2 1.1 '')
run kubectl get deployment web -o yaml
run kubectl apply view-last-applied deployment/web
run kubectl apply -f- --dry-run=server < <(deployment 5 1.2 '')
run kubectl apply -f- --dry-run=client < <(deployment 5 1.2 '')
run kubectl get deployment web -o 'jsonpath={.spec.replicas} {.metadata.generation}'
run kubectl apply -f- -o yaml --dry-run=server < <(deployment 3 1.3 '')

# Selectors do not change.
run kubectl apply -f- < <(deployment 2 1.1 '' | sed 's/matchLabels: {app: web}/matchLabels: {app: other}/')

# A field that nobody knows, and one of a wrong type.
run kubectl apply -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong}
dta: {a: b}
END
run kubectl apply --validate=warn -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong, labels: {a: b}}
dta: {a: b}
END
run kubectl apply --validate=ignore -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong, labels: {a: c}}
dta: {a: b}
END
run kubectl apply -f- <<'END'
apiVersion: v1
kind: Service
metadata: {name: wrong}
spec: {ports: [{port: eighty}]}
END
run kubectl apply -f- <<'END'
apiVersion: v1
kind: Service
metadata: {name: UPPER}
spec: {ports: [{port: 70000}]}
END
run kubectl apply -f- <<'END'
apiVersion: nowhere.example.com/v1
kind: Nothing
metadata: {name: nothing}
END

# Services keep what the server gave them; ports merge by their keys.
service() {
  cat <<END
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [$1]
END
}
run kubectl apply -f- < <(service '{name: http, port: 80}, {name: https, port: 443}')
quietly kubectl patch service web --type=json -p '[{"op": "add", "path": "/spec/ports/-", "value": {"name": "other", "port": 81}}]'
run kubectl apply -f- < <(service '{name: http, port: 80, targetPort: 8080}')
run kubectl get service web -o 'jsonpath={.spec.ports}'

# What is no longer among the manifests goes.
maps() { for name in "$@"; do printf -- '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {set: s}}\ndata: {k: v}\n' "$name"; done; }
run kubectl apply --prune -l set=s --prune-allowlist=core/v1/ConfigMap -f- < <(maps a b)
run kubectl apply --prune -l set=s --prune-allowlist=core/v1/ConfigMap -f- < <(maps b c)
run kubectl get configmap -l set=s -o name

# Something that was not made by apply.
quietly kubectl create configmap made --from-literal=a=1
run kubectl apply -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: made}
data: {b: "2"}
END
run kubectl get configmap made -o 'jsonpath={.data}'
run kubectl apply set-last-applied -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: made}
data: {a: "1"}
END
run kubectl apply -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: made}
data: {b: "2"}
END
run kubectl get configmap made -o 'jsonpath={.data}'
