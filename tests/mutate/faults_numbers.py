# SPDX-License-Identifier: Apache-2.0
"""Faults in numbers as text, both ways; rows as in faults_arithmetic.py."""
DIGITS = "server/numbers/number_digits.h"
ROW = "server/numbers/number_row.c"
ARRAY = "server/numbers/number_array.c"
DECIMAL = "server/numbers/number_decimal.c"
ROUND = "server/numbers/number_round.h"
SHARED = "server/numbers/number_shared.c"
SKIP = "server/numbers/number_skip.c"

FAULTS = [
    ("digits: a colon is one", DIGITS, "_mm_set1_epi8(127 - '9')", "_mm_set1_epi8(127 - ':')",
     "a colon seldom follows a digit"),
    ("digits: a slash is one", DIGITS, "_mm_set1_epi8(127 - 10)", "_mm_set1_epi8(127 - 11)",
     "a slash seldom follows a digit"),
    ("digits: sixteen are fifteen", DIGITS, "if (count < 16)", "if (count <= 16)",
     "numbers are seldom so long"),
    ("digits: what stands before them counts", DIGITS,
     "number_join16(_mm_and_si128(last, mask))", "number_join16(last)", "sixteen digits are right"),
    ("digits: twenty-four are few", DIGITS,
     "return marks == 0 ? NULL : p + 16 + number_append8(mantissa, digits, marks);",
     "return p + 16 + (marks == 0 ? 8 : number_append8(mantissa, digits, marks));",
     "nobody writes so many"),
    ("numbers: the text's begin is not looked at", ROW,
     "p - walk->text >= NUMBER_DIGITS_BEFORE && ", "", "memory there can be read"),
    ("numbers: more digits than a mantissa has", ROW,
     "first + NUMBER_MANTISSA_DIGITS + 1 - fraction",
     "first + NUMBER_MANTISSA_DIGITS + 4 - fraction", "the last digits hardly count"),
    ("numbers: a fraction may lack digits", ROW, "(size_t)(p - fraction) - 1 >=",
     "(size_t)(p - fraction) >", "it has a value"),
    ("numbers: any mantissa is exact", ROW,
     "return plain->mantissa <= UINT64_C(1) << 53;", "return true;", "off by half a unit at most"),
    ("numbers: halfway is rounded twice", ROW, "if ((*bits & 0x1fffffff) == 0x10000000)",
     "if ((*bits & 0x1fffffff) == 0x10000001)", "one number of half a billion"),
    ("numbers: a leading zero is let in", ROW,
     "(plain->mantissa == 0 && (marks & 0x80) == 0)", "false", "the value is right"),
    ("numbers: what follows without white space", ROW,
     "(unsigned char)after[1] > ' '", "true", "white space is passed over anyway"),
    ("numbers: an integer may have a point", ROW, "return plain->integer;", "return true;",
     "the value is nearly right"),
    ("numbers: what is near halfway is sure", ROUND,
     "if (rest - half + 1 < 2 && product.low + 4 < 5)", "if (false)", "one number of many"),
    ("numbers: what a mantissa leaves out is nothing", DECIMAL, "decimal->truncated |= *p != '0';",
     "", "it is a unit of the twentieth digit"),
    ("numbers: brackets in strings count", SKIP,
     "if (any(counts.quotes) || !follow_depth(p, &scan->depth))",
     "if (!follow_depth(p, &scan->depth))", "strings seldom have any"),
    ("numbers: a row may be longer", ARRAY,
     "if (walk->shape[axis] != walk->count[axis])", "if (walk->shape[axis] > walk->count[axis])",
     "short ones are refused"),
    ("numbers: arrays of a piece end anywhere", SHARED, "!endings->regular ||", "",
     "as many end as should"),
]
