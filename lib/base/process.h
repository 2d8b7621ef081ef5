/* What every long-running program of ours does with its process. */
#ifndef KP_BASE_PROCESS_H
#define KP_BASE_PROCESS_H

/* First in main, before any thread: descriptors 0, 1 and 2 are open; SIGTERM, SIGINT and SIGHUP are
 * blocked in every thread to come, SIGPIPE and SIGXFSZ are ignored; as many descriptors as the hard limit allows. Where
 * that are fewer than 64, it says so and ends the process with status 1. */
void kp_process_begin(void);
/* Blocks until SIGTERM, SIGINT or SIGHUP (a terminal that goes away). */
void kp_process_wait(void);
/* For loops: a descriptor, the caller's, that is readable once one of these came. */
int kp_process_end_fd(void);

#endif
