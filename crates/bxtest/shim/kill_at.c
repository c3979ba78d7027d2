/* Counts what a program does to its files and sockets, and ends it, or fails one call, at a chosen one. Preloaded
 * into a daemon by the crash tests (cc -shared -fPIC -o kill_at.so kill_at.c -ldl); never part of what ships.
 *
 *   KILL_AT_ROOT  files below this folder are counted, under their path from there; sockets always are
 *   KILL_AT_SKIP  targets that hold one of these words, parted by commas, are not counted
 *   KILL_AT_LOG   each counted call is a line there: CALL TARGET NUMBER (its number among the same calls)
 *   KILL_AT       WHEN CALL TARGET NUMBER, parted by spaces, where WHEN is
 *                   before   killed with SIGKILL before the call
 *                   after    killed once it is done
 *                   half     killed when half of its bytes are written
 *                   ENOSPC, EIO, EPIPE, ECONNREFUSED   the call is not made and fails so
 *                 CALL and TARGET may be `any`: NUMBER is then among all counted calls that fit.
 *
 * What std calls is what is caught here; system calls made in another way are not seen. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define KINDS_MAX 512
#define NAME_MAX_BYTES 160

enum verdict { GO, BEFORE, AFTER, HALF, FAIL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[NAME_MAX_BYTES];
    long count;
} kinds[KINDS_MAX];
static int kinds_used;

static char root[PATH_MAX], skip[512], wanted_call[32], wanted_target[NAME_MAX_BYTES];
static enum verdict wanted;
static int wanted_errno, log_fd = -1;
static long wanted_number, fitting;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void)
{
    const char *text = getenv("KILL_AT_ROOT");
    if (text)
        snprintf(root, sizeof root, "%s", text);
    text = getenv("KILL_AT_SKIP");
    if (text)
        snprintf(skip, sizeof skip, "%s", text);
    text = getenv("KILL_AT_LOG");
    if (text)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    text = getenv("KILL_AT");
    char when[32] = "";
    if (text && sscanf(text, "%31s %31s %159s %ld", when, wanted_call, wanted_target, &wanted_number) == 4) {
        static const struct {
            const char *name;
            enum verdict verdict;
            int number;
        } known[] = {
            {"before", BEFORE, 0},      {"after", AFTER, 0},      {"half", HALF, 0},
            {"ENOSPC", FAIL, ENOSPC},   {"EIO", FAIL, EIO},       {"EPIPE", FAIL, EPIPE},
            {"ECONNREFUSED", FAIL, ECONNREFUSED},
        };
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strcmp(when, known[i].name)) {
                wanted = known[i].verdict;
                wanted_errno = known[i].number;
            }
    }
}

static void die(void)
{
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;)
        pause();
}

static int skipped(const char *target)
{
    char words[sizeof skip];
    snprintf(words, sizeof words, "%s", skip);
    char *rest = words, *word;
    while ((word = strsep(&rest, ",")))
        if (*word && strstr(target, word))
            return 1;
    return 0;
}

/* Counts one call; what is to become of it. A NULL target is not counted. */
static enum verdict count(const char *call, const char *target)
{
    if (!target || skipped(target))
        return GO;
    char line[NAME_MAX_BYTES + 64], name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s %s", call, target);
    enum verdict verdict = GO;
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < kinds_used && strcmp(kinds[at].name, name))
        at++;
    if (at == kinds_used && kinds_used < KINDS_MAX)
        strcpy(kinds[kinds_used++].name, name);
    long number = at < kinds_used ? ++kinds[at].count : 0;
    if (wanted != GO && (!strcmp(wanted_call, "any") || !strcmp(wanted_call, call)) &&
        (!strcmp(wanted_target, "any") || !strcmp(wanted_target, target)) && ++fitting == wanted_number)
        verdict = wanted;
    if (log_fd >= 0) {
        int length = snprintf(line, sizeof line, "%s %ld%s\n", name, number, verdict == GO ? "" : " HERE");
        syscall(SYS_write, log_fd, line, (size_t)length);
    }
    pthread_mutex_unlock(&lock);
    if (verdict == BEFORE)
        die();
    return verdict;
}

static const char *below_root(const char *path)
{
    size_t length = strlen(root);
    if (!length || strncmp(path, root, length) || path[length] != '/')
        return NULL;
    return path + length + 1;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The name of an address: `tcp`, or the file of a Unix socket. */
static const char *address_name(const struct sockaddr *address, socklen_t length, char *name, size_t size)
{
    if (!address || length < sizeof(sa_family_t))
        return NULL;
    if (address->sa_family == AF_INET || address->sa_family == AF_INET6)
        return "tcp";
    if (address->sa_family != AF_UNIX || length <= offsetof(struct sockaddr_un, sun_path))
        return NULL;
    size_t path = length - offsetof(struct sockaddr_un, sun_path);
    snprintf(name, size, "%.*s", (int)path, ((const struct sockaddr_un *)address)->sun_path);
    return *name ? last_part(name) : NULL;
}

/* The name of an open file or socket, or NULL when it is not counted. `name` has PATH_MAX bytes. */
static const char *fd_name(int fd, char *name)
{
    pthread_once(&once, set_up);
    struct stat found;
    if (fstat(fd, &found))
        return NULL;
    if (S_ISSOCK(found.st_mode)) {
        struct sockaddr_storage address;
        for (int theirs = 1; theirs >= 0; theirs--) {
            socklen_t length = sizeof address;
            int failed = theirs ? getpeername(fd, (struct sockaddr *)&address, &length)
                                : getsockname(fd, (struct sockaddr *)&address, &length);
            const char *text =
                failed ? NULL : address_name((struct sockaddr *)&address, length, name, PATH_MAX);
            if (text)
                return text;
        }
        return NULL;
    }
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return NULL;
    path[length] = 0;
    const char *below = below_root(path);
    if (!below)
        return NULL;
    return strcpy(name, below);
}

static const char *path_name(const char *path)
{
    pthread_once(&once, set_up);
    return below_root(path);
}

#define REAL(result, name, ...)                                                                                        \
    static result (*real)(__VA_ARGS__);                                                                                \
    if (!real)                                                                                                         \
        real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define ACT(call, target, bytes_call, whole_call)                                                                      \
    int before_errno = errno;                                                                                          \
    enum verdict verdict = count(call, target);                                                                        \
    errno = before_errno;                                                                                              \
    if (verdict == FAIL) {                                                                                             \
        errno = wanted_errno;                                                                                          \
        return -1;                                                                                                     \
    }                                                                                                                  \
    if (verdict == HALF) {                                                                                             \
        (void)!(bytes_call);                                                                                           \
        die();                                                                                                         \
    }                                                                                                                  \
    __typeof__(whole_call) result = (whole_call);                                                                      \
    if (verdict == AFTER)                                                                                              \
        die();                                                                                                         \
    return result

ssize_t write(int fd, const void *bytes, size_t length)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    char name[PATH_MAX];
    ACT("write", fd_name(fd, name), real(fd, bytes, length / 2), real(fd, bytes, length));
}

ssize_t writev(int fd, const struct iovec *parts, int number)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    char name[PATH_MAX];
    ACT("write", fd_name(fd, name), real(fd, parts, number / 2), real(fd, parts, number));
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    char name[PATH_MAX];
    ACT("write", fd_name(fd, name), real(fd, bytes, length / 2, at), real(fd, bytes, length, at));
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    char name[PATH_MAX];
    ACT("write", fd_name(fd, name), real(fd, bytes, length / 2, at), real(fd, bytes, length, at));
}

int fsync(int fd)
{
    REAL(int, "fsync", int);
    char name[PATH_MAX];
    ACT("fsync", fd_name(fd, name), 0, real(fd));
}

int fdatasync(int fd)
{
    REAL(int, "fdatasync", int);
    char name[PATH_MAX];
    ACT("fsync", fd_name(fd, name), 0, real(fd));
}

int ftruncate64(int fd, off64_t length)
{
    REAL(int, "ftruncate64", int, off64_t);
    char name[PATH_MAX];
    ACT("truncate", fd_name(fd, name), 0, real(fd, length));
}

int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    ACT("rename", path_name(to), 0, real(from, to));
}

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    ACT("unlink", path_name(path), 0, real(path));
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    REAL(int, "connect", int, const struct sockaddr *, socklen_t);
    char name[PATH_MAX];
    pthread_once(&once, set_up);
    ACT("connect", address_name(address, length, name, sizeof name), 0, real(fd, address, length));
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    REAL(ssize_t, "send", int, const void *, size_t, int);
    char name[PATH_MAX];
    ACT("send", fd_name(fd, name), real(fd, bytes, length / 2, flags), real(fd, bytes, length, flags));
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
    REAL(ssize_t, "sendto", int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    char name[PATH_MAX];
    const char *target = to ? (pthread_once(&once, set_up), address_name(to, size, name, sizeof name)) : fd_name(fd, name);
    ACT("send", target, real(fd, bytes, length / 2, flags, to, size), real(fd, bytes, length, flags, to, size));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(ssize_t, "sendmsg", int, const struct msghdr *, int);
    char name[PATH_MAX];
    ACT("send", fd_name(fd, name), 0, real(fd, message, flags));
}
