# A real Kubernetes on this machine (hack/kube; docs/kubernetes-rig.md).
kube-build: ## Kubernetes' own programs from their Go modules, into build/kube/bin (9 minutes the first time)
	hack/deps cluster
	hack/kube/build

check-kube: kube-build ## brings up two nodes, asks what the cluster tests lean on, takes them down (root; a minute)
	hack/kube/images
	hack/kube/up -n 2
	hack/kube/check; status=$$?; hack/kube/down && exit $$status
images: all ## container images of the operator and the gateway, as archives in build/images
	hack/images

check-images: images ## the images once more, from the same files: the same bytes
	KELPIE_IMAGES=build/images/again hack/images
	for image in operator sidecar; do cmp build/images/$$image.tar build/images/again/$$image.tar || exit 1; done
	rm -r build/images/again

manifests: ## the chart as plain manifests, charts/kelpie.yaml
	hack/kube/build helm
	hack/gen-manifests

cluster-demo: ## Kelpie on a real Kubernetes on this machine (root); MODE=node: one gateway for each node
	hack/demo-cluster $(MODE)

check-cluster: ## streams through Kelpie on two nodes while pods, nodes, engines, gateways, operators and the API server go (root; 10 minutes); MODE=node
	hack/check-cluster $(MODE)
.PHONY: kube-build check-kube images check-images manifests cluster-demo check-cluster
