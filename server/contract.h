/* SPDX-License-Identifier: Apache-2.0 */
/* openapi.yaml as it stood in the project's root when the daemon was built. */
#ifndef SERVER_CONTRACT_H
#define SERVER_CONTRACT_H

extern const char contract_begin[], contract_end[];

#endif
