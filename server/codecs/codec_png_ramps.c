/* SPDX-License-Identifier: Apache-2.0 */
/* The colours of maps; made at build time by tools/generate_ramps.c. */
#include "server/codecs/codec_png_colour.h"

const unsigned char png_ramps[PNG_RAMPS][PNG_LEVELS][3] = {
#include "ramps.inc"
};
