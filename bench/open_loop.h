/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load on 127.0.0.1 from one thread: calls that come at random times, as many per second as are
 * asked for whether or not the answers come (open loop, a Poisson process), or each connection's
 * next call when its last is answered (closed loop). A call's time is from when it was due, not
 * from when there was time to send it. Connections are kept; a call that finds none free opens
 * another.
 */
#ifndef BENCH_OPEN_LOOP_H
#define BENCH_OPEN_LOOP_H

#include <stdbool.h>
#include <stddef.h>

struct open_loop_plan {
    int port;
    const char *request; /* head and body, as sent */
    size_t request_length;
    double rate;        /* calls per second; 0: closed loop */
    size_t connections; /* of the closed loop; the most of the open one */
    double seconds;     /* in which calls come; then the answers are awaited */
};

struct open_loop_call {
    double due, end; /* seconds since the begin */
    int status;      /* 0: the connection ended without a whole answer */
};

struct open_loop_result {
    struct open_loop_call *calls; /* owned, in the order in which they were answered */
    size_t count, room;
    size_t unsent;       /* calls that found all connections taken */
    double latest_start; /* most seconds by which a call was sent late */
    double own_seconds;  /* of the processor that the generator used */
};

/* Ends the program with a sentence when nobody listens or there is no memory. */
struct open_loop_result open_loop_run(const struct open_loop_plan *plan);
void open_loop_free(struct open_loop_result *result);

struct open_loop_times {
    double *seconds; /* owned, ascending */
    size_t count;
};

/* Of the calls with this status that were due in [from, to). */
struct open_loop_times open_loop_times(const struct open_loop_result *result, int status,
                                       double from, double to);
/* The least that a share of them, 0.99 say, do not exceed; 0 of none. */
double open_loop_percentile(const struct open_loop_times *times, double share);
/* Answers with this status that were there by the end of the plan's seconds, per second. */
double open_loop_rate(const struct open_loop_result *result, int status, double seconds);

#endif
