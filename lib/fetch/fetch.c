/* DESIGN: a call is one request with its redirects; each hop has an easy handle of its own. libcurl's callbacks write down what
   came (bytes into `in`, the call into `ready` or `ended`); `settle`, at the end of the loop's turn, does the rest.

   A call is in f->calls until it ended, then in f->ended until `done` was called; one that is held back when it ends waits in
   f->calls, with is_over set. It is in f->ready, besides, while there is something to tell of. All its deadlines are one timer.

   libcurl sends a request again by itself when a connection that it had kept was closed meanwhile. For a request that may be made
   only once, before_send() says no: after that nobody knows whether the first one arrived. */
#include "fetch/fetch.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fetch/multi.h"

#include <stdio.h>
#include <unistd.h>

#define CONNECT_NS    (10 * KP_NS_PER_S)
#define FIRST_BYTE_NS (60 * KP_NS_PER_S)
#define TOTAL_NS      (300 * KP_NS_PER_S)
enum { HEADERS_MAX = 64, HEADER_MAX = 64 << 10, TURN_MAX = 1 << 20, HOST_SHOWN = 100 };

struct kp_fetch {
	struct kp_loop *loop;
	struct kp_fetch_opts opts;
	struct kp_multi multi;
	struct kp_list calls, ended, ready;
	struct kp_defer settle;
	size_t n;
};

struct kp_fetch_call {
	struct kp_list link, ready;
	struct kp_fetch *f;
	struct kp_fetch_request r;
	const char *method; /* of this hop */
	CURLU *url;
	CURL *easy;
	struct curl_slist *headers;
	char *body; /* NULL: none (any more) */
	struct kp_buf in;
	struct kp_timer timer;
	int64_t began_ns, due_ns, heard_ns; /* due: in all */
	size_t head_bytes;
	uint64_t n_bytes;
	unsigned hops, sent; /* sent: how often libcurl was about to send it, this hop */
	int status;
	CURLcode result;
	struct kp_err failed, denied; /* code OK: libcurl's result counts; no address was refused */
	char host[HOST_SHOWN + 1], text[CURL_ERROR_SIZE];
	bool has_head, is_redirect, is_told, is_held, is_paused, is_over, is_calling, is_dead;
};

static void settle(struct kp_defer *d);

static void settle_soon(struct kp_fetch *f)
{
	kp_loop_defer(f->loop, &f->settle, settle);
}

static void stirred(struct kp_multi *m)
{
	settle_soon(KP_CONTAINER(m, struct kp_fetch, multi));
}

static void ready(struct kp_fetch_call *c)
{
	if (!kp_list_linked(&c->ready)) {
		kp_list_push(&c->f->ready, &c->ready);
	}
	settle_soon(c->f);
}

/* --- what libcurl calls --- */

static bool is_redirect(const struct kp_fetch_call *c)
{
	return c->r.max_redirects > 0 && c->status >= 301 && c->status <= 308 && c->status != 304 &&
	       c->status != 305 && c->status != 306 && kp_fetch_header(kp_unconst(c), "Location").n;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	struct kp_fetch_call *c = ctx;
	long status = 0;
	c->heard_ns = kp_loop_now(c->f->loop);
	c->head_bytes += n;
	if (c->head_bytes > KP_FETCH_HEAD_MAX) {
		kp_err_set(&c->failed, KP_TOO_LARGE,
			"%s `%s`: the head of the answer has more than %d bytes", c->method,
			c->host, KP_FETCH_HEAD_MAX);
		return 0;
	}
	if (c->has_head || kp_str_trim(kp_str_n(p, n)).n) {
		return size * n;
	}
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200) {
		return size * n; /* of an interim answer */
	}
	c->has_head = true;
	c->status = (int)status;
	c->is_redirect = is_redirect(c);
	kp_str coding = kp_fetch_header(c, "Content-Encoding");
	if (coding.n && !kp_str_ieq(coding, KP_S("identity")) && !c->is_redirect) {
		kp_err_set(&c->failed, KP_DATA_LOSS,
			"%s `%s`: the answer is compressed, which nobody asked for", c->method,
			c->host);
		return 0;
	}
	ready(c);
	return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct kp_fetch_call *c = ctx;
	c->heard_ns = kp_loop_now(c->f->loop);
	if (c->is_redirect) {
		return size * n;
	}
	if (c->in.n + n > (c->is_held ? (size_t)KP_FETCH_FLOW_BYTES : (size_t)TURN_MAX)) {
		c->is_paused = true;
		return CURL_WRITEFUNC_PAUSE; /* libcurl keeps these bytes */
	}
	c->n_bytes += n;
	if (c->r.max_bytes && c->n_bytes > c->r.max_bytes) {
		kp_err_set(&c->failed, KP_TOO_LARGE, "%s `%s`: the answer has more than %llu bytes",
			c->method, c->host, (unsigned long long)c->r.max_bytes);
		return 0;
	}
	kp_buf_add(&c->in, kp_str_n(p, n));
	if (c->in.failed) {
		kp_err_set(&c->failed, KP_RESOURCE_EXHAUSTED, "%s `%s`: no memory for the answer",
			c->method, c->host);
		return 0;
	}
	ready(c);
	return size * n;
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct kp_fetch_call *c = ctx;
	(void)purpose;
	if (kp_fetch_address_check(c->f->opts.policy, &a->addr, &c->denied)) {
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int before_send(void *ctx, char *ip, char *local_ip, int port, int local_port)
{
	struct kp_fetch_call *c = ctx;
	(void)ip;
	(void)local_ip;
	(void)port;
	(void)local_port;
	return ++c->sent > 1 && c->r.once ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* --- a hop --- */

static void end_hop(struct kp_fetch_call *c)
{
	if (c->easy) {
		curl_multi_remove_handle(c->f->multi.curl, c->easy);
		curl_easy_cleanup(c->easy);
		c->easy = NULL;
	}
}

static void set_options(struct kp_fetch_call *c)
{
	CURL *easy = c->easy;
	int64_t connect_ns = c->r.connect_ns ? c->r.connect_ns : CONNECT_NS;
	curl_easy_setopt(easy, CURLOPT_CURLU, c->url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(
		easy, CURLOPT_QUICK_EXIT, 1L); /* or a cancelled look-up of a name is waited for */
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / KP_NS_PER_MS));
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->text);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, c);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, c);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, c);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, c->f->opts.user_agent);
	if (c->f->opts.ca_pem.n) {
		struct curl_blob blob = { .data = kp_unconst(c->f->opts.ca_pem.p),
			.len = c->f->opts.ca_pem.n,
			.flags = CURL_BLOB_COPY };
		curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
	}
	if (c->body) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, c->body);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->r.body.n);
	}
	if (kp_str_eq(kp_str_c(c->method), KP_S("HEAD"))) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else {
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c->method);
	}
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, c->headers);
}

static void note_host(struct kp_fetch_call *c)
{
	char *host = NULL;
	curl_url_get(c->url, CURLUPART_HOST, &host, 0);
	snprintf(c->host, sizeof(c->host), "%s", host ? host : "");
	curl_free(host);
}

static int begin_hop(struct kp_fetch_call *c, struct kp_err *err)
{
	note_host(c);
	c->text[0] = '\0';
	c->has_head = c->is_redirect = false;
	c->sent = 0;
	c->status = 0;
	c->result = CURLE_OK;
	c->denied = KP_ERR_INIT;
	c->easy = curl_easy_init();
	if (!c->easy) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "%s `%s`: no handle for it",
			c->method, c->host);
	}
	set_options(c);
	CURLMcode r = curl_multi_add_handle(c->f->multi.curl, c->easy);
	if (r != CURLM_OK) {
		return kp_err_set(err, KP_INTERNAL, "%s `%s`: %s", c->method, c->host,
			curl_multi_strerror(r));
	}
	return 0;
}

/* --- its end --- */

static void free_call(struct kp_fetch_call *c)
{
	struct kp_fetch *f = c->f;
	end_hop(c);
	kp_list_del(&c->link);
	kp_list_del(&c->ready);
	kp_timer_stop(f->loop, &c->timer);
	curl_slist_free_all(c->headers);
	curl_url_cleanup(c->url);
	kp_buf_fini(&c->in);
	kp_mem_free(c->body);
	kp_mem_free(c);
	f->n--;
}

/* It ends at the end of this turn, as `failed` says. */
static void fail_soon(struct kp_fetch_call *c)
{
	end_hop(c);
	kp_timer_stop(c->f->loop, &c->timer);
	c->is_over = true;
	c->is_held = false;
	kp_buf_reset(&c->in);
	kp_list_del(&c->link);
	kp_list_push(&c->f->ended, &c->link);
	settle_soon(c->f);
}

static void describe(struct kp_fetch_call *c, struct kp_err *err)
{
	if (c->failed.code != KP_OK) {
		*err = c->failed;
	} else if (c->denied.code != KP_OK && c->result == CURLE_COULDNT_CONNECT) {
		*err = c->denied;
	} else if (c->result != CURLE_OK) {
		kp_err_set(err,
			c->result == CURLE_OPERATION_TIMEDOUT ? KP_DEADLINE_EXCEEDED
							      : KP_UNAVAILABLE,
			"%s `%s`: %s", c->method, c->host,
			c->sent > 1  ? "the connection was lost"
			: c->text[0] ? c->text
				     : curl_easy_strerror(c->result));
	}
}

static bool is_unsent(const struct kp_fetch_call *c)
{
	return c->hops == 0 && c->sent == 0 && c->status == 0;
}

static void finish(struct kp_fetch_call *c)
{
	struct kp_fetch_result r = { .err = KP_ERR_INIT, .status = c->status };
	describe(c, &r.err);
	r.is_unsent = r.err.code != KP_OK && is_unsent(c);
	c->is_calling = true;
	c->r.done(c->r.ctx, &r);
	free_call(c);
}

static void on_timer(struct kp_timer *t);

static void arm(struct kp_fetch_call *c)
{
	int64_t due = c->due_ns;
	if (!c->has_head) {
		due = KP_MIN(due, c->began_ns + c->r.first_byte_ns);
	} else if (c->r.idle_ns && !c->is_held) {
		due = KP_MIN(due, c->heard_ns + c->r.idle_ns);
	}
	kp_timer_start(c->f->loop, &c->timer, due, on_timer);
}

static void on_timer(struct kp_timer *t)
{
	struct kp_fetch_call *c = KP_CONTAINER(t, struct kp_fetch_call, timer);
	int64_t now = kp_loop_now(c->f->loop);
	const char *what = NULL;
	int64_t ns = 0;
	if (now >= c->due_ns) {
		what = "is not complete within";
		ns = c->r.total_ns;
	} else if (!c->has_head && now >= c->began_ns + c->r.first_byte_ns) {
		what = "did not begin within";
		ns = c->r.first_byte_ns;
	} else if (c->has_head && c->r.idle_ns && !c->is_held &&
		   now >= c->heard_ns + c->r.idle_ns) {
		what = "said nothing for";
		ns = c->r.idle_ns;
	}
	if (!what) {
		arm(c);
		return;
	}
	kp_err_set(&c->failed, KP_DEADLINE_EXCEEDED, "%s `%s`: the answer %s %lld ms", c->method,
		c->host, what, (long long)(ns / KP_NS_PER_MS));
	fail_soon(c);
}

/* --- redirects --- */

static bool is_kept_elsewhere(const char *header)
{
	return strncasecmp(header, "Accept:", 7) == 0 ||
	       strncasecmp(header, "Content-Type:", 13) == 0 ||
	       strncasecmp(header, "Expect:", 7) == 0;
}

static void drop_headers(struct kp_fetch_call *c)
{
	struct curl_slist *kept = NULL;
	for (struct curl_slist *h = c->headers; h; h = h->next) {
		if (is_kept_elsewhere(h->data)) {
			kept = curl_slist_append(kept, h->data);
			KP_BUG_ON(!kept);
		}
	}
	curl_slist_free_all(c->headers);
	c->headers = kept;
}

static bool is_https(CURLU *u)
{
	char *scheme = NULL;
	curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
	bool is = scheme && strcasecmp(scheme, "https") == 0;
	curl_free(scheme);
	return is;
}

static int follow(struct kp_fetch_call *c, struct kp_err *err)
{
	CURLU *to = NULL;
	if (++c->hops > c->r.max_redirects) {
		return kp_err_set(err, KP_DATA_LOSS, "%s `%s`: more than %u redirects", c->method,
			c->host, c->r.max_redirects);
	}
	if (kp_fetch_url_follow(
		    c->f->opts.policy, c->url, kp_fetch_header(c, "Location"), &to, err)) {
		return kp_err_wrap(err, "%s `%s`: redirect", c->method, c->host);
	}
	bool is_same = kp_fetch_same_origin(c->url, to);
	if ((!is_same && c->r.same_origin) || (is_https(c->url) && !is_https(to))) {
		curl_url_cleanup(to);
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"%s `%s`: it redirects to %s, which is not followed", c->method, c->host,
			c->r.same_origin ? "another origin" : "plain http");
	}
	if (!is_same) {
		drop_headers(c);
	}
	if (c->status == 303 ||
		(c->status <= 302 && kp_str_eq(kp_str_c(c->method), KP_S("POST")))) {
		c->method = "GET";
		kp_free(&c->body);
	}
	end_hop(c);
	curl_url_cleanup(c->url);
	c->url = to;
	return begin_hop(c, err);
}

/* --- the end of the turn --- */

/* What came of it so far. */
static void deliver(struct kp_fetch_call *c)
{
	if (c->is_redirect && !c->is_over) {
		if (follow(c, &c->failed)) {
			fail_soon(c);
		}
		return;
	}
	if (c->is_held || !c->has_head || c->failed.code != KP_OK) {
		return;
	}
	if (!c->is_over) {
		arm(c);
	}
	c->is_calling = true;
	if (!c->is_told) {
		c->is_told = true;
		if (c->r.head) {
			c->r.head(c->r.ctx, c->status);
		}
	}
	if (c->in.n && !c->is_dead && !c->is_held) {
		c->r.data(c->r.ctx, kp_buf_str(&c->in));
		kp_buf_reset(&c->in);
	}
	c->is_calling = false;
	if (c->is_dead) {
		free_call(c);
	} else if (c->is_paused && !c->is_held) {
		c->is_paused = false;
		curl_easy_pause(c->easy, CURLPAUSE_CONT);
	}
}

static void collect(struct kp_fetch *f)
{
	CURLcode result;
	for (struct kp_fetch_call *c; (c = kp_multi_ended(&f->multi, &result));) {
		c->result = result;
		if (c->is_redirect && c->failed.code == KP_OK) {
			ready(c); /* which follows it */
			continue;
		}
		if (result == CURLE_OK && !c->has_head && c->failed.code == KP_OK) {
			kp_err_set(&c->failed, KP_DATA_LOSS,
				"%s `%s`: the head of the answer is not complete", c->method,
				c->host);
		}
		c->is_over = true;
		kp_timer_stop(f->loop, &c->timer);
		kp_list_del(&c->link);
		kp_list_push(&f->ended, &c->link);
		ready(c);
	}
}

static void settle(struct kp_defer *d)
{
	struct kp_fetch *f = KP_CONTAINER(d, struct kp_fetch, settle);
	struct kp_list turn, *node;
	collect(f);
	kp_list_take(&turn, &f->ready);
	while ((node = kp_list_pop(&turn))) {
		deliver(KP_CONTAINER(node, struct kp_fetch_call, ready));
	}
	kp_list_take(&turn, &f->ended);
	while ((node = kp_list_pop(&turn))) {
		struct kp_fetch_call *c = KP_CONTAINER(node, struct kp_fetch_call, link);
		if (c->is_held) {
			kp_list_push(&f->calls, &c->link); /* kp_fetch_hold brings it back */
		} else {
			finish(c);
		}
	}
}

/* --- making and cancelling --- */

bool kp_fetch_header_ok(kp_str name, kp_str value)
{
	bool is_right = name.n > 0 && name.n + value.n < HEADER_MAX - 2;
	for (size_t i = 0; i < name.n; i++) {
		is_right = is_right && name.p[i] > ' ' && name.p[i] < 0x7f && name.p[i] != ':';
	}
	for (size_t i = 0; i < value.n; i++) {
		unsigned char v = (unsigned char)value.p[i];
		is_right = is_right && (v >= ' ' || v == '\t') && v != 0x7f;
	}
	return is_right;
}

static int add_header(struct kp_fetch_call *c, const struct kp_fetch_header *h, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, HEADER_MAX);
	kp_buf_add(&b, h->name);
	if (kp_str_trim(h->value).n) {
		kp_buf_lit(&b, ": ");
		kp_buf_add(&b, h->value);
	} else {
		kp_buf_lit(&b, ";"); /* how libcurl sends an empty one */
	}
	const char *z = kp_buf_cstr(&b);
	if (!kp_fetch_header_ok(h->name, h->value) || !z) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the header `%" KP_FMT "` cannot be sent",
			KP_ARG(kp_str_sub(h->name, 0, 64)));
	}
	struct curl_slist *more = curl_slist_append(c->headers, z);
	KP_BUG_ON(!more);
	c->headers = more;
	return 0;
}

static int set_up(struct kp_fetch_call *c, struct kp_err *err)
{
	const struct kp_fetch_request *r = &c->r;
	if (r->n_headers > HEADERS_MAX) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "a request has at most %d headers", HEADERS_MAX);
	}
	if (kp_fetch_url_parse(c->f->opts.policy, r->url, &c->url, err)) {
		return -1;
	}
	for (size_t i = 0; i < r->n_headers; i++) {
		if (add_header(c, &r->headers[i], err)) {
			return -1;
		}
	}
	c->headers = curl_slist_append(c->headers, "Expect:"); /* no body is worth asking first */
	KP_BUG_ON(!c->headers);
	if (r->body.n) {
		c->body = kp_try_malloc(r->body.n);
		if (!c->body) {
			return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				"no memory for a body of %zu bytes", r->body.n);
		}
		memcpy(c->body, r->body.p, r->body.n);
	}
	return begin_hop(c, err);
}

struct kp_fetch_call *kp_fetch_send(
	struct kp_fetch *f, const struct kp_fetch_request *r, struct kp_err *err)
{
	kp_assert_on(f->loop);
	if (f->n >= f->opts.max_calls) {
		kp_err_set(err, KP_RESOURCE_EXHAUSTED, "more than %u requests at once",
			f->opts.max_calls);
		return NULL;
	}
	struct kp_fetch_call *c = kp_new(struct kp_fetch_call);
	c->f = f;
	c->r = *r;
	c->method = r->method;
	c->r.first_byte_ns = r->first_byte_ns ? r->first_byte_ns : FIRST_BYTE_NS;
	c->r.total_ns = r->total_ns ? r->total_ns : TOTAL_NS;
	c->began_ns = c->heard_ns = kp_loop_now(f->loop);
	c->due_ns = c->began_ns + c->r.total_ns;
	kp_buf_init(&c->in, TURN_MAX);
	kp_list_push(&f->calls, &c->link);
	f->n++;
	if (set_up(c, err)) {
		free_call(c);
		return NULL;
	}
	c->r.headers = NULL; /* the caller's */
	c->r.url = KP_STR_NULL;
	arm(c);
	return c;
}

void kp_fetch_cancel(struct kp_fetch_call *c)
{
	if (c->is_calling) {
		c->is_dead = true;
	} else {
		free_call(c);
	}
}

kp_str kp_fetch_header(struct kp_fetch_call *c, const char *name)
{
	struct curl_header *h;
	if (!c->easy || curl_easy_header(c->easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK) {
		return KP_STR_NULL;
	}
	kp_str v = kp_str_c(h->value);
	if (h->amount > 1 &&
		curl_easy_header(c->easy, name, h->amount - 1, CURLH_HEADER, -1, &h) == CURLHE_OK) {
		v = kp_str_c(h->value);
	}
	return kp_str_trim(v);
}

void kp_fetch_hold(struct kp_fetch_call *c, bool is_held)
{
	if (c->is_held == is_held) {
		return;
	}
	c->is_held = is_held;
	if (is_held) {
		return;
	}
	ready(c);
	c->heard_ns = kp_loop_now(c->f->loop);
	if (c->is_over) {
		kp_list_del(&c->link);
		kp_list_push(&c->f->ended, &c->link);
	}
}

void kp_fetch_extend(struct kp_fetch_call *c, int64_t total_ns)
{
	c->r.total_ns = total_ns;
	c->due_ns = kp_loop_now(c->f->loop) + total_ns;
	if (!c->is_over) {
		arm(c);
	}
}

/* --- the client --- */

struct kp_fetch *kp_fetch_create(struct kp_loop *loop, const struct kp_fetch_opts *opts)
{
	struct kp_fetch *f = kp_new(struct kp_fetch);
	f->loop = loop;
	f->opts = *opts;
	f->opts.max_calls = opts->max_calls ? opts->max_calls : KP_FETCH_CALLS_MAX;
	kp_list_init(&f->calls);
	kp_list_init(&f->ended);
	kp_list_init(&f->ready);
	kp_multi_init(&f->multi, loop, stirred);
	curl_multi_setopt(f->multi.curl, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)f->opts.max_calls);
	curl_multi_setopt(f->multi.curl, CURLMOPT_MAXCONNECTS, (long)f->opts.max_idle);
	return f;
}

void kp_fetch_destroy(struct kp_fetch *f)
{
	struct kp_list *node;
	if (!f) {
		return;
	}
	while ((node = kp_list_pop(&f->ended)) || (node = kp_list_pop(&f->calls))) {
		free_call(KP_CONTAINER(node, struct kp_fetch_call, link));
	}
	kp_loop_undefer(&f->settle);
	kp_multi_fini(&f->multi);
	kp_mem_free(f);
}

size_t kp_fetch_in_flight(const struct kp_fetch *f)
{
	return f->n;
}
