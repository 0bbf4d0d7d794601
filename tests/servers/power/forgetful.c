// A file system that could still forget: loaded in front of libc, it notes what every write, truncation, creation,
// renaming and removal below $FORGETFUL_ROOT replaces, and what every sync makes durable. After the process was
// killed, `undo.rs` takes back what no sync covered, as a loss of power would.
//
// The log and the links to files are kept in $FORGETFUL_SIDE, on the same file system. A note is made before the
// call it is about: one that never happened is taken back without effect. A sync covers what was noted before it
// began. Not seen: system calls that bypass libc, and writes through mmap.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

// All numbers little-endian; the paths and the old bytes follow.
struct note { uint64_t kind, number, inode, other, offset, size, covers, from_length, to_length, old_length; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers;
static int log_file = -1;

static int is_ours(const char *path) {
  const char *root = getenv("FORGETFUL_ROOT");
  return root && path[0] == '/' && strncmp(path, root, strlen(root)) == 0;
}

static int path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_ours(path);
}

static void put(struct note note, const char *from, const char *to, const void *old) {
  if (log_file < 0) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/log", getenv("FORGETFUL_SIDE"));
    log_file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  note.number = ++numbers;
  note.from_length = strlen(from), note.to_length = strlen(to);
  struct iovec parts[] = {{&note, sizeof note}, {(void *)from, note.from_length}, {(void *)to, note.to_length},
                          {(void *)old, note.old_length}};
  if (syscall(SYS_writev, log_file, parts, 4) < 0) abort();
}

// Keeps the file within reach of the undo, whatever becomes of its names; gives its inode, 0 if there is none.
static uint64_t hold(const char *path) {
  struct stat found;
  char kept[PATH_MAX];
  if (lstat(path, &found) || !S_ISREG(found.st_mode)) return 0;
  snprintf(kept, sizeof kept, "%s/%lu", getenv("FORGETFUL_SIDE"), found.st_ino);
  if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0) && errno != EEXIST) abort();
  return found.st_ino;
}

// Notes the bytes that [offset, offset + length) of the file replaces, and its size.
static void note_old(const char *path, uint64_t offset, uint64_t length) {
  struct stat found;
  struct note note = {.kind = 'W', .inode = hold(path), .offset = offset};
  if (!note.inode || stat(path, &found)) return;
  note.size = found.st_size;
  uint64_t end = offset + length < note.size ? offset + length : note.size;
  char *old = NULL;
  if (end > offset) {
    int reader = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    old = malloc(end - offset);
    ssize_t read = pread(reader, old, end - offset, offset);
    note.old_length = read < 0 ? 0 : read;
    close(reader);
  }
  put(note, "", "", old);
  free(old);
}

static void before_write(int fd, const char *path, int64_t offset, uint64_t length) {
  struct stat found;
  if (offset < 0) offset = fcntl(fd, F_GETFL) & O_APPEND ? (fstat(fd, &found), found.st_size) : lseek(fd, 0, SEEK_CUR);
  note_old(path, offset, length);
}

// What is not ours must not wait for us.
#define UNLESS_OURS(call) \
  char path[PATH_MAX]; \
  if (!path_of(fd, path)) return call

#define LOCKED(note_it, call) \
  pthread_mutex_lock(&lock); \
  note_it; \
  __auto_type result = call; \
  int error = errno; \
  pthread_mutex_unlock(&lock); \
  errno = error; \
  return result

ssize_t write(int fd, const void *bytes, size_t length) {
  REAL(ssize_t, "write", int, const void *, size_t);
  UNLESS_OURS(real(fd, bytes, length));
  LOCKED(before_write(fd, path, -1, length), real(fd, bytes, length));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(ssize_t, "writev", int, const struct iovec *, int);
  UNLESS_OURS(real(fd, parts, count));
  uint64_t length = 0;
  for (int i = 0; i < count; i++) length += parts[i].iov_len;
  LOCKED(before_write(fd, path, -1, length), real(fd, parts, count));
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
  REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  UNLESS_OURS(real(fd, bytes, length, offset));
  LOCKED(before_write(fd, path, offset, length), real(fd, bytes, length, offset));
}

int ftruncate64(int fd, off64_t length) {
  REAL(int, "ftruncate64", int, off64_t);
  UNLESS_OURS(real(fd, length));
  LOCKED(before_write(fd, path, length, INT64_MAX - length), real(fd, length));
}

static int sync_with(int (*real)(int), int fd) {
  char path[PATH_MAX];
  int is_seen = path_of(fd, path);
  pthread_mutex_lock(&lock);
  struct note note = {.kind = 'S', .covers = numbers};
  pthread_mutex_unlock(&lock);
  int result = real(fd), error = errno;
  if (is_seen && result == 0) {
    pthread_mutex_lock(&lock);
    struct stat found;
    note.inode = fstat(fd, &found) ? 0 : found.st_ino;
    put(note, path, "", NULL);
    pthread_mutex_unlock(&lock);
  }
  errno = error;
  return result;
}

int fsync(int fd) {
  REAL(int, "fsync", int);
  return sync_with(real, fd);
}

int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  return sync_with(real, fd);
}

static void before_open(const char *path, int flags) {
  if (!is_ours(path) || !(flags & (O_CREAT | O_TRUNC))) return;
  struct stat found;
  if (lstat(path, &found)) put((struct note){.kind = 'C'}, path, "", NULL);
  else if (flags & O_TRUNC) note_old(path, 0, INT64_MAX);
}

int open64(const char *path, int flags, ...) {
  REAL(int, "open64", const char *, int, ...);
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  LOCKED(before_open(path, flags), real(path, flags, mode));
}

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  struct stat found;
  LOCKED(if (is_ours(path) && lstat(path, &found)) put((struct note){.kind = 'M'}, path, "", NULL), real(path, mode));
}

int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  LOCKED(if (is_ours(to)) put((struct note){.kind = 'R', .inode = hold(from), .other = hold(to)}, from, to, NULL),
         real(from, to));
}

static void before_remove(const char *path, int is_directory) {
  if (is_ours(path)) put((struct note){.kind = is_directory ? 'D' : 'U', .inode = hold(path)}, path, "", NULL);
}

int unlink(const char *path) {
  REAL(int, "unlink", const char *);
  LOCKED(before_remove(path, 0), real(path));
}

int rmdir(const char *path) {
  REAL(int, "rmdir", const char *);
  LOCKED(before_remove(path, 1), real(path));
}

int unlinkat(int directory, const char *name, int flags) {
  REAL(int, "unlinkat", int, const char *, int);
  char path[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s", name);
  if (directory != AT_FDCWD && path_of(directory, path)) snprintf(path + strlen(path), PATH_MAX, "/%s", name);
  LOCKED(before_remove(path, flags & AT_REMOVEDIR), real(directory, name, flags));
}
