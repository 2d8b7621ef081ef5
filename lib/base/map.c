/* DESIGN: dense entries in insertion order, an open-addressed table of indices (linear probing,
   load <= 1/2). Deleting leaves a tombstone in both; rebuilding compacts. SipHash-1-3 (Aumasson,
   Bernstein 2012; one compression and three finalisation rounds, as Rust and Python use it for
   tables) keyed at first use. */
#include "base/map.h"
#include "base/rand.h"

#include <pthread.h>

#define TOMB UINT32_MAX

static inline uint64_t rotl(uint64_t x, int b)
{
	return x << b | x >> (64 - b);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v = 0;
	for (int i = 7; i >= 0; i--) {
		v = v << 8 | p[i];
	}
	return v;
}

uint64_t kp_siphash(const void *data, size_t n, const uint8_t key[16])
{
	const uint8_t *p = data;
	uint64_t k0 = load64(key), k1 = load64(key + 8);
	uint64_t v[4] = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
		k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
	uint64_t last = (uint64_t)n << 56;
	for (; n >= 8; p += 8, n -= 8) {
		uint64_t m = load64(p);
		v[3] ^= m;
		sip_round(v);
		v[0] ^= m;
	}
	for (size_t i = 0; i < n; i++) {
		last |= (uint64_t)p[i] << (8 * i);
	}
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++) {
		sip_round(v);
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint8_t process_key[16];
static void make_key(void)
{
	kp_random_bytes(process_key, sizeof(process_key));
}

uint64_t kp_hash(kp_str s)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_key);
	return kp_siphash(s.p, s.n, process_key);
}

void kp_map_init(struct kp_map *m)
{
	*m = (struct kp_map){ 0 };
}

void kp_map_fini(struct kp_map *m, void (*destroy_value)(void *))
{
	for (size_t i = 0; i < m->used; i++) {
		if (m->entries[i].key.p) {
			kp_mem_free(kp_unconst(m->entries[i].key.p));
			if (destroy_value) {
				destroy_value(m->entries[i].value);
			}
		}
	}
	kp_free(&m->entries);
	kp_free(&m->slots);
	*m = (struct kp_map){ 0 };
}

/* The slot that holds the key, or NULL. */
static uint32_t *lookup(const struct kp_map *m, kp_str key, uint64_t hash)
{
	if (m->n_slots == 0) {
		return NULL;
	}
	for (size_t i = hash & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1)) {
		uint32_t s = m->slots[i];
		if (s == 0) {
			return NULL;
		}
		if (s != TOMB) {
			const struct kp_map_entry *e = &m->entries[s - 1];
			if (e->hash == hash && kp_str_eq(e->key, key)) {
				return &m->slots[i];
			}
		}
	}
}

static void rebuild(struct kp_map *m)
{
	size_t cap = KP_MAX(m->n * 2, (size_t)8), n_slots = 16;
	KP_BUG_ON(cap > UINT32_MAX / 4);
	while (n_slots < cap * 2) {
		n_slots *= 2;
	}
	struct kp_map_entry *entries = kp_xmalloc(cap * sizeof(*entries));
	uint32_t *slots = kp_xcalloc(n_slots, sizeof(*slots));
	size_t used = 0;
	for (size_t i = 0; i < m->used; i++) {
		if (!m->entries[i].key.p) {
			continue;
		}
		size_t at = m->entries[i].hash & (n_slots - 1);
		while (slots[at]) {
			at = (at + 1) & (n_slots - 1);
		}
		entries[used] = m->entries[i];
		slots[at] = (uint32_t)++used;
	}
	kp_free(&m->entries);
	kp_free(&m->slots);
	*m = (struct kp_map){ .entries = entries,
		.slots = slots,
		.n = m->n,
		.used = used,
		.cap = cap,
		.n_slots = n_slots };
}

void *kp_map_get(const struct kp_map *m, kp_str key)
{
	const uint32_t *slot = m->n ? lookup(m, key, kp_hash(key)) : NULL;
	return slot ? m->entries[*slot - 1].value : NULL;
}

void *kp_map_set(struct kp_map *m, kp_str key, void *value)
{
	KP_BUG_ON(!value);
	uint64_t hash = kp_hash(key);
	uint32_t *slot = lookup(m, key, hash);
	if (slot) {
		void *old = m->entries[*slot - 1].value;
		m->entries[*slot - 1].value = value;
		return old;
	}
	if (m->used == m->cap) {
		rebuild(m);
	}
	char *copy = kp_xmalloc(key.n + 1);
	if (key.n) {
		memcpy(copy, key.p, key.n);
	}
	copy[key.n] = '\0';
	size_t at = hash & (m->n_slots - 1);
	while (m->slots[at] != 0 && m->slots[at] != TOMB) {
		at = (at + 1) & (m->n_slots - 1);
	}
	m->entries[m->used] =
		(struct kp_map_entry){ .key = { copy, key.n }, .value = value, .hash = hash };
	m->slots[at] = (uint32_t)++m->used;
	m->n++;
	return NULL;
}

void *kp_map_del(struct kp_map *m, kp_str key)
{
	uint32_t *slot = m->n ? lookup(m, key, kp_hash(key)) : NULL;
	if (!slot) {
		return NULL;
	}
	struct kp_map_entry *e = &m->entries[*slot - 1];
	void *old = e->value;
	kp_mem_free(kp_unconst(e->key.p));
	*e = (struct kp_map_entry){ 0 };
	*slot = TOMB;
	m->n--;
	return old;
}

struct kp_map_entry *kp_map_next(const struct kp_map *m, size_t *pos)
{
	while (*pos < m->used) {
		struct kp_map_entry *e = &m->entries[(*pos)++];
		if (e->key.p) {
			return e;
		}
	}
	return NULL;
}
