/* Gateways and their certificates: the gRPC server and the client, both ours, over TLS on both sides. Who may call, as whom, what each side says when not, and
   certificates that are exchanged while both run. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/grpc.h"
#include "net/grpc_server.h"
#include "net/tls.h"
#include "tests/test.h"
#include "tls_files.h"

static struct {
	struct tls_files files;
	struct kp_loop *loop;
	struct kp_grpc_server *server;
	struct kp_tls_context *server_tls;
	char address[32];
	int n_requests, n_failures;
	struct kp_buf names; /* of the last request's client, each with a ';' */
	struct kp_err failure;
	/* the call */
	int n_ends;
	struct kp_err status;
	struct kp_timer limit;
	bool wait_for_failure;
} t;

static void on_request(void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	(void)ctx;
	t.n_requests++;
	kp_buf_reset(&t.names);
	for (size_t i = 0; i < r->http->n_peer_names; i++) {
		kp_buf_add(&t.names, r->http->peer_names[i]);
		kp_buf_addc(&t.names, ';');
	}
	assert_true(r->http->tls);
	kp_grpc_serving_end(c, &KP_ERR_INIT, NULL, 0);
}

static void maybe_stop(void)
{
	if (t.n_ends > 0 && !(t.wait_for_failure && t.n_failures == 0)) {
		kp_loop_stop(t.loop);
	}
}

static void on_tls_failure(void *ctx, kp_str peer, const struct kp_err *why)
{
	(void)ctx;
	assert_true(kp_str_starts(peer, KP_S("127.0.0.1:")));
	t.n_failures++;
	t.failure = *why;
	maybe_stop();
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n)
{
	(void)user, (void)processed, (void)trailers, (void)n;
	t.n_ends++;
	t.status = *status;
	maybe_stop();
}

static void on_message(void *user, kp_str bytes)
{
	(void)user, (void)bytes;
}

static void on_limit(struct kp_timer *timer)
{
	(void)timer;
	kp_loop_stop(t.loop);
}

static struct kp_tls_context *server_context(const char *cert, const char *key)
{
	struct kp_err err;
	struct kp_tls_context *c = kp_tls_server(&(struct kp_tls_opts){ .cert_file = cert,
							 .key_file = key,
							 .ca_file = t.files.ca,
							 .require_peer_cert = true },
		&err);
	assert_non_null(c);
	return c;
}

static struct kp_tls_context *client_context(const char *cert, const char *ca)
{
	struct kp_err err;
	struct kp_tls_context *c =
		kp_tls_client(&(struct kp_tls_opts){ .cert_file = cert,
				      .key_file = cert ? t.files.client_key : NULL,
				      .ca_file = ca },
			&err);
	assert_non_null(c);
	return c;
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.files = tls_files_make();
	t.loop = kp_loop_create("test");
	kp_buf_init(&t.names, 1000);
	t.server_tls = server_context(t.files.cert, t.files.key);
	t.server = kp_grpc_server_create(
		t.loop, NULL, t.server_tls, &(struct kp_grpc_handler){ .request = on_request });
	kp_grpc_server_on_tls_failure(t.server, on_tls_failure, NULL);
	uint16_t port;
	struct kp_err err;
	assert_int_equal(kp_grpc_server_listen(t.server, "127.0.0.1:0", &port, &err), 0);
	snprintf(t.address, sizeof(t.address), "127.0.0.1:%u", (unsigned)port);
	return 0;
}

static void on_gone(void *arg)
{
	(void)arg;
	kp_loop_stop(t.loop);
}

static int teardown(void **state)
{
	(void)state;
	kp_grpc_server_destroy(kp_steal(t.server), on_gone, NULL);
	kp_loop_run(t.loop);
	kp_loop_destroy(t.loop);
	kp_tls_unref(t.server_tls);
	kp_buf_fini(&t.names);
	tls_files_remove(&t.files);
	return 0;
}

static struct kp_grpc_channel *channel(struct kp_tls_context *tls, const char *name)
{
	return kp_grpc_channel_create(t.loop, &(struct kp_grpc_opts){ .address = t.address,
						      .tls = tls,
						      .tls_name = name,
						      .connect_timeout_ns = 2 * KP_NS_PER_S });
}

/* One call to its end; with wait_for_failure until the server has said why, too. */
static void call(struct kp_grpc_channel *ch)
{
	static const struct kp_grpc_call_ops ops = { .message = on_message, .end = on_end };
	t.n_ends = t.n_failures = 0;
	kp_timer_start(t.loop, &t.limit, kp_now_ns() + 10 * KP_NS_PER_S, on_limit);
	kp_grpc_start(ch, "/a.B/C", NULL, 0, KP_S("hi"), 0, false, &ops, NULL);
	kp_loop_run(t.loop);
	kp_timer_stop(t.loop, &t.limit);
	assert_int_equal(t.n_ends, 1);
}

static void said(const struct kp_err *err, const char *text)
{
	if (!strstr(err->msg, text)) {
		fail_msg("`%s` does not say `%s`", err->msg, text);
	}
}

static void test_good(void **state)
{
	(void)state;
	struct kp_tls_context *tls = client_context(t.files.client_cert, t.files.ca);
	struct kp_grpc_channel *ch = channel(tls, "localhost");
	call(ch);
	assert_int_equal(t.status.code, KP_OK);
	assert_str_lit(kp_buf_str(&t.names), "kelpie:pod:42;gw-1;");
	call(ch); /* the names belong to the connection, not to its first request */
	assert_str_lit(kp_buf_str(&t.names), "kelpie:pod:42;gw-1;");
	assert_int_equal(kp_grpc_channel_connections(ch), 1);
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
}

static void must_fail(const char *cert, const char *server_says, const char *client_says)
{
	struct kp_tls_context *tls = client_context(cert, t.files.ca);
	struct kp_grpc_channel *ch = channel(tls, NULL);
	t.wait_for_failure = true;
	call(ch);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	said(&t.status, client_says);
	said(&t.status, t.address);
	assert_int_equal(t.n_failures, 1);
	said(&t.failure, server_says);
	assert_int_equal(kp_grpc_server_counters(t.server)->refused[KP_HTTP_REFUSED_TLS].v, 1);
	assert_int_equal(t.n_requests, 0);
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
}

static void test_expired(void **state)
{
	(void)state;
	must_fail(t.files.expired_cert,
		"TLS handshake: client certificate `gw-old`: certificate has expired",
		"TLS receive: the other side says: certificate expired");
}

static void test_foreign(void **state)
{
	(void)state;
	must_fail(t.files.foreign_cert,
		"TLS handshake: client certificate `gw-1`: unable to get local issuer certificate",
		"TLS receive: the other side says: unknown ca");
}

static void test_none(void **state)
{
	(void)state;
	must_fail(NULL, "TLS handshake: peer did not return a certificate",
		"TLS receive: the other side says: certificate required");
}

static void test_wrong_server(void **state)
{
	(void)state;
	struct kp_tls_context *tls = client_context(t.files.client_cert, t.files.ca);
	struct kp_grpc_channel *ch = channel(tls, "gw-2");
	call(ch);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	said(&t.status, "TLS handshake: certificate `localhost`: it is not for `gw-2`");
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
	tls = client_context(t.files.client_cert, t.files.other_ca);
	ch = channel(tls, "localhost");
	call(ch);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	said(&t.status,
		"TLS handshake: certificate `localhost`: self-signed certificate in certificate chain");
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
	assert_int_equal(t.n_requests, 0);
}

static int check_names(void *user, const kp_str *names, size_t n, struct kp_err *err)
{
	assert_int_equal(n, 1);
	assert_str_lit(names[0], "localhost");
	return *(const bool *)user ? 0
				   : kp_err_set(err, KP_PERMISSION_DENIED, "`localhost`: unwanted");
}

/* The owner of the channel has the last word, before anything is sent. */
static void test_names_are_shown(void **state)
{
	(void)state;
	bool is_wanted = false;
	struct kp_tls_context *tls = client_context(t.files.client_cert, t.files.ca);
	struct kp_grpc_channel *ch =
		kp_grpc_channel_create(t.loop, &(struct kp_grpc_opts){ .address = t.address,
						       .tls = tls,
						       .tls_name = "localhost",
						       .check_names = check_names,
						       .user = &is_wanted });
	call(ch);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	said(&t.status, "connect: `localhost`: unwanted");
	assert_int_equal(t.n_requests, 0);
	is_wanted = true;
	kp_grpc_channel_connect(ch);
	call(ch);
	assert_int_equal(t.status.code, KP_OK);
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
}

/* The subject is not a name: whoever is called "gw-2" there is not gw-2. */
static void test_subject_is_no_name(void **state)
{
	(void)state;
	EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
	X509 *ca = cert_make("own CA", ca_key, NULL, NULL, NULL, 3600);
	X509 *cert = cert_make("gw-2", key, ca, ca_key, "URI:kelpie:pod:9", 3600);
	cert_save(t.files.other_ca, ca, NULL);
	cert_save(t.files.foreign_cert, cert, NULL);
	cert_save(t.files.expired_cert, NULL, key);
	X509_free(ca), X509_free(cert);
	EVP_PKEY_free(ca_key), EVP_PKEY_free(key);
	struct kp_tls_context *fresh = server_context(t.files.foreign_cert, t.files.expired_cert);
	kp_grpc_server_set_tls(t.server, fresh);
	kp_tls_unref(fresh);
	struct kp_tls_context *tls = client_context(t.files.client_cert, t.files.other_ca);
	struct kp_grpc_channel *ch = channel(tls, "gw-2");
	call(ch);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	said(&t.status, "certificate `kelpie:pod:9`: it is not for `gw-2`");
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
}

/* Both sides get new certificates while a connection is up: it goes on, the next one uses them. */
static void test_rotation(void **state)
{
	(void)state;
	struct kp_tls_context *tls = client_context(t.files.client_cert, t.files.ca);
	struct kp_grpc_channel *ch = channel(tls, "localhost");
	kp_tls_unref(tls);
	call(ch);
	assert_int_equal(t.status.code, KP_OK);
	/* The server is gw-1 from now on; clients of an expired certificate come. */
	struct kp_tls_context *fresh = server_context(t.files.client_cert, t.files.client_key);
	kp_grpc_server_set_tls(t.server, fresh);
	kp_tls_unref(fresh);
	call(ch);
	assert_int_equal(t.status.code, KP_OK);
	assert_int_equal(kp_grpc_channel_connections(ch), 1);
	struct kp_grpc_channel *other;
	tls = client_context(t.files.client_cert, t.files.ca);
	other = channel(tls, "localhost");
	call(other);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	said(&t.status, "certificate `kelpie:pod:42`: it is not for `localhost`");
	kp_grpc_channel_destroy(other);
	other = channel(tls, "gw-1");
	call(other);
	assert_int_equal(t.status.code, KP_OK);
	/* The client's side: its next connection shows the other certificate. */
	struct kp_tls_context *old = client_context(t.files.expired_cert, t.files.ca);
	kp_grpc_channel_set_tls(other, old);
	kp_tls_unref(old);
	call(other);
	assert_int_equal(t.status.code, KP_OK);
	kp_grpc_server_drain(t.server);
	call(other); /* is served on the connection, which then ends */
	t.wait_for_failure = false;
	kp_grpc_channel_destroy(other);
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
}

static void test_rotated_client(void **state)
{
	(void)state;
	struct kp_tls_context *tls = client_context(t.files.expired_cert, t.files.ca);
	struct kp_grpc_channel *ch = channel(tls, NULL);
	t.wait_for_failure = true;
	call(ch);
	assert_int_equal(t.status.code, KP_UNAVAILABLE);
	struct kp_tls_context *fresh = client_context(t.files.client_cert, t.files.ca);
	kp_grpc_channel_set_tls(ch, fresh);
	kp_tls_unref(fresh);
	kp_grpc_channel_connect(ch); /* not waiting for the back-off */
	t.wait_for_failure = false;
	call(ch);
	assert_int_equal(t.status.code, KP_OK);
	assert_str_lit(kp_buf_str(&t.names), "kelpie:pod:42;gw-1;");
	kp_grpc_channel_destroy(ch);
	kp_tls_unref(tls);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_good),
		WITH(test_expired),
		WITH(test_foreign),
		WITH(test_none),
		WITH(test_wrong_server),
		WITH(test_names_are_shown),
		WITH(test_subject_is_no_name),
		WITH(test_rotation),
		WITH(test_rotated_client),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
