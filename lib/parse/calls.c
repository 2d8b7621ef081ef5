/* DESIGN: what all bodies share. From the opening marker on everything is kept in `raw` until the call has a name, for if it turns out to be none, what was
   written is shown, all of it, as text. Behind a call the same begins again with what follows. */
#include "parse/machine.h"

bool kp_name_is_good(kp_str name)
{
	if (name.n == 0 || name.n > KP_NAME_MAX) {
		return false;
	}
	for (size_t i = 0; i < name.n; i++) {
		unsigned char c = (unsigned char)name.p[i];
		if (c <= ' ' || strchr("<>\"'{}[]()`,", c)) {
			return false;
		}
	}
	return true;
}

/* --- one call ----------------------------------------------------------------------------------- */

static void make_id(struct kp_parser *p, struct kp_buf *out)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	bool nine = p->g->ids == KP_IDS_NINE;
	if (p->g->ids == KP_IDS_KIMI && p->id.n) {
		kp_buf_add(out, kp_buf_str(&p->id));
		return;
	}
	if (p->g->ids == KP_IDS_KIMI) {
		kp_buf_lit(out, "functions.");
		kp_buf_add(out, kp_buf_str(&p->name));
		kp_buf_printf(out, ":%zu", p->n_calls);
		return;
	}
	bool good = nine && p->id.n == 9;
	for (size_t i = 0; good && i < 9; i++) {
		good = p->id.p[i] && strchr(letters, p->id.p[i]);
	}
	if (good) {
		kp_buf_add(out, kp_buf_str(&p->id));
		return;
	}
	kp_buf_addz(out, nine ? "" : "call_");
	for (size_t i = nine ? 9 : 24; i; i--) {
		kp_buf_addc(out, letters[kp_rng_below(p->rng, sizeof(letters) - 1)]);
	}
}

bool kp_call_start(struct kp_parser *p, kp_str name)
{
	if (!kp_name_is_good(name) || (p->is_bare && !kp_tool_offer_find(p->offer, name))) {
		kp_calls_reject(p);
		return false;
	}
	if (p->name.p != name.p) {
		kp_buf_reset(&p->name);
		kp_buf_add(&p->name, name);
	}
	p->muted = p->muted || (p->one_call && p->n_calls);
	p->tool = kp_tool_offer_find(p->offer, kp_buf_str(&p->name));
	p->confirmed = true;
	kp_buf_reset(&p->raw);
	kp_buf_reset(&p->space);
	if (!p->muted) {
		KP_AUTO(buf) struct kp_buf id;
		kp_buf_init(&id, 2 * KP_NAME_MAX);
		make_id(p, &id);
		kp_out_flush(p, true);
		struct kp_event ev = { .kind = KP_EV_TOOL_START, .choice = p->choice };
		ev.tool.index = (uint32_t)p->n_calls;
		ev.tool.id = kp_buf_str(&id);
		ev.tool.name = kp_buf_str(&p->name);
		p->emit(p->ctx, &ev);
		p->n_calls++;
	}
	kp_buf_reset(&p->id);
	return true;
}

void kp_call_args(struct kp_parser *p, kp_str json)
{
	if (p->confirmed) {
		kp_out(p, KP_EV_TOOL_ARGUMENTS, json);
	} else {
		kp_buf_add(&p->args, json);
	}
}

void kp_call_raw(struct kp_parser *p, char c, bool in_string)
{
	if (in_string &&
		(unsigned char)c < 0x20) { /* a line end in a string: JSON wants it escaped */
		char text[8];
		struct kp_buf escaped = {
			.p = text, .cap = sizeof(text) - 1, .max = sizeof(text) - 1
		};
		kp_literal_escape(kp_str_n(&c, 1), &escaped);
		kp_call_args(p, kp_buf_str(&escaped));
		return;
	}
	kp_call_args(p, kp_str_n(&c, 1));
}

void kp_call_end(struct kp_parser *p)
{
	if (!p->confirmed) {
		return;
	}
	p->confirmed = false;
	p->tool = NULL;
	kp_buf_reset(&p->raw);
	kp_buf_reset(&p->name);
	kp_buf_reset(&p->args);
	if (p->muted) {
		return;
	}
	kp_out_flush(p, true);
	struct kp_event ev = { .kind = KP_EV_TOOL_END, .choice = p->choice };
	ev.tool.index = (uint32_t)p->n_calls - 1;
	p->emit(p->ctx, &ev);
	if (p->one_call) {
		p->muted = true;
	}
}

/* --- the section -------------------------------------------------------------------------------- */

/* Not copied: markers alone, one behind the other, may be many. */
static void swap(struct kp_buf *a, struct kp_buf *b)
{
	struct kp_buf was = *a;
	*a = *b;
	*b = was;
}

void kp_calls_open(struct kp_parser *p, kp_str text, bool bare)
{
	swap(&p->raw, &p->space);
	kp_buf_reset(&p->space);
	kp_buf_add(&p->raw, text);
	p->is_bare = bare;
	p->in_section = !bare;
	p->confirmed = false;
	p->n_calls_before = p->n_calls;
	p->body = p->g->body;
	p->mode = KP_M_CALLS;
	if (p->body == KP_BODY_JSON) {
		p->in_array = false;
		kp_json_body_begin(p);
	} else if (p->body == KP_BODY_PYTHON) {
		kp_python_begin(p);
	} else if (!p->g->call_open[0]) {
		kp_calls_next(p); /* the marker is the call's own */
	}
}

void kp_calls_next(struct kp_parser *p)
{
	kp_buf_reset(&p->name);
	kp_buf_reset(&p->id);
	kp_buf_reset(&p->word);
	p->body = p->g->body; /* the call before it may have been an object */
	p->mode = KP_M_NAME;
}

void kp_calls_close(struct kp_parser *p)
{
	kp_buf_reset(&p->raw);
	p->confirmed = false;
	p->in_section = false;
	kp_text_again(p);
}

void kp_calls_reject(struct kp_parser *p)
{
	kp_str raw = kp_buf_str(&p->raw);
	size_t n = 0;
	while (n < raw.n && kp_is_space(raw.p[n])) {
		n++;
	}
	kp_buf_reset(&p->space);
	kp_buf_add(&p->space, kp_str_sub(raw, 0, n));
	if (n < raw.n) {
		kp_out_text(p, kp_str_skip(raw, n));
	}
	kp_buf_reset(&p->args);
	kp_calls_close(p);
}

/* Arguments as JSON follow; raw bytes. */
static void begin_args(struct kp_parser *p)
{
	kp_jscan_init(&p->scan);
	p->has_args = false;
	p->mode = KP_M_ARGS;
}

/* functions.get_weather:0; the functions. or the number may be missing. */
static kp_str kimi_name(struct kp_parser *p, kp_str head)
{
	ptrdiff_t colon = kp_str_rfind_char(head, ':');
	uint64_t ignored;
	kp_str name = head;
	kp_buf_reset(&p->id);
	if (colon >= 0 && kp_str_u64(kp_str_skip(head, (size_t)colon + 1), UINT32_MAX, &ignored)) {
		name = kp_str_sub(head, 0, (size_t)colon);
		kp_buf_add(&p->id, head);
	}
	return kp_str_starts(name, KP_S("functions.")) ? kp_str_skip(name, 10) : name;
}

/* value of `want` in ` name="x" string='true' type=int`; KP_STR_NULL: there is none. */
kp_str kp_head_attribute(kp_str head, kp_str want)
{
	while ((head = kp_str_trim(head)).n) {
		ptrdiff_t eq = kp_str_find_char(head, '=');
		if (eq < 0) {
			break;
		}
		kp_str key = kp_str_trim(kp_str_sub(head, 0, (size_t)eq)), value;
		head = kp_str_trim(kp_str_skip(head, (size_t)eq + 1));
		ptrdiff_t end;
		if (head.n && (head.p[0] == '"' || head.p[0] == '\'')) {
			char quote = head.p[0];
			head = kp_str_skip(head, 1);
			end = kp_str_find_char(head, quote);
		} else {
			end = kp_str_find_char(head, ' ');
		}
		value = kp_str_sub(head, 0, end < 0 ? head.n : (size_t)end);
		if (kp_str_eq(key, want)) {
			return value;
		}
		head = kp_str_skip(head, value.n + (end >= 0));
	}
	return KP_STR_NULL;
}

/* XML's way to write a name: at most what can stand in a tool's name. */
static kp_str head_name(struct kp_parser *p, kp_str head)
{
	head = kp_str_trim(head);
	if (p->g->head == KP_HEAD_KIMI) {
		return kimi_name(p, head);
	}
	if (p->g->head == KP_HEAD_ATTRIBUTES) {
		kp_str name = kp_head_attribute(head, KP_S("name"));
		name = name.p ? name : kp_head_attribute(head, KP_S("tool"));
		return name.p ? kp_str_trim(name) : head;
	}
	static const char *const prefixes[] = { "call:", ":", "functions." };
	for (size_t i = 0; p->body == KP_BODY_BRACES && i < KP_LEN(prefixes); i++) {
		kp_str prefix = kp_str_c(prefixes[i]);
		head = kp_str_starts(head, prefix) ? kp_str_skip(head, prefix.n) : head;
	}
	return head;
}

/* The name has ended, and the arguments come (or, at a closing marker, do not). */
static bool name_done(struct kp_parser *p)
{
	char text[KP_NAME_MAX + 1];
	kp_str name = head_name(p, kp_buf_str(&p->word));
	size_t n = KP_MIN(name.n, sizeof(text));
	memcpy(text, name.p, n);
	if (!kp_call_start(p, kp_str_n(text, n))) {
		return false;
	}
	kp_buf_reset(&p->word);
	if (p->body == KP_BODY_TAGS) {
		kp_tags_begin(p);
	} else if (p->body == KP_BODY_BRACES) {
		kp_braces_begin(p);
	} else if (p->body == KP_BODY_TREE) {
		kp_tree_begin(p);
	} else {
		begin_args(p);
	}
	return true;
}

/* --- data --------------------------------------------------------------------------------------- */

static size_t between_data(struct kp_parser *p, kp_str run)
{
	char c = run.p[0];
	if (p->g->names && p->n_calls == p->n_calls_before && (c == '[' || c == '{')) {
		p->body = KP_BODY_JSON; /* objects instead of tags */
		p->in_array = false;
		kp_json_body_begin(p);
		return 0;
	}
	kp_buf_addc(&p->raw, c);
	if (!kp_is_space(c)) {
		kp_calls_reject(p);
	}
	return 1;
}

static size_t name_data(struct kp_parser *p, kp_str run)
{
	struct kp_buf *to = p->mode == KP_M_ID ? &p->id : &p->word;
	bool is_first = p->mode == KP_M_NAME && kp_all_space(kp_buf_str(&p->word));
	if (is_first && p->g->names && (run.p[0] == '[' || run.p[0] == '{')) {
		/* Two forms behind one marker: objects instead of a name. */
		p->body = KP_BODY_JSON;
		p->in_array = false;
		kp_json_body_begin(p);
		return 0;
	}
	kp_buf_addc(&p->raw, run.p[0]);
	kp_buf_addc(to, run.p[0]);
	if (to->n > 2 * KP_NAME_MAX) {
		kp_calls_reject(p);
	}
	return 1;
}

static size_t args_data(struct kp_parser *p, kp_str run)
{
	size_t n = kp_jscan_plain(&p->scan, run.p, run.n);
	if (n) {
		kp_call_args(p, kp_str_sub(run, 0, n));
		return n;
	}
	char c = run.p[0];
	if (!p->has_args && kp_is_space(c)) {
		return 1;
	}
	bool string = kp_jscan_in_string(&p->scan);
	enum kp_jscan_result r = kp_jscan_byte(&p->scan, c);
	if (r == KP_JSCAN_PAST) {
		p->mode = KP_M_AFTER;
		return 0;
	}
	p->has_args = true;
	kp_call_raw(p, c, string);
	if (r == KP_JSCAN_BAD) {
		p->mode = KP_M_BROKEN;
	} else if (r == KP_JSCAN_END) {
		p->mode = KP_M_AFTER;
		kp_buf_reset(&p->tail);
	}
	return 1;
}

/* Behind complete arguments: white space and brackets too many are dropped; a second object belongs to the arguments, its receiver must say that it is wrong;
   other text ends the call. */
static size_t after_data(struct kp_parser *p, kp_str run)
{
	char c = run.p[0];
	if (kp_is_space(c) || c == '}' || c == ']') {
		kp_buf_addc(&p->tail, c);
		p->n_dropped += kp_is_space(c) ? 0 : 1;
		return 1;
	}
	if (c == '{') {
		p->mode = KP_M_BROKEN;
		return 0;
	}
	kp_call_end(p);
	kp_calls_close(p);
	kp_buf_add(&p->space, kp_all_space(kp_buf_str(&p->tail)) ? kp_buf_str(&p->tail) : KP_S(""));
	return 0;
}

size_t kp_calls_data(struct kp_parser *p, kp_str run)
{
	switch (p->mode) {
	case KP_M_CALLS:
		return between_data(p, run);
	case KP_M_NAME:
	case KP_M_ID:
		return name_data(p, run);
	case KP_M_ARGS:
		return args_data(p, run);
	case KP_M_BROKEN:
		kp_call_args(p, run);
		return run.n;
	case KP_M_AFTER:
		return after_data(p, run);
	case KP_M_JSON:
		return kp_json_body_data(p, run);
	case KP_M_PYTHON:
		return kp_python_data(p, run);
	case KP_M_BRACES:
		return kp_braces_data(p, run);
	case KP_M_TREE:
	case KP_M_ELEMENT:
	case KP_M_LEAF:
		return kp_tree_data(p, run);
	default:
		return kp_tags_data(p, run);
	}
}

/* --- markers ------------------------------------------------------------------------------------ */

/* A marker that ends whatever call there is. */
static void finish_call(struct kp_parser *p)
{
	if (!p->confirmed) {
		return;
	}
	if (p->body == KP_BODY_TREE && p->mode >= KP_M_TREE && p->mode <= KP_M_LEAF) {
		kp_tree_end(p);
	} else if (p->body == KP_BODY_TAGS && p->mode != KP_M_ARGS && p->mode != KP_M_AFTER &&
		   p->mode != KP_M_BROKEN) {
		kp_tags_end(p);
	} else if (p->mode == KP_M_ARGS && !p->has_args) {
		kp_call_args(p, KP_S("{}"));
	} else if (p->mode == KP_M_JSON) {
		kp_json_body_finish(p, false);
	} else if (p->mode == KP_M_PYTHON) {
		kp_python_finish(p, false);
	}
	kp_call_end(p);
}

static void name_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	kp_buf_add(&p->raw, text);
	switch ((int)kind) {
	case KP_K_ID:
		if (p->g->id_first && p->id.n == 0) {
			kp_buf_add(&p->id, kp_buf_str(&p->word));
			kp_buf_reset(&p->word);
			break;
		}
		p->mode = KP_M_ID;
		break;
	case KP_K_NAME_END:
		if (p->mode == KP_M_NAME && p->word.n == 0 && kp_all_space(text)) {
			break; /* a line end before the name */
		}
		if (name_done(p) && p->body == KP_BODY_BRACES && text.p[text.n - 1] == '{') {
			kp_braces_data(p, KP_S("{"));
		}
		break;
	case KP_K_KEY_OPEN:
		if (name_done(p)) {
			kp_tags_mark(p, kind, text);
		}
		break;
	default:                                 /* closed: no arguments */
		if (p->body == KP_BODY_BRACES) { /* without even its braces it is none */
			kp_calls_reject(p);
			break;
		}
		if (name_done(p)) {
			kp_calls_mark(p, kind, text);
		}
	}
}

static bool is_tags(const struct kp_parser *p)
{
	return p->body == KP_BODY_TAGS &&
	       ((p->mode >= KP_M_PARAMS && p->mode <= KP_M_KEY_GUESS) || p->mode == KP_M_TYPE);
}

void kp_calls_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	if (p->mode == KP_M_NAME || p->mode == KP_M_ID) {
		name_mark(p, kind, text);
		return;
	}
	if (kind == KP_K_FENCE) {
		if (p->mode == KP_M_ARGS && p->has_args) { /* not where a fence belongs */
			p->mode = KP_M_BROKEN;
			kp_call_args(p, text);
		}
		return;
	}
	if (kind == KP_K_QUOTE) {
		kp_braces_mark(p);
		return;
	}
	if (is_tags(p) && kp_tags_mark(p, kind, text)) {
		return;
	}
	if (p->body == KP_BODY_TREE && p->confirmed && kp_tree_mark(p, kind, text)) {
		return;
	}
	bool whole = !p->confirmed && p->mode == KP_M_JSON && p->envelope != KP_E_WAIT &&
		     p->envelope != KP_E_DONE;
	if (whole || (!p->confirmed && p->n_calls == p->n_calls_before &&
			     (kind == KP_K_CLOSE || kind == KP_K_CALL_CLOSE))) {
		/* A section without a call, or an object without a name: nothing was called. */
		kp_buf_add(&p->raw, text);
		if (kind != KP_K_CALL_OPEN || whole) {
			kp_calls_reject(p);
			return;
		}
	}
	finish_call(p);
	switch ((int)kind) {
	case KP_K_CALL_OPEN:
		kp_buf_add(&p->raw, text);
		kp_calls_next(p);
		break;
	case KP_K_OPEN: {
		size_t before = p->n_calls_before;
		if (p->n_calls ==
			before) { /* twice, and no call yet: the first one is shown if none comes */
			swap(&p->space, &p->raw);
		}
		kp_calls_open(p, text, false);
		p->n_calls_before = before;
		break;
	}
	case KP_K_CALL_CLOSE:
		if (!p->in_section) {
			kp_calls_close(p);
			break;
		}
		p->mode = KP_M_CALLS;
		break;
	default:
		kp_calls_close(p);
	}
}

void kp_calls_finish(struct kp_parser *p, bool truncated)
{
	if (!p->confirmed && p->mode == KP_M_NAME && !truncated && p->g->value_open &&
		kp_tool_offer_find(p->offer, head_name(p, kp_buf_str(&p->word)))) {
		name_done(p); /* a tag family's call without arguments whose end is missing */
	}
	if (p->confirmed) {
		if (is_tags(p)) {
			kp_tags_finish(p, truncated);
		} else if (p->body == KP_BODY_TREE && !truncated) {
			kp_tree_end(p);
		} else if (p->mode == KP_M_JSON) {
			kp_json_body_finish(p, truncated);
		} else if (p->mode == KP_M_PYTHON) {
			kp_python_finish(p, truncated);
		} else if (p->mode == KP_M_ARGS && !p->has_args && !truncated) {
			kp_call_args(p, KP_S("{}"));
		}
		kp_call_end(p);
	} else if (p->n_calls > p->n_calls_before && kp_all_space(kp_buf_str(&p->raw))) {
		kp_calls_close(p);
	} else {
		kp_calls_reject(p);
	}
}
