/* Messages on their way from a library's own thread to the reader's. */
#ifndef NEXUS_BENCH_INBOX_H
#define NEXUS_BENCH_INBOX_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    char *bytes; /* for each message its size, then itself */
    size_t used, read, room;
} Inbox;

static void deadline_in(struct timespec *at, int wait_ms) {
    clock_gettime(CLOCK_REALTIME, at);
    at->tv_sec += wait_ms / 1000;
    at->tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (at->tv_nsec >= 1000000000) {
        at->tv_sec++;
        at->tv_nsec -= 1000000000;
    }
}

static inline void inbox_init(Inbox *box) {
    memset(box, 0, sizeof *box);
    pthread_mutex_init(&box->lock, NULL);
    pthread_cond_init(&box->came, NULL);
}

static inline void inbox_put(Inbox *box, const void *message, int size) {
    size_t needed;
    pthread_mutex_lock(&box->lock);
    if (box->read == box->used)
        box->read = box->used = 0;
    needed = box->used + sizeof size + size;
    if (needed > box->room) {
        box->room = needed * 2;
        box->bytes = realloc(box->bytes, box->room);
    }
    memcpy(box->bytes + box->used, &size, sizeof size);
    memcpy(box->bytes + box->used + sizeof size, message, size);
    box->used = needed;
    pthread_cond_signal(&box->came);
    pthread_mutex_unlock(&box->lock);
}

static inline int inbox_take(Inbox *box, char *into, int room, int *sizes, int most, int wait_ms) {
    int taken = 0;
    struct timespec until;
    deadline_in(&until, wait_ms);
    pthread_mutex_lock(&box->lock);
    while (box->read == box->used)
        if (pthread_cond_timedwait(&box->came, &box->lock, &until))
            break;
    while (box->read < box->used && taken < most) {
        int size;
        memcpy(&size, box->bytes + box->read, sizeof size);
        if (size > room)
            break;
        memcpy(into, box->bytes + box->read + sizeof size, size);
        box->read += sizeof size + size;
        into += size;
        room -= size;
        sizes[taken++] = size;
    }
    pthread_mutex_unlock(&box->lock);
    return taken;
}

static inline void inbox_free(Inbox *box) {
    free(box->bytes);
    pthread_cond_destroy(&box->came);
    pthread_mutex_destroy(&box->lock);
}

#endif
