/* Which of a process's threads comes first. Each is about the calling thread; what the kernel does not know or allow is done without. */
#ifndef KP_BASE_THREAD_H
#define KP_BASE_THREAD_H

/* It answers others and works for microseconds at a time: when it wakes up it does not wait for the turn of one that computes, its own turns are short. The same share
   of the processors, whatever it is. Linux 6.12 and later. */
void kp_thread_first(void);
/* It computes beside threads that answer: so much is added to its nice value, and when it wakes up it pushes nobody off a processor (SCHED_BATCH). */
void kp_thread_last(int nice);

#endif
