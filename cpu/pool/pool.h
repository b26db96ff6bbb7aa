/* Floor 3: threads of one call. A team lives as long as the call. */
#ifndef TERP_CPU_TEAM_H
#define TERP_CPU_TEAM_H

#include <stdint.h>

struct cpu_team;

/* Does items [first, end) of a task as member `id` of the team, which calls it
 * for any number of ranges. */
typedef void
cpu_task(void *arg, int id, uint64_t first, uint64_t end);

/* A team of at most `nthreads`; the calling thread is member 0. Members that
 * the system refuses are done without, so this never fails; NULL is a team
 * of one. Released by cpu_team_free. */
struct cpu_team *
cpu_team_make(int nthreads);

void
cpu_team_free(struct cpu_team *team);

int
cpu_team_nmembers(const struct cpu_team *team);

/* Splits `nitems` into contiguous ranges, which members take in order as they
 * come to them, and returns when all are done. Fewer than `min_nitems` are
 * done by the caller. */
void
cpu_team_run(struct cpu_team *team, cpu_task *task, void *arg, uint64_t nitems,
             uint64_t min_nitems);

#endif
