/* DESIGN: libcurl's multi interface, in batches. The body of each is bounded by its buffer; it is read by
   lib/json, strictly, under limits. */
#include "cli/fetch.h"
#include "cli/cli.h"

#include "base/buf.h"
#include "base/version.h"
#include "json/jansson.h"

#include <curl/curl.h>
#include <stdio.h>

enum { CONNECT_MS = 5000, ALL_MS = 15000 };
static const struct kp_doc_limits limits = {
	.max_bytes = KP_FETCH_MAX_BYTES, .max_nodes = 8 << 20, .max_depth = 32, .max_docs = 1
};

struct transfer {
	CURL *easy;
	struct kp_buf body;
	struct curl_slist *headers;
	char text[CURL_ERROR_SIZE];
};

static void add_encoded(struct kp_buf *b, kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
				(c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' ||
				c == '~';
		if (is_plain) {
			kp_buf_addc(b, (char)c);
		} else {
			kp_buf_printf(b, "%%%02X", c);
		}
	}
}

int kp_fetch_url(struct kp_arena *a, const char *server, const char *what, kp_str operand,
	const char **ret, struct kp_err *err)
{
	kp_str s = kp_str_c(server);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 8192);
	if (!kp_str_has(s, KP_S("://"))) {
		kp_buf_lit(&b, "http://");
	} else if (!kp_str_starts(s, KP_S("http://")) && !kp_str_starts(s, KP_S("https://"))) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: only http:// and https:// are spoken",
			server);
		return kp_cli_usage(err);
	}
	kp_buf_add(&b, s);
	if (!kp_str_ends(s, KP_S("/"))) {
		kp_buf_addc(&b, '/');
	}
	kp_buf_addz(&b, what);
	add_encoded(&b, operand);
	if (kp_buf_finish(&b, server, err)) {
		return -1;
	}
	*ret = kp_arena_strz(a, kp_buf_str(&b));
	return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct kp_buf *body = ctx;
	kp_buf_add(body, kp_str_n(p, size * n));
	return body->failed ? 0 : size * n;
}

static void begin(CURLM *multi, struct transfer *t, const struct kp_fetched *f)
{
	char agent[64];
	snprintf(agent, sizeof(agent), "kubectl-kelpie/%s", kp_version());
	kp_buf_init(&t->body, KP_FETCH_MAX_BYTES);
	t->text[0] = '\0';
	t->easy = curl_easy_init();
	curl_easy_setopt(t->easy, CURLOPT_URL, f->url);
	curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(t->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)ALL_MS);
	curl_easy_setopt(t->easy, CURLOPT_USERAGENT, agent);
	curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->text);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, &t->body);
	curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	t->headers = NULL;
	if (f->body.p) {
		t->headers = curl_slist_append(NULL, "content-type: application/json");
		curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body.n);
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, f->body.p);
	}
	curl_multi_add_handle(multi, t->easy);
}

/* What the server says of its refusal: its error's message, if there is one. */
static void refused(struct kp_fetched *f, long status, const json_t *said)
{
	kp_str message = kp_doc_str(kp_doc_at(said, "error"), "message");
	enum kp_code code = status == 404   ? KP_NOT_FOUND
			    : status == 503 ? KP_UNAVAILABLE
					    : KP_UNKNOWN;
	if (message.n) {
		kp_err_set(&f->err, code, "ask `%s`: %" KP_FMT " (%ld)", f->url,
			KP_ARG(kp_str_sub(message, 0, 300)), status);
	} else {
		/* Not one of ours: a path that is not there says nothing about the operand. */
		kp_err_set(&f->err, status == 404 ? KP_DATA_LOSS : code, "ask `%s`: it answers %ld",
			f->url, status);
	}
}

static void end(struct transfer *t, CURLcode result, struct kp_fetched *f)
{
	long status = 0;
	struct kp_err err;
	json_t *v = NULL;
	if (t->body.failed) {
		kp_err_set(&f->err, KP_DATA_LOSS, "ask `%s`: the answer has more than %d bytes",
			f->url, KP_FETCH_MAX_BYTES);
		return;
	}
	if (result != CURLE_OK) {
		bool is_wrong =
			result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL;
		kp_err_set(&f->err, is_wrong ? KP_INVALID_ARGUMENT : KP_UNAVAILABLE, "ask `%s`: %s",
			f->url, t->text[0] ? t->text : curl_easy_strerror(result));
		if (is_wrong) {
			(void)kp_cli_usage(&f->err);
		}
		return;
	}
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	int r = kp_doc_json(kp_buf_str(&t->body), "answer", &limits, &v, &err);
	if (status != 200) {
		refused(f, status, r == 0 ? v : NULL);
	} else if (r == 0 && json_is_object(v)) {
		f->json = v;
		return;
	} else {
		kp_err_set(&f->err, KP_DATA_LOSS, "ask `%s`: %s", f->url,
			r ? err.msg : "the answer is no JSON object");
	}
	json_decref(v);
}

static void batch(CURLM *multi, struct kp_fetched *f, struct transfer *t, size_t n)
{
	int running = 1, left;
	for (size_t i = 0; i < n; i++) {
		f[i].json = NULL;
		begin(multi, &t[i], &f[i]);
	}
	while (running && curl_multi_perform(multi, &running) == CURLM_OK) {
		if (running) {
			curl_multi_poll(multi, NULL, 0, 1000, NULL);
		}
	}
	for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));) {
		struct transfer *at;
		if (m->msg == CURLMSG_DONE) {
			curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&at);
			end(at, m->data.result, &f[at - t]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		curl_multi_remove_handle(multi, t[i].easy);
		curl_easy_cleanup(t[i].easy);
		curl_slist_free_all(t[i].headers);
		kp_buf_fini(&t[i].body);
	}
}

void kp_fetch_all(struct kp_fetched *f, size_t n)
{
	static struct transfer transfers[KP_FETCH_AT_ONCE];
	CURLM *multi = curl_multi_init();
	for (size_t at = 0; at < n; at += KP_FETCH_AT_ONCE) {
		batch(multi, f + at, transfers, KP_MIN(n - at, (size_t)KP_FETCH_AT_ONCE));
	}
	curl_multi_cleanup(multi);
}

void kp_fetch_fini(struct kp_fetched *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_decref(f[i].json);
		f[i].json = NULL;
	}
}
