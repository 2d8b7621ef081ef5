# Committed generated code: `make regen` writes it anew, `make check-gen` says whether it is current. Protocol code is generated at build
# time (mk/build.mk). Double colons, so that other generators can add to both.
regen:: ## rewrite the committed generated files
	hack/gen-crd
check-gen:: ## the committed generated files are current
	hack/gen-crd --check
regen::
	hack/gen-unicode
check-gen::
	hack/gen-unicode --check
regen::
	hack/gen-native-templates
check-gen::
	hack/gen-native-templates --check
regen::
	hack/gen-models
check-gen::
	hack/gen-models --check
regen::
	hack/gen-metaschemas
check-gen::
	hack/gen-metaschemas --check
.PHONY: regen check-gen
