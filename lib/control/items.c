/* DESIGN: a set is one block of memory: the header, the array, the bytes of all keys and values behind
   one another in the array's order. Diff and apply walk two sorted lists side by side. */
#include "control/items.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

const char *kp_item_kind_name(uint32_t kind, char buf[16])
{
	static const char *const names[] = { "none", "pool", "engine", "endpoint", "gateway",
		"tool server" };
	if (kind < KP_LEN(names)) {
		return names[kind];
	}
	snprintf(buf, 16, "kind %u", kind);
	return buf;
}

const char *kp_hash_text(
	const uint8_t hash[KP_HASH_BYTES], size_t digits, char buf[KP_HASH_TEXT_MAX])
{
	static const char hex[] = "0123456789abcdef";
	digits = KP_MIN(digits, (size_t)KP_HASH_TEXT_MAX - 1);
	for (size_t i = 0; i < digits; i++) {
		buf[i] = hex[i % 2 ? hash[i / 2] & 15 : hash[i / 2] >> 4];
	}
	buf[digits] = '\0';
	return buf;
}

static int compare(const struct kp_item *a, const struct kp_item *b)
{
	if (a->kind != b->kind) {
		return a->kind < b->kind ? -1 : 1;
	}
	return kp_str_cmp(a->key, b->key);
}
static int compare_void(const void *a, const void *b)
{
	return compare(a, b);
}

static int name_it(const struct kp_item *i, const char *what, struct kp_err *err)
{
	char buf[16];
	return kp_err_set(err, KP_INVALID_ARGUMENT, "read items: %s `%" KP_FMT "` %s",
		kp_item_kind_name(i->kind, buf), KP_ARG(i->key), what);
}

/* --- hash --- */

static void add_u32(EVP_MD_CTX *md, size_t v)
{
	uint8_t b[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };
	KP_BUG_ON(EVP_DigestUpdate(md, b, sizeof(b)) != 1);
}
static void add_bytes(EVP_MD_CTX *md, kp_str s)
{
	add_u32(md, s.n);
	KP_BUG_ON(s.n && EVP_DigestUpdate(md, s.p, s.n) != 1);
}

static void hash_items(struct kp_items *s)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	KP_BUG_ON(!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1);
	for (size_t i = 0; i < s->n; i++) {
		add_u32(md, s->p[i].kind);
		add_bytes(md, s->p[i].key);
		add_bytes(md, s->p[i].value);
	}
	KP_BUG_ON(EVP_DigestFinal_ex(md, s->hash, NULL) != 1);
	EVP_MD_CTX_free(md);
}

/* --- making --- */

static kp_str put(char **at, kp_str s)
{
	char *start = *at;
	if (s.n) {
		memcpy(start, s.p, s.n);
	}
	*at += s.n;
	return kp_str_n(start, s.n);
}

static int check_size(const struct kp_item *i, size_t *bytes, struct kp_err *err)
{
	char buf[16];
	if (i->key.n == 0 || i->key.n > KP_ITEM_KEY_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read items: the key of a %s has %zu bytes, 1 to %d allowed",
			kp_item_kind_name(i->kind, buf), i->key.n, KP_ITEM_KEY_MAX);
	}
	if (i->value.n > KP_ITEM_VALUE_MAX) {
		return name_it(i, "is too large", err);
	}
	*bytes += i->key.n + i->value.n;
	return 0;
}

/* Sorted, with each key once; checks the sizes. */
static int assemble(
	const struct kp_item *sorted, size_t n, struct kp_items **ret, struct kp_err *err)
{
	size_t bytes = 0;
	if (n > KP_ITEMS_MAX) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read items: %zu of them, at most %d allowed", n, KP_ITEMS_MAX);
	}
	for (size_t i = 0; i < n; i++) {
		if (check_size(&sorted[i], &bytes, err) < 0) {
			return -1;
		}
	}
	if (bytes > KP_ITEMS_BYTES_MAX) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read items: %zu bytes, at most %d allowed", bytes, KP_ITEMS_BYTES_MAX);
	}
	struct kp_items *s = kp_try_malloc(sizeof(*s) + n * sizeof(*s->p) + bytes);
	if (!s) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "read items: out of memory");
	}
	struct kp_item *items = (struct kp_item *)(s + 1);
	char *at = (char *)(items + n);
	*s = (struct kp_items){ .p = items, .n = n, .bytes = bytes };
	kp_ref_init(&s->refs);
	for (size_t i = 0; i < n; i++) {
		items[i].kind = sorted[i].kind;
		items[i].key = put(&at, sorted[i].key);
		items[i].value = put(&at, sorted[i].value);
	}
	hash_items(s);
	*ret = s;
	return 0;
}

/* A sorted copy of the array (not of the bytes); with a key twice it fails. *ret is to be freed. */
static int sort(const struct kp_item *items, size_t n, struct kp_item **ret, struct kp_err *err)
{
	if (n > KP_ITEMS_MAX) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read items: %zu of them, at most %d allowed", n, KP_ITEMS_MAX);
	}
	struct kp_item *sorted = kp_try_malloc((n + 1) * sizeof(*sorted));
	if (!sorted) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "read items: out of memory");
	}
	if (n) {
		memcpy(sorted, items, n * sizeof(*sorted));
		qsort(sorted, n, sizeof(*sorted), compare_void);
	}
	for (size_t i = 1; i < n; i++) {
		if (compare(&sorted[i - 1], &sorted[i]) == 0) {
			int r = name_it(&sorted[i], "is there twice", err);
			kp_mem_free(sorted);
			return r;
		}
	}
	*ret = sorted;
	return 0;
}

int kp_items_create(
	const struct kp_item *items, size_t n, struct kp_items **ret, struct kp_err *err)
{
	struct kp_item *sorted;
	if (sort(items, n, &sorted, err) < 0) {
		return -1;
	}
	int r = assemble(sorted, n, ret, err);
	kp_mem_free(sorted);
	return r;
}

struct kp_items *kp_items_ref(struct kp_items *s)
{
	kp_ref_get(&s->refs);
	return s;
}

void kp_items_unref(struct kp_items *s)
{
	if (s && kp_ref_put(&s->refs)) {
		kp_mem_free(s);
	}
}

bool kp_items_same(const struct kp_items *a, const struct kp_items *b)
{
	return memcmp(a->hash, b->hash, KP_HASH_BYTES) == 0;
}

const struct kp_item *kp_items_find(const struct kp_items *s, uint32_t kind, kp_str key)
{
	const struct kp_item want = { .kind = kind, .key = key };
	return s->n ? bsearch(&want, s->p, s->n, sizeof(want), compare_void) : NULL;
}

/* --- diff and apply --- */

int kp_items_diff(const struct kp_items *from, const struct kp_items *to, struct kp_arena *arena,
	struct kp_items_delta *ret, struct kp_err *err)
{
	struct kp_item *upserts = kp_arena_calloc(arena, to->n, sizeof(*upserts));
	struct kp_item *removes = kp_arena_calloc(arena, from->n, sizeof(*removes));
	if (!upserts || !removes) {
		return kp_arena_full(err, "delta");
	}
	struct kp_items_delta d = { .upserts = upserts, .removes = removes };
	for (size_t i = 0, k = 0; i < from->n || k < to->n;) {
		int order = i == from->n ? 1 : k == to->n ? -1 : compare(&from->p[i], &to->p[k]);
		if (order < 0) {
			removes[d.n_removes].kind = from->p[i].kind;
			removes[d.n_removes++].key = from->p[i].key;
		} else if (order > 0 || !kp_str_eq(from->p[i].value, to->p[k].value)) {
			upserts[d.n_upserts++] = to->p[k];
		}
		i += order <= 0;
		k += order >= 0;
	}
	*ret = d;
	return 0;
}

/* base and both lists, all sorted, into out, which has room for base and upserts. */
static int merge(const struct kp_items *base, const struct kp_item *upserts, size_t n_upserts,
	const struct kp_item *removes, size_t n_removes, struct kp_item *out, size_t *ret_n,
	struct kp_err *err)
{
	size_t n = 0, u = 0, r = 0;
	for (size_t i = 0; i < base->n || u < n_upserts;) {
		int order = i == base->n     ? 1
			    : u == n_upserts ? -1
					     : compare(&base->p[i], &upserts[u]);
		const struct kp_item *next = order < 0 ? &base->p[i] : &upserts[u];
		bool is_removed = r < n_removes && compare(&removes[r], next) == 0;
		if (is_removed && order >= 0) {
			return name_it(next, "is both set and removed", err);
		}
		if (!is_removed) {
			out[n++] = *next;
		}
		r += is_removed;
		i += order <= 0;
		u += order >= 0;
	}
	if (r < n_removes) {
		return name_it(&removes[r], "is to be removed, but is not there", err);
	}
	*ret_n = n;
	return 0;
}

int kp_items_apply(const struct kp_items *base, const struct kp_items_delta *delta,
	struct kp_items **ret, struct kp_err *err)
{
	struct kp_item *upserts = NULL, *removes = NULL, *out = NULL;
	size_t n = 0;
	int r = -1;
	if (sort(delta->upserts, delta->n_upserts, &upserts, err) < 0 ||
		sort(delta->removes, delta->n_removes, &removes, err) < 0) {
		goto done;
	}
	out = kp_try_malloc((base->n + delta->n_upserts + 1) * sizeof(*out));
	if (!out) {
		kp_err_set(err, KP_RESOURCE_EXHAUSTED, "read items: out of memory");
		goto done;
	}
	if (merge(base, upserts, delta->n_upserts, removes, delta->n_removes, out, &n, err) == 0) {
		r = assemble(out, n, ret, err);
	}
done:
	kp_mem_free(upserts);
	kp_mem_free(removes);
	kp_mem_free(out);
	return r;
}
