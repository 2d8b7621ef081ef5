/* DESIGN: one loop, `run`, first in the caller's thread until there is a certificate or 5 s are over, then in a thread of its own. It
   sleeps in curl_multi_poll, which a message wakes. At any time one request at most is under way.

   Each set of files goes into the one of two directories that is not in use, then the link is turned: whoever reads while it turns may see
   half of each, which they notice (a key of another certificate) and read again. */
#include "sidecar/control/bootstrap.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "base/rand.h"
#include "json/jansson.h"
#include "obs/log.h"
#include "pki/pki.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_NS     (5 * KP_NS_PER_S)
#define LOOK_NS      (2 * KP_NS_PER_S)
#define PAUSE_MIN_NS (200 * KP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * KP_NS_PER_S)
/* When the authority was replaced: until the others have seen the file, too; that not all ask at once; how much longer
   than that certificates of the one before count, so that gateways that asked early and late understand each other. */
#define SETTLE_NS (5 * KP_NS_PER_S)
#define SPREAD_NS (20 * KP_NS_PER_S)
#define GRACE_NS  (10 * KP_NS_PER_S)
enum {
	TOKEN_MAX = 16 << 10,
	ANSWER_MAX = 1 << 20,
	CONNECT_MS = 5000,
	ASK_MS = 15000,
	OWN_S = 86400
};

static const struct kp_doc_limits limits = {
	.max_bytes = ANSWER_MAX, .max_nodes = 100, .max_depth = 8, .max_docs = 1
};

/* One set of files; PEM. */
struct set {
	struct kp_buf cert, key, named; /* named: authorities that came with it */
};

struct kp_bootstrap {
	struct kp_bootstrap_opts opts;
	CURLM *multi;
	struct kp_mailbox *box;
	pthread_t thread;
	bool is_started, is_stopping;
	struct kp_rng rng;
	struct set now;
	bool is_real;            /* the operator signed it */
	struct kp_buf before;    /* authorities that came with the one before, for a while */
	int64_t before_until_ns; /* 0: none */
	int64_t spread_ns;
	struct kp_buf file;    /* the CA file as it was read last; empty: not yet */
	int64_t due_ns;        /* when to ask */
	int64_t pause_ns;      /* after the next failure */
	int64_t look_ns;       /* when to look at the CA file */
	char said[KP_ERR_MSG]; /* the last failure that was logged */
	struct kp_counter *renewed, *failed;
	struct kp_gauge *expiry;
};

static void set_init(struct set *s)
{
	kp_buf_init(&s->cert, KP_PKI_BUNDLE_MAX);
	kp_buf_init(&s->key, KP_PKI_REQUEST_MAX);
	kp_buf_init(&s->named, KP_PKI_BUNDLE_MAX);
}
static void set_fini(struct set *s)
{
	kp_buf_fini(&s->cert);
	kp_pki_wipe(&s->key);
	kp_buf_fini(&s->named);
}

static int64_t wall_s(void)
{
	return kp_wall_ns() / KP_NS_PER_S;
}
static int64_t random_ns(struct kp_bootstrap *b, int64_t below)
{
	return below > 0 ? (int64_t)kp_rng_below(&b->rng, (uint64_t)below) : 0;
}

/* --- files --- */

static void path_of(const struct kp_bootstrap *b, const char *tail, struct kp_buf *ret)
{
	kp_buf_init(ret, 8192);
	kp_buf_printf(ret, "%s%s", b->opts.dir, tail);
	KP_BUG_ON(!kp_buf_cstr(ret)); /* a path that long was refused before */
}

static int write_file(const struct kp_bootstrap *b, const char *tail, const struct kp_buf *content,
	struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf path;
	path_of(b, tail, &path);
	return kp_fs_write_atomic(path.p, kp_buf_str(content), 0600, err);
}

/* "-a", "-b": the one that the link does not name. */
static const char *unused(const struct kp_bootstrap *b)
{
	char to[4096];
	ssize_t n = readlink(b->opts.dir, to, sizeof(to));
	return n > 0 && kp_str_ends(kp_str_n(to, (size_t)n), KP_S("-a")) ? "-b" : "-a";
}

static int turn_link(const struct kp_bootstrap *b, const char *tail, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf to, link;
	path_of(b, tail, &to);
	path_of(b, ".new", &link);
	ptrdiff_t slash = kp_str_rfind_char(kp_buf_str(&to), '/');
	unlink(link.p);
	if (symlink(to.p + slash + 1, link.p) || rename(link.p, b->opts.dir)) {
		return kp_err_sys(err, errno, "turn `%s` to `%s`", b->opts.dir, to.p);
	}
	return 0;
}

/* All that are believed; without any, one's own certificate stands for them, since readers want some. */
static int bundle(
	const struct kp_bootstrap *b, const struct set *s, struct kp_buf *ret, struct kp_err *err)
{
	const kp_str texts[] = { kp_buf_str(&b->file), kp_buf_str(&s->named),
		kp_buf_str(&b->before) };
	if (kp_pki_bundle(texts, KP_LEN(texts), wall_s(), ret, err)) {
		return -1;
	}
	if (!ret->n) {
		kp_buf_add(ret, kp_buf_str(&s->cert));
	}
	return 0;
}

static int write_set(const struct kp_bootstrap *b, const struct set *s, struct kp_err *err)
{
	static const char *const files[2][3] = { { "-a/tls.crt", "-a/tls.key", "-a/ca.crt" },
		{ "-b/tls.crt", "-b/tls.key", "-b/ca.crt" } };
	KP_AUTO(buf) struct kp_buf ca, dir;
	const char *tail = unused(b);
	const char *const *to = files[tail[1] == 'b'];
	kp_buf_init(&ca, 2 * KP_PKI_BUNDLE_MAX);
	path_of(b, tail, &dir);
	if (bundle(b, s, &ca, err)) {
		return -1;
	}
	if (mkdir(dir.p, 0700) && errno != EEXIST) {
		return kp_err_sys(err, errno, "make `%s`", dir.p);
	}
	return write_file(b, to[0], &s->cert, err) || write_file(b, to[1], &s->key, err) ||
			       write_file(b, to[2], &ca, err) || turn_link(b, tail, err)
		       ? -1
		       : 0;
}

static int read_file(
	const struct kp_bootstrap *b, const char *tail, struct kp_buf *ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf path;
	path_of(b, tail, &path);
	return kp_fs_read(path.p, ret, err);
}

/* --- the certificate in use --- */

static void take(struct kp_bootstrap *b, struct set *s)
{
	struct kp_pki_facts f;
	struct kp_err err;
	b->now = *s;
	b->is_real = true;
	b->due_ns = kp_now_ns();
	if (kp_pki_cert_facts(kp_buf_str(&b->now.cert), &f, &err) == 0) {
		int64_t life = (f.not_after_s - f.not_before_s - KP_PKI_SKEW_S) * KP_NS_PER_S;
		int64_t left = (f.not_after_s - wall_s()) * KP_NS_PER_S;
		b->due_ns += left - life / 3 - random_ns(b, life / 10);
		b->spread_ns = KP_MIN(SPREAD_NS, life / 30);
		kp_gauge_set(b->expiry, f.not_after_s);
	}
}

/* What came with the one in use is believed a little longer than it. */
static void retire(struct kp_bootstrap *b)
{
	kp_buf_fini(&b->before);
	b->before = b->now.named;
	b->before_until_ns = kp_now_ns() + b->spread_ns + GRACE_NS;
	kp_buf_init(&b->now.named, KP_PKI_BUNDLE_MAX);
	set_fini(&b->now);
}

/* Of the last run of the container: ours, whole, and for this pod? */
static void adopt(struct kp_bootstrap *b)
{
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	struct set s;
	struct kp_err err;
	set_init(&s);
	if (read_file(b, "/tls.crt", &s.cert, &err) == 0 &&
		read_file(b, "/tls.key", &s.key, &err) == 0 &&
		read_file(b, "/ca.crt", &s.named, &err) == 0 &&
		kp_pki_key_read(kp_buf_str(&s.key), &key, &err) == 0 &&
		kp_pki_cert_is_of(kp_buf_str(&s.cert), key) &&
		kp_pki_cert_has_name(kp_buf_str(&s.cert), kp_str_c(b->opts.id))) {
		kp_log(KP_LOG_INFO, "going on with the certificate of the last run");
		take(b, &s);
	} else {
		set_fini(&s);
	}
}

static int new_key(struct kp_pki_key **ret, struct kp_buf *pem, struct kp_err *err)
{
	if (kp_pki_key_create(ret, err)) {
		return -1;
	}
	return kp_pki_key_write(*ret, pem, err);
}

/* One that nobody believes, so that nothing is ever without TLS. */
static int make_own(struct kp_bootstrap *b, struct kp_err *err)
{
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	struct set s;
	set_init(&s);
	int r = new_key(&key, &s.key, err);
	r = r ? r
	      : kp_pki_make_authority(
			key, "no certificate yet", wall_s(), wall_s() + OWN_S, &s.cert, err);
	r = r ? r : write_set(b, &s, err);
	set_fini(&s);
	return r;
}

/* --- asking --- */

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct kp_buf *b = ctx;
	kp_buf_add(b, kp_str_n(p, size * n));
	return b->failed ? 0 : size * n;
}

static int read_token(const struct kp_bootstrap *b, struct kp_buf *ret, struct kp_err *err)
{
	struct kp_buf text;
	kp_buf_init(&text, TOKEN_MAX);
	int r = kp_fs_read(b->opts.token_file, &text, err);
	kp_str token = kp_str_trim(kp_buf_str(&text));
	if (r == 0 && (!token.n || kp_str_find_char(token, '\n') >= 0)) {
		r = kp_err_set(err, KP_INVALID_ARGUMENT, "read `%s`: it has no token, or several",
			b->opts.token_file);
	}
	if (r == 0) {
		kp_buf_lit(ret, "Authorization: Bearer ");
		kp_buf_add(ret, token);
		r = kp_buf_cstr(ret) ? 0 : kp_buf_finish(ret, "token", err);
	}
	kp_pki_wipe(&text);
	return r;
}

static void run_messages(struct kp_bootstrap *b)
{
	kp_mailbox_drain(b->box);
}

/* Until it is over, or the gateway ends. */
static CURLcode perform(struct kp_bootstrap *b, CURL *easy)
{
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	int running = 1, left;
	curl_multi_add_handle(b->multi, easy);
	while (running && !b->is_stopping) {
		curl_multi_perform(b->multi, &running);
		if (running) {
			curl_multi_poll(b->multi, NULL, 0, 1000, NULL);
			run_messages(b);
		}
	}
	for (CURLMsg *m; (m = curl_multi_info_read(b->multi, &left));) {
		result = m->msg == CURLMSG_DONE ? m->data.result : result;
	}
	curl_multi_remove_handle(b->multi, easy);
	return result;
}

static void set_options(CURL *easy, const struct kp_buf *url, const struct kp_buf *csr,
	struct kp_buf *ca, struct curl_slist *headers, struct kp_buf *answer, char *text)
{
	struct curl_blob blob = { .data = ca->p, .len = ca->n, .flags = CURL_BLOB_COPY };
	curl_easy_setopt(easy, CURLOPT_URL, url->p);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* the operator is in this cluster */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ASK_MS);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, csr->p);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)csr->n);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "kelpie-sidecar");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, text);
}

/* What the operator says of a failure: {"error":{"message":...}}. */
static int refused(long http, kp_str body, struct kp_err *err)
{
	struct kp_err ignored;
	json_t *v = NULL;
	kp_str why = KP_STR_NULL;
	if (kp_doc_json(body, "answer", &limits, &v, &ignored) == 0) {
		why = kp_doc_str(json_object_get(v, "error"), "message");
	}
	kp_err_set(err, KP_UNAVAILABLE, "the operator says %ld: %" KP_FMT, http,
		KP_ARG(why.n ? why : KP_S("(nothing that can be read)")));
	json_decref(v);
	return -1;
}

/* The signed certificate must be ours: of our key, by our name, by one of those that are named. */
static int read_answer(const struct kp_bootstrap *b, kp_str body, const struct kp_pki_key *key,
	struct set *s, struct kp_err *err)
{
	struct kp_pki_facts f;
	json_t *v;
	if (kp_doc_json(body, "answer", &limits, &v, err)) {
		return -1;
	}
	kp_buf_add(&s->cert, kp_doc_str(v, "certificate"));
	kp_buf_add(&s->named, kp_doc_str(v, "authorities"));
	json_decref(v);
	kp_str cert = kp_buf_str(&s->cert);
	if (kp_buf_finish(&s->cert, "certificate", err) ||
		kp_buf_finish(&s->named, "authorities", err) || kp_pki_cert_facts(cert, &f, err)) {
		return -1;
	}
	if (!kp_pki_cert_is_of(cert, key) || !kp_pki_cert_has_name(cert, kp_str_c(b->opts.id)) ||
		!kp_pki_cert_is_signed_by(cert, kp_buf_str(&s->named)) ||
		f.not_after_s <= wall_s()) {
		return kp_err_set(err, KP_DATA_LOSS,
			"the certificate that came is not the one that was asked for, or is over by this clock");
	}
	return 0;
}

static int post(struct kp_bootstrap *b, const struct kp_buf *csr, struct kp_buf *token,
	struct kp_buf *answer, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf url, ca;
	char text[CURL_ERROR_SIZE] = "";
	long http = 0;
	kp_buf_init(&url, 8192);
	kp_buf_init(&ca, 2 * KP_PKI_BUNDLE_MAX);
	kp_str base = kp_str_c(b->opts.url);
	base.n -= kp_str_ends(base, KP_S("/"));
	kp_buf_printf(&url, "%" KP_FMT "/certificates", KP_ARG(base));
	if (!kp_buf_cstr(&url) || bundle(b, &b->now, &ca, err)) {
		return kp_buf_finish(&url, "URL", err) ? -1
						       : kp_err_wrap(err, "`%s`", b->opts.ca_file);
	}
	if (!ca.n) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"`%s` is not there yet: nobody is believed", b->opts.ca_file);
	}
	CURL *easy = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, token->p);
	headers = curl_slist_append(headers, "Content-Type: application/pkcs10");
	headers = curl_slist_append(headers, "Expect:");
	KP_BUG_ON(!easy || !headers);
	set_options(easy, &url, csr, &ca, headers, answer, text);
	CURLcode result = perform(b, easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http);
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	if (result != CURLE_OK) {
		return kp_err_set(err, KP_UNAVAILABLE, "POST `%s`: %s", url.p,
			text[0] ? text : curl_easy_strerror(result));
	}
	return http == 200 ? 0 : refused(http, kp_buf_str(answer), err);
}

static int ask(struct kp_bootstrap *b, struct set *s, struct kp_err *err)
{
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	KP_AUTO(buf) struct kp_buf csr, answer;
	struct kp_buf token;
	kp_buf_init(&csr, KP_PKI_REQUEST_MAX);
	kp_buf_init(&answer, ANSWER_MAX);
	kp_buf_init(&token, TOKEN_MAX + 64);
	int r = read_token(b, &token, err);
	r = r ? r : new_key(&key, &s->key, err);
	r = r ? r : kp_pki_csr_write(key, b->opts.id, &csr, err);
	r = r ? r : post(b, &csr, &token, &answer, err);
	r = r ? r : read_answer(b, kp_buf_str(&answer), key, s, err);
	kp_pki_wipe(&token);
	return r;
}

static void failed(struct kp_bootstrap *b, const struct kp_err *err)
{
	kp_counter_add(b->failed, 1);
	if (!kp_str_eq(kp_str_c(b->said), kp_str_c(err->msg))) { /* the same is said once */
		snprintf(b->said, sizeof(b->said), "%s", err->msg);
		kp_log(KP_LOG_WARN, "no certificate from the operator, trying again",
			kp_f_err(err));
	}
	b->due_ns = kp_now_ns() + b->pause_ns / 2 + random_ns(b, b->pause_ns);
	b->pause_ns = KP_MIN(b->pause_ns * 2, PAUSE_MAX_NS);
}

static void renew(struct kp_bootstrap *b)
{
	struct set s;
	struct kp_err err;
	set_init(&s);
	if (ask(b, &s, &err)) {
		set_fini(&s);
		if (!b->is_stopping) {
			failed(b, &err);
		}
		return;
	}
	retire(b);
	take(b, &s);
	if (write_set(b, &b->now, &err)) {
		failed(b, &err);
		return;
	}
	b->said[0] = '\0';
	b->pause_ns = PAUSE_MIN_NS;
	kp_counter_add(b->renewed, 1);
	kp_log(KP_LOG_INFO, "certificate signed by the operator", kp_f_z("id", b->opts.id),
		kp_f_int("renewed_in_s", (b->due_ns - kp_now_ns()) / KP_NS_PER_S));
}

/* --- the CA file --- */

static bool is_signed_by_file(const struct kp_bootstrap *b)
{
	return kp_pki_cert_is_signed_by(kp_buf_str(&b->now.cert), kp_buf_str(&b->file));
}

/* A file that makes no sense leaves the last good one in force. */
static void look(struct kp_bootstrap *b)
{
	struct kp_buf text, probe;
	struct kp_err err;
	b->look_ns = kp_now_ns() + LOOK_NS;
	kp_buf_init(&text, KP_PKI_BUNDLE_MAX);
	kp_buf_init(&probe, KP_PKI_BUNDLE_MAX);
	int r = kp_fs_read(b->opts.ca_file, &text, &err);
	kp_str all = kp_buf_str(&text);
	if (r || kp_str_eq(all, kp_buf_str(&b->file)) ||
		kp_pki_bundle(&all, 1, wall_s(), &probe, &err) || !probe.n) {
		kp_buf_fini(&text);
		kp_buf_fini(&probe);
		return;
	}
	kp_buf_fini(&probe);
	kp_buf_fini(&b->file);
	b->file = text;
	if (!b->is_real) {
		b->due_ns = kp_now_ns();
		return;
	}
	kp_log(KP_LOG_INFO, "authorities read", kp_f_z("file", b->opts.ca_file));
	if (write_set(b, &b->now, &err)) {
		kp_log(KP_LOG_ERROR, "cannot write the authorities", kp_f_err(&err));
	}
	if (!is_signed_by_file(b)) {
		b->due_ns = KP_MIN(b->due_ns, kp_now_ns() + SETTLE_NS + random_ns(b, b->spread_ns));
	}
}

static void forget(struct kp_bootstrap *b)
{
	struct kp_err err;
	b->before_until_ns = 0;
	kp_buf_reset(&b->before);
	if (write_set(b, &b->now, &err)) {
		kp_log(KP_LOG_ERROR, "cannot write the authorities", kp_f_err(&err));
	}
}

/* --- life --- */

/* Until it is to stop; with until_ns: or until then, or until there is a certificate. */
static void run(struct kp_bootstrap *b, int64_t until_ns)
{
	while (!b->is_stopping && (!until_ns || (!b->is_real && kp_now_ns() < until_ns))) {
		int64_t now = kp_now_ns();
		if (now >= b->look_ns) {
			look(b);
		}
		if (b->before_until_ns && now >= b->before_until_ns) {
			forget(b);
		}
		if (now >= b->due_ns) {
			renew(b);
			continue;
		}
		int64_t next = KP_MIN(b->due_ns, b->look_ns);
		next = until_ns ? KP_MIN(next, until_ns) : next;
		int64_t ms = KP_MAX((next - now) / KP_NS_PER_MS, (int64_t)1);
		curl_multi_poll(b->multi, NULL, 0, (int)KP_MIN(ms, (int64_t)60000), NULL);
		run_messages(b);
	}
}

static void *thread_main(void *arg)
{
	run(arg, 0);
	return NULL;
}

static void wake(void *arg)
{
	struct kp_bootstrap *b = arg;
	curl_multi_wakeup(b->multi);
}

static void init_metrics(struct kp_bootstrap *b)
{
	const char *name = "kelpie_certificate_requests_total",
		   *help = "Times the operator was asked for a certificate, by result.";
	const struct kp_label signed_ = { "result", KP_S("signed") },
			      failed_ = { "result", KP_S("failed") };
	b->renewed = kp_metrics_counter(b->opts.metrics, name, help, &signed_, 1);
	b->failed = kp_metrics_counter(b->opts.metrics, name, help, &failed_, 1);
	b->expiry = kp_metrics_gauge(b->opts.metrics, "kelpie_certificate_expiry_timestamp_seconds",
		"When this gateway's certificate is over; 0: it has none of the operator's.", NULL,
		0);
}

int kp_bootstrap_start(
	const struct kp_bootstrap_opts *opts, struct kp_bootstrap **ret, struct kp_err *err)
{
	struct kp_bootstrap *b = kp_new(struct kp_bootstrap);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	b->opts = *opts;
	b->multi = curl_multi_init();
	KP_BUG_ON(!b->multi);
	b->box = kp_mailbox_create(wake, b);
	b->pause_ns = PAUSE_MIN_NS;
	kp_rng_seed(&b->rng, (uint64_t)kp_now_ns() ^ (uint64_t)getpid() << 32);
	set_init(&b->now);
	kp_buf_init(&b->file, KP_PKI_BUNDLE_MAX);
	kp_buf_init(&b->before, KP_PKI_BUNDLE_MAX);
	init_metrics(b);
	adopt(b);
	if (!b->is_real && make_own(b, err)) {
		kp_bootstrap_stop(b);
		return -1;
	}
	run(b, kp_now_ns() + FIRST_NS);
	if (pthread_create(&b->thread, NULL, thread_main, b) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start the bootstrap thread");
	}
	b->is_started = true;
	*ret = b;
	return 0;
}

struct stop {
	struct kp_msg msg;
	struct kp_bootstrap *b;
};

static void on_stop(struct kp_msg *msg)
{
	struct stop *s = KP_CONTAINER(msg, struct stop, msg);
	s->b->is_stopping = true;
	kp_mem_free(s);
}

void kp_bootstrap_stop(struct kp_bootstrap *b)
{
	if (!b) {
		return;
	}
	if (b->is_started) {
		struct stop *s = kp_new(struct stop);
		*s = (struct stop){ .msg = { .run = on_stop }, .b = b };
		kp_mailbox_post(b->box, &s->msg);
		pthread_join(b->thread, NULL);
	}
	kp_mailbox_destroy(b->box);
	curl_multi_cleanup(b->multi);
	set_fini(&b->now);
	kp_buf_fini(&b->file);
	kp_buf_fini(&b->before);
	kp_mem_free(b);
}
