/* kelpie-sidecar: builds the gateway, runs it, takes it down; or asks one to drain. */
#include "base/mem.h"
#include "base/process.h"
#include "obs/log.h"
#include "sidecar/ask.h"
#include "sidecar/gateway.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	kp_process_begin();
	kp_mem_keep();
	struct kp_config config;
	struct kp_gateway *gateway;
	struct kp_err err;
	int r = kp_config_parse(argc, argv, &config, &err);
	if (r < 0) {
		fprintf(stderr, "kelpie-sidecar: %s\n", err.msg);
		return 2;
	}
	if (r > 0) {
		return 0;
	}
	if (config.ask_drain) {
		r = kp_ask_drain(config.ask_drain, &err);
		if (r < 0) {
			fprintf(stderr, "kelpie-sidecar: %s\n", err.msg);
		}
		return r < 0 ? 1 : 0;
	}
	kp_log_start(config.log_level, config.log_format);
	r = kp_gateway_start(&config, &gateway, &err);
	if (r < 0) {
		kp_log(KP_LOG_ERROR, "cannot start", kp_f_err(&err));
	} else {
		kp_gateway_run(gateway);
		kp_gateway_destroy(gateway);
	}
	kp_log_stop();
	return r < 0 ? 1 : 0;
}
