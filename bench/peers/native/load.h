/* What a load generator in C offers: a shared library for each protocol, called from Python.
 *
 * Every call is made by one thread. A function that fails says why by `last_error`.
 */
#ifndef NEXUS_BENCH_LOAD_H
#define NEXUS_BENCH_LOAD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct Sender Sender;
typedef struct Receiver Receiver;

static char error_text[512];

EXPORT const char *last_error(void) { return error_text; }

#define FAIL(result, ...) return (snprintf(error_text, sizeof error_text, __VA_ARGS__), (result))

/* The library that does the work, and its version. */
EXPORT const char *client_version(void);

/* At most `window` messages are under way; `prompt` ones wait for no others. NULL if it fails. */
EXPORT Sender *sender_open(const char *host, int port, int window, int prompt);
/* `count` messages of `size` bytes each, one after the other in `values`. 0, or -1. */
EXPORT int sender_send(Sender *, const char *lane, const char *values, int size, int count);
/* Until all are acknowledged, for so long at most. 0, or -1. */
EXPORT int sender_flush(Sender *, int wait_ms);
EXPORT void sender_close(Sender *);

/* `name` is the consumer's own, for systems that know consumers by name. */
EXPORT Receiver *receiver_open(const char *host, int port, const char *name, const char **lanes,
                               int count);
/* What has come: at most `most` messages into `room` bytes, their sizes apart. How many, or -1. */
EXPORT int receiver_take(Receiver *, char *into, int room, int *sizes, int most, int wait_ms);
EXPORT void receiver_close(Receiver *);

#endif
