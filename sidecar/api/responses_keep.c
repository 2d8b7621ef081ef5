/* DESIGN: a response as it is kept, and back. Items are kept as they were said; of those that the client wrote the short forms are written out and each has an id,
   since that is what `input_items` answers. Reading them again is a part of reading the request that refers to them. */
#include "sidecar/api/responses.h"

#include "json/write.h"
#include "prompt/make.h"
#include "prompt/messages.h"

enum { MAX_REFERENCES = 256 };

/* --- writing ------------------------------------------------------------------------------------- */

static void put_member(struct kp_buf *out, kp_str key, const struct kp_jv *v)
{
	kp_buf_addz(out, out->n && out->p[out->n - 1] != '{' ? "," : "");
	kp_json_w_str(out, key);
	kp_buf_addc(out, ':');
	kp_jv_write(v, out);
}

/* A string as the one part that it is. */
static void put_content(struct kp_buf *out, const struct kp_jv *item, const struct kp_jv *content)
{
	bool is_assistant = kp_str_eq(kp_jv_str(item, KP_S("role")), KP_S("assistant"));
	kp_buf_addz(out, ",\"content\":[{\"type\":");
	kp_buf_addz(out, is_assistant ? "\"output_text\",\"annotations\":[]" : "\"input_text\"");
	kp_buf_lit(out, ",\"text\":");
	kp_json_w_str(out, content->s);
	kp_buf_lit(out, "}]");
}

static void put_item(struct kp_buf *out, const struct kp_jv *item, kp_str id)
{
	const struct kp_jv id_value = kp_made_text(id), type = kp_made_text(KP_S("message"));
	bool has_type = kp_is_given(kp_jv_get(item, KP_S("type")));
	kp_buf_addc(out, '{');
	put_member(out, KP_S("id"), &id_value);
	if (!has_type) {
		put_member(out, KP_S("type"), &type);
	}
	for (uint32_t i = 0; i < item->n; i++) {
		const struct kp_jmember *m = &item->members[i];
		bool is_short =
			kp_str_eq(m->key, KP_S("content")) && m->value.type == KP_JSON_STRING;
		if (kp_str_eq(m->key, KP_S("id")) ||
			(kp_str_eq(m->key, KP_S("type")) && !has_type)) {
			continue;
		}
		if (is_short) {
			put_content(out, item, &m->value);
		} else {
			put_member(out, m->key, &m->value);
		}
	}
	kp_buf_addc(out, '}');
}

/* The client's own id where it is short enough, else one of ours. */
static kp_str input_id(struct kp_response *r, const struct kp_jv *item, size_t i)
{
	kp_str id = kp_jv_str(item, KP_S("id")), type = kp_jv_str(item, KP_S("type"));
	if (id.n && id.n <= KP_HISTORY_MAX_ID) {
		return id;
	}
	kp_str own = kp_str_skip(r->turn->id, sizeof("resp_") - 1);
	return kp_arena_printf(r->turn->arena, "%s_%" KP_FMT "i%04zu",
		kp_str_starts(type, KP_S("function_call")) ? "fc" : "msg", KP_ARG(own), i);
}

static const struct kp_jv *array_of(const struct kp_jv *document, const char *member)
{
	static const struct kp_jv none = { .type = KP_JSON_ARRAY };
	const struct kp_jv *v = kp_jv_get(document, kp_str_c(member));
	return kp_jv_is(v, KP_JSON_ARRAY) ? v : &none;
}

int kp_response_document(struct kp_response *r, struct kp_err *err)
{
	struct kp_buf *out = &r->document;
	size_t first = r->first_input, n = r->n_input;
	r->item_ids = kp_arena_calloc(r->turn->arena, n + r->n_items + 1, sizeof(*r->item_ids));
	if (!r->item_ids) {
		return kp_arena_full(err, "items");
	}
	kp_buf_init(out, KP_HISTORY_MAX_RECORD);
	kp_buf_lit(out, "{\"input\":[");
	for (size_t i = 0; i < n; i++) {
		const struct kp_jv *item = r->entries[first + i].item;
		kp_buf_addz(out, i ? "," : "");
		r->item_ids[r->n_item_ids] = input_id(r, item, i);
		put_item(out, item, r->item_ids[r->n_item_ids++]);
	}
	kp_buf_lit(out, "],\"rounds\":[0");
	for (uint32_t i = 0; i < r->n_items; i++) {
		r->item_ids[r->n_item_ids++] = r->items[i]->id;
		if (i && r->items[i]->round != r->items[i - 1]->round) {
			kp_buf_printf(out, ",%u", i);
		}
	}
	kp_buf_lit(out, "],\"response\":");
	kp_response_write(r, kp_response_status(r), NULL, out);
	kp_buf_addc(out, '}');
	if (kp_buf_finish(out, "response to keep", err)) {
		err->reason = "response_too_large";
		return -1;
	}
	return 0;
}

/* --- loading ------------------------------------------------------------------------------------- */

static bool is_reference(const struct kp_jv *item)
{
	const struct kp_jv *type = kp_jv_get(item, KP_S("type"));
	if (kp_is_given(type)) {
		return kp_str_eq(kp_jv_str(item, KP_S("type")), KP_S("item_reference"));
	}
	return kp_is_given(kp_jv_get(item, KP_S("id"))) &&
	       !kp_is_given(kp_jv_get(item, KP_S("role")));
}

bool kp_response_refers(const struct kp_response *r)
{
	const struct kp_jv *in = &r->ask.input;
	for (uint32_t i = 0; in->type == KP_JSON_ARRAY && i < in->n; i++) {
		if (is_reference(&in->items[i])) {
			return true;
		}
	}
	return r->ask.previous_id.p != NULL;
}

static int load_references(
	struct kp_response *r, struct kp_history *h, kp_str tenant, struct kp_err *err)
{
	const struct kp_jv *in = &r->ask.input;
	struct kp_arena *a = r->turn->arena;
	uint32_t n = 0;
	if (in->type != KP_JSON_ARRAY) {
		return 0;
	}
	r->references = kp_arena_calloc(a, in->n + 1, sizeof(*r->references));
	if (!r->references) {
		return kp_arena_full(err, "references");
	}
	for (uint32_t i = 0; i < in->n; i++) {
		kp_str id = kp_jv_str(&in->items[i], KP_S("id"));
		if (!is_reference(&in->items[i]) || !id.n || id.n > KP_HISTORY_MAX_ID) {
			continue;
		}
		if (++n > MAX_REFERENCES) {
			return kp_err_param(err, "input", "`input`: at most %d items by reference",
				MAX_REFERENCES);
		}
		if (h->ops->item(h, tenant, id, a, &r->references[i], err) < 0) {
			return -1;
		}
	}
	return 0;
}

int kp_response_load(struct kp_response *r, struct kp_history *h, struct kp_err *err)
{
	kp_str tenant = r->turn->tenant;
	if (r->ask.previous_id.p && kp_history_chain(h, tenant, r->ask.previous_id, r->turn->arena,
					    &r->records, &r->n_records, err)) {
		if (err->code == KP_NOT_FOUND) {
			err->reason = "previous_response_not_found";
			memcpy(err->param, "previous_response_id", sizeof("previous_response_id"));
		}
		return -1;
	}
	return load_references(r, h, tenant, err);
}

size_t kp_response_loaded(const struct kp_response *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n_records; i++) {
		n += r->records[i].body.n;
	}
	for (uint32_t i = 0; r->references && i < r->ask.input.n; i++) {
		n += r->references[i].body.n;
	}
	return n;
}

/* --- entries ------------------------------------------------------------------------------------- */

struct gather {
	struct kp_response *r;
	struct kp_responses_entry *entries;
	size_t n, cap;
	uint32_t n_kept;
	struct kp_err *err;
};

static int add(struct gather *g, const struct kp_responses_entry *e)
{
	if (g->n == KP_RESPONSES_MAX_ITEMS) {
		return kp_err_param(g->err, "input",
			"`input`: a conversation of more than %d items", KP_RESPONSES_MAX_ITEMS);
	}
	if (g->n == g->cap) {
		size_t cap = g->cap ? g->cap * 2 : 64;
		struct kp_responses_entry *more = kp_arena_grow(
			g->r->turn->arena, g->entries, g->cap * sizeof(*more), cap * sizeof(*more));
		if (!more) {
			return kp_arena_full(g->err, "input");
		}
		g->entries = more;
		g->cap = cap;
	}
	g->entries[g->n++] = *e;
	return 0;
}

static bool begins_round(const struct kp_jv *rounds, uint32_t i)
{
	uint64_t at;
	for (uint32_t k = 0; k < rounds->n; k++) {
		if (rounds->items[k].type == KP_JSON_NUMBER &&
			kp_str_u64(rounds->items[k].s, UINT32_MAX, &at) && at == i) {
			return true;
		}
	}
	return false;
}

static int read_document(
	struct gather *g, const struct kp_history_record *record, struct kp_jv *ret)
{
	if (kp_jv_parse(record->body, g->r->turn->arena, ret, g->err)) {
		g->err->code = g->err->code == KP_INVALID_ARGUMENT ? KP_DATA_LOSS : g->err->code;
		return kp_err_wrap(g->err, "kept response `%" KP_FMT "`", KP_ARG(record->id));
	}
	return 0;
}

static int add_record(struct gather *g, const struct kp_history_record *record)
{
	struct kp_jv document;
	if (read_document(g, record, &document)) {
		return -1;
	}
	const struct kp_jv *input = array_of(&document, "input"),
			   *rounds = array_of(&document, "rounds"),
			   *output = array_of(kp_jv_get(&document, KP_S("response")), "output");
	for (uint32_t i = 0; i < input->n; i++) {
		const struct kp_responses_entry e = {
			.item = &input->items[i], .index = g->n_kept++, .is_kept = true
		};
		if (add(g, &e)) {
			return -1;
		}
	}
	for (uint32_t i = 0; i < output->n; i++) {
		const struct kp_responses_entry e = { .item = &output->items[i],
			.index = g->n_kept++,
			.is_kept = true,
			.begins = begins_round(rounds, i) };
		if (add(g, &e)) {
			return -1;
		}
	}
	return 0;
}

/* The item that a reference means; itself when there is none. */
static int resolve(struct gather *g, const struct kp_history_record *record,
	const struct kp_jv *reference, const struct kp_jv **ret)
{
	kp_str id = kp_jv_str(reference, KP_S("id"));
	struct kp_jv document;
	if (!record->body.p) {
		return 0;
	}
	if (read_document(g, record, &document)) {
		return -1;
	}
	const struct kp_jv *lists[] = { array_of(&document, "input"),
		array_of(kp_jv_get(&document, KP_S("response")), "output") };
	for (size_t k = 0; k < KP_LEN(lists); k++) {
		for (uint32_t i = 0; i < lists[k]->n; i++) {
			if (kp_str_eq(kp_jv_str(&lists[k]->items[i], KP_S("id")), id)) {
				*ret = &lists[k]->items[i];
			}
		}
	}
	return 0;
}

/* What a user says. */
static const struct kp_jv *said(struct kp_arena *a, const struct kp_jv *text)
{
	struct kp_jmember *m = kp_arena_xalloc(a, 2 * sizeof(*m));
	struct kp_jv *item = kp_arena_new(a, struct kp_jv);
	m[0] = (struct kp_jmember){ KP_S("role"), kp_made_text(KP_S("user")) };
	m[1] = (struct kp_jmember){ KP_S("content"), *text };
	*item = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = 2, .members = m };
	return item;
}

int kp_response_gather(struct kp_response *r, struct kp_err *err)
{
	struct gather g = { .r = r, .err = err };
	const struct kp_jv *in = &r->ask.input;
	for (size_t i = 0; i < r->n_records; i++) {
		if (add_record(&g, &r->records[i])) {
			return -1;
		}
	}
	r->first_input = g.n;
	if (in->type == KP_JSON_STRING &&
		add(&g, &(struct kp_responses_entry){ .item = said(r->turn->arena, in) })) {
		return -1;
	}
	for (uint32_t i = 0; in->type == KP_JSON_ARRAY && i < in->n; i++) {
		struct kp_responses_entry e = { .item = &in->items[i], .index = i };
		if ((r->references && resolve(&g, &r->references[i], e.item, &e.item)) ||
			add(&g, &e)) {
			return -1;
		}
	}
	r->n_input = g.n - r->first_input;
	r->entries = g.entries;
	r->n_entries = g.n;
	return 0;
}

/* The item as it is shown, read again. */
static const struct kp_jv *item_value(
	const struct kp_response *r, const struct kp_item *it, struct kp_err *err)
{
	struct kp_arena *a = r->turn->arena;
	struct kp_jv *v = kp_arena_new(a, struct kp_jv);
	kp_str text;
	KP_AUTO(buf) struct kp_buf json;
	kp_buf_init(&json, KP_RESPONSE_MAX_BYTES);
	kp_item_write(r, it, false, &json);
	return kp_buf_finish(&json, "item", err) ||
			       kp_arena_dup(a, kp_buf_str(&json), &text, err) ||
			       kp_jv_parse(text, a, v, err)
		       ? NULL
		       : v;
}

int kp_response_enter(struct kp_response *r, struct kp_err *err)
{
	size_t n = r->n_items - r->n_entered;
	struct kp_responses_entry *all =
		kp_arena_calloc(r->turn->arena, r->n_entries + n + 1, sizeof(*all));
	if (!all) {
		return kp_arena_full(err, "items");
	}
	if (r->n_entries) {
		memcpy(all, r->entries, r->n_entries * sizeof(*all));
	}
	r->entries = all;
	for (; r->n_entered < r->n_items; r->n_entered++) {
		const struct kp_item *it = r->items[r->n_entered];
		const struct kp_item *before = r->n_entered ? r->items[r->n_entered - 1] : NULL;
		struct kp_responses_entry *e = &all[r->n_entries++];
		*e = (struct kp_responses_entry){ .index = r->n_entered,
			.is_kept = true,
			.begins = !before || before->round != it->round };
		if (!(e->item = item_value(r, it, err))) {
			return -1;
		}
	}
	return 0;
}
