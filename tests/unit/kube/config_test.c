/* Kubeconfigs: what is taken, from which context, and what is refused by name; a pod's own folder. */
#include "base/fs.h"
#include "kube/config.h"
#include "tests/test.h"

#include <sys/stat.h>

#define CLUSTER(members) "clusters: [{name: c, cluster: {server: 'https://h:6443'" members "}}]\n"
#define USER(members)    "users: [{name: u, user: {" members "}}]\n"
#define CONTEXT                                                                         \
	"contexts: [{name: x, context: {cluster: c, user: u}}, {name: other, context: " \
	"{cluster: c, namespace: ns2}}]\ncurrent-context: x\n"
#define ALL(cluster, user) "apiVersion: v1\nkind: Config\n" CLUSTER(cluster) USER(user) CONTEXT

static struct kp_kube_config *taken(const char *text, const char *context)
{
	struct kp_kube_config *c = NULL;
	struct kp_err err = KP_ERR_INIT;
	if (kp_kube_config_parse(kp_str_c(text), "/etc/k", context, &c, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
	return c;
}

static void refused(const char *text, enum kp_code code, const char *want)
{
	struct kp_kube_config *c = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_kube_config_parse(kp_str_c(text), "/etc/k", NULL, &c, &err), -1);
	assert_string_equal(err.msg, want);
	assert_int_equal(err.code, code);
	assert_null(c);
}

static void everything_of_the_current_context(void **state)
{
	(void)state;
	struct kp_kube_config *c = taken(
		ALL(", certificate-authority-data: Q0E=, tls-server-name: kube, proxy-url: "
		    "'socks5://p:1080'",
			"client-certificate-data: \"Q0VS\\nVA==\", client-key: keys/k.pem, token: abc, "
			"tokenFile: /var/t"),
		NULL);
	assert_string_equal(c->server, "https://h:6443");
	assert_string_equal(c->tls_server_name, "kube");
	assert_string_equal(c->proxy_url, "socks5://p:1080");
	assert_str_lit(c->ns, "default");
	assert_str_lit(c->ca.data, "CA");
	assert_str_lit(c->cert.data, "CERT");
	assert_null(c->cert.path);
	assert_string_equal(c->key.path, "/etc/k/keys/k.pem");
	assert_str_lit(c->token.data, "abc");
	assert_string_equal(c->token.path, "/var/t");
	assert_false(c->is_insecure);
	kp_kube_config_destroy(c);
}

static void another_context_and_defaults(void **state)
{
	(void)state;
	struct kp_kube_config *c =
		taken(ALL(", insecure-skip-tls-verify: true", "exec: {command: aws}"),
			"other"); /* it has no user, so that one may be what it likes */
	assert_str_lit(c->ns, "ns2");
	assert_true(c->is_insecure);
	assert_null(c->token.path);
	assert_int_equal(c->token.data.n, 0);
	kp_kube_config_destroy(c);
	c = taken("contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
		  "clusters: [{name: c, cluster: {server: 'https://h/a/b//'}}]\n",
		NULL);
	assert_string_equal(c->server, "https://h/a/b");
	kp_kube_config_destroy(c);
}

static void as_json(void **state)
{
	(void)state;
	struct kp_kube_config *c =
		taken("{\"kind\":\"Config\",\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":"
		      "\"http://127.0.0.1:8080\"}}],\"contexts\":[{\"name\":\"x\",\"context\":{"
		      "\"cluster\":\"c\"}}],\"current-context\":\"x\",\"users\":null}",
			NULL);
	assert_string_equal(c->server, "http://127.0.0.1:8080");
	kp_kube_config_destroy(c);
}

static void what_cannot_be_honoured_is_named(void **state)
{
	(void)state;
	static const char tail[] =
		" is not supported: use a client certificate, a token or a token file";
	struct {
		const char *text, *what;
	} all[] = {
		{ ALL("", "exec: {command: aws-iam-authenticator, apiVersion: v1}"),
			"`exec` aws-iam-authenticator" },
		{ ALL("", "auth-provider: {name: gcp}"), "`auth-provider`" },
		{ ALL("", "username: me, password: x"), "`username`" },
		{ ALL("", "token: t, as: root"), "`as`" },
		{ ALL("", "as-groups: [admins]"), "`as-groups`" },
	};
	for (size_t i = 0; i < KP_LEN(all); i++) {
		char want[256];
		snprintf(want, sizeof(want), "user `u`: %s%s", all[i].what, tail);
		refused(all[i].text, KP_INVALID_ARGUMENT, want);
	}
}

static void what_makes_no_sense(void **state)
{
	(void)state;
	const enum kp_code wrong = KP_INVALID_ARGUMENT;
	refused("", wrong, "it has 0 YAML documents, not one");
	refused("a: 1\n---\nb: 2\n", wrong, "it has 2 YAML documents, not one");
	refused("[1]", wrong, "it is no kubeconfig");
	refused("kind: Pod\n", wrong, "it is no kubeconfig");
	refused("kind: Config\n", wrong, "`current-context` is not set");
	refused("current-context: y\n", wrong,
		"`current-context` must be a text"); /* true, in YAML */
	refused("current-context: z\n", KP_NOT_FOUND, "there is no context `z`");
	refused(CONTEXT, KP_NOT_FOUND, "there is no cluster `c`");
	refused(CONTEXT CLUSTER(""), KP_NOT_FOUND, "there is no user `u`");
	refused(CONTEXT "clusters: [{name: c, cluster: 1}]", wrong, "cluster `c` is no object");
	refused(CONTEXT "clusters: [{name: c, cluster: {}}]", wrong,
		"cluster `c`: `server` is missing");
	refused(CONTEXT "clusters: [{name: c, cluster: {server: 1}}]", wrong,
		"cluster `c`: `server` must be a text");
	refused(CONTEXT "clusters: [{name: c, cluster: {server: 'h:1'}}]", wrong,
		"cluster `c`: `server`: `h:1` is no URL of https http");
	refused(CONTEXT "clusters: [{name: c, cluster: {server: \"https://h\\r\\nX: y\"}}]", wrong,
		"cluster `c`: `server` has a space or a control character");
	refused(ALL(", proxy-url: 'ftp://x'", ""), wrong,
		"cluster `c`: `proxy-url`: `ftp://x` is no URL of http https socks5 socks5h");
	refused(ALL(", insecure-skip-tls-verify: maybe", ""), wrong,
		"cluster `c`: `insecure-skip-tls-verify` must be true or false");
	refused(ALL(", insecure-skip-tls-verify: true, certificate-authority: ca.crt", ""), wrong,
		"cluster `c`: `insecure-skip-tls-verify` with a certificate authority: one of them");
	refused(ALL(", certificate-authority-data: '@@'", ""), wrong,
		"cluster `c`: `certificate-authority-data` is not base64");
	refused(ALL("", "client-certificate: c.crt"), wrong,
		"user `u`: `client-certificate` and `client-key`: one without the other");
	refused(ALL("", "token: \"a\\0b\""), wrong, "user `u`: `token` has a NUL byte");
	refused("a: 1\na: 2\n", wrong,
		"parse `kubeconfig`: line 2 column 1: key `a` is already set at line 1");
}

static void a_pod(void **state)
{
	(void)state;
	char dir[] = "/tmp/kp-kube-XXXXXX", path[64];
	struct kp_kube_config *c = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(kp_kube_config_in_pod(dir, NULL, "443", &c, &err), -1);
	assert_int_equal(err.code, KP_FAILED_PRECONDITION);
	assert_int_equal(kp_kube_config_in_pod(dir, "10.0.0.1", "443", &c, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND); /* namespace */
	snprintf(path, sizeof(path), "%s/namespace", dir);
	assert_int_equal(kp_fs_write_atomic(path, KP_S("prod\n"), 0644, &err), 0);
	assert_int_equal(kp_kube_config_in_pod(dir, "fd00::1", "443", &c, &err), 0);
	assert_string_equal(c->server, "https://[fd00::1]:443");
	assert_str_lit(c->ns, "prod");
	assert_true(kp_str_ends(kp_str_c(c->token.path), KP_S("/token")));
	assert_true(kp_str_ends(kp_str_c(c->ca.path), KP_S("/ca.crt")));
	kp_kube_config_destroy(c);
	unlink(path);
	rmdir(dir);
}

static void a_file_that_is_not_there(void **state)
{
	(void)state;
	struct kp_kube_config *c = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_kube_config_load("/nonexistent/config", NULL, &c, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	kp_kube_config_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_of_the_current_context),
		cmocka_unit_test(another_context_and_defaults),
		cmocka_unit_test(as_json),
		cmocka_unit_test(what_cannot_be_honoured_is_named),
		cmocka_unit_test(what_makes_no_sense),
		cmocka_unit_test(a_pod),
		cmocka_unit_test(a_file_that_is_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
