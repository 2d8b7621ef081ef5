/* The parsers, for the oracle tests. One JSON object a line on stdin: {"choose": SOURCE of a chat template} is answered by the names of the parsers that a model with it
   gets; anything else is a request as POST /parse takes it. */
#include "base/rand.h"
#include "json/write.h"
#include "prompt/parse_ask.h"
#include "template/template.h"

#include <stdio.h>
#include <stdlib.h>

static int no_model(void *ctx, kp_str name, struct kp_text_stack **ret, struct kp_err *err)
{
	(void)ctx;
	(void)name;
	(void)err;
	*ret = NULL;
	return 0;
}

static void put_name(struct kp_buf *out, const char *name)
{
	if (name) {
		kp_json_w_str(out, kp_str_c(name));
	} else {
		kp_buf_lit(out, "null");
	}
}

static int choose(kp_str source, struct kp_buf *out, struct kp_err *err)
{
	KP_AUTO(template) struct kp_template *t = NULL;
	struct kp_parsers p;
	if (kp_template_compile(source, &t, err)) {
		return -1;
	}
	kp_parsers_choose(&p, NULL, t);
	kp_buf_lit(out, "{\"tools\":");
	put_name(out, p.tools ? p.tools->name : NULL);
	kp_buf_lit(out, ",\"thinking\":");
	put_name(out, p.thinking ? p.thinking->name : NULL);
	kp_buf_addc(out, '}');
	return 0;
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct kp_rng rng;
	struct kp_buf out;
	kp_rng_seed(&rng, 1);
	kp_buf_init(&out, 1 << 30);
	const struct kp_parse_ask ask = { .model = no_model, .rng = &rng };
	while ((n = getline(&line, &cap, stdin)) > 0) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 28);
		kp_str text = kp_str_n(line, (size_t)n);
		struct kp_err err;
		struct kp_jv v;
		const struct kp_jv *source = NULL;
		int r = kp_jv_parse(text, a, &v, &err);
		source = r ? NULL : kp_jv_get(&v, KP_S("choose"));
		if (r || (source ? choose(source->s, &out, &err)
				 : kp_parse_answer(&ask, text, &out, &err))) {
			kp_buf_reset(&out);
			kp_json_w_err(&out, &err);
		}
		kp_buf_addc(&out, '\n');
		fwrite(out.p, 1, out.n, stdout);
		fflush(stdout);
		kp_buf_reset(&out);
	}
	free(line);
	kp_buf_fini(&out);
	return 0;
}
