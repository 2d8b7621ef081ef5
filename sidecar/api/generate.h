/* The encoders of the generating APIs, and what they share. */
#ifndef SIDECAR_API_GENERATE_H
#define SIDECAR_API_GENERATE_H

#include "sidecar/flow/encoder.h"

extern const struct kp_encoder kp_chat_streamed, kp_chat_whole;               /* chat.c */
extern const struct kp_encoder kp_completions_streamed, kp_completions_whole; /* completions.c */

extern const struct kp_encoder kp_messages_streamed, kp_messages_whole;   /* messages.c */
extern const struct kp_encoder kp_responses_streamed, kp_responses_whole; /* responses.c */

/* "prompt_tokens":..,"completion_tokens":..,... in braces. */
void kp_put_usage(struct kp_buf *out, const struct kp_usage *u);
/* A log-probability: -inf, which JSON cannot say, is -9999.0 as in vLLM. */
void kp_put_logprob(struct kp_buf *out, float v);
/* "stop" or another of OpenAI's names, in quotes, and ,"stop_reason":.. when a stop string or id of
   the client's matched; then kp_put_fault's member, if there is a fault. */
void kp_put_finish(struct kp_buf *out, const struct kp_event *finish);
/* "kelpie":{"validation":{..}}, nothing before or after it: how an output breaks its schema. */
void kp_put_fault(struct kp_buf *out, const struct kp_output_fault *fault);
/* Tokens with their log-probabilities as chats have them, commas between; after what is there already. */
void kp_put_logprobs(struct kp_buf *out, const struct kp_event *ev);
/* How many bytes of white space, `most` at most, the text begins with. */
size_t kp_leading_space(kp_str text, size_t most);
/* Ids, commas between; after what is there already. */
void kp_put_ids(struct kp_buf *out, const kp_id *ids, size_t n);
/* A PROMPT_LOGPROBS event as vLLM has it: a list with null, or {"ID": {"logprob", "decoded_token"}, ..} for each position. */
void kp_put_prompt_logprobs(struct kp_buf *out, const struct kp_event *ev);
/* data: {"error":...} and a blank line. */
void kp_put_sse_error(struct kp_buf *out, const struct kp_err *err);
/* {"id":..,"object":..,"created":..,"model":..,"choices":[  into the turn's arena: the same for
 * every chunk of an answer. */
kp_str kp_answer_head(
	const struct kp_turn *turn, const char *before, const char *object, struct kp_err *err);

#endif
