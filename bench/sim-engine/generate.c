/* DESIGN: Generate. A call waits until its time to first token has passed, then makes one token per choice and tick (or, with itl 0, whenever the last message
   has gone out), and sends at most one message at a time, as the engines' servicers send them: per choice a chunk with what was made since its last chunk,
   right after the chunk that ends it one `complete` with the ids of that chunk once more; without `stream`, one `complete` per choice at the end.

   If the client is slow, the tokens made meanwhile leave in one chunk, so nothing is queued but two counters per choice.

   A call is in one list (waiting, running or slow) until it is finished or cancelled. */
#include "protocol.h"
#include "base/clock.h"
#include "base/mem.h"

#include <unistd.h>

enum { FLUSH_EVERY = 16, MAX_OUTPUT = 1 << 20 };

struct choice {
	uint32_t made, sent, last; /* last: ids in the last chunk */
	const char *finish;        /* NULL: goes on */
	uint32_t matched;
	bool has_matched, is_model_end, is_complete;
};

struct gen {
	struct kp_sim_rpc rpc;
	struct kp_list link;
	const struct kp_sim_protocol *protocol;
	struct kp_sim_request req;
	struct kp_sim_model model;
	struct kp_sim_fault fault;
	int64_t start_ns, next_ns; /* next_ns: of a slow one */
	uint32_t n, n_complete, max_tokens, next_choice, total_sent, unflushed;
	bool is_waiting, is_hung, was_empty, is_aborted;
	struct choice choices[];
};

/* --- tokens -------------------------------------------------------------------------------------------------------- */

/* The model's own end stands at one position, if anywhere. */
static bool is_end(const struct gen *g, uint32_t position)
{
	const struct kp_sim_opts *o = g->rpc.sim->opts;
	if (o->turn_step) {
		return kp_sim_token(&g->model, 0, position) == o->eos[0];
	}
	return o->stop_after && o->n_eos && !g->req.ignore_eos &&
	       position + 1 == KP_MAX(o->stop_after, g->req.min_tokens + 1);
}

static uint32_t token_at(const struct gen *g, uint32_t choice, uint32_t position)
{
	const struct kp_sim_opts *o = g->rpc.sim->opts;
	if (g->fault.kind == KP_SIM_GARBAGE_IDS && position == g->fault.k) {
		return o->vocab + 5;
	}
	if (is_end(g, position)) {
		return o->eos[0];
	}
	uint32_t id = kp_sim_token(&g->model, choice, position);
	for (size_t i = 0; i < o->n_eos; i++) {
		if (id == o->eos[i]) { /* never by accident */
			id = (id + 1) % o->vocab;
		}
	}
	return id;
}

static void make_token(struct gen *g, uint32_t i)
{
	struct choice *c = &g->choices[i];
	const struct kp_sim_request *r = &g->req;
	if (c->finish) {
		return;
	}
	uint32_t id = token_at(g, i, c->made);
	bool ends = is_end(g, c->made);
	c->is_model_end = ends;
	c->matched = id;
	c->made++;
	g->rpc.sim->used_tokens++;
	for (size_t k = 0; k < r->n_stop_ids && c->made > r->min_tokens && !ends; k++) {
		ends = c->has_matched = r->stop_ids[k] == id;
	}
	if (g->fault.kind == KP_SIM_ERROR && c->made >= g->fault.k) {
		c->finish = "error";
	} else if (ends) {
		c->finish = "stop";
	} else if (c->made == g->max_tokens) {
		c->finish = "length";
	}
}

static void make_all(struct gen *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		make_token(g, i);
	}
}

/* --- messages ------------------------------------------------------------------------------------------------------ */

/* Of n ids from a position on, with the k likeliest of each: the chosen one, then others. */
static struct kp_sim_logprobs *make_logprobs(
	struct kp_arena *a, const struct gen *g, uint32_t *ids, uint32_t first, size_t n, int32_t k)
{
	if (k < 0 || n == 0) {
		return NULL;
	}
	struct kp_sim_logprobs *l = kp_arena_new(a, struct kp_sim_logprobs);
	*l = (struct kp_sim_logprobs){ .ids = ids, .n = n, .k = (size_t)k };
	l->values = kp_arena_xalloc(a, n * sizeof(float));
	l->top_ids = kp_arena_xalloc(a, n * l->k * sizeof(uint32_t) + 1);
	l->top_values = kp_arena_xalloc(a, n * l->k * sizeof(float) + 1);
	for (uint32_t i = 0; i < n; i++) {
		l->values[i] = kp_sim_logprob(&g->model, ids[i], first + i);
		for (uint32_t j = 0; j < l->k; j++) {
			l->top_ids[i * l->k + j] = (ids[i] + j) % g->model.vocab;
			l->top_values[i * l->k + j] = j == 0 ? l->values[i] : -4.0f - (float)j;
		}
	}
	return l;
}

static uint32_t *ids_of(
	struct kp_arena *a, const struct gen *g, uint32_t choice, uint32_t from, uint32_t to)
{
	uint32_t *ids = kp_arena_xalloc(a, (to - from) * sizeof(uint32_t) + 1);
	for (uint32_t i = from; i < to; i++) {
		ids[i - from] = token_at(g, choice, i);
	}
	return ids;
}

static struct kp_arena *message_arena(void)
{
	static struct kp_arena *a; /* reset for each message; kept, since there is one per token */
	if (!a) {
		a = kp_arena_create((size_t)1 << 30);
	}
	kp_arena_reset(a);
	return a;
}

/* The last n ids of a choice. */
static struct kp_sim_part part_of(struct gen *g, uint32_t i, uint32_t n, bool with_prompt)
{
	struct kp_arena *a = message_arena();
	const struct choice *c = &g->choices[i];
	uint32_t from = c->made - n;
	struct kp_sim_part p = { .arena = a,
		.request = &g->req,
		.choice = i,
		.made = c->made,
		.cached = g->rpc.sim->opts->cached,
		.ids = ids_of(a, g, i, from, c->made),
		.n_ids = n,
		.finish = c->finish,
		.has_matched = c->has_matched,
		.is_model_end = c->is_model_end,
		.matched = c->matched };
	p.output = make_logprobs(a, g, p.ids, from, n, g->req.logprobs);
	if (with_prompt) {
		p.prompt = make_logprobs(
			a, g, kp_unconst(g->req.ids), 0, g->req.n_ids, g->req.prompt_logprobs);
	}
	return p;
}

static grpc_byte_buffer *chunk_message(struct gen *g, uint32_t i)
{
	struct choice *c = &g->choices[i];
	uint32_t n = c->made - c->sent;
	struct kp_sim_part p = part_of(g, i, n, c->sent == 0);
	if (g->fault.kind == KP_SIM_BAD_CHOICE && c->made > g->fault.k) {
		p.choice = g->n;
	}
	c->last = n;
	c->sent = c->made;
	g->total_sent += n;
	return g->protocol->chunk(&p);
}

static grpc_byte_buffer *complete_message(struct gen *g, uint32_t i)
{
	struct choice *c = &g->choices[i];
	uint32_t n = g->req.stream ? c->last : c->made;
	struct kp_sim_part p = part_of(g, i, n, true);
	c->is_complete = true;
	g->n_complete++;
	if (!g->req.stream) {
		g->total_sent += n;
	}
	return g->protocol->complete(&p);
}

/* --- the life of a call -------------------------------------------------------------------------------------------- */

static kp_str id_of(const struct gen *g)
{
	return kp_str_c(g->req.id);
}

/* Out of its list: it makes no more tokens. */
static void retire(struct gen *g)
{
	struct kp_sim *s = g->rpc.sim;
	if (!kp_list_linked(&g->link)) {
		return;
	}
	kp_list_del(&g->link);
	if (g->is_waiting) {
		s->n_waiting--;
	} else {
		s->n_running--;
	}
	s->used_tokens -= g->req.n_ids;
	for (uint32_t i = 0; i < g->n; i++) {
		s->used_tokens -= g->choices[i].made;
	}
}

static void finish(
	struct gen *g, grpc_byte_buffer *message, grpc_status_code code, const char *text)
{
	retire(g);
	kp_sim_log(g->rpc.sim, "end", id_of(g), ",\"status\":%d,\"after\":%u", (int)code,
		g->total_sent);
	kp_sim_finish(&g->rpc, message, code, text);
}

/* True when the fault took the place of the next message. */
static bool go_wrong(struct gen *g)
{
	if (g->fault.kind == KP_SIM_NO_FAULT || (g->req.stream && g->total_sent < g->fault.k)) {
		return false;
	}
	switch (g->fault.kind) {
	case KP_SIM_HANG:
		g->is_hung = true;
		return true;
	case KP_SIM_DIE: /* a moment later, when what was sent has left the process */
		kp_sim_log(g->rpc.sim, "die", id_of(g), ",\"after\":%u", g->total_sent);
		g->rpc.sim->die_ns = kp_now_ns() + 20 * KP_NS_PER_MS;
		g->is_hung = true;
		return true;
	case KP_SIM_UNAVAILABLE:
		finish(g, NULL, GRPC_STATUS_UNAVAILABLE, "sim-engine: unavailable on demand");
		return true;
	case KP_SIM_INTERNAL:
		finish(g, NULL, GRPC_STATUS_INTERNAL, "sim-engine: internal error on demand");
		return true;
	case KP_SIM_NO_FINISH:
		finish(g, NULL, GRPC_STATUS_OK, "");
		return true;
	case KP_SIM_WRONG_PROTO:
		kp_sim_send(&g->rpc, kp_sim_bytes("\x0a\xff\xff\xff\x0f not protobuf", 18), false);
		g->is_hung = true;
		return true;
	case KP_SIM_EMPTY:
		if (g->was_empty) {
			return false;
		}
		g->was_empty = true;
		kp_sim_send(&g->rpc, kp_sim_bytes("", 0), false);
		return true;
	case KP_SIM_NO_FAULT:
	case KP_SIM_REFUSE:
	case KP_SIM_EXHAUSTED:
	case KP_SIM_INVALID:
	case KP_SIM_GARBAGE_IDS:
	case KP_SIM_BAD_CHOICE:
	case KP_SIM_EXTRA:
	case KP_SIM_ERROR:
	case KP_SIM_SLOW_DRIP:
	case KP_SIM_UNHEALTHY:
	case KP_SIM_BAD_DIGEST:
	case KP_SIM_NO_DIGEST:
		break;
	}
	return false;
}

static bool is_paced(const struct gen *g)
{
	return g->rpc.sim->control.itl_ns > 0 || g->fault.kind == KP_SIM_SLOW_DRIP;
}

/* The next message of one choice, NULL when it has nothing to say yet. */
static grpc_byte_buffer *next_message(struct gen *g, uint32_t i)
{
	struct choice *c = &g->choices[i];
	if (c->made == c->sent && !c->finish && !is_paced(g)) {
		make_token(g, i);
	}
	if (c->made > c->sent) {
		return chunk_message(g, i);
	}
	return c->finish && !c->is_complete ? complete_message(g, i) : NULL;
}

static void send(struct gen *g, grpc_byte_buffer *message)
{
	bool is_last = g->n_complete == g->n;
	if (is_last && g->fault.kind == KP_SIM_EXTRA && !g->was_empty) {
		g->was_empty = true; /* one more comes, from pump */
		kp_sim_send(&g->rpc, message, false);
	} else if (is_last) {
		finish(g, message, GRPC_STATUS_OK, "");
	} else {
		/* Unpaced, the next message follows at once; let some leave together, as they would from an engine that is faster than we are. */
		bool more = !is_paced(g) && g->fault.kind == KP_SIM_NO_FAULT && g->total_sent > 1 &&
			    ++g->unflushed % FLUSH_EVERY != 0;
		kp_sim_send(&g->rpc, message, more);
	}
}

static void pump(struct gen *g)
{
	if (g->rpc.is_sending || g->rpc.is_finished || g->rpc.is_closed || g->is_hung ||
		go_wrong(g)) {
		return;
	}
	if (g->is_aborted && g->protocol->abort_code != GRPC_STATUS_OK) {
		finish(g, NULL, g->protocol->abort_code, "Request aborted");
		return;
	}
	if (g->n_complete == g->n) { /* EXTRA */
		g->choices[0].made++;
		finish(g, chunk_message(g, 0), GRPC_STATUS_OK, "");
		return;
	}
	if (!g->req.stream) {
		for (uint32_t i = 0; i < g->n; i++) {
			while (!is_paced(g) && !g->choices[i].finish) {
				make_token(g, i);
			}
			if (!g->choices[i].finish) {
				return;
			}
		}
		send(g, complete_message(g, g->n_complete));
		return;
	}
	for (uint32_t tried = 0; tried < g->n; tried++) {
		struct choice *c = &g->choices[g->next_choice];
		grpc_byte_buffer *message = next_message(g, g->next_choice);
		if (message && c->finish && !c->is_complete) {
			send(g, message); /* its `complete` comes right after */
			return;
		}
		g->next_choice = (g->next_choice + 1) % g->n;
		if (message) {
			send(g, message);
			return;
		}
	}
}

static void on_sent(struct kp_sim_rpc *r)
{
	pump(KP_CONTAINER(r, struct gen, rpc));
}

static void on_cancelled(struct kp_sim_rpc *r)
{
	struct gen *g = KP_CONTAINER(r, struct gen, rpc);
	kp_sim_log(r->sim, "cancelled", id_of(g), ",\"after\":%u", g->total_sent);
	retire(g);
}

static void destroy(struct kp_sim_rpc *r)
{
	struct gen *g = KP_CONTAINER(r, struct gen, rpc);
	retire(g);
	g->protocol->free(g->req.message);
	kp_mem_free(g->req.media);
	kp_mem_free(g);
}

static void log_start(struct gen *g)
{
	const struct kp_sim_request *r = &g->req;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 16 << 20);
	if (g->rpc.sim->opts->log_ids && r->has_ids) {
		kp_buf_lit(&b, ",\"ids\":[");
		for (size_t i = 0; i < r->n_ids; i++) {
			kp_buf_printf(&b, "%s%u", i ? "," : "", r->ids[i]);
		}
		kp_buf_addc(&b, ']');
	}
	if (g->rpc.sim->opts->log_ids && r->sampling) {
		uint8_t *packed = kp_xmalloc(protobuf_c_message_get_packed_size(r->sampling) + 1);
		size_t n = protobuf_c_message_pack(r->sampling, packed);
		kp_buf_lit(&b, ",\"sampling\":\"");
		for (size_t i = 0; i < n; i++) {
			kp_buf_printf(&b, "%02x", packed[i]);
		}
		kp_buf_addc(&b, '"');
		kp_mem_free(packed);
	}
	const char *ids = kp_buf_cstr(&b);
	kp_sim_log(g->rpc.sim, "start", id_of(g),
		",\"protocol\":\"%s\",\"prompt_tokens\":%zu,\"max_tokens\":%u,\"n\":%u,\"stream\":%s,\"fault\":\"%s\"%s",
		g->protocol->name, r->n_ids, r->max_tokens, g->n, r->stream ? "true" : "false",
		kp_sim_fault_name(g->fault.kind), ids ? ids : "");
}

/* Refuses, or puts the call into the waiting list. */
static void admit(struct gen *g)
{
	struct kp_sim *s = g->rpc.sim;
	struct kp_err err = KP_ERR_INIT;
	if (g->fault.kind == KP_SIM_REFUSE) {
		finish(g, NULL, GRPC_STATUS_UNAVAILABLE, "sim-engine: refused on demand");
	} else if (g->fault.kind == KP_SIM_EXHAUSTED) {
		finish(g, NULL, g->protocol->full_code, g->protocol->full_text);
	} else if (g->fault.kind == KP_SIM_INVALID) {
		finish(g, NULL, GRPC_STATUS_INVALID_ARGUMENT, "sim-engine: invalid on demand");
	} else if (g->protocol->check(s->opts, &g->req, &err) < 0 ||
		   (g->req.media && kp_sim_take_media(s, &g->req, &err) < 0)) {
		finish(g, NULL, GRPC_STATUS_INVALID_ARGUMENT, err.msg);
	} else {
		const struct kp_sim_request *r = &g->req;
		uint32_t room = s->opts->max_context - (uint32_t)g->req.n_ids;
		uint32_t most = KP_MIN(room, (uint32_t)MAX_OUTPUT);
		g->max_tokens = r->has_max_tokens ? KP_MIN(r->max_tokens, most) : most;
		g->model = kp_sim_model_of(s->opts, r);
		g->start_ns = kp_now_ns() + s->control.ttft_ns;
		g->is_waiting = true;
		s->n_waiting++;
		s->used_tokens += g->req.n_ids;
		kp_list_push(&s->waiting, &g->link);
	}
}

void kp_sim_generate(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	struct kp_sim_request req = p->read(bytes);
	uint32_t n = KP_MIN(req.n, 1024u);
	struct gen *g = kp_xcalloc(1, sizeof(*g) + n * sizeof(g->choices[0]));
	g->rpc.on_sent = on_sent;
	g->rpc.on_cancelled = on_cancelled;
	g->rpc.destroy = destroy;
	g->protocol = p;
	g->req = req;
	g->n = n;
	kp_sim_rpc_init(&g->rpc, s, call, metadata);
	g->fault = kp_sim_fault_of(&s->control, &g->req, &metadata);
	log_start(g);
	if (req.message) {
		admit(g);
	} else {
		finish(g, NULL, GRPC_STATUS_INTERNAL, "Exception deserializing request!");
	}
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

static void start_due(struct kp_sim *s, int64_t now_ns)
{
	while (!kp_list_empty(&s->waiting)) {
		struct gen *g = KP_CONTAINER(s->waiting.next, struct gen, link);
		if (g->start_ns > now_ns) {
			return;
		}
		bool is_slow = g->fault.kind == KP_SIM_SLOW_DRIP;
		kp_list_del(&g->link);
		kp_list_push(is_slow ? &s->slow : &s->running, &g->link);
		g->is_waiting = false;
		g->next_ns = now_ns;
		s->n_waiting--;
		s->n_running++;
		if (!is_paced(g)) {
			pump(g);
		}
	}
}

static void tick(struct kp_sim *s, int64_t now_ns)
{
	int64_t itl = s->control.itl_ns;
	if (itl == 0 ? !s->is_ticking : now_ns < s->next_tick_ns) {
		return;
	}
	s->is_ticking = itl > 0;
	kp_list_each_safe (node, &s->running) {
		struct gen *g = KP_CONTAINER(node, struct gen, link);
		make_all(g);
		pump(g);
	}
	/* Always on the same grid; steps that were missed do not come twice as fast afterwards. */
	s->next_tick_ns += itl ? itl * ((now_ns - s->next_tick_ns) / itl + 1) : 0;
}

int64_t kp_sim_advance(struct kp_sim *s, int64_t now_ns)
{
	int64_t wake = INT64_MAX;
	if (s->die_ns && now_ns >= s->die_ns) {
		_exit(70);
	}
	wake = s->die_ns ? s->die_ns : wake;
	start_due(s, now_ns);
	tick(s, now_ns);
	kp_list_each_safe (node, &s->slow) {
		struct gen *g = KP_CONTAINER(node, struct gen, link);
		if (g->next_ns <= now_ns) {
			g->next_ns = now_ns + (int64_t)g->fault.k * KP_NS_PER_MS;
			make_all(g);
			pump(g);
		}
		wake = KP_MIN(wake, now_ns + (int64_t)KP_NS_PER_MS * 10);
	}
	if (!kp_list_empty(&s->running) && s->control.itl_ns) {
		wake = KP_MIN(wake, s->next_tick_ns);
	}
	if (!kp_list_empty(&s->waiting)) {
		wake = KP_MIN(wake, KP_CONTAINER(s->waiting.next, struct gen, link)->start_ns);
	}
	return wake;
}

/* Abort: what the choices have so far is their end, or a status is. */
static void abort_in(struct kp_list *list, kp_str request_id)
{
	kp_list_each_safe (node, list) {
		struct gen *g = KP_CONTAINER(node, struct gen, link);
		if (!kp_str_eq(id_of(g), request_id)) {
			continue;
		}
		for (uint32_t i = 0; i < g->n; i++) {
			g->choices[i].finish =
				g->choices[i].finish ? g->choices[i].finish : "abort";
		}
		g->is_aborted = true;
		pump(g);
	}
}

void kp_sim_abort_id(struct kp_sim *s, kp_str request_id)
{
	abort_in(&s->waiting, request_id);
	abort_in(&s->running, request_id);
	abort_in(&s->slow, request_id);
}
