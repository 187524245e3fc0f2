/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process that lies in RAM, in MiB. */
#ifndef BENCH_RESIDENT_H
#define BENCH_RESIDENT_H

/* What it has now; the most that it has had since is counted from here. */
double resident_begin(void);
double resident_most(void);

#endif
