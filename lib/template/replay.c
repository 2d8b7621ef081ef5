/* DESIGN: a message's memory is a list of kept rounds, newest first, each one allocation: the struct, its steps, then runs and bytes of all its strings and of its text. The head is the only thing
   that changes, by one compare-and-swap; a thread that comes second drops what it made. So readers need no lock, and nothing is freed before the memory is. Serial numbers instead of
   addresses name memories and templates, since addresses come again. */
#include "template/replay.h"

#include "base/mem.h"
#include "template/rounds.h"

#include <stdatomic.h>

enum { MAX_ROUNDS = 8, MAX_BYTES = 1 << 20 };

struct kp_tpl_memory {
	_Atomic(struct kp_tpl_kept *) newest;
	uint64_t serial;
};

uint64_t kp_tpl_next_serial(void)
{
	static _Atomic uint64_t last;
	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

struct kp_tpl_memory *kp_tpl_memory_create(void)
{
	struct kp_tpl_memory *m = kp_new(struct kp_tpl_memory);
	m->serial = kp_tpl_next_serial();
	return m;
}

void kp_tpl_memory_destroy(struct kp_tpl_memory *m)
{
	if (!m) {
		return;
	}
	struct kp_tpl_kept *k = atomic_load_explicit(&m->newest, memory_order_acquire);
	while (k) {
		struct kp_tpl_kept *older = k->older;
		kp_mem_free(k);
		k = older;
	}
	kp_mem_free(m);
}

uint64_t kp_tpl_memory_serial(const struct kp_tpl_memory *m)
{
	return m->serial;
}

const struct kp_tpl_kept *kp_tpl_memory_kept(const struct kp_tpl_memory *m)
{
	return atomic_load_explicit(&m->newest, memory_order_acquire);
}

size_t kp_tpl_memory_bytes(const struct kp_tpl_memory *m)
{
	const struct kp_tpl_kept *k = kp_tpl_memory_kept(m);
	return sizeof(*m) + (k ? k->bytes : 0);
}

bool kp_tpl_memory_has_room(const struct kp_tpl_memory *m)
{
	const struct kp_tpl_kept *k = kp_tpl_memory_kept(m);
	return !k || (k->nth < MAX_ROUNDS && k->bytes < MAX_BYTES);
}

/* --- copying ----------------------------------------------------------------------------------------------------------------------------- */

/* Counts while p is NULL, then fills. */
struct pack {
	char *p;
	size_t n;
};

static void *take(struct pack *to, size_t n)
{
	size_t at = to->n;
	to->n += (n + 7) & ~(size_t)7;
	return to->p ? to->p + at : NULL;
}

static const char *take_bytes(struct pack *to, kp_str s)
{
	char *p = take(to, s.n);
	if (p && s.n) {
		memcpy(p, s.p, s.n);
	}
	return p;
}

static struct kp_run *take_runs(struct pack *to, const struct kp_run *runs, size_t n)
{
	struct kp_run *p = take(to, n * sizeof(*p));
	if (p && n) {
		memcpy(p, runs, n * sizeof(*p));
	}
	return p;
}

/* A string of several origins: a buffer that cannot grow. */
static struct kp_tpl_buf *take_buf(struct pack *to, const struct kp_tv *v)
{
	uint32_t n_runs = 1;
	while (v->buf->runs[n_runs - 1].end < v->n) {
		n_runs++;
	}
	struct kp_tpl_buf *b = take(to, sizeof(*b));
	struct kp_run *runs = take_runs(to, v->buf->runs, n_runs);
	char *p = take(to, v->n);
	if (b) {
		memcpy(p, v->buf->p, v->n);
		runs[n_runs - 1].end = v->n;
		*b = (struct kp_tpl_buf){ .p = p, .n = v->n, .runs = runs, .n_runs = n_runs };
	}
	return b;
}

static void pack_step(struct pack *to, const struct kp_tpl_step *s, struct kp_tpl_step *ret)
{
	struct kp_tv v = s->v;
	bool is_text = v.type == KP_TV_STR || v.type == KP_TV_BIG || v.type == KP_TV_UNDEF;
	if (v.type == KP_TV_STR && (v.flags & KP_TVF_MIXED)) {
		v.buf = take_buf(to, &s->v);
	} else if (is_text) {
		v.s = take_bytes(to, kp_str_n(s->v.s, s->v.n));
	}
	if (ret) {
		*ret = *s;
		ret->v = v;
	}
}

static void pack(struct pack *to, const struct kp_tpl_kept *k, const struct kp_tpl_step *steps)
{
	struct kp_tpl_kept *own = take(to, sizeof(*own) + k->n_steps * sizeof(*steps));
	struct kp_run *runs = take_runs(to, k->runs, k->n_runs);
	const char *text = take_bytes(to, k->text);
	if (own) {
		*own = *k;
		own->runs = runs;
		own->text = kp_str_n(text, k->text.n);
	}
	for (uint32_t i = 0; i < k->n_steps; i++) {
		pack_step(to, &steps[i], own ? &own->steps[i] : NULL);
	}
}

const struct kp_tpl_kept *kp_tpl_memory_keep(
	struct kp_tpl_memory *m, const struct kp_tpl_kept *k, const struct kp_tpl_step *steps)
{
	struct kp_tpl_kept *older = atomic_load_explicit(&m->newest, memory_order_acquire);
	size_t used = older ? older->bytes : 0;
	struct pack to = { 0 };
	pack(&to, k, steps);
	if ((older && older->nth >= MAX_ROUNDS) ||
		to.n > MAX_BYTES - KP_MIN(used, (size_t)MAX_BYTES)) {
		return NULL;
	}
	struct kp_tpl_kept *own = kp_try_malloc(to.n);
	if (!own) {
		return NULL;
	}
	size_t size = to.n;
	to = (struct pack){ .p = (char *)own };
	pack(&to, k, steps);
	own->older = older;
	own->nth = older ? older->nth + 1 : 1;
	own->bytes = used + size;
	if (!atomic_compare_exchange_strong_explicit(
		    &m->newest, &older, own, memory_order_release, memory_order_relaxed)) {
		kp_mem_free(own);
		return NULL;
	}
	return own;
}
