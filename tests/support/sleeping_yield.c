/* A yield that sleeps where others compute. Ranks that wait yield the processor again and again; where there are more
   ranks than cores, a process that computes beside them has it from each yield to the end of its slice, some
   milliseconds. Preloaded, this has a rank to which that has happened wait as a sleeping process does, which is woken
   when its time has come; beside ranks that wait alike, yields are quicker. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LONG_NS = 1000000, N_SLEEPS = 200 };

static _Thread_local int sleeps_left;

static long long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int sched_yield(void)
{
    const struct timespec shortest = {0, 1000};
    if (sleeps_left > 0) {
        --sleeps_left;
        nanosleep(&shortest, 0);
        return 0;
    }
    const long long begin = nanoseconds();
    const long result = syscall(SYS_sched_yield);
    if (nanoseconds() - begin > LONG_NS)
        sleeps_left = N_SLEEPS;
    return (int)result;
}
