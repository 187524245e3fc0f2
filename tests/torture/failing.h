/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that tests/torture/failing.c shares with whoever directs it: which calls of the C
 * library fail, and what has become of them. tests/torture/page.py has the same structure.
 */
#ifndef TESTS_TORTURE_FAILING_H
#define TESTS_TORTURE_FAILING_H

#include <stdatomic.h>
#include <stdint.h>

/* Which calls are counted and may fail, a bit each. */
enum failing_kind {
    FAILING_MEMORY = 1 << 0, /* malloc and its kin, so strdup and fopen too, and mmap */
    FAILING_ACCEPT = 1 << 1,
    FAILING_RECEIVE = 1 << 2, /* recv, recvmsg */
    FAILING_SEND = 1 << 3,    /* send, sendmsg, writev, sendfile */
    FAILING_READ = 1 << 4,
    FAILING_WRITE = 1 << 5,
    FAILING_OPEN = 1 << 6, /* open, fopen */
    FAILING_THREAD = 1 << 7,
    FAILING_EPOLL = 1 << 8,   /* epoll_create1, epoll_ctl */
    FAILING_POLL = 1 << 9,    /* poll, epoll_wait */
    FAILING_SOCKET = 1 << 10, /* socket, bind, listen, eventfd */
};

/* In place of an errno: the call succeeds with one byte. */
enum { FAILING_SHORT = -1 };

enum { FAILING_FRAMES = 24, FAILING_FRAME_SIZE = 64 };

struct failing_page {
    _Atomic uint64_t counted, failed; /* calls of these kinds, and those that failed */
    _Atomic int64_t live;             /* blocks that have not been freed */
    uint64_t first;                   /* the call that fails, from 1 */
    int32_t error;                    /* its errno, or FAILING_SHORT */
    uint32_t persists;                /* whether all calls after it fail too */
    _Atomic uint32_t kinds;           /* 0: none; set last */
    _Atomic uint32_t frames;
    /* Where the first of them failed, innermost first: "attentiond+0x1a2b". */
    char frame[FAILING_FRAMES][FAILING_FRAME_SIZE];
};

#endif
