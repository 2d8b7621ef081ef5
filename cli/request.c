/* DESIGN: one request as a gateway tells it: choice after choice, attempt after attempt, with what stood to
   choose from. */
#include "cli/answers.h"
#include "cli/print.h"

static void line(struct kp_cli *cli, const char *name, kp_str text)
{
	kp_print_line(&cli->out, 11, name, text);
}

static void print_candidates(struct kp_cli *cli, const json_t *attempt)
{
	static const char *const columns[] = { "CANDIDATE", "OWNER", "DISTANCE", "STATE", "LOAD",
		"PENALTY", "SCORE", "NOTE", NULL };
	size_t i;
	const json_t *c, *all = kp_at_list(attempt, "candidates");
	kp_str picked = kp_at_str(attempt, "endpoint");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(all, i, c)
	{
		kp_str excluded = kp_at_str(c, "excluded");
		bool is_picked = picked.n && kp_str_eq(kp_at_str(c, "endpoint"), picked);
		kp_table_add(&t, kp_at_str(c, "endpoint"));
		kp_table_add(&t, kp_at_str(c, "owner"));
		kp_table_add(&t, kp_at_str(c, "distance"));
		kp_table_add(&t, kp_at_str(c, "state"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(c, "load"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(c, "penalty"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(c, "score"));
		kp_table_add(&t, is_picked ? KP_S("picked") : excluded.n ? excluded : KP_S("-"));
		kp_table_end_row(&t);
	}
	kp_table_print(&t, "    ", &cli->out);
	int64_t there_were = kp_at_int(attempt, "endpoints");
	if (there_were > (int64_t)json_array_size(all)) {
		kp_buf_printf(&cli->out, "    and %lld more\n",
			(long long)(there_were - (int64_t)json_array_size(all)));
	}
}

static void print_attempt(struct kp_cli *cli, size_t i, const json_t *attempt)
{
	kp_str endpoint = kp_at_str(attempt, "endpoint"), distance = kp_at_str(attempt, "distance"),
	       owner = kp_at_str(attempt, "owner");
	kp_buf_printf(&cli->out, "  Attempt %zu: ", i + 1);
	kp_print_text(&cli->out, endpoint.n ? endpoint : KP_S("no endpoint"));
	if (distance.n) {
		kp_buf_lit(&cli->out, " (");
		kp_print_text(&cli->out, distance);
		if (owner.n) {
			kp_buf_lit(&cli->out, ", of ");
			kp_print_text(&cli->out, owner);
		}
		kp_buf_addc(&cli->out, ')');
	}
	kp_buf_lit(&cli->out, ", because: ");
	kp_print_text(&cli->out, kp_at_str(attempt, "because"));
	kp_buf_lit(&cli->out, "\n  Outcome: ");
	kp_print_text(&cli->out, kp_at_str(attempt, "outcome"));
	kp_buf_printf(&cli->out, ", begun after %lld ms, took %lld ms\n",
		(long long)kp_at_int(attempt, "startMs"), (long long)kp_at_int(attempt, "ms"));
	print_candidates(cli, attempt);
}

void kp_print_request(struct kp_cli *cli, const json_t *answer)
{
	size_t i, k;
	const json_t *choice, *attempt, *choices = kp_at_list(answer, "choices");
	kp_str id = kp_at_str(answer, "request"), client_id = kp_at_str(answer, "clientRequestId");
	line(cli, "Request:", id);
	if (client_id.n && !kp_str_eq(client_id, id)) {
		line(cli, "Client's:", client_id);
	}
	line(cli, "Model:", kp_at_str(answer, "model"));
	line(cli, "Pool:", kp_at_str(answer, "pool"));
	line(cli, "Revision:", kp_at_str(answer, "revision"));
	line(cli, "Gateway:", kp_at_str(answer, "gateway"));
	kp_buf_printf(&cli->out, "%-11s", "Outcome:");
	kp_print_text(&cli->out, kp_at_str(answer, "outcome"));
	kp_buf_printf(&cli->out, " (%lld), %lld ms\n", (long long)kp_at_int(answer, "status"),
		(long long)kp_at_int(answer, "ms"));
	const json_t *prompt = json_object_get(answer, "prompt");
	if (prompt) {
		long long cached = kp_at_int(prompt, "exact") + kp_at_int(prompt, "prefix");
		long long known = kp_at_int(answer, "knownMessages");
		kp_buf_printf(&cli->out, "%-11s%lld tokens, %lld of them from the prompt cache",
			"Prompt:", cached + (long long)kp_at_int(prompt, "encoded"), cached);
		if (known) {
			kp_buf_printf(&cli->out, "; %lld messages known", known);
		}
		kp_buf_addc(&cli->out, '\n');
	}
	json_array_foreach(choices, i, choice)
	{
		const json_t *attempts = kp_at_list(choice, "attempts");
		kp_buf_printf(&cli->out, "Choice %lld:\n", (long long)kp_at_int(choice, "index"));
		json_array_foreach(attempts, k, attempt)
		{
			print_attempt(cli, k, attempt);
		}
	}
}
