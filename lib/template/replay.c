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

void kp_tpl_memory_prefetch(struct kp_tpl_memory *const *m, size_t n)
{
	enum { BYTES = 384, AHEAD = 16 };
	for (size_t i = 0; i < n + AHEAD; i++) {
		if (i < n && m[i]) {
			__builtin_prefetch(m[i]);
		}
		if (i >= AHEAD && m[i - AHEAD]) {
			kp_prefetch(kp_tpl_memory_kept(m[i - AHEAD]), BYTES);
		}
	}
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

/* --- keeping ------------------------------------------------------------------------------------------------------------------------------ */

static void pack(
	struct kp_tpl_pack *to, const struct kp_tpl_kept *k, const struct kp_tpl_step *steps)
{
	struct kp_tpl_kept *own = kp_tpl_pack_take(to, sizeof(*own) + k->n_steps * sizeof(*steps));
	struct kp_run *runs = kp_tpl_pack_copy(to, k->runs, k->n_runs * sizeof(*runs));
	const char *text = kp_tpl_pack_copy(to, k->text.p, k->text.n);
	if (own) {
		*own = *k;
		own->runs = runs;
		own->text = kp_str_n(text, k->text.n);
	}
	for (uint32_t i = 0; i < k->n_steps; i++) {
		struct kp_tv v =
			steps[i].is_message ? steps[i].v : kp_tpl_pack_value(to, &steps[i].v);
		struct kp_tv key = kp_tpl_pack_value(to, &steps[i].key);
		if (own) {
			own->steps[i] = steps[i];
			own->steps[i].v = v;
			own->steps[i].key = key;
		}
	}
}

const struct kp_tpl_kept *kp_tpl_memory_keep(
	struct kp_tpl_memory *m, const struct kp_tpl_kept *k, const struct kp_tpl_step *steps)
{
	struct kp_tpl_kept *older = atomic_load_explicit(&m->newest, memory_order_acquire);
	size_t used = older ? older->bytes : 0;
	struct kp_tpl_pack to = { 0 };
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
	to = (struct kp_tpl_pack){ .p = (char *)own };
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
