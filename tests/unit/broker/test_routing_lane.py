"""The order of a client's requests when some must be sent again, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nexus.broker.peer import FORWARDED, forwarded_from, forwarding_id
from nexus.broker.routing.channel import Channel, Lost, Unreachable
from nexus.broker.routing.lane import Turns
from nexus.wire.apis import APIS, ApiKey
from nexus.wire.frames import decode_request_header, encode_request, encode_response
from nexus.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from support.ports import free_port

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_a_repeated_request_comes_before_all_that_followed_it() -> None:
    async def story() -> list[str]:
        turns, done = Turns(), []
        first, second, third = turns.take(), turns.take(), turns.take()

        async def repeat(turn: int, name: str) -> None:
            await turns.come(turn)
            done.append(name)
            turns.end(turn)

        later = [asyncio.ensure_future(repeat(third, "third"))]
        await asyncio.sleep(0)
        held = [turns.are_held]
        later.append(asyncio.ensure_future(repeat(first, "first")))
        await asyncio.sleep(0.01)
        assert done == ["first"]
        turns.end(second)  # answered without being repeated
        await asyncio.gather(*later)
        assert [*held, turns.are_held] == [True, False]
        return done

    assert asyncio.run(story()) == ["first", "third"]


@pytest.mark.parametrize("client_id", ["rdkafka", "", "a/b", FORWARDED])
def test_the_client_behind_a_forwarded_request_is_known(client_id: str) -> None:
    assert forwarded_from(forwarding_id("10.0.0.7", client_id)) == ("10.0.0.7", client_id)


def test_the_request_says_who_it_is_forwarded_for() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 4, 7, forwarding_id("::1", "x"), BEAT)
    header, _ = decode_request_header(memoryview(frame)[4:])
    assert (header.correlation_id, header.client_id) == (7, f"{FORWARDED}::1/x")


async def beats(channel: Channel, count: int) -> list[HeartbeatResponse]:
    asked = [channel.ask(ApiKey.HEARTBEAT, 4, "x", BEAT) for _ in range(count)]
    return await asyncio.wait_for(asyncio.gather(*asked), 10)


async def with_server(serve: Serve, story: Callable[[Channel], Awaitable[None]]) -> None:
    ended = asyncio.Event()

    async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.transport.abort()
        ended.set()

    async with await asyncio.start_server(serve_once, "127.0.0.1", 0) as server:
        channel = Channel(server.sockets[0].getsockname(), memoryview(bytearray(4096)))
        try:
            await story(channel)
        finally:
            channel.close()
            await asyncio.wait_for(ended.wait(), 10)


async def answer_in_two_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Three questions at once, and their answers cut in the middle of one."""
    out = bytearray()
    for number in range(3):
        size = int.from_bytes(await reader.readexactly(4), "big")
        header, _ = decode_request_header(memoryview(await reader.readexactly(size)))
        api = APIS[ApiKey.HEARTBEAT]
        response = HeartbeatResponse(error_code=number)
        for piece in encode_response(api, 4, header.correlation_id, response):
            out += piece  # type: ignore[arg-type]
    writer.write(out[:17])
    await writer.drain()
    await asyncio.sleep(0.01)
    writer.write(out[17:])
    await reader.read()


def test_questions_under_way_together_are_answered_each_with_its_own() -> None:
    async def story(channel: Channel) -> None:
        assert [beat.error_code for beat in await beats(channel, 3)] == [0, 1, 2]

    asyncio.run(with_server(answer_in_two_pieces, story))


def test_a_broker_that_hangs_up_may_have_done_what_it_was_asked() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)

    async def story(channel: Channel) -> None:
        with pytest.raises(Lost):
            await beats(channel, 1)
        assert channel.is_closed

    asyncio.run(with_server(hang_up, story))


def test_a_broker_that_cannot_be_reached_has_not() -> None:
    async def story() -> None:
        channel = Channel(("127.0.0.1", free_port()), memoryview(bytearray(4096)))
        with pytest.raises(Unreachable):
            await beats(channel, 2)

    asyncio.run(story())


def test_what_is_not_answered_is_sent_although_its_client_is_gone() -> None:
    frames: list[int] = []
    heard_all = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            frames.append(len(await reader.readexactly(int.from_bytes(size, "big"))))
        heard_all.set()

    async def story(channel: Channel) -> None:
        channel.tell(ApiKey.HEARTBEAT, 4, "client", BEAT)
        channel.finish()  # before there is a connection
        await heard_all.wait()

    asyncio.run(with_server(listen, story))
    assert len(frames) == 1


def test_a_question_that_nobody_waits_for_any_more_is_given_up() -> None:
    async def story(channel: Channel) -> None:
        answer = channel.ask(ApiKey.HEARTBEAT, 4, "client", BEAT)
        channel.finish()
        with pytest.raises(Lost):
            await answer

    async def alone() -> None:
        await story(Channel(("127.0.0.1", free_port()), memoryview(bytearray(4096))))

    asyncio.run(alone())
