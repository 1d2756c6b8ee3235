"""One line of ours for the errors of many libraries of stores, none of which is imported here.

Botocore, aiohttp, gcsfs, google-auth and Azure's client each have exceptions of their own. They are classified by the
number of the HTTP answer where they carry one, by standard exceptions among their causes, and by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kinetoscope.errors import KinetoscopeError, MissingExtraError, NotFoundError

_EXTRAS: Final = {
    "s3": ("s3", "s3a"),
    "gcs": ("gs", "gcs"),
    "azure": ("abfs", "abfss", "az", "adl"),
}
"""Extras of ours, and which protocols each reads."""

_CREDENTIALS: Final = {
    "s3": "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_ENDPOINT_URL names another store;"
    " FSSPEC_S3_ANON=true reads what is public",
    "gcs": "`gcloud auth application-default login`, or GOOGLE_APPLICATION_CREDENTIALS names a key file",
    "azure": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or"
    " AZURE_STORAGE_SAS_TOKEN",
}

_UNKNOWN_USER = re.compile(
    r"NoCredentials|PartialCredentials|CredentialRetrieval|ProfileNotFound|TokenRetrieval|SSO|DefaultCredentials"
    r"|RefreshError|ClientAuthentication|NoAuth|PermissionError|Forbidden|Unauthorized"
)
_NO_LINE = re.compile(
    r"Connect|Timeout|Disconnected|ServiceRequestError|ServiceResponseError|TransportError|gaierror|DNSError"
)
_CUT_ERROR = re.compile(r"IncompleteRead|PayloadError|ResponseStreaming|ProtocolError|ContentLength|SSLError|SlowDown")
_CODE = re.compile(r"\b(?:InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|AuthenticationFailed)\b")
_NO_AZURE = "Must provide either a connection_string or account_name"
_MAX_CHARACTERS: Final = 200


def as_our_error(url: str, error: Exception) -> KinetoscopeError:
    """The error to raise when reading a URL failed with another library's error."""
    protocol = url.partition("://")[0].rpartition("::")[2].lower()
    extra = next((name for name, protocols in _EXTRAS.items() if protocol in protocols), "")
    chain = list(_chain(error))
    reason = _reason(chain)
    if isinstance(error, ImportError) and extra:
        return MissingExtraError(f"reading {protocol}://", extra)
    if _has_refusal(chain):
        hint = f"; credentials: {_CREDENTIALS[extra]}" if extra else ""
        return NotFoundError(f"{url}: access denied: {reason}{hint}")
    if _is_unreachable(chain):
        return NotFoundError(f"{url}: no connection: {reason}")
    if any(isinstance(each, FileNotFoundError) or _status(each) == 404 for each in chain):
        return NotFoundError(f"{url}: no such file or folder, or no such bucket")
    return NotFoundError(f"{url}: cannot be read: {reason}")


def is_refused(error: Exception) -> bool:
    """Whether the store refused the credentials."""
    return _has_refusal(list(_chain(error)))


def is_passing(error: Exception) -> bool:
    """Whether a retry may help: after a broken connection, an overloaded store; not for a missing file."""
    chain = list(_chain(error))
    if isinstance(error, (ImportError, KinetoscopeError)) or _has_refusal(chain):
        return False
    if any(_CUT_ERROR.search(type(each).__name__) for each in chain):  # which aiohttp gives the number of a bad request
        return True
    statuses = [status for each in chain if (status := _status(each))]
    if statuses:
        return statuses[0] in (408, 425, 429) or statuses[0] >= 500
    if _is_unreachable(chain):
        return True
    return isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, IsADirectoryError))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came of."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _has_refusal(chain: list[BaseException]) -> bool:
    return any(
        _status(each) in (401, 403)
        or isinstance(each, PermissionError)
        or _UNKNOWN_USER.search(type(each).__name__)
        or _CODE.search(str(each))
        or _NO_AZURE in str(each)
        for each in chain
    )


def _is_unreachable(chain: list[BaseException]) -> bool:
    return any(
        isinstance(each, (ConnectionError, TimeoutError)) or _NO_LINE.search(type(each).__name__) for each in chain
    )


def _status(error: BaseException) -> int:
    """The number of the HTTP answer that an error tells of; 0 if it tells of none."""
    answer = getattr(error, "response", None)
    facts = answer.get("ResponseMetadata") if isinstance(answer, dict) else None
    values = [facts.get("HTTPStatusCode")] if isinstance(facts, dict) else []
    for name in ("status_code", "status", "code"):
        values.append(getattr(error, name, None))
        if re.fullmatch(r"[1-5]\d\d", str(values[-1])):
            break  # aiohttp's `code` is deprecated, and says so
    return next((int(str(value)) for value in values if re.fullmatch(r"[1-5]\d\d", str(value))), 0)


def _reason(chain: list[BaseException]) -> str:
    """The message of the errors, in one line that is not too long."""
    for error in chain:
        strerror = error.strerror if isinstance(error, OSError) else None
        text = " ".join((strerror or str(error)).split())
        if text:
            return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
    return type(chain[0]).__name__
