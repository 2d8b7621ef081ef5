# One line per module: what it may include and link, lowest first (docs/ARCHITECTURE.md, "Layers").
# hack/check-layers reads this file too: an #include outside the closure fails the build.
MODULES := base obs json jsonschema pki wire net fetch rpc admin core schema kube api inject mcp engine control token template parse image prompt

DEPS_base     :=
DEPS_obs      := base
DEPS_json     := obs base
DEPS_jsonschema := json obs base
DEPS_pki      := base
DEPS_wire     := base
DEPS_net      := json obs base
DEPS_fetch    := net json obs base
DEPS_rpc      := net json obs base
DEPS_admin    := net json obs base
DEPS_core     := json obs base
DEPS_schema   := core json obs base
DEPS_kube     := schema core fetch net json obs base
DEPS_api      := schema core json obs base
DEPS_inject   := api schema core json obs base
DEPS_mcp      := fetch net json obs base
DEPS_engine   := schema core net wire json obs base
DEPS_control  := api schema core rpc net wire json obs base
DEPS_token    := schema core json obs base
DEPS_template := schema core json obs base
DEPS_parse    := schema core json obs base
DEPS_image    := schema core json obs base
DEPS_prompt   := parse template token image schema core mcp fetch net wire json obs base
DEPS_operator := control inject api kube schema core admin rpc fetch net wire pki json obs base
DEPS_sidecar  := jsonschema prompt parse template token image control engine mcp api schema core admin rpc fetch net wire pki json obs base
DEPS_cli      := prompt parse template token image inject mcp api schema core fetch net wire json obs base

# Inside a program, a folder may include itself and those before it; files in the program's own folder hold it together.
LAYERS_sidecar  := history control tools route flow api peer admin
LAYERS_operator := plan source control status apply trust https

# pkg-config names a module's own code needs; a missing one is named with its Debian package by hack/deps.
PKGS_base     :=
PKGS_obs      :=
PKGS_json     := jansson yaml-0.1
PKGS_jsonschema := libpcre2-8
PKGS_pki      := openssl
PKGS_net      := libuv openssl libnghttp2
PKGS_wire     := libprotobuf-c
PKGS_rpc      := grpc gpr
PKGS_admin    := libwebsockets
PKGS_token    := zlib libpcre2-8
PKGS_image    := libjpeg libpng libwebp libwebpdemux
PKGS_fetch    := libcurl
PKGS_kube     := libcurl
PKGS_sidecar  := libcurl sqlite3
PKGS_cli      := libcurl

# Libraries without a .pc file.
LIBS_base     := -lpthread
LIBS_operator := -lm
LIBS_sidecar  := -lm
LIBS_token    := -lm
LIBS_image    := -lm
LIBS_template := -lm
LIBS_prompt   := -lm
