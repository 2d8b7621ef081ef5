/* DESIGN: the push reader's events come here. A value that begins opens a frame, for which the frame around it has selected schemas (eval.c): an item when it begins,
   a member when its name ends. Budgets: `budget` names the first that is used up, and every loop looks at it; then nothing can be said any more. */
#include "jsonschema/run.h"
#include "base/utf8.h"

#include <stdio.h>

enum { ERRORS_MAX = 64, STEPS_DEFAULT = 1000000, STEPS_PER_BYTE = 64, BYTES_DEFAULT = 16 << 20 };

static int on_event(void *ctx, const struct kp_json_push_event *ev, struct kp_err *err);

struct kp_jsonschema_run *kp_jsonschema_run_create(
	const struct kp_jsonschema *s, const struct kp_jsonschema_limits *limits)
{
	struct kp_jsonschema_run *r = kp_new(struct kp_jsonschema_run);
	r->schema = s;
	r->limits = limits ? *limits : (struct kp_jsonschema_limits){ .max_depth = 0 };
	struct kp_jsonschema_limits *l = &r->limits;
	l->max_depth = l->max_depth ? KP_MIN(l->max_depth, (uint32_t)KP_JSON_MAX_DEPTH)
				    : KP_JSON_MAX_DEPTH;
	l->max_errors = l->max_errors ? KP_MIN(l->max_errors, (uint32_t)ERRORS_MAX) : 1;
	l->max_steps = l->max_steps ? l->max_steps : STEPS_DEFAULT;
	l->max_bytes = l->max_bytes ? l->max_bytes : BYTES_DEFAULT;
	r->steps = l->max_steps;
	kp_buf_init(&r->keys, l->max_bytes);
	kp_buf_init(&r->text, l->max_bytes);
	r->errors = kp_xcalloc(l->max_errors, sizeof(*r->errors));
	kp_json_push_init(&r->push, on_event, r);
	return r;
}

void kp_jsonschema_run_destroy(struct kp_jsonschema_run *r)
{
	if (!r) {
		return;
	}
	for (size_t i = 0; i < KP_LEN(r->frames) && r->frames[i]; i++) {
		struct kp_js_frame *f = r->frames[i];
		kp_mem_free(f->seen);
		kp_vec_fini(&f->marks);
		kp_vec_fini(&f->name_ends);
		kp_buf_fini(&f->names);
		kp_mem_free(f);
	}
	kp_vec_fini(&r->evals);
	kp_vec_fini(&r->scopes);
	kp_vec_fini(&r->words);
	kp_vec_fini(&r->scratch);
	kp_buf_fini(&r->keys);
	kp_buf_fini(&r->text);
	kp_mem_free(r->errors);
	kp_mem_free(r);
}

/* --- budgets ----------------------------------------------------------------------------------------------------- */

bool kp_js_spend(struct kp_jsonschema_run *r, uint64_t n)
{
	if (r->steps < n) {
		r->budget = "steps";
		return false;
	}
	r->steps -= n;
	return true;
}

bool kp_js_take_for(struct kp_jsonschema_run *r, struct kp_js_frame *f, uint64_t n)
{
	r->used += n;
	f->held += n;
	if (r->used > r->limits.max_bytes) {
		r->budget = "memory";
		return false;
	}
	return true;
}

bool kp_js_take(struct kp_jsonschema_run *r, uint64_t n)
{
	return kp_js_take_for(r, r->frames[r->n_frames - 1], n);
}

/* --- errors ------------------------------------------------------------------------------------------------------ */

static void add_token(struct kp_buf *b, kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '~' || s.p[i] == '/') {
			kp_buf_addz(b, s.p[i] == '~' ? "~0" : "~1");
		} else {
			kp_buf_addc(b, s.p[i]);
		}
	}
}

/* The text into a field, with its middle left out if it is too long. */
static void put(char *field, size_t size, kp_str s)
{
	size_t n = s.n;
	if (s.n >= size) {
		size_t head = (size - 4) / 2, tail = size - 4 - head;
		while (head && ((uint8_t)s.p[head] & 0xc0) == 0x80) {
			head--;
		}
		while (tail && ((uint8_t)s.p[s.n - tail] & 0xc0) == 0x80) {
			tail--;
		}
		memcpy(field, s.p, head);
		memcpy(field + head, "...", 3);
		memcpy(field + head + 3, s.p + s.n - tail, tail);
		n = head + 3 + tail;
	} else if (n) {
		memcpy(field, s.p, n);
	}
	field[n] = '\0';
}

/* Where the value of a frame is. */
static void put_pointer(const struct kp_jsonschema_run *r, uint32_t frame, char *field)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, r->limits.max_bytes + 4096);
	for (uint32_t i = 0; i < frame && i < r->n_frames; i++) {
		const struct kp_js_frame *f = r->frames[i];
		if ((f->type != KP_JSON_ARRAY && f->type != KP_JSON_OBJECT) || !f->n) {
			break; /* the text ends in it */
		}
		kp_buf_addc(&b, '/');
		if (f->type == KP_JSON_ARRAY) {
			kp_buf_u64(&b, f->n ? f->n - 1 : 0);
		} else {
			add_token(&b, kp_str_n(r->keys.p + f->key, f->n_key));
		}
	}
	put(field, KP_JSONSCHEMA_POINTER, kp_buf_str(&b));
}

static void add_types(struct kp_buf *b, uint8_t types)
{
	static const struct {
		uint8_t bits;
		const char *name;
	} names[] = { { JS_NULL, "null" }, { JS_BOOL, "a boolean" }, { JS_NUMBER, "a number" },
		{ JS_INTEGER, "an integer" }, { JS_STRING, "a string" }, { JS_ARRAY, "an array" },
		{ JS_OBJECT, "an object" } };
	bool first = true;
	types = types & JS_NUMBER ? types & (uint8_t)~JS_INTEGER : types;
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (types & names[i].bits) {
			kp_buf_addz(b, first ? "" : " or ");
			kp_buf_addz(b, names[i].name);
			first = false;
		}
	}
}

static void add_decimal(struct kp_buf *b, const struct kp_decimal *d)
{
	kp_buf_addz(b, d->negative ? "-" : "");
	if (!d->n) {
		kp_buf_addc(b, '0');
		return;
	}
	kp_str digits = kp_str_n(d->digits, d->n);
	int64_t point = d->exp + d->n; /* digits in front of it */
	if (d->exp < 0 && point > -6) {
		kp_buf_add(b, point > 0 ? kp_str_sub(digits, 0, (size_t)point) : KP_S("0"));
		kp_buf_addc(b, '.');
		for (int64_t i = point; i < 0; i++) {
			kp_buf_addc(b, '0');
		}
		kp_buf_add(b, point > 0 ? kp_str_skip(digits, (size_t)point) : digits);
		return;
	}
	kp_buf_add(b, digits);
	for (int64_t i = 0; i < d->exp && d->exp <= 20; i++) {
		kp_buf_addc(b, '0');
	}
	if (d->exp < 0 || d->exp > 20) {
		kp_buf_addc(b, 'e');
		kp_buf_i64(b, d->exp);
	}
}

static void put_message(const struct kp_jsonschema_run *r, const struct kp_js_cause *c, char *field)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, r->limits.max_bytes + 4096);
	if (c->what) {
		kp_buf_addz(&b, c->what);
	} else {
		kp_buf_lit(&b, "expected ");
		add_types(&b, c->node->types);
		kp_buf_lit(&b, ", got ");
		kp_buf_addz(&b, kp_json_type_name(r->frames[c->frame]->type));
	}
	if (c->detail.p) {
		kp_buf_lit(&b, " `");
		kp_buf_add(&b, c->detail);
		kp_buf_addc(&b, '`');
	}
	if (c->has_count) {
		kp_buf_addc(&b, ' ');
		kp_buf_u64(&b, c->count);
	}
	if (c->bound) {
		kp_buf_addc(&b, ' ');
		add_decimal(&b, c->bound);
	}
	if (c->group) {
		kp_buf_printf(&b, " (the last alternative of `%s`)", c->group);
	}
	put(field, KP_JSONSCHEMA_MESSAGE, kp_buf_str(&b));
}

static struct kp_jsonschema_error *next_error(struct kp_jsonschema_run *r)
{
	struct kp_jsonschema_error *e =
		r->n_errors < r->limits.max_errors ? &r->errors[r->n_errors] : NULL;
	r->n_errors += e != NULL;
	r->stopped = r->n_errors == r->limits.max_errors;
	if (e) {
		e->at = r->at;
	}
	return e;
}

void kp_js_report(struct kp_jsonschema_run *r)
{
	struct kp_jsonschema_error *e = next_error(r);
	const struct kp_js_cause *c = &r->cause;
	if (e) {
		KP_AUTO(buf) struct kp_buf keyword;
		kp_buf_init(&keyword, r->limits.max_bytes + 4096);
		kp_buf_add(&keyword, c->node->where);
		if (c->keyword) {
			kp_buf_printf(&keyword, "/%s", c->keyword);
		}
		put(e->keyword, sizeof(e->keyword), kp_buf_str(&keyword));
		put_pointer(r, c->frame, e->pointer);
		put_message(r, c, e->message);
	}
}

/* An error of the text itself. */
static void report_text(
	struct kp_jsonschema_run *r, uint32_t frame, const char *message, kp_str detail)
{
	struct kp_jsonschema_error *e = next_error(r);
	if (e) {
		char text[KP_JSONSCHEMA_MESSAGE * 2];
		int n = snprintf(text, sizeof(text), "%s%s%" KP_FMT "%s", message,
			detail.p ? " `" : "", KP_ARG(kp_str_sub(detail, 0, 100)),
			detail.p ? "`" : "");
		e->keyword[0] = '\0';
		put_pointer(r, frame, e->pointer);
		put(e->message, sizeof(e->message), kp_str_n(text, (size_t)n));
	}
}

/* --- frames ------------------------------------------------------------------------------------------------------ */

static struct kp_js_frame *top(struct kp_jsonschema_run *r)
{
	return r->frames[r->n_frames - 1];
}

static void open_frame(struct kp_jsonschema_run *r)
{
	if (!r->frames[r->n_frames]) {
		r->frames[r->n_frames] = kp_new(struct kp_js_frame);
		kp_buf_init(&r->frames[r->n_frames]->names, r->limits.max_bytes);
	}
	struct kp_js_frame *f = r->frames[r->n_frames++];
	f->type = KP_JSON_NONE;
	f->evals = (uint32_t)r->evals.n;
	f->scopes = (uint32_t)r->scopes.n;
	f->words = (uint32_t)r->words.n;
	f->n = 0;
	f->key = r->keys.n;
	f->n_key = 0;
	f->hashing = f->unique = f->need_text = f->is_name = f->tracks = f->repeated = false;
	f->length = 0;
	f->limit = UINT64_MAX;
	f->n_seen = 0;
	f->held = 0;
	f->marks.n = f->name_ends.n = 0;
	f->names.n = 0;
}

static void close_frame(struct kp_jsonschema_run *r)
{
	struct kp_js_frame *f = top(r);
	r->used -= f->held;
	r->evals.n = f->evals;
	r->scopes.n = f->scopes;
	r->words.n = f->words;
	r->keys.n = f->key;
	if (f->cap_seen > 4096) { /* what one large value needed is not kept for all */
		kp_free(&f->seen);
		f->cap_seen = 0;
	}
	r->n_frames--;
}

static bool seen_put(struct kp_js_frame *f, struct kp_js_hash h)
{
	uint64_t at = h.a & (f->cap_seen - 1);
	for (; f->seen[at].a || f->seen[at].b; at = (at + 1) & (f->cap_seen - 1)) {
		if (f->seen[at].a == h.a && f->seen[at].b == h.b) {
			return true;
		}
	}
	f->seen[at] = h;
	f->n_seen++;
	return false;
}

static void seen_grow(struct kp_js_frame *f)
{
	struct kp_js_hash *old = f->seen;
	uint32_t n = f->cap_seen;
	f->cap_seen = n ? 2 * n : 16;
	f->seen = kp_xcalloc(f->cap_seen, sizeof(*f->seen));
	f->n_seen = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (old[i].a || old[i].b) {
			(void)seen_put(f, old[i]);
		}
	}
	kp_mem_free(old);
}

bool kp_js_seen(struct kp_jsonschema_run *r, struct kp_js_frame *f, struct kp_js_hash h)
{
	h.a |= (h.a | h.b) == 0; /* zeros stand for none */
	if (f->n_seen == 0 && f->cap_seen) {
		memset(f->seen, 0, f->cap_seen * sizeof(*f->seen));
	}
	if (!kp_js_take_for(r, f, 4 * sizeof(h))) {
		return false;
	}
	if (2 * f->n_seen >= f->cap_seen) {
		seen_grow(f);
	}
	return seen_put(f, h);
}

static void begin_value(struct kp_jsonschema_run *r, enum kp_json_type type)
{
	if ((type == KP_JSON_ARRAY || type == KP_JSON_OBJECT) &&
		r->n_frames - (r->n_frames && top(r)->type == KP_JSON_NONE) >=
			r->limits.max_depth) {
		r->budget = "depth";
		return;
	}
	if (r->n_frames == 0) {
		open_frame(r);
		kp_js_push_eval(r, r->schema->root, JS_NONE, ROLE_ALL, 0);
	} else if (top(r)->type == KP_JSON_ARRAY) {
		open_frame(r);
		kp_js_select_item(r, r->n_frames - 2);
	}
	struct kp_js_frame *f = top(r), *around = r->n_frames > 1 && !f->is_name
							  ? r->frames[r->n_frames - 2]
							  : NULL;
	f->type = type;
	f->hash = kp_js_hash_empty(type);
	f->hashing = around && (around->hashing || around->unique);
	r->text.n = 0;
	kp_js_start(r);
}

static struct kp_js_hash value_hash(struct kp_jsonschema_run *r)
{
	struct kp_js_frame *f = top(r);
	if (!f->hashing) {
		return (struct kp_js_hash){ 0, 0 };
	}
	return f->type == KP_JSON_STRING   ? kp_js_hash_string(kp_buf_str(&r->text))
	       : f->type == KP_JSON_NUMBER ? kp_js_hash_number(&r->number)
					   : f->hash;
}

/* The value with that hash belongs to the newest frame. */
static void join(struct kp_jsonschema_run *r, struct kp_js_hash h)
{
	struct kp_js_frame *f = top(r);
	if (f->type == KP_JSON_OBJECT && f->hashing) {
		f->hash = kp_js_hash_member(f->hash, kp_str_n(r->keys.p + f->key, f->n_key), h);
	} else if (f->type == KP_JSON_ARRAY && f->hashing) {
		f->hash = kp_js_hash_item(f->hash, h);
	}
	if (f->unique && !f->repeated && kp_js_seen(r, f, h)) {
		f->repeated = true;
		kp_js_repeated(r, r->n_frames - 1);
	}
}

static void end_value(struct kp_jsonschema_run *r)
{
	if (r->text.failed || r->keys.failed) {
		r->budget = "memory";
		return;
	}
	struct kp_js_hash h = value_hash(r);
	bool is_name = top(r)->is_name;
	kp_js_close(r, h);
	if (r->budget) {
		return;
	}
	close_frame(r);
	if (r->n_frames && !is_name) {
		join(r, h);
	}
}

static uint64_t characters(kp_str s)
{
	uint64_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		n += ((uint8_t)s.p[i] & 0xc0) != 0x80;
	}
	return n;
}

/* Behind the n-th character of s. */
static size_t behind_character(kp_str s, uint64_t n)
{
	size_t i = 0;
	while (i < s.n && n) {
		n--;
		for (i++; i < s.n && ((uint8_t)s.p[i] & 0xc0) == 0x80;) {
			i++;
		}
	}
	return i;
}

/* Text of a string value; at: the offset behind it. */
static void text(struct kp_jsonschema_run *r, kp_str s, uint64_t at)
{
	struct kp_js_frame *f = top(r);
	uint64_t length = f->length + characters(s);
	if (f->need_text || f->hashing) {
		kp_buf_add(&r->text, s);
	}
	while (length > f->limit && !r->budget && !r->stopped) {
		r->at = at - s.n + behind_character(s, f->limit + 1 - f->length);
		kp_js_too_long(r);
	}
	f->length = length;
}

static void begin_key(struct kp_jsonschema_run *r)
{
	r->keys.n = top(r)->key;
	top(r)->n_key = 0;
}

/* The name as a value of its own, for propertyNames. */
static void check_name(struct kp_jsonschema_run *r, kp_str name)
{
	open_frame(r);
	if (kp_js_select_names(r, r->n_frames - 2) == 0 || r->budget) {
		close_frame(r);
		return;
	}
	struct kp_js_frame *f = top(r);
	f->is_name = true;
	begin_value(r, KP_JSON_STRING);
	if (!r->budget && !r->stopped) {
		text(r, name, r->at);
		end_value(r);
	}
}

static void end_key(struct kp_jsonschema_run *r)
{
	struct kp_js_frame *f = top(r);
	if (r->keys.failed) {
		r->budget = "memory";
		return;
	}
	f->n_key = r->keys.n - f->key;
	kp_str name = kp_str_n(r->keys.p + f->key, f->n_key);
	if (kp_js_seen(r, f, kp_js_hash_string(name))) {
		report_text(r, r->n_frames - 1, "there is already a member", name);
	}
	if (!r->budget && !r->stopped) {
		check_name(r, name);
	}
	if (!r->budget && !r->stopped) {
		open_frame(r);
		kp_js_select_member(r, r->n_frames - 2, name);
	}
}

static void number(struct kp_jsonschema_run *r, kp_str s)
{
	kp_decimal_read(s, r->digits, &r->number);
}

static int on_event(void *ctx, const struct kp_json_push_event *ev, struct kp_err *err)
{
	struct kp_jsonschema_run *r = ctx;
	r->at = ev->at;
	switch (ev->kind) {
	case KP_JSON_EV_BEGIN:
		begin_value(r, ev->type);
		break;
	case KP_JSON_EV_KEY:
		r->in_key = true;
		begin_key(r);
		break;
	case KP_JSON_EV_TEXT:
		if (r->in_key) {
			kp_buf_add(&r->keys, ev->text);
		} else {
			text(r, ev->text, ev->at);
		}
		break;
	case KP_JSON_EV_NUMBER:
		number(r, ev->text);
		break;
	case KP_JSON_EV_END:
		if (r->in_key) {
			r->in_key = false;
			end_key(r);
		} else {
			end_value(r);
		}
		break;
	case KP_JSON_EV_NONE:
		break;
	}
	if (r->budget) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"check JSON schema: `%s`: used up at byte %llu", r->budget,
			(unsigned long long)r->at);
	}
	return r->stopped ? -1 : 0;
}

/* --- the outside ------------------------------------------------------------------------------------------------- */

static enum kp_jsonschema_verdict verdict(const struct kp_jsonschema_run *r)
{
	return r->n_errors   ? KP_JSONSCHEMA_INVALID
	       : r->finished ? KP_JSONSCHEMA_VALID
			     : KP_JSONSCHEMA_OPEN;
}

/* What the reader's answer means. */
static int settle(struct kp_jsonschema_run *r, int result, enum kp_jsonschema_verdict *ret,
	struct kp_err *err)
{
	if (result && !r->stopped) {
		if (!r->budget && err->code == KP_RESOURCE_EXHAUSTED) {
			r->budget = strstr(err->msg, "deep") ? "depth" : "number";
		}
		if (r->budget) {
			return -1;
		}
		r->at = r->push.at;
		report_text(r, r->n_frames, err->msg, KP_STR_NULL);
		r->stopped = true;
	}
	*ret = verdict(r);
	return 0;
}

static bool is_over(struct kp_jsonschema_run *r, int *ret_result, enum kp_jsonschema_verdict *ret,
	struct kp_err *err)
{
	*ret_result = 0;
	if (r->budget) {
		*ret_result = kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"check JSON schema: `%s`: used up at byte %llu", r->budget,
			(unsigned long long)r->at);
	} else if (r->stopped || r->finished) {
		*ret = verdict(r);
	} else {
		return false;
	}
	return true;
}

int kp_jsonschema_run_feed(struct kp_jsonschema_run *r, kp_str bytes,
	enum kp_jsonschema_verdict *ret, struct kp_err *err)
{
	int result;
	struct kp_err why = KP_ERR_INIT;
	if (is_over(r, &result, ret, err)) {
		return result;
	}
	r->steps += bytes.n * STEPS_PER_BYTE;
	result = kp_json_push_feed(&r->push, bytes, &why);
	if (settle(r, result, ret, &why)) {
		*err = why;
		return -1;
	}
	return 0;
}

int kp_jsonschema_run_finish(
	struct kp_jsonschema_run *r, enum kp_jsonschema_verdict *ret, struct kp_err *err)
{
	int result;
	struct kp_err why = KP_ERR_INIT;
	if (is_over(r, &result, ret, err)) {
		return result;
	}
	result = kp_json_push_finish(&r->push, &why);
	r->finished = result == 0;
	if (settle(r, result, ret, &why)) {
		*err = why;
		return -1;
	}
	return 0;
}

static int tell(struct kp_jsonschema_run *r, enum kp_json_event kind, enum kp_json_type type,
	kp_str s, struct kp_err *err)
{
	struct kp_json_push_event ev = { kind, type, s, r->push.at };
	return on_event(r, &ev, err);
}

static int tell_value(struct kp_jsonschema_run *r, const struct kp_jv *v, struct kp_err *err)
{
	int bad = tell(r, KP_JSON_EV_BEGIN, v->type, KP_STR_NULL, err);
	r->push.at++;
	r->steps += STEPS_PER_BYTE;
	if (!bad && (v->type == KP_JSON_STRING || v->type == KP_JSON_NUMBER)) {
		if (v->type == KP_JSON_NUMBER && v->s.n > KP_JSON_PUSH_NUMBER) {
			r->budget = "number";
			return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				"check JSON schema: `number`: of more than %d bytes",
				KP_JSON_PUSH_NUMBER);
		}
		bad = tell(r, v->type == KP_JSON_STRING ? KP_JSON_EV_TEXT : KP_JSON_EV_NUMBER,
			v->type, v->s, err);
	}
	for (uint32_t i = 0; !bad && v->type == KP_JSON_ARRAY && i < v->n; i++) {
		bad = tell_value(r, &v->items[i], err);
	}
	for (uint32_t i = 0; !bad && v->type == KP_JSON_OBJECT && i < v->n; i++) {
		bad = tell(r, KP_JSON_EV_KEY, KP_JSON_STRING, KP_STR_NULL, err) ||
		      tell(r, KP_JSON_EV_TEXT, KP_JSON_STRING, v->members[i].key, err) ||
		      tell(r, KP_JSON_EV_END, KP_JSON_STRING, KP_STR_NULL, err) ||
		      tell_value(r, &v->members[i].value, err);
	}
	return bad ? -1 : tell(r, KP_JSON_EV_END, v->type, KP_STR_NULL, err);
}

int kp_jsonschema_run_value(struct kp_jsonschema_run *r, const struct kp_jv *v,
	enum kp_jsonschema_verdict *ret, struct kp_err *err)
{
	int result;
	struct kp_err why = KP_ERR_INIT;
	if (is_over(r, &result, ret, err)) {
		return result;
	}
	result = tell_value(r, v, &why);
	r->finished = result == 0;
	if (settle(r, result, ret, &why)) {
		*err = why;
		return -1;
	}
	return 0;
}

const struct kp_jsonschema_error *kp_jsonschema_run_errors(
	const struct kp_jsonschema_run *r, size_t *ret_n)
{
	*ret_n = r->n_errors;
	return r->errors;
}
