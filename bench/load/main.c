/* DESIGN: options, run, report. Exit status 1 when a request failed, 2 when nothing could be measured. */
#include "load.h"

#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	static struct kp_load_results results; /* large */
	struct kp_load_opts o;
	struct kp_err err = KP_ERR_INIT;
	int rc = kp_load_options(argc, argv, &o, &err);
	if (rc > 0) {
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	if (rc < 0 || kp_load_run(&o, &results, &err) < 0) {
		fprintf(stderr, "kelpie-load: %s\n", err.msg);
		return 2;
	}
	kp_load_print(&o, &results);
	return results.failed != 0;
}
