"""Forms of an elicitation: what a `requestedSchema` may say in which revision, and what content fits it (ELC-2).

A form is read afresh at each call: it has a hundred fields at most, and a person takes longer to fill it in.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from itertools import islice
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct

from .printable import printable
from .revisions import Revision
from .secret_fields import secret_field as secret_field
from .uri import is_uri

Json = dict[str, Any]

MAX_FIELDS: Final = 100
MAX_OPTIONS: Final = 1000
"""Of one field."""
FORMATS: Final = ("email", "uri", "date", "date-time")

_SHOWN = 8
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
_MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}")
_LABEL = re.compile(r"[A-Za-z0-9-]{1,63}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_Moment = Annotated[datetime, Meta(tz=True)]

_ANY_FIELD = frozenset({"type", "title", "description", "default"})
_KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "a string": _ANY_FIELD | {"minLength", "maxLength", "format"},
    "a number": _ANY_FIELD | {"minimum", "maximum"},
    "a boolean": _ANY_FIELD,
    "a choice": _ANY_FIELD | {"enum", "enumNames"},
    "a choice with titles": _ANY_FIELD | {"oneOf"},
    "a choice of several": _ANY_FIELD | {"items", "minItems", "maxItems"},
}
_ROOT = frozenset({"$schema", "type", "title", "description", "properties", "required"})
_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}
_LENGTHS = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


class _Field(Struct, frozen=True):
    """A field as content is judged by it; `options` are the values that can be chosen, with their titles."""

    kind: str
    low: float | None = None
    high: float | None = None
    format: str | None = None
    options: dict[str, str] | None = None


def check_form(schema: Any, revision: Revision | None) -> None:
    """Raises ValueError, naming the field and the fix, where `schema` is no form that `revision` allows (ELC-2, ELC-3).

    None stands for the newest revision. A form has 100 fields and 1000 options for each at most, its bounds leave
    something to enter, and its defaults fit.
    """
    fields, _ = _read(schema)
    if revision is None or revision.form_choices:
        return
    if "form" not in revision.elicitation:
        raise ValueError(f"protocol revision {revision.name} has no forms")
    for name, field in fields.items():
        if field.kind == "array":
            raise _fault(name, f"protocol revision {revision.name} has no choice of several; ask for one, or yes or no")
        if "oneOf" in schema["properties"][name]:
            raise _fault(name, f"protocol revision {revision.name} has no `oneOf`; write `enum` and `enumNames`")
        if "default" in schema["properties"][name] and field.kind != "boolean":
            raise _fault(name, f"protocol revision {revision.name} has a `default` on booleans only; take it away")


def fit_form(schema: Json, revision: Revision) -> Json:
    """The form in the words of `revision`; the very same dict where nothing has to change (ELC-3, ELC-4).

    On 2025-06-18 titled options become `enum` with `enumNames`, and defaults stay on booleans alone. Raises ValueError,
    naming the field, for what the revision has no words for, and as `check_form` does.
    """
    if revision.form_choices:
        check_form(schema, revision)
        return schema
    fields, required = _read(schema)
    properties: Json = {}
    for name, field in fields.items():
        part: Json = dict(schema["properties"][name])
        if field.kind != "boolean":
            part.pop("default", None)
        if "oneOf" in part and field.options is not None:
            del part["oneOf"]
            part["enum"], part["enumNames"] = list(field.options), list(field.options.values())
        properties[name] = part
    fitted: Json = {"type": "object", "properties": properties}
    if required:
        fitted["required"] = required
    check_form(fitted, revision)
    return fitted


def filled(schema: Json, content: Json) -> Json:
    """`content` with the default of each field that it does not have (ELC-4); the schema may be any.

    A field that is None and need not be there was emptied by the person: it is left out, and gets no default.
    """
    required = cast("list[Any]", _as(list, schema.get("required")))
    whole = {name: value for name, value in content.items() if value is not None or name in required}
    for name, part in cast("Json", _as(dict, schema.get("properties"))).items():
        if name in content:
            continue
        default = cast("Json", _as(dict, part)).get("default")
        if default is not None:
            whole[name] = [*cast("list[Any]", default)] if isinstance(default, list) else default
    return whole


def problems(schema: Json, content: Any) -> list[str]:
    """Where `content` does not fit the form and why, each beginning with the place, as in `$.age` (ELC-5).

    Names that the form does not have are ignored, an integral float is an integer, a boolean no number. Raises
    ValueError where `check_form` does.
    """
    fields, required = _read(schema)
    if not isinstance(content, dict):
        return [f"$: expected object, got {_type_of(content)}"]
    given = cast("Json", content)
    missing = [f"{_place(name)}: a value is required" for name in required if name not in given]
    found = [(name, _misfit(field, given[name])) for name, field in fields.items() if name in given]
    return missing + [f"{_place(name)}: {fault}" for name, fault in found if fault is not None]


def _as(kind: type, value: Any) -> Any:
    """The value where it is of the kind, else an empty one."""
    return value if isinstance(value, kind) else kind()


# --- the form --------------------------------------------------------------------------------------------------------


def _fault(name: Any, text: str) -> ValueError:
    return ValueError(f"field {printable(str(name), 60)!r}: {text}")


def _read(schema: Any) -> tuple[dict[str, _Field], list[str]]:
    """The fields of a form, and the names of those that must be filled in."""
    if not isinstance(schema, dict) or (root := cast("Json", schema)).get("type") != "object":
        raise ValueError('a form is a schema of `"type": "object"`')
    if unknown := _others(root, _ROOT):
        raise ValueError(f"a form has no {unknown}; take it away")
    properties: Any = root.get("properties")
    if not isinstance(properties, dict):
        raise ValueError("a form has its fields in `properties`; give it an object, which may be empty")
    parts = cast("Json", properties)
    if len(parts) > MAX_FIELDS:
        raise ValueError(f"a form has {MAX_FIELDS} fields at most, and this one {len(parts)}; ask in several steps")
    fields = {name: _field(name, part) for name, part in parts.items()}
    required: Any = root.get("required", [])
    if not isinstance(required, list):
        raise ValueError("`required` is a list of the names of fields")
    for name in cast("list[Any]", required):
        if not isinstance(name, str) or name not in fields:
            raise ValueError(f"`required` names {printable(str(name), 60)!r}, which is no field of the form")
    return fields, list(dict.fromkeys(cast("list[str]", required)))


def _field(name: Any, part: Any) -> _Field:
    if not isinstance(name, str) or not name:
        raise _fault(name, "a field's name is a text, and not empty")
    if not isinstance(part, dict):
        raise _fault(name, "a field is described by an object")
    known = cast("Json", part)
    try:
        field = _kind(known)
        for text in ("title", "description"):
            if not isinstance(known.get(text, ""), str):
                raise ValueError(f"`{text}` is a text")
        if "default" in known and (fault := _misfit(field, known["default"])):
            raise ValueError(f"the default does not fit: {fault}")
    except ValueError as error:
        raise _fault(name, str(error)) from None
    return field


def _kind(part: Json) -> _Field:
    kind: Any = part.get("type")
    if kind == "string" and "oneOf" in part:
        _allow(part, "a choice with titles")
        return _Field("string", options=_titled(part["oneOf"], "oneOf"))
    if kind == "string" and "enum" in part:
        _allow(part, "a choice")
        return _Field("string", options=_named(part))
    if kind == "string":
        _allow(part, "a string")
        given: Any = part.get("format")
        if "format" in part and given not in FORMATS:
            raise ValueError(f"`format` is one of {', '.join(FORMATS)}, not {_shown(given)}")
        return _Field("string", *_lengths(part, "string"), given)
    if kind != "array" and part.keys() & {"enum", "oneOf"}:
        raise ValueError("the options of a form are texts, with `type` string")
    if kind == "number" or kind == "integer":
        _allow(part, "a number")
        return _Field(kind, *_bounds(part, whole=kind == "integer"))
    if kind == "boolean":
        _allow(part, "a boolean")
        return _Field("boolean")
    if kind == "array":
        _allow(part, "a choice of several")
        return _several(part)
    raise ValueError(
        "`type` is string, number, integer, boolean, or array for a choice of several; a form is flat, and each field "
        "of one kind"
    )


def _several(part: Json) -> _Field:
    items: Any = part.get("items")
    if not isinstance(items, dict):
        raise ValueError("a choice of several has its options in `items`")
    inside = cast("Json", items)
    if inside.keys() == {"anyOf"}:
        options = _titled(inside["anyOf"], "anyOf")
    elif inside.keys() == {"type", "enum"} and inside["type"] == "string":
        options = _named(inside)
    else:
        raise ValueError("an array is a choice of several: its `items` are type string and enum, or anyOf, alone")
    low, high = _lengths(part, "array")
    if low is not None and low > len(options):
        raise ValueError(f"`minItems` is {low}, and there are {len(options)} options")
    return _Field("array", low, high, options=options)


def _allow(part: Json, what: str) -> None:
    if unknown := _others(part, _KEYWORDS[what]):
        allowed = ", ".join(sorted(_KEYWORDS[what] - _ANY_FIELD)) or "title and description"
        raise ValueError(f"{what} has no {unknown} in a form, only {allowed}")


def _others(part: Json, known: frozenset[str]) -> str:
    return ", ".join(f"`{printable(str(name), 60)}`" for name in list(part.keys() - known)[:_SHOWN])


def _named(part: Json) -> dict[str, str]:
    values = _texts(part["enum"], "enum")
    titles = _texts(part.get("enumNames", values), "enumNames")
    if len(titles) != len(values):
        raise ValueError(f"`enumNames` has {len(titles)} titles for {len(values)} options")
    return _options(list(zip(values, titles, strict=True)))


def _titled(options: Any, keyword: str) -> dict[str, str]:
    if not isinstance(options, list):
        raise ValueError(f"`{keyword}` is a list of options")
    pairs: list[tuple[Any, Any]] = []
    for option in cast("list[Any]", options):
        if not isinstance(option, dict) or cast("Json", option).keys() != {"const", "title"}:
            raise ValueError(f"each option in `{keyword}` has a `const` and a `title`, and nothing else")
        known = cast("Json", option)
        pairs.append((known["const"], known["title"]))
    _texts([text for pair in pairs for text in pair], keyword)
    return _options(pairs)


def _texts(values: Any, keyword: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in cast("list[Any]", values)):
        raise ValueError(f"the options of a form are texts; those in `{keyword}` are not")
    return cast("list[str]", values)


def _options(pairs: list[tuple[str, str]]) -> dict[str, str]:
    options = dict(pairs)
    if not options or len(options) < len(pairs):
        raise ValueError("a choice has one option or more, each of them once")
    if len(options) > MAX_OPTIONS:
        raise ValueError(f"a choice has {MAX_OPTIONS} options at most, and this one {len(options)}; ask for a text")
    return options


def _lengths(part: Json, kind: str) -> tuple[int | None, int | None]:
    low, high = (part.get(keyword) for keyword in _LENGTHS[kind])
    for keyword, value in zip(_LENGTHS[kind], (low, high), strict=True):
        if keyword in part and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53):
            raise ValueError(f"`{keyword}` is a whole number, and not below 0")
    if low is not None and high is not None and low > high:
        raise ValueError(f"`{_LENGTHS[kind][0]}` is above `{_LENGTHS[kind][1]}`; nothing could be entered")
    return low, high


def _bounds(part: Json, *, whole: bool) -> tuple[float | None, float | None]:
    low, high = part.get("minimum"), part.get("maximum")
    for keyword, value in (("minimum", low), ("maximum", high)):
        if keyword in part and not _is_number(value):
            raise ValueError(f"`{keyword}` is a number")
    if low is None or high is None:
        return low, high
    if (math.ceil(low) > math.floor(high)) if whole else (low > high):
        raise ValueError("nothing could be entered between `minimum` and `maximum`")
    return low, high


# --- the content -----------------------------------------------------------------------------------------------------


def _misfit(field: _Field, value: Any) -> str | None:
    """What is wrong with a value of the field; None where it fits."""
    if field.kind == "array":
        return _wrong_choices(field, value)
    if field.kind == "string":
        return _wrong_text(field, value)
    if field.kind == "boolean":
        return None if isinstance(value, bool) else f"expected boolean, got {_type_of(value)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"expected {field.kind}, got {_type_of(value)}"
    if not _is_number(value):
        return "is no number that has a place in a form: not finite, or too large"
    if field.kind == "integer" and not float(value).is_integer():
        return "expected integer, got number"
    if field.low is not None and value < field.low:
        return f"must be {field.low} or more"
    if field.high is not None and value > field.high:
        return f"must be {field.high} or less"
    return None


def _wrong_text(field: _Field, value: Any) -> str | None:
    if not isinstance(value, str):
        return f"expected string, got {_type_of(value)}"
    if field.options is not None:
        return None if value in field.options else f"must be one of {_listed(field.options)}"
    if field.low is not None and len(value) < field.low:
        return f"must have {field.low} characters or more"
    if field.high is not None and len(value) > field.high:
        return f"must have {field.high} characters or less"
    if field.format is not None and not _FORMS[field.format](value):
        return f"is no {field.format}{_HINTS[field.format]}"
    return None


def _wrong_choices(field: _Field, value: Any) -> str | None:
    options = field.options or {}
    if not isinstance(value, list):
        return f"expected array, got {_type_of(value)}"
    chosen = cast("list[Any]", value)
    if not all(isinstance(item, str) and item in options for item in chosen):
        return f"must hold only {_listed(options)}"
    if len(set(chosen)) < len(chosen):
        return "must hold each option once at most"
    if field.low is not None and len(chosen) < field.low:
        return f"must hold {field.low} options or more"
    if field.high is not None and len(chosen) > field.high:
        return f"must hold {field.high} options or less"
    return None


def _is_number(value: Any) -> bool:
    """Whether it is a number that a double can hold: nothing else is sure to arrive as it was sent."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_email(text: str) -> bool:
    mailbox, _, domain = text.rpartition("@")
    if not _MAILBOX.fullmatch(mailbox) or ".." in mailbox or mailbox[0] == "." or mailbox[-1] == ".":
        return False
    labels = domain.split(".") if len(domain) <= 253 else []
    return bool(labels) and all(_LABEL.fullmatch(each) and each[0] != "-" and each[-1] != "-" for each in labels)


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _converts(text, _Moment)


def _converts(text: str, kind: Any) -> bool:
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


def _is_date(text: str) -> bool:
    return _converts(text, date)


_FORMS = {"email": _is_email, "uri": is_uri, "date": _is_date, "date-time": _is_time}
_HINTS = {
    "email": "",
    "uri": ", as in https://example.com/a",
    "date": ", as in 2026-07-28",
    "date-time": ", as in 2026-07-28T09:30:00Z",
}


# --- messages --------------------------------------------------------------------------------------------------------


def _place(name: str) -> str:
    return f"$.{name}" if _PLAIN_NAME.fullmatch(name) else f"$[{_shown(name)}]"


def _shown(value: Any) -> str:
    return f'"{printable(value, 60)}"' if isinstance(value, str) else _type_of(value)


def _listed(options: dict[str, str]) -> str:
    shown = ", ".join(map(_shown, islice(options, _SHOWN)))
    return shown if len(options) <= _SHOWN else f"{shown} and {len(options) - _SHOWN} more"


def _type_of(value: Any) -> str:
    return _TYPES.get(value.__class__, "no JSON value")
