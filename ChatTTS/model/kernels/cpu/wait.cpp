// The wait alone, which compiles in a moment, for a machine whose GPU computes everything.
#include "wait.h"
