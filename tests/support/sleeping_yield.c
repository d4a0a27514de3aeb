/* A yield that sleeps. Ranks that wait yield the processor again and again; where there are more ranks than cores,
   a process that computes beside them would have it from each yield to the end of its slice, some milliseconds.
   Preloaded, this lets them wait as a sleeping process does, which is woken when its time has come. */
#include <time.h>

int sched_yield(void)
{
    const struct timespec least = {0, 1000};
    nanosleep(&least, 0);
    return 0;
}
