/* DESIGN: pixels that an engine of the same node can read lie in a file of /dev/shm without a name. Each call gets a name of its own for it (no bytes
   are copied, however many choices there are), which the engine unlinks when it has read it, and we when the call is over. A name that is left by a
   gateway that was killed is taken away by the next that looks (base/shm.h). A file whose names are all gone gets no more of them: to an engine that is
   tried afterwards its pixels are sent.

   An engine may say that it has our /dev/shm and yet not be allowed to read there. So a call that failed before it gave anything is made once more
   without; if that one works, the engine is not given names any more. */
#include "sidecar/flow/media.h"

#include "base/clock.h"
#include "obs/log.h"

#include <stdio.h>

enum { LEAST = 64 << 10, LARGE = 1 << 20 };
#define REAP_NS (10 * KP_NS_PER_S)

static bool shares(const struct kp_flow *f, const struct kp_endpoint *e)
{
	const struct kp_endpoint_facts *facts = kp_revision_facts(f->routes, e);
	return facts && facts->info.shm.n &&
	       kp_str_eq(facts->info.shm, kp_str_c(kp_shm_namespace())) &&
	       !atomic_load_explicit(&e->no_shm, memory_order_relaxed);
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

/* Now and then somebody looks after those that were killed. */
static void reap(struct kp_gateway *g)
{
	long long now_ns = kp_now_ns(), last = atomic_load(&g->media_reaped_ns);
	if (now_ns - last > REAP_NS &&
		atomic_compare_exchange_strong(&g->media_reaped_ns, &last, now_ns)) {
		kp_shm_reap();
	}
}

int kp_flow_media_alloc(struct kp_flow *f, size_t bytes, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	struct kp_err full;
	bool is_wanted = false;
	for (size_t i = 0; i < f->revision->n_endpoints; i++) {
		is_wanted = is_wanted || shares(f, f->revision->endpoints[i]);
	}
	if (is_wanted && m->gateway->media_shm.lock >= 0 && bytes >= LEAST) {
		reap(m->gateway);
		if (kp_shm_create(&m->shm, bytes, &full) == 0) {
			m->pixels = m->shm.p;
			return 0;
		}
		kp_log(KP_LOG_DEBUG, "images are sent", kp_f_err(&full));
	}
	m->pixels = m->heap = kp_try_malloc_large(bytes);
	return m->pixels ? 0
			 : kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				   "out of memory for %zu bytes of images", bytes);
}

struct garbage {
	struct kp_job job;
	struct kp_shm shm;
	void *heap;
};

static void throw_away(struct kp_job *job)
{
	struct garbage *g = KP_CONTAINER(job, struct garbage, job);
	kp_shm_fini(&g->shm);
	kp_free(&g->heap);
}

static void thrown(struct kp_msg *msg)
{
	struct kp_job *job = KP_CONTAINER(msg, struct kp_job, done);
	kp_mem_free(KP_CONTAINER(job, struct garbage, job));
}

void kp_flow_media_free(struct kp_flow_media *m, struct kp_gwloop *l)
{
	struct garbage *g = NULL;
	if (m->pixels && kp_flow_media_bytes(m) >= LARGE && !atomic_load(&m->gateway->closed)) {
		g = kp_new(struct garbage);
		*g = (struct garbage){ .job = { .done = { .run = thrown },
					       .work = throw_away,
					       .reply = kp_loop_mailbox(l->loop) },
			.shm = m->shm,
			.heap = m->heap };
	}
	if (g && kp_workers_submit(m->gateway->media_workers, &g->job)) {
		m->shm = (struct kp_shm){ 0 };
		m->heap = NULL;
	} else {
		kp_mem_free(g);
	}
	kp_shm_fini(&m->shm);
	kp_free(&m->heap);
	m->pixels = NULL;
}

/* --- names ----------------------------------------------------------------------------------------------------------- */

static void link_name(struct kp_choice *c)
{
	struct kp_flow *f = c->flow;
	struct kp_gateway *g = f->media->gateway;
	struct kp_err err;
	snprintf(c->shm_name, sizeof(c->shm_name), "kelpie-%s-%u", g->media_shm.id,
		atomic_fetch_add(&g->media_names, 1));
	if (kp_shm_link(&f->media->shm, c->shm_name, &err)) {
		kp_log(KP_LOG_DEBUG, "images are sent", kp_f_err(&err));
		c->shm_name[0] = '\0';
	}
}

void kp_flow_media_link(struct kp_flow *f)
{
	for (size_t i = 0; i < f->n_choices && f->media->shm.p; i++) {
		link_name(&f->choices[i]);
	}
}

kp_str kp_flow_media_name(struct kp_choice *c, const struct kp_endpoint *e)
{
	struct kp_flow *f = c->flow;
	bool may = f->media && f->media->shm.p && c->no_shm != e && shares(f, e);
	if (may && !c->shm_name[0]) {
		link_name(c); /* the one that a worker made went with another call */
	}
	c->is_named = may && c->shm_name[0];
	return c->is_named ? kp_str_c(c->shm_name) : KP_STR_NULL;
}

struct unlink {
	struct kp_job job;
	char name[sizeof(((struct kp_choice *)NULL)->shm_name)];
};

static void unlink_name(struct kp_job *job)
{
	struct unlink *u = KP_CONTAINER(job, struct unlink, job);
	kp_shm_unlink(u->name);
	kp_mem_free(u);
}

void kp_flow_media_unname(struct kp_choice *c)
{
	c->is_named = false;
	if (!c->shm_name[0]) {
		return;
	}
	struct unlink *u = kp_new(struct unlink);
	u->job.work = unlink_name;
	memcpy(u->name, c->shm_name, sizeof(u->name));
	c->shm_name[0] = '\0';
	if (!kp_workers_submit(c->flow->l->gateway->receivers, &u->job)) {
		unlink_name(&u->job);
	}
}

bool kp_flow_media_failed(struct kp_choice *c, struct kp_endpoint *e, const struct kp_err *err)
{
	bool is_suspect = err->code == KP_INTERNAL || err->code == KP_INVALID_ARGUMENT ||
			  err->code == KP_UNKNOWN || err->code == KP_NOT_FOUND;
	if (!c->is_named || c->no_shm || c->is_open || !is_suspect) {
		return false;
	}
	c->no_shm = e;
	return true;
}

void kp_flow_media_arrived(struct kp_choice *c)
{
	struct kp_endpoint *e = c->lane ? c->lane->endpoint : NULL;
	if (e && c->no_shm == e && !atomic_exchange(&e->no_shm, true)) {
		kp_log(KP_LOG_WARN,
			"an engine cannot read what is left for it in /dev/shm: images are sent",
			kp_f_z("endpoint", e->key));
	}
}
