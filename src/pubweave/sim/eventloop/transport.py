"""A transport over a simulated connection, which does what asyncio's own do in the same order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from pubweave.sim.eventloop.endpoint import TcpEnd

if TYPE_CHECKING:
    from pubweave.sim.eventloop.loop import VirtualLoop

HIGH_WATER_BYTES = 64 * 1024


class TcpTransport(asyncio.Transport):
    """One connection of one process."""

    def __init__(
        self,
        loop: VirtualLoop,
        end: TcpEnd,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
    ) -> None:
        super().__init__({"peername": end.far_end.place, "sockname": end.place})
        self._loop = loop
        self._end = end
        self._protocol = cast(asyncio.Protocol, protocol)
        self._buffer = bytearray()
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_protocol_paused = False
        self._is_reading_paused = False
        self._is_closing = False
        self._is_lost = False
        """`connection_lost` is told, or about to be."""
        self._eof_wanted = False
        end.process.transports[end.number] = self
        loop.call_soon(self._protocol.connection_made, self)
        loop.call_soon(self._start_reading)
        if waiter is not None:
            loop.call_soon(_settle, waiter)

    def __repr__(self) -> str:
        return f"<TcpTransport {self._end.place} to {self._end.far_end.place}>"

    # --- reading ---------------------------------------------------------------------------

    def pause_reading(self) -> None:
        if not (self._is_closing or self._is_reading_paused):
            self._is_reading_paused = True
            self._stop_reading()

    def resume_reading(self) -> None:
        if not self._is_closing and self._is_reading_paused:
            self._is_reading_paused = False
            self._start_reading()

    def is_reading(self) -> bool:
        return not (self._is_closing or self._is_reading_paused)

    def _start_reading(self) -> None:
        if self.is_reading() and self._end.reader is None:
            self._end.reader = self._loop.handle(self._read_ready)
            self._end.process.poll(self._end)

    def _stop_reading(self) -> None:
        if self._end.reader is not None:
            self._end.reader.cancel()
            self._end.reader = None

    def _read_ready(self) -> None:
        if self._is_lost:
            return
        try:
            data = self._end.recv(self._loop.network.read_size())
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        try:
            if data:
                self._protocol.data_received(data)
            elif self._protocol.eof_received():
                self._stop_reading()  # the other direction goes on
            else:
                self.close()
        except Exception as error:
            self._fail(error, "Fatal error: protocol.data_received() call failed.")

    # --- writing ---------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._eof_wanted:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._is_lost:
            return
        sent = 0
        if not self._buffer:
            try:
                sent = self._end.send(data)
            except OSError as error:
                self._fail(error)
                return
            if sent == len(data):
                return
            self._start_writing()
        self._buffer += data[sent:]
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low
        self._pause_if_full()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not (self._is_closing or self._eof_wanted):
            self._eof_wanted = True
            if not self._buffer:
                self._end.shutdown()

    def _pause_if_full(self) -> None:
        if len(self._buffer) > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self._tell("pause_writing")

    def _tell(self, what: str) -> None:
        try:
            getattr(self._protocol, what)()
        except Exception as error:
            self._loop.call_exception_handler(
                {
                    "message": f"protocol.{what}() failed",
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )

    def _start_writing(self) -> None:
        self._end.writer = self._loop.handle(self._write_ready)
        self._end.process.poll(self._end)

    def _stop_writing(self) -> None:
        if self._end.writer is not None:
            self._end.writer.cancel()
            self._end.writer = None

    def _write_ready(self) -> None:
        if self._is_lost:
            return
        try:
            sent = self._end.send(self._buffer)
        except OSError as error:
            self._stop_writing()
            self._buffer.clear()
            self._fail(error)
            return
        del self._buffer[:sent]
        if self._is_protocol_paused and len(self._buffer) <= self._low:
            self._is_protocol_paused = False
            self._tell("resume_writing")
        if not self._buffer:
            self._stop_writing()
            if self._is_closing:
                self._lose(None)
            elif self._eof_wanted:
                self._end.shutdown()

    # --- the end ---------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._stop_reading()
            if not self._buffer:
                self._lose(None)

    def abort(self) -> None:
        self._force_close(None)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def _fail(self, error: BaseException, message: str = "") -> None:
        if not isinstance(error, OSError):
            self._loop.call_exception_handler(
                {
                    "message": message,
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )
        self._force_close(error)

    def _force_close(self, error: BaseException | None) -> None:
        if self._is_lost:
            return
        self._buffer.clear()
        self._stop_writing()
        if not self._is_closing:
            self._is_closing = True
            self._stop_reading()
        self._lose(error)

    def _lose(self, error: BaseException | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Any) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._end.close()
            self._end.process.transports.pop(self._end.number, None)


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
