// The number of the calling thread, with or without OpenMP.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

namespace petacomm {

inline int thread_number() {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

}  // namespace petacomm
