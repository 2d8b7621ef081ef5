/* DESIGN: the object around a call, {"name": .., "arguments": {..}}, in any order of its keys, alone or in an array, possibly {"function": {..}} deep.
   The arguments' bytes pass as they are; when they come before the name they wait for it. */
#include "parse/machine.h"

#include "base/utf8.h"

void kp_json_body_begin(struct kp_parser *p)
{
	p->mode = KP_M_JSON;
	p->envelope = KP_E_WAIT;
	p->level = 1;
	p->has_name = p->has_args = p->escaped = false;
}

/* Is key one of the words of the list? */
static bool in_list(const char *words, kp_str key)
{
	kp_str rest = kp_str_c(words), word;
	while (words && kp_str_split(&rest, ' ', &word)) {
		if (kp_str_eq(word, key)) {
			return true;
		}
	}
	return false;
}

static bool hex4(const char *p, uint32_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < 4; i++) {
		char c = kp_lower(p[i]);
		if (!kp_is_digit(c) && (c < 'a' || c > 'f')) {
			return false;
		}
		*ret = *ret << 4 | (uint32_t)(kp_is_digit(c) ? c - '0' : c - 'a' + 10);
	}
	return true;
}

bool kp_json_unescape(kp_str raw, struct kp_buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	for (size_t i = 0; i < raw.n; i++) {
		uint32_t code, low;
		char utf8[4];
		if (raw.p[i] != '\\') {
			kp_buf_addc(out, raw.p[i]);
			continue;
		}
		const char *at = ++i < raw.n && raw.p[i] ? strchr(from, raw.p[i]) : NULL;
		if (at) {
			kp_buf_addc(out, to[at - from]);
			continue;
		}
		if (i + 4 >= raw.n || raw.p[i] != 'u' || !hex4(raw.p + i + 1, &code)) {
			return false;
		}
		i += 4;
		if (code >= 0xd800 && code < 0xdc00 && i + 6 < raw.n && raw.p[i + 1] == '\\' &&
			raw.p[i + 2] == 'u' && hex4(raw.p + i + 3, &low) && low >= 0xdc00 &&
			low < 0xe000) {
			code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
			i += 6;
		} else if (code >= 0xd800 && code < 0xe000) {
			code = 0xfffd;
		}
		kp_buf_add(out, kp_str_n(utf8, kp_utf8_encode(code, utf8)));
	}
	return true;
}

/* What came after the last complete call is no call: text, with this byte. A call that had begun ends before it: 0, the byte is text (and may be the first
   of a character's). */
static size_t bad(struct kp_parser *p)
{
	if (!p->confirmed) {
		kp_calls_reject(p);
		return 1;
	}
	kp_json_body_finish(p, false);
	kp_call_end(p);
	kp_calls_close(p);
	return 0;
}

/* The name is known, and of a call without marker also that it has arguments. */
static bool start(struct kp_parser *p)
{
	if (p->confirmed || !p->has_name || (p->is_bare && !p->has_args)) {
		return true;
	}
	if (!kp_call_start(p, kp_buf_str(&p->name))) {
		return false;
	}
	kp_call_args(p, kp_buf_str(&p->args));
	kp_buf_reset(&p->args);
	return true;
}

static void object_begin(struct kp_parser *p)
{
	p->envelope = KP_E_KEY;
	p->level = 1;
	p->has_name = p->has_args = false;
	kp_buf_reset(&p->args);
	kp_buf_reset(&p->name);
	kp_buf_reset(&p->id);
}

static void object_end(struct kp_parser *p)
{
	if (p->level == 2) {
		p->level = 1;
		p->envelope = KP_E_NEXT;
		return;
	}
	if (!p->confirmed && !(p->has_name && !p->is_bare)) {
		kp_calls_reject(p);
		return;
	}
	if (!start(p)) {
		return;
	}
	if (!p->has_args) {
		kp_call_args(p, KP_S("{}"));
	}
	kp_call_end(p);
	p->envelope = KP_E_DONE;
	if (!p->in_array && !p->g->close[0] && !p->g->separated) {
		kp_calls_close(p);
	}
}

static void wait_data(struct kp_parser *p, char c)
{
	if (kp_is_space(c)) {
		return;
	}
	if (c == '{') {
		object_begin(p);
	} else if (c == '[' && !p->in_array && p->n_calls == p->n_calls_before) {
		p->in_array = true;
	} else {
		kp_calls_reject(p);
	}
}

static void done_data(struct kp_parser *p, char c)
{
	bool more = p->g->close[0] || p->g->separated;
	if (kp_is_space(c)) {
		return;
	}
	if (p->in_array) {
		if (c == ',') {
			p->envelope = KP_E_WAIT;
		} else if (c == ']') {
			p->in_array = false;
			kp_buf_reset(&p->raw);
			if (!more) {
				kp_calls_close(p);
			}
		} else {
			kp_calls_reject(p);
		}
	} else if (c == '{' && more) {
		object_begin(p);
	} else if (c == '}' || c == ']') { /* one too many */
		p->n_dropped++;
		kp_buf_reset(&p->raw);
	} else if (!((c == ';' || c == ',') && more)) {
		kp_calls_reject(p);
	}
}

static void key_done(struct kp_parser *p)
{
	kp_str key = kp_buf_str(&p->word);
	const struct kp_grammar *g = p->g;
	p->member = KP_MEMBER_OTHER;
	if (g->name_is_key) {
		kp_buf_reset(&p->name);
		p->has_name = kp_json_unescape(key, &p->name);
		p->member = KP_MEMBER_ARGS;
	} else if (in_list(g->names, key)) {
		p->member = KP_MEMBER_NAME;
	} else if (in_list(g->arguments, key)) {
		p->member = KP_MEMBER_ARGS;
	} else if (in_list(g->ids_key, key)) {
		p->member = KP_MEMBER_ID;
	} else if (kp_str_eq(key, KP_S("function")) && p->level == 1) {
		p->member = KP_MEMBER_FUNCTION;
	}
	p->envelope = KP_E_COLON;
}

static void string_begin(struct kp_parser *p, enum kp_envelope e)
{
	kp_buf_reset(&p->word);
	p->escaped = false;
	p->envelope = (uint8_t)e;
}

/* The first byte of a member's value. false: it is none, or the call was rejected. */
static bool value_begin(struct kp_parser *p, char c)
{
	bool twice = (p->member == KP_MEMBER_NAME && p->has_name) ||
		     (p->member == KP_MEMBER_ARGS && p->has_args);
	enum kp_member m = twice ? KP_MEMBER_OTHER : p->member;
	p->member = (uint8_t)m;
	if (m == KP_MEMBER_FUNCTION && c == '{') {
		p->level = 2;
		p->envelope = KP_E_KEY;
		return true;
	}
	if (c == '"' && m != KP_MEMBER_OTHER) {
		/* "function": "get_weather" is a name, too. */
		if (m == KP_MEMBER_FUNCTION && !p->has_name) {
			p->member = KP_MEMBER_NAME;
		}
		string_begin(p, KP_E_STRING);
		return true;
	}
	kp_jscan_init(&p->scan);
	p->envelope = KP_E_SKIP;
	if (m == KP_MEMBER_ARGS && c != 'n') {
		p->has_args = true;
		p->envelope = KP_E_ARGS;
		if (!start(p)) {
			return false;
		}
		kp_call_raw(p, c, false);
	} else if (m == KP_MEMBER_ARGS) { /* null: none */
		p->has_args = true;
		if (!start(p)) {
			return false;
		}
		kp_call_args(p, KP_S("{}"));
	}
	enum kp_jscan_result r = kp_jscan_byte(&p->scan, c);
	return r == KP_JSCAN_MORE;
}

static void string_done(struct kp_parser *p)
{
	kp_str raw = kp_buf_str(&p->word);
	struct kp_buf *to = p->member == KP_MEMBER_NAME ? &p->name : &p->id;
	p->envelope = KP_E_NEXT;
	if (p->member == KP_MEMBER_ARGS) { /* JSON in a string: taken out of it */
		KP_AUTO(buf) struct kp_buf json;
		kp_buf_init(&json, p->word.max);
		p->has_args = true;
		if (!kp_json_unescape(raw, &json)) {
			p->n_dropped += p->confirmed ? raw.n : 0;
			(void)bad(p);
			return;
		}
		if (start(p)) {
			kp_str text = kp_str_trim(kp_buf_str(&json));
			kp_call_args(p, text.n ? text : KP_S("{}"));
		}
		return;
	}
	kp_buf_reset(to);
	if (!kp_json_unescape(raw, to)) {
		p->n_dropped += p->confirmed ? raw.n : 0;
		(void)bad(p);
		return;
	}
	if (p->member == KP_MEMBER_NAME) {
		p->has_name = true;
		(void)start(p);
	}
}

static size_t string_data(struct kp_parser *p, char c)
{
	if (!p->escaped && c == '"') {
		if (p->envelope == KP_E_IN_KEY) {
			key_done(p);
		} else {
			string_done(p);
		}
		return 1;
	}
	p->escaped = !p->escaped && c == '\\';
	kp_buf_addc(&p->word, c);
	return 1;
}

/* Inside of a value that is passed on, or passed over. */
static size_t value_data(struct kp_parser *p, char c)
{
	bool string = kp_jscan_in_string(&p->scan);
	enum kp_jscan_result r = kp_jscan_byte(&p->scan, c);
	if (r == KP_JSCAN_PAST) {
		p->envelope = KP_E_NEXT;
		return 0;
	}
	if (p->envelope == KP_E_ARGS) {
		kp_call_raw(p, c, string);
	}
	if (r == KP_JSCAN_END) {
		p->envelope = KP_E_NEXT;
	} else if (r == KP_JSCAN_BAD && p->envelope == KP_E_ARGS && p->confirmed) {
		p->mode = KP_M_BROKEN;
	} else if (r == KP_JSCAN_BAD) {
		return bad(p);
	}
	return 1;
}

static size_t member_data(struct kp_parser *p, char c)
{
	if (kp_is_space(c)) {
		return 1;
	}
	switch (p->envelope) {
	case KP_E_KEY:
		if (c == '"') {
			string_begin(p, KP_E_IN_KEY);
		} else if (c == '}') {
			object_end(p);
		} else {
			return bad(p);
		}
		return 1;
	case KP_E_COLON:
		if (c != ':') {
			return bad(p);
		}
		p->envelope = KP_E_VALUE;
		return 1;
	case KP_E_VALUE:
		return value_begin(p, c) || p->mode != KP_M_JSON ? 1 : bad(p);
	default: /* NEXT */
		if (c == '}') {
			object_end(p);
		} else if (c == ',') {
			if (p->g->name_is_key && p->confirmed) { /* {"a": {}, "b": {}}: two calls */
				kp_call_end(p);
				p->has_name = p->has_args = false;
			}
			p->envelope = KP_E_KEY;
		} else {
			return bad(p);
		}
		return 1;
	}
}

static bool is_word(char c)
{
	return c == '_' || (kp_lower(c) >= 'a' && kp_lower(c) <= 'z');
}

size_t kp_json_body_data(struct kp_parser *p, kp_str run)
{
	char c = run.p[0];
	bool in_value = p->envelope == KP_E_ARGS || p->envelope == KP_E_SKIP;
	size_t n = in_value ? kp_jscan_plain(&p->scan, run.p, run.n) : 0;
	if (n) {
		kp_str plain = kp_str_sub(run, 0, n);
		if (!p->confirmed) {
			kp_buf_add(&p->raw, plain);
		}
		if (p->envelope == KP_E_ARGS) {
			kp_call_args(p, plain);
		}
		return n;
	}
	if (p->envelope == KP_E_WAIT && p->g->builtins && !p->is_bare && is_word(c)) {
		p->body = KP_BODY_PYTHON;
		kp_python_begin(p);
		return 0;
	}
	/* A number's end is seen by the byte after it, which then comes again. */
	size_t before = p->raw.n;
	if (!p->confirmed) {
		kp_buf_addc(&p->raw, c);
	}
	switch (p->envelope) {
	case KP_E_WAIT:
		wait_data(p, c);
		return 1;
	case KP_E_DONE:
		done_data(p, c);
		return 1;
	case KP_E_IN_KEY:
	case KP_E_STRING:
		return string_data(p, c);
	case KP_E_ARGS:
	case KP_E_SKIP:
		if (!value_data(p, c)) {
			if (p->mode != KP_M_JSON) {
				return 0;
			}
			p->raw.n = p->confirmed ? p->raw.n : before;
			return kp_json_body_data(p, run);
		}
		return 1;
	default:
		return member_data(p, c);
	}
}

void kp_json_body_finish(struct kp_parser *p, bool truncated)
{
	if (!truncated && p->confirmed && !p->has_args) {
		kp_call_args(p, KP_S("{}"));
		p->has_args = true;
	}
}
