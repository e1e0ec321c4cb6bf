/* A library to preload: lets the k-th call that changes files below a directory fail.
 *
 * Calls are counted from `failing_calls_arm`; only those on paths that contain its text, and on the
 * descriptors that were opened there, count, but not those of the lock of a directory. `failing_calls_count` tells how many there were.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char directory[4096];
static atomic_int fails_at, error_number, calls, watched[65536];
static char last[32];

void failing_calls_arm(const char *where, int call, int error)
{
    strncpy(directory, where, sizeof directory - 1);
    fails_at = call;
    error_number = error;
    calls = 0;
}

int failing_calls_count(void) { return calls; }
const char *failing_calls_name(void) { return last; }

static int is_inside(const char *path) { return directory[0] && path && strstr(path, directory); }
static int is_watched(int fd) { return fd >= 0 && fd < 65536 && watched[fd]; }

static int fails(const char *name)
{
    if (++calls != fails_at)
        return 0;
    strncpy(last, name, sizeof last - 1);
    errno = error_number;
    return 1;
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...)                                            \
    {                                                                                     \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        int mode = va_arg(rest, int);                                                     \
        va_end(rest);                                                                     \
        int inside = is_inside(path) && !(flags & O_DIRECTORY);                           \
        if (inside && fails(#name))                                                       \
            return -1;                                                                    \
        int fd = REAL(name, int (*)(const char *, int, int))(path, flags, mode);          \
        if (fd >= 0 && fd < 65536)                                                        \
            watched[fd] = inside;                                                         \
        return fd;                                                                        \
    }
OPEN(open)
OPEN(open64)

#define ON_DESCRIPTOR(type, name, parameters, arguments, types)                           \
    type name parameters                                                                  \
    {                                                                                     \
        if (is_watched(fd) && fails(#name))                                               \
            return -1;                                                                    \
        return REAL(name, type(*) types) arguments;                                       \
    }
ON_DESCRIPTOR(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n),
              (int, const void *, size_t))
ON_DESCRIPTOR(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at),
              (int, const void *, size_t, off_t))
ON_DESCRIPTOR(ssize_t, pwrite64, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at),
              (int, const void *, size_t, off_t))
ON_DESCRIPTOR(int, fsync, (int fd), (fd), (int))
ON_DESCRIPTOR(int, fdatasync, (int fd), (fd), (int))
ON_DESCRIPTOR(int, ftruncate, (int fd, off_t size), (fd, size), (int, off_t))
ON_DESCRIPTOR(int, ftruncate64, (int fd, off_t size), (fd, size), (int, off_t))

int close(int fd) /* closes in any case, as Linux does */
{
    int failed = is_watched(fd) && fails("close");
    int number = errno;
    if (fd >= 0 && fd < 65536)
        watched[fd] = 0;
    int result = REAL(close, int (*)(int))(fd);
    if (!failed)
        return result;
    errno = number;
    return -1;
}

int rename(const char *from, const char *to)
{
    if (is_inside(to) && fails("rename"))
        return -1;
    return REAL(rename, int (*)(const char *, const char *))(from, to);
}
