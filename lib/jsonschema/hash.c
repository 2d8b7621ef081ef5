/* DESIGN: 128 bits: one half with the process's random key, one with a fixed key, so that nobody who does not know the first can make two values meet.
   Members of an object are added up, since their order means nothing; items are chained. Numbers by their canonical digits. */
#include "base/map.h"
#include "jsonschema/internal.h"

static const uint8_t fixed_key[16] = "kelpie jsonschem";

static struct kp_js_hash of_bytes(const void *p, size_t n)
{
	kp_str s = kp_str_n(p, n);
	return (struct kp_js_hash){ kp_hash(s), kp_siphash(p, n, fixed_key) };
}

/* Folds a tag and two hashes into one. */
static struct kp_js_hash fold(char tag, struct kp_js_hash x, struct kp_js_hash y)
{
	uint64_t all[5] = { (uint8_t)tag, x.a, x.b, y.a, y.b };
	return of_bytes(all, sizeof(all));
}

struct kp_js_hash kp_js_hash_string(kp_str s)
{
	return fold('s', of_bytes(s.n ? s.p : "", s.n), (struct kp_js_hash){ s.n, 0 });
}

struct kp_js_hash kp_js_hash_number(const struct kp_decimal *d)
{
	return fold('n', of_bytes(d->n ? d->digits : "", d->n),
		(struct kp_js_hash){ (uint64_t)d->exp, d->negative });
}

struct kp_js_hash kp_js_hash_empty(enum kp_json_type t)
{
	return fold('e', (struct kp_js_hash){ (uint64_t)t, 0 }, (struct kp_js_hash){ 0, 0 });
}

struct kp_js_hash kp_js_hash_item(struct kp_js_hash array, struct kp_js_hash item)
{
	return fold('i', array, item);
}

struct kp_js_hash kp_js_hash_member(struct kp_js_hash object, kp_str name, struct kp_js_hash value)
{
	struct kp_js_hash m = fold('m', kp_js_hash_string(name), value);
	return (struct kp_js_hash){ object.a + m.a, object.b + m.b };
}

bool kp_js_hash_value(const struct kp_jv *v, struct kp_js_hash *ret)
{
	char room[1024];
	struct kp_js_hash h = kp_js_hash_empty(v->type), one;
	struct kp_decimal d;
	if (v->type == KP_JSON_STRING) {
		h = kp_js_hash_string(v->s);
	} else if (v->type == KP_JSON_NUMBER) {
		if (v->s.n > sizeof(room)) {
			return false;
		}
		kp_decimal_read(v->s, room, &d);
		h = kp_js_hash_number(&d);
	}
	for (uint32_t i = 0; v->type == KP_JSON_ARRAY && i < v->n; i++) {
		if (!kp_js_hash_value(&v->items[i], &one)) {
			return false;
		}
		h = kp_js_hash_item(h, one);
	}
	for (uint32_t i = 0; v->type == KP_JSON_OBJECT && i < v->n; i++) {
		if (!kp_js_hash_value(&v->members[i].value, &one)) {
			return false;
		}
		h = kp_js_hash_member(h, v->members[i].key, one);
	}
	*ret = h;
	return true;
}

int kp_js_hash_cmp(const void *a, const void *b)
{
	const struct kp_js_hash *x = a, *y = b;
	if (x->a != y->a) {
		return x->a < y->a ? -1 : 1;
	}
	return (x->b > y->b) - (x->b < y->b);
}
