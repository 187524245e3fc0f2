/* SPDX-License-Identifier: Apache-2.0 */
/* The end of every sentence about a body that was changed on its way. */
#ifndef SERVER_SEND_BINARY_H
#define SERVER_SEND_BINARY_H

#define SEND_BINARY                                                                              \
    "A program that sends a file must keep its bytes: with curl by --data-binary @file, for -d " \
    "drops line ends and NUL bytes."

#endif
