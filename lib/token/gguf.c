/* DESIGN: see gguf.h. A cursor over the input; sizes are compared with what is left before anything is read, counts are never
   trusted for allocation (nothing is allocated). Arrays of arrays are refused: no tokenizer needs them. */
#include "token/gguf.h"

static int cut_short(const struct kp_gguf *g, struct kp_err *err)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT, "read GGUF: cut short at byte `%zu`", g->at);
}

static bool take(struct kp_gguf *g, uint64_t n, kp_str *ret)
{
	if (n > g->in.n - g->at) {
		return false;
	}
	*ret = kp_str_n(g->in.p + g->at, (size_t)n);
	g->at += (size_t)n;
	return true;
}

static uint64_t little_endian(kp_str s)
{
	uint64_t v = 0;
	for (size_t i = s.n; i-- > 0;) {
		v = v << 8 | (uint8_t)s.p[i];
	}
	return v;
}

static bool take_uint(struct kp_gguf *g, size_t n, uint64_t *ret)
{
	kp_str s;
	if (!take(g, n, &s)) {
		return false;
	}
	*ret = little_endian(s);
	return true;
}

static bool take_string(struct kp_gguf *g, kp_str *ret)
{
	uint64_t n;
	return take_uint(g, 8, &n) && take(g, n, ret);
}

/* Bytes of a scalar; 0: no scalar. */
static size_t width(uint64_t type)
{
	switch (type) {
	case KP_GGUF_U8:
	case KP_GGUF_I8:
	case KP_GGUF_BOOL:
		return 1;
	case KP_GGUF_U16:
	case KP_GGUF_I16:
		return 2;
	case KP_GGUF_U32:
	case KP_GGUF_I32:
	case KP_GGUF_F32:
		return 4;
	case KP_GGUF_U64:
	case KP_GGUF_I64:
	case KP_GGUF_F64:
		return 8;
	default:
		return 0;
	}
}

bool kp_gguf_is(kp_str bytes)
{
	return kp_str_starts(bytes, KP_S("GGUF"));
}

int kp_gguf_open(struct kp_gguf *g, kp_str bytes, size_t max_bytes, struct kp_err *err)
{
	*g = (struct kp_gguf){ .in = kp_str_sub(bytes, 0, max_bytes), .at = 4 };
	uint64_t version, tensors;
	if (!kp_gguf_is(bytes)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "read GGUF: it does not begin with `GGUF`");
	}
	if (!take_uint(g, 4, &version)) {
		return cut_short(g, err);
	}
	if (version != 2 && version != 3) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"read GGUF: version `%u` (2 and 3 are known, little-endian)",
			(unsigned)version);
	}
	return take_uint(g, 8, &tensors) && take_uint(g, 8, &g->left) ? 0 : cut_short(g, err);
}

static int take_array(struct kp_gguf *g, struct kp_gguf_value *v, struct kp_err *err)
{
	uint64_t type;
	if (!take_uint(g, 4, &type) || !take_uint(g, 8, &v->a.n)) {
		return cut_short(g, err);
	}
	v->a.type = (uint32_t)type;
	size_t start = g->at, each = width(type), bytes;
	if (type == KP_GGUF_STRING) {
		for (uint64_t i = 0; i < v->a.n; i++) {
			kp_str s;
			if (!take_string(g, &s)) {
				return cut_short(g, err);
			}
		}
	} else if (each == 0) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"read GGUF key `%" KP_FMT "`: an array of type %u",
			KP_ARG(kp_str_sub(v->key, 0, 80)), (unsigned)type);
	} else if (v->a.n > SIZE_MAX / 8 || !kp_size_mul((size_t)v->a.n, each, &bytes) ||
		   !take(g, bytes, &v->a.bytes)) {
		return cut_short(g, err);
	}
	v->a.bytes = kp_str_sub(g->in, start, g->at);
	return 0;
}

int kp_gguf_next(struct kp_gguf *g, struct kp_gguf_value *ret, struct kp_err *err)
{
	struct kp_gguf_value v = { .u = 0 };
	uint64_t type;
	if (g->left == 0) {
		return 0;
	}
	g->left--;
	if (!take_string(g, &v.key) || !take_uint(g, 4, &type)) {
		return cut_short(g, err);
	}
	v.type = (uint32_t)type;
	if (type == KP_GGUF_ARRAY) {
		if (take_array(g, &v, err)) {
			return -1;
		}
	} else if (type == KP_GGUF_STRING) {
		if (!take_string(g, &v.s)) {
			return cut_short(g, err);
		}
	} else {
		size_t n = width(type);
		if (n == 0) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read GGUF key `%" KP_FMT "`: type %u is unknown",
				KP_ARG(kp_str_sub(v.key, 0, 80)), (unsigned)type);
		}
		if (!take_uint(g, n, &v.u)) {
			return cut_short(g, err);
		}
		if (type == KP_GGUF_F32 || type == KP_GGUF_F64) {
			v.u = 0;
		} else if (type == KP_GGUF_I8 || type == KP_GGUF_I16 || type == KP_GGUF_I32) {
			v.i = (int64_t)(v.u << (64 - 8 * n)) >> (64 - 8 * n);
		}
	}
	*ret = v;
	return 1;
}

bool kp_gguf_string(struct kp_gguf_array *a, kp_str *ret)
{
	struct kp_gguf g = { .in = a->bytes };
	if (a->n == 0 || !take_string(&g, ret)) {
		return false;
	}
	a->n--;
	a->bytes = kp_str_skip(a->bytes, g.at);
	return true;
}

bool kp_gguf_i32(struct kp_gguf_array *a, int32_t *ret)
{
	struct kp_gguf g = { .in = a->bytes };
	uint64_t u;
	if (a->n == 0 || !take_uint(&g, 4, &u)) {
		return false;
	}
	a->n--;
	a->bytes = kp_str_skip(a->bytes, g.at);
	*ret = (int32_t)(uint32_t)u;
	return true;
}
