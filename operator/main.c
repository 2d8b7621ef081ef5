/* kelpie-operator: builds the operator, runs it, takes it down. */
#include "base/process.h"
#include "operator/operator.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	kp_process_begin();
	struct kp_operator_config config;
	struct kp_operator *o;
	struct kp_err err;
	int r = kp_operator_config_parse(argc, argv, &config, &err);
	if (r < 0) {
		fprintf(stderr, "kelpie-operator: %s\n", err.msg);
		return 2;
	}
	if (r > 0) {
		return 0;
	}
	kp_log_start(config.log_level, config.log_format);
	r = kp_operator_start(&config, &o, &err);
	if (r < 0) {
		kp_log(KP_LOG_ERROR, "cannot start", kp_f_err(&err));
	} else {
		kp_operator_run(o);
		kp_operator_destroy(o);
	}
	kp_log_stop();
	return r < 0 ? 1 : 0;
}
