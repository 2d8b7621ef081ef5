# A real Kubernetes on this machine (hack/kube; docs/kubernetes-rig.md).
kube-build: ## Kubernetes' own programs from their Go modules, into build/kube/bin (9 minutes the first time)
	hack/deps cluster
	hack/kube/build

check-kube: kube-build ## brings up two nodes, asks what the cluster tests lean on, takes them down (root; a minute)
	hack/kube/images
	hack/kube/up -n 2
	hack/kube/check; status=$$?; hack/kube/down && exit $$status
.PHONY: kube-build check-kube
