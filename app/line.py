"""The line before the model: first come, first served, with a cap, a place and an estimate."""

from __future__ import annotations

import threading
import time

from app.limits import INSTEAD, Clock, LimitError

FIRST_GUESS_S = 8.0
WEIGHT_OF_THE_LAST = 0.3


class Ticket:
    """A place in the line. The first ticket has the model until it leaves."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.began: float | None = None

    def place(self) -> int:
        """How many are before it: 0 means that the model is its own; -1 that it has left."""
        return self._line.place(self)

    def wait(self, seconds: float) -> bool:
        """Waits up to so long for the model; whether it has it."""
        return self._line.wait(self, seconds)

    def leave(self) -> None:
        """Gives the place, and the model, to the next. A second call changes nothing."""
        self._line.leave(self)


class Line:
    """Tickets in order. ``most_waiting`` is how many may wait behind the one that has the model."""

    def __init__(self, most_waiting: int, clock: Clock = time.monotonic) -> None:
        self._most_waiting, self._clock = most_waiting, clock
        self._tickets: list[Ticket] = []
        self._changed = threading.Condition()
        self._usual_s = FIRST_GUESS_S

    def join(self, *, next_up: bool = False) -> Ticket:
        """A ticket at the end, or with ``next_up`` right behind the one that has the model.

        Raises LimitError when the line is full; a ticket that is next up belongs to a run that has
        waited already and always fits.
        """
        with self._changed:
            if not next_up and len(self._tickets) > self._most_waiting:
                raise LimitError(
                    f"The model is busy and {self._most_waiting} visitors are waiting already, the most on "
                    f"this server. Try a recorded run: {INSTEAD}, or come back in a minute."
                )
            ticket = Ticket(self)
            self._tickets.insert(min(1, len(self._tickets)) if next_up else len(self._tickets), ticket)
            self._advance()
        return ticket

    def place(self, ticket: Ticket) -> int:
        """See :meth:`Ticket.place`."""
        with self._changed:
            return self._tickets.index(ticket) if ticket in self._tickets else -1

    def wait(self, ticket: Ticket, seconds: float) -> bool:
        """See :meth:`Ticket.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: ticket not in self._tickets[1:], seconds)
            return self._tickets[:1] == [ticket]

    def leave(self, ticket: Ticket) -> None:
        """See :meth:`Ticket.leave`."""
        with self._changed:
            if ticket not in self._tickets:
                return
            self._tickets.remove(ticket)
            if ticket.began is not None:
                took = self._clock() - ticket.began
                self._usual_s += WEIGHT_OF_THE_LAST * (took - self._usual_s)
            self._advance()

    def words(self, ticket: Ticket) -> str:
        """The ticket's place and how long it may take, in a sentence."""
        place = self.place(ticket)
        if place <= 0:
            return "The model is yours…"
        seconds = place * self._usual_s
        about = f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
        before = "one run is" if place == 1 else f"{place} runs are"
        return f"Waiting for the model: {before} before yours, about {about}. Meanwhile you can {INSTEAD}."

    def __len__(self) -> int:
        return len(self._tickets)

    def _advance(self) -> None:
        if self._tickets and self._tickets[0].began is None:
            self._tickets[0].began = self._clock()
        self._changed.notify_all()
