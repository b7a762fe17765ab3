"""The kinds of question: who can be asked them, their words in each revision, and how answers are read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from jackfield.protocol.errors import CannotAsk, RegistrationError
from jackfield.protocol.revisions import REVISIONS, Revision, find
from jackfield.protocol.types import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    Tool,
)
from jackfield.server.questions import (
    AcceptedElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    Elicit,
    ElicitationRequired,
    ElicitURL,
    ListRoots,
    Question,
    Sample,
)

NEWEST, NOVEMBER, JUNE, MARCH, OLDEST = REVISIONS
PAGE = "https://pay.example/start"
ADD = Tool("add", {"type": "object"})


class Wish(msgspec.Struct):
    day: str
    seats: int = 2


def wire(question: Question, revision: Revision = NEWEST) -> dict[str, Any]:
    """The params as they go out."""
    return json.loads(msgspec.json.encode(question.params(revision)))


def answer(**members: Any) -> bytes:
    """A client's result."""
    return json.dumps(members).encode()


class TestWhoCanBeAsked:
    @pytest.mark.parametrize(
        ("offered", "form", "url"),
        [
            (None, False, False),
            (ElicitationCapability(), True, False),
            (ElicitationCapability(form={}), True, False),
            (ElicitationCapability(url={}), False, True),
            (ElicitationCapability(form={}, url={}), True, True),
        ],
    )
    def test_a_mode_of_elicitation_must_have_been_declared(
        self, offered: ElicitationCapability | None, form: bool, url: bool
    ) -> None:
        """Only declared modes are used; a client that names none has forms and no pages (ELC-1)."""
        client = ClientCapabilities(elicitation=offered)
        for revision in (NEWEST, NOVEMBER):
            assert Elicit("When?", Wish).can_ask(client, revision) is form
            assert ElicitURL("Pay", PAGE).can_ask(client, revision) is url

    def test_a_revision_without_a_mode_cannot_be_asked_in_it(self) -> None:
        """Whatever a client declares, a revision has only the modes that it has; the error names what it lacks."""
        client = ClientCapabilities(elicitation=ElicitationCapability(form={}, url={}))
        form, page = Elicit("When?", Wish), ElicitURL("Pay", PAGE)
        assert [form.can_ask(client, revision) for revision in REVISIONS] == [True, True, True, False, False]
        assert [page.can_ask(client, revision) for revision in REVISIONS] == [True, True, False, False, False]
        with pytest.raises(CannotAsk, match="2025-03-26 has no forms") as fault:
            form.params(MARCH)
        assert fault.value.required == {"elicitation": {"form": {}}}
        with pytest.raises(CannotAsk, match="2025-06-18 has no pages") as fault:
            page.params(JUNE)
        assert fault.value.required == {"elicitation": {"url": {}}}

    def test_roots_must_have_been_declared(self) -> None:
        """Roots are asked of those that have some (ROOT-1)."""
        assert ListRoots().can_ask(ClientCapabilities(roots=RootsCapability()), NEWEST)
        assert not ListRoots().can_ask(ClientCapabilities(), NEWEST)
        assert (ListRoots().needs(), ListRoots.method, wire(ListRoots())) == ({"roots": {}}, "roots/list", {})


class TestKeys:
    def test_a_question_keeps_its_own_key(self) -> None:
        """A key is given to questions that have none, on a twin: one question may be asked in many calls."""
        question, named = Elicit("When?", Wish), Elicit("When?", Wish, key="mine")
        twin = question.keyed("day")
        assert (twin.key, question.key, named.keyed("day").key) == ("day", None, "mine")
        assert (twin.message, twin.schema) == (question.message, question.schema)

    def test_an_answer_that_is_known_by_its_key_alone(self) -> None:
        """A form whose answer counts whatever it was given to must have a key; all other questions are bound."""
        assert not Elicit("When?", Wish, key="day", bound=False).keyed("other").bound
        assert all(each.bound for each in (Elicit("When?", Wish), ElicitURL("Pay", PAGE), ListRoots()))
        with pytest.raises(ValueError, match="needs a key"):
            Elicit("When?", Wish, bound=False)

    def test_questions_can_be_read_in_a_log(self) -> None:
        """Each kind shows what it asks."""
        assert repr(Elicit("When?", int)) == "Elicit('When?', <class 'int'>)"
        assert repr(ElicitURL("Pay", PAGE)) == f"ElicitURL('Pay', '{PAGE}')"
        assert "Hi" in repr(Sample("Hi", max_tokens=9))
        assert repr(ListRoots()) == "ListRoots()"


class TestForms:
    def test_the_words_of_a_form(self) -> None:
        """A form goes out with its schema and names no mode, which means a form (ELC-1, ELC-2)."""
        for revision in (NEWEST, NOVEMBER, JUNE):
            params = wire(Elicit("When?", Wish), revision)
            assert set(params) == {"message", "requestedSchema"}
            assert params["requestedSchema"]["properties"]["day"] == {"type": "string"}
            assert params["requestedSchema"]["required"] == ["day"]

    def test_an_older_client_gets_what_it_knows_of_a_form(self) -> None:
        """2025-06-18 has no default but a boolean's; a form that it cannot show is not asked there (ELC-3, ELC-4)."""
        assert wire(Elicit("When?", Wish), NOVEMBER)["requestedSchema"]["properties"]["seats"]["default"] == 2
        assert "default" not in wire(Elicit("When?", Wish), JUNE)["requestedSchema"]["properties"]["seats"]
        many = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["x"]}}}}
        with pytest.raises(CannotAsk, match="cannot be shown this form"):
            Elicit("Which?", many).params(JUNE)

    def test_the_same_words_each_time(self) -> None:
        """The params of one question are the same bytes whenever they are made."""
        made = [msgspec.json.encode(Elicit("When?", Wish).params(NEWEST)) for _ in range(3)]
        assert len(set(made)) == 1

    def test_a_form_that_is_none(self) -> None:
        """A form that the protocol does not allow is not asked; the error names the field (ELC-2)."""
        nested = {"type": "object", "properties": {"where": {"type": "object"}}}
        with pytest.raises(RegistrationError, match="where"):
            Elicit("Where?", nested).params(NEWEST)

    def test_a_secret_is_not_asked_for_by_form(self) -> None:
        """Passwords and keys are refused before anybody is asked (ELC-6, P12)."""
        form = {"type": "object", "properties": {"password": {"type": "string"}}}
        with pytest.raises(RegistrationError, match="password"):
            Elicit("Log in", form).params(NEWEST)

    def test_an_accepted_form_is_given_as_its_type(self) -> None:
        """What was filled in comes as the type that was asked for, what was left out with its default (ELC-5)."""
        said = Elicit("When?", Wish).read(answer(action="accept", content={"day": "Monday"}))
        assert said == AcceptedElicitation(Wish("Monday", 2))
        assert (said.action, bool(said)) == ("accept", True)

    @pytest.mark.parametrize("extra", [{}, {"content": None}, {"content": {}}, {"content": {"day": 3}}])
    def test_a_no_is_not_judged_like_a_yes(self, extra: dict[str, Any]) -> None:
        """On decline and cancel content counts for nothing, and neither is true in a condition (F63)."""
        declined = Elicit("When?", Wish).read(answer(action="decline", **extra))
        cancelled = Elicit("When?", Wish).read(answer(action="cancel", **extra))
        assert (declined, cancelled) == (DeclinedElicitation(), CancelledElicitation())
        assert [each.action for each in (declined, cancelled)] == ["decline", "cancel"]
        assert [each.data for each in (declined, cancelled)] == [None, None]
        assert not declined
        assert not cancelled

    def test_an_empty_form_needs_no_content(self) -> None:
        """Accept without content is fine where nothing was asked (F63)."""
        empty: dict[str, Any] = {"type": "object", "properties": {}}
        for extra in ({}, {"content": None}, {"content": {}}):
            assert Elicit("Go on?", empty).read(answer(action="accept", **extra)) == AcceptedElicitation({})

    @pytest.mark.parametrize(
        ("raw", "text"),
        [
            (answer(action="accept", content={"day": 12345}), "day"),
            (answer(action="accept", content={"seats": 3}), "day"),
            (answer(action="accept"), "day"),
            (answer(action="accept", content=None), "day"),
            (answer(action="accept", content=["Monday"]), "no object"),
            (answer(action="yes", content={"day": "Monday"}), "no elicitation result"),
            (answer(content={"day": "Monday"}), "no elicitation result"),
            (b"null", "no elicitation result"),
            (b"12", "no elicitation result"),
        ],
    )
    def test_an_answer_that_does_not_fit(self, raw: bytes, text: str) -> None:
        """Content that does not fit the schema on accept, and what is no answer at all, is an error (F63, MR-8)."""
        with pytest.raises(ValueError, match=text):
            Elicit("When?", Wish).read(raw)

    def test_a_message_is_a_text(self) -> None:
        """What is shown to a person must be a text."""
        with pytest.raises(TypeError, match="message must be a text"):
            Elicit(3, Wish)  # type: ignore[arg-type]


class TestPages:
    @pytest.mark.parametrize(
        "url",
        [
            PAGE,
            "https://pay.example:8443/a?b=c#d",
            "http://localhost:9/x",
            "http://127.0.0.1/x",
            "http://127.1.2.3:80/",
            "http://[::1]:8/x",
            "HTTPS://PAY.EXAMPLE/",
        ],
    )
    def test_where_a_person_may_be_sent(self, url: str) -> None:
        """To an https page, or to http on this machine (ELC-7)."""
        assert ElicitURL("Go", url).url == url

    @pytest.mark.parametrize(
        ("url", "text"),
        [
            ("http://pay.example/", "use https"),
            ("http://127.0.0.1.evil.example/", "use https"),
            ("http://localhost.evil.example/", "use https"),
            ("javascript:alert(1)", "https page only"),
            ("file:///etc/passwd", "https page only"),
            ("data:text/html,hi", "https page only"),
            ("ftp://pay.example/", "https page only"),
            ("https://user:pass@pay.example/", "user or password"),
            ("https://user@pay.example/", "user or password"),
            ("https://@pay.example/", "user or password"),
            ("https:///nowhere", "names no host"),
            ("https:pay.example", "names no host"),
            ("https://pay.example:port/", "no URL"),
            ("https://[::1/", "no URL"),
            ("https://pay.example/a b", "no URL"),
            ("https://pay.example/\n", "no URL"),
            ("https://pay.example\\@evil.example/", "no URL"),
            ("https://p\u0430y.example/", "no URL"),
            ("pay.example", "no URL"),
            ("", "no URL"),
        ],
    )
    def test_where_a_person_is_never_sent(self, url: str, text: str) -> None:
        """Other schemes, credentials and what is no URL are errors before anybody is asked (ELC-7, P13)."""
        with pytest.raises(ValueError, match=text):
            ElicitURL("Go", url)

    def test_credentials_are_not_repeated_in_the_error(self) -> None:
        """A password that stood in a URL stands in no log."""
        with pytest.raises(ValueError) as fault:
            ElicitURL("Go", "https://user:hunter2@pay.example/")
        assert "hunter2" not in str(fault.value)

    def test_the_words_of_a_page(self) -> None:
        """Both revisions with pages name the mode; only 2025-11-25 has an id for the visit (ELC-7, ELC-8)."""
        page = ElicitURL("Pay", PAGE, id="visit-1")
        assert wire(page, NEWEST) == {"message": "Pay", "mode": "url", "url": PAGE}
        assert wire(page, NOVEMBER) == {"message": "Pay", "mode": "url", "url": PAGE, "elicitationId": "visit-1"}

    def test_each_visit_has_its_own_id(self) -> None:
        """Without an id each question makes one, and keeps it under another key."""
        first, second = ElicitURL("Pay", PAGE), ElicitURL("Pay", PAGE)
        assert len(first.id) >= 32
        assert first.id != second.id
        assert first.keyed("pay").id == first.id

    @pytest.mark.parametrize(
        ("action", "said"),
        [
            ("accept", AcceptedElicitation(None)),
            ("decline", DeclinedElicitation()),
            ("cancel", CancelledElicitation()),
        ],
    )
    def test_what_a_person_says_to_a_page(self, action: str, said: Any) -> None:
        """The action counts and nothing else: a page's answer has no content (ELC-5)."""
        assert ElicitURL("Pay", PAGE).read(answer(action=action)) == said
        assert ElicitURL("Pay", PAGE).read(answer(action=action, content={"a": 1})) == said

    def test_pages_that_must_come_first(self) -> None:
        """ElicitationRequired holds pages, at least one, and says what they are for (ELC-8)."""
        pages = ElicitURL("Pay", PAGE), ElicitURL("Sign", PAGE)
        fault = ElicitationRequired(*pages)
        assert (fault.pages, str(fault), fault.code) == (pages, "Pay; Sign", -32042)
        with pytest.raises(TypeError, match="one or more ElicitURL"):
            ElicitationRequired()
        with pytest.raises(TypeError, match="one or more ElicitURL"):
            ElicitationRequired(Elicit("When?", Wish))  # type: ignore[arg-type]


class TestRoots:
    def test_the_roots_of_a_client(self) -> None:
        """Each root is a file URI, perhaps with a name (ROOT-1)."""
        roots = ListRoots().read(answer(roots=[{"uri": "file:///srv/me", "name": "Home"}, {"uri": "FILE://host/x"}]))
        assert [(root.uri, root.name) for root in roots] == [("file:///srv/me", "Home"), ("FILE://host/x", None)]
        assert ListRoots().read(answer(roots=[])) == []

    @pytest.mark.parametrize(
        ("raw", "text"),
        [
            (answer(roots=[{"uri": "file:///a"}, {"uri": "https://evil.example/"}]), "no file URI"),
            (answer(roots=[{"uri": "file:a"}]), "no file URI"),
            (answer(roots=[{"uri": "/srv/me"}]), "no file URI"),
            (answer(roots=[{"name": "Home"}]), "no list of roots"),
            (answer(), "no list of roots"),
            (b"[]", "no list of roots"),
        ],
    )
    def test_what_is_no_root(self, raw: bytes, text: str) -> None:
        """One root that is no file URI makes the answer malformed (ROOT-1, MR-7)."""
        with pytest.raises(ValueError, match=text):
            ListRoots().read(raw)


def test_the_table_of_revisions_is_the_one_meant_here() -> None:
    """The names that these tests use are those of the revisions."""
    assert [each.name for each in (NEWEST, NOVEMBER, JUNE)] == ["2026-07-28", "2025-11-25", "2025-06-18"]
    assert find("2024-11-05") is OLDEST
