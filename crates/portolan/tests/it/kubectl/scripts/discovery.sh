# What there is. Kinds that are for Kubernetes' own components are served by kube-apiserver alone.
api_resources() { kubectl api-resources "$@" | grep -v '^\(componentstatuses\|horizontalpodautoscalers\|ipaddresses\|servicecidrs\)'; }

for group in '' apps batch networking.k8s.io; do
  run api_resources --api-group="$group" --sort-by=name -o wide
done
groups='rbac.authorization.k8s.io\|coordination.k8s.io\|discovery.k8s.io\|events.k8s.io\|policy\|apiextensions.k8s.io\|authorization.k8s.io'
kubectl api-resources | grep " \($groups\)/v1 "
run api_resources --namespaced=false --api-group='' -o name
run api_resources --verbs=deletecollection --api-group=apps -o name
run api_resources --categories=all -o name
printf 'of both:\n'
kubectl api-versions | grep -x 'v1\|apps/v1\|batch/v1\|networking.k8s.io/v1\|apiextensions.k8s.io/v1'
run kubectl version -o 'yaml' --client=false | grep -v 'buildDate\|git\|goVersion\|platform\|compiler'
