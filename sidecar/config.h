/* The gateway's command line, and nothing else: what a manifest says is in the snapshot. */
#ifndef SIDECAR_CONFIG_H
#define SIDECAR_CONFIG_H

#include "base/cmdline.h"
#include "obs/log.h"
#include "sidecar/route/pick.h"

enum { KP_MAX_LISTEN = 16 };

enum kp_listen_on { KP_LISTEN_ON_LOOPBACK = 0, KP_LISTEN_ON_ALL };
enum kp_media_shm { KP_MEDIA_SHM_AUTO = 0, KP_MEDIA_SHM_OFF };
enum kp_request_templates { KP_REQUEST_TEMPLATES_REFUSE = 0, KP_REQUEST_TEMPLATES_TRUST };

enum kp_reasoning_field { KP_REASONING_CONTENT = 0, KP_REASONING };
extern const char *const kp_reasoning_field_names[]; /* by value, NULL behind the last */

struct kp_config {
	const char *manifests; /* exactly one of the two says where the program comes from */
	const char *control;   /* the operator */
	const char *id, *node; /* of this gateway: the name in its certificate; where it runs, "" */
	struct kp_strings own; /* "default/demo", "default/demo/0": with --control, the endpoints it
				  speaks to */
	const char *peer_listen, *advertise; /* NULL: none, as peer_listen */
	const char *tls_dir; /* tls.crt, tls.key, ca.crt for control and peers; NULL: cleartext */
	/* Who makes the files of tls_dir, which is in state_dir then; NULL: somebody else. Who signs a certificate, whose pod this is, and who is believed. */
	const char *bootstrap, *token_file, *bootstrap_ca;
	const char *tool_secrets; /* folder of SECRET/KEY files for tool servers; NULL: none */
	const char *state_dir;    /* of the last good program; NULL: not kept */
	const char *
		cache_dir; /* of images of tokenizers; NULL: `tokenizers` in state_dir, if there is one */
	uint32_t locality_margin; /* a farther engine is taken when it runs this many fewer */
	struct kp_strings listen; /* the i-th is rank i; none: 127.0.0.1 and the target ports of the
				     pool the gateway owns */
	enum kp_listen_on listen_on; /* where the target ports are, without `listen` */
	const char *admin_listen;
	const char *probe_listen; /* of kubelet and scrapers; NULL: none */
	const char
		*ask_drain; /* no gateway: ask the one whose admin listener this is; NULL: be one */
	const char *namespace;
	const char *tls_cert, *tls_key;
	enum kp_routing_policy routing;
	enum kp_request_templates request_templates; /* `chat_template` in a request's body */
	enum kp_reasoning_field reasoning_field;     /* what thoughts are called in chats */
	uint32_t loops, workers;
	uint32_t max_body_total; /* bytes of the bodies of all requests together */
	uint32_t max_body_bytes;
	uint32_t prompt_cache_bytes; /* 0: none */
	uint32_t max_images;         /* of a request */
	uint32_t max_image_bytes;    /* of one image's file */
	uint32_t max_image_pixels;   /* of all images of a request together */
	uint64_t media_memory;       /* bytes of the images of all requests together */
	uint32_t media_memory_mib, media_workers;
	enum kp_media_shm media_shm; /* AUTO: for engines that have the same /dev/shm */
	struct kp_strings media_hosts, media_allow; /* of URLs; no hosts: none is fetched */
	int64_t media_timeout_ns;                   /* of one URL */
	uint32_t max_requests;                      /* in flight, all loops; beyond: 429 */
	struct kp_strings mcp_hosts, mcp_allow; /* of servers that requests name; no hosts: none */
	const char *history;                    /* where responses are kept; NULL: nowhere */
	uint32_t history_bytes;                 /* of all of them */
	int64_t history_age_ns;                 /* 0: for ever */
	const char *tenant_header;              /* names who asks; NULL: all are one */
	int64_t request_timeout_ns, drain_settle_ns, drain_timeout_ns;
	enum kp_log_level log_level;
	enum kp_log_format log_format;
};

/* 0: run with *ret; 1: --help or --version was printed; -1: err says which argument is wrong.
 * Strings point into argv. */
int kp_config_parse(int argc, char **argv, struct kp_config *ret, struct kp_err *err) KP_MUST_USE;

#endif
