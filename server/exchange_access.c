/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks, and whether they may: judged on the head alone, before anything of the body is read.
 * With keys, each request needs one with the scope of its route, and is counted to it; without
 * keys, foreign names and pages of foreign sites are kept out.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/clock.h"
#include "server/exchange_internal.h"
#include "server/hosts.h"

#define REALM "Bearer realm=\"attentiond\""

/* Operators' addresses have what probes and scrapers ask for, and nothing else. */
static bool is_for_operators(const struct route *route) {
    return route->access == ACCESS_PROBE || route->access == ACCESS_METRICS;
}

static bool check_address(const struct exchange *exchange, struct problem *problem) {
    const bool is_theirs = is_for_operators(exchange->route);
    if (exchange->at_ops && !is_theirs)
        problem_set(problem, PROBLEM_NOT_FOUND, NULL,
                    "This address has health, readiness and metrics alone (ops_listen).");
    else if (!exchange->at_ops && exchange->service->has_ops &&
             exchange->route->access == ACCESS_METRICS)
        problem_set(problem, PROBLEM_NOT_FOUND, NULL,
                    "The metrics have an address of their own (ops_listen).");
    else
        return true;
    return false;
}

/* ---- without keys ---- */

static bool check_origin(const struct exchange *exchange, struct problem *problem) {
    const bool only_reads = exchange->method == HTTP_GET || exchange->method == HTTP_HEAD;
    if (is_for_operators(exchange->route))
        return true;
    if (!hosts_allow(exchange->service->hosts, exchange->host)) {
        problem_set(problem, PROBLEM_MISDIRECTED, NULL,
                    "The service does not answer to the name \"%.100s\". Ask it by its address, as "
                    "localhost, or have the operator add the name to the option hosts.",
                    exchange->host == NULL ? "" : exchange->host);
        return false;
    }
    if (!only_reads && exchange->foreign_page) {
        problem_set(problem, PROBLEM_MISDIRECTED, NULL,
                    "Pages of other sites may not send calls here; have the operator add the "
                    "page's origin to the option cors_origins.");
        return false;
    }
    return true;
}

/* ---- with keys ---- */

/* Copies what is behind "Bearer ", in any case, without the blanks around it, which the library
   leaves at the end; "" where it is too long for a key. False where the header is none of that
   kind. */
static bool read_bearer(const char *authorization, char text[KEY_LONGEST + 1]) {
    static const char scheme[] = "Bearer ";
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *const from =
        authorization + sizeof scheme - 1 + strspn(authorization + sizeof scheme - 1, " ");
    size_t length = strlen(from);
    while (length > 0 && (from[length - 1] == ' ' || from[length - 1] == '\t'))
        length--;
    snprintf(text, KEY_LONGEST + 1, "%.*s", length > KEY_LONGEST ? 0 : (int)length, from);
    return true;
}

static bool find_key(struct exchange *exchange, struct problem *problem) {
    char text[KEY_LONGEST + 1];
    const bool has_key = read_bearer(exchange->authorization, text);
    if (has_key && auth_find(exchange->service->auth, text, &exchange->pass))
        return true;
    snprintf(exchange->challenge, sizeof exchange->challenge, REALM "%s",
             has_key ? ", error=\"invalid_token\"" : "");
    exchange->answer.challenge = exchange->challenge;
    problem_set(problem, PROBLEM_NO_KEY, NULL, "%s",
                has_key ? "The key is none that this service knows. Check that it is whole, and "
                          "ask its operator whether it has been replaced."
                        : "This service answers those who have a key. Send it in the header "
                          "Authorization: Bearer KEY; its operator hands keys out.");
    return false;
}

static bool check_scope(struct exchange *exchange, struct problem *problem) {
    const enum access access = exchange->route->access;
    const struct key *const key = exchange->pass.key;
    if (access == ACCESS_KEY || (key->scopes & 1U << access) != 0)
        return true;
    snprintf(exchange->challenge, sizeof exchange->challenge,
             REALM ", error=\"insufficient_scope\", scope=\"%s\"", keyring_scope_name(access));
    exchange->answer.challenge = exchange->challenge;
    problem_set(problem, PROBLEM_SCOPE, NULL,
                "The key \"%s\" does not have the scope %s, which this path needs; ask the "
                "operator for a key that has it.",
                key->name, keyring_scope_name(access));
    return false;
}

/* A sentence and, for the answer's header, when to try again. */
static void say_quota(struct problem *problem, const struct account_answer *answer,
                      const struct account_limits *limits) {
    static const char *const sentences[] = {
        [ACCOUNT_RATE] = "The key has used up its requests: it may send %.9g per second. Try again "
                         "after the time that Retry-After says.",
        [ACCOUNT_CALLS] = "The key may have %.9g requests in flight at once, and has. Wait for one "
                          "of their answers.",
        [ACCOUNT_MEMORY] = "The key's calls in flight may use %.9g bytes together, and this one "
                           "does not fit in. Wait for one of their answers.",
        [ACCOUNT_WORK] = "The key has used up its arithmetic: it may ask for %.9g operations per "
                         "second. Try again after the time that Retry-After says.",
    };
    const double values[] = {
        [ACCOUNT_RATE] = limits->requests_per_second,
        [ACCOUNT_CALLS] = limits->calls,
        [ACCOUNT_MEMORY] = limits->memory,
        [ACCOUNT_WORK] = limits->flops_per_second,
    };
    char detail[sizeof problem->detail];
    snprintf(detail, sizeof detail, sentences[answer->refusal], values[answer->refusal]);
    problem_set(problem, ATTN_QUOTA, NULL, "%s", detail);
    problem->limit = values[answer->refusal];
}

static bool check_quota(struct exchange *exchange, struct problem *problem) {
    const struct key *const key = exchange->pass.key;
    const struct account_answer answer = account_enter(key->account, &key->limits, exchange->began);
    exchange->is_counted = answer.refusal == ACCOUNT_FINE;
    exchange->wait_seconds = answer.wait_seconds;
    if (!exchange->is_counted)
        say_quota(problem, &answer, &key->limits);
    return exchange->is_counted;
}

bool exchange_access(struct exchange *exchange, struct problem *problem) {
    const enum access access = exchange->route->access;
    if (!check_address(exchange, problem))
        return false;
    if (exchange->at_ops || access == ACCESS_PROBE)
        return true;
    if (!auth_has_keys(exchange->service->auth))
        return check_origin(exchange, problem);
    return access == ACCESS_PUBLIC ||
           (find_key(exchange, problem) && check_scope(exchange, problem) &&
            check_quota(exchange, problem));
}

/* ---- what the key uses ---- */

static enum attn_status fail_quota(struct exchange *exchange, const struct account_answer *answer,
                                   struct attn_error *error) {
    struct problem problem;
    say_quota(&problem, answer, &exchange->pass.key->limits);
    exchange->wait_seconds = answer->wait_seconds;
    return attn_fail_limit(error, ATTN_QUOTA, "", problem.limit, "%s", problem.detail);
}

enum attn_status exchange_key_reserve(struct exchange *exchange, size_t bytes,
                                      const struct exchange_room *room, struct attn_error *error) {
    const struct key *const key = exchange->pass.key;
    if (key == NULL)
        return ATTN_OK;
    const double most = key->limits.memory;
    if (most > 0 && (double)exchange->reserved_of_key + (double)bytes > most)
        return attn_fail_limit(error, room->too_large, "", most,
                               "With %s the call needs more than the %.0f bytes that its key may "
                               "use at once. %s",
                               room->what, most, room->advice);
    if (!account_reserve(key->account, &key->limits, bytes))
        return fail_quota(exchange, &(struct account_answer){ACCOUNT_MEMORY, 0}, error);
    exchange->reserved_of_key += bytes;
    return ATTN_OK;
}

void exchange_key_release(struct exchange *exchange, size_t bytes) {
    if (exchange->pass.key == NULL)
        return;
    exchange->reserved_of_key -= bytes;
    account_release(exchange->pass.key->account, bytes);
}

enum attn_status exchange_charge(struct exchange *exchange, double flops,
                                 struct attn_error *error) {
    const struct key *const key = exchange->pass.key;
    if (key == NULL)
        return ATTN_OK;
    const struct account_answer answer =
        account_charge(key->account, &key->limits, flops, clock_now());
    return answer.refusal == ACCOUNT_FINE ? ATTN_OK : fail_quota(exchange, &answer, error);
}

void exchange_key_leave(struct exchange *exchange) {
    if (exchange->pass.key != NULL && !exchange->is_left_alone) {
        account_release(exchange->pass.key->account, exchange->reserved_of_key);
        exchange->reserved_of_key = 0;
    }
    if (exchange->is_counted)
        account_leave(exchange->pass.key->account);
    exchange->is_counted = false;
}

void exchange_key_end(struct exchange *exchange) {
    const struct key *const key = exchange->pass.key;
    if (key == NULL)
        return;
    exchange_key_leave(exchange);
    account_release(key->account, exchange->reserved_of_key);
    auth_let_go(&exchange->pass);
}
