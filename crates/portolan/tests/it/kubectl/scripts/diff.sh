# diff: 0 without a difference, 1 with one, more when it fails.

# Names of temporary directories and times are not of interest.
mkdir -p "$HOME/bin"
cat >"$HOME/bin/changes" <<'END'
#!/bin/sh
diff --recursive --unified=1 --new-file "$1" "$2" | grep -v '^\(---\|+++\|diff\) '
test "$(diff -rq "$1" "$2" | wc -l)" = 0
END
chmod +x "$HOME/bin/changes"
export KUBECTL_EXTERNAL_DIFF=$HOME/bin/changes

map() { printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m%s}\ndata: {%s}\n' "$2" "$1"; }
quietly kubectl apply -f- < <(map 'a: "1", b: "1"' '')
run kubectl diff -f- < <(map 'a: "1", b: "1"' '')
run kubectl diff -f- < <(map 'a: "2"' '')
run kubectl diff -f- < <(map 'a: "2"' 2)
run kubectl diff --server-side -f- < <(map 'a: "2"' '')
run kubectl diff --server-side --force-conflicts -f- < <(map 'a: "2"' '')
run kubectl diff -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: WRONG}
END
run kubectl diff -f- <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: m, image: i}]}}}
END
run kubectl get configmap,deployment -o name
