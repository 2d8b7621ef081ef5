/* DESIGN: parameters as tags with plain text in them, to one JSON object. What closes a value counts only where a tag may follow it: the tag, and white space
   behind it, is kept in `tail` until that is known; if anything else comes it was part of the value. Strings leave as they come; values of other types when
   they are whole. */
#include "parse/machine.h"

#include "parse/typing.h"

/* --- the object that is made ------------------------------------------------------------------- */

void kp_object_key(struct kp_parser *p, kp_str key)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 8 * KP_LOOK_AHEAD);
	kp_buf_addz(&text, p->is_open ? ",\"" : "{\"");
	kp_literal_escape(key, &text);
	kp_buf_lit(&text, "\":");
	p->is_open = true;
	kp_call_args(p, kp_buf_str(&text));
}

void kp_object_end(struct kp_parser *p)
{
	kp_call_args(p, p->is_open ? KP_S("}") : KP_S("{}"));
	p->is_open = false;
}

void kp_tags_begin(struct kp_parser *p)
{
	p->is_open = false;
	kp_buf_reset(&p->given);
	kp_buf_reset(&p->tail);
	p->mode = KP_M_PARAMS;
}

/* --- a value ------------------------------------------------------------------------------------ */

static bool was_given(const struct kp_parser *p, kp_str key)
{
	kp_str rest = kp_buf_str(&p->given), one;
	while (rest.n && kp_str_split(&rest, '\0', &one)) {
		if (kp_str_eq(one, key)) {
			return true;
		}
	}
	return false;
}

void kp_value_begin(struct kp_parser *p)
{
	p->mode = p->body == KP_BODY_TREE ? KP_M_LEAF : KP_M_VALUE;
	p->is_streaming = false;
	p->call_closed = false;
	p->skip_lines = p->g->trim_lines ? 1 : 0;
	kp_buf_reset(&p->word);
	kp_buf_add(&p->given, kp_buf_str(&p->key));
	kp_buf_addc(&p->given, '\0');
}

static void lead(struct kp_parser *p)
{
	if (p->body == KP_BODY_TREE) {
		kp_tree_lead(p);
	} else {
		kp_object_key(p, kp_buf_str(&p->key));
	}
}

static void stream_begin(struct kp_parser *p)
{
	lead(p);
	kp_call_args(p, KP_S("\""));
	p->is_streaming = true;
}

void kp_put_escaped(struct kp_parser *p, kp_str text)
{
	KP_AUTO(buf) struct kp_buf json;
	kp_buf_init(&json, 8 * text.n + 1);
	kp_literal_escape(text, &json);
	kp_call_args(p, kp_buf_str(&json));
}

void kp_value_text(struct kp_parser *p, kp_str text)
{
	if (p->skip_lines && text.n) {
		p->skip_lines = 0;
		text = text.p[0] == '\n' ? kp_str_skip(text, 1) : text;
	}
	if (text.n == 0) {
		return;
	}
	if (!p->is_streaming && !kp_typing_waits(p->types)) {
		stream_begin(p);
	}
	if (p->is_streaming) {
		kp_put_escaped(p, text);
		return;
	}
	kp_buf_add(&p->word, text);
	if (p->types & KP_TYPE_STRING && kp_typing_is_string(p->types, kp_buf_str(&p->word))) {
		stream_begin(p);
		kp_put_escaped(p, kp_buf_str(&p->word));
		kp_buf_reset(&p->word);
	}
}

void kp_value_end(struct kp_parser *p)
{
	kp_str text = kp_buf_str(&p->word);
	p->skip_lines = 0;
	if (p->is_streaming) {
		kp_call_args(p, KP_S("\""));
	} else if (kp_typing_waits(p->types) && !(p->types & KP_TYPE_STRING) &&
		   kp_str_trim(text).n == 0) {
		/* An empty tag where no string is wanted: not given. */
	} else {
		KP_AUTO(buf) struct kp_buf json;
		kp_buf_init(&json, 8 * text.n + 64);
		kp_typing_write(p->types, text, &json);
		lead(p);
		kp_call_args(p, kp_buf_str(&json));
	}
	p->is_streaming = false;
	kp_buf_reset(&p->word);
	kp_buf_reset(&p->tail);
	p->mode = KP_M_PARAMS;
}

/* It was no end: what was kept belongs to the value. */
static void revert(struct kp_parser *p)
{
	KP_AUTO(buf) struct kp_buf tail = p->tail;
	kp_buf_init(&p->tail, tail.max);
	p->mode = KP_M_VALUE;
	p->call_closed = false;
	kp_value_text(p, kp_buf_str(&tail));
}

/* --- keys --------------------------------------------------------------------------------------- */

unsigned kp_type_named(kp_str name)
{
	static const struct {
		const char *name;
		unsigned type;
	} types[] = { { "string", 0 }, { "number", KP_TYPE_NUMBER | KP_TYPE_INTEGER },
		{ "integer", KP_TYPE_INTEGER }, { "boolean", KP_TYPE_BOOLEAN },
		{ "null", KP_TYPE_NULL }, { "array", KP_TYPE_ARRAY },
		{ "object", KP_TYPE_OBJECT } };
	for (size_t i = 0; i < KP_LEN(types); i++) {
		if (kp_str_eq(name, kp_str_c(types[i].name))) {
			return types[i].type;
		}
	}
	return 0;
}

static unsigned marked_type(kp_str head, bool *ret_marked)
{
	kp_str is_string = kp_head_attribute(head, KP_S("string"));
	kp_str type = kp_head_attribute(head, KP_S("type"));
	*ret_marked = is_string.p || type.p;
	if (is_string.p) {
		return kp_str_eq(is_string, KP_S("false")) ? KP_TYPE_ALL & ~(unsigned)KP_TYPE_STRING
							   : 0;
	}
	return kp_type_named(type);
}

/* Sets key and types by the head of a parameter; false: it is none. */
static bool read_key(struct kp_parser *p, kp_str head)
{
	bool known, marked = false;
	unsigned types = 0;
	kp_str key = kp_str_trim(head);
	if (p->g->key_head == KP_HEAD_ATTRIBUTES) {
		types = marked_type(head, &marked);
		kp_str name = kp_head_attribute(head, KP_S("name"));
		key = name.p ? name : kp_head_attribute(head, KP_S("key"));
	}
	if (key.n == 0 || key.n > KP_LOOK_AHEAD) {
		return false;
	}
	for (size_t i = 0; i < key.n; i++) {
		if ((unsigned char)key.p[i] < ' ' || key.p[i] == '<' || key.p[i] == '>') {
			return false;
		}
	}
	kp_buf_reset(&p->key);
	kp_buf_add(&p->key, key);
	p->types = marked ? types : kp_tool_offer_types(p->tool, key, &known);
	p->is_marked = marked;
	return true;
}

/* The type that the model says is believed where the schema does not forbid it. */
static void type_said(struct kp_parser *p, unsigned said)
{
	bool known;
	unsigned types = kp_tool_offer_types(p->tool, kp_buf_str(&p->key), &known);
	p->is_marked = !known || (types & said);
	p->types = p->is_marked ? said : types;
}

/* A damaged parameter: the call ends with what is certain, the rest is text. */
static void give_up(struct kp_parser *p)
{
	kp_object_end(p);
	kp_call_end(p);
	kp_buf_reset(&p->raw);
	kp_buf_add(&p->raw, kp_buf_str(&p->tail));
	kp_buf_reset(&p->tail);
	kp_calls_reject(p);
}

static bool in_quotes(kp_str head)
{
	char quote = 0;
	for (size_t i = 0; i < head.n; i++) {
		char c = head.p[i];
		quote = quote ? (c == quote ? 0 : quote) : c == '"' || c == '\'' ? c : 0;
	}
	return quote != 0;
}

static size_t key_data(struct kp_parser *p, kp_str run)
{
	kp_buf_addc(&p->tail, run.p[0]);
	kp_buf_addc(&p->word, run.p[0]);
	if (p->word.n > KP_LOOK_AHEAD || run.p[0] == '\n') {
		give_up(p);
	}
	return 1;
}

static void key_end(struct kp_parser *p, kp_str text)
{
	kp_buf_add(&p->tail, text);
	if (p->g->key_head == KP_HEAD_ATTRIBUTES && in_quotes(kp_buf_str(&p->word))) {
		kp_buf_add(&p->word, text);
		return;
	}
	if (!read_key(p, kp_buf_str(&p->word))) {
		give_up(p);
		return;
	}
	kp_buf_reset(&p->tail);
	if (p->g->value_open) {
		p->mode = KP_M_VALUE_OPEN;
	} else {
		kp_value_begin(p);
	}
}

/* --- data --------------------------------------------------------------------------------------- */

static size_t params_data(struct kp_parser *p, kp_str run)
{
	char c = run.p[0];
	if (c == '{' && p->g->json_body && !p->is_open) {
		kp_jscan_init(&p->scan);
		p->has_args = false;
		p->mode = KP_M_ARGS;
		return 0;
	}
	p->n_dropped += kp_is_space(c) ? 0 : 1;
	return 1;
}

static size_t guess_data(struct kp_parser *p, kp_str run)
{
	if (run.p[0] == '\n' || run.p[0] == '<' || p->tail.n > KP_LOOK_AHEAD) {
		revert(p);
		return 0;
	}
	kp_buf_addc(&p->tail, run.p[0]);
	kp_buf_addc(&p->args, run.p[0]);
	return 1;
}

size_t kp_tags_data(struct kp_parser *p, kp_str run)
{
	switch (p->mode) {
	case KP_M_PARAMS:
		return params_data(p, run);
	case KP_M_KEY:
		return key_data(p, run);
	case KP_M_KEY_GUESS:
		return guess_data(p, run);
	case KP_M_TYPE:
		return key_data(p, run);
	case KP_M_VALUE_OPEN:
		if (kp_is_space(run.p[0])) {
			return 1;
		}
		kp_value_begin(p); /* its opening tag is missing */
		return 0;
	case KP_M_VALUE_AFTER:
		if (p->call_closed && !p->in_section && kp_is_space(run.p[0])) {
			kp_value_end(p); /* no other tag has to follow */
			kp_tags_end(p);
			kp_call_end(p);
			kp_calls_close(p);
			return 0;
		}
		if (!kp_is_space(run.p[0]) || p->tail.n > KP_LOOK_AHEAD) {
			revert(p);
			return 0;
		}
		kp_buf_addc(&p->tail, run.p[0]);
		return 1;
	default:
		kp_value_text(p, run);
		return run.n;
	}
}

/* --- markers ------------------------------------------------------------------------------------ */

static void key_open(struct kp_parser *p, kp_str text)
{
	kp_buf_reset(&p->tail);
	kp_buf_add(&p->tail, text);
	kp_buf_reset(&p->word);
	p->mode = KP_M_KEY;
}

/* A parameter begins inside of a value: is it one, and the value's end is missing? Only if the tool has it and it was not given yet. */
static void guess_end(struct kp_parser *p, kp_str text)
{
	bool known;
	kp_str key = kp_str_trim(kp_buf_str(&p->args));
	if (p->g->key_head == KP_HEAD_ATTRIBUTES) {
		key = kp_head_attribute(key, KP_S("name"));
	}
	kp_tool_offer_types(p->tool, key, &known);
	kp_buf_add(&p->tail, text);
	if (!known || was_given(p, key)) {
		revert(p);
		return;
	}
	KP_AUTO(buf) struct kp_buf head = p->args;
	kp_buf_init(&p->args, head.max);
	kp_value_end(p);
	kp_buf_add(&p->word, kp_buf_str(&head));
	key_end(p, text);
}

static bool value_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	switch ((int)kind) {
	case KP_K_VALUE_CLOSE:
	case KP_K_CALL_CLOSE:
		kp_buf_reset(&p->tail);
		kp_buf_add(&p->tail, text);
		p->call_closed = kind == KP_K_CALL_CLOSE;
		p->mode = KP_M_VALUE_AFTER;
		return true;
	case KP_K_KEY_OPEN:
		kp_buf_reset(&p->tail);
		kp_buf_add(&p->tail, text);
		kp_buf_reset(&p->args);
		p->mode = KP_M_KEY_GUESS;
		return true;
	default:
		kp_value_end(p);
		return false;
	}
}

static bool after_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	if (p->call_closed) {
		if (kind == KP_K_KEY_OPEN || kind == KP_K_VALUE_CLOSE || kind == KP_K_CALL_CLOSE) {
			revert(p);
			return value_mark(p, kind, text);
		}
		kp_value_end(p);
		kp_tags_end(p);
		kp_call_end(p);
		return false;
	}
	if (kind == KP_K_VALUE_CLOSE) { /* written twice, or the first one was text */
		kp_buf_add(&p->tail, text);
		return true;
	}
	if (kind == KP_K_CALL_CLOSE && p->in_section && p->g->close[0]) {
		kp_buf_add(&p->tail, text);
		p->call_closed = true;
		return true;
	}
	if (kind == KP_K_CALL_OPEN ||
		kind == KP_K_OPEN) { /* a call cannot begin inside of a call */
		revert(p);
		kp_value_text(p, text);
		return true;
	}
	kp_value_end(p);
	if (kind == KP_K_KEY_OPEN) {
		key_open(p, text);
		return true;
	}
	return false;
}

bool kp_tags_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	switch (p->mode) {
	case KP_M_VALUE:
		return value_mark(p, kind, text);
	case KP_M_VALUE_AFTER:
		return after_mark(p, kind, text);
	case KP_M_KEY_GUESS:
		if (kind == KP_K_KEY_END) {
			guess_end(p, text);
		} else {
			revert(p);
			kp_value_text(p, text);
		}
		return true;
	case KP_M_KEY:
		if (kind == KP_K_KEY_END) {
			key_end(p, text);
		} else { /* <arg_value> though </arg_key> is missing */
			key_end(p, KP_S(""));
			if (p->mode == KP_M_VALUE_OPEN) {
				kp_value_begin(p);
			}
		}
		return true;
	case KP_M_TYPE:
		type_said(p, kp_type_named(kp_str_trim(kp_buf_str(&p->word))));
		kp_buf_reset(&p->word);
		kp_buf_reset(&p->tail);
		p->mode = KP_M_VALUE_OPEN;
		if (kind == KP_K_VALUE_OPEN) {
			kp_value_begin(p);
		}
		return true;
	case KP_M_VALUE_OPEN:
		if (kind == KP_K_TYPE_OPEN) {
			kp_buf_add(&p->tail, text);
			kp_buf_reset(&p->word);
			p->mode = KP_M_TYPE;
		} else if (kind == KP_K_VALUE_OPEN) {
			kp_value_begin(p);
		}
		return true;
	default:
		if (kind == KP_K_KEY_OPEN) {
			key_open(p, text);
			return true;
		}
		return kind == KP_K_VALUE_CLOSE; /* one too many */
	}
}

void kp_tags_end(struct kp_parser *p)
{
	if (p->mode == KP_M_VALUE || p->mode == KP_M_VALUE_AFTER) {
		kp_value_end(p);
	}
	kp_object_end(p);
	p->mode = KP_M_CALLS;
}

void kp_tags_finish(struct kp_parser *p, bool truncated)
{
	if (p->mode == KP_M_VALUE_AFTER) {
		kp_value_end(p);
	} else if (p->mode == KP_M_KEY_GUESS) {
		revert(p);
	}
	if (!truncated) {
		kp_tags_end(p);
	} else if (p->mode == KP_M_VALUE && p->is_streaming) {
		p->is_streaming = false;
	}
}
