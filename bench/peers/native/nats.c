/* NATS JetStream by libnats: publishes with many acknowledgements under way, ordered consumers. */
#include "inbox.h"
#include "load.h"
#include <nats/nats.h>

const char *client_version(void) { return "libnats " NATS_VERSION_STRING; }

enum { MOST_LANES = 64 };

typedef struct {
    natsConnection *connection;
    jsCtx *stream;
} Link;

struct Sender {
    Link link;
    volatile long failures;
};

struct Receiver {
    Link link;
    Inbox inbox;
    natsSubscription *subscriptions[MOST_LANES];
    int count;
};

static void on_failure(jsCtx *js, jsPubAckErr *failed, void *sender) {
    (void)js, (void)failed;
    __sync_fetch_and_add(&((Sender *)sender)->failures, 1);
}

static void on_message(natsConnection *nc, natsSubscription *sub, natsMsg *message, void *inbox) {
    (void)nc, (void)sub;
    inbox_put(inbox, natsMsg_GetData(message), natsMsg_GetDataLength(message));
    natsMsg_Destroy(message);
}

static int link_open(Link *link, const char *host, int port, int prompt, jsOptions *wanted) {
    natsOptions *options = NULL;
    natsStatus status;
    char url[128];
    snprintf(url, sizeof url, "nats://%s:%d", host, port);
    if ((status = natsOptions_Create(&options)) == NATS_OK &&
        (status = natsOptions_SetURL(options, url)) == NATS_OK &&
        (status = natsOptions_SetAllowReconnect(options, false)) == NATS_OK &&
        (status = natsOptions_SetSendAsap(options, prompt)) == NATS_OK &&
        (status = natsConnection_Connect(&link->connection, options)) == NATS_OK)
        status = natsConnection_JetStream(&link->stream, link->connection, wanted);
    natsOptions_Destroy(options);
    if (status)
        FAIL(-1, "%s", natsStatus_GetText(status));
    return 0;
}

static void link_close(Link *link) {
    jsCtx_Destroy(link->stream);
    natsConnection_Close(link->connection);
    natsConnection_Destroy(link->connection);
}

Sender *sender_open(const char *host, int port, int window, int prompt) {
    Sender *sender = calloc(1, sizeof *sender);
    jsOptions wanted;
    jsOptions_Init(&wanted);
    wanted.Wait = 60000;
    wanted.PublishAsync.MaxPending = window;
    wanted.PublishAsync.StallWait = 60000;
    wanted.PublishAsync.ErrHandler = on_failure;
    wanted.PublishAsync.ErrHandlerClosure = sender;
    return link_open(&sender->link, host, port, prompt, &wanted) ? NULL : sender;
}

int sender_send(Sender *sender, const char *lane, const char *values, int size, int count) {
    for (int i = 0; i < count; i++) {
        natsStatus status =
            js_PublishAsync(sender->link.stream, lane, values + (size_t)i * size, size, NULL);
        if (status)
            FAIL(-1, "%s", natsStatus_GetText(status));
    }
    return 0;
}

int sender_flush(Sender *sender, int wait_ms) {
    jsPubOptions options;
    natsStatus status;
    jsPubOptions_Init(&options);
    options.MaxWait = wait_ms;
    if ((status = js_PublishAsyncComplete(sender->link.stream, &options)))
        FAIL(-1, "%s", natsStatus_GetText(status));
    if (sender->failures)
        FAIL(-1, "%ld messages were not acknowledged", sender->failures);
    return 0;
}

void sender_close(Sender *sender) {
    link_close(&sender->link);
    free(sender);
}

Receiver *receiver_open(const char *host, int port, const char *name, const char **lanes,
                        int count) {
    Receiver *receiver = calloc(1, sizeof *receiver);
    (void)name; /* an ordered consumer has none */
    inbox_init(&receiver->inbox);
    if (count > MOST_LANES)
        FAIL(NULL, "too many lanes");
    if (link_open(&receiver->link, host, port, 1, NULL))
        return NULL;
    for (; receiver->count < count; receiver->count++) {
        natsSubscription **made = &receiver->subscriptions[receiver->count];
        jsSubOptions options;
        natsStatus status;
        jsSubOptions_Init(&options);
        options.Ordered = true;
        if ((status = js_Subscribe(made, receiver->link.stream, lanes[receiver->count], on_message,
                                   &receiver->inbox, NULL, &options, NULL)) ||
            (status = natsSubscription_SetPendingLimits(*made, -1, -1)))
            FAIL(NULL, "%s", natsStatus_GetText(status));
    }
    return receiver;
}

int receiver_take(Receiver *receiver, char *into, int room, int *sizes, int most, int wait_ms) {
    return inbox_take(&receiver->inbox, into, room, sizes, most, wait_ms);
}

void receiver_close(Receiver *receiver) {
    for (int i = 0; i < receiver->count; i++) {
        natsSubscription_Unsubscribe(receiver->subscriptions[i]);
        natsSubscription_Destroy(receiver->subscriptions[i]);
    }
    link_close(&receiver->link);
    free(receiver); /* its inbox may still be in a callback's hands, and the process ends soon */
}
