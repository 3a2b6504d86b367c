/* A file system that answers some calls with an error, for a process that is started with this in LD_PRELOAD.

   SHIM_RULES: CALL=ERRNO[@FIRST[+COUNT]], separated by commas. CALL is flock, link, fsync, fsyncdir, rename, unlink,
   ftruncate, mkdir, open or write; the error comes at the FIRST such call (1 by default) and COUNT times (for ever by default).
   SHIM_UNDER: only what is below this directory is spoiled. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int below(const char *path) {
    const char *under = getenv("SHIM_UNDER");
    return !under || !strncmp(path, under, strlen(under));
}

static int descriptor_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static int name_below(int directory, const char *name) {
    return name[0] == '/' || directory == AT_FDCWD ? below(name) : descriptor_below(directory);
}

static struct { char call[16]; int seen; } counts[32];

static int spoiled(const char *call) {
    const char *rules = getenv("SHIM_RULES");
    if (!rules) return 0;
    char copy[1024], *rest = copy, *rule;
    strncpy(copy, rules, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    while ((rule = strsep(&rest, ","))) {
        int code = 0, first = 1, count = 0;
        size_t length = strlen(call);
        if (strncmp(rule, call, length) || rule[length] != '=') continue;
        sscanf(rule + length + 1, "%d@%d+%d", &code, &first, &count);
        int at = 0;
        while (counts[at].call[0] && strcmp(counts[at].call, call)) at++;
        strncpy(counts[at].call, call, sizeof counts[at].call - 1);
        int seen = ++counts[at].seen;
        if (seen >= first && (!count || seen < first + count)) { errno = code; return 1; }
    }
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int flock(int fd, int operation) {
    if (descriptor_below(fd) && spoiled("flock")) return -1;
    return REAL(flock)(fd, operation);
}
int fsync(int fd) {
    struct stat status;
    if (descriptor_below(fd) && !fstat(fd, &status) && spoiled(S_ISDIR(status.st_mode) ? "fsyncdir" : "fsync")) return -1;
    return REAL(fsync)(fd);
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
    if (name_below(to, new) && spoiled("link")) return -1;
    return REAL(linkat)(from, old, to, new, flags);
}
int renameat(int from, const char *old, int to, const char *new) {
    if (name_below(to, new) && spoiled("rename")) return -1;
    return REAL(renameat)(from, old, to, new);
}
int rename(const char *old, const char *new) {
    if (below(new) && spoiled("rename")) return -1;
    return REAL(rename)(old, new);
}
int unlinkat(int directory, const char *name, int flags) {
    if (name_below(directory, name) && spoiled("unlink")) return -1;
    return REAL(unlinkat)(directory, name, flags);
}
int unlink(const char *name) {
    if (below(name) && spoiled("unlink")) return -1;
    return REAL(unlink)(name);
}
int mkdir(const char *path, mode_t mode) {
    if (below(path) && spoiled("mkdir")) return -1;
    return REAL(mkdir)(path, mode);
}
int mkdirat(int directory, const char *name, mode_t mode) {
    if (name_below(directory, name) && spoiled("mkdir")) return -1;
    return REAL(mkdirat)(directory, name, mode);
}
int ftruncate64(int fd, off64_t length) {
    if (descriptor_below(fd) && spoiled("ftruncate")) return -1;
    return REAL(ftruncate64)(fd, length);
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
ssize_t write(int fd, const void *data, size_t size) {
    if (descriptor_below(fd) && spoiled("write")) return -1;
    return REAL(write)(fd, data, size);
}
int openat64(int directory, const char *name, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (name_below(directory, name) && spoiled(flags & O_CREAT ? "create" : "open")) return -1;
    return REAL(openat64)(directory, name, flags, mode);
}
int open64(const char *name, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (below(name) && spoiled(flags & O_CREAT ? "create" : "open")) return -1;
    return REAL(open64)(name, flags, mode);
}
int open(const char *name, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return open64(name, flags, mode);
}
int openat(int directory, const char *name, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return openat64(directory, name, flags, mode);
}
