/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces as steps of a job, and the one who shares them out; see call_team.h. */
#include "server/calls/call_team.h"

#include <pthread.h>
#include <stdlib.h>

/* Text that is worth a piece, and what one costs: half a millisecond. */
#define PIECE_BYTES ((size_t)256 << 10)
#define PIECE_SECONDS 0.5e-3

/* Lives until both the one who shares and the job are done with it: helpers that come late find
 * nothing left, and touch neither `argument` nor the pieces. */
struct shared_work {
    struct attn_job job;
    void (*piece)(void *argument, size_t index);
    void *argument;
    size_t count;
    atomic_size_t next; /* piece to begin */
    atomic_int owners;
    pthread_mutex_t lock;
    pthread_cond_t over;
    size_t done; /* under the lock */
};

static void disown(struct shared_work *work) {
    if (atomic_fetch_sub(&work->owners, 1) > 1)
        return;
    pthread_cond_destroy(&work->over);
    pthread_mutex_destroy(&work->lock);
    free(work);
}

/* Pieces that nobody wants any more are quick, and have to be done all the same. */
static void do_pieces(struct shared_work *work, const struct attn_checkpoint *checkpoint) {
    size_t done = 0;
    for (size_t index; (index = atomic_fetch_add(&work->next, 1)) < work->count; done++) {
        work->piece(work->argument, index);
        attn_checkpoint_stops(checkpoint);
    }
    pthread_mutex_lock(&work->lock);
    work->done += done;
    if (work->done == work->count)
        pthread_cond_signal(&work->over);
    pthread_mutex_unlock(&work->lock);
}

static void step(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    (void)index;
    (void)workspace;
    do_pieces((struct shared_work *)job, checkpoint);
}

static bool finished(struct attn_job *job) {
    disown((struct shared_work *)job);
    return false;
}

static struct shared_work *begin(size_t count, void (*piece)(void *, size_t), void *argument) {
    struct shared_work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return NULL;
    work->piece = piece;
    work->argument = argument;
    work->count = count;
    atomic_init(&work->owners, 2);
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->over, NULL);
    work->job.step = step;
    work->job.finished = finished;
    return work;
}

static void share(const struct number_team *team, size_t count, void (*piece)(void *, size_t),
                  void *argument) {
    const struct service *service = team->context;
    const size_t hands = service->workers < count ? service->workers : count;
    struct shared_work *work = hands > 1 ? begin(count, piece, argument) : NULL;
    if (work == NULL) {
        for (size_t index = 0; index < count; index++) {
            piece(argument, index);
            attn_checkpoint_stops(team->checkpoint);
        }
        return;
    }
    work->job.steps = hands - 1;
    work->job.cost = PIECE_SECONDS * (double)count / (double)hands;
    attn_scheduler_submit(service->scheduler, &work->job);
    do_pieces(work, team->checkpoint);
    pthread_mutex_lock(&work->lock);
    while (work->done < work->count)
        pthread_cond_wait(&work->over, &work->lock);
    pthread_mutex_unlock(&work->lock);
    disown(work);
}

struct number_team call_team(struct service *service, const struct attn_checkpoint *checkpoint) {
    return (struct number_team){share, service, PIECE_BYTES, checkpoint};
}
