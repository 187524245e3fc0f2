/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build-time generator of the colours that maps are drawn in. Prints C initialisers, a list of
 * {red, green, blue} per ramp, for server/codecs/codec_png_ramps.c. Refuses nothing: it takes no
 * input.
 *
 * A ramp goes through anchors in Oklab (lightness, chroma, hue). It is cut into steps of equal
 * length there, which is how different they look; its lightness falls all the way, so that order
 * shows in grey and to the colour-blind.
 */
#include <math.h>
#include <stdio.h>

enum { LEVELS = 241, FINE = 4096 };

struct anchor {
    double lightness, chroma, hue; /* of Oklab; hue in degrees */
};
struct lab {
    double l, a, b;
};

/* Paper to ink: straw, green, teal, blue, violet. */
static const struct anchor SEQUENTIAL[] = {
    {0.985, 0.015, 95}, {0.90, 0.085, 125}, {0.80, 0.115, 160}, {0.68, 0.105, 195},
    {0.55, 0.115, 240}, {0.42, 0.135, 270}, {0.30, 0.115, 283}, {0.20, 0.06, 290},
};
/* From the middle of a diverging ramp outwards; blue and orange differ to every eye. */
static const struct anchor BELOW[] = {
    {0.975, 0.004, 245}, {0.90, 0.04, 240}, {0.76, 0.095, 245},
    {0.60, 0.125, 252},  {0.45, 0.12, 260}, {0.28, 0.085, 267},
};
static const struct anchor ABOVE[] = {
    {0.975, 0.004, 70}, {0.90, 0.05, 70},  {0.78, 0.115, 62},
    {0.63, 0.145, 48},  {0.47, 0.135, 38}, {0.29, 0.08, 30},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The colour at a place from 0 to 1 on straight lines between the anchors. */
static struct lab colour_at(const struct anchor *anchors, size_t count, double place) {
    const double x = place * (double)(count - 1);
    const size_t left = x >= (double)(count - 1) ? count - 2 : (size_t)x;
    const struct anchor *from = &anchors[left], *to = from + 1;
    const double part = x - (double)left;
    const double chroma = from->chroma + part * (to->chroma - from->chroma);
    const double hue = (from->hue + part * (to->hue - from->hue)) * 0.017453292519943295;
    return (struct lab){from->lightness + part * (to->lightness - from->lightness),
                        chroma * cos(hue), chroma * sin(hue)};
}

static double distance(struct lab x, struct lab y) {
    return sqrt((x.l - y.l) * (x.l - y.l) + (x.a - y.a) * (x.a - y.a) + (x.b - y.b) * (x.b - y.b));
}

/* 0 to 255 of a linear part of sRGB. */
static int encoded(double linear) {
    const double part = linear < 0 ? 0 : linear > 1 ? 1 : linear;
    const double coded = part <= 0.0031308 ? 12.92 * part : 1.055 * pow(part, 1 / 2.4) - 0.055;
    return (int)lround(255 * coded);
}

static void print_colour(struct lab c) {
    const double l = pow(c.l + 0.3963377774 * c.a + 0.2158037573 * c.b, 3);
    const double m = pow(c.l - 0.1055613458 * c.a - 0.0638541728 * c.b, 3);
    const double s = pow(c.l - 0.0894841775 * c.a - 1.2914855480 * c.b, 3);
    printf("{%d, %d, %d},\n", encoded(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
           encoded(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
           encoded(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

/* Colours first, first + step, ... of `levels` at equal distances from each other. */
static void print_ramp(const struct anchor *anchors, size_t count, int levels, int first,
                       int step) {
    static double length[FINE + 1];
    for (int i = 1; i <= FINE; i++)
        length[i] = length[i - 1] + distance(colour_at(anchors, count, (i - 1) / (double)FINE),
                                             colour_at(anchors, count, i / (double)FINE));
    for (int level = first; level >= 0 && level < levels; level += step) {
        const double wanted = length[FINE] * level / (levels - 1);
        int i = 0;
        while (i < FINE - 1 && length[i + 1] < wanted)
            i++;
        const double part = (wanted - length[i]) / (length[i + 1] - length[i]);
        print_colour(colour_at(anchors, count, (i + part) / FINE));
    }
}

int main(void) {
    const int arm = LEVELS / 2 + 1;
    printf("{\n");
    print_ramp(SEQUENTIAL, COUNT(SEQUENTIAL), LEVELS, 0, 1);
    printf("},\n{\n");
    print_ramp(BELOW, COUNT(BELOW), arm, arm - 1, -1);
    print_ramp(ABOVE, COUNT(ABOVE), arm, 1, 1);
    printf("},\n");
    return 0;
}
