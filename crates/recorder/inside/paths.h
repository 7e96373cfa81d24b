// Resolves paths; a part of inside.c. The shared memory has a cache of recently looked up directories.

// Returns the length of a path without trailing slashes.
static u64 trimmed(const char *path, u64 length) {
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

// Calls stat on the first `length` bytes of a path.
static long status(int dir, char *path, u64 length, struct stat *to, u64 flags) {
    char rest = path[length];
    path[length] = 0;
    long result = sys(NEWFSTATAT, dir, (u64)path, (u64)to, flags, 0);
    path[length] = rest;
    return result;
}

// A cache entry: the directory to which a path led at most RECENT nanoseconds ago; ino is 0 if the directory did not
// exist. A change of directories or links by a recorded program invalidates the entry; the time limit is for changes by
// other programs.
#define RECENT 100000000
struct cached_path {
    u64 key, dev, ino, wall, epoch, sum;
    u64 pad[2];
};

static u64 sum(const struct cached_path *it) {
    u64 of = it->key * 0x9e3779b97f4a7c15 + it->dev;
    of = (of ^ of >> 31) * 0xbf58476d1ce4e5b9 + it->ino;
    of = (of ^ of >> 29) * 0x94d049bb133111eb + it->wall;
    return (of ^ of >> 32) * 0x9e3779b97f4a7c15 + it->epoch;
}

static u64 epoch(u64 which) { return __atomic_load_n((u64 *)AT(which), __ATOMIC_SEQ_CST); }
static void increment(u64 which) { __atomic_fetch_add((u64 *)AT(which), 1, __ATOMIC_SEQ_CST); }

// Returns the hash of a directory's path without trailing slashes; for a relative path, also of the ring's process.
static u64 path_key(char *ring, const char *path, u64 length) {
    u64 key = 0xcbf29ce484222325;
    if (path[0] != '/' || length == 0) key ^= *FIELD(u32, ring, RING_PROCESS) * 0x9e3779b97f4a7c15ul;
    length = trimmed(path, length);
    for (u64 at = 0; at < length; at += 8) {
        u64 word = 0;
        for (u64 byte = at; byte < length && byte < at + 8; byte++) word = word << 8 | (u8)path[byte];
        key = (key ^ word) * 0x9e3779b97f4a7c15;
        key ^= key >> 29;
    }
    return key ^ length;
}

// Returns 1 if the directory of a path is cached, -ENOENT if it is cached as missing, 0 otherwise.
static int find_cached(u64 key, u64 wall, u64 now, struct stat *to) {
    u64 *slot = (u64 *)AT(PATH_CACHE) + 8 * (key % PATH_CACHE_COUNT);
    struct cached_path found;
    for (int at = 0; at < 6; at++) ((u64 *)&found)[at] = __atomic_load_n(slot + at, __ATOMIC_RELAXED);
    if (found.key != key || wall - found.wall >= RECENT || found.sum != sum(&found)) return 0;
    if (found.ino == 0) return found.epoch == epoch(MADE_EPOCH) ? -ENOENT : 0;
    if (found.epoch != now) return 0;
    to->dev = found.dev;
    to->ino = found.ino;
    to->mode = S_IFDIR;
    return 1;
}

static void cache_path(u64 key, u64 wall, u64 now, const struct stat *it) {
    if (it && (it->mode & S_IFMT) != S_IFDIR) return;
    struct cached_path entry = {key, it ? it->dev : 0, it ? it->ino : 0, wall, now, 0, {0, 0}};
    entry.sum = sum(&entry);
    // Other threads may read or write the slot meanwhile: they detect a wrong sum.
    u64 *slot = (u64 *)AT(PATH_CACHE) + 8 * (key % PATH_CACHE_COUNT), *words = (u64 *)&entry;
    for (int at = 0; at < 6; at++) __atomic_store_n(slot + at, words[at], __ATOMIC_RELAXED);
}

static int is_cacheable(int dir, const char *path) {
    return (path[0] == '/' || dir == AT_FDCWD) && !*FIELD(u32, AT(0), ALWAYS);
}

// Finds the directory before the last component of a path: the first `length` bytes name it. Returns 0 or an error of
// stat; sets `nothing` if not even a symbolic link with that name exists.
static long directory(char *ring, int dir, char *path, u64 length, u64 wall, struct stat *to, int *nothing) {
    *nothing = 0;
    if (length == 0 && dir != AT_FDCWD) return sys(FSTAT, dir, (u64)to, 0, 0, 0);
    int cacheable = is_cacheable(dir, path);
    u64 now = epoch(EPOCH), made = epoch(MADE_EPOCH), key = cacheable ? path_key(ring, path, length) : 0;
    int known = cacheable ? find_cached(key, wall, now, to) : 0;
    *nothing = known == -ENOENT;
    if (known) return known > 0 ? 0 : known;
    long result = length ? status(dir, path, length, to, 0) : sys(NEWFSTATAT, dir, (u64) ".", (u64)to, 0, 0);
    if (cacheable && result == 0) cache_path(key, wall, now, to);
    if (result == -ENOENT && length) *nothing = status(dir, path, trimmed(path, length), to, AT_SYMLINK_NOFOLLOW) == -ENOENT;
    if (cacheable && *nothing) cache_path(key, wall, made, 0);
    return result;
}

// Replaces the name of a symbolic link at the end of a path by its target; the path has room for 600 bytes and a NUL.
// Returns the new length, or 0 if the result is too long or the target is in /proc.
static u64 replace_link(int dir, char *path, u64 slash, u64 end) {
    char to[300];
    path[end] = 0;
    long length = sys(READLINKAT, dir, (u64)path, (u64)to, sizeof to, 0);
    if (length <= 0 || length == sizeof to) return 0;
    if (length > 6 && begins(to, "/proc/")) return 0;
    u64 at = to[0] == '/' ? 0 : slash;
    if (at + length >= 600) return 0;
    copy(path + at, to, length);
    path[at + length] = 0;
    return at + length;
}

// Copies a path, and counts its components. Returns -1 for a path of 600 bytes or more.
static int read_path(const char *text, char *whole, u64 *length, u64 *walked) {
    u64 part = 0, at = 0;
    *walked = 0;
    for (;; at++) {
        if (at >= 600) return -1;
        whole[at] = text[at];
        if (text[at] && text[at] != '/') continue;
        if (at > part && !(at == part + 1 && text[part] == '.')) ++*walked;
        part = at + 1;
        if (!text[at]) break;
    }
    *length = at;
    return 0;
}

// Calls stat on a path that does not end in a symbolic link.
static long stat_no_link(char *ring, int dir, char *path, u64 length, u64 wall, struct stat *to) {
    int cacheable = is_cacheable(dir, path);
    u64 now = epoch(EPOCH), key = cacheable ? path_key(ring, path, length) : 0;
    if (cacheable && find_cached(key, wall, now, to) == 1) return 0;
    long result = sys(NEWFSTATAT, dir, (u64)path, (u64)to, AT_SYMLINK_NOFOLLOW, 0);
    if (cacheable && result == 0) cache_path(key, wall, now, to);
    return result;
}

// Information that the result of a completed call gives about the object of its path: none (UNKNOWN), that it is not a
// symbolic link (NO_LINK), its status (0), or that it does not exist (-ENOENT).
enum { UNKNOWN = 1, NO_LINK = 2 };

// Resolves a path. Returns 0 if the recorder knows its directory and its object; otherwise the call must stop. If
// directories of the path are missing, the result is the first of them, with the number of components after it.
static int find(struct place *it, char *ring, int dir, u64 path, int follow, u64 wall, long found, const struct stat *known) {
    struct stat of, above;
    if (path < 4096) return -1;
    if (found == 0) of = *known;
    if (found == UNKNOWN) found = sys(NEWFSTATAT, dir, path, (u64)&of, AT_SYMLINK_NOFOLLOW, 0);
    if (found != 0 && found != -ENOENT && found != NO_LINK) return -1;
    // The kernel has read the path, so it can be read here.
    char whole[608];
    u64 length, walked;
    if (read_path((const char *)path, whole, &length, &walked)) return -1;
    if (found == NO_LINK) {
        found = stat_no_link(ring, dir, whole, length, wall, &of);
        if (found != 0) return -1;
    }
    if (begins(whole, "/fsdyno-mark/")) return -1;
    it->base = whole[0] == '/' ? 0 : dir == AT_FDCWD ? 1 : 2;
    it->links = 0;
    u64 end, slash, beyond;
    int nothing, is_nothing = 0;
    for (;;) {
        beyond = 0;
        end = trimmed(whole, length);
        if (end < length && found == 0) {
            // A symbolic link before a trailing slash is followed.
            if (status(dir, whole, end, &of, AT_SYMLINK_NOFOLLOW)) return -1;
            follow = 1;
        }
        for (;; beyond++) {
            for (slash = end; slash > 0 && whole[slash - 1] != '/'; slash--) {}
            long is = directory(ring, dir, whole, slash, wall, &above, &nothing);
            if (is == 0) break;
            is_nothing = nothing;
            if (is != -ENOENT || found == 0 || slash == 0 || beyond == 255) return -1;
            end = trimmed(whole, slash);
        }
        if (found || (of.mode & S_IFMT) != S_IFLNK || !follow) break;
        // The recorder must know the link and its directory.
        if ((above.mode & S_IFMT) != S_IFDIR || !(node(above.dev, above.ino, 0) & NODE_PARENT)) return -1;
        if (!node(of.dev, of.ino, 0) || it->links == 8) return -1;
        it->links++;
        length = replace_link(dir, whole, slash, end);
        if (length == 0) return -1;
        found = sys(NEWFSTATAT, dir, (u64)whole, (u64)&of, AT_SYMLINK_NOFOLLOW, 0);
        if (found != 0 && found != -ENOENT) return -1;
    }
    // A dangling symbolic link exists.
    if (beyond && !is_nothing) return -1;
    const char *name = whole + slash;
    length = end - slash;
    if (length == 0 || length > 255) return -1;
    int itself = name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'));
    if (itself) {
        if (found) return -1;
        above = of;
        length = 0;
    }
    if ((above.mode & S_IFMT) != S_IFDIR || !(node(above.dev, above.ino, 0) & NODE_PARENT)) return -1;
    if (found == 0 && !itself) {
        u32 type = of.mode & S_IFMT;
        if (type != S_IFREG && type != S_IFDIR && type != S_IFLNK) return -1;
        if (!node(of.dev, of.ino, 0)) return -1;
    }
    it->exists = found == 0;
    if (found == 0) describe(&it->node, &of);
    it->path = path;
    it->dev = above.dev;
    it->ino = above.ino;
    it->walked = walked > 255 ? 255 : walked;
    it->beyond = beyond;
    it->length = length;
    copy(it->name, name, length);
    return 0;
}
