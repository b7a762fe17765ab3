"""URI templates: expanding, matching and their faults, and the guard for file names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jackfield.protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from jackfield.protocol.uri import LONGEST_TEMPLATE, LONGEST_URI, MOST_VARIABLES, Template, guard_segments, is_uri

VALUES: dict[str, Any] = {
    "name": "old books",
    "half": "50%",
    "path": "/a b/c",
    "pair": "x=1&y=2",
    "n": 7,
    "yes": True,
    "empty": "",
    "none": None,
    "list": ["red", "a,b", "§"],
    "keys": {"k": ";", "m n": "o"},
    "no_items": [],
    "no_keys": {},
}


def judged(template: Template, uri: str) -> bool:
    """Whether the template says what is in the URI, or refuses it as it should."""
    try:
        found = template.match(uri)
    except ProtocolError as refused:
        return refused.code == INVALID_PARAMS
    return found is None or set(found) <= set(template.names)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        # level 1 and 2
        ("{name}", "old%20books"),
        ("{half}/{n}/{yes}", "50%25/7/true"),
        ("{path}", "%2Fa%20b%2Fc"),
        ("{+path}", "/a%20b/c"),
        ("{+half}{+pair}", "50%25x=1&y=2"),
        ("x{#path}", "x#/a%20b/c"),
        ("§/{n}%c3%a9", "%C2%A7/7%C3%A9"),
        # level 3
        ("{n,name}", "7,old%20books"),
        ("{+n,path}", "7,/a%20b/c"),
        ("x{#n,path}", "x#7,/a%20b/c"),
        ("x{.n,name}", "x.7.old%20books"),
        ("x{/n,path}", "x/7/%2Fa%20b%2Fc"),
        ("x{;n,empty}", "x;n=7;empty"),
        ("x{?n,empty}", "x?n=7&empty="),
        ("x?a=1{&n,pair}", "x?a=1&n=7&pair=x%3D1%26y%3D2"),
        # level 4
        ("{name:3}{name:99}", "oldold%20books"),
        ("{path:2}{+path:3}", "%2Fa/a%20"),
        ("{list}", "red,a%2Cb,%C2%A7"),
        ("{list*}", "red,a%2Cb,%C2%A7"),
        ("{+list*}", "red,a,b,%C2%A7"),
        ("x{#list}", "x#red,a,b,%C2%A7"),
        ("x{.list*}", "x.red.a%2Cb.%C2%A7"),
        ("x{/list}", "x/red,a%2Cb,%C2%A7"),
        ("x{/list*,n}", "x/red/a%2Cb/%C2%A7/7"),
        ("x{;list}", "x;list=red,a%2Cb,%C2%A7"),
        ("x{?list*}", "x?list=red&list=a%2Cb&list=%C2%A7"),
        ("{keys}", "k,%3B,m%20n,o"),
        ("{keys*}", "k=%3B,m%20n=o"),
        ("{+keys*}", "k=;,m%20n=o"),
        ("x{/keys*}", "x/k=%3B/m%20n=o"),
        ("x{;keys*}", "x;k=%3B;m%20n=o"),
        ("x{?keys}", "x?keys=k,%3B,m%20n,o"),
        ("x?a=1{&keys*}", "x?a=1&k=%3B&m%20n=o"),
        # what has no value
        ("x{none}{unknown}{no_items}{no_keys*}", "x"),
        ("x{#none}{/none,unknown}{;no_items}{?no_keys*,none}", "x"),
        ("x{none,n,unknown}{?none,n}", "x7?n=7"),
        ("x{empty}{/empty}{.empty}{#empty}", "x/.#"),
        ("", ""),
    ],
)
def test_templates_are_expanded(template: str, uri: str) -> None:
    """Every operator and modifier of RFC 6570, with texts, numbers, lists, dicts and nothing (RSC-4)."""
    assert Template(template).expand(VALUES) == uri


@pytest.mark.parametrize(
    ("template", "values", "fault"),
    [
        ("{a}", {"a": b"x"}, "'a' must be a text, a list or a dict of texts, not bytes"),
        ("{a}", {"a": object()}, "'a' must be a text"),
        ("{a*}", {"a": [["x"]]}, "'a' holds list"),
        ("{a:3}", {"a": ["x"]}, "'a' must be a text: the template takes its first 3"),
    ],
)
def test_a_value_that_no_uri_can_hold_is_an_error(template: str, values: dict[str, Any], fault: str) -> None:
    """The error names the variable."""
    with pytest.raises(TypeError, match=fault):
        Template(template).expand(values)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x://{a", r"the expression at 4 has no end"),
        ("x://a}", r"'}' at 5"),
        ("x://{}", r"'' in the expression at 4 is no variable"),
        ("x://{a,}", r"'' in the expression at 4"),
        ("x://{=a}", r"'=a' in the expression at 4"),
        ("x://{a b}", r"'a b'"),
        ("x://{a{b}", r"'a\{b'"),
        ("x://{a..b}", r"'a\.\.b'"),
        ("x://{a:0}", r"'a:0' in the expression at 4 needs a length"),
        ("x://{a:10000}", r"'a:10000'"),
        ("x://{a:3*}", r"'a:3\*'"),
        ("x://{a*:3}", r"'a\*' ?|'a\*:3'"),
        ("x://{a:" + "9" * 5000 + "}", r"needs a length"),
        ("x:// {a}", r"' ' at 4"),
        ("x://%zz", r"'%' at 4"),
        ("x" * (LONGEST_TEMPLATE + 1), r"longer than"),
        ("{" + ",".join(f"v{i}" for i in range(MOST_VARIABLES + 1)) + "}", r"65 variables"),
    ],
)
def test_text_that_is_no_template_is_refused_with_its_place(text: str, fault: str) -> None:
    """A template's fault is a RegistrationError that says where it is; it never echoes a huge text."""
    with pytest.raises(RegistrationError, match=fault) as caught:
        Template(text)
    assert len(str(caught.value)) < 6000


def test_names_are_the_variables_in_their_order() -> None:
    """Each variable once, in the order of its first use, modifiers apart."""
    template = Template("x://{b}/{a:1,a}{/c*}{?d.e,b}")

    assert template.names == ("b", "a", "c", "d.e")
    assert repr(template) == "Template('x://{b}/{a:1,a}{/c*}{?d.e,b}')"


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("plan://{id}", "plan://calm-weekday", {"id": "calm-weekday"}),
        ("plan://{id}", "plan://", None),
        ("plan://{id}", "plans://a", None),
        ("plan://{id}", "plan://a/b", None),
        ("plan://{id}", "plan://a?b", None),
        ("plan://{id}/end", "plan://a/end", {"id": "a"}),
        ("plan://{id}/end", "plan://a/end/", None),
        ("plan://fixed", "plan://fixed", {}),
        ("plan://fixed", "plan://fixed2", None),
        ("", "", {}),
        ("", "x", None),
        # the most that leaves the rest able to match
        ("x:{a}-{b}", "x:1-2-3", {"a": "1-2", "b": "3"}),
        ("x:{a}.json", "x:a.json.json", {"a": "a.json"}),
        ("x:{a}{b}", "x:123", {"a": "12", "b": "3"}),
        ("x:{a}aa", "x:aaaa", {"a": "aa"}),
        ("x:{a}/{b}/{a}", "x:1/2/1", {"a": "1", "b": "2"}),
        ("x:{a}/{b}/{a}", "x:1/2/3", None),
        ("x:{+path}/{name}", "x:a/b/c", {"path": "a/b", "name": "c"}),
        ("x:{+path}", "x:/a/b?c", {"path": "/a/b?c"}),
        ("x:{+path}{?q}", "x:/a/b?q=1", {"path": "/a/b", "q": "1"}),
        ("x:?u={+u}{&n}", "x:?u=a/b&n=1", {"u": "a/b", "n": "1"}),
        ("x:{a,b}", "x:1,2", {"a": "1", "b": "2"}),
        ("x:{a,b}", "x:1", {"a": "1"}),
        ("x:{a,b}", "x:1,2,3", {"a": "1", "b": "2,3"}),
        ("x:{list*}", "x:1,2,3", {"list": ["1", "2", "3"]}),
        # segments, labels, fragments
        ("x:a{/b}", "x:a/1", {"b": "1"}),
        ("x:a{/b}", "x:a", {}),
        ("x:a{/b}", "x:a/1/2", None),
        ("x:a{/b,c}", "x:a/1/2", {"b": "1", "c": "2"}),
        ("x:a{/b,c}", "x:a/1", {"b": "1"}),
        ("x:a{/b,c}", "x:a/1/2/3", None),
        ("x:a{/b*}", "x:a/1/2/3", {"b": ["1", "2", "3"]}),
        ("x:a{/b*}/end", "x:a/1/2/end", {"b": ["1", "2"]}),
        ("x:a{/b*}", "x:a", {}),
        ("x:a{/v:1,v}", "x:a/b/book", {"v": "book"}),
        ("x:a{/v:1,v}", "x:a/c/book", None),
        ("x:a{/v:2}", "x:a/bo", {"v": "bo"}),
        ("x:a{/v:2}", "x:a/boo", None),
        ("x:a{.b}", "x:a.tar.gz", {"b": "tar.gz"}),
        ("x:a{.b*}", "x:a.tar.gz", {"b": ["tar", "gz"]}),
        ("x:a{.b,c}", "x:a.tar", {"b": "tar"}),
        ("x:a{#b}", "x:a#/c?d", {"b": "/c?d"}),
        ("x:a{#b}", "x:a", {}),
        ("x:a{;b,c}", "x:a;c=2;b=1", {"b": "1", "c": "2"}),
        ("x:a{;b,c}/d", "x:a;c/d", {"c": ""}),
    ],
)
def test_templates_are_matched(template: str, uri: str, values: dict[str, Any] | None) -> None:
    """`{+path}` and `{/segments*}` span slashes, `{name}` never does; each takes the most that it can (RSC-4)."""
    assert Template(template).match(uri) == values


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("?q=a&page=2", {"q": "a", "page": "2"}),
        ("?page=2&q=a", {"q": "a", "page": "2"}),
        ("?q=a", {"q": "a"}),
        ("?q=", {"q": ""}),
        ("?q", {"q": ""}),
        ("", {}),
        ("?", {}),
        ("?other=1&q=a&", {"q": "a"}),
        ("?tag=a&q=b&tag=c", {"q": "b", "tag": ["a", "c"]}),
        ("?tag=a", {"tag": ["a"]}),
        ("?q=a=b/c?d:e", {"q": "a=b/c?d:e"}),
        ("?q=a#page=2", {"q": "a"}),
        ("?q=a#frag&page=2", {"q": "a"}),
        ("#q=a", {}),
        ("?q=1+1&page=%2B", {"q": "1+1", "page": "+"}),
        ("?Q=a", {}),
    ],
)
def test_queries_come_in_any_order(query: str, values: dict[str, Any]) -> None:
    """Order, missing, unknown and repeated keys, "+" and a fragment are all defined (RSC-4, F58)."""
    assert Template("x://y{?q,page,tag*}").match("x://y" + query) == values


def test_a_single_value_given_twice_is_refused() -> None:
    """A repeated key where the template wants one value is INVALID_PARAMS, never a silent choice (F58)."""
    with pytest.raises(ProtocolError, match="'q' 2 times") as caught:
        Template("x://y{?q}").match("x://y?q=1&q=2")
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("%C2%A7%20141.61", "§ 141.61"),
        ("%c2%a7%20141.61", "§ 141.61"),
        ("§ 141.61", "§ 141.61"),
        ("a+b", "a+b"),
        ("a%2Fb", "a/b"),
        ("%252e%252e", "%2e%2e"),
        ("100%25", "100%"),
        ("a%23b%3Fc", "a#b?c"),
        ("a%00b", "a\0b"),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_values_are_decoded_exactly_once(written: str, value: str) -> None:
    """An escape is decoded once, an escaped escape stays one, "+" is no blank, and raw text is text (RSC-4, F58)."""
    assert Template("x://{v}").match(f"x://{written}") == {"v": value}
    assert Template("x://y{?v}").match(f"x://y?v={written}") == {"v": value}
    assert Template("x://y{/v*}").match(f"x://y/{written}/{written}") == {"v": [value, value]}


@pytest.mark.parametrize("written", ["%", "a%2", "%zz", "%2 0", "%ff", "%C2", "%ED%A0%80", "%u00e9"])
@pytest.mark.parametrize("template", ["x://y{/v}", "x://y{?v}", "x://y{/v*}", "x://y{/w}"])
def test_a_broken_escape_is_refused(template: str, written: str) -> None:
    """An escape without two digits, or that is no UTF-8, is INVALID_PARAMS once the template matches (RSC-4, F58)."""
    sign = "?v=" if "?" in template else "/"
    with pytest.raises(ProtocolError, match="escape") as caught:
        Template(template).match(f"x://y{sign}{written}")
    assert caught.value.code == INVALID_PARAMS
    assert Template("other://{v}").match(f"x://y{sign}{written}") is None


def test_literals_match_in_either_writing() -> None:
    """A literal outside ASCII fits the URI that has it escaped, and the one that has it raw."""
    template = Template("x://caf\u00e9/{v}")

    for written in ("x://caf\u00e9/1", "x://caf%C3%A9/1", "x://caf%c3%a9/1"):
        assert template.match(written) == {"v": "1"}


def test_half_of_a_surrogate_pair_is_refused() -> None:
    """Text that cannot be written as UTF-8 is INVALID_PARAMS, not a crash."""
    with pytest.raises(ProtocolError, match="surrogate") as caught:
        Template("x://{v}").match("x://\ud800")
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "template",
    [
        "x:{a}-{b}-{c}-{d}end",
        "x:{+a}{+b}{+c}{+d}end",
        "x:{+a}/{+b}/{+c}{/d*}/end",
        "x:{a}{b}{c}{.d}{?e,f}",
        "x:{a}aaaa{b}aaab",
    ],
)
@pytest.mark.parametrize("filling", ["a", "-", "/", "a-", "/-", "a%41", "?", "&a=", ".", "é"])
def test_a_huge_uri_is_matched_in_linear_time(template: str, filling: str) -> None:
    """100,000 characters that almost match many ways are done at once; backtracking would not come to an end (S05)."""
    for tail in ("!", "/!end", "/!aaab"):
        assert judged(Template(template), "x:" + (filling * 100_000)[:100_000] + tail)


@pytest.mark.parametrize("filling", ["a", "é", "%"])
def test_a_uri_over_the_limit_is_refused(filling: str) -> None:
    """A URI longer than the limit is INVALID_PARAMS, whatever it is made of; its fragment does not count (S05)."""
    with pytest.raises(ProtocolError, match="longer than") as caught:
        Template("x:{v}").match("x:" + filling * LONGEST_URI)
    assert caught.value.code == INVALID_PARAMS
    assert Template("x:{v}").match("x:a#" + filling * LONGEST_URI) == {"v": "a"}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
LISTS = st.lists(TEXT, min_size=1)
ROUND_TRIPS = [
    ("x://{a}/{b}", {"a": TEXT, "b": TEXT}),
    ("x://{a},{b}", {"a": TEXT, "b": TEXT}),
    ("x://{a,b}{/c*}", {"a": TEXT, "b": TEXT, "c": LISTS}),
    ("x://{a*}/end", {"a": LISTS}),
    ("x:/{/a,b}{?c,d*}", {"a": TEXT, "b": TEXT, "c": st.text(st.characters(exclude_categories=["Cs"])), "d": LISTS}),
    ("x:y{;a,b}{#c}", {"a": TEXT, "b": TEXT, "c": TEXT.filter(lambda text: "%" not in text)}),
    ("x:?k=v{&a}", {"a": TEXT}),
    ("x:{+a}", {"a": TEXT.filter(lambda text: not set(text) & {"%", "#"})}),
]


@given(st.data())
@pytest.mark.parametrize(("template", "strategies"), ROUND_TRIPS)
def test_what_was_expanded_is_matched(template: str, strategies: dict[str, Any], data: st.DataObject) -> None:
    """A URI made from values gives just these values back, whatever text they are (RSC-4)."""
    values = {name: data.draw(strategy, name) for name, strategy in strategies.items()}
    uri = Template(template).expand(values)
    assume(len(uri) < LONGEST_URI)

    assert Template(template).match(uri) == values
    assert uri.isascii()


@given(st.text(), st.text(st.sampled_from("x:/{}?+#a,*%2.&=;é ")))
def test_no_text_breaks_a_template_in_another_way(uri: str, text: str) -> None:
    """Whatever stands in a template or a URI: a RegistrationError, a ProtocolError, or an answer."""
    try:
        template = Template(text)
    except RegistrationError:
        return
    for tried in (uri, text, template.expand({"a": "1", "2": "x"})):
        assert judged(template, tried)


@pytest.mark.parametrize(
    "value", ["a", "a/b.txt", "a//b", ".hidden", "a..b", "..a", "a/.b/", "%2e%2e", "ab:c", "é", ""]
)
def test_a_path_that_stays_inside_is_passed(value: str) -> None:
    """An ordinary relative path comes back as it is (RSC-4)."""
    assert guard_segments(value) == value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("..", "'..' segment"),
        ("../a", "'..' segment"),
        ("a/../b", "'..' segment"),
        ("a/..", "'..' segment"),
        ("a/.. /b", "'..' segment"),
        ("a/.../b", "'..' segment"),
        ("/etc/passwd", "from the root"),
        ("//host/share", "from the root"),
        ("C:/x", "drive letter"),
        ("c:x", "drive letter"),
        ("a\\..\\b", "backslash"),
        ("\\\\host\\share", "backslash"),
        ("a\0b", "NUL"),
    ],
)
def test_a_path_that_could_leave_its_folder_is_refused(value: str, fault: str) -> None:
    """Dot-dot, roots, drives, backslashes and NUL are INVALID_PARAMS on every system (RSC-4, F58)."""
    with pytest.raises(ProtocolError, match=fault) as caught:
        guard_segments(value)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("written", ["%2e%2e%2fa", "..%2Fa", "a%2f..%2fb", "%2Fetc", "C%3A%5Cx", "a%5C..", "a%00"])
def test_a_decoded_path_cannot_leave_its_folder(written: str) -> None:
    """What an escape hides is seen, because the guard has the decoded value (RSC-4, F58)."""
    found = Template("file:///{+path}").match(f"file:///{written}")
    assert found is not None

    with pytest.raises(ProtocolError):
        guard_segments(str(found["path"]))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("https://example.com/a?b=c#d", True),
        ("plan://calm-weekday", True),
        ("urn:isbn:0451450523", True),
        ("a+b-c.d:x", True),
        ("x:%C3%A9", True),
        ("x:[::1]", True),
        ("x:", False),
        ("notes", False),
        ("/notes", False),
        ("://x", False),
        ("1x:y", False),
        ("x y:z", False),
        ("x:a b", False),
        ("x:%zz", False),
        ("x:é", False),
        ("x:a\nb", False),
        ("x:a\n", False),
        ("x:{a}", False),
        ("", False),
    ],
)
def test_a_uri_has_a_scheme_and_only_uri_characters(text: str, is_one: bool) -> None:
    """A fixed resource needs an absolute URI in the characters of RFC 3986 (RSC-4, RSC-5)."""
    assert is_uri(text) is is_one
