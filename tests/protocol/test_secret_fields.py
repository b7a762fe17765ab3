"""Fields that ask for secrets: a table of names, and what cannot hold one (ELC-6, P12)."""

from typing import Any

import pytest

from jackfield.protocol.secret_fields import secret_field

SECRETS = """
    password Password PASSWORD passwd pwd dbPassword db_password userPassword2 pASSWORD passphrase pass_phrase passcode
    secret clientSecret client_secret webhook_secret apiKey api_key API-Key APIKey apikey access_token accessToken
    authToken bearerToken refresh_token token github_token NPM_TOKEN idToken private_key privateKey ssh_key secret_key
    AWS_SECRET_ACCESS_KEY credentials jwt cardNumber card_number creditCard credit_card_number cvv CVC cvv2 cvc_code
    card_expiry pin PIN pin_code pinCode card_pin new_pin ssn SSN social_security_number otp OTP otp_code totp
    one_time_code oneTimePassword 2fa_code mfa_code verification_code recovery_codes seed_phrase recovery_phrase
    mnemonic security_answer mothers_maiden_name session_cookie contraseña Passwort Kennwort senha пароль 密码
    パスワード ＰＡＳＳＷＯＲＤ pass\u200bword
""".split()
SENTENCES = [
    "Your API key",
    "Card number",
    "One-time code",
    "Mother's maiden name",
    "Enter your password to go on.",
    "Paste your token here",
    "Personal access token",
    "The code from the authenticator code generator",
    "Mot de passe",
]
HARMLESS = """
    tokens_per_minute max_tokens token_count token_limit tokenizer stop_token page_token next_token secretary
    secretariat pin_message pinned board_pin opinion spin pin_to_top keyboard monkey key hotkey primary_key foreign_key
    public_key sort_key passenger passport compass bypass passage card card_color cardinality discard code postal_code
    country_code description author authenticity authentication_method password_policy passwordLength secret_name
    secrets_manager api_key_name key_pair_name access_key_id credential_type otp_method recovery_email backup_path
    session_name login name email amount address access authority ssnake potpourri
""".split()
HARMLESS_SENTENCES = [
    "Which card is it?",
    "How many tokens may be used?",
    "Pin the message",
    "Secretary's name",
    "Price per token",
    "Max output tokens",
    "The key of the song",
]


def asking(name: str = "x", **more: Any) -> str | None:
    return secret_field(
        {"type": "object", "properties": {"first": {"type": "string"}, name: {"type": "string", **more}}}
    )


@pytest.mark.parametrize("name", SECRETS)
def test_names_of_secrets(name: str) -> None:
    """A field is refused by its name, however that is written (ELC-6, P12)."""
    assert asking(name) == name


@pytest.mark.parametrize("text", SENTENCES)
def test_titles_and_descriptions_of_secrets(text: str) -> None:
    """A harmless name does not hide what the title or description asks for (ELC-6)."""
    assert asking(title=text) == "x"
    assert asking(description=text + " please") == "x"


@pytest.mark.parametrize("name", HARMLESS)
def test_names_that_only_look_like_it(name: str) -> None:
    """Words that contain a secret's name, or say something about one, are no secrets."""
    assert asking(name) is None


@pytest.mark.parametrize("text", HARMLESS_SENTENCES)
def test_titles_that_only_look_like_it(text: str) -> None:
    """Nor are sentences with such words."""
    assert asking(title=text, description=text) is None


@pytest.mark.parametrize(
    "field",
    [
        {"type": "boolean", "title": "Reset the password?"},
        {"type": "string", "enum": ["keep", "reset"]},
        {"type": "string", "oneOf": [{"const": "a", "title": "New password"}]},
        {"type": "array", "items": {"type": "string", "enum": ["password"]}, "title": "x"},
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Password"}]}},
    ],
)
def test_fields_that_can_hold_no_secret(field: dict[str, Any]) -> None:
    """Yes or no, and a choice, tell nobody a password, whatever they are about."""
    name = "wanted" if field["type"] == "array" else "password"
    assert secret_field({"type": "object", "properties": {name: field}}) is None


def test_numbers_hold_secrets() -> None:
    """A PIN or a card number is one as a number too (ELC-6)."""
    assert secret_field({"type": "object", "properties": {"pin": {"type": "integer"}}}) == "pin"


@pytest.mark.parametrize("mark", [{"format": "password"}, {"writeOnly": True}])
def test_marks_of_other_dialects(mark: dict[str, Any]) -> None:
    """What other schema dialects mark as a secret is one."""
    assert asking(**mark) == "x"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"login": {"type": "object", "properties": {"password": {"type": "string"}}}}},
        {"anyOf": [{"properties": {"password": {"type": "string"}}}]},
        {"$defs": {"const": {}, "enum": [], "A": {"properties": {"password": {}}}}, "$ref": "#/$defs/A"},
        {"const": {}, "type": "boolean", "x": {"const": 1, "y": {"properties": {"password": {}}}}},
        [{"properties": {"password": True, "b": {"properties": {"password": {}}}}}],
    ],
)
def test_forms_that_nest(schema: Any) -> None:
    """A form that is not flat, which some servers send, hides nothing in its depths (P12)."""
    assert secret_field(schema) == "password"


def test_forms_too_large_to_read() -> None:
    """Reading ends at a bound, and what is beyond it counts as asking: no padding hides a secret (P12)."""
    assert asking(description="x" * 50_001) == "x"
    assert secret_field({"properties": {"x": {"y": [[]] * 300_001}}}) == "x"
    assert asking(description="x" * 49_000) is None


@pytest.mark.parametrize("schema", [None, True, "password", 3, [], {}, {"properties": ["password"]}])
def test_what_is_no_form(schema: Any) -> None:
    """Anything may be asked about; what has no fields asks for nothing."""
    assert secret_field(schema) is None
