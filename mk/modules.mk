# One line per module: what it may include and link, lowest first (docs/ARCHITECTURE.md, "Layers").
# hack/check-layers reads this file too: an #include outside the closure fails the build.
MODULES := base obs json net core schema api engine token template parse

DEPS_base     :=
DEPS_obs      := base
DEPS_json     := obs base
DEPS_net      := json obs base
DEPS_core     := json obs base
DEPS_schema   := core json obs base
DEPS_api      := schema core json obs base
DEPS_engine   := schema core net json obs base
DEPS_token    := schema core json obs base
DEPS_template := schema core json obs base
DEPS_parse    := schema core json obs base
DEPS_sidecar  := parse template token engine api schema core net json obs base
DEPS_cli      := parse template token engine api schema core net json obs base

# Inside a program, a folder may include itself and those before it; files in the program's own folder hold it together.
LAYERS_sidecar := models control route flow api admin

# pkg-config names a module's own code needs; a missing one is named with its Debian package by hack/deps.
PKGS_base     :=
PKGS_obs      :=
PKGS_json     := jansson yaml-0.1
PKGS_net      := libuv openssl libnghttp2
PKGS_engine   := libprotobuf-c
PKGS_token    := zlib
PKGS_sidecar  := libwebsockets

# Libraries without a .pc file.
LIBS_base     := -lpthread
LIBS_sidecar  := -lm
LIBS_token    := -lm
LIBS_template := -lm
