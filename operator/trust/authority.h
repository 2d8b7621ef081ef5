/* What is in the operator's Secret, and how it changes with time: the authorities that are believed, which of them signs,
   and the operator's own certificate for its listeners. Pure but for the random numbers of new keys.

   One authority signs. Before it has signed for `period_s`, the next one is made and believed; `overlap_s` later, and
   when it is known everywhere, it signs instead. The key of the one before is wiped then, but it is believed until
   nothing that it signed is valid any more. So at no moment is anything shown that somebody who kept up does not
   believe. A Secret that is deleted is another matter: the authority is a new one, and nothing else is believed. */
#ifndef OPERATOR_TRUST_AUTHORITY_H
#define OPERATOR_TRUST_AUTHORITY_H

#include "base/vec.h"
#include "json/jansson.h"
#include "pki/pki.h"

enum { KP_AUTHORITIES_MAX = 16 };
/* Replicas that have not seen yet that another one signs may sign by the old one for so long. */
#define KP_AUTHORITY_GRACE_S 30

struct kp_authority {
	char *cert;        /* PEM */
	char *key;         /* PEM; NULL: it does not sign any more */
	int64_t trusted_s; /* since when it is in the Secret */
	int64_t signs_s;   /* since when it signs; 0: not yet */
	int64_t until_s;   /* believed until then; 0: it signs, or will */
};
struct kp_trust_state {
	KP_VEC(struct kp_authority)
	authorities;      /* oldest first */
	char *cert, *key; /* of the listeners; NULL: none yet */
};
struct kp_trust_wish {
	int64_t period_s, overlap_s, lifetime_s; /* the last: of what is signed */
	const kp_str *names;                     /* of the operator: DNS names and addresses */
	size_t n_names;
	bool is_distributed; /* everything in the Secret is known everywhere */
};

void kp_trust_state_fini(struct kp_trust_state *s); /* wipes the keys; zeroed is fine */
/* From a Secret's `data`. What is not as kp_trust_state_write makes it is INVALID_ARGUMENT, of a newer version UNIMPLEMENTED. */
int kp_trust_state_read(
	const json_t *data, struct kp_trust_state *ret, struct kp_err *err) KP_MUST_USE;
/* As a Secret's `data`: authorities.json, and for people and other programs tls.crt, tls.key, ca.crt. The caller's. */
int kp_trust_state_write(const struct kp_trust_state *s, int64_t now_s, json_t **ret,
	struct kp_err *err) KP_MUST_USE;

/* Does what is due. *ret_changed: it is another state now, to be written. *ret_due_s: when to look again. */
int kp_trust_state_step(struct kp_trust_state *s, const struct kp_trust_wish *w, int64_t now_s,
	bool *ret_changed, int64_t *ret_due_s, struct kp_err *err) KP_MUST_USE;

/* Who signs now; NULL: nobody, there is none yet. */
const struct kp_authority *kp_trust_state_signer(const struct kp_trust_state *s);
/* Is one made that does not sign yet? */
bool kp_trust_state_is_rotating(const struct kp_trust_state *s);
/* The certificates of all that are believed. */
int kp_trust_state_bundle(const struct kp_trust_state *s, int64_t now_s, struct kp_buf *ret,
	struct kp_err *err) KP_MUST_USE;

#endif
