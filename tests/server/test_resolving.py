"""Parameters with a Resolve: where their values come from, what is asked together, and how a no ends a call."""

import asyncio
import functools
import gc
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import pytest
from msgspec import Struct

from jackfield import Context, RegistrationError, ToolError
from jackfield.protocol.errors import CannotAsk
from jackfield.server.context import Asked
from jackfield.server.handlers import Resolve, supplied_to
from jackfield.server.questions import (
    AcceptedElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    Elicit,
    ElicitationResult,
    ElicitURL,
    ListRoots,
    Question,
)
from jackfield.server.resolving import Plan
from jackfield.server.threads import Threads

T = TypeVar("T")
YES: AcceptedElicitation[Any] = AcceptedElicitation("yes")
FORM = {"elicitation": {"form": {}}}


class Sure(Struct):
    sure: bool


class Asking:
    """Stands where a Context would: it has these answers, and notes what it is asked."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[str] = []
        self.threads = Threads(4, 256)

    async def ask(self, question: Question) -> Any:
        """Answer as a Context does: with what is there, else by ending the handler."""
        assert question.key is not None
        self.asked.append(question.key)
        if question.key in self.answers:
            found = self.answers[question.key]
            if isinstance(found, BaseException):
                raise found
            return await found if asyncio.isfuture(found) else found
        await asyncio.sleep(0)
        raise Asked


async def values_of(fn: Callable[..., Any], context: Asking, **arguments: Any) -> dict[str, Any]:
    """The resolved parameters of `fn`, as they are filled for a call with these arguments."""
    try:
        return await Plan(fn).values(arguments, context)  # type: ignore[arg-type]
    finally:
        context.threads.close()


class TestValues:
    async def test_what_a_function_may_take(self) -> None:
        """It gets arguments of the handler by name, a Context, other resolved values and its own defaults."""

        def base(a: int) -> int:
            return a * 10

        async def sum_of(
            b: int, ctx: Context, /, low: Annotated[int, Resolve(base)], *, a: int, c: int = 100, d: str = "d"
        ) -> Any:
            return a + b + c + low, d, ctx

        def handler(a: int, b: int, c: int, total: Annotated[Any, Resolve(sum_of)]) -> None: ...

        context = Asking()
        assert await values_of(handler, context, a=1, b=2, c=3) == {"total": (16, "d", context)}

    async def test_a_blocking_function_runs_on_a_thread(self) -> None:
        """A `def` function blocks nothing but its own thread."""

        def where() -> int:
            return threading.get_ident()

        def handler(a: Annotated[int, Resolve(where)]) -> None: ...

        assert (await values_of(handler, Asking()))["a"] != threading.get_ident()

    async def test_each_function_runs_once(self) -> None:
        """One function that several parameters take from, directly or not, runs once for a call and asks once."""
        runs: list[str] = []

        class Shop:
            async def price(self) -> int:
                runs.append("price")
                return 5

        shop = Shop()

        async def sure() -> ListRoots:
            runs.append("sure")
            return ListRoots()

        async def twice(p: Annotated[int, Resolve(shop.price)], s: Annotated[Any, Resolve(sure)]) -> int:
            runs.append("twice")
            return 2 * p

        def handler(
            x: Annotated[int, Resolve(shop.price)],
            y: Annotated[int, Resolve(twice)],
            z: Annotated[Any, Resolve(sure)],
        ) -> None: ...

        context = Asking({"y.s": "roots"})
        assert await values_of(handler, context) == {"x": 5, "y": 10, "z": "roots"}
        assert sorted(runs) == ["price", "sure", "twice"]
        assert context.asked == ["y.s"]

    async def test_what_can_be_called_can_be_resolved(self) -> None:
        """Partials, lambdas and objects with `__call__` work like functions."""

        class Five:
            def __call__(self) -> int:
                return 5

        async def add(a: int, b: int) -> int:
            return a + b

        def handler(
            b: int,
            x: Annotated[int, Resolve(functools.partial(add, 1))],
            y: Annotated[int, Resolve(Five())],
            z: Annotated[int, Resolve(lambda b: b * 2)],
        ) -> None: ...

        assert await values_of(handler, Asking(), b=2) == {"x": 3, "y": 5, "z": 4}


class TestQuestions:
    async def test_a_question_has_the_name_of_its_parameter(self) -> None:
        """The key is the parameter's name, below another one the path to it, unless the author gave one."""

        async def roots() -> ListRoots:
            return ListRoots()

        async def named() -> ListRoots:
            return ListRoots(key="mine")

        async def outer(inner: Annotated[Any, Resolve(roots)]) -> ElicitURL:
            return ElicitURL("Go", "https://a.example/")

        def handler(first: Annotated[None, Resolve(outer)], second: Annotated[Any, Resolve(named)]) -> None: ...

        context = Asking({"first.inner": [], "first": YES, "mine": []})
        assert await values_of(handler, context) == {"first": "yes", "second": []}
        assert sorted(context.asked) == ["first", "first.inner", "mine"]

    async def test_all_that_can_be_asked_at_once_is_asked_at_once(self) -> None:
        """A question that goes to the client first keeps no other one waiting; what needs its answer does not run."""
        runs: list[str] = []

        def asking(name: str) -> Callable[[], Any]:
            async def ask() -> ListRoots:
                runs.append(name)
                return ListRoots()

            return ask

        async def after(x: Annotated[Any, Resolve(asking("inner"))]) -> ListRoots:
            runs.append("after")
            return ListRoots()

        def blocking(y: Annotated[Any, Resolve(asking("other"))]) -> ListRoots:
            runs.append("blocking")
            return ListRoots()

        def handler(
            a: Annotated[Any, Resolve(asking("a"))],
            b: Annotated[Any, Resolve(after)],
            c: Annotated[Any, Resolve(blocking)],
        ) -> None: ...

        first = Asking()
        with pytest.raises(Asked):
            await values_of(handler, first)
        assert sorted(first.asked) == ["a", "b.x", "c.y"]
        assert sorted(runs) == ["a", "inner", "other"]
        second = Asking({"a": 1, "b.x": 2, "c.y": 3})
        with pytest.raises(Asked):
            await values_of(handler, second)
        assert sorted(second.asked) == ["a", "b", "b.x", "c", "c.y"]
        last = Asking({"a": 1, "b.x": 2, "c.y": 3, "b": 4, "c": 5})
        assert await values_of(handler, last) == {"a": 1, "b": 4, "c": 5}

    async def test_a_function_may_ask_by_itself(self) -> None:
        """What `ctx.ask` does inside a function counts like a question that it returns."""

        async def ask(ctx: Context) -> Any:
            return await ctx.ask(ListRoots(key="own"))

        def handler(a: Annotated[Any, Resolve(ask)], b: Annotated[Any, Resolve(lambda: ListRoots())]) -> None: ...

        context = Asking()
        with pytest.raises(Asked):
            await values_of(handler, context)
        assert sorted(context.asked) == ["b", "own"]

    async def test_one_question_object_in_many_calls(self) -> None:
        """A question that is made once and returned in every call is not changed by any."""
        question = ListRoots()

        def handler(
            a: Annotated[Any, Resolve(lambda: question)], b: Annotated[Any, Resolve(lambda: question)]
        ) -> None: ...

        assert await values_of(handler, Asking({"a": 1, "b": 2})) == {"a": 1, "b": 2}
        assert question.key is None


class TestNo:
    @pytest.mark.parametrize(
        ("said", "word"), [(DeclinedElicitation(), "declined"), (CancelledElicitation(), "cancelled")]
    )
    async def test_a_no_is_a_tool_error(self, said: Any, word: str) -> None:
        """A parameter of the bare type is never filled on decline or cancel: the call ends with a ToolError."""

        async def ask() -> ElicitURL:
            return ElicitURL("Go", "https://a.example/")

        def handler(go: Annotated[Any, Resolve(ask)]) -> None: ...

        with pytest.raises(ToolError, match=f"{word} the question 'go'"):
            await values_of(handler, Asking({"go": said}))
        assert await values_of(handler, Asking({"go": YES})) == {"go": "yes"}

    @pytest.mark.parametrize("said", [YES, DeclinedElicitation(), CancelledElicitation()])
    async def test_the_outcome_itself(self, said: Any) -> None:
        """A parameter of the type ElicitationResult, or a union of its members, is given what the person chose."""

        async def ask() -> ElicitURL:
            return ElicitURL("Go", "https://a.example/")

        async def whole(go: Annotated[ElicitationResult[str], Resolve(ask)]) -> Any:
            return go

        def handler(
            a: Annotated[AcceptedElicitation[str] | CancelledElicitation | DeclinedElicitation, Resolve(ask)],
            b: Annotated[Any, Resolve(lambda: 1)],
            c: Annotated[ElicitationResult[str], Resolve(whole)],
        ) -> None: ...

        assert await values_of(handler, Asking({"a": said})) == {"a": said, "b": 1, "c": said}

    async def test_a_no_that_the_type_leaves_out(self) -> None:
        """A union without the cancel takes a decline, and a cancel ends the call."""

        async def ask() -> ElicitURL:
            return ElicitURL("Go", "https://a.example/")

        def handler(go: Annotated[AcceptedElicitation[str] | DeclinedElicitation, Resolve(ask)]) -> None: ...

        assert await values_of(handler, Asking({"go": DeclinedElicitation()})) == {"go": DeclinedElicitation()}
        with pytest.raises(ToolError, match="cancelled"):
            await values_of(handler, Asking({"go": CancelledElicitation()}))

    async def test_a_value_where_the_outcome_is_wanted(self) -> None:
        """A function that needs not ask gives the value, which counts as accepted."""

        def handler(go: Annotated[ElicitationResult[int], Resolve(lambda: 3)]) -> None: ...

        assert await values_of(handler, Asking()) == {"go": AcceptedElicitation(3)}

    async def test_an_outcome_that_a_function_returns(self) -> None:
        """A function that asked by itself may hand on the outcome: its no is a no."""

        def handler(go: Annotated[int, Resolve(lambda: DeclinedElicitation())]) -> None: ...

        with pytest.raises(ToolError, match="declined"):
            await values_of(handler, Asking())

    async def test_a_no_ends_all_at_once(self) -> None:
        """When one question is declined, nobody waits for the answer to another one, and nothing more is asked."""
        never = asyncio.get_running_loop().create_future()

        async def ask() -> ListRoots:
            return ListRoots()

        async def after(first: Annotated[Any, Resolve(lambda: ListRoots())]) -> ListRoots:
            return ListRoots()

        def handler(
            slow: Annotated[Any, Resolve(ask)],
            go: Annotated[Any, Resolve(after)],
            no: Annotated[Any, Resolve(lambda: DeclinedElicitation())],
        ) -> None: ...

        context = Asking({"slow": never, "go.first": 1})
        with pytest.raises(ToolError, match="declined the question 'no'"):
            await values_of(handler, context)
        assert never.cancelled()


class TestFaults:
    async def test_a_fault_ends_all_at_once(self) -> None:
        """What a function raises ends the call; the others are cancelled, and have ended before the call does."""
        ended = asyncio.Event()

        async def slow() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def broken() -> None:
            raise LookupError("gone")

        def handler(a: Annotated[Any, Resolve(slow)], b: Annotated[Any, Resolve(broken)]) -> None: ...

        with pytest.raises(LookupError, match="gone"):
            await values_of(handler, Asking())
        assert ended.is_set()

    async def test_a_fault_counts_more_than_a_question(self) -> None:
        """A client that cannot be asked one thing is not asked another for nothing."""
        refused = CannotAsk("no roots", {"roots": {}})

        def handler(
            a: Annotated[Any, Resolve(lambda: ListRoots())], b: Annotated[Any, Resolve(lambda: ListRoots())]
        ) -> None: ...

        with pytest.raises(CannotAsk):
            await values_of(handler, Asking({"b": refused}))

    async def test_the_end_of_the_program_is_a_fault_of_the_call(self) -> None:
        """SystemExit in a function reaches the caller like any fault, and not the event loop."""

        async def leave() -> None:
            raise SystemExit(3)

        def handler(a: Annotated[Any, Resolve(leave)], b: Annotated[Any, Resolve(lambda: 1)]) -> None: ...

        with pytest.raises(SystemExit):
            await values_of(handler, Asking())

    async def test_cancelling_a_call_cancels_its_functions(self) -> None:
        """Nothing goes on when the call is cancelled, and no task is left with an exception that nobody saw."""
        begun, ended = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        def handler(a: Annotated[Any, Resolve(slow)], b: Annotated[Any, Resolve(lambda: ListRoots())]) -> None: ...

        call = asyncio.ensure_future(values_of(handler, Asking()))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()
        gc.collect()


def one() -> int:
    return 1


def needs_itself(a: Annotated[int, Resolve(lambda: 1)], b: Annotated[int, Resolve(one)]) -> int:
    return a + b


def ring_a(b: "Annotated[int, Resolve(ring_b)]") -> int:
    return b


def ring_b(a: "Annotated[int, Resolve(ring_a)]") -> int:
    return a


class TestRegistration:
    def test_a_handler_without_any_has_no_plan(self) -> None:
        """Nothing is planned for a handler that resolves nothing."""

        def handler(a: int, ctx: Context) -> None: ...

        assert supplied_to(handler).plan is None
        assert supplied_to(handler).names == {"ctx"}

    def test_functions_that_need_each_other(self) -> None:
        """A circle is an error that names the functions."""

        def handler(a: Annotated[int, Resolve(ring_a)]) -> None: ...

        with pytest.raises(RegistrationError, match="ring_b: parameter 'a': ring_a needs what comes of itself"):
            supplied_to(handler)

    def test_a_default_on_a_resolved_parameter(self) -> None:
        """A default would never count, so it is an error, in functions too."""

        def handler(a: Annotated[int, Resolve(one)] = 2) -> None: ...
        def inner(a: Annotated[int, Resolve(one)] = 2) -> None: ...
        def outer(a: Annotated[None, Resolve(inner)]) -> None: ...

        with pytest.raises(RegistrationError, match="handler: parameter 'a' has a Resolve"):
            supplied_to(handler)
        with pytest.raises(RegistrationError, match="inner: parameter 'a' has a Resolve"):
            supplied_to(outer)

    @pytest.mark.parametrize(
        "hint",
        [
            Annotated[int, Resolve(one)] | None,
            list[Annotated[int, Resolve(one)]],
            Annotated[Annotated[int, Resolve(one)] | None, "text"],
            Annotated[int, Resolve(one), Resolve(one)],
            Annotated[list[Annotated[int, Resolve(one)]], Resolve(one)],
        ],
    )
    def test_a_resolve_in_a_wrong_place(self, hint: Any) -> None:
        """A Resolve that is not around the whole type would let the client fill the parameter, so it is an error."""

        def handler(a: int) -> None: ...

        handler.__annotations__["a"] = hint
        with pytest.raises(RegistrationError, match="parameter 'a': write Annotated"):
            supplied_to(handler)

    def test_nothing_fills_a_parameter(self) -> None:
        """A function's parameter that is no argument of the handler and has no default is an error with its name."""

        def fn(day: str) -> int: ...
        def handler(date: str, a: Annotated[int, Resolve(fn)]) -> None: ...

        with pytest.raises(RegistrationError, match="fn: nothing fills its parameter 'day'; handler has no argument"):
            supplied_to(handler)

    def test_a_resolved_parameter_of_the_handler_is_no_argument(self) -> None:
        """Functions take resolved values by Resolve alone, and not by the handler's name for them."""

        def fn(b: int) -> int: ...
        def handler(a: Annotated[int, Resolve(fn)], b: Annotated[int, Resolve(one)]) -> None: ...

        with pytest.raises(RegistrationError, match="nothing fills its parameter 'b'"):
            supplied_to(handler)

    def test_a_mixed_type(self) -> None:
        """A type that is half an outcome, or a no without the yes, says nothing that could be given."""

        def half(a: Annotated[DeclinedElicitation | int, Resolve(one)]) -> None: ...
        def no(a: Annotated[DeclinedElicitation | CancelledElicitation, Resolve(one)]) -> None: ...

        for handler in (half, no):
            with pytest.raises(RegistrationError, match="ElicitationResult"):
                supplied_to(handler)

    def test_what_is_no_function(self) -> None:
        """Resolve takes what can be called, and no generator."""

        def generator() -> Any:
            yield 1

        def handler(a: Annotated[int, Resolve(generator)]) -> None: ...

        with pytest.raises(RegistrationError, match="it takes a function"):
            Resolve(3)  # type: ignore[arg-type]
        with pytest.raises(RegistrationError, match="generator"):
            supplied_to(handler)
        assert repr(Resolve(one)) == "Resolve(one)"

    def test_the_form_is_checked_where_the_function_names_it(self) -> None:
        """`-> Elicit[T]` has T judged when the handler is registered (ELC-2)."""

        class Place(Struct):
            where: dict[str, int]

        async def fine() -> Elicit[Sure] | Sure: ...
        async def generic() -> Elicit[T]: ...
        async def nested() -> Elicit[Place] | None: ...
        def good(a: Annotated[Sure, Resolve(fine)], b: Annotated[Any, Resolve(generic)]) -> None: ...
        def bad(a: Annotated[Any, Resolve(nested)]) -> None: ...

        assert supplied_to(good).names == {"a", "b"}
        with pytest.raises(RegistrationError, match=r"bad: parameter 'a'.*where"):
            supplied_to(bad)
