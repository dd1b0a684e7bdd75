/* Preloaded, it kills the process that opens a file whose path ends with $CRASH_ON_OPEN: a probe
 * that dies while it reads. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int opened(const char *name, const char *path, int flags, va_list more) {
    const char *end = getenv("CRASH_ON_OPEN");
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);

    if (end && strlen(path) >= strlen(end) && strcmp(path + strlen(path) - strlen(end), end) == 0)
        abort();
    return real(path, flags, va_arg(more, int));
}

int open(const char *path, int flags, ...) {
    va_list more;
    int descriptor;

    va_start(more, flags);
    descriptor = opened("open", path, flags, more);
    va_end(more);
    return descriptor;
}

int open64(const char *path, int flags, ...) {
    va_list more;
    int descriptor;

    va_start(more, flags);
    descriptor = opened("open64", path, flags, more);
    va_end(more);
    return descriptor;
}
