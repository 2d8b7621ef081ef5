/* Streams over mutual TLS: names, certificates that must not get in, rotation. */
#include "base/fs.h"
#include "tests/unit/rpc/certs.h"
#include "tests/unit/rpc/world.h"

static struct authority ours, foreign;

static int make_authorities(void **state)
{
	(void)state;
	ours = authority_make("ours");
	foreign = authority_make("foreign");
	return 0;
}
static int free_authorities(void **state)
{
	(void)state;
	authority_free(&ours);
	authority_free(&foreign);
	return 0;
}

struct dirs {
	char root[64], server[96], client[96];
};
static void dirs_make(struct dirs *d)
{
	snprintf(d->root, sizeof(d->root), "/tmp/kelpie-rpc-XXXXXX");
	assert_non_null(mkdtemp(d->root));
	snprintf(d->server, sizeof(d->server), "%s/server", d->root);
	snprintf(d->client, sizeof(d->client), "%s/client", d->root);
	certs_make(d->server, "DNS:kelpie-operator,IP:127.0.0.1", 3600, &ours, &ours);
	certs_make(d->client, "DNS:gw-a,DNS:gw-a.example,URI:kelpie:pod:42", 3600, &ours, &ours);
}
static void dirs_remove(struct dirs *d)
{
	certs_remove(d->server);
	certs_remove(d->client);
	rmdir(d->root);
}

/* What becomes of one attempt with these certificates: "" or the status. */
static const char *attempt(struct world *w, const char *dir, const char *name, char text[600])
{
	struct kp_rpc_client *c = world_client(w, dir, name, NULL);
	struct end e = { .n_messages = 0 };
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	assert_true(world_run(w, has_message, &e, 20));
	if (e.n_messages == 0) {
		snprintf(text, 600, "%s: %s", kp_code_name(e.status.code), e.status.msg);
	} else {
		text[0] = '\0';
	}
	kp_rpc_client_destroy(c);
	return text;
}

static void test_names(void **state)
{
	(void)state;
	struct dirs d;
	struct world w;
	char text[600];
	dirs_make(&d);
	world_start(&w, "127.0.0.1:0", d.server, NULL);
	w.echo = true;
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	assert_string_equal(w.accepted[0]->names, "gw-a gw-a.example kelpie:pod:42 ");
	assert_string_equal(attempt(&w, d.client, NULL, text), ""); /* the address */
	attempt(&w, d.client, "other", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	char want[200];
	snprintf(want, sizeof(want), "stream to `%s` (TLS with `%s`, for `other`): ", w.address,
		d.client);
	assert_non_null(strstr(text, want));
	assert_int_equal(w.n_accepted, 2);
	world_end(&w);
	dirs_remove(&d);
}

static void test_strangers(void **state)
{
	(void)state;
	struct dirs d;
	struct world w;
	char text[600], odd[96];
	dirs_make(&d);
	snprintf(odd, sizeof(odd), "%s/odd", d.root);
	world_start(&w, "127.0.0.1:0", d.server, NULL);
	w.echo = true;
	/* Of another CA; expired; without any. */
	certs_make(odd, "DNS:gw-a", 3600, &foreign, &ours);
	attempt(&w, odd, "kelpie-operator", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	certs_make(odd, "DNS:gw-a", -60, &ours, &ours);
	attempt(&w, odd, "kelpie-operator", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	attempt(&w, NULL, NULL, text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	/* A server that the client does not trust. */
	certs_make(odd, "DNS:gw-a", 3600, &ours, &foreign);
	attempt(&w, odd, "kelpie-operator", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	assert_int_equal(w.n_accepted, 0);
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	world_end(&w);
	certs_remove(odd);
	dirs_remove(&d);
}

static int set_keys(struct kp_rpc_keys *keys, const char *cert, const char *ca, struct kp_err *err)
{
	static const char *const files[] = { "tls.crt", "tls.key", "ca.crt" };
	struct kp_buf text[3];
	for (size_t i = 0; i < KP_LEN(files); i++) {
		char path[256];
		snprintf(path, sizeof(path), "%s/%s", i == 2 ? ca : cert, files[i]);
		kp_buf_init(&text[i], 1 << 16);
		assert_true(kp_fs_read(path, &text[i], err) >= 0);
	}
	int r = kp_rpc_keys_set(
		keys, kp_buf_str(&text[0]), kp_buf_str(&text[1]), kp_buf_str(&text[2]), err);
	for (size_t i = 0; i < KP_LEN(files); i++) {
		kp_buf_fini(&text[i]);
	}
	return r;
}

/* A server with its certificate in memory: what is set last counts for the next connection, what does not belong together for none. */
static void test_in_memory(void **state)
{
	(void)state;
	struct dirs d;
	struct world w = { .loop = kp_loop_create("test"), .echo = true };
	struct kp_err err = KP_ERR_INIT;
	char text[600], odd[96];
	struct kp_rpc_keys *keys = kp_rpc_keys_create();
	const struct kp_rpc_tls tls = { .keys = keys };
	dirs_make(&d);
	snprintf(odd, sizeof(odd), "%s/odd", d.root);
	certs_make(odd, "DNS:kelpie-operator", 3600, &foreign, &foreign);
	assert_int_equal(set_keys(keys, odd, odd, &err), 0);
	assert_int_equal(kp_rpc_server_create(w.loop, "127.0.0.1:0", METHOD, &tls, NULL,
				 world_accept, &w, &w.server, &err),
		0);
	snprintf(w.address, sizeof(w.address), "127.0.0.1:%d", kp_rpc_server_port(w.server));
	attempt(&w, d.client, "kelpie-operator", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	assert_int_equal(set_keys(keys, d.server, d.server, &err), 0);
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	assert_int_equal(kp_rpc_keys_set(keys, KP_S("x"), KP_S("y"), KP_S("z"), &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	assert_int_equal(set_keys(keys, d.server, odd, &err), 0); /* believes others now */
	attempt(&w, d.client, "kelpie-operator", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	assert_int_equal(w.n_accepted, 2);
	world_end(&w);
	kp_rpc_keys_destroy(keys);
	certs_remove(odd);
	dirs_remove(&d);
}

/* The server's CA changes: the next connection needs the new one, the old stream lives on. */
static void test_rotation(void **state)
{
	(void)state;
	struct dirs d;
	struct world w;
	char text[600];
	dirs_make(&d);
	world_start(&w, "127.0.0.1:0", d.server, NULL);
	w.echo = true;
	struct kp_rpc_client *c = world_client(&w, d.client, "kelpie-operator", NULL);
	struct end e = { .n_messages = 0 };
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	assert_true(world_run(&w, has_message, &e, 20));
	assert_int_equal(e.n_messages, 1);
	certs_make(d.server, "DNS:kelpie-operator", 3600, &foreign, &foreign);
	attempt(&w, d.client, "kelpie-operator", text);
	assert_non_null(strstr(text, "UNAVAILABLE"));
	certs_make(d.client, "DNS:gw-new", 3600, &foreign, &foreign);
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	assert_string_equal(w.accepted[w.n_accepted - 1]->names, "gw-new ");
	/* The same client object reads its files again, too. */
	struct end again = { .n_messages = 0 };
	again.stream = kp_rpc_client_open(c, &end_ops, &again);
	kp_rpc_stream_send(again.stream, KP_S("hello"));
	assert_true(world_run(&w, has_message, &again, 20));
	assert_int_equal(again.n_messages, 1);
	/* Half a rotation, and files that went: the last good ones stay. */
	char path[128];
	snprintf(path, sizeof(path), "%s/tls.key", d.server);
	EVP_PKEY *key = EVP_EC_gen("P-256");
	save(d.server, "tls.key", NULL, key);
	EVP_PKEY_free(key);
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	unlink(path);
	assert_string_equal(attempt(&w, d.client, "kelpie-operator", text), "");
	e.n_messages = 0;
	kp_rpc_stream_send(e.stream, KP_S("still here"));
	assert_true(world_run(&w, has_message, &e, 20));
	assert_string_equal(e.last, "still here");
	kp_rpc_client_destroy(c);
	world_end(&w);
	dirs_remove(&d);
}

static bool greets(struct world *w, struct kp_rpc_client *c)
{
	struct end e = { .n_messages = 0 };
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	assert_true(world_run(w, has_message, &e, 20));
	bool greeted = e.n_messages == 1;
	if (greeted) {
		kp_rpc_stream_close(e.stream, NULL);
		assert_true(world_run(w, is_closed, &e, 20));
	}
	return greeted;
}

/* A client goes on with what was good, too, and takes what is good again. */
static void test_half_a_rotation_of_a_client(void **state)
{
	(void)state;
	struct dirs d;
	struct world w;
	char path[128];
	dirs_make(&d);
	world_start(&w, "127.0.0.1:0", d.server, NULL);
	w.echo = true;
	struct kp_rpc_client *c = world_client(&w, d.client, "kelpie-operator", NULL);
	assert_true(greets(&w, c));
	EVP_PKEY *key = EVP_EC_gen("P-256");
	save(d.client, "tls.key", NULL, key);
	EVP_PKEY_free(key);
	assert_true(greets(&w, c));
	assert_string_equal(w.accepted[1]->names, "gw-a gw-a.example kelpie:pod:42 ");
	snprintf(path, sizeof(path), "%s/ca.crt", d.client);
	unlink(path);
	assert_true(greets(&w, c));
	certs_make(d.client, "DNS:gw-new", 3600, &ours, &ours);
	assert_true(greets(&w, c));
	assert_string_equal(w.accepted[3]->names, "gw-new ");
	kp_rpc_client_destroy(c);
	world_end(&w);
	dirs_remove(&d);
}

static void test_bad_files(void **state)
{
	(void)state;
	struct dirs d;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rpc_server *s = NULL;
	dirs_make(&d);
	struct kp_loop *loop = kp_loop_create("test");
	struct kp_rpc_tls tls = { .dir = "/nonexistent" };
	assert_int_equal(kp_rpc_server_create(loop, "127.0.0.1:0", METHOD, &tls, NULL, world_accept,
				 NULL, &s, &err),
		-1);
	assert_string_equal(err.msg, "open `/nonexistent/tls.crt`: No such file or directory");
	EVP_PKEY *key = EVP_EC_gen("P-256");
	save(d.server, "tls.key", NULL, key);
	EVP_PKEY_free(key);
	tls.dir = d.server;
	assert_int_equal(kp_rpc_server_create(loop, "127.0.0.1:0", METHOD, &tls, NULL, world_accept,
				 NULL, &s, &err),
		-1);
	assert_non_null(strstr(err.msg, "server/tls.key`: key values mismatch"));
	kp_loop_destroy(loop);
	/* A client says so in its stream's end. */
	certs_make(d.server, "DNS:kelpie-operator", 3600, &ours, &ours);
	struct world w;
	char text[600], want[200];
	world_start(&w, "127.0.0.1:0", d.server, NULL);
	attempt(&w, "/nonexistent", "kelpie-operator", text);
	snprintf(want, sizeof(want),
		"NOT_FOUND: stream to `%s`: open `/nonexistent/tls.crt`: No such file or directory",
		w.address);
	assert_string_equal(text, want);
	world_end(&w);
	dirs_remove(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_in_memory),
		cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_half_a_rotation_of_a_client),
		cmocka_unit_test(test_bad_files),
	};
	return cmocka_run_group_tests(tests, make_authorities, free_authorities);
}
