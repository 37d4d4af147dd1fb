/* AMQP 0.9.1 by librabbitmq: publisher confirms, acknowledged reading. */
#include "load.h"
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <sys/time.h>
#include <time.h>

const char *client_version(void) { return "librabbitmq " AMQP_VERSION_STRING; }

enum { CHANNEL = 1, FRAME = 131072, PREFETCH = 1000 };

struct Sender {
    amqp_connection_state_t link;
    uint64_t sent, oldest; /* numbers of the last message, and of the first that is under way */
    long pending, refused;
    int window;
    char *settled; /* by number, as many as can be under way */
};

struct Receiver {
    amqp_connection_state_t link;
    uint64_t last, acknowledged;
    char *kept; /* a message that had no room */
    int kept_size;
};

static long now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

static struct timeval as_time(long ms) {
    struct timeval time = {ms / 1000, (ms % 1000) * 1000};
    return time;
}

static amqp_connection_state_t link_open(const char *host, int port) {
    amqp_connection_state_t link = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(link);
    amqp_rpc_reply_t reply;
    if (socket == NULL || amqp_socket_open(socket, host, port))
        FAIL(NULL, "no connection");
    reply = amqp_login(link, "/", 0, FRAME, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        FAIL(NULL, "the login was refused");
    amqp_channel_open(link, CHANNEL);
    if (amqp_get_rpc_reply(link).reply_type != AMQP_RESPONSE_NORMAL)
        FAIL(NULL, "no channel");
    return link;
}

static void link_close(amqp_connection_state_t link) {
    amqp_connection_close(link, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(link);
}

Sender *sender_open(const char *host, int port, int window, int prompt) {
    Sender *sender = calloc(1, sizeof *sender);
    (void)prompt; /* it never waits for more */
    sender->window = window;
    sender->settled = calloc(1, window);
    sender->oldest = 1;
    if ((sender->link = link_open(host, port)) == NULL)
        return NULL;
    amqp_confirm_select(sender->link, CHANNEL);
    if (amqp_get_rpc_reply(sender->link).reply_type != AMQP_RESPONSE_NORMAL)
        FAIL(NULL, "no confirms");
    return sender;
}

static void settle(Sender *sender, uint64_t number) {
    char *slot = &sender->settled[number % sender->window];
    if (number >= sender->oldest && number <= sender->sent && !*slot) {
        *slot = 1;
        sender->pending--;
    }
    while (sender->oldest <= sender->sent && sender->settled[sender->oldest % sender->window])
        sender->settled[sender->oldest++ % sender->window] = 0;
}

static int answered(Sender *sender, amqp_frame_t *frame) {
    amqp_basic_ack_t *done = frame->payload.method.decoded;
    if (frame->frame_type != AMQP_FRAME_METHOD)
        return 0;
    if (frame->payload.method.id == AMQP_BASIC_NACK_METHOD)
        sender->refused++; /* its first fields are those of an acknowledgement */
    else if (frame->payload.method.id != AMQP_BASIC_ACK_METHOD)
        FAIL(-1, "the server closed the channel");
    if (done->multiple)
        for (uint64_t number = sender->oldest; number < done->delivery_tag; number++)
            settle(sender, number);
    settle(sender, done->delivery_tag);
    return 0;
}

/* Read answers until so few are under way, and whatever else has come. */
static int until(Sender *sender, long left, int wait_ms) {
    long deadline = now_ms() + wait_ms;
    for (;;) {
        long rest = sender->pending > left ? deadline - now_ms() : 0;
        struct timeval time = as_time(rest > 0 ? rest : 0);
        amqp_frame_t frame;
        int code = amqp_simple_wait_frame_noblock(sender->link, &frame, &time);
        if (code == AMQP_STATUS_TIMEOUT) {
            if (sender->pending <= left)
                break;
            FAIL(-1, "%ld messages were not acknowledged", sender->pending);
        }
        if (code != AMQP_STATUS_OK)
            FAIL(-1, "%s", amqp_error_string2(code));
        if (answered(sender, &frame))
            return -1;
    }
    amqp_maybe_release_buffers(sender->link);
    return 0;
}

int sender_send(Sender *sender, const char *lane, const char *values, int size, int count) {
    amqp_basic_properties_t lasting = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    for (int i = 0; i < count; i++) {
        amqp_bytes_t value = {size, (void *)(values + (size_t)i * size)};
        int code;
        /* A number's slot must be free again, also when a later one was answered first. */
        while (sender->pending >= sender->window ||
               sender->sent + 1 - sender->oldest >= (uint64_t)sender->window)
            if (until(sender, sender->pending > sender->window / 2 ? sender->window / 2
                                                                  : sender->pending - 1,
                      60000))
                return -1;
        code = amqp_basic_publish(sender->link, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(lane),
                                  0, 0, &lasting, value);
        if (code)
            FAIL(-1, "%s", amqp_error_string2(code));
        sender->sent++;
        sender->pending++;
    }
    return until(sender, sender->pending, 0);
}

int sender_flush(Sender *sender, int wait_ms) {
    if (until(sender, 0, wait_ms))
        return -1;
    if (sender->refused)
        FAIL(-1, "%ld messages were refused", sender->refused);
    return 0;
}

void sender_close(Sender *sender) {
    link_close(sender->link);
    free(sender->settled);
    free(sender);
}

Receiver *receiver_open(const char *host, int port, const char *name, const char **lanes,
                        int count) {
    Receiver *receiver = calloc(1, sizeof *receiver);
    (void)name;
    if ((receiver->link = link_open(host, port)) == NULL)
        return NULL;
    amqp_basic_qos(receiver->link, CHANNEL, 0, PREFETCH, 0);
    for (int i = 0; i < count; i++)
        amqp_basic_consume(receiver->link, CHANNEL, amqp_cstring_bytes(lanes[i]), amqp_empty_bytes,
                           0, 0, 0, amqp_empty_table);
    if (amqp_get_rpc_reply(receiver->link).reply_type != AMQP_RESPONSE_NORMAL)
        FAIL(NULL, "the server does not deliver");
    return receiver;
}

static int acknowledge(Receiver *receiver) {
    if (receiver->last == receiver->acknowledged)
        return 0;
    receiver->acknowledged = receiver->last;
    return amqp_basic_ack(receiver->link, CHANNEL, receiver->last, 1);
}

int receiver_take(Receiver *receiver, char *into, int room, int *sizes, int most, int wait_ms) {
    int taken = 0;
    if (receiver->kept) {
        memcpy(into, receiver->kept, receiver->kept_size);
        room -= sizes[taken++] = receiver->kept_size;
        into += receiver->kept_size;
        free(receiver->kept);
        receiver->kept = NULL;
    }
    while (taken < most) {
        struct timeval time = as_time(taken ? 0 : wait_ms);
        amqp_envelope_t got;
        amqp_rpc_reply_t reply;
        amqp_maybe_release_buffers(receiver->link);
        reply = amqp_consume_message(receiver->link, &got, &time, 0);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
            if (reply.library_error != AMQP_STATUS_TIMEOUT)
                FAIL(-1, "%s", amqp_error_string2(reply.library_error));
            break;
        }
        int size = (int)got.message.body.len;
        receiver->last = got.delivery_tag;
        if (size > room) {
            receiver->kept = malloc(size);
            receiver->kept_size = size;
            memcpy(receiver->kept, got.message.body.bytes, size);
        } else {
            memcpy(into, got.message.body.bytes, size);
            into += size;
            room -= sizes[taken++] = size;
        }
        amqp_destroy_envelope(&got);
        if (receiver->last - receiver->acknowledged >= PREFETCH / 4)
            acknowledge(receiver);
        if (receiver->kept)
            break;
    }
    if (acknowledge(receiver))
        FAIL(-1, "the server takes no acknowledgements");
    return taken;
}

void receiver_close(Receiver *receiver) {
    link_close(receiver->link);
    free(receiver->kept);
    free(receiver);
}
