/* Hash map from byte strings to pointers, SipHash-1-3 with a per-process random key (keys come from
   outside). Keys are copied. Open addressing; iteration order is insertion order without deletions,
   else unspecified. One thread at a time. */
#ifndef KP_BASE_MAP_H
#define KP_BASE_MAP_H

#include "base/mem.h"
#include "base/str.h"

struct kp_map {
	struct kp_map_entry *entries; /* dense, in insertion order */
	uint32_t *slots;              /* entry index + 1, 0 empty, UINT32_MAX deleted */
	size_t n, used, cap, n_slots; /* n live entries of `used` */
};
struct kp_map_entry {
	kp_str key; /* p is NULL in a deleted entry */
	void *value;
	uint64_t hash;
};

void kp_map_init(struct kp_map *m);
void kp_map_fini(struct kp_map *m, void (*destroy_value)(void *)); /* destroy_value may be NULL */
void *kp_map_get(const struct kp_map *m, kp_str key);              /* NULL: absent */
/* Returns the value that was there before, or NULL. `value` must not be NULL. */
void *kp_map_set(struct kp_map *m, kp_str key, void *value);
void *kp_map_del(struct kp_map *m, kp_str key);
/* for (size_t i = 0; (e = kp_map_next(m, &i)) != NULL;) */
struct kp_map_entry *kp_map_next(const struct kp_map *m, size_t *pos);

uint64_t kp_siphash(const void *p, size_t n, const uint8_t key[16]); /* SipHash-1-3 */
uint64_t kp_hash(kp_str s); /* with the process's random key */

#endif
