/* DESIGN: parameters as elements that may have elements in them, each tag behind a mark that is a token of its own (MiniMax M3), to one JSON object. A stack of
   open elements, each with what its schema says. Whether an element is an object, an array or text is known from its first tag or byte, or from the schema;
   text leaves as the values of tags do (body_tags.c). In a string only the element's own end counts, any other tag is part of it. */
#include "parse/machine.h"

#include "parse/typing.h"

static struct kp_element *top(struct kp_parser *p)
{
	return p->n_elements ? &p->elements[p->n_elements - 1] : NULL;
}

static kp_str name_of(const struct kp_parser *p, size_t at)
{
	return kp_str_c(p->names.p + p->elements[at].name);
}

static const struct kp_jv *root_of(const struct kp_parser *p)
{
	return p->tool ? p->tool->parameters : NULL;
}

void kp_tree_begin(struct kp_parser *p)
{
	p->is_open = false;
	p->n_elements = 0;
	kp_buf_reset(&p->names);
	kp_buf_reset(&p->tail);
	p->mode = KP_M_TREE;
}

/* The comma, and the key where the value stands in an object. */
void kp_tree_lead(struct kp_parser *p)
{
	if (p->n_elements < 2) {
		kp_object_key(p, name_of(p, 0));
		return;
	}
	struct kp_element *in = &p->elements[p->n_elements - 2];
	kp_call_args(p, in->has_child ? KP_S(",") : KP_S(""));
	in->has_child = true;
	if (in->kind == '{') {
		KP_AUTO(buf) struct kp_buf key;
		kp_buf_init(&key, 8 * KP_LOOK_AHEAD);
		kp_typing_write_string(name_of(p, p->n_elements - 1u), &key);
		kp_buf_addc(&key, ':');
		kp_call_args(p, kp_buf_str(&key));
	}
}

/* --- elements ----------------------------------------------------------------------------------- */

static unsigned types_of(const struct kp_parser *p, const struct kp_element *e)
{
	const struct kp_jv *root = root_of(p);
	return root && e->schema ? kp_typing_of(root, e->schema) : 0;
}

/* An element begins; its kind is not known. */
static void push(struct kp_parser *p, kp_str name)
{
	const struct kp_jv *root = root_of(p), *schema = root;
	struct kp_element *in = top(p);
	if (in) {
		schema = in->kind == '[' ? kp_typing_items(root, in->schema)
					 : kp_typing_property(root, in->schema, name);
	} else {
		schema = kp_typing_property(root, root, name);
	}
	struct kp_element *e = &p->elements[p->n_elements++];
	*e = (struct kp_element){ .name = p->names.n, .schema = schema };
	kp_buf_add(&p->names, name);
	kp_buf_addc(&p->names, '\0');
	unsigned types = types_of(p, e);
	/* Where nothing is known, words that can only be JSON's are that; a number may be a string's. */
	p->types = types ? types : KP_TYPE_STRING | KP_TYPE_BOOLEAN | KP_TYPE_NULL;
	p->is_streaming = false;
	p->skip_lines = 0;
	kp_buf_reset(&p->word);
}

/* It has elements. */
static void contain(struct kp_parser *p, struct kp_element *e, char kind)
{
	p->n_dropped += kp_str_trim(kp_buf_str(&p->word)).n;
	kp_buf_reset(&p->word);
	kp_tree_lead(p);
	e->kind = (uint8_t)kind;
	kp_call_args(p, kind == '[' ? KP_S("[") : KP_S("{"));
}

static bool is_container(unsigned types)
{
	return types && !(types & ~(unsigned)(KP_TYPE_ARRAY | KP_TYPE_OBJECT | KP_TYPE_NULL));
}

/* The innermost element ends. */
static void pop(struct kp_parser *p, struct kp_element *e)
{
	bool blank = kp_str_trim(kp_buf_str(&p->word)).n == 0 && !p->is_streaming;
	if (!e->kind && blank && is_container(p->types)) {
		contain(p, e, p->types & KP_TYPE_ARRAY ? '[' : '{');
	}
	if (e->kind) {
		kp_call_args(p, e->kind == '[' ? KP_S("]") : KP_S("}"));
	} else {
		kp_value_end(p);
	}
	p->names.n = e->name;
	p->n_elements--;
	p->mode = KP_M_TREE;
}

void kp_tree_end(struct kp_parser *p)
{
	if (p->mode == KP_M_ELEMENT) {
		p->n_dropped += p->tail.n;
		kp_buf_reset(&p->tail);
	}
	for (struct kp_element *e; (e = top(p));) {
		pop(p, e);
	}
	kp_object_end(p);
}

/* --- tags --------------------------------------------------------------------------------------- */

/* The tag is no tag of the markup. */
static void as_text(struct kp_parser *p)
{
	KP_AUTO(buf) struct kp_buf tail = p->tail;
	kp_buf_init(&p->tail, tail.max);
	const struct kp_element *in = top(p);
	if (in && !in->kind) {
		p->mode = KP_M_LEAF;
		kp_value_text(p, kp_buf_str(&tail));
	} else {
		p->mode = KP_M_TREE;
		p->n_dropped += tail.n;
	}
}

static void open_element(struct kp_parser *p, kp_str name)
{
	struct kp_element *in = top(p);
	unsigned known = in ? types_of(p, in) : 0;
	bool string = known && !(known & (KP_TYPE_ARRAY | KP_TYPE_OBJECT));
	bool begun =
		in && !in->kind && (p->is_streaming || kp_str_trim(kp_buf_str(&p->word)).n > 0);
	if (p->n_elements == KP_TREE_DEPTH || string || begun) {
		as_text(p);
		return;
	}
	if (in && !in->kind) {
		bool array = known & KP_TYPE_ARRAY &&
			     (!(known & KP_TYPE_OBJECT) || kp_str_eq(name, KP_S("item")));
		bool object = known & KP_TYPE_OBJECT;
		contain(p, in, array || (!object && kp_str_eq(name, KP_S("item"))) ? '[' : '{');
	}
	push(p, name);
	kp_buf_reset(&p->tail);
	p->mode = KP_M_LEAF;
}

/* What it closes may be further out: ends that are missing. */
static void close_element(struct kp_parser *p, kp_str name)
{
	size_t at = p->n_elements;
	const struct kp_element *in = top(p);
	bool text = in && !in->kind;
	while (at && !kp_str_eq(name_of(p, at - 1), name)) {
		at--;
	}
	bool invoke = kp_str_eq(name, KP_S("invoke"));
	if (at == 0 && invoke && !text) {
		kp_buf_reset(&p->tail);
		p->mode = KP_M_TREE;
		kp_calls_mark(p, KP_K_CALL_CLOSE, KP_S("</invoke>"));
		return;
	}
	if (at == 0 || (text && at < p->n_elements)) {
		as_text(p);
		return;
	}
	kp_buf_reset(&p->tail);
	for (struct kp_element *e; p->n_elements >= at && (e = top(p));) {
		pop(p, e);
	}
}

static size_t tag_data(struct kp_parser *p, char c)
{
	size_t mark = strlen(p->g->element);
	kp_str inside = kp_str_trim(kp_str_skip(kp_buf_str(&p->tail), mark));
	bool is_first = inside.n == 0;
	bool wrong = is_first ? !kp_is_space(c) && c != '<' : c == '<' || (unsigned char)c < ' ';
	if (wrong || p->tail.n > KP_LOOK_AHEAD) {
		as_text(p);
		return 0;
	}
	if (c != '>' || is_first) {
		kp_buf_addc(&p->tail, c);
		return 1;
	}
	char name[KP_LOOK_AHEAD];
	kp_str tag = kp_str_trim(kp_str_skip(inside, 1));
	bool closes = tag.n && tag.p[0] == '/';
	tag = kp_str_trim(kp_str_skip(tag, closes));
	size_t n = KP_MIN(tag.n, sizeof(name));
	memcpy(name, tag.p, n);
	kp_buf_addc(&p->tail, c);
	if (n == 0 || memchr(name, '\0', n)) {
		as_text(p);
	} else if (closes) {
		close_element(p, kp_str_n(name, n));
	} else {
		open_element(p, kp_str_n(name, n));
	}
	return 1;
}

size_t kp_tree_data(struct kp_parser *p, kp_str run)
{
	if (p->mode == KP_M_ELEMENT) {
		return tag_data(p, run.p[0]);
	}
	if (p->mode == KP_M_LEAF) {
		kp_value_text(p, run);
		return run.n;
	}
	for (size_t i = 0; i < run.n; i++) {
		p->n_dropped += kp_is_space(run.p[i]) ? 0 : 1;
	}
	return run.n;
}

bool kp_tree_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	if (kind == KP_K_ELEMENT) {
		if (p->mode == KP_M_ELEMENT) { /* the one before was none */
			as_text(p);
		}
		kp_buf_reset(&p->tail);
		kp_buf_add(&p->tail, text);
		p->mode = KP_M_ELEMENT;
		return true;
	}
	/* A parameter may have the call's name. */
	struct kp_element *in = top(p);
	if (kind == KP_K_CALL_CLOSE && in &&
		kp_str_eq(name_of(p, p->n_elements - 1u), KP_S("invoke"))) {
		pop(p, in);
		return true;
	}
	return false;
}
