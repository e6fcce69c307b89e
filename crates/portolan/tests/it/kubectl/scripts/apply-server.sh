# Server-side apply: fields have owners.

map() { printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {%s}\n' "$1"; }

run kubectl apply --server-side -f- < <(map 'a: "1", b: "1"')
run kubectl apply --server-side -f- < <(map 'a: "1", b: "1"')
run kubectl apply --server-side --field-manager=other -f- < <(map 'a: "1", c: "1"')
run kubectl apply --server-side --field-manager=other -f- < <(map 'a: "2", b: "2", c: "1"')
run kubectl apply --server-side --field-manager=other --force-conflicts -f- < <(map 'a: "2", c: "1"')
run kubectl apply --server-side -f- < <(map 'b: "1"')
run kubectl get configmap shared -o yaml
owners configmap shared
run kubectl apply --server-side --dry-run=server --field-manager=third --force-conflicts -f- < <(map 'b: "9"')
run kubectl get configmap shared -o 'jsonpath={.data}'

# From client-side to server-side apply: kubectl takes its fields along.
run kubectl apply -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: moved}
data: {a: "1", b: "1"}
END
run kubectl apply --server-side -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: moved}
data: {a: "2"}
END
run kubectl get configmap moved -o yaml
owners configmap moved

# Lists of maps have keys.
containers() {
  printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n'
  printf '  template: {metadata: {labels: {a: b}}, spec: {containers: [%s]}}\n' "$1"
}
run kubectl apply --server-side -f- < <(containers '{name: one, image: a}, {name: two, image: b}')
run kubectl apply --server-side --field-manager=other -f- < <(containers '{name: three, image: c}')
run kubectl apply --server-side -f- < <(containers '{name: one, image: a}')
run kubectl get deployment web -o 'jsonpath={.spec.template.spec.containers[*].name}'
run kubectl apply --server-side --field-manager=other -f- < <(containers '{name: one, image: z}')
run kubectl scale deployment web --replicas=3
run kubectl get deployment web -o yaml
owners deployment web

# What is refused.
run kubectl apply --server-side -f- <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: half}
spec: {replicas: 1}
END
