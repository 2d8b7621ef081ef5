/* DESIGN: images of URLs, fetched all at once on the loop; the stage goes on when the last is there, and ends with the first that fails. Who may
   be asked is the policy's affair (lib/fetch), which looks at each address that is connected to, redirects included; without --media-host nobody is.
   What a client hears of a failure names the part, never what is at an address. */
#include "sidecar/flow/media.h"

#include "base/clock.h"
#include "obs/log.h"
#include "prompt/media_url.h"

#define CONNECT_NS (5 * KP_NS_PER_S)
#define IDLE_NS    (5 * KP_NS_PER_S)
enum { REDIRECTS = 3 };

static struct kp_fetch *fetch_of(struct kp_gwloop *l)
{
	const struct kp_fetch_opts opts = { .policy = &l->gateway->media.policy,
		.user_agent = "kelpie-sidecar",
		.max_calls = (unsigned)l->max_image_fetches };
	if (!l->media_fetch) {
		l->media_fetch = kp_fetch_create(l->loop, &opts);
	}
	return l->media_fetch;
}

void kp_flow_media_stop(struct kp_flow *f)
{
	struct kp_flow_media *m = f->media;
	for (size_t k = 0; m && m->n_fetching && k < m->n; k++) {
		struct kp_flow_image *i = &m->images[k];
		if (i->call) {
			kp_fetch_cancel(kp_steal(i->call));
			if (--m->n_fetching == 0) {
				f->is_waiting = false; /* nothing comes back any more */
			}
		}
	}
}

/* With whatever else is under way. */
static void fail(struct kp_flow_image *i, struct kp_err *err)
{
	struct kp_flow *f = i->flow;
	if (!err->reason) {
		err->reason = "invalid_image_url";
	}
	kp_flow_media_blame(f, (size_t)(i - f->media->images), err);
	kp_flow_media_stop(f);
	kp_flow_resume(f, err);
}

static void on_data(void *ctx, kp_str bytes)
{
	struct kp_flow_image *i = ctx;
	struct kp_err err;
	if (kp_flow_media_hold(i->flow->media, bytes.n, &err)) {
		fail(i, &err);
		return;
	}
	i->n_held += bytes.n;
	kp_buf_add(&i->fetched, bytes);
}

/* What it means to the client. */
static void translate(const struct kp_flow *f, const struct kp_fetch_result *r, struct kp_err *err)
{
	kp_log(KP_LOG_DEBUG, "image not fetched", kp_f_str("id", f->turn.request_id),
		kp_f_int("status", r->status), kp_f_err(&r->err));
	if (r->err.code == KP_PERMISSION_DENIED) {
		kp_err_set(err, KP_INVALID_ARGUMENT,
			"images are not fetched from where this URL leads");
	} else if (r->err.code == KP_TOO_LARGE) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "an image of more than %u bytes",
			f->l->gateway->config.max_image_bytes);
		err->reason = "request_too_large";
	} else if (r->err.code == KP_DEADLINE_EXCEEDED) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "fetching the image took too long");
	} else if (r->err.code != KP_OK) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "the image cannot be fetched");
	} else {
		kp_err_set(err, KP_INVALID_ARGUMENT, "the image's server answered with status %d",
			r->status);
	}
}

static void on_done(void *ctx, const struct kp_fetch_result *r)
{
	struct kp_flow_image *i = ctx;
	struct kp_flow_media *m = i->flow->media;
	struct kp_err err;
	i->call = NULL;
	m->n_fetching--;
	if (r->err.code != KP_OK || r->status != 200) {
		translate(i->flow, r, &err);
		fail(i, &err);
	} else if (kp_buf_finish(&i->fetched, "image", &err)) {
		fail(i, &err);
	} else if (m->n_fetching == 0) {
		kp_flow_resume(i->flow, NULL);
	}
}

static int begin(struct kp_flow *f, size_t k, struct kp_err *err)
{
	static const struct kp_fetch_header accept = { KP_S_INIT("accept"),
		KP_S_INIT("image/jpeg,image/png,image/webp") };
	struct kp_flow_image *i = &f->media->images[k];
	const struct kp_config *c = &f->l->gateway->config;
	if (!c->media_hosts.n) {
		kp_err_set(err, KP_INVALID_ARGUMENT,
			"images are not fetched from URLs here: send a data: URL");
		err->reason = "unsupported_parameter";
		return -1;
	}
	i->flow = f;
	kp_buf_init(&i->fetched, c->max_image_bytes);
	const struct kp_fetch_request r = { .method = "GET",
		.url = f->turn.chat.media[k].url,
		.headers = &accept,
		.n_headers = 1,
		.connect_ns = KP_MIN(CONNECT_NS, c->media_timeout_ns),
		.first_byte_ns = c->media_timeout_ns,
		.idle_ns = IDLE_NS,
		.total_ns = c->media_timeout_ns,
		.max_bytes = c->max_image_bytes,
		.max_redirects = REDIRECTS,
		.data = on_data,
		.done = on_done,
		.ctx = i };
	i->call = kp_fetch_send(fetch_of(f->l), &r, err);
	if (i->call) {
		f->media->n_fetching++;
		return 0;
	}
	if (err->code == KP_PERMISSION_DENIED) {
		kp_err_set(err, KP_INVALID_ARGUMENT,
			"images are not fetched from where this URL leads");
	}
	if (err->code == KP_RESOURCE_EXHAUSTED) {
		err->reason = "too_many_requests";
	} else if (!err->reason) {
		err->reason = "invalid_image_url";
	}
	return -1;
}

enum kp_step kp_flow_media_fetch(struct kp_flow *f, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	for (size_t k = 0; k < m->n; k++) {
		struct kp_media_url url;
		if (kp_media_url_read(f->turn.chat.media[k].url, &url, err) ||
			(url.source == KP_MEDIA_HTTP && begin(f, k, err))) {
			kp_flow_media_blame(f, k, err);
			kp_flow_media_stop(f);
			return KP_STEP_FAIL;
		}
	}
	return m->n_fetching ? KP_STEP_WAIT : KP_STEP_NEXT;
}
