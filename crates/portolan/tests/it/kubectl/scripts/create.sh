# create and replace, by kubectl's own generators and from files.

run kubectl create configmap a --from-literal=k=v
run kubectl create configmap a --from-literal=k=v
run kubectl create secret generic s --from-literal=k=v
run kubectl create secret docker-registry dr --docker-username=u --docker-password=p
run kubectl create serviceaccount sa
run kubectl create deployment d --image=i --replicas=2 --port=80
run kubectl create service clusterip d --tcp=80:8080
run kubectl create service nodeport np --tcp=80:8080
run kubectl create service externalname en --external-name=example.com
run kubectl create job j --image=i -- true
run kubectl create cronjob cj --image=i --schedule='*/5 * * * *' -- true
run kubectl create job from --from=cronjob/cj
run kubectl create ingress ing --rule=h/path*=d:80
# Portolan's API server adds one warning: it does not enforce quotas.
create_quota() {
  local said status=0
  said=$(kubectl create quota "$@" 2>&1) || status=$?
  grep -v '^Warning: this API server stores ResourceQuotas but does not enforce them' <<<"$said"
  return "$status"
}
run create_quota q --hard=pods=10
run kubectl create poddisruptionbudget pdb --selector=app=d --min-available=1
run kubectl create priorityclass create-high --value=1000
run kubectl create role r --verb=get,list --resource=pods,deployments.apps
run kubectl create rolebinding rb --role=r --user=u --serviceaccount="$NAMESPACE:sa"
run kubectl create clusterrole create-cr --verb=get --resource=nodes
run kubectl create clusterrolebinding create-crb --clusterrole=create-cr --group=g
run kubectl create namespace create-other --dry-run=server
run kubectl run p --image=i --labels=a=b --env=A=b --port=80
run kubectl expose pod p --name=exposed
run kubectl expose deployment d --name=d2 --port=81
run kubectl get configmap,secret,serviceaccount,deployment,service,job,cronjob,ingress,quota,pdb,role,rolebinding,pod -o name
run kubectl get pod/p deployment/d service/exposed service/d job/j job/from ingress/ing pdb/pdb role/r rolebinding/rb -o yaml

run kubectl create -f- --dry-run=server -o yaml <<'END'
apiVersion: v1
kind: Pod
metadata: {generateName: gen-}
spec: {containers: [{name: m, image: i}]}
END
run kubectl create -f- <<'END'
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: [{name: Bad_Name, image: ""}], restartPolicy: Perhaps}
END
run kubectl create -f- <<'END'
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {crates: []}
END
run kubectl create -n none configmap x
run kubectl create -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json", "namespace": "elsewhere"}}
END
run kubectl create -f- <<'END'
not: [closed
END

run kubectl replace -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"other": "1"}}
END
run kubectl get configmap a -o 'jsonpath={.data}'
run kubectl replace -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}}
END
run kubectl replace -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}}
END
run kubectl replace -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "b6b0a2b6-0000-0000-0000-000000000000"}}
END
run kubectl replace --force -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"forced": "1"}, "immutable": true}
END
run kubectl replace -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"forced": "2"}, "immutable": true}
END
run kubectl replace --force -f- <<'END'
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "m", "image": "z"}]}}
END
run kubectl get pod p -o 'jsonpath={.spec.containers[0].image}'
quietly kubectl delete clusterrole create-cr
quietly kubectl delete clusterrolebinding create-crb
quietly kubectl delete priorityclass create-high
