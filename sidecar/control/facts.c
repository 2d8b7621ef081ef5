/* DESIGN: one allocation, the strings behind the struct. */
#include "sidecar/control/facts.h"

#include "base/mem.h"

static kp_str keep(char **at, kp_str s)
{
	kp_str copy = { *at, s.n };
	memcpy(*at, s.n ? s.p : "", s.n);
	*at += s.n;
	return copy;
}

struct kp_endpoint_facts *kp_endpoint_facts_create(
	const struct kp_engine_info *info, const char *why, bool has_own_tokenizer)
{
	static const struct kp_engine_info none;
	const struct kp_engine_info *i = info ? info : &none;
	size_t n = i->model.n + i->served_name.n + i->model_type.n + i->architecture.n +
		   i->version.n + i->shm.n + strlen(why);
	struct kp_endpoint_facts *f = kp_xmalloc(sizeof(*f) + n);
	char *at = f->text;
	*f = (struct kp_endpoint_facts){ .info = *i, .has_own_tokenizer = has_own_tokenizer };
	f->info.model = keep(&at, i->model);
	f->info.served_name = keep(&at, i->served_name);
	f->info.model_type = keep(&at, i->model_type);
	f->info.architecture = keep(&at, i->architecture);
	f->info.version = keep(&at, i->version);
	f->info.shm = keep(&at, i->shm);
	f->why = keep(&at, kp_str_c(why));
	return f;
}

void kp_endpoint_facts_destroy(struct kp_endpoint_facts *f)
{
	kp_mem_free(f);
}
