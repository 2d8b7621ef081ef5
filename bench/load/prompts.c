/* DESIGN: requests are made before they are needed only by the one that sends them. Short prompts are a fixed set, so that two gateways get the same ones and a
   gateway that remembers prompts may do so; long ones are new each time, with many digits, the worst case of a tokenizer that remembers words. */
#include "load.h"
#include "base/fs.h"
#include "json/write.h"

static const char *const topics[] = {
	"Explain to a colleague in two paragraphs why a read-write lock can be slower than a plain mutex, with one example.",
	"Write a short and friendly reply to a customer whose parcel arrived two days late and who asks for a refund of the shipping.",
	"List the steps to bake a simple rye bread at home, with times and temperatures, for someone who has never baked.",
	"What is the difference between weather and climate? Answer so that a twelve-year-old understands it.",
	"Summarize the plot of a detective story in which the gardener is innocent. Do not name the culprit.",
	"Here is a function in C that reverses a list in place. Explain each line, then say what happens for an empty list.",
	"Translate the sentence \"The early bird catches the worm, but the second mouse gets the cheese\" into German and French.",
	"Plan a weekend in a small town by the sea for two adults and a child of five. It may rain on Sunday.",
	"Compare the memory use of a hash table with open addressing and one with chaining for one million 64-bit keys.",
	"Name three risks of running a database on a network file system and how each can be noticed early.",
	"Give me a checklist for the release of a small command-line tool: version, notes, tests, packages, announcement.",
	"Why does ice float on water, and what would a lake look like in winter if it did not?",
	"Rewrite this in plain English: \"Pursuant to the aforementioned provisions, remuneration shall be effected forthwith.\"",
	"A train leaves at 9:40 and arrives at 13:05 with a stop of 12 minutes. How long was it moving?",
	"Suggest names for a cat that likes to sit on keyboards, each with one line of reasons.",
	"What should a gateway in front of a language model do when a client disconnects in the middle of an answer?",
};

static const char *const words[] = { "order", "total", "from", "invoice", "sensor", "value", "at",
	"and", "the", "node", "reports", "error", "code", "in", "row", "page", "latency", "of",
	"batch", "offset", "memory", "address", "serial", "with", "temperature", "account",
	"balance", "reference", "number", "to" };

int kp_load_prompts_init(
	struct kp_load_prompts *p, const struct kp_load_opts *o, struct kp_err *err)
{
	kp_str rest, line;
	*p = (struct kp_load_prompts){ .opts = o };
	kp_rng_seed(&p->rng, o->seed);
	kp_buf_init(&p->file, 256 << 20);
	if (o->prompt != KP_LOAD_FILE) {
		return 0;
	}
	if (kp_fs_read(o->prompt_file, &p->file, err) < 0) {
		return -1;
	}
	for (rest = kp_buf_str(&p->file); kp_str_split(&rest, '\n', &line);) {
		if (line.n) {
			kp_vec_push(&p->lines, line);
		}
	}
	return p->lines.n ? 0
			  : kp_err_set(err, KP_INVALID_ARGUMENT, "read prompts `%s`: no lines",
				    o->prompt_file);
}

void kp_load_prompts_fini(struct kp_load_prompts *p)
{
	kp_buf_fini(&p->file);
	kp_vec_fini(&p->lines);
}

/* 3,000 words are about 21 KB: half of them numbers of four to nine digits, some with a point. */
static void add_long(struct kp_load_prompts *p, struct kp_buf *b)
{
	for (uint32_t i = 0; i < p->opts->words; i++) {
		uint64_t r = kp_rng_next(&p->rng);
		if (i) {
			kp_buf_addc(b, ' ');
		}
		if (r % 2) {
			kp_buf_addz(b, words[(r >> 8) % KP_LEN(words)]);
		} else if (r % 8 == 0) {
			kp_buf_printf(b, "%u.%02u", (unsigned)(r >> 20) % 1000000,
				(unsigned)(r >> 52) % 100);
		} else {
			kp_buf_u64(b, 1000 + (r >> 20) % 99999000);
		}
	}
}

static void add_prompt(struct kp_load_prompts *p, struct kp_buf *b)
{
	const struct kp_load_opts *o = p->opts;
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 64 << 20);
	if (o->prompt == KP_LOAD_LONG) {
		add_long(p, &text);
	} else if (o->prompt == KP_LOAD_FILE) {
		kp_buf_add(&text, p->lines.p[p->made % p->lines.n]);
	} else {
		kp_buf_addz(&text, topics[p->made % KP_LEN(topics)]);
	}
	if (o->unique) {
		kp_buf_printf(&text, " (%llx)", (unsigned long long)kp_rng_next(&p->rng));
	}
	kp_json_w_str(b, kp_buf_str(&text));
	p->made++;
}

void kp_load_request(struct kp_load_prompts *p, struct kp_buf *out)
{
	const struct kp_load_opts *o = p->opts;
	KP_AUTO(buf) struct kp_buf body;
	kp_buf_init(&body, 256 << 20);
	kp_buf_lit(&body, "{\"model\":");
	kp_json_w_str(&body, kp_str_c(o->model));
	if (o->completions) {
		kp_buf_lit(&body, ",\"prompt\":");
		add_prompt(p, &body);
	} else {
		kp_buf_lit(&body, ",\"messages\":[{\"role\":\"user\",\"content\":");
		add_prompt(p, &body);
		kp_buf_lit(&body, "}]");
	}
	kp_buf_printf(&body,
		",\"max_tokens\":%u,\"temperature\":0.0,\"ignore_eos\":true,\"stream\":%s",
		o->max_tokens, o->stream ? "true" : "false");
	if (o->stream && o->usage) {
		kp_buf_lit(&body, ",\"stream_options\":{\"include_usage\":true}");
	}
	kp_buf_addc(&body, '}');
	kp_buf_printf(out,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: text/event-stream, application/json\r\n",
		o->completions ? "/v1/completions" : "/v1/chat/completions", o->address);
	if (o->api_key) {
		kp_buf_printf(out, "Authorization: Bearer %s\r\n", o->api_key);
	}
	kp_buf_printf(out, "Content-Length: %zu\r\n\r\n", body.n);
	kp_buf_add(out, kp_buf_str(&body));
}
