#ifndef NODECHECK_WITNESS_H
#define NODECHECK_WITNESS_H

#include <stdbool.h>

/* right() executes the instructions and tells whether they gave the known value. */
typedef struct {
    const char *name;
    bool (*right)(void);
} nc_witness_test;

/* Ends with a NULL name. */
extern const nc_witness_test nc_witness_tests[];

#endif
