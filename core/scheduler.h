/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute threads. A job is a row of equal steps that any worker may take; a job that must
 * first find out what it is (decode, plan) starts as one step and is extended from inside. Workers
 * take a step of the job with the least remaining cost, aged so that nothing starves.
 *
 * A step passes checkpoints (core/checkpoint.h), at which its worker runs short steps of cheaper
 * jobs, in a second workspace, before it goes on: in the long run for as long as it works on steps
 * of its own. Steps that run at a checkpoint run to their end, and a worker never has two steps of
 * one job in hand. Jobs that are `last` have what time the others leave: none of theirs is taken
 * while another job has a step to give, and any short step interrupts them.
 *
 * Ownership: the submitter owns the job's memory, which must stay until `finished` was called; the
 * scheduler never touches it afterwards.
 */
#ifndef ATTN_CORE_SCHEDULER_H
#define ATTN_CORE_SCHEDULER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/checkpoint.h"
#include "core/status.h"

struct attn_scheduler;
struct attn_job;

/* Caller storage; fields under "scheduler's" are not the submitter's business. */
struct attn_job {
    /* Runs step `index`; on some worker, concurrently with other steps of the same job, on as many
       workers as there are at most. `workspace` has workspace_bytes bytes aligned to 64.
       `checkpoint` tells of `cancelled` too. */
    void (*step)(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint);
    /* Called once per phase, on the thread that ended the last step, after all steps have returned.
       True: the job goes on with its new step, steps, workspace_bytes and cost. False: the job is
       over and its memory is no longer looked at; it may already be gone when this returns. */
    bool (*finished)(struct attn_job *job);
    size_t steps;
    size_t workspace_bytes; /* per worker */
    double cost;     /* planned seconds of all steps on all workers, an estimate; only ordering
                        depends on it */
    bool steps_wait; /* a step may wait for earlier ones: none runs at a checkpoint, for one that it
                        waits for may be what it interrupts */
    bool last;       /* it goes behind all jobs that are not */
    atomic_bool cancelled; /* set by anyone: steps not yet begun are skipped, then `finished` */

    struct { /* scheduler's */
        struct attn_job *next, *previous;
        size_t next_step, running;
        double enqueued_at;
        bool continued, no_memory;
    } state;
};

struct attn_scheduler_stats {
    size_t workers;
    size_t jobs_queued; /* jobs none of whose steps has begun */
    size_t jobs_running;
    double busy_seconds;    /* summed over workers, since start */
    double backlog_seconds; /* planned cost not yet done */
};

/*
 * Starts `workers` threads (>= 1), each nicer than the caller by `niceness` (0 to 19), so that
 * threads which serve others come first. NO_MEMORY or OVERLOADED when threads cannot be had.
 */
enum attn_status attn_scheduler_create(size_t workers, int niceness, struct attn_scheduler **out,
                                       struct attn_error *error);
/* Waits for the jobs inside, then ends the threads. Clears *handle. */
void attn_scheduler_free(struct attn_scheduler **handle);

/*
 * Hands a job over; never blocks. Borrows `job` until its finished() returns false.
 * A step whose workspace cannot be had is skipped and the job cancelled; attn_job_lacked_memory
 * says so.
 */
void attn_scheduler_submit(struct attn_scheduler *scheduler, struct attn_job *job);

/*
 * Runs one step of a submitted job on the calling thread, as one more worker, so that who waits for
 * a job need not be idle; `workspace` is the caller's, of `bytes` bytes, aligned to 64. The job's
 * memory must stay until this returns. False, and nothing done, when all its steps were taken or
 * one needs more workspace.
 */
bool attn_scheduler_help(struct attn_scheduler *scheduler, struct attn_job *job, void *workspace,
                         size_t bytes);

/* True when a step was skipped because its workspace could not be had. */
bool attn_job_lacked_memory(const struct attn_job *job);

struct attn_scheduler_stats attn_scheduler_read(struct attn_scheduler *scheduler);

/* Runs all steps on the calling thread with `workspace`, then finished(), until the job is over. */
void attn_job_run_inline(struct attn_job *job, void *workspace);

#endif
