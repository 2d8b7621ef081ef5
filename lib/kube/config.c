/* DESIGN: the kubeconfig is a YAML document of three named lists and a word that picks from them. It is read
   into json_t, and one pass copies what the context needs into the configuration's arena. Everything else in
   the file is left alone, as kubectl does: a file of many clusters need not be right everywhere. */
#include "kube/config.h"

#include "base/fs.h"
#include "json/jansson.h"
#include "net/grpc_wire.h"

#include <string.h>

enum {
	FILE_MAX = 1 << 20,
	ARENA_MAX = 4 << 20, /* all of the file, decoded, and names of files */
	NAME_MAX_BYTES = 253,
};

struct reader {
	struct kp_kube_config *c;
	const char *dir;
	struct kp_err *err;
};

/* A member that must be a text if it is there; KP_STR_NULL when it is not, or empty. */
static int text(const struct reader *r, const json_t *object, const char *key, kp_str *ret)
{
	const json_t *v = json_object_get(object, key);
	*ret = kp_doc_str(object, key);
	if (v && !json_is_null(v) && !json_is_string(v)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "`%s` must be a text", key);
	}
	if (ret->n && memchr(ret->p, 0, ret->n)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "`%s` has a NUL byte", key);
	}
	return 0;
}

static const char *copy(const struct reader *r, kp_str s)
{
	return s.n ? kp_arena_strz(r->c->arena, s) : NULL;
}

static const char *below(const struct reader *r, kp_str path)
{
	if (!path.n || path.p[0] == '/') {
		return copy(r, path);
	}
	return kp_arena_printf(r->c->arena, "%s/%" KP_FMT, r->dir, KP_ARG(path)).p;
}

/* "NAME-data" in base64, or "NAME", which names a file. */
static int secret(const struct reader *r, const json_t *object, const char *name,
	const char *data_name, struct kp_kube_secret *ret)
{
	kp_str path, encoded;
	if (text(r, object, name, &path) || text(r, object, data_name, &encoded)) {
		return -1;
	}
	if (encoded.n) {
		KP_AUTO(buf) struct kp_buf plain, digits;
		kp_buf_init(&plain, FILE_MAX);
		kp_buf_init(&digits, FILE_MAX);
		for (size_t i = 0; i < encoded.n; i++) { /* lines may be broken */
			if (encoded.p[i] != '\n' && encoded.p[i] != '\r') {
				kp_buf_addc(&digits, encoded.p[i]);
			}
		}
		if (digits.failed || !kp_grpc_base64_decode(&plain, kp_buf_str(&digits)) ||
			plain.failed) {
			return kp_err_set(
				r->err, KP_INVALID_ARGUMENT, "`%s` is not base64", data_name);
		}
		/* As in kubectl data wins here, but a file of a token over the token. */
		return kp_arena_dup(r->c->arena, kp_buf_str(&plain), &ret->data, r->err);
	}
	ret->path = below(r, path);
	return 0;
}

static int flag(const struct reader *r, const json_t *object, const char *key, bool *ret)
{
	const json_t *v = json_object_get(object, key);
	if (v && !json_is_null(v) && !json_is_boolean(v)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "`%s` must be true or false", key);
	}
	*ret = json_is_true(v);
	return 0;
}

static int url(const struct reader *r, kp_str s, const char *key, const char *schemes)
{
	ptrdiff_t at = kp_str_find(s, KP_S("://"));
	kp_str all = kp_str_c(schemes), one;
	while (at > 0 && kp_str_split(&all, ' ', &one)) {
		kp_str rest = kp_str_skip(s, (size_t)at + 3);
		if (kp_str_ieq(one, kp_str_sub(s, 0, (size_t)at)) && rest.n &&
			kp_str_find_char(KP_S("/?#:"), rest.p[0]) < 0) { /* it names a host */
			for (size_t i = 0; i < s.n; i++) {
				if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f) {
					return kp_err_set(r->err, KP_INVALID_ARGUMENT,
						"`%s` has a space or a control character", key);
				}
			}
			return 0;
		}
	}
	return kp_err_set(r->err, KP_INVALID_ARGUMENT, "`%s`: `%" KP_FMT "` is no URL of %s", key,
		KP_ARG(kp_str_sub(s, 0, 200)), schemes);
}

static int read_cluster(const struct reader *r, const json_t *cluster)
{
	kp_str server, name, proxy;
	if (text(r, cluster, "server", &server) || text(r, cluster, "tls-server-name", &name) ||
		text(r, cluster, "proxy-url", &proxy) ||
		flag(r, cluster, "insecure-skip-tls-verify", &r->c->is_insecure) ||
		secret(r, cluster, "certificate-authority", "certificate-authority-data",
			&r->c->ca)) {
		return -1;
	}
	if (!server.n) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "`server` is missing");
	}
	if (url(r, server, "server", "https http") ||
		(proxy.n && url(r, proxy, "proxy-url", "http https socks5 socks5h"))) {
		return -1;
	}
	if (r->c->is_insecure && (r->c->ca.path || r->c->ca.data.n)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT,
			"`insecure-skip-tls-verify` with a certificate authority: one of them");
	}
	while (kp_str_ends(server, KP_S("/"))) {
		server.n--;
	}
	r->c->server = copy(r, server);
	r->c->tls_server_name = copy(r, name);
	r->c->proxy_url = copy(r, proxy);
	return 0;
}

/* What would make the requests somebody else's if it were left out. */
static int check_supported(const struct reader *r, const json_t *user)
{
	static const char *const not_supported[] = { "exec", "auth-provider", "username",
		"password", "as", "as-uid", "as-groups", "as-user-extra" };
	for (size_t i = 0; i < KP_LEN(not_supported); i++) {
		const json_t *v = json_object_get(user, not_supported[i]);
		if (v && !json_is_null(v)) {
			kp_str command = kp_doc_str(v, "command");
			return kp_err_set(r->err, KP_INVALID_ARGUMENT,
				"`%s`%s%" KP_FMT
				" is not supported: use a client certificate, a token or a token file",
				not_supported[i], command.n ? " " : "",
				KP_ARG(kp_str_sub(command, 0, 100)));
		}
	}
	return 0;
}

static int read_user(const struct reader *r, const json_t *user)
{
	kp_str token, file;
	struct kp_kube_config *c = r->c;
	if (check_supported(r, user) ||
		secret(r, user, "client-certificate", "client-certificate-data", &c->cert) ||
		secret(r, user, "client-key", "client-key-data", &c->key) ||
		text(r, user, "token", &token) || text(r, user, "tokenFile", &file)) {
		return -1;
	}
	if ((c->cert.path || c->cert.data.n) != (c->key.path || c->key.data.n)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT,
			"`client-certificate` and `client-key`: one without the other");
	}
	c->token.path = below(r, file);
	return token.n ? kp_arena_dup(c->arena, token, &c->token.data, r->err) : 0;
}

/* The member `what` of the element of `list` that is called `name`. NULL: there is none. */
static const json_t *named(const json_t *list, kp_str name, const char *what)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *e = json_array_get(list, i);
		if (kp_str_eq(kp_doc_str(e, "name"), name)) {
			return json_object_get(e, what);
		}
	}
	return NULL;
}

static int read_part(const struct reader *r, const json_t *doc, const char *list, const char *what,
	kp_str name, int (*read)(const struct reader *, const json_t *))
{
	const json_t *v = named(json_object_get(doc, list), name, what);
	name = kp_str_sub(name, 0, NAME_MAX_BYTES);
	if (!v) {
		return kp_err_set(
			r->err, KP_NOT_FOUND, "there is no %s `%" KP_FMT "`", what, KP_ARG(name));
	}
	if (!json_is_object(v) && !json_is_null(v)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "%s `%" KP_FMT "` is no object",
			what, KP_ARG(name));
	}
	return read(r, v) ? kp_err_wrap(r->err, "%s `%" KP_FMT "`", what, KP_ARG(name)) : 0;
}

static int read_context(const struct reader *r, const json_t *context)
{
	kp_str ns;
	if (text(r, context, "namespace", &ns)) {
		return -1;
	}
	return kp_arena_dup(r->c->arena, ns.n ? ns : KP_S("default"), &r->c->ns, r->err);
}

static int read_all(const struct reader *r, const json_t *doc, const char *context)
{
	kp_str kind = kp_doc_str(doc, "kind");
	kp_str name = kp_str_c(context), cluster, user;
	if (!json_is_object(doc) || (kind.n && !kp_str_eq(kind, KP_S("Config")))) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "it is no kubeconfig");
	}
	if (!context && text(r, doc, "current-context", &name)) {
		return -1;
	}
	if (!name.n) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT, "`current-context` is not set");
	}
	if (read_part(r, doc, "contexts", "context", name, read_context)) {
		return -1;
	}
	const json_t *in = named(json_object_get(doc, "contexts"), name, "context");
	if (text(r, in, "cluster", &cluster) || text(r, in, "user", &user)) {
		return kp_err_wrap(r->err, "context `%" KP_FMT "`", KP_ARG(name));
	}
	if (read_part(r, doc, "clusters", "cluster", cluster, read_cluster)) {
		return -1;
	}
	return user.n ? read_part(r, doc, "users", "user", user, read_user) : 0;
}

int kp_kube_config_parse(kp_str content, const char *dir, const char *context,
	struct kp_kube_config **ret, struct kp_err *err)
{
	KP_AUTO(yaml_stream) struct kp_yaml_stream s = { 0 };
	KP_AUTO(kube_config) struct kp_kube_config *c = kp_new(struct kp_kube_config);
	const struct reader r = { .c = c, .dir = dir, .err = err };
	c->arena = kp_arena_create(ARENA_MAX);
	if (kp_doc_yaml(content, "kubeconfig", &kp_doc_limits_manifest, &s, err)) {
		return -1;
	}
	if (s.n != 1) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "it has %zu YAML documents, not one", s.n);
	}
	if (read_all(&r, s.docs[0].value, context)) {
		return -1;
	}
	*ret = kp_steal(c);
	return 0;
}

int kp_kube_config_load(
	const char *path, const char *context, struct kp_kube_config **ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	const char *slash = strrchr(path, '/');
	char *dir = kp_str_z(slash ? kp_str_n(path, (size_t)(slash - path)) : KP_S("."));
	kp_buf_init(&b, FILE_MAX);
	int r = kp_fs_read(path, &b, err);
	if (r == 0 && kp_kube_config_parse(kp_buf_str(&b), dir, context, ret, err)) {
		r = kp_err_wrap(err, "kubeconfig `%s`", path);
	}
	kp_mem_free(dir);
	return r;
}

int kp_kube_config_in_pod(const char *dir, const char *host, const char *port,
	struct kp_kube_config **ret, struct kp_err *err)
{
	KP_AUTO(kube_config) struct kp_kube_config *c = NULL;
	KP_AUTO(buf) struct kp_buf ns;
	kp_buf_init(&ns, 1024);
	if (!host || !host[0] || !port || !port[0]) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"not in a pod: `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` are not set");
	}
	dir = dir ? dir : KP_KUBE_POD_DIR;
	c = kp_new(struct kp_kube_config);
	c->arena = kp_arena_create(ARENA_MAX);
	const char *open = strchr(host, ':') ? "[" : "", *close = open[0] ? "]" : "";
	c->server = kp_arena_printf(c->arena, "https://%s%s%s:%s", open, host, close, port).p;
	c->token.path = kp_arena_printf(c->arena, "%s/token", dir).p;
	c->ca.path = kp_arena_printf(c->arena, "%s/ca.crt", dir).p;
	const char *path = kp_arena_printf(c->arena, "%s/namespace", dir).p;
	if (kp_fs_read(path, &ns, err) ||
		kp_arena_dup(c->arena, kp_str_trim(kp_buf_str(&ns)), &c->ns, err)) {
		return -1;
	}
	*ret = kp_steal(c);
	return 0;
}

void kp_kube_config_destroy(struct kp_kube_config *c)
{
	if (c) {
		kp_arena_destroy(c->arena);
		kp_mem_free(c);
	}
}
