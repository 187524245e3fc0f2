/* SPDX-License-Identifier: Apache-2.0 */
/* What a call takes: memory, work and time, reserved or refused; see call_work.h. */
#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/calls/call_work.h"
#include "server/clock.h"

size_t call_work_hands(const struct call_work *work) {
    return attn_min_size(work->exchange->service->workers, work->tasks);
}

/* What packing an answer takes beside it: at most its own length, for else it stays as it is. */
static bool packing_bytes(const struct call_work *work, size_t answer_bytes, size_t *bytes) {
    const struct coding *coding = work->exchange->answer_coding;
    *bytes = 0;
    return coding == NULL || attn_add_size(answer_bytes, coding->encoder_bytes, bytes);
}

struct backlog_work call_work_load(const struct call_work *work, size_t answer_bytes) {
    const double body = (double)work->exchange->body_length;
    const double coding = (body + (double)answer_bytes) / CODEC_SPEED;
    return work->tasks == 0 ? (struct backlog_work){BACKLOG_BODY, body, coding}
                            : (struct backlog_work){work->pace, work->flops, coding};
}

/* What a call takes is known once it is planned: it may be more than was expected. */
static enum attn_status revise_work(struct call_work *work, size_t answer_bytes) {
    if (!work->load.is_in)
        return ATTN_OK;
    atomic_store(&work->load.tasks, work->tasks);
    return exchange_revise_work(work->exchange, &work->load, call_work_load(work, answer_bytes),
                                &work->error);
}

enum attn_status call_work_reserve(struct call_work *work, size_t answer_bytes) {
    const struct exchange_room room = {.what = "its answer and its computation",
                                       .too_large = ATTN_RESULT_TOO_LARGE,
                                       .advice = work->kind->ask_for_less};
    size_t workspaces, packing, bytes;
    if (!attn_mul_size(work->workspace_bytes, call_work_hands(work), &workspaces) ||
        !attn_add_size(workspaces, work->shared_bytes, &workspaces) ||
        !packing_bytes(work, answer_bytes, &packing) ||
        !attn_add_size(answer_bytes, packing, &bytes) || !attn_add_size(bytes, workspaces, &bytes))
        bytes = SIZE_MAX;
    if (revise_work(work, answer_bytes) != ATTN_OK ||
        exchange_reserve(work->exchange, bytes, &room, &work->error) != ATTN_OK ||
        exchange_charge(work->exchange, work->flops, &work->error) != ATTN_OK)
        return work->error.status;
    work->shared = work->shared_bytes == 0 ? NULL : buffer_take(work->shared_bytes);
    if (work->shared == NULL && work->shared_bytes > 0)
        return attn_fail(&work->error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
    return ATTN_OK;
}

enum attn_status call_work_charge(struct call_work *work, size_t bytes, struct attn_error *error) {
    static const struct exchange_room room = {.what = "this tensor, which cannot stay where it is,",
                                              .too_large = ATTN_BODY_TOO_LARGE,
                                              .advice = "Send less per call."};
    work->put_off = bytes > work->most_here;
    if (work->put_off)
        return ATTN_CANCELLED;
    work->most_here -= bytes;
    return exchange_reserve(work->exchange, bytes, &room, error);
}

bool call_work_put_off(struct call_work *work) {
    work->put_off = work->on_io_thread;
    return work->put_off;
}

enum attn_status call_work_take_deadline(struct call_work *work, int64_t timeout_ms) {
    struct exchange *exchange = work->exchange;
    const uint64_t own = timeout_ms > 0 ? (uint64_t)timeout_ms : 0;
    const int64_t deadline =
        clock_earlier(atomic_load(&exchange->deadline), clock_deadline(exchange->began, own));
    atomic_store(&exchange->deadline, deadline);
    if (deadline == 0 || clock_now() < deadline)
        return ATTN_OK;
    return attn_fail(
        &work->error, ATTN_DEADLINE, "",
        "The call did not finish before its deadline. Give it more with timeout_ms, or "
        "ask for less.");
}
