/* MQTT by libmosquitto: QoS 1 both ways; its own thread does the network. */
#include "inbox.h"
#include "load.h"
#include <mosquitto.h>

const char *client_version(void) {
    static char text[64];
    int major, minor, revision;
    mosquitto_lib_version(&major, &minor, &revision);
    snprintf(text, sizeof text, "libmosquitto %d.%d.%d", major, minor, revision);
    return text;
}

typedef struct {
    struct mosquitto *client;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answered; /* connection or subscription */
    long settled;
    Inbox inbox;
} Link;

struct Sender {
    Link link;
    long sent;
    int window;
};

struct Receiver {
    Link link;
};

static void answer(Link *link) {
    pthread_mutex_lock(&link->lock);
    link->answered = 1;
    pthread_cond_signal(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

static void on_connect(struct mosquitto *client, void *link, int code) {
    (void)client;
    if (code == 0)
        answer(link);
}

static void on_subscribe(struct mosquitto *client, void *link, int id, int count, const int *qos) {
    (void)client, (void)id, (void)count, (void)qos;
    answer(link);
}

static void on_publish(struct mosquitto *client, void *at, int id) {
    Link *link = at;
    (void)client, (void)id;
    pthread_mutex_lock(&link->lock);
    link->settled++;
    pthread_cond_signal(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

static void on_message(struct mosquitto *client, void *at, const struct mosquitto_message *message) {
    Link *link = at;
    (void)client;
    inbox_put(&link->inbox, message->payload, message->payloadlen);
}

static int wait_answer(Link *link) {
    struct timespec until;
    int late = 0;
    deadline_in(&until, 60000);
    pthread_mutex_lock(&link->lock);
    while (!link->answered && !late)
        late = pthread_cond_timedwait(&link->changed, &link->lock, &until);
    link->answered = 0;
    pthread_mutex_unlock(&link->lock);
    return late ? -1 : 0;
}

static int link_open(Link *link, const char *host, int port, const char *name, int window) {
    int code;
    mosquitto_lib_init();
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->changed, NULL);
    inbox_init(&link->inbox);
    link->client = mosquitto_new(name, name == NULL, link);
    mosquitto_connect_callback_set(link->client, on_connect);
    mosquitto_subscribe_callback_set(link->client, on_subscribe);
    mosquitto_publish_callback_set(link->client, on_publish);
    mosquitto_message_callback_set(link->client, on_message);
    mosquitto_max_inflight_messages_set(link->client, window);
    mosquitto_int_option(link->client, MOSQ_OPT_TCP_NODELAY, 1);
    if ((code = mosquitto_connect(link->client, host, port, 600)) ||
        (code = mosquitto_loop_start(link->client)))
        FAIL(-1, "%s", mosquitto_strerror(code));
    if (wait_answer(link))
        FAIL(-1, "no answer to the connection");
    return 0;
}

static void link_close(Link *link) {
    mosquitto_disconnect(link->client);
    mosquitto_loop_stop(link->client, false);
    mosquitto_destroy(link->client);
    inbox_free(&link->inbox);
}

static int settle(Sender *sender, long left, int wait_ms) {
    struct timespec until;
    int late = 0;
    deadline_in(&until, wait_ms);
    pthread_mutex_lock(&sender->link.lock);
    while (sender->sent - sender->link.settled > left && !late)
        late = pthread_cond_timedwait(&sender->link.changed, &sender->link.lock, &until);
    pthread_mutex_unlock(&sender->link.lock);
    if (late)
        FAIL(-1, "%ld messages were not acknowledged", sender->sent - sender->link.settled);
    return 0;
}

Sender *sender_open(const char *host, int port, int window, int prompt) {
    Sender *sender = calloc(1, sizeof *sender);
    (void)prompt; /* it never waits for more */
    sender->window = window;
    return link_open(&sender->link, host, port, NULL, window) ? NULL : sender;
}

int sender_send(Sender *sender, const char *lane, const char *values, int size, int count) {
    for (int i = 0; i < count; i++) {
        int code = mosquitto_publish(sender->link.client, NULL, lane, size,
                                     values + (size_t)i * size, 1, false);
        if (code)
            FAIL(-1, "%s", mosquitto_strerror(code));
        if (++sender->sent - sender->link.settled >= sender->window &&
            settle(sender, sender->window / 2, 60000))
            return -1;
    }
    return 0;
}

int sender_flush(Sender *sender, int wait_ms) { return settle(sender, 0, wait_ms); }

void sender_close(Sender *sender) {
    link_close(&sender->link);
    free(sender);
}

Receiver *receiver_open(const char *host, int port, const char *name, const char **lanes,
                        int count) {
    Receiver *receiver = calloc(1, sizeof *receiver);
    int code;
    if (link_open(&receiver->link, host, port, name, 1000))
        return NULL;
    code = mosquitto_subscribe_multiple(receiver->link.client, NULL, count, (char *const *)lanes, 1,
                                        0, NULL);
    if (code || wait_answer(&receiver->link))
        FAIL(NULL, "no answer to the subscription");
    return receiver;
}

int receiver_take(Receiver *receiver, char *into, int room, int *sizes, int most, int wait_ms) {
    return inbox_take(&receiver->link.inbox, into, room, sizes, most, wait_ms);
}

void receiver_close(Receiver *receiver) {
    link_close(&receiver->link);
    free(receiver);
}
