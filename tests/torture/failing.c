/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD library that makes calls of the C library fail in one program: the n-th of the chosen
 * kinds, or that and all after it. FAILING_PAGE names the file with the struct failing_page that
 * directs it, FAILING_PROGRAM the program's file name; others that inherit the variables are left
 * alone. Nothing fails before main(). Blocks are counted always, so that a leak shows as a number.
 */
#include "tests/torture/failing.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FUNCTIONS(_)  \
    _(malloc)         \
    _(calloc)         \
    _(realloc)        \
    _(reallocarray)   \
    _(posix_memalign) \
    _(aligned_alloc)  \
    _(memalign)       \
    _(free)           \
    _(mmap)           \
    _(accept4)        \
    _(recv)           \
    _(recvmsg)        \
    _(send)           \
    _(sendmsg)        \
    _(writev)         \
    _(sendfile)       \
    _(read)           \
    _(write)          \
    _(open)           \
    _(fopen)          \
    _(pthread_create) \
    _(epoll_create1)  \
    _(epoll_ctl)      \
    _(epoll_wait)     \
    _(poll)           \
    _(socket)         \
    _(bind)           \
    _(listen)         \
    _(eventfd)

/* clang-format off */
static struct {
#define FIELD(name) __typeof__(&name) name##_;
    FUNCTIONS(FIELD)
    bool known;
} real;
/* clang-format on */

static struct failing_page nowhere, *page = &nowhere;

/* dlsym() may allocate before malloc() is known. */
static _Alignas(16) char early[4096];
static size_t early_used;

static __attribute__((tls_model("initial-exec"))) _Thread_local bool inside;

static void find(const char *name, void *place) {
    void *const function = dlsym(RTLD_NEXT, name);
    memcpy(place, &function, sizeof function);
}

static void find_all(void) {
    static bool finding;
    if (finding)
        return;
    finding = true;
#define FIND(name) find(#name, &real.name##_);
    FUNCTIONS(FIND)
    real.known = true;
}

static bool is_early(const void *memory) {
    return (const char *)memory >= early && (const char *)memory < early + sizeof early;
}

/* Memory from the small store, or NULL when the real functions are known by now. */
static void *take_early(size_t bytes) {
    if (!real.known)
        find_all();
    if (real.known)
        return NULL;
    void *const memory = early + early_used;
    early_used += (bytes + 15) / 16 * 16;
    if (early_used > sizeof early)
        abort();
    return memory;
}

/* Only the first: what failed after it is its consequence. */
static void note_frames(void) {
    void *addresses[FAILING_FRAMES + 2];
    inside = true;
    const int count = backtrace(addresses, FAILING_FRAMES + 2);
    for (int i = 2; i < count; i++) {
        Dl_info info;
        char *const text = page->frame[i - 2];
        text[0] = '\0';
        if (dladdr(addresses[i], &info) == 0)
            continue;
        const char *const slash = strrchr(info.dli_fname, '/');
        snprintf(text, FAILING_FRAME_SIZE, "%.44s+0x%zx",
                 slash == NULL ? info.dli_fname : slash + 1,
                 (size_t)((const char *)addresses[i] - (const char *)info.dli_fbase));
    }
    atomic_store(&page->frames, count > 2 ? (uint32_t)count - 2 : 0);
    inside = false;
}

/* Whether this call is to fail, with errno set. If not, the real function is known. */
static bool fails(enum failing_kind kind) {
    if (!real.known)
        find_all();
    if (inside || (atomic_load(&page->kinds) & (uint32_t)kind) == 0)
        return false;
    const uint64_t number = atomic_fetch_add(&page->counted, 1) + 1;
    if (number < page->first || page->first == 0 || (number > page->first && page->persists == 0))
        return false;
    if (atomic_fetch_add(&page->failed, 1) == 0)
        note_frames();
    errno = page->error;
    return true;
}

static bool is_short(void) {
    return page->error == FAILING_SHORT;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

/* ---- memory ---- */

static void *counted(void *memory) {
    if (memory != NULL)
        atomic_fetch_add_explicit(&page->live, 1, memory_order_relaxed);
    return memory;
}

void *malloc(size_t bytes) {
    void *const memory = real.known ? NULL : take_early(bytes);
    if (memory != NULL)
        return memory;
    return fails(FAILING_MEMORY) ? NULL : counted(real.malloc_(bytes));
}

void *calloc(size_t count, size_t bytes) {
    void *const memory = real.known ? NULL : take_early(count * bytes);
    if (memory != NULL)
        return memory;
    return fails(FAILING_MEMORY) ? NULL : counted(real.calloc_(count, bytes));
}

void *realloc(void *old, size_t bytes) {
    if (fails(FAILING_MEMORY))
        return NULL;
    void *const memory = real.realloc_(old, bytes);
    if (old == NULL)
        return counted(memory);
    if (bytes == 0 && memory == NULL)
        atomic_fetch_sub_explicit(&page->live, 1, memory_order_relaxed);
    return memory;
}

void *reallocarray(void *old, size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, all);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    if (fails(FAILING_MEMORY))
        return page->error;
    const int error = real.posix_memalign_(memory, alignment, bytes);
    if (error == 0)
        counted(*memory);
    return error;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails(FAILING_MEMORY) ? NULL : counted(real.aligned_alloc_(alignment, bytes));
}

void *memalign(size_t alignment, size_t bytes) {
    return fails(FAILING_MEMORY) ? NULL : counted(real.memalign_(alignment, bytes));
}

void free(void *memory) {
    if (memory == NULL || is_early(memory))
        return;
    if (!real.known)
        find_all();
    atomic_fetch_sub_explicit(&page->live, 1, memory_order_relaxed);
    real.free_(memory);
}

void *mmap(void *place, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (fails(FAILING_MEMORY))
        return MAP_FAILED;
    return real.mmap_(place, bytes, protection, flags, file, offset);
}

/* ---- bytes ---- */

/* The result of a call that moves `bytes` bytes: an error, or that of a call that moves one. */
#define MOVE(kind, bytes, call) \
    do {                        \
        if (fails(kind)) {      \
            if (!is_short())    \
                return -1;      \
            if ((bytes) > 1)    \
                (bytes) = 1;    \
        }                       \
        return call;            \
    } while (0)

ssize_t recv(int file, void *data, size_t bytes, int flags) {
    MOVE(FAILING_RECEIVE, bytes, real.recv_(file, data, bytes, flags));
}

ssize_t send(int file, const void *data, size_t bytes, int flags) {
    MOVE(FAILING_SEND, bytes, real.send_(file, data, bytes, flags));
}

ssize_t read(int file, void *data, size_t bytes) {
    MOVE(FAILING_READ, bytes, real.read_(file, data, bytes));
}

ssize_t write(int file, const void *data, size_t bytes) {
    MOVE(FAILING_WRITE, bytes, real.write_(file, data, bytes));
}

ssize_t sendfile(int to, int from, off_t *offset, size_t bytes) {
    MOVE(FAILING_SEND, bytes, real.sendfile_(to, from, offset, bytes));
}

/* The first byte of a list of pieces. */
static struct iovec first_byte(const struct iovec *pieces, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (pieces[i].iov_len > 0)
            return (struct iovec){pieces[i].iov_base, 1};
    return (struct iovec){NULL, 0};
}

ssize_t writev(int file, const struct iovec *pieces, int count) {
    if (!fails(FAILING_SEND))
        return real.writev_(file, pieces, count);
    const struct iovec piece = first_byte(pieces, (size_t)count);
    return is_short() ? real.writev_(file, &piece, 1) : -1;
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    if (!fails(FAILING_SEND))
        return real.sendmsg_(file, message, flags);
    struct iovec piece = first_byte(message->msg_iov, message->msg_iovlen);
    struct msghdr little = *message;
    little.msg_iov = &piece;
    little.msg_iovlen = 1;
    return is_short() ? real.sendmsg_(file, &little, flags) : -1;
}

ssize_t recvmsg(int file, struct msghdr *message, int flags) {
    if (!fails(FAILING_RECEIVE))
        return real.recvmsg_(file, message, flags);
    if (!is_short())
        return -1;
    struct iovec piece = first_byte(message->msg_iov, message->msg_iovlen);
    struct msghdr little = *message;
    little.msg_iov = &piece;
    little.msg_iovlen = 1;
    const ssize_t taken = real.recvmsg_(file, &little, flags);
    message->msg_namelen = little.msg_namelen;
    message->msg_controllen = little.msg_controllen;
    message->msg_flags = little.msg_flags;
    return taken;
}

/* ---- the rest ---- */

int accept4(int file, __SOCKADDR_ARG address, socklen_t *size, int flags) {
    return fails(FAILING_ACCEPT) ? -1 : real.accept4_(file, address, size, flags);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) == 0 ? 0 : va_arg(more, mode_t);
    va_end(more);
    return fails(FAILING_OPEN) ? -1 : real.open_(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return fails(FAILING_OPEN) ? NULL : real.fopen_(path, mode);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    if (fails(FAILING_THREAD))
        return page->error;
    return real.pthread_create_(thread, attributes, run, argument);
}

int epoll_create1(int flags) {
    return fails(FAILING_EPOLL) ? -1 : real.epoll_create1_(flags);
}

int epoll_ctl(int epoll, int operation, int file, struct epoll_event *event) {
    /* The system never refuses to take one off the list. */
    if (operation != EPOLL_CTL_DEL && fails(FAILING_EPOLL))
        return -1;
    if (!real.known)
        find_all();
    return real.epoll_ctl_(epoll, operation, file, event);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
    return fails(FAILING_POLL) ? -1 : real.epoll_wait_(epoll, events, most, timeout);
}

int poll(struct pollfd *files, nfds_t count, int timeout) {
    return fails(FAILING_POLL) ? -1 : real.poll_(files, count, timeout);
}

int socket(int domain, int type, int protocol) {
    return fails(FAILING_SOCKET) ? -1 : real.socket_(domain, type, protocol);
}

int bind(int file, __CONST_SOCKADDR_ARG address, socklen_t size) {
    return fails(FAILING_SOCKET) ? -1 : real.bind_(file, address, size);
}

int listen(int file, int most) {
    return fails(FAILING_SOCKET) ? -1 : real.listen_(file, most);
}

int eventfd(unsigned value, int flags) {
    return fails(FAILING_SOCKET) ? -1 : real.eventfd_(value, flags);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- the program's start ---- */

typedef int main_function(int argc, char **argv, char **environment);
typedef int start_function(main_function *main, int argc, char **argv, void (*before)(void),
                           void (*after)(void), void (*at_exit)(void), void *stack);
start_function __libc_start_main;

static void open_page(const char *path) {
    const int file = path == NULL ? -1 : real.open_(path, O_RDWR | O_CLOEXEC);
    void *const shared =
        file < 0 ? MAP_FAILED
                 : real.mmap_(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) {
        fputs("failing: FAILING_PAGE names no page\n", stderr);
        abort();
    }
    close(file);
    struct failing_page *const opened = shared;
    atomic_store(&opened->live, atomic_load(&nowhere.live));
    page = opened;
}

/* Everything that a library does before main() is behind us. */
int __libc_start_main(main_function *main, int argc, char **argv, void (*before)(void),
                      void (*after)(void), void (*at_exit)(void), void *stack) {
    start_function *start;
    const char *const program = getenv("FAILING_PROGRAM");
    const char *const slash = strrchr(argv[0], '/');
    find("__libc_start_main", &start);
    if (!real.known)
        find_all();
    if (program != NULL && strcmp(slash == NULL ? argv[0] : slash + 1, program) == 0) {
        void *address;
        backtrace(&address, 1); /* loads what it needs */
        open_page(getenv("FAILING_PAGE"));
    }
    return start(main, argc, argv, before, after, at_exit, stack);
}
