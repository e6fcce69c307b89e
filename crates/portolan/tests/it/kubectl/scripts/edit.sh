# edit: what the editor leaves is sent as a patch.

cat >"$HOME/editor" <<'END'
#!/bin/sh
cp "$1" "$HOME/shown"
eval "$CHANGE"
END
chmod +x "$HOME/editor"
export EDITOR=$HOME/editor

quietly kubectl create configmap m --from-literal=a=1
quietly kubectl label configmap m keep=it
CHANGE='sed -i s/a:.*1.*/b:\ two/ "$1"' run kubectl edit configmap m
run kubectl get configmap m -o yaml
run cat "$HOME/shown"
CHANGE='true' run kubectl edit configmap m
CHANGE='sed -i "s/  name: m/  name: other/" "$1"' run kubectl edit configmap m
CHANGE='grep -q "^# configmaps" "$1" && : >"$1" || sed -i "s/keep: it/keep: -it-/" "$1"' run kubectl edit configmap m
CHANGE='sed -i "s/keep: it/kept: it/" "$1"' run kubectl edit configmap m -o json
run kubectl get configmap m -o 'jsonpath={.metadata.labels}'

quietly kubectl create deployment web --image=a
CHANGE='sed -i "s/image: a/image: b/; s/replicas: 1/replicas: 4/" "$1"' run kubectl edit deployment web
run kubectl get deployment web -o wide
CHANGE='sed -i "s/^status:.*/status: {observedGeneration: 7, replicas: 2}/" "$1"' run kubectl edit deployment web --subresource=status
run kubectl get deployment web -o 'jsonpath={.status}'
CHANGE='sed -i "s/kind: ConfigMap/kind: ConfigMap/; s/name: new/name: newer/" "$1"' run kubectl create --edit -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: new}
data: {a: b}
END
run kubectl get configmap -o name
