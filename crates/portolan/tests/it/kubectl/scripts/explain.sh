# explain: from what the server publishes.

for what in pod pod.spec pod.spec.containers pod.metadata pod.status.phase service.spec.type configmap deployment.spec.strategy lease.spec event \
  endpointslice.endpoints customresourcedefinition.spec.versions mutatingwebhookconfiguration.webhooks; do
  run kubectl explain "$what"
done
run kubectl explain deployment --recursive
run kubectl explain deployment.spec --api-version=apps/v1
run kubectl explain pod.spec.nothing
run kubectl explain nothing
run kubectl explain pod --api-version=nothing/v1
