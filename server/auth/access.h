/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use a route: a column of the route table, and bits of a key. */
#ifndef SERVER_AUTH_ACCESS_H
#define SERVER_AUTH_ACCESS_H

enum access {
    ACCESS_PROBE,  /* everyone, under any name, and at the operators' addresses too */
    ACCESS_PUBLIC, /* everyone */
    ACCESS_KEY,    /* whoever has a key */
/* who has a key of this scope */
#define SCOPE(id, name, sentence) ACCESS_##id,
#include "server/auth/scopes.def"
#undef SCOPE
    ACCESS_COUNT
};

enum { ACCESS_FIRST_SCOPE = ACCESS_KEY + 1 };

#endif
