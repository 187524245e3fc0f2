/* SPDX-License-Identifier: Apache-2.0 */
/* Work ahead, shedding and the workers' speeds; see backlog.h. */
#include "server/backlog.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "server/clock.h"

/* While shedding a call is let in behind so many of its own size, or so many seconds of others if
 * that is more: what workers do until the next calls have come. */
#define FEW_CALLS 8.0
#define FEW_SECONDS 10e-3
/* Calls per worker that are always let in while shedding: one may be one worker's alone. */
#define CALLS_PER_WORKER 2
/* A call that was let in waits twice as long as that means, at least so many seconds: a worker may
 * be at a step that it does not interrupt. */
#define LEAST_PATIENCE 0.1
/* Shedding ends so long after the last refusal, or after the last call has left. */
#define CALM (CLOCK_SECOND)
#define IDLE (CLOCK_SECOND / 10)
/* Speeds are of about so many seconds of workers that are past. */
#define MEMORY_SECONDS 2.0
/* Until a pace is known: operations per second and worker of a moderate core, bytes per second of
 * bodies that are only copied, and how soon what is measured outweighs that. */
#define FIRST_SPEED 50e9
#define FIRST_BODY_SPEED 5e8
#define FIRST_SECONDS 1e-6
/* A worker's seconds that a body may make one expect at most: few bytes may ask for long work, and
 * their rate would make hours of a long body. What it takes is known once it is planned. */
#define LONGEST_GUESS 1.0
/* What took less has a call's fixed costs in it: the speed is what it shows, or more. */
#define LEAST_SAMPLE 1e-3
/* A worker that is held up for some milliseconds makes a short call look slow. What took less than
 * the one is believed to be slower only by as much of what is known as it took of the other. */
#define SURE_SAMPLE 0.1
#define HELD_UP 10e-3

/* A quotient of sums, of which what is older counts less. */
struct average {
    double amount, seconds;
};

struct backlog {
    pthread_mutex_t lock;
    double workers, most;
    struct backlog_call *first;
    size_t count;
    bool sheds;
    int64_t refused_at, emptied_at;       /* last */
    struct average speeds[BACKLOG_PACES]; /* of one worker */
    bool has_learnt;
};

struct backlog *backlog_create(size_t workers, double most) {
    struct backlog *backlog = calloc(1, sizeof *backlog);
    if (backlog == NULL)
        return NULL;
    pthread_mutex_init(&backlog->lock, NULL);
    backlog->workers = (double)workers;
    backlog->most = most;
    for (size_t i = 0; i < BACKLOG_PACES; i++)
        backlog->speeds[i] = (struct average){FIRST_SPEED * FIRST_SECONDS, FIRST_SECONDS};
    backlog->speeds[BACKLOG_BODY].amount = FIRST_BODY_SPEED * FIRST_SECONDS;
    return backlog;
}

void backlog_free(struct backlog *backlog) {
    if (backlog == NULL)
        return;
    assert(backlog->first == NULL);
    pthread_mutex_destroy(&backlog->lock);
    free(backlog);
}

/* ---- speeds ---- */

static void add(struct average *average, double amount, double seconds) {
    const double kept = fmax(0, 1 - seconds / MEMORY_SECONDS);
    average->amount = average->amount * kept + amount;
    average->seconds = average->seconds * kept + seconds;
}

void backlog_learn(struct backlog *backlog, size_t pace, double amount, double seconds) {
    assert(pace < BACKLOG_PACES);
    if (amount <= 0 || seconds <= 0)
        return;
    pthread_mutex_lock(&backlog->lock);
    struct average *const speed = &backlog->speeds[pace];
    const double expected = amount * speed->seconds / speed->amount;
    const double most = seconds < SURE_SAMPLE ? expected * (1 + seconds / HELD_UP) : INFINITY;
    if (seconds >= LEAST_SAMPLE && seconds > most)
        *speed = (struct average){amount, most};
    else if (seconds >= LEAST_SAMPLE || seconds < expected)
        add(speed, amount, seconds);
    backlog->has_learnt = true;
    pthread_mutex_unlock(&backlog->lock);
}

static double seconds_of(const struct backlog *backlog, struct backlog_work work) {
    assert(work.pace < BACKLOG_PACES);
    const struct average *speed = &backlog->speeds[work.pace];
    const double most = work.pace == BACKLOG_BODY ? LONGEST_GUESS : INFINITY;
    const double learnt = fmin(work.amount * speed->seconds / speed->amount, most);
    return (learnt + work.seconds) / backlog->workers;
}

double backlog_seconds(struct backlog *backlog, struct backlog_work work) {
    pthread_mutex_lock(&backlog->lock);
    const double seconds = seconds_of(backlog, work);
    pthread_mutex_unlock(&backlog->lock);
    return seconds;
}

/* ---- under the lock ---- */

/* A call that ends soon takes no more of the workers, however much it would have to do. */
static double until_end(const struct backlog_call *call, int64_t now) {
    const int64_t deadline =
        call->deadline == NULL ? 0 : atomic_load_explicit(call->deadline, memory_order_relaxed);
    return deadline == 0 ? INFINITY : fmax(0, (double)(deadline - now) / (double)CLOCK_SECOND);
}

static double left(const struct backlog *backlog, const struct backlog_call *call, int64_t now) {
    if (call->cancelled != NULL && atomic_load_explicit(call->cancelled, memory_order_relaxed))
        return 0;
    const size_t tasks = atomic_load_explicit(&call->tasks, memory_order_relaxed);
    const size_t done = atomic_load_explicit(&call->tasks_done, memory_order_relaxed);
    const double part = tasks == 0 || done > tasks ? 1 : (double)(tasks - done) / (double)tasks;
    return fmin(part * seconds_of(backlog, call->work), until_end(call, now));
}

/* Ahead of a call of so many seconds, beside `self`. */
static double ahead_of(const struct backlog *backlog, const struct backlog_call *self,
                       double seconds, int64_t now) {
    double sum = 0;
    for (const struct backlog_call *call = backlog->first; call != NULL; call = call->next)
        if (call != self)
            sum += fmin(left(backlog, call, now), seconds);
    return sum;
}

static double few(double seconds) {
    return fmax(FEW_SECONDS, FEW_CALLS * seconds);
}

static void end_shedding(struct backlog *backlog, int64_t now) {
    const int64_t calm = now - backlog->refused_at, idle = now - backlog->emptied_at;
    if (calm >= CALM || (backlog->count == 0 && calm >= IDLE && idle >= IDLE))
        backlog->sheds = false;
}

static void note_refusal(struct backlog *backlog, int64_t now) {
    backlog->refused_at = now;
    backlog->sheds = true;
}

/* Whether a call may be in beside `others` others. */
static struct backlog_answer judge(struct backlog *backlog, const struct backlog_call *self,
                                   size_t others, struct backlog_work work, int64_t now) {
    const double seconds = seconds_of(backlog, work);
    struct backlog_answer answer = {true, 0};
    if (backlog->most <= 0)
        return answer;
    end_shedding(backlog, now);
    answer.ahead = ahead_of(backlog, self, seconds, now);
    answer.is_let_in = answer.ahead <= backlog->most;
    if (answer.is_let_in && backlog->sheds)
        answer.is_let_in =
            answer.ahead <= few(seconds) || (double)others < CALLS_PER_WORKER * backlog->workers;
    if (!answer.is_let_in)
        note_refusal(backlog, now);
    return answer;
}

static void join(struct backlog *backlog, struct backlog_call *call, struct backlog_work work) {
    call->work = work;
    call->previous = NULL;
    call->next = backlog->first;
    if (call->next != NULL)
        call->next->previous = call;
    backlog->first = call;
    backlog->count++;
    call->is_in = true;
}

/* ---- calls ---- */

struct backlog_answer backlog_ask(struct backlog *backlog, struct backlog_work work, int64_t now) {
    pthread_mutex_lock(&backlog->lock);
    const struct backlog_answer answer = judge(backlog, NULL, backlog->count, work, now);
    pthread_mutex_unlock(&backlog->lock);
    return answer;
}

struct backlog_answer backlog_enter(struct backlog *backlog, struct backlog_call *call,
                                    struct backlog_work work, int64_t now) {
    assert(!call->is_in);
    pthread_mutex_lock(&backlog->lock);
    const struct backlog_answer answer = judge(backlog, NULL, backlog->count, work, now);
    if (answer.is_let_in)
        join(backlog, call, work);
    pthread_mutex_unlock(&backlog->lock);
    return answer;
}

struct backlog_answer backlog_enter_anyway(struct backlog *backlog, struct backlog_call *call,
                                           struct backlog_work work) {
    assert(!call->is_in);
    pthread_mutex_lock(&backlog->lock);
    join(backlog, call, work);
    pthread_mutex_unlock(&backlog->lock);
    return (struct backlog_answer){true, 0};
}

struct backlog_answer backlog_revise(struct backlog *backlog, struct backlog_call *call,
                                     struct backlog_work work, int64_t now) {
    assert(call->is_in);
    pthread_mutex_lock(&backlog->lock);
    call->work = work;
    const struct backlog_answer answer = judge(backlog, call, backlog->count - 1, work, now);
    pthread_mutex_unlock(&backlog->lock);
    return answer;
}

void backlog_leave(struct backlog *backlog, struct backlog_call *call, int64_t now) {
    if (!call->is_in)
        return;
    pthread_mutex_lock(&backlog->lock);
    *(call->previous != NULL ? &call->previous->next : &backlog->first) = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    call->is_in = false;
    if (--backlog->count == 0)
        backlog->emptied_at = now;
    pthread_mutex_unlock(&backlog->lock);
}

void backlog_note_refusal(struct backlog *backlog, int64_t now) {
    pthread_mutex_lock(&backlog->lock);
    if (backlog->most > 0)
        note_refusal(backlog, now);
    pthread_mutex_unlock(&backlog->lock);
}

bool backlog_sheds(struct backlog *backlog, int64_t now) {
    pthread_mutex_lock(&backlog->lock);
    end_shedding(backlog, now);
    const bool sheds = backlog->sheds;
    pthread_mutex_unlock(&backlog->lock);
    return sheds;
}

bool backlog_is_overdue(struct backlog *backlog, const struct backlog_call *call, int64_t waited,
                        int64_t now) {
    pthread_mutex_lock(&backlog->lock);
    end_shedding(backlog, now);
    const double own = seconds_of(backlog, call->work);
    const double wait = 2 * fmax(few(own), CALLS_PER_WORKER * backlog->workers * own);
    const double most = fmax(wait, LEAST_PATIENCE);
    const bool is_overdue = backlog->sheds && backlog->has_learnt && own > 0 &&
                            (double)waited > most * (double)CLOCK_SECOND;
    pthread_mutex_unlock(&backlog->lock);
    return is_overdue;
}

double backlog_total(struct backlog *backlog, int64_t now) {
    pthread_mutex_lock(&backlog->lock);
    const double total = ahead_of(backlog, NULL, INFINITY, now);
    pthread_mutex_unlock(&backlog->lock);
    return total;
}
