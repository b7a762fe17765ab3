"""Which fields of a form ask for a secret: no form may, for its content passes through the client (ELC-6, P12)."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final, cast

Json = dict[str, Any]

_LETTERS: Final = 50_000
"""Letters of names, titles and descriptions in one form that are read; what is larger is no form for a person."""
_PARTS: Final = 300_000
"""Parts of one schema that are looked at, options among them."""

_JOINTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_GAPS = re.compile(r"[\W_]+")

# What follows makes of a secret a word about one: its name, its length, who keeps it.
_ABOUT = (
    "(?! ?(?:names?|ids?|identifiers?|labels?|types?|kinds?|methods?|channels?|polic(?:y|ies)|rules?|lengths?|sizes?"
    "|strength|counts?|limits?|budgets?|usage|manage(?:r|rs|ment)|rotations?|expir(?:y|es|ation)|lifetimes?|ttl"
    "|locations?|paths?|stores?|scopes?|prefix(?:es)?|fields?|columns?|versions?|hints?|issuers?|holders?|santa"
    "|required|enabled|optional)\\b)"
)
_KEYS = "api|access|secret|private|signing|encryption|decryption|ssh|master|auth|account|recovery|wallet|session"
_TOKENS = (
    "access|auth|authentication|authori[sz]ation|bearer|refresh|id|api|security|session|oauth|csrf|xsrf|bot|device|user"
    "|login|sso|personal|your"
)
_CODES = (
    "one time|2 ?fa|mfa|two factor|verification|authenticator|authentication|auth|login|log in|sign in|sms|backup"
    "|recovery|security|confirmation|cvv|cvc|pin"
)
_ANYWHERE = (
    r"pass ?(?:words?|wd|phrases?|codes?)",
    r"\bpwd",
    r"\b(?:client ?|app ?|web ?hook ?)?secrets?",
    r"\bcredentials?",
    rf"\b(?:{_KEYS}) ?keys?",
    rf"\b(?:{_TOKENS}) ?tokens?",
    rf"\b(?:{_CODES}) ?codes?",
    r"\bone time pins?",
    r"\b(?:pin (?:number|digits)|(?:card|atm|bank|sim|your) pin)",
    r"\b(?:h|t)?otps?",
    r"\b(?:jwt|cvv|cvc)",
    r"\bcard ?(?:number|no|verification|validation)",
    r"\b(?:credit|debit|payment|bank) ?cards?",
    r"\bcard expir(?:y|ation|es)",
    r"\bssn",
    r"\bsocial security(?: number| no)?",
    r"\b(?:seed|recovery|backup|wallet|mnemonic) (?:phrase|words?)",
    r"\bsecurity (?:question )?answers?",
    r"\bmaiden name",
    r"\b(?:session|auth|login) cookies?",
    r"contraseñas?",
    r"\bmots? de passe",
    r"passw(?:o|ö)rte?r?",
    r"kennw(?:o|ö)rte?r?",
    r"\bsenhas?",
    r"парол[ьяейю]+",
)
_SECRET = re.compile(f"(?:{'|'.join(_ANYWHERE)})\\b{_ABOUT}|密码|密碼|パスワード|暗証番号|비밀번호")
_WHOSE_PIN = frozenset({"my", "new", "old", "current", "user", "account", "login"})
_OTHER_TOKENS = frozenset(
    {"next", "previous", "page", "paging", "continuation", "cursor", "sync", "stop", "start", "end", "first", "last"}
    | {"mask", "pad", "special", "separator", "progress", "cancel", "per", "each", "input", "output", "max", "min"}
)


def secret_field(schema: Any) -> str | None:
    """The first field of a form whose name, title or description asks for a secret, else None (ELC-6, P12).

    Fields into which no secret can be put count as harmless: yes or no, and choices. The schema may be any, also one
    that nests; one that is too large to be read to its end counts as asking where the reading stopped.
    """
    letters, left = _LETTERS, _PARTS
    waiting: list[tuple[str, Any]] = [("", schema)]
    for name, node in waiting:
        parts: list[tuple[str, Any]] = []
        if isinstance(node, list):
            parts = [(name, part) for part in cast("list[Any]", node)]
        elif isinstance(node, dict):
            known = cast("Json", node)
            parts = _inside(name, known)
            if name and not _is_harmless(known):
                texts = [text for text in (known.get("title"), known.get("description")) if isinstance(text, str)]
                letters -= len(name) + sum(map(len, texts))
                if letters < 0 or _asks(name, known, texts):
                    return name
        left -= len(parts)
        if left < 0:
            return name
        waiting += parts
    return None


def _inside(name: str, node: Json) -> list[tuple[str, Any]]:
    """The schemas in a schema, each with the name of the field that it belongs to."""
    parts: list[tuple[str, Any]] = []
    for keyword, value in node.items():
        if keyword == "properties" and isinstance(value, dict):
            parts += [(str(key), part) for key, part in cast("Json", value).items()]
        elif isinstance(value, dict | list):
            parts.append((name, cast("Any", value)))
    return parts


def _asks(name: str, node: Json, texts: list[str]) -> bool:
    if node.get("format") == "password" or node.get("writeOnly") is True:
        return True
    heads = [text for text in (name, node.get("title")) if isinstance(text, str)]
    if any(_is_secret_name(spoken) for text in heads for spoken in _spoken(text)):
        return True
    return any(_SECRET.search(spoken) for text in (name, *texts) for spoken in _spoken(text))


def _is_secret_name(spoken: str) -> bool:
    """Words that are secrets where a name or title ends with them; within a sentence they may be anything."""
    *before, last = spoken.split(" ")
    if last == "pin":
        return not before or (len(before) == 1 and before[0] in _WHOSE_PIN)
    return (last == "token" and (not before or before[-1] not in _OTHER_TOKENS)) or spoken == "mnemonic"


def _spoken(text: str) -> tuple[str, str]:
    """A name or sentence as words of small letters; also without a gap where small and large letters meet."""
    plain = unicodedata.normalize("NFKC", text)[:_LETTERS]  # some letters become eighteen
    if not plain.isascii():
        plain = "".join([letter for letter in plain if unicodedata.category(letter) != "Cf"])
    return _words(_JOINTS.sub(" ", plain)), _words(plain)


def _words(text: str) -> str:
    return _GAPS.sub(" ", text).strip().lower()


def _is_harmless(node: Json) -> bool:
    if node.get("type") in ("boolean", "null") or "const" in node or isinstance(node.get("enum"), list):
        return True
    options: Any = node.get("oneOf", node.get("anyOf"))
    return isinstance(options, list) and all(
        isinstance(option, dict) and "const" in option for option in cast("list[Any]", options)
    )


def message_field(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A form whose one field has the message for its title, for `secret_field` to look at.

    Of a form that asks for one free text the message is what says which; of any other the fields do: no field then.
    """
    fields: Any = schema.get("properties")
    if not isinstance(fields, dict) or len(fields) != 1:  # pyright: ignore[reportUnknownArgumentType]
        return {}
    (only,) = fields.values()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(only, dict) or only.get("type") != "string" or not {"enum", "oneOf"}.isdisjoint(only):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return {}
    return {"properties": {"value": {"type": "string", "title": message}}}
