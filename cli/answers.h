/* What the commands read out of servers' answers (docs/status.md; GET /explain of a gateway). */
#ifndef CLI_ANSWERS_H
#define CLI_ANSWERS_H

#include "cli/cli.h"
#include "cli/fetch.h"

/* The operator's status; kp_fetch_fini ends it. */
int kp_ask_operator(struct kp_cli *cli, struct kp_fetched *ret, struct kp_err *err) KP_MUST_USE;
void kp_print_json(struct kp_cli *cli, const json_t *v);

kp_str kp_joined_name(struct kp_arena *a, const json_t *object, const char *name); /* "ns/NAME" */
bool kp_is_routable(const json_t *endpoint);
kp_str kp_routable_part(struct kp_arena *a, const json_t *engine); /* "2/3" */
kp_str kp_revision_text(struct kp_arena *a, const json_t *object); /* "7 3f9a01c2", "" */
const json_t *kp_condition(const json_t *object, kp_str type);     /* NULL: not there */

/* What a gateway's public listener answers to body, which is JSON. */
int kp_ask_gateway(struct kp_cli *cli, const char *what, kp_str body, json_t **ret,
	struct kp_err *err) KP_MUST_USE;
/* The tokens of an answer of /v1/tokenize with `explain`, as a table. */
void kp_print_pieces(struct kp_cli *cli, const json_t *answer);
/* Which chat template it is, and what messages look like to it ("chatTemplate", "textPolicy", "shape"). */
void kp_print_template(struct kp_cli *cli, const json_t *object);
/* The operator's status as tables. */
void kp_print_status(struct kp_cli *cli, const json_t *status);
/* The engines that are known as cli->operand, printed, or appended to `found` where it is not NULL; how many
   there are. */
size_t kp_print_engines(struct kp_cli *cli, const json_t *status, json_t *found);
/* A gateway's answer about a model, and about a request. */
void kp_print_served(struct kp_cli *cli, const json_t *answer);
void kp_print_request(struct kp_cli *cli, const json_t *answer);

#endif
