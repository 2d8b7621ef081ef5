/* DESIGN: the engine must not be told to end before its requests have. Its preStop asks the gateway's /drained, which answers when nothing is in flight
   or the budget is spent. A hook of the user's that only sleeps means the same and becomes the least that /drained waits; any other hook is
   kept, since nothing can be put around a program that is not known, and the pod's author is told what that costs.

   In mode Node the gateway is not the pod's: its node's is asked, by the address of a Service that leads to the gateway of the node that asks (kubelet
   does), and by a key, since neither the pod's name nor its address is known when it is injected. Where there is none, the hook sleeps. */
#include "inject/internal.h"

#include <stdio.h>

enum { MAX_SLEEP = 86400 };
#define DRAINED "/drained"

/* "sleep", "/bin/sleep", "/usr/bin/sleep" */
static bool is_program(kp_str s, kp_str name)
{
	ptrdiff_t slash = kp_str_rfind_char(s, '/');
	return kp_str_eq(kp_str_skip(s, (size_t)(slash + 1)), name);
}

static kp_str word(const json_t *command, size_t i)
{
	const json_t *v = json_array_get(command, i);
	return json_is_string(v) ? kp_str_n(json_string_value(v), json_string_length(v))
				 : KP_STR_NULL;
}

static bool read_seconds(kp_str s, int64_t *ret)
{
	return kp_str_i64(s, 0, MAX_SLEEP, ret);
}

/* [sleep, N] or [sh, -c, "sleep N"], and nothing else. */
static bool is_sleep_command(const json_t *command, int64_t *ret)
{
	size_t n = json_array_size(command);
	if (n == 2 && is_program(word(command, 0), KP_S("sleep"))) {
		return read_seconds(word(command, 1), ret);
	}
	bool is_shell = n == 3 &&
			(is_program(word(command, 0), KP_S("sh")) ||
				is_program(word(command, 0), KP_S("bash"))) &&
			kp_str_eq(word(command, 1), KP_S("-c"));
	kp_str line = is_shell ? kp_str_trim(word(command, 2)) : KP_STR_NULL;
	kp_str program;
	return is_shell && kp_str_split(&line, ' ', &program) &&
	       is_program(program, KP_S("sleep")) && line.p && read_seconds(kp_str_trim(line), ret);
}

/* Ours of before: "/drained", "/drained?min=N", "/drained?pod=KEY&budget=N", the same with "&min=N" behind it. */
static bool is_ours(const json_t *hook, int64_t *ret)
{
	kp_str path = kp_doc_str(json_object_get(hook, "httpGet"), "path"), word, key;
	*ret = 0;
	if (!kp_str_split(&path, '?', &word) || !kp_str_eq(word, KP_S(DRAINED))) {
		return false;
	}
	while (path.n) {
		int64_t seconds;
		kp_str_split(&path, '&', &word);
		kp_str_split(&word, '=', &key);
		bool is_min = kp_str_eq(key, KP_S("min"));
		if (is_min || kp_str_eq(key, KP_S("budget")) ? !read_seconds(word, &seconds)
							     : !kp_str_eq(key, KP_S("pod"))) {
			return false;
		}
		*ret = is_min ? seconds : *ret;
	}
	return true;
}

/* What only waits: *ret is for how many seconds at least. */
static bool is_wait(const json_t *hook, const struct kp_inject_wishes *w, int64_t *ret)
{
	const json_t *sleep = kp_doc_at(hook, "sleep.seconds");
	if (json_is_integer(sleep) && json_integer_value(sleep) >= 0 &&
		json_integer_value(sleep) <= MAX_SLEEP) {
		bool is_made = w->is_node && w->is_again &&
			       json_integer_value(sleep) == (json_int_t)w->drain_s;
		*ret = is_made ? 0 : json_integer_value(sleep);
		return true;
	}
	return is_ours(hook, ret) || is_sleep_command(kp_doc_at(hook, "exec.command"), ret);
}

static json_t *make(const struct kp_inject_wishes *w, int64_t least, struct kp_arena *a)
{
	char path[48] = DRAINED;
	if (kp_inject_asks_node(w)) {
		kp_str min = least ? kp_arena_printf(a, "&min=%lld", (long long)least) : KP_S("");
		kp_str asked = kp_arena_printf(a, DRAINED "?pod=%" KP_FMT "&budget=%d%" KP_FMT,
			KP_ARG(w->key), (int)w->drain_s, KP_ARG(min));
		return json_pack("{s:{s:s#, s:s#, s:i}}", "httpGet", "host", w->node_gateway.p,
			(int)w->node_gateway.n, "path", asked.p, (int)asked.n, "port",
			KP_INJECT_PROBE_PORT);
	}
	if (w->is_node) {
		return json_pack("{s:{s:I}}", "sleep", "seconds",
			(json_int_t)KP_MAX(least, (int64_t)w->drain_s));
	}
	if (least) {
		snprintf(path, sizeof(path), DRAINED "?min=%lld", (long long)least);
	}
	return json_pack("{s:{s:s, s:i}}", "httpGet", "path", path, "port", (int)w->probe_port);
}

int64_t kp_inject_hook(json_t *container, const struct kp_inject_wishes *w,
	const struct kp_inject_settings *settings, struct kp_arena *a,
	struct kp_inject_notes *notes)
{
	enum { SLEEP_ACTION_SINCE = 30 };
	const json_t *had = kp_doc_at(container, "lifecycle.preStop");
	int64_t least = 0;
	if (json_object_size(had) && !is_wait(had, w, &least)) {
		kp_inject_note(notes, a,
			"container `%.63s` has a preStop of its own, which is kept: it must itself wait until requests have ended (DrainHookSkipped)",
			json_string_value(json_object_get(container, "name")));
		return 0;
	}
	if (w->is_node && !kp_inject_asks_node(w) && settings->kubernetes_minor &&
		settings->kubernetes_minor < SLEEP_ACTION_SINCE) {
		kp_inject_note(notes, a,
			"preStop that sleeps needs Kubernetes 1.30: requests may be cut when the pod ends");
		return 0;
	}
	json_t *hook = make(w, least, a);
	json_t *lifecycle = kp_member_object(container, "lifecycle");
	if (lifecycle && !kp_covers(had, hook)) {
		kp_put(lifecycle, "preStop", hook);
	} else {
		json_decref(hook);
	}
	return least;
}
