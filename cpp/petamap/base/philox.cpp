// The kernels have no state; this file gives the library its first object.
#include "petamap/base/philox.h"
