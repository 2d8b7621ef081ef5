/* DESIGN: see scratch.h. One owner thread. The caches are allocated zeroed and whole at creation, so their pages cost memory only once they are
   used. Half of the budget (a power of two) is the table of short pieces, a quarter the log of long ones with its index; working
   arrays that grew past the last quarter are freed after the encode that needed them. */
#include "token/scratch.h"
#include "base/mem.h"
#include "token/span.h"

#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

struct record { /* in the log, 8-byte aligned; then n_ids ids, then n bytes */
	uint64_t hash;
	uint32_t n;
	uint16_t n_ids;
	uint16_t slot;
};

struct kp_token_scratch *kp_token_scratch_create(size_t max_bytes)
{
	struct kp_token_scratch *s = kp_new(struct kp_token_scratch);
	s->max_bytes = KP_MAX(max_bytes, (size_t)64 << 10);
	size_t bytes = 2 * sizeof(struct kp_cache_entry);
	while (bytes * 2 <= s->max_bytes / 2 && bytes < (size_t)1 << 30) {
		bytes *= 2;
	}
	s->n_buckets = bytes / (2 * sizeof(struct kp_cache_entry));
	/* Aligned for huge pages: a look-up anywhere in the table is then one translation. */
	size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
	s->table_block = kp_xcalloc(1, bytes + align);
	s->table = (struct kp_cache_entry *)(((uintptr_t)s->table_block + align) &
					     ~(uintptr_t)(align - 1));
	if (bytes >= HUGE_PAGE) {
		(void)madvise(s->table, bytes, MADV_HUGEPAGE); /* a wish; small pages do as well */
	}
	size_t slots = 64;
	while (slots * 2 * sizeof(*s->index) <= s->max_bytes / 32) {
		slots *= 2;
	}
	s->index = kp_xcalloc(slots, sizeof(*s->index));
	s->index_mask = slots - 1;
	s->log_cap = (s->max_bytes / 4 - s->max_bytes / 32) & ~(size_t)7;
	s->log = kp_xmalloc(s->log_cap);
	kp_norm_work_init(&s->norm);
	kp_split_work_init(&s->split);
	kp_ids_init(&s->model.syms, SIZE_MAX / 16);
	kp_ids_init(&s->work, SIZE_MAX / 16);
	s->span = kp_xmalloc(sizeof(*s->span));
	return s;
}

void kp_token_scratch_destroy(struct kp_token_scratch *s)
{
	if (!s) {
		return;
	}
	kp_free(&s->table_block);
	kp_free(&s->index);
	kp_free(&s->log);
	kp_norm_work_fini(&s->norm);
	kp_split_work_fini(&s->split);
	kp_model_work_fini(&s->model);
	kp_ids_fini(&s->work);
	kp_free(&s->span);
	kp_free(&s);
}

void kp_scratch_trim(struct kp_token_scratch *s)
{
	size_t limit = s->max_bytes / 8;
	const struct kp_nfc_work *nfc = &s->norm.nfc;
	size_t norm = s->norm.text[0].cap + s->norm.text[1].cap + nfc->cap * 5 +
		      nfc->cap_change * sizeof(*nfc->change),
	       split = 0;
	for (size_t i = 0; i < KP_NORM_MAX; i++) {
		norm += s->norm.map[i].cap * sizeof(*s->norm.map[i].p);
	}
	for (size_t i = 0; i < KP_SPLIT_MAX; i++) {
		split += s->split.text[i].cap;
	}
	if (norm > limit) {
		kp_norm_work_fini(&s->norm);
	}
	if (split > limit) {
		kp_split_work_fini(&s->split);
	}
	if (s->model.cap * 16 + s->model.syms.cap * sizeof(kp_id) > limit) {
		kp_model_work_fini(&s->model);
	}
	if (s->work.cap * sizeof(kp_id) > limit) {
		kp_ids_fini(&s->work);
	}
}

static void forget(struct kp_token_scratch *s)
{
	memset(s->table, 0, s->n_buckets * 2 * sizeof(*s->table));
	memset(s->index, 0, (s->index_mask + 1) * sizeof(*s->index));
	memset(s->serial, 0, sizeof(s->serial));
	s->log_n = 0;
}

unsigned kp_scratch_slot(struct kp_token_scratch *s, uint32_t serial)
{
	for (unsigned i = 1; i <= KP_CACHE_SLOTS; i++) {
		if (s->serial[i] == serial) {
			return i;
		}
		if (s->serial[i] == 0) {
			s->serial[i] = serial;
			return i;
		}
	}
	forget(s);
	s->serial[1] = serial;
	return 1;
}

const kp_id *kp_cache_get_long(const struct kp_token_scratch *s, unsigned slot, const uint8_t *p,
	size_t n, uint64_t hash, size_t *ret_n)
{
	/* Two places per hash. */
	for (size_t i = 0; i < 2; i++) {
		uint32_t at = s->index[(hash + i) & s->index_mask];
		if (!at) {
			continue;
		}
		const uint8_t *r = s->log + (size_t)(at - 1) * 8;
		struct record head;
		memcpy(&head, r, sizeof(head));
		if (head.hash == hash && head.n == n && head.slot == slot &&
			memcmp(r + sizeof(head) + head.n_ids * sizeof(kp_id), p, n) == 0) {
			*ret_n = head.n_ids;
			return (const kp_id *)(const void *)(r + sizeof(head));
		}
	}
	return NULL;
}

void kp_cache_put_long(struct kp_token_scratch *s, unsigned slot, const uint8_t *p, size_t n,
	uint64_t hash, const kp_id *ids, size_t n_ids)
{
	struct record head = {
		.hash = hash, .n = (uint32_t)n, .n_ids = (uint16_t)n_ids, .slot = (uint16_t)slot
	};
	size_t bytes = (sizeof(head) + n_ids * sizeof(kp_id) + n + 7) & ~(size_t)7;
	if (n > KP_CACHE_LONG || bytes > s->log_cap || n_ids > UINT16_MAX) {
		return;
	}
	if (s->log_cap - s->log_n < bytes) {
		memset(s->index, 0, (s->index_mask + 1) * sizeof(*s->index));
		s->log_n = 0;
	}
	uint8_t *r = s->log + s->log_n;
	memcpy(r, &head, sizeof(head));
	if (n_ids) {
		memcpy(r + sizeof(head), ids, n_ids * sizeof(kp_id));
	}
	memcpy(r + sizeof(head) + n_ids * sizeof(kp_id), p, n);
	uint32_t *place = &s->index[hash & s->index_mask];
	if (*place) {
		place = &s->index[(hash + 1) & s->index_mask];
	}
	*place = (uint32_t)(s->log_n / 8 + 1);
	s->log_n += bytes;
}
