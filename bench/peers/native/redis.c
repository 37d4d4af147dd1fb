/* Redis Streams by hiredis: XADD in pipelines, XREAD without groups. */
#include "load.h"
#include <hiredis/hiredis.h>

#define TEXT(number) #number
#define TEXT_OF(number) TEXT(number)

const char *client_version(void) {
    return "hiredis " TEXT_OF(HIREDIS_MAJOR) "." TEXT_OF(HIREDIS_MINOR) "." TEXT_OF(HIREDIS_PATCH);
}

enum { PIPELINE = 500, MOST_LANES = 64 };

struct Sender {
    redisContext *link;
};

struct Receiver {
    redisContext *link;
    int count;
    char *lanes[MOST_LANES];
    char places[MOST_LANES][64];
    redisReply *found; /* what is not handed on yet: stream and entry */
    size_t stream, entry;
};

static redisContext *link_open(const char *host, int port) {
    redisContext *link = redisConnect(host, port);
    if (link == NULL || link->err)
        FAIL(NULL, "%s", link ? link->errstr : "no memory");
    return link;
}

Sender *sender_open(const char *host, int port, int window, int prompt) {
    Sender *sender = calloc(1, sizeof *sender);
    (void)window, (void)prompt; /* a pipeline is what is under way */
    return (sender->link = link_open(host, port)) ? sender : NULL;
}

static int answers(Sender *sender, int count) {
    for (int i = 0; i < count; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(sender->link, (void **)&reply) != REDIS_OK)
            FAIL(-1, "%s", sender->link->errstr);
        if (reply->type == REDIS_REPLY_ERROR) {
            snprintf(error_text, sizeof error_text, "%s", reply->str);
            freeReplyObject(reply);
            return -1;
        }
        freeReplyObject(reply);
    }
    return 0;
}

int sender_send(Sender *sender, const char *lane, const char *values, int size, int count) {
    int waiting = 0;
    for (int i = 0; i < count; i++) {
        const char *words[] = {"XADD", lane, "*", "v", values + (size_t)i * size};
        size_t sizes[] = {4, strlen(lane), 1, 1, size};
        if (redisAppendCommandArgv(sender->link, 5, words, sizes) != REDIS_OK)
            FAIL(-1, "%s", sender->link->errstr);
        if (++waiting == PIPELINE || i == count - 1) {
            if (answers(sender, waiting))
                return -1;
            waiting = 0;
        }
    }
    return 0;
}

int sender_flush(Sender *sender, int wait_ms) {
    (void)sender, (void)wait_ms; /* every call has waited for its answers */
    return 0;
}

void sender_close(Sender *sender) {
    redisFree(sender->link);
    free(sender);
}

Receiver *receiver_open(const char *host, int port, const char *name, const char **lanes,
                        int count) {
    Receiver *receiver = calloc(1, sizeof *receiver);
    (void)name;
    if (count > MOST_LANES)
        FAIL(NULL, "too many lanes");
    for (; receiver->count < count; receiver->count++) {
        receiver->lanes[receiver->count] = strdup(lanes[receiver->count]);
        strcpy(receiver->places[receiver->count], "0");
    }
    return (receiver->link = link_open(host, port)) ? receiver : NULL;
}

static int ask(Receiver *receiver, int wait_ms) {
    const char *words[6 + 2 * MOST_LANES] = {"XREAD", "COUNT", "1000", "BLOCK", NULL, "STREAMS"};
    char block[16];
    snprintf(block, sizeof block, "%d", wait_ms > 0 ? wait_ms : 1);
    words[4] = block;
    for (int i = 0; i < receiver->count; i++) {
        words[6 + i] = receiver->lanes[i];
        words[6 + receiver->count + i] = receiver->places[i];
    }
    receiver->stream = receiver->entry = 0;
    receiver->found = redisCommandArgv(receiver->link, 6 + 2 * receiver->count, words, NULL);
    if (receiver->found == NULL)
        FAIL(-1, "%s", receiver->link->errstr);
    if (receiver->found->type == REDIS_REPLY_ERROR)
        FAIL(-1, "%s", receiver->found->str);
    return 0;
}

static void read_up_to(Receiver *receiver, const redisReply *stream, const redisReply *entry) {
    for (int i = 0; i < receiver->count; i++)
        if (strcmp(receiver->lanes[i], stream->element[0]->str) == 0)
            snprintf(receiver->places[i], sizeof receiver->places[i], "%s", entry->element[0]->str);
}

/* The next entry that was found: its id, and its one field with its value. */
static const redisReply *next_entry(Receiver *receiver, const redisReply **stream) {
    redisReply *found = receiver->found;
    while (found && found->type == REDIS_REPLY_ARRAY && receiver->stream < found->elements) {
        const redisReply *entries = found->element[receiver->stream]->element[1];
        *stream = found->element[receiver->stream];
        if (receiver->entry < entries->elements)
            return entries->element[receiver->entry];
        receiver->stream++;
        receiver->entry = 0;
    }
    return NULL;
}

int receiver_take(Receiver *receiver, char *into, int room, int *sizes, int most, int wait_ms) {
    const redisReply *entry, *stream = NULL;
    int taken = 0;
    if (next_entry(receiver, &stream) == NULL) {
        if (receiver->found)
            freeReplyObject(receiver->found);
        if (ask(receiver, wait_ms))
            return -1;
    }
    while (taken < most && (entry = next_entry(receiver, &stream)) != NULL) {
        const redisReply *value = entry->element[1]->element[1];
        if ((int)value->len > room)
            break;
        memcpy(into, value->str, value->len);
        into += value->len;
        room -= sizes[taken++] = (int)value->len;
        read_up_to(receiver, stream, entry);
        receiver->entry++;
    }
    return taken;
}

void receiver_close(Receiver *receiver) {
    if (receiver->found)
        freeReplyObject(receiver->found);
    for (int i = 0; i < receiver->count; i++)
        free(receiver->lanes[i]);
    redisFree(receiver->link);
    free(receiver);
}
