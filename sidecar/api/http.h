/* The public API: which method and path does what. */
#ifndef SIDECAR_API_HTTP_H
#define SIDECAR_API_HTTP_H

#include "sidecar/errors.h"
#include "sidecar/gwloop.h"

/* kp_http_handler.request; ctx is the kp_gwloop. */
void kp_api_request(void *ctx, struct kp_stream *s, const struct kp_http_request *r);

/* One request with a body: collects the body, then its handler answers at once or makes a flow that
 * does. Lives until the stream closes. */
struct kp_api_call {
	struct kp_list link; /* of the loop's calls, while its body arrives */
	struct kp_gwloop *l;
	struct kp_stream *stream;
	struct kp_buf body;
	const struct kp_route *route;
	enum kp_dialect dialect;
	kp_str request_id; /* the client's, or the dialect's own, or KP_STR_NULL */
	char own_id[32];   /* what it points to when it is the dialect's */
	const struct kp_http_request *request; /* as long as this */
	kp_str tenant;                         /* what --tenant-header says; KP_STR_NULL: nothing */
	struct kp_flow *flow;                  /* NULL: none */
	size_t held;     /* bytes of the body, counted in the gateway's total */
	bool is_refused; /* answered while the body was arriving */
};
struct kp_route {
	kp_str method, path;
	const char *api; /* for metrics; NULL: not counted as a request */
	void (*get)(struct kp_gwloop *l, struct kp_stream *s,
		const struct kp_http_request *r); /* answers at once */
	void (*post)(struct kp_api_call *c);      /* the body is complete; answers, or sets c->flow,
						     which may take over c->body */
};

/* Answers all whose bodies are still on their way. */
void kp_api_fail_calls(struct kp_gwloop *l, const struct kp_err *err);
/* kp_http_server_on_refusal: in the path's dialect; false: OpenAI's. */
bool kp_api_refuse(
	struct kp_stream *s, const struct kp_http_request *r, int status, const char *text);

/* Handlers. */
void kp_api_models(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r);
void kp_api_model(struct kp_gwloop *l, struct kp_stream *s,
	const struct kp_http_request *r); /* /v1/models/NAME */
void kp_api_livez(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r);
void kp_api_readyz(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r);
void kp_api_chat(struct kp_api_call *c);
void kp_api_completions(struct kp_api_call *c);
void kp_api_responses(struct kp_api_call *c);
void kp_api_response(struct kp_api_call *c);
void kp_api_response_items(struct kp_api_call *c);
void kp_api_messages(struct kp_api_call *c);
void kp_api_count_tokens(struct kp_api_call *c);
void kp_api_generate(struct kp_api_call *c);
void kp_api_tokenize(struct kp_api_call *c);
void kp_api_detokenize(struct kp_api_call *c);

struct kp_flow_api;
/* Makes the call a flow of that API, which is yet to be run. */
struct kp_flow *kp_api_flow(struct kp_api_call *c, const struct kp_flow_api *api);
/* Makes the call a flow of that API and runs it. */
void kp_api_start(struct kp_api_call *c, const struct kp_flow_api *api);

/* 200 application/json. */
void kp_api_json(struct kp_stream *s, const struct kp_buf *body);

#endif
