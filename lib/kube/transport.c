/* DESIGN: libcurl's multi interface on the loop (fetch/multi.h). libcurl's
   callbacks only write down what happened (bytes into the call's buffer, a call into a list), since nothing may be
   done with a handle inside of them; client.c does the rest at the end of the loop's turn.

   A call has an easy handle of its own for each try. Connections are the pool's; libcurl takes one again only for
   the same certificate and CA, so renewed credentials make new ones by themselves. */
#include "kube/internal.h"

static void heard(struct kp_kube_call *c)
{
	c->pool->heard_ns = kp_loop_now(c->k->loop);
}

static void ready(struct kp_kube_call *c)
{
	if (c->is_stream && !kp_list_linked(&c->ready)) {
		kp_list_push(&c->k->ready, &c->ready);
	}
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	heard(ctx);
	if (size * n <= 2 && kp_str_trim(kp_str_n(p, size * n)).n == 0) {
		ready(ctx); /* the head is complete */
	}
	return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct kp_kube_call *c = ctx;
	heard(c);
	kp_buf_add(&c->in, kp_str_n(p, size * n));
	if (c->in.failed) {
		kp_err_set(&c->failed, KP_TOO_LARGE, "%s %s: the answer has more than %zu bytes",
			c->r.method, c->path, c->in.max);
		return 0;
	}
	ready(c);
	return size * n;
}

static void stirred(struct kp_multi *m)
{
	kp_kube_settle_soon(KP_CONTAINER(m, struct kp_kube_pool, multi)->k);
}

struct kp_kube_pool *kp_kube_pool_create(struct kp_kube *k)
{
	struct kp_kube_pool *p = kp_new(struct kp_kube_pool);
	p->k = k;
	p->heard_ns = kp_loop_now(k->loop);
	kp_list_init(&p->calls);
	kp_list_push(&k->pools, &p->link);
	kp_multi_init(&p->multi, k->loop, stirred);
	return p;
}

void kp_kube_pool_destroy(struct kp_kube_pool *p)
{
	KP_BUG_ON(!kp_list_empty(&p->calls));
	kp_multi_fini(&p->multi);
	kp_list_del(&p->link);
	kp_mem_free(p);
}

static void add_header(struct kp_kube_call *c, const char *name, kp_str value)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_KUBE_TOKEN_MAX + 256);
	kp_buf_printf(&b, "%s: %" KP_FMT, name, KP_ARG(value));
	const char *z = kp_buf_cstr(&b);
	struct curl_slist *more = z ? curl_slist_append(c->headers, z) : NULL;
	KP_BUG_ON(!more);
	c->headers = more;
}

static void set_blob(CURL *easy, CURLoption option, const struct kp_kube_file *f)
{
	struct curl_blob blob = {
		.data = f->content.p, .len = f->content.n, .flags = CURL_BLOB_COPY
	};
	if (f->content.n) {
		curl_easy_setopt(easy, option, &blob);
	}
}

static void set_tls(struct kp_kube *k, CURL *easy)
{
	const struct kp_kube_credentials *s = &k->credentials;
	long check = k->opts.config->is_insecure ? 0 : 1;
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, check);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, check * 2);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	set_blob(easy, CURLOPT_CAINFO_BLOB, &s->ca);
	set_blob(easy, CURLOPT_SSLCERT_BLOB, &s->cert);
	set_blob(easy, CURLOPT_SSLKEY_BLOB, &s->key);
	if (k->connect_to) {
		curl_easy_setopt(easy, CURLOPT_CONNECT_TO, k->connect_to);
	}
	if (k->opts.config->proxy_url) {
		curl_easy_setopt(easy, CURLOPT_PROXY, k->opts.config->proxy_url);
	} else if (k->no_proxy) {
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	}
}

static void set_request(struct kp_kube_call *c)
{
	CURL *easy = c->easy;
	kp_str token = kp_kube_credentials_token(&c->k->credentials);
	add_header(c, "Accept", KP_S("application/json"));
	add_header(c, "Expect", KP_STR_NULL); /* no body is worth asking first */
	if (c->k->host) {
		add_header(c, "Host", kp_str_c(c->k->host));
	}
	if (token.n) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, KP_KUBE_TOKEN_MAX + 64);
		kp_buf_lit(&b, "Bearer ");
		kp_buf_add(&b, token);
		add_header(c, "Authorization", kp_buf_str(&b));
	}
	if (c->r.content_type) {
		add_header(c, "Content-Type", kp_str_c(c->r.content_type));
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, c->body);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->r.body.n);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c->r.method);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, c->headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, c->k->user_agent);
}

int kp_kube_transport_begin(struct kp_kube_pool *p, struct kp_kube_call *c, struct kp_err *err)
{
	CURL *easy = c->easy = curl_easy_init();
	c->text[0] = '\0';
	c->failed = KP_ERR_INIT;
	c->began_ns = kp_loop_now(c->k->loop);
	c->used_generation = c->k->credentials.generation;
	c->used_token = c->k->credentials.token.seen;
	kp_buf_reset(&c->in);
	if (!easy) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "%s %s: no handle for it",
			c->r.method, c->path);
	}
	curl_easy_setopt(easy, CURLOPT_URL, c->url);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(
		easy, CURLOPT_QUICK_EXIT, 1L); /* or a cancelled look-up of a name is waited for */
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	curl_easy_setopt(
		easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(c->k->opts.connect_ns / KP_NS_PER_MS));
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 30L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 10L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->text);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, c);
	set_tls(c->k, easy);
	set_request(c);
	c->pool = p;
	kp_list_push(&p->calls, &c->link);
	CURLMcode r = curl_multi_add_handle(p->multi.curl, easy);
	if (r != CURLM_OK) {
		kp_kube_transport_end(c);
		return kp_err_set(err, KP_INTERNAL, "%s %s: %s", c->r.method, c->path,
			curl_multi_strerror(r));
	}
	return 0;
}

void kp_kube_transport_end(struct kp_kube_call *c)
{
	kp_list_del(&c->link);
	if (c->easy) {
		if (c->pool) {
			curl_multi_remove_handle(c->pool->multi.curl, c->easy);
		}
		curl_easy_cleanup(c->easy);
		c->easy = NULL;
	}
	curl_slist_free_all(c->headers);
	c->headers = NULL;
	c->pool = NULL;
}

void kp_kube_transport_collect(struct kp_kube_pool *p)
{
	CURLcode result;
	for (struct kp_kube_call *c; (c = kp_multi_ended(&p->multi, &result));) {
		c->result = result;
		kp_list_del(&c->link);
		kp_list_push(&p->k->ended, &c->link);
	}
}
