/* SPDX-License-Identifier: Apache-2.0 */
/* The assembler puts the file into the program; the Makefile makes this depend on it. */
#include "server/contract.h"

__asm__(".section .rodata\n"
        ".global contract_begin\n"
        ".global contract_end\n"
        "contract_begin:\n"
        ".incbin \"openapi.yaml\"\n"
        "contract_end:\n"
        ".byte 0\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");
